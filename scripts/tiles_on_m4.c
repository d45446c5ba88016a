/* A network of one layer on a Cortex-M4: its instructions, and a digest of the codes that it gives.
 * scripts/tiles_on_m4.py compiles and runs it. */
#include "board_m4.h"
#include "net.h"

_Alignas(NET_ARENA_ALIGNMENT) static char arena[NET_ARENA_BYTES];
static uint8_t x[NET_X_NUMBERS], y[NET_Y_NUMBERS];

int main(void)
{
    uint32_t random = 1, digest = 2166136261u;
    for (int i = 0; i < NET_X_NUMBERS; i++) {
        random = random * 1664525u + 1013904223u;
        x[i] = (uint8_t)(random >> 24);
    }
    begin_clock();
    const uint32_t first = clock_now();
    net_run(x, y, arena);
    const uint32_t taken = instructions_since(first);
    for (int i = 0; i < NET_Y_NUMBERS; i++) digest = (digest ^ y[i]) * 16777619u;
    print(taken, ' ');
    print(digest, '\n');
    leave();
}
