/* A generated layer, packed once and run as often as the first argument says: what a simulator of
 * caches counts for one run is the difference of two. scripts/cache_misses.py compiles it. */
#include <stdio.h>
#include <stdlib.h>

#include "measured.h"

static void *room(size_t bytes)
{
    void *found = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!found) exit(1);
    return found;
}

/* Numbers between -1 and 1, the same every time. */
static float *numbers(size_t count)
{
    float *found = room(count * sizeof(float));
    unsigned state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        found[i] = (float)(int)state / 2147483648.0f;
    }
    return found;
}

int main(int count, char **words)
{
    const int calls = count > 1 ? atoi(words[1]) : 1;
    float *const input = numbers(INPUTS), *const weight = numbers(WEIGHTS);
    float *const output = room(OUTPUTS * sizeof(float));
    void *const packed = room(measured_packed_bytes());
    void *const workspace = room(measured_workspace_bytes(1));
    measured_pack(weight, packed, 1);
    for (int call = 0; call < calls; call++)
        measured_run(input, packed, NULL, output, workspace, 1);
    printf("%g\n", output[OUTPUTS / 2]);
    return 0;
}
