/* What a segment passes to winogen_sequence(); for C and for cffi. */

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
                      int threads);
