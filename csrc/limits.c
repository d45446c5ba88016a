/* What the machine can do at most: cycles, fused multiply-adds from registers, reading from each
 * level of memory and writing to it. Compiled with -DVECTOR_BYTES=..., one thread or many. */
#include <stddef.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

static winogen_team *on_team = on_openmp;
void winogen_use_team(winogen_team *team) { on_team = team; }

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));

enum {
    LANES = VECTOR_BYTES / sizeof(float),
    /* Enough chains to hide 5 cycles of latency on two units, few enough for 16 registers. */
    CHAINS = 12,
    /* Loads in flight; the sums are integers, whose additions take one cycle. */
    STREAMS = 8,
};

typedef struct {
    const float *start;               /* What sums begin with. */
    float factor, addend, *result;    /* What each step multiplies by and adds, and where the
                                       * sums go. */
    int64_t steps;                    /* How many steps are made. */
} multiply_adds;

static void multiply_add(void *context, int64_t thread)
{
    const multiply_adds *m = context;
    vector acc[CHAINS], f = m->factor - (vector){0}, a = m->addend - (vector){0};
    __builtin_memcpy(acc, m->start, sizeof acc);
    for (int64_t i = 0; i < m->steps; i++) {
#pragma GCC unroll 16
        for (int k = 0; k < CHAINS; k++) acc[k] = acc[k] * f + a;
    }
    __builtin_memcpy(m->result + thread * CHAINS * LANES, acc, sizeof acc);
}

/* Adds `factor` * 1 to every number of `start`, `steps` times over: acc = acc * factor + addend.
 * The chains begin with numbers that the compiler cannot know, and that the caller makes all
 * different: equal accumulators are one to the optimiser, and the peak would come out too high.
 * `result` gets every chain of every thread, [threads][CHAINS][LANES], to prove that all ran. */
void limits_fma(const float *start, float factor, float addend, int64_t steps, int threads,
                float *result)
{
    multiply_adds all = { start, factor, addend, result, steps };
    on_team(multiply_add, &all, threads, threads);
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

/* Vectors per thread, and what is done with them. */
typedef struct {
    uint32_t *data, value;      /* The memory that is read or written, and what is written. */
    int64_t vectors, passes;    /* Vectors of a thread, and how often all are passed. */
    int past_caches;            /* Whether stores go past the caches. */
    uint32_t total;             /* The sum of what was read. */
} traffic;

static void fill_part(void *context, int64_t thread)
{
    const traffic *t = context;
    const int64_t count = t->vectors * LANES;
    uint32_t *data = t->data + thread * count, value = t->value;
    for (int64_t i = 0; i < count; i++) data[i] = value;
}

/* Fills each thread's part from that thread, so that its pages lie near it. */
void limits_fill(uint32_t *data, int64_t vectors, uint32_t value, int threads)
{
    traffic all = { .data = data, .value = value, .vectors = vectors };
    on_team(fill_part, &all, threads, threads);
}

static void read_part(void *context, int64_t thread)
{
    traffic *t = context;
    const int64_t vectors = t->vectors, passes = t->passes;
    const words *v = (const words *)t->data + thread * vectors;
    words sum[STREAMS] = {{0}};
    uint32_t total = 0;
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
    __atomic_fetch_add(&t->total, total, __ATOMIC_RELAXED);
}

/* Reads `vectors` vectors per thread `passes` times and returns the sum of all words (modulo 2^32),
 * which proves that nothing was left out. */
uint32_t limits_read(uint32_t *data, int64_t vectors, int64_t passes, int threads)
{
    traffic all = { .data = data, .vectors = vectors, .passes = passes };
    on_team(read_part, &all, threads, threads);
    return all.total;
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

static void write_part(void *context, int64_t thread)
{
    const traffic *t = context;
    const int64_t vectors = t->vectors, last = t->passes - 1;
    const uint32_t value = t->value;
    const int past_caches = t->past_caches;
    words *v = (words *)t->data + thread * vectors;
    for (int64_t pass = 0; pass <= last; pass++) {
        const words all = (value + (pass == last)) - (words){0};
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

/* Writes `value` to `vectors` vectors per thread, `passes` times, the last time `value` + 1: which
 * is what all hold afterwards. With `past_caches` by non-temporal stores. */
void limits_write(uint32_t *data, int64_t vectors, uint32_t value, int64_t passes, int past_caches,
                  int threads)
{
    traffic all = { data, value, vectors, passes, past_caches, 0 };
    on_team(write_part, &all, threads, threads);
}
