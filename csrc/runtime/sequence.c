/* Calls of kernels one after the other: what lies between the layers of a network costs once.
 *
 * The calls are made ready once; where their arrays are is known only when they run. So every
 * pointer of a call is an offset behind one of a few addresses, which the caller passes. */

#include <stdint.h>

#include "sequence.h"

void winogen_sequence(const winogen_step *steps, int64_t first, int64_t last, const int64_t *slots,
                      int threads)
{
    for (const winogen_step *s = steps + first; s < steps + last; s++) {
        const void *call[9];
        for (int i = 0; i < 9; i++)
            call[i] = (const void *)(intptr_t)(slots[s->arrays[i].slot] + s->arrays[i].offset);
        s->run(call, s->first, s->last, threads);
    }
}
