/* Calls of kernels one after the other: what lies between the layers of a network costs once.
 *
 * The calls are made ready once; where their arrays are is known only when they run. So every
 * pointer of a call is an offset behind one of a few addresses, which the caller passes. */

enum { POINTERS = sizeof((winogen_step *)0)->pointers / sizeof(winogen_place) };

/* Runs one step on whatever threads there are; all ends where it does not return 0. */
typedef int winogen_pool(void *pool, const winogen_step *step, const void *call);

static int winogen_run_steps(const winogen_step *steps, int64_t count, const int64_t *slots,
                             winogen_pool *run, void *pool)
{
    for (const winogen_step *s = steps; s < steps + count; s++) {
        const void *call[POINTERS];
        for (int i = 0; i < POINTERS; i++)
            call[i] = (const void *)(intptr_t)(slots[s->pointers[i].slot] + s->pointers[i].offset);
        const int failed = run(pool, s, call);
        if (failed) return failed;
    }
    return 0;
}

void winogen_pack_part(const void *call, int64_t phase, int64_t part, int64_t member)
{
    typedef void packing(const void *conv, const void *weight, void *packed, int threads);
    void *const *const given = (void *const *)call;
    (void)phase, (void)part, (void)member;
    ((packing *)(intptr_t)given[3])(given[0], given[1], given[2], 1);
}
