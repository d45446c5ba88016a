/* The definition of convolution channel by channel. KERNEL_H, KERNEL_W: the size of the filters.
 * `height_order`, `width_order`: frequencies in the order of the kernel. TOGETHER: channels whose
 * packed filters lie number by number side by side. Rows and columns come from
 * anywhere, some columns from beside each other. */

#include <complex.h>

static void fill_sources(int64_t *from, int64_t count, int64_t size, int whole, unsigned *seed)
{
    for (int64_t i = 0; i < count; i++) from[i] = random_of(seed, (int)size + 1) - 1;
    if (whole)
        for (int64_t i = 0; i < count; i++) from[i] = i < size ? i : -1;
}

/* The transform of taps at one frequency, conjugated and divided by the size of a tile. */
static double complex one_frequency(const real *taps, int64_t row, int64_t col)
{
    const double turn = 2 * acos(-1);
    double complex sum = 0;
    for (int64_t i = 0; i < KERNEL_H; i++)
        for (int64_t k = 0; k < KERNEL_W; k++) {
            const double angle = turn * ((double)(row * i) / LENGTH_H + (double)(col * k) / LENGTH_W);
            sum += (double)taps[i * KERNEL_W + k] * (cos(angle) + I * sin(angle));
        }
    return sum / (LENGTH_H * LENGTH_W);
}

static int64_t numbers_of(winogen_strides s, int64_t images, int64_t channels, int64_t rows,
                          int64_t cols)
{
    return at(s, images - 1, channels - 1, rows - 1, cols - 1) + 1;
}

static int failed(int i, unsigned seed)
{
    const winogen_conv *const p = &calls[i];
    const int64_t rows = (p->tile_rows - 1) * p->step_h + LENGTH_H;
    const int64_t cols = (p->tile_cols - 1) * p->step_w + LENGTH_W;
    const int64_t size = (int64_t)sizeof(real), index = (int64_t)sizeof(int64_t);
    const int64_t read = numbers_of(p->input, p->batch, p->channels, HEIGHT_IN, WIDTH_IN);
    const int64_t written = numbers_of(p->output, p->batch, p->channels, p->out_height, p->out_width);
    real *input = numbers(read, &seed), *taps = numbers(p->channels * KERNEL_H * KERNEL_W, &seed);
    const int64_t points = LENGTH_W * LENGTH_H;
    const int64_t filters = (p->channels + TOGETHER - 1) / TOGETHER * points * 2 * TOGETHER;
    real *packed = exactly(filters * size, 8);
    int64_t *row_from = exactly(rows * index, 8), *col_from = exactly(cols * index, 8);
    real *output = exactly(written * size, 8);
    fill_sources(row_from, rows, HEIGHT_IN, 0, &seed);
    fill_sources(col_from, cols, WIDTH_IN, i % 2, &seed);
    for (int64_t k = 0; k < filters; k++) packed[k] = 0;
    for (int64_t c = 0; c < p->channels; c++)
        for (int64_t q = 0; q < LENGTH_W; q++)
            for (int64_t k = 0; k < LENGTH_H; k++) {
                const real *own = taps + c * KERNEL_H * KERNEL_W;
                const double complex x = one_frequency(own, height_order[k], width_order[q]);
                real *to = packed + c % TOGETHER
                         + (c / TOGETHER * points + q * LENGTH_H + k) * 2 * TOGETHER;
                to[0] = (real)creal(x), to[TOGETHER] = (real)cimag(x);
            }
    run(i, &(winogen_call){ .input = input, .packed = packed, .rows = row_from,
                            .columns = col_from, .output = output });
    int wrong = 0;
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t c = 0; c < p->channels; c++)
            for (int64_t y = 0; y < p->out_height; y++)
                for (int64_t x = 0; x < p->out_width; x++) {
                    double sum = 0;
                    for (int64_t k = 0; k < KERNEL_H; k++)
                        for (int64_t q = 0; q < KERNEL_W; q++) {
                            const int64_t row = row_from[y + k], col = col_from[x + q];
                            if (row < 0 || col < 0) continue;
                            sum += (double)taps[(c * KERNEL_H + k) * KERNEL_W + q]
                                 * (double)input[at(p->input, n, c, row, col)];
                        }
                    if (!(fabs((double)output[at(p->output, n, c, y, x)] - sum) < 0.01)) wrong++;
                }
    free(input), free(taps), free(packed), free(row_from), free(col_from), free(output);
    return wrong;
}
