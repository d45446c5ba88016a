/* A layer of bytes on a Cortex-M4, by Winograd and directly: instructions, as the emulated machine
 * counts them. scripts/cortex_m4.py compiles and runs it. */
#include <arm_acle.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "tile.h"

enum { S = SIZE, C = CHANNELS, F = FILTERS, P = WINOGEN_TILE_PRODUCTS, K = 3 };

static int8_t x[S * S * C], w[F * 9 * C];
static winogen_tile_word_t u[F * P * P * C], v[P * P * C];
static int32_t y[S * S * F], z[S * S * F];

/* A clock that counts down: at 25 MHz, of a machine whose instructions take a nanosecond each. */
static volatile uint32_t *const systick = (volatile uint32_t *)0xE000E010u;

static uint32_t now(void)
{
    return systick[2];
}

#include "direct_m4.h"

int main(void)
{
    uint32_t seed = 1;
    for (unsigned k = 0; k < sizeof x; k++)
        x[k] = (int8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    for (unsigned k = 0; k < sizeof w; k++)
        w[k] = (int8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    winogen_tile_filters(w, F, C, u);
    systick[1] = 0xFFFFFFu;
    systick[2] = 0;
    systick[0] = 5;
    const uint32_t begin = now();
    winogen_tile_layer(x, S, S, C, 1, u, F, v, y);
    const uint32_t middle = now();
    direct();
    const uint32_t end = now();
    int different = 0;
    for (int k = 0; k < S * S * F; k++)
        different += y[k] != z[k];
    printf("%lu %lu %d\n", (unsigned long)((begin - middle) & 0xFFFFFFu),
           (unsigned long)((middle - end) & 0xFFFFFFu), different);
    return 0;
}
