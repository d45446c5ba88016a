/* Runs one kernel on many products of matrices, in allocations of just the right size, and compares
 * with sums of single products. `products.h` is generated: the declarations of the kernel, `real`,
 * and what Python makes of the products. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "products.h"

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

static int failed(const winogen_conv *p, int packed, int threads, unsigned seed)
{
    real *a = numbers(extent(p->m, p->k, p->a_row, p->a_column), &seed);
    real *b = numbers(extent(p->k, p->n, p->b_row, p->b_column), &seed);
    real *bias = numbers(p->n, &seed), *slopes = numbers(p->n, &seed);
    real *output = exactly(extent(p->m, p->n, p->c_row, 1), 64);
    real *workspace = exactly((p->shared_bytes + threads * p->thread_bytes) / (int64_t)sizeof(real),
                              64);
    real *all = packed ? exactly(p->packed_bytes / (int64_t)sizeof(real), 64) : NULL;
    if (packed) winogen_pack(p, b, all, threads);
    const winogen_call c = {
        p, a, b, all, seed % 3 ? bias : NULL, p->after_store ? slopes : NULL, output, workspace,
    };
    const int64_t parts = p->phases * p->parts;
    winogen_run_some(&c, 0, parts / 2, threads);
    winogen_run_some(&c, parts / 2, parts, threads);
    int wrong = 0;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            if (!((double)output[i * p->c_row + j] == one(p, &c, i, j))) wrong++;
    for (int64_t i = 0; i + 1 < p->m; i++)
        for (int64_t j = p->n; j < p->c_row; j++)
            if (output[i * p->c_row + j] == output[i * p->c_row + j]) wrong++;    /* no NaN now */
    free(a), free(b), free(bias), free(slopes), free(output), free(workspace), free(all);
    return wrong;
}

int main(void)
{
    const int count = (int)(sizeof products / sizeof products[0]);
    for (int i = 0; i < count; i++) {
        const int wrong = failed(&products[i], packed[i], threads[i], (unsigned)i);
        if (wrong) {
            printf("product %d: %d numbers are wrong\n", i, wrong);
            return 1;
        }
    }
    printf("%d products are right\n", count);
    return 0;
}
