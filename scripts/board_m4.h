/* A Cortex-M4 without an operating system, as qemu's board mps2-an386 has it: a clock of
 * instructions, output by semihosting, and where the processor begins. One file of a program
 * includes this and has a main(), which ends in leave(). */
#include <stdint.h>

/* A clock that counts down, once in 40 instructions. */
static volatile uint32_t *const systick = (volatile uint32_t *)0xE000E010u;
extern uint32_t top[];    /* the end of memory */

static inline void begin_clock(void) { systick[1] = 0xFFFFFFu, systick[2] = 0, systick[0] = 5; }
static inline uint32_t clock_now(void) { return systick[2]; }

static inline uint32_t instructions_since(uint32_t first)
{
    return 40 * ((first - systick[2]) & 0xFFFFFFu);
}

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

__attribute__((noreturn)) static void leave(void)
{
    static const uint32_t done[2] = { 0x20026, 0 };
    host(0x20, done);
    for (;;) {}
}

int main(void);

__attribute__((noreturn)) void start(void)
{
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20;    /* floating point */
    __asm__ volatile("dsb\n\tisb");
    main();
    leave();
}

__attribute__((section(".vectors"), used)) static void *const vectors[2] = { top, (void *)start };
