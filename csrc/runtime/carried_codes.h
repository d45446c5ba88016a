/* ---- nodes of codes ----------------------------------------------------------------------------
 * Their plans are for one model each, whose weights stand in this library. */

enum { MOST_CODE_ARRAYS = 5 };

typedef void real_packing(const void *conv, const void *weight, const void *zero, const void *bias,
                          const void *multiplier, const void *slopes, void *packed, int threads);

/* A step of codes. */
typedef struct carried_code_step {
    winogen_step step;                   /* The step itself. */
    const void *conv;                    /* The struct of its call. */
    quantized_packing *pack;             /* What packs four arrays of a convolution, or NULL. */
    real_packing *pack_reals;            /* What packs five of them, or NULL. */
    /* What packs the weights of tiles, whose second array are biases, or NULL. */
    void (*pack_tiles)(const void *conv, const void *weight, void *packed, int threads);
    int64_t arrays[MOST_CODE_ARRAYS];    /* Where its arrays begin in the data, -1 for none. */
    int64_t count, fixed;                /* How many there are, and the first pointer to one, of
                                          * what packs nothing. */
    int64_t packed_bytes;                /* Bytes of packed arrays. */
} carried_code_step;

typedef struct carried_codes {
    int64_t bytes;                    /* How many bytes the model has. */
    uint64_t key;                     /* What they add up to. */
    int64_t inputs, steps, scratch;   /* How many inputs and steps there are, and bytes of memory
                                       * to work in. */
    const winogen_array *array;       /* The inputs. */
    const carried_code_step *step;    /* The steps. */
} carried_codes;

/* Words of eight bytes, each times an odd number of its own. */
static uint64_t key_of(const char *model, int64_t bytes)
{
    uint64_t key = 0;
    for (int64_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, model + i, (size_t)(bytes - i < 8 ? bytes - i : 8));
        key += word * (uint64_t)(i / 4 + 1);
    }
    return key;
}

/* Whether two arrays have the same sizes. */
static int same_array(const winogen_array *a, const winogen_array *b)
{
    return a->rank == b->rank &&
           !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

static const carried_codes *codes_for(const carried_codes *plans, size_t count,
                                      const winogen_question *q)
{
    const uint64_t key = key_of(q->codes, q->code_bytes);
    for (const carried_codes *c = plans; c < plans + count; c++) {
        int fits = c->bytes == q->code_bytes && c->key == key && c->inputs == q->inputs;
        for (int64_t i = 0; fits && i < c->inputs; i++) fits = same_array(&c->array[i], &q->array[i]);
        if (fits) return c;
    }
    return NULL;
}

/* Makes a step ready to run, and packs what it packs; 0: out of memory. */
static int make_code_step(const carried_code_step *s, const unsigned char *data, winogen_step *step,
                          void **packed)
{
    const void *a[MOST_CODE_ARRAYS] = { NULL };
    for (int64_t i = 0; i < s->count; i++) a[i] = s->arrays[i] < 0 ? NULL : data + s->arrays[i];
    *step = s->step;
    step->pointers[0].offset = (int64_t)(intptr_t)s->conv;
    if (!s->packed_bytes) {
        for (int64_t i = 0; i < s->count; i++)
            step->pointers[s->fixed + i].offset = (int64_t)(intptr_t)a[i];
        return 1;
    }
    *packed = aligned_alloc(64, ((size_t)s->packed_bytes + 63) / 64 * 64);
    if (!*packed) return 0;
    if (s->pack_tiles) {
        s->pack_tiles(s->conv, a[0], *packed, 1);
        step->pointers[3].offset = (int64_t)(intptr_t)a[1];
    } else if (s->pack)
        s->pack(s->conv, a[0], a[1], a[2], a[3], *packed, 1);
    else
        s->pack_reals(s->conv, a[0], a[1], a[2], a[3], a[4], *packed, 1);
    step->pointers[2].offset = (int64_t)(intptr_t)*packed;
    return 1;
}
