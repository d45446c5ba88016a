/* The steps [0, count), on so many threads. */
void winogen_run_segment(const winogen_step *steps, int64_t count, const int64_t *slots,
                         int threads);
