/* The definition of convolutions of bytes. `layers`: whether inputs are signed, and their zero point
 * as the array has it. */

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
                const uint8_t byte = g->input[at(p->input, image, first + c, y, x)];
                const int value = l->is_signed ? (int8_t)byte : byte;
                const int w = g->weight[((m * p->channels + c) * p->kernel_height + k)
                                        * p->kernel_width + q];
                sum += (value - l->x_zero) * (w - (g->zero ? g->zero[m] : 0));
            }
    return sum;
}

/* `add`: what is added, as its array has it. */
static output finish(const winogen_conv *p, int32_t sum, double multiplier, uint8_t add)
{
#if REALS
    /* Compilers may not make one rounding of these two. */
    const volatile float product = (float)sum * (float)multiplier;
    const volatile float more = (float)((int8_t)add + 128 - p->add_zero) * (float)p->add_scale;
    const float real = product + more, relu = real < 0 ? 0 : real;
    const double steps = nearbyintf(relu / (float)p->y_scale) + (double)p->y_zero;
    const double least = (double)p->lowest, most = (double)p->highest;
    return (output)(int)(steps < least ? least : steps > most ? most : steps);
#else
    (void)add;
#endif
    if (sizeof(output) == 4) return (output)(sum < p->lowest ? (int32_t)p->lowest : sum);
    const double y = sum * multiplier + (double)p->y_zero;
    const double low = (double)p->lowest, high = (double)p->highest;
    return (output)(int)nearbyint(y < low ? low : y > high ? high : y);
}

static int failed(int i, unsigned seed)
{
    const winogen_conv *const p = &calls[i];
    const layer *const l = &layers[i];
    const int64_t filters = p->groups * p->filters;
    const int64_t terms = p->channels * p->kernel_height * p->kernel_width;
    const int64_t outputs = 1 + at(p->output, p->batch - 1, filters - 1, p->out_height - 1,
                                   p->out_width - 1);
    uint8_t *input = exactly(p->input_numbers, 8);
    int8_t *weight = exactly(filters * terms, 8);
    int32_t *zero = exactly(4 * filters, 8), *bias = exactly(4 * filters, 8);
    float *multiplier = exactly(4 * filters, 8);
    output *result = exactly(outputs * (int64_t)sizeof(output), 8);
    uint8_t *add = exactly(outputs, 8);
    int32_t *packed = exactly(p->packed_bytes, 64);
    for (int64_t k = 0; k < outputs; k++) add[k] = (uint8_t)random_of(&seed, 256);
    for (int64_t k = 0; k < p->input_numbers; k++) input[k] = (uint8_t)random_of(&seed, 256);
    for (int64_t k = 0; k < filters * terms; k++) weight[k] = (int8_t)random_of(&seed, 256);
    for (int64_t m = 0; m < filters; m++) {
        zero[m] = random_of(&seed, 256) - 128;
        bias[m] = random_of(&seed, 2000) - 1000;
        multiplier[m] = (float)(1 + random_of(&seed, 9)) / 1024;
    }
    const given g = { input, weight, p->w_zeros ? zero : NULL, seed % 2 ? bias : NULL, multiplier };
#if REALS
    winogen_pack(p, weight, g.zero, g.bias, multiplier, NULL, packed, threads[i]);
    run(i, &(winogen_call){ .input = input, .packed = packed, .add = add, .output = result });
#else
    winogen_pack(p, weight, g.zero, g.bias, multiplier, packed, threads[i]);
    run(i, &(winogen_call){ .input = input, .packed = packed, .output = result });
#endif
    int wrong = 0;
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t m = 0; m < filters; m++)
            for (int64_t row = 0; row < p->out_height; row++)
                for (int64_t col = 0; col < p->out_width; col++) {
                    const output got = result[at(p->output, n, m, row, col)];
                    const int32_t sum = sum_of(p, l, &g, n, m, row, col);
                    const uint8_t more = add[at(p->output, n, m, row, col)];
                    wrong += got != finish(p, sum, (double)multiplier[m], more);
                }
    free(input), free(weight), free(zero), free(bias), free(multiplier);
    free(result), free(packed), free(add);
    return wrong;
}
