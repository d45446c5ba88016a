/* Calls of kernels one after the other: what lies between the layers of a network costs once.
 *
 * The calls are made ready once; where their arrays are is known only when they run. So every
 * pointer of a call is an offset behind one of a few addresses, which the caller passes. */

#include <stdint.h>

/* `offset` bytes behind the address in `slot`. Slot 0 holds 0: offsets there are addresses that
 * stay the same, and 0 is NULL. */
typedef struct winogen_place {
    int64_t slot, offset;
} winogen_place;

/* Parts [first, last) of the work of one call. `run` is the winogen_run_some of its kernel, and
 * `arrays` are the nine pointers of its winogen_call, in their order. */
typedef struct winogen_step {
    void (*run)(const void *call, int64_t first, int64_t last, int threads);
    winogen_place arrays[9];
    int64_t first, last;
} winogen_step;

/* The steps [first, last). */
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
