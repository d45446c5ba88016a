/* Bytes to float32 and back, for quantized layers whose tiles are computed in real numbers. */
#include <stdint.h>

enum { PIECE = 1 << 14 };    /* numbers that a thread takes at a time */

/* to = from - zero; `flip` is 128 where the bytes are int8, which makes them uint8. */
void winogen_widen(const uint8_t *from, int64_t count, int flip, int zero, float *to, int threads)
{
    (void)threads;
#pragma omp parallel for num_threads(threads)
    for (int64_t begin = 0; begin < count; begin += PIECE) {
        const int64_t end = count - begin < PIECE ? count : begin + PIECE;
        for (int64_t i = begin; i < end; i++) to[i] = (float)((from[i] ^ flip) - zero);
    }
}

/* to = from + zero as an integer in [lowest, highest], halves to the even one. */
void winogen_narrow(const float *from, int64_t count, float zero, float lowest, float highest,
                    uint8_t *to, int threads)
{
    const float magic = 12582912;    /* 1.5 * 2^23: no room for halves above it */
    (void)threads;
#pragma omp parallel for num_threads(threads)
    for (int64_t begin = 0; begin < count; begin += PIECE) {
        const int64_t end = count - begin < PIECE ? count : begin + PIECE;
        for (int64_t i = begin; i < end; i++) {
            float y = from[i] + zero;
            y = y < lowest ? lowest : y;
            y = y > highest ? highest : y;
            to[i] = (uint8_t)(int32_t)(y + magic - magic);
        }
    }
}
