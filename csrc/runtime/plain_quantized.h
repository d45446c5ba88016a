/* ---- the plain way, quantized ------------------------------------------------------------------
 * As ONNX's QLinearConv: the sum, with the bias, is exact, and rounded once. */

/* A quantized layer with its constants; the arrays of a call are input and output, NCHW. */
typedef struct quantized_layer {
    const winogen_layer *layer;                  /* The layer. */
    uint8_t flip;                                /* 128 if the input is int8_t, which makes it
                                                  * unsigned. */
    const int8_t *weight, *w_zero;               /* The filters, and their zero points. */
    const int32_t *bias;                         /* The bias of each filter. */
    const float *x_scale, *w_scale, *y_scale;    /* Scales; NULL: the sums are the output. */
    int64_t w_zeros, w_scales;                   /* Zero points and scales of filters: one, or
                                                  * one for each. */
    int64_t x_zero;                              /* The zero point of inputs as unsigned numbers. */
    int64_t y_zero, lowest, highest;             /* The zero point of outputs, and their limits. */
    int64_t batch, filters, channels;            /* Images, filters, and channels of a group. */
    int64_t size[2], kernel[2], out[2];          /* Height and width of the input, of the kernel
                                                  * and of the output. */
} quantized_layer;

enum { QUANTIZED_LAYER, QUANTIZED_INPUT, QUANTIZED_OUTPUT };    /* the pointers of a call */

/* The sum of one output; `plane`: the image's first channel of the group. */
static int32_t quantized_sum(const quantized_layer *c, const uint8_t *plane, const int8_t *weight,
                             int64_t zero, int64_t row, int64_t col)
{
    const winogen_layer *l = c->layer;
    const int64_t top = row * l->stride[HEIGHT] - l->padding[HEIGHT];
    const int64_t left = col * l->stride[WIDTH] - l->padding[WIDTH];
    int64_t sum = 0;
    for (int64_t channel = 0; channel < c->channels; channel++)
        for (int64_t i = 0; i < c->kernel[0]; i++) {
            const int64_t y = top + i * l->dilation[HEIGHT];
            if (y < 0 || y >= c->size[0]) continue;
            const uint8_t *from = plane + (channel * c->size[0] + y) * c->size[1];
            const int8_t *taps = weight + (channel * c->kernel[0] + i) * c->kernel[1];
            for (int64_t j = 0; j < c->kernel[1]; j++) {
                const int64_t x = left + j * l->dilation[WIDTH];
                if (x < 0 || x >= c->size[1]) continue;
                sum += ((from[x] ^ c->flip) - c->x_zero) * (taps[j] - zero);
            }
        }
    return (int32_t)sum;
}

/* Plane `part` of the output. */
static void plain_part_quantized(const void *call, int64_t phase, int64_t part, int64_t member)
{
    const void *const *const given = call;
    const quantized_layer *const c = given[QUANTIZED_LAYER];
    (void)phase, (void)member;
    const int64_t image = part / c->filters, filter = part % c->filters;
    const int64_t groups = c->layer->groups, group = filter / (c->filters / groups);
    const int64_t taps = c->channels * c->kernel[0] * c->kernel[1];
    const int64_t channel = (image * groups + group) * c->channels;
    const uint8_t *plane =
        (const uint8_t *)given[QUANTIZED_INPUT] + channel * c->size[0] * c->size[1];
    const int64_t zero = c->w_zero ? c->w_zero[c->w_zeros > 1 ? filter : 0] : 0;
    const int64_t place = part * c->out[0] * c->out[1];
    void *const output = (void *)given[QUANTIZED_OUTPUT];
    float multiplier = 1;
    if (c->y_scale) multiplier = *c->x_scale * c->w_scale[c->w_scales > 1 ? filter : 0];
    if (c->y_scale) multiplier /= *c->y_scale;
    for (int64_t row = 0; row < c->out[0]; row++)
        for (int64_t col = 0; col < c->out[1]; col++) {
            int32_t sum =
                quantized_sum(c, plane, c->weight + filter * taps, zero, row, col);
            if (c->bias) sum += c->bias[filter];
            const int64_t at = place + row * c->out[1] + col;
            if (!c->y_scale) {
                ((int32_t *)output)[at] = sum;
                continue;
            }
            ((uint8_t *)output)[at] = (uint8_t)requantized(
                sum, (double)multiplier, (int32_t)c->lowest, (int32_t)c->highest,
                (int32_t)c->y_zero);
        }
}
