/* Runs one kernel of weight gradients on many layers, in allocations of just the right size, and
 * compares with loops over single numbers. `layers.h` is generated: the declarations of the kernel,
 * `real`, the size of its filters, and what Python makes of the layers. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers.h"

/* Exactly `count` numbers, so that the next byte is out of bounds; filled with NaN. */
static real *exactly(int64_t count, size_t alignment)
{
    void *memory = NULL;
    const size_t bytes = (size_t)count * sizeof(real);
    if (posix_memalign(&memory, alignment, bytes)) abort();
    memset(memory, 0xFF, bytes);
    return memory;
}

static real *numbers(int64_t count, unsigned *seed)
{
    real *values = exactly(count, 8);
    for (int64_t i = 0; i < count; i++) {
        *seed = *seed * 1103515245u + 12345u;
        values[i] = (real)(int)(*seed >> 16 & 7) - 3;
    }
    return values;
}

static int64_t at(winogen_strides s, int64_t image, int64_t channel, int64_t row, int64_t col)
{
    return image * s.image + channel * s.channel + row * s.row + col * s.pixel;
}

static double one_weight(const winogen_conv *p, const real *input, const real *grad, int64_t m,
                         int64_t c, int64_t k, int64_t q)
{
    const int64_t channel = m / p->filters * p->channels + c;
    double sum = 0;
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t y = 0; y < p->out_height; y++)
            for (int64_t x = 0; x < p->out_width; x++) {
                const int64_t row = y + k - p->pad_top, col = x + q - p->pad_left;
                if (row < 0 || row >= p->height || col < 0 || col >= p->width) continue;
                sum += (double)grad[at(p->grad, n, m, y, x)]
                     * (double)input[at(p->input, n, channel, row, col)];
            }
    return sum;
}

static int failed(const winogen_conv *p, int threads, unsigned seed)
{
    const int64_t filters = p->groups * p->filters, phases = p->phases, middle = phases / 2;
    real *input = numbers(p->input_numbers, &seed), *grad = numbers(p->grad_numbers, &seed);
    real *weight = exactly(filters * p->channels * KERNEL_H * KERNEL_W, 8);
    const int64_t bytes = p->shared_bytes + threads * p->thread_bytes;
    real *workspace = exactly(bytes / (int64_t)sizeof(real), 64);
    const winogen_call c = CALL(p, input, grad, weight, workspace);
    winogen_run_some(&c, 0, middle * p->parts, threads);
    winogen_run_some(&c, middle * p->parts, phases * p->parts, threads);
    int wrong = 0;
    const real *result = weight;
    for (int64_t m = 0; m < filters; m++)
        for (int64_t i = 0; i < p->channels; i++)
            for (int64_t k = 0; k < KERNEL_H; k++)
                for (int64_t q = 0; q < KERNEL_W; q++, result++)
                    if (!(fabs((double)*result - one_weight(p, input, grad, m, i, k, q)) < 0.05))
                        wrong++;
    free(input), free(grad), free(weight), free(workspace);
    return wrong;
}

int main(void)
{
    const int count = (int)(sizeof layers / sizeof layers[0]);
    for (int i = 0; i < count; i++) {
        const int wrong = failed(&layers[i], threads[i], (unsigned)i);
        if (wrong) {
            printf("layer %d: %d weights are wrong\n", i, wrong);
            return 1;
        }
    }
    printf("%d layers are right\n", count);
    return 0;
}
