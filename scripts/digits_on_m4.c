/* The net of digits on a Cortex-M4: codes of its scores and instructions for each picture.
 * scripts/digits_on_m4.py compiles and runs it; the 64 KB and 32 KB hold all but this file and
 * direct convolution. */
#include <arm_acle.h>
#include <stdint.h>
#include <string.h>
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

/* A clock that counts down, once in 40 instructions. */
static volatile uint32_t *const systick = (volatile uint32_t *)0xE000E010u;
extern uint32_t unused[], top[];    /* the memory of the stack */

static int host(int what, const void *with)
{
    register int r0 __asm__("r0") = what;
    register const void *r1 __asm__("r1") = with;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void print(uint32_t number, char end)
{
    char text[12], *at = text + 11;
    *at = 0, *--at = end;
    do *--at = (char)('0' + number % 10);
    while (number /= 10);
    host(4, at);
}

int main(void)
{
    for (uint32_t *word = unused; (char *)word < (char *)__builtin_frame_address(0) - 256; word++)
        *word = 0x5a5a5a5au;
    systick[1] = 0xFFFFFFu, systick[2] = 0, systick[0] = 5;
    for (int i = 0; i < PICTURES; i++) {
        const uint32_t first = systick[2];
        digits_run(pictures[i], y, arena);
        const uint32_t ticks = (first - systick[2]) & 0xFFFFFFu;
        for (int k = 0; k < 10; k++) {
            uint32_t bits;
            __builtin_memcpy(&bits, &y[k], 4);
            print(bits, ' ');
        }
        print(40 * ticks, '\n');
    }
    const uint32_t *word = unused;
    while (*word == 0x5a5a5a5au) word++;
    print((uint32_t)((char *)top - (const char *)word), '\n');
    const uint32_t begin = systick[2];
    direct();
    __asm__ volatile("" : : "r"(z) : "memory");    /* somebody reads the sums */
    print(40 * ((begin - systick[2]) & 0xFFFFFFu), '\n');
    static const uint32_t done[2] = { 0x20026, 0 };
    host(0x20, done);
    for (;;) {}
}

__attribute__((noreturn)) void start(void)
{
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20;    /* floating point */
    __asm__ volatile("dsb\n\tisb");
    main();
    for (;;) {}
}

__attribute__((section(".vectors"), used)) static void *const vectors[2] = { top, (void *)start };
