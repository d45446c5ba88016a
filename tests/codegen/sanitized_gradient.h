/* The definition of gradients of weights. KERNEL_H, KERNEL_W: the size of the filters. */

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

static int failed(int i, unsigned seed)
{
    const winogen_conv *const p = &calls[i];
    const int64_t filters = p->groups * p->filters, taps = KERNEL_H * KERNEL_W;
    real *input = numbers(p->input_numbers, &seed), *grad = numbers(p->grad_numbers, &seed);
    real *weight = exactly(filters * p->channels * taps * (int64_t)sizeof(real), 8);
    run(i, &(winogen_call){ .input = input, .grad_output = grad, .grad_weight = weight });
    int wrong = 0;
    const real *result = weight;
    for (int64_t m = 0; m < filters; m++)
        for (int64_t c = 0; c < p->channels; c++)
            for (int64_t k = 0; k < KERNEL_H; k++)
                for (int64_t q = 0; q < KERNEL_W; q++, result++)
                    if (!(fabs((double)*result - one_weight(p, input, grad, m, c, k, q)) < 0.05))
                        wrong++;
    free(input), free(grad), free(weight);
    return wrong;
}
