/* XNNPACK's convolution of 3x3 taps and padding of one, in NHWC, as often as the first argument
 * says. scripts/instructions_on_arm.py compiles it. */
#include <math.h>
#include <xnnpack.h>

#include "numbers.h"

int main(int count, char **words)
{
    const int calls = count > 1 ? atoi(words[1]) : 1;
    float *const input = numbers((size_t)SIZE * SIZE * CHANNELS), *const bias = numbers(FILTERS);
    float *const weight = numbers((size_t)9 * CHANNELS * FILTERS);
    float *const output = room((size_t)SIZE * SIZE * FILTERS * sizeof(float));
    xnn_operator_t op;
    if (xnn_initialize(NULL) != xnn_status_success) return 1;
    if (xnn_create_convolution2d_nhwc_f32(1, 1, 1, 1, 3, 3, 1, 1, 1, 1, 1, CHANNELS, FILTERS, CHANNELS,
                                          FILTERS, weight, bias, -INFINITY, INFINITY, 0, &op)
        != xnn_status_success)
        return 1;
    if (xnn_setup_convolution2d_nhwc_f32(op, 1, SIZE, SIZE, input, output, NULL)
        != xnn_status_success)
        return 1;
    for (int call = 0; call < calls; call++) xnn_run_operator(op, NULL);
    printf("%g\n", output[SIZE]);
    return 0;
}
