/* The definition of products of matrices. `packed`: whether b comes packed. */

static int64_t extent(int64_t rows, int64_t columns, int64_t row, int64_t column)
{
    return (rows - 1) * row + (columns - 1) * column + 1;
}

/* The activation is none, ReLU or that of prelu, which has a slope for each column. */
static double one(const winogen_conv *p, const winogen_call *c, int64_t i, int64_t j)
{
    const real *const a = c->a, *const b = c->b, *const bias = c->bias, *const slopes = c->slopes;
    double sum = bias ? bias[j] : 0;
    for (int64_t k = 0; k < p->k; k++)
        sum += (double)a[i * p->a_row + k * p->a_column]
             * (double)b[k * p->b_row + j * p->b_column];
    if (sum >= 0 || !p->activation) return sum;
    return slopes ? sum * slopes[j] : 0;
}

static int failed(int i, unsigned seed)
{
    const winogen_conv *const p = &calls[i];
    real *a = numbers(extent(p->m, p->k, p->a_row, p->a_column), &seed);
    real *b = numbers(extent(p->k, p->n, p->b_row, p->b_column), &seed);
    real *bias = numbers(p->n, &seed), *slopes = numbers(p->n, &seed);
    const int64_t size = (int64_t)sizeof(real);
    real *output = exactly(extent(p->m, p->n, p->c_row, 1) * size, 64);
    real *all = packed[i] ? exactly(p->packed_bytes, 64) : NULL;
    if (packed[i]) winogen_pack(p, b, all, threads[i]);
    winogen_call c = {
        .a = a, .b = b, .packed = all, .bias = seed % 3 ? bias : NULL,
        .slopes = p->after_store ? slopes : NULL, .output = output,
    };
    run(i, &c);
    int wrong = 0;
    for (int64_t m = 0; m < p->m; m++)
        for (int64_t n = 0; n < p->n; n++)
            if (!((double)output[m * p->c_row + n] == one(p, &c, m, n))) wrong++;
    for (int64_t m = 0; m + 1 < p->m; m++)
        for (int64_t n = p->n; n < p->c_row; n++)
            if (!isnan((double)output[m * p->c_row + n])) wrong++;
    free(a), free(b), free(bias), free(slopes), free(output), free(all);
    return wrong;
}
