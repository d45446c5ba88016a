/* The net of digits on a Cortex-M4: codes of its scores and instructions for each picture.
 * scripts/digits_on_m4.py compiles and runs it; the 64 KB and 32 KB hold all but this file and
 * direct convolution. */
#include <arm_acle.h>
#include <string.h>
#include "board_m4.h"
#include "digits.h"
#include "pictures.h"

_Alignas(DIGITS_ARENA_ALIGNMENT) static char arena[DIGITS_ARENA_BYTES];
static float y[10];

/* The second layer by direct convolution, for the instructions that it takes. */
enum { S = 4, C = 32, F = 64, K = 5 };
#define BESIDE __attribute__((section(".beside")))
static int8_t x[S * S * C] BESIDE, w[F * K * K * C] BESIDE;
static int32_t z[S * S * F] BESIDE;
#include "direct_m4.h"

extern uint32_t unused[];    /* the memory of the stack, from here to top */

int main(void)
{
    for (uint32_t *word = unused; (char *)word < (char *)__builtin_frame_address(0) - 256; word++)
        *word = 0x5a5a5a5au;
    begin_clock();
    for (int i = 0; i < PICTURES; i++) {
        const uint32_t first = clock_now();
        digits_run(pictures[i], y, arena);
        const uint32_t taken = instructions_since(first);
        for (int k = 0; k < 10; k++) {
            uint32_t bits;
            __builtin_memcpy(&bits, &y[k], 4);
            print(bits, ' ');
        }
        print(taken, '\n');
    }
    const uint32_t *word = unused;
    while (*word == 0x5a5a5a5au) word++;
    print((uint32_t)((char *)top - (const char *)word), '\n');
    const uint32_t begin = clock_now();
    direct();
    __asm__ volatile("" : : "r"(z) : "memory");    /* somebody reads the sums */
    print(instructions_since(begin), '\n');
    leave();
}
