/* Between convolutions: maxima of windows, pixels repeated, channels spread over pixels.
 *
 * Each is called as a kernel is: nine pointers, of which the first is a winogen_map and the others
 * the arrays, and a range of parts. A part is a row of outputs, or a plane with NCHW. `real` is
 * defined by whoever compiles. */

#include <string.h>

enum { INPUT = 1, OUTPUT = 7, CHUNK = 64 };

static int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }

/* The larger one; a NaN wins, as in frameworks. */
static inline real larger(real a, real b) { return b > a || b != b ? b : a; }

/* The largest number of the window from (y0, x0) to (y1, x1), of `count` channels or columns that
 * lie `step` apart in the input; outputs are neighbours. */
static void largest(const winogen_map *m, const real *in, int64_t y0, int64_t y1, int64_t x0,
                    int64_t x1, int64_t count, int64_t step, real *out)
{
    for (int64_t begin = 0; begin < count; begin += CHUNK) {
        const int64_t n = min_of(CHUNK, count - begin);
        const real *const from = in + begin * step;
        real best[CHUNK];
        const real *first = from + y0 * m->in_row + x0 * m->in_pixel;
        for (int64_t i = 0; i < n; i++) best[i] = first[i * step];
        for (int64_t y = y0; y < y1; y++)
            for (int64_t x = x0; x < x1; x++) {
                const real *tap = from + y * m->in_row + x * m->in_pixel;
                if (step == 1 && n == CHUNK)
                    for (int i = 0; i < CHUNK; i++) best[i] = larger(best[i], tap[i]);
                else
                    for (int64_t i = 0; i < n; i++) best[i] = larger(best[i], tap[i * step]);
            }
        memcpy(out + begin, best, (size_t)n * sizeof(real));
    }
}

/* A row of windows: pixel by pixel over the channels, or columns of one plane at once where no
 * window is cut off. */
static void pool_row(const winogen_map *m, const real *in, int64_t row, int64_t channels, real *out)
{
    const int64_t top = row * m->stride_h - m->pad_top;
    const int64_t y0 = max_of(top, 0), y1 = min_of(top + m->kernel_h, m->height);
    for (int64_t col = 0; col < m->out_width; col++) {
        const int64_t left = col * m->stride_w - m->pad_left;
        const int64_t x0 = max_of(left, 0), x1 = min_of(left + m->kernel_w, m->width);
        if (m->planar && x0 == left && x1 == left + m->kernel_w) {
            const int64_t last = (m->width + m->pad_left - m->kernel_w) / m->stride_w;
            const int64_t count = min_of(last + 1, m->out_width) - col;
            largest(m, in, y0, y1, x0, x1, count, m->stride_w, out + col);
            col += count - 1;
        } else {
            largest(m, in, y0, y1, x0, x1, channels, m->in_channel, out + col * m->out_pixel);
        }
    }
}

/* Rows and columns repeated `kernel` times. */
static void repeat_row(const winogen_map *m, const real *in, int64_t row, int64_t channels,
                       real *out)
{
    in += row / m->kernel_h * m->in_row;
    if (m->planar) {
        for (int64_t x = 0; x < m->width; x++)
            for (int64_t j = 0; j < m->kernel_w; j++)
                out[(x * m->kernel_w + j) * m->out_pixel] = in[x * m->in_pixel];
        return;
    }
    for (int64_t col = 0; col < m->out_width; col++)
        memcpy(out + col * m->out_pixel, in + col / m->kernel_w * m->in_pixel,
               (size_t)channels * sizeof(real));
}

/* Pixel (kernel * y + i, kernel * x + j) of channel c, from channel c * step_channel + i * step_row
 * + j * step_col of pixel (y, x). */
static void spread_row(const winogen_map *m, const real *in, int64_t row, int64_t channels,
                       real *out)
{
    const int64_t i = row % m->kernel_h, step = m->step_channel * m->in_channel;
    in += row / m->kernel_h * m->in_row + i * m->step_row * m->in_channel;
    for (int64_t x = 0; x < m->width; x++)
        for (int64_t j = 0; j < m->kernel_w; j++) {
            const real *from = in + x * m->in_pixel + j * m->step_col * m->in_channel;
            real *to = out + (x * m->kernel_w + j) * m->out_pixel;
            if (step == 1 && !m->planar)
                memcpy(to, from, (size_t)channels * sizeof(real));
            else
                for (int64_t c = 0; c < channels; c++) to[c * m->out_channel] = from[c * step];
        }
}

typedef void row_function(const winogen_map *, const real *, int64_t, int64_t, real *);

static void run(row_function *function, int spread, const void *const *call, int64_t first,
                int64_t last, int threads)
{
    const winogen_map *m = call[0];
    const real *const input = call[INPUT];
    real *const output = (real *)call[OUTPUT];
    const int64_t planar = m->planar;
    (void)threads;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t part = first; part < last; part++) {
        const int64_t image = part / (planar ? m->channels : m->out_height);
        const int64_t rest = part % (planar ? m->channels : m->out_height);
        const int64_t channel = planar ? rest : 0, channels = planar ? 1 : m->channels;
        const int64_t begin = planar ? 0 : rest, end = planar ? m->out_height : rest + 1;
        const real *in = input + image * m->in_image
                         + channel * (spread ? m->step_channel : 1) * m->in_channel;
        real *out = output + image * m->out_image + channel * m->out_channel;
        for (int64_t row = begin; row < end; row++)
            function(m, in, row, channels, out + row * m->out_row);
    }
}

void winogen_pool(const void *call, int64_t first, int64_t last, int threads)
{
    run(pool_row, 0, call, first, last, threads);
}

void winogen_repeat(const void *call, int64_t first, int64_t last, int threads)
{
    run(repeat_row, 0, call, first, last, threads);
}

void winogen_spread(const void *call, int64_t first, int64_t last, int threads)
{
    run(spread_row, 1, call, first, last, threads);
}
