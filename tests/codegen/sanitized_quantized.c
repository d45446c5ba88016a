/* Runs one kernel on many convolutions of bytes, in allocations of just the right size, and compares
 * with sums of single products. `layers.h` is generated: the declarations of the kernel, `output`,
 * and what Python makes of the layers. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers.h"

/* Exactly as many bytes, so that the next one is out of bounds; aligned to a line, or not at all. */
static void *exactly(int64_t bytes, int aligned)
{
    void *memory = NULL;
    if (!aligned) memory = malloc((size_t)bytes);
    else if (posix_memalign(&memory, 64, (size_t)bytes)) abort();
    if (!memory) abort();
    memset(memory, 0x5A, (size_t)bytes);
    return memory;
}

static int random_of(unsigned *seed, int count)
{
    *seed = *seed * 1103515245u + 12345u;
    return (int)(*seed >> 16) % count;
}

typedef struct {
    const uint8_t *input;
    const int8_t *weight;
    const int32_t *zero, *bias;
    const float *multiplier;
} given;

/* One sum of products. `x_zero`: as the array has it. */
static int32_t sum_of(const winogen_conv *p, const layer *l, const given *g, int64_t image,
                      int64_t m, int64_t row, int64_t col)
{
    const int64_t first = DEPTHWISE ? m : m / p->filters * p->channels;    /* channel */
    int32_t sum = g->bias ? g->bias[m] : 0;
    for (int64_t c = 0; c < p->channels; c++)
        for (int64_t k = 0; k < p->kernel_height; k++)
            for (int64_t q = 0; q < p->kernel_width; q++) {
                const int64_t y = row * p->stride_h + k * p->dilation_h - p->pad_top;
                const int64_t x = col * p->stride_w + q * p->dilation_w - p->pad_left;
                if (y < 0 || y >= p->height || x < 0 || x >= p->width) continue;
                const uint8_t byte = g->input[image * p->input.image + y * p->input.row
                                              + x * p->input.pixel
                                              + (first + c) * p->input.channel];
                const int value = l->is_signed ? (int8_t)byte : byte;
                const int w = g->weight[((m * p->channels + c) * p->kernel_height + k)
                                        * p->kernel_width + q];
                sum += (value - l->x_zero) * (w - (g->zero ? g->zero[m] : 0));
            }
    return sum;
}

static output finish(const winogen_conv *p, int32_t sum, double multiplier)
{
    if (sizeof(output) == 4) return (output)(sum < p->lowest ? (int32_t)p->lowest : sum);
    const double y = sum * multiplier + (double)p->y_zero;
    const double low = (double)p->lowest, high = (double)p->highest;
    return (output)(int)nearbyint(y < low ? low : y > high ? high : y);
}

static int failed(const winogen_conv *p, const layer *l, unsigned seed)
{
    const int64_t filters = p->groups * p->filters;
    const int64_t numbers = p->channels * p->kernel_height * p->kernel_width;
    const int64_t outputs = 1 + (p->batch - 1) * p->output.image + (filters - 1) * p->output.channel
                          + (p->out_height - 1) * p->output.row
                          + (p->out_width - 1) * p->output.pixel;
    uint8_t *input = exactly(p->input_numbers, 0);
    int8_t *weight = exactly(filters * numbers, 0);
    int32_t *zero = exactly(4 * filters, 0), *bias = exactly(4 * filters, 0);
    float *multiplier = exactly(4 * filters, 0);
    output *result = exactly(outputs * (int64_t)sizeof(output), 0);
    int32_t *packed = exactly(p->packed_bytes, 1);
    void *workspace = exactly(p->shared_bytes + l->threads * p->thread_bytes, 1);
    for (int64_t i = 0; i < p->input_numbers; i++) input[i] = (uint8_t)random_of(&seed, 256);
    for (int64_t i = 0; i < filters * numbers; i++) weight[i] = (int8_t)random_of(&seed, 256);
    for (int64_t m = 0; m < filters; m++) {
        zero[m] = random_of(&seed, 256) - 128;
        bias[m] = random_of(&seed, 2000) - 1000;
        multiplier[m] = (float)(1 + random_of(&seed, 9)) / 1024;
    }
    const given g = { input, weight, p->w_zeros ? zero : NULL, seed % 2 ? bias : NULL, multiplier };
    winogen_pack(p, weight, g.zero, g.bias, multiplier, packed, l->threads);
    const winogen_call c = { p, input, packed, result, workspace };
    const int64_t parts = p->phases * p->parts;
    winogen_run_some(&c, 0, parts / 2, l->threads);
    winogen_run_some(&c, parts / 2, parts, l->threads);
    int wrong = 0;
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t m = 0; m < filters; m++)
            for (int64_t row = 0; row < p->out_height; row++)
                for (int64_t col = 0; col < p->out_width; col++) {
                    const output got = result[n * p->output.image + m * p->output.channel
                                              + row * p->output.row + col * p->output.pixel];
                    const int32_t sum = sum_of(p, l, &g, n, m, row, col);
                    wrong += got != finish(p, sum, (double)multiplier[m]);
                }
    free(input), free(weight), free(zero), free(bias), free(multiplier);
    free(result), free(packed), free(workspace);
    return wrong;
}

int main(void)
{
    const int count = (int)(sizeof layers / sizeof layers[0]);
    for (int i = 0; i < count; i++) {
        const int wrong = failed(&convolutions[i], &layers[i], (unsigned)i);
        if (wrong) {
            printf("layer %d: %d outputs are wrong\n", i, wrong);
            return 1;
        }
    }
    printf("%d layers are right\n", count);
    return 0;
}
