/* Bytes to float32 and back, for quantized layers whose tiles are computed in real numbers. */
static winogen_team *on_team = on_openmp;
void winogen_use_team(winogen_team *team) { on_team = team; }

enum { PIECE = 1 << 14 };    /* numbers that a thread takes at a time */

typedef struct {
    const void *from;                /* Numbers that are converted. */
    void *to;                        /* What becomes of them. */
    int64_t count;                   /* How many there are. */
    int flip, zero;                  /* The xor of bytes, and their zero point. */
    float shift, lowest, highest;    /* What is added to numbers, and the limits of sums. */
} conversion;

static void widen_piece(void *context, int64_t piece)
{
    const conversion *c = context;
    const int64_t begin = piece * PIECE, end = begin + PIECE < c->count ? begin + PIECE : c->count;
    const uint8_t *from = c->from;
    float *to = c->to;
    const int flip = c->flip, zero = c->zero;
    for (int64_t i = begin; i < end; i++) to[i] = (float)((from[i] ^ flip) - zero);
}

/* to = from - zero; `flip` is 128 where the bytes are int8, which makes them uint8. */
void winogen_widen(const uint8_t *from, int64_t count, int flip, int zero, float *to, int threads)
{
    conversion c = { .from = from, .to = to, .count = count, .flip = flip, .zero = zero };
    on_team(widen_piece, &c, (count + PIECE - 1) / PIECE, threads);
}

static void narrow_piece(void *context, int64_t piece)
{
    const conversion *c = context;
    const int64_t begin = piece * PIECE, end = begin + PIECE < c->count ? begin + PIECE : c->count;
    const float *from = c->from, zero = c->shift, lowest = c->lowest, highest = c->highest;
    const float magic = 12582912;    /* 1.5 * 2^23: no room for halves above it */
    uint8_t *to = c->to;
    for (int64_t i = begin; i < end; i++) {
        float y = from[i] + zero;
        y = y < lowest ? lowest : y;
        y = y > highest ? highest : y;
        to[i] = (uint8_t)(int32_t)(y + magic - magic);
    }
}

/* to = from + zero as an integer in [lowest, highest], halves to the even one. */
void winogen_narrow(const float *from, int64_t count, float zero, float lowest, float highest,
                    uint8_t *to, int threads)
{
    conversion c = { .from = from, .to = to, .count = count,
                     .shift = zero, .lowest = lowest, .highest = highest };
    on_team(narrow_piece, &c, (count + PIECE - 1) / PIECE, threads);
}
