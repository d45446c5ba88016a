/* Runs one kernel on a spread of layers, in allocations of just the right size, and compares with
 * loops over single numbers. Compiled together with a generated kernel; the macros say which:
 * REAL, NHWC, and KERNEL_HEIGHT x KERNEL_WIDTH (0: any kernel, stride and dilation). */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct winogen_conv {
    int64_t batch, groups, channels, filters, height, width, out_height, out_width;
    int64_t kernel_height, kernel_width, stride_h, stride_w, dilation_h, dilation_w;
    int64_t pad_top, pad_left, padding_mode, row_begin, row_end, col_begin, col_end;
    int64_t relu, block_rows, block_cols, block_images, split;
} winogen_conv;

size_t winogen_packed_bytes(const winogen_conv *p);
void winogen_pack(const winogen_conv *p, const REAL *weight, REAL *packed, int threads);
size_t winogen_workspace_bytes(const winogen_conv *p, int threads);
void winogen_run(const winogen_conv *p, const REAL *input, const REAL *packed, const REAL *bias,
                 REAL *output, void *workspace, int threads);

static int64_t source(int64_t i, int64_t size, int64_t mode)
{
    if (i >= 0 && i < size) return i;
    if (mode == 0) return -1;
    if (mode == 1) return i < 0 ? -i : 2 * (size - 1) - i;
    if (mode == 2) return i < 0 ? 0 : size - 1;
    return (i + size) % size;
}

static int64_t at(int64_t n, int64_t c, int64_t y, int64_t x, int64_t all, int64_t height, int64_t width)
{
    return NHWC ? ((n * height + y) * width + x) * all + c : ((n * all + c) * height + y) * width + x;
}

static double one_output(const winogen_conv *p, const REAL *input, const REAL *weight,
                         int64_t n, int64_t m, int64_t y, int64_t x)
{
    const int64_t group = m / p->filters, all = p->groups * p->channels;
    double sum = 0;
    for (int64_t c = 0; c < p->channels; c++)
        for (int64_t k = 0; k < p->kernel_height; k++)
            for (int64_t q = 0; q < p->kernel_width; q++) {
                const int64_t row = source(y * p->stride_h + k * p->dilation_h - p->pad_top, p->height, p->padding_mode);
                const int64_t col = source(x * p->stride_w + q * p->dilation_w - p->pad_left, p->width, p->padding_mode);
                if (row < 0 || col < 0) continue;
                sum += (double)input[at(n, group * p->channels + c, row, col, all, p->height, p->width)]
                     * (double)weight[((m * p->channels + c) * p->kernel_height + k) * p->kernel_width + q];
            }
    return sum;
}

/* Exactly `bytes` long, so that the next byte is out of bounds; filled with NaN. */
static void *exactly(size_t bytes, size_t alignment)
{
    void *memory = NULL;
    if (posix_memalign(&memory, alignment, bytes ? bytes : 1)) abort();
    memset(memory, 0xFF, bytes);
    return memory;
}

static REAL *numbers(int64_t count, unsigned *seed)
{
    REAL *values = exactly((size_t)count * sizeof(REAL), sizeof(REAL) > 8 ? sizeof(REAL) : 8);
    for (int64_t i = 0; i < count; i++) values[i] = (REAL)(int)((*seed = *seed * 1103515245u + 12345u) >> 16 & 7) - 3;
    return values;
}

static int failed(const winogen_conv *p, int threads, unsigned seed)
{
    const int64_t all_in = p->groups * p->channels, all_out = p->groups * p->filters;
    const int64_t taps = p->kernel_height * p->kernel_width;
    REAL *input = numbers(p->batch * all_in * p->height * p->width, &seed);
    REAL *weight = numbers(all_out * p->channels * taps, &seed);
    REAL *bias = seed & 1 ? numbers(all_out, &seed) : NULL;
    const int64_t outputs = p->batch * all_out * p->out_height * p->out_width;
    REAL *output = exactly((size_t)outputs * sizeof(REAL), seed & 2 ? 64 : 8);
    REAL *packed = exactly(winogen_packed_bytes(p), 64);
    void *workspace = exactly(winogen_workspace_bytes(p, threads), 64);
    winogen_pack(p, weight, packed, 1);
    winogen_run(p, input, packed, bias, output, workspace, threads);
    int wrong = 0;
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t m = 0; m < all_out; m++)
            for (int64_t y = 0; y < p->out_height; y++)
                for (int64_t x = 0; x < p->out_width; x++) {
                    const double got = (double)output[at(n, m, y, x, all_out, p->out_height, p->out_width)];
                    const int inside = y >= p->row_begin && y < p->row_end && x >= p->col_begin && x < p->col_end;
                    double wanted = one_output(p, input, weight, n, m, y, x) + (bias ? (double)bias[m] : 0);
                    if (p->relu && wanted < 0) wanted = 0;
                    if (inside ? !(fabs(got - wanted) < 0.02) : !isnan(got)) wrong++;
                }
    free(input), free(weight), free(bias), free(output), free(packed), free(workspace);
    return wrong;
}

int main(void)
{
    /* groups, channels, filters */
    static const int64_t counts[][3] = {
        { 1, 1, 1 }, { 1, 17, 35 }, { 2, 5, 3 }, { 19, 1, 1 }, { 1, 32, 32 }, { 1, 3, 32 }, { 3, 1, 9 },
        { 32, 1, 1 },
    };
    /* height, width, top, left, bottom, right */
    static const int64_t areas[][6] = {
        { 3, 3, 0, 0, 0, 0 }, { 5, 9, 1, 0, 2, 1 }, { 7, 11, 2, 2, 2, 2 }, { 4, 20, 0, 3, 1, 0 }, { 9, 5, 3, 1, 0, 2 },
        { 1, 160, 0, 0, 0, 0 }, { 1, 47, 0, 0, 0, 0 }, { 11, 40, 1, 2, 1, 2 },
    };
    /* kernel height and width, strides, dilations: for the algorithms that take any */
    static const int64_t shapes[][6] = {
        { 3, 2, 1, 1, 1, 1 }, { 1, 1, 1, 1, 1, 1 }, { 3, 3, 2, 3, 1, 1 }, { 2, 3, 1, 2, 2, 1 }, { 1, 3, 3, 1, 1, 2 },
        { 3, 3, 1, 1, 1, 1 }, { 5, 5, 1, 2, 1, 1 },
    };
    /* rows and columns of a block, split, threads */
    static const int64_t blocks[][4] = { { 1, 1, 0, 1 }, { 2, 3, 0, 2 }, { 3, 50, 1, 2 }, { 50, 50, 0, 1 } };
    int tried = 0;
    for (int c = 0; c < 8; c++)
        for (int a = 0; a < 8; a++)
            for (int64_t mode = 0; mode < 4; mode++) {
                const int64_t *count = counts[c], *area = areas[a], *shape = shapes[(c + 3 * a + mode) % 7];
                const int64_t *block = blocks[(c + 2 * a + 3 * mode) % 4];
                winogen_conv p = {
                    .batch = 1 + (a + mode) % 2, .groups = count[0], .channels = count[1], .filters = count[2],
                    .height = area[0], .width = area[1], .kernel_height = KERNEL_HEIGHT, .kernel_width = KERNEL_WIDTH,
                    .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1,
                    .pad_top = area[2], .pad_left = area[3], .padding_mode = mode,
                    .relu = a % 2, .block_rows = block[0], .block_cols = block[1], .split = block[2],
                    .block_images = 1 + (c + mode) % 3,
                };
                if (!KERNEL_HEIGHT) {
                    p.kernel_height = shape[0], p.kernel_width = shape[1];
                    p.stride_h = shape[2], p.stride_w = shape[3];
                    p.dilation_h = shape[4], p.dilation_w = shape[5];
                }
                const int64_t high = area[0] + area[2] + area[4] - p.dilation_h * (p.kernel_height - 1) - 1;
                const int64_t wide = area[1] + area[3] + area[5] - p.dilation_w * (p.kernel_width - 1) - 1;
                if (high < 0 || wide < 0) continue;
                p.out_height = p.row_end = high / p.stride_h + 1;
                p.out_width = p.col_end = wide / p.stride_w + 1;
                if (c % 2 && p.row_end > 3) p.row_begin = 1, p.row_end--;      /* a rectangle inside */
                if (c % 2 && p.col_end > 3) p.col_begin = 2, p.col_end--;
                if (failed(&p, (int)block[3], (unsigned)(100 * c + 10 * a + mode))) {
                    printf("wrong: counts %d area %d mode %d\n", c, a, (int)mode);
                    return 1;
                }
                tried++;
            }
    printf("%d layers are right\n", tried);
    return 0;
}
