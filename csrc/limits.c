/* What the machine can do at most: cycles, fused multiply-adds from registers, reading from each
 * level of memory and writing to it. Compiled with -DVECTOR_BYTES=..., one thread or many. */
#include <stddef.h>
#include <stdint.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));

enum {
    LANES = VECTOR_BYTES / sizeof(float),
    /* Enough chains to hide 5 cycles of latency on two units, few enough for 16 registers. */
    CHAINS = 12,
    /* Loads in flight; the sums are integers, whose additions take one cycle. */
    STREAMS = 8,
};

/* Adds `factor` * 1 to every number of `start`, `steps` times over: acc = acc * factor + addend.
 * The chains begin with numbers that the compiler cannot know, and that the caller makes all
 * different: equal accumulators are one to the optimiser, and the peak would come out too high.
 * `result` gets every chain of every thread, [threads][CHAINS][LANES], to prove that all ran. */
void limits_fma(const float *start, float factor, float addend, int64_t steps, int threads,
                float *result)
{
    (void)threads;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; t++) {
        vector acc[CHAINS], f = factor - (vector){0}, a = addend - (vector){0};
        __builtin_memcpy(acc, start, sizeof acc);
        for (int64_t i = 0; i < steps; i++) {
#pragma GCC unroll 16
            for (int k = 0; k < CHAINS; k++) acc[k] = acc[k] * f + a;
        }
        __builtin_memcpy(result + (size_t)t * CHAINS * LANES, acc, sizeof acc);
    }
}

/* Adds `step` `steps` times over, each time to the sum before: a cycle each, whatever the core. */
uint64_t limits_cycles(uint64_t step, int64_t steps)
{
    uint64_t sum = 0;
#pragma GCC unroll 8
    for (int64_t i = 0; i < steps; i++) {
        sum += step;
        /* Otherwise the additions could be made one multiplication. */
        __asm__ volatile("" : "+r"(sum));
    }
    return sum;
}

typedef uint32_t words __attribute__((vector_size(VECTOR_BYTES)));

/* Fills each thread's part from that thread, so that its pages lie near it. */
void limits_fill(uint32_t *data, int64_t vectors, uint32_t value, int threads)
{
    (void)threads;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; t++)
        for (int64_t i = 0; i < vectors * LANES; i++) data[t * vectors * LANES + i] = value;
}

/* Reads `vectors` vectors per thread `passes` times and returns the sum of all words (modulo 2^32),
 * which proves that nothing was left out. */
uint32_t limits_read(const uint32_t *data, int64_t vectors, int64_t passes, int threads)
{
    uint32_t total = 0;
    (void)threads;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : total)
    for (int t = 0; t < threads; t++) {
        const words *v = (const words *)data + t * vectors;
        words sum[STREAMS] = {{0}};
        for (int64_t pass = 0; pass < passes; pass++) {
            /* Otherwise the passes could be made one. */
            __asm__ volatile("" : "+r"(v) : : "memory");
            int64_t i = 0;
            for (; i + STREAMS <= vectors; i += STREAMS) {
#pragma GCC unroll 8
                for (int k = 0; k < STREAMS; k++) sum[k] += v[i + k];
            }
            for (; i < vectors; i++) sum[0] += v[i];
        }
        for (int k = 0; k < STREAMS; k++)
            for (size_t l = 0; l < LANES; l++) total += sum[k][l];
    }
    return total;
}

/* One vector past the caches, where the instruction set can do that; else as any other. */
static inline void stream(words *to, words value)
{
#if defined(__AVX512F__) && VECTOR_BYTES == 64
    _mm512_stream_si512((void *)to, (__m512i)value);
#elif defined(__AVX__) && VECTOR_BYTES == 32
    _mm256_stream_si256((void *)to, (__m256i)value);
#elif defined(__SSE2__) && VECTOR_BYTES == 16
    _mm_stream_si128((void *)to, (__m128i)value);
#else
    *to = value;
#endif
}

/* Writes `value` to `vectors` vectors per thread, `passes` times, the last time `value` + 1: which
 * is what all hold afterwards. With `past_caches` by non-temporal stores. */
void limits_write(uint32_t *data, int64_t vectors, uint32_t value, int64_t passes, int past_caches,
                  int threads)
{
    (void)threads;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; t++) {
        words *v = (words *)data + t * vectors;
        for (int64_t pass = 0; pass < passes; pass++) {
            const words all = (value + (pass == passes - 1)) - (words){0};
            /* Otherwise the passes could be made one. */
            __asm__ volatile("" : "+r"(v) : : "memory");
            if (past_caches)
                for (int64_t i = 0; i < vectors; i++) stream(v + i, all);
            else
                for (int64_t i = 0; i < vectors; i++) v[i] = all;
        }
#ifdef __SSE2__
        _mm_sfence();
#endif
    }
}
