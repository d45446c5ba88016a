/* The intrinsics of AVX-512 for CPUs without it: those of SIMDe, and in plain C what it lacks or has
 * wrong. A compiler that is told of no vectors takes this file for its own <immintrin.h>. */
#ifndef WINOGEN_TEST_INTRINSICS_H
#define WINOGEN_TEST_INTRINSICS_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#define SIMDE_NO_NATIVE
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

typedef uint8_t __mmask8;
typedef uint16_t __mmask16;
typedef uint32_t __mmask32;
typedef uint64_t __mmask64;

#define LANES_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- loads and stores of lanes -------------------------------------------------------------- */

#define STORE_LANES(name, vector, number, mask)                                                    \
    static inline void name(void *to, mask k, vector v)                                            \
    {                                                                                              \
        number lanes[sizeof(v) / sizeof(number)];                                                  \
        memcpy(lanes, &v, sizeof lanes);                                                           \
        for (int i = 0; i < LANES_OF(lanes); i++)                                                  \
            if (k >> i & 1) memcpy((char *)to + i * sizeof(number), lanes + i, sizeof(number));    \
    }
#define LOAD_LANES(name, vector, number, mask)                                                     \
    static inline vector name(mask k, const void *from)                                            \
    {                                                                                              \
        vector v;                                                                                  \
        number lanes[sizeof(v) / sizeof(number)];                                                  \
        memset(lanes, 0, sizeof lanes);                                                            \
        for (int i = 0; i < LANES_OF(lanes); i++)                                                  \
            if (k >> i & 1)                                                                        \
                memcpy(lanes + i, (const char *)from + i * sizeof(number), sizeof(number));        \
        memcpy(&v, lanes, sizeof v);                                                               \
        return v;                                                                                  \
    }

STORE_LANES(_mm_mask_storeu_epi8, __m128i, int8_t, __mmask16)
LOAD_LANES(_mm_maskz_loadu_epi8, __m128i, int8_t, __mmask16)
STORE_LANES(_mm256_mask_storeu_epi8, __m256i, int8_t, __mmask32)
STORE_LANES(_mm256_mask_storeu_epi16, __m256i, int16_t, __mmask16)
LOAD_LANES(_mm256_maskz_loadu_epi16, __m256i, int16_t, __mmask16)
STORE_LANES(_mm512_mask_storeu_epi8, __m512i, int8_t, __mmask64)
STORE_LANES(_mm512_mask_storeu_epi32, __m512i, int32_t, __mmask16)
LOAD_LANES(_mm512_maskz_loadu_epi32, __m512i, int32_t, __mmask16)
#ifndef _mm512_mask_storeu_ps
STORE_LANES(_mm512_mask_storeu_ps, __m512, float, __mmask16)
STORE_LANES(_mm512_mask_storeu_pd, __m512d, double, __mmask8)
LOAD_LANES(_mm512_maskz_loadu_ps, __m512, float, __mmask16)
LOAD_LANES(_mm512_maskz_loadu_pd, __m512d, double, __mmask8)
#endif

static inline void _mm512_stream_ps(void *to, __m512 v) { memcpy(to, &v, sizeof v); }
static inline void _mm512_stream_pd(void *to, __m512d v) { memcpy(to, &v, sizeof v); }
static inline void _mm512_stream_si512(void *to, __m512i v) { memcpy(to, &v, sizeof v); }

/* ---- numbers of other types ----------------------------------------------------------------- */

#define CONVERT_LANES(name, vector, number, result, type, converted)                               \
    static inline result name(vector v)                                                            \
    {                                                                                              \
        number from[sizeof(v) / sizeof(number)];                                                   \
        type to[sizeof(v) / sizeof(number)];                                                       \
        result all;                                                                                \
        memcpy(from, &v, sizeof from);                                                             \
        for (int i = 0; i < LANES_OF(from); i++) to[i] = (type)converted(from[i]);                 \
        memcpy(&all, to, sizeof all);                                                              \
        return all;                                                                                \
    }

#undef _mm512_cvtepi32_pd
#undef _mm512_cvtpd_epi32
CONVERT_LANES(_mm512_cvtepi32_epi8, __m512i, int32_t, __m128i, uint8_t, )
CONVERT_LANES(_mm512_cvtepi32_ps, __m512i, int32_t, __m512, float, )
CONVERT_LANES(_mm512_cvtepi32_pd, __m256i, int32_t, __m512d, double, )
CONVERT_LANES(_mm512_cvtpd_epi32, __m512d, double, __m256i, int32_t, nearbyint)
CONVERT_LANES(_mm512_cvtph_ps, __m256i, _Float16, __m512, float, )

static inline __m256i _mm512_maskz_cvtps_ph(__mmask16 k, __m512 v, int rounding)
{
    float from[16];
    _Float16 to[16];
    __m256i all;
    (void)rounding;    /* to nearest, which is what kernels ask for */
    memcpy(from, &v, sizeof from);
    for (int i = 0; i < 16; i++) to[i] = k >> i & 1 ? (_Float16)from[i] : 0;
    memcpy(&all, to, sizeof all);
    return all;
}

/* ---- products of integers ------------------------------------------------------------------- */

/* SIMDe's is a macro of four arguments by mistake. */
#undef _mm512_madd_epi16
static inline __m512i _mm512_madd_epi16(__m512i a, __m512i b)
{
    int16_t x[32], y[32];
    int32_t sum[16];
    __m512i all;
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    for (int i = 0; i < 16; i++)
        sum[i] = (int32_t)((uint32_t)(x[2 * i] * y[2 * i])
                           + (uint32_t)(x[2 * i + 1] * y[2 * i + 1]));
    memcpy(&all, sum, sizeof all);
    return all;
}

#endif
