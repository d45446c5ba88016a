/* A plan as C runs it: calls of kernels one after the other; for C and for cffi. */

/* `offset` bytes behind the address in `slot`. Slot 0 holds 0: offsets there are addresses that
 * stay the same, and 0 is NULL. */
typedef struct winogen_place {
    int64_t slot, offset;
} winogen_place;

/* Parts [first, last) of the work of one call, counted through all phases. `run` is the
 * winogen_run_some of its kernel, `part` its winogen_part. */
typedef struct winogen_step {
    void (*run)(const void *call, int64_t first, int64_t last, int threads);
    void (*part)(const void *call, int64_t phase, int64_t part, int64_t member);
    winogen_place pointers[9];    /* those of its winogen_call, in their order */
    int64_t first, last;
    int64_t parts;                /* of a phase */
    int64_t threads;              /* that there is workspace for */
} winogen_step;

/* Runs one step on threads of others; all ends where it does not return 0. */
typedef int (*winogen_pool)(void *pool, const winogen_step *step, const void *call);

/* Runs all steps: on threads of OpenMP's, or by `run` where there is one. Returns what that does. */
int winogen_run_steps(const winogen_step *steps, int64_t count, const int64_t *slots, int threads,
                      winogen_pool run, void *pool);

/* The `part` of a step that packs weights: its pointers are the kernel's struct, the weights, where
 * they are packed to, and the kernel's winogen_pack. */
void winogen_pack_part(const void *call, int64_t phase, int64_t part, int64_t member);
