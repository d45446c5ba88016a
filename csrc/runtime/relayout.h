/* Maps whose channels become the last axis, or the first again; for C and for cffi. */

/* Of `count` matrices, each is transposed: `rows` x `cols` numbers become `cols` x `rows`. */
typedef struct winogen_relayout {
    int64_t count, rows, cols;    /* How many matrices there are, and rows and columns of each. */
} winogen_relayout;

/* How many parts that has. */
int64_t winogen_relayout_parts(const winogen_relayout *r);

/* One part: the pointers are the struct, the input and the output. */
void winogen_relayout_part_float(const void *call, int64_t phase, int64_t part, int64_t member);
void winogen_relayout_part_double(const void *call, int64_t phase, int64_t part, int64_t member);
