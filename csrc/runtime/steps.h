/* A plan as C runs it: calls of kernels one after the other; for C and for cffi. */

/* `offset` bytes behind the address in `slot`. Slot 0 holds 0: offsets there are addresses that
 * stay the same, and 0 is NULL. */
typedef struct winogen_place {
    int64_t slot, offset;    /* The slot of an address, and bytes behind it. */
} winogen_place;

/* Parts [first, last) of the work of one call, counted through all phases. `run` is the
 * winogen_run_some of its kernel, `part` its winogen_part. NULL for `run`: there is one phase, whose
 * parts need no member. */
typedef struct winogen_step {
    /* Runs some parts on some threads; NULL: parts are run one by one. */
    void (*run)(const void *call, int64_t first, int64_t last, int threads);
    /* Runs one part in the buffers of a member. */
    void (*part)(const void *call, int64_t phase, int64_t part, int64_t member);
    /* Where the arrays of its call lie, in their order. */
    winogen_place pointers[9];
    /* The first part, and the one behind the last. */
    int64_t first, last;
    /* How many parts a phase has. */
    int64_t parts;
    /* Threads that there is workspace for. */
    int64_t threads;
} winogen_step;

/* The `part` of a step that packs weights: its pointers are the kernel's struct, the weights, where
 * they are packed to, and the kernel's winogen_pack. */
void winogen_pack_part(const void *call, int64_t phase, int64_t part, int64_t member);
