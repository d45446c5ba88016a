/* A network of one layer on a Cortex-M4: its instructions, and a digest of the codes that it gives.
 * scripts/tiles_on_m4.py compiles and runs it. */
#include <stdint.h>
#include <string.h>
#include "net.h"

_Alignas(NET_ARENA_ALIGNMENT) static char arena[NET_ARENA_BYTES];
static uint8_t x[NET_X_NUMBERS], y[NET_Y_NUMBERS];

/* A clock that counts down, once in 40 instructions. */
static volatile uint32_t *const systick = (volatile uint32_t *)0xE000E010u;
extern uint32_t top[];    /* the end of memory */

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
    uint32_t random = 1, digest = 2166136261u;
    for (int i = 0; i < NET_X_NUMBERS; i++) {
        random = random * 1664525u + 1013904223u;
        x[i] = (uint8_t)(random >> 24);
    }
    systick[1] = 0xFFFFFFu, systick[2] = 0, systick[0] = 5;
    const uint32_t first = systick[2];
    net_run(x, y, arena);
    const uint32_t ticks = (first - systick[2]) & 0xFFFFFFu;
    for (int i = 0; i < NET_Y_NUMBERS; i++) digest = (digest ^ y[i]) * 16777619u;
    print(40 * ticks, ' ');
    print(digest, '\n');
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
