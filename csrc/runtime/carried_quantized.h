/* ---- quantized layers --------------------------------------------------------------------------
 * Their plans are for certain zero points, which a kernel's struct holds; the rest is packed. */

/* What besides sizes makes a plan fit. */
typedef struct carried_scales {
    winogen_scales scales;              /* The arrays of its scales and zero points. */
    int64_t x_zero, y_zero, w_zeros;    /* Zero points of inputs and outputs, and whether any
                                         * filter has one. */
} carried_scales;

typedef void quantized_packing(const void *conv, const void *weight, const void *zero,
                               const void *bias, const void *multiplier, void *packed, int threads);

/* Zero point `i` of an array of uint8 or int8; 0 where there is none. */
static int64_t zero_at(const winogen_question *q, int64_t array, int64_t is_signed, int64_t i)
{
    if (array < 0) return 0;
    const uint8_t byte = ((const uint8_t *)q->array[array].constant)[i];
    return is_signed ? (int8_t)byte : byte;
}

static int64_t count_of(const winogen_question *q, int64_t array)
{
    int64_t count = 1;
    for (int64_t i = 0; array >= 0 && i < q->array[array].rank; i++)
        count *= q->array[array].shape[i];
    return count;
}

static int scales_fit(const carried_scales *c, const winogen_question *q)
{
    if (!c || !q->scales) return !c && !q->scales;
    const winogen_scales *s = q->scales;
    int64_t zeros = 0;
    for (int64_t i = 0; i < count_of(q, s->w_zero); i++) zeros |= zero_at(q, s->w_zero, 1, i) != 0;
    return !memcmp(&c->scales, s, sizeof *s) && c->w_zeros == zeros &&
           c->x_zero == zero_at(q, s->x_zero, s->input_signed, 0) &&
           c->y_zero == zero_at(q, s->y_zero, s->output_signed, 0);
}

/* Packs the weights of a quantized layer with what is known of each filter; 0: out of memory. */
static int pack_quantized(const winogen_question *q, quantized_packing *pack, const void *conv,
                          void *packed)
{
    const winogen_scales *s = q->scales;
    const int64_t weight = q->layer->weight, filters = q->array[weight].shape[0];
    int32_t *zeros = malloc((size_t)filters * sizeof *zeros);
    float *multipliers = malloc((size_t)filters * sizeof *multipliers);
    if (zeros && multipliers) {
        for (int64_t m = 0; m < filters; m++) {
            zeros[m] = (int32_t)zero_at(q, s->w_zero, 1, count_of(q, s->w_zero) > 1 ? m : 0);
            if (s->y_scale < 0) continue;
            const float *w = q->array[s->w_scale].constant;
            const float both = *(const float *)q->array[s->x_scale].constant *
                               w[count_of(q, s->w_scale) > 1 ? m : 0];
            multipliers[m] = both / *(const float *)q->array[s->y_scale].constant;
        }
        pack(conv, q->array[weight].constant, zeros,
             q->layer->bias < 0 ? NULL : q->array[q->layer->bias].constant,
             s->y_scale < 0 ? NULL : multipliers, packed, 1);
    }
    const int done = zeros && multipliers;
    free(zeros);
    free(multipliers);
    return done;
}
