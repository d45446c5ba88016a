/* What programs that call one layer share: room, and numbers to compute with. */
#include <stdio.h>
#include <stdlib.h>

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
