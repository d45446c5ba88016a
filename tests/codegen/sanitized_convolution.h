/* The definition of convolutions. `sizes` are those of a layer as its user sees it; FRACTION and
 * FLYTE are of arrays that hold narrower numbers than are computed with, else 0; ROUNDING is what
 * such a number is off by. */

/* Of a number in an array: FRACTION bits behind an exponent, in 16; or the first bytes of a `real`,
 * FLYTE of them; or a `real`. */
#if FLYTE
typedef struct { uint8_t bytes[FLYTE]; } array_number;
#define OUTPUT(p) (p)->results
static double value_of(array_number x)
{
    real whole = 0;
    memcpy((char *)&whole + sizeof whole - FLYTE, x.bytes, FLYTE);
    return (double)whole;
}
static array_number number_of(int value)    /* cut off where it has more bits */
{
    const real whole = (real)value;
    array_number x;
    memcpy(x.bytes, (const char *)&whole + sizeof whole - FLYTE, FLYTE);
    return x;
}
/* Memory has ones before something is written to it, which a flyte8 has no NaN for. */
static int is_written(array_number x)
{
    for (int i = 0; i < FLYTE; i++)
        if (x.bytes[i] != 0xff) return 1;
    return 0;
}
#elif FRACTION
typedef uint16_t array_number;
#define OUTPUT(p) (p)->results
static double value_of(array_number x)
{
    const int exponents = 1 << (15 - FRACTION), exponent = x >> FRACTION & (exponents - 1);
    const double fraction = x & ((1 << FRACTION) - 1), one = 1 << FRACTION;
    const double size = exponent ? one + fraction : fraction;
    if (exponent == exponents - 1) return fraction ? (double)NAN : (double)INFINITY;
    const double value = ldexp(size, (exponent ? exponent : 1) - exponents / 2 + 1 - FRACTION);
    return x >> 15 ? -value : value;
}
static array_number number_of(int value)    /* of -3 to 4 */
{
    static array_number known[8];
    array_number x = known[value + 3];
    if (x) return x;
    while (value_of(x) != value) x++;
    return known[value + 3] = x;
}
static int is_written(array_number x) { return !isnan(value_of(x)); }
#else
typedef real array_number;
#define OUTPUT(p) (p)->output
static double value_of(array_number x) { return (double)x; }
static array_number number_of(int value) { return (array_number)value; }
static int is_written(array_number x) { return !isnan(x); }
#endif

static int64_t source(int64_t i, int64_t size, int64_t mode)
{
    if (i >= 0 && i < size) return i;
    if (mode == 0) return -1;
    if (mode == 1) return i < 0 ? -i : 2 * (size - 1) - i;
    if (mode == 2) return i < 0 ? 0 : size - 1;
    return (i + size) % size;
}

static double one_output(const winogen_conv *p, const layer_sizes *layer, const array_number *input,
                         const real *weight, int64_t n, int64_t m, int64_t y, int64_t x)
{
    const int64_t first = m / layer->filters * layer->channels;
    double sum = 0;
    for (int64_t c = 0; c < layer->channels; c++)
        for (int64_t k = 0; k < p->kernel_height; k++)
            for (int64_t q = 0; q < p->kernel_width; q++) {
                const int64_t high = y * p->stride_h + k * p->dilation_h - p->pad_top;
                const int64_t wide = x * p->stride_w + q * p->dilation_w - p->pad_left;
                const int64_t row = source(high, p->height, p->padding_mode);
                const int64_t col = source(wide, p->width, p->padding_mode);
                if (row < 0 || col < 0) continue;
                const int64_t tap = layer->first_tap + k * layer->filter_row + q;
                const double factor = weight[c * layer->filter_taps + tap];
                sum += value_of(input[at(p->input, n, first + c, row, col)]) * factor;
            }
    return sum;
}

static double activated(const winogen_conv *p, double slope, double y)
{
    if (p->activation == RELU || p->relu) return y < 0 ? 0 : y;
    if (p->activation == PRELU) return y < 0 ? slope * y : y;
    if (p->activation == LEAKY_RELU) return y < 0 ? p->activation_a * y : y;
    return y;
}

static array_number *array_of(int64_t count, unsigned *seed)
{
    array_number *values = exactly(count * (int64_t)sizeof(array_number), 8);
    for (int64_t i = 0; i < count; i++) values[i] = number_of(random_of(seed, 8) - 3);
    return values;
}

/* Integers that the filter transform does not make fractions of, where UNIT is such a number. */
static real *filters_of(int64_t count, unsigned *seed)
{
    real *values = numbers(count, seed);
    for (int64_t i = 0; i < count; i++) values[i] *= UNIT;
    return values;
}

/* From the first number of an array of the output's shape to behind its last. */
static int64_t extent(const winogen_conv *p, winogen_strides s, int64_t filters)
{
    return 1 + at(s, p->batch - 1, filters - 1, p->out_height - 1, p->out_width - 1);
}

static double slope_of(const real *slopes, int64_t at) { return slopes ? (double)slopes[at] : 0; }
static double added(const array_number *array, int64_t at) { return array ? value_of(array[at]) : 0; }

#if SPREAD
/* Of all phases of a transposed layer: output (row, x) is pixel ((row, x) + crop) / spread of the
 * phase that is left, whose filters stand behind those of the phases before it. */
static int failed(int i, unsigned seed)
{
    const winogen_conv *const p = &calls[i];
    const layer_sizes *const layer = &sizes[i];
    const int64_t own = p->phase_lanes, filters = layer->groups * own;
    const int64_t terms = layer->channels * layer->filter_taps;
    winogen_conv whole = *p;
    winogen_strides *const arrays[] = { &OUTPUT(&whole), &whole.add, &whole.add_after };
    for (int k = 0; k < 3; k++) arrays[k]->row /= p->spread_h, arrays[k]->pixel /= p->spread_w;
    whole.out_height = p->whole_height, whole.out_width = p->whole_width;
    const int64_t outputs = extent(&whole, OUTPUT(&whole), filters);
    array_number *input = array_of(p->input_numbers, &seed);
    real *weight = filters_of(layer->groups * layer->filters * terms, &seed);
    real *bias = layer->has_bias ? numbers(filters, &seed) : NULL;
    real *slopes = p->activation == PRELU ? numbers(filters, &seed) : NULL;
    array_number *add = p->add.image ? array_of(extent(&whole, whole.add, filters), &seed) : NULL;
    array_number *add_after =
        p->add_after.image ? array_of(extent(&whole, whole.add_after, filters), &seed) : NULL;
    array_number *output = exactly(outputs * (int64_t)sizeof(array_number), layer->is_aligned ? 64 : 8);
    real *packed = exactly(p->packed_bytes, 64);
    winogen_pack(p, weight, packed, threads[i]);
    run(i, &(winogen_call){
        .input = input, .packed = packed, .bias = bias, .slopes = slopes,
        .add = add, .add_after = add_after, .output = output,
    });
    int64_t written = 0;
    int wrong = 0;
    for (int64_t k = 0; k < outputs; k++) written += is_written(output[k]);
    wrong += written != p->batch * filters * whole.out_height * whole.out_width;
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t m = 0; m < filters; m++)
            for (int64_t row = 0; row < whole.out_height; row++)
                for (int64_t x = 0; x < whole.out_width; x++) {
                    const int64_t high = row + p->crop_h, wide = x + p->crop_w;
                    const int64_t phase = high % p->spread_h * p->spread_w + wide % p->spread_w;
                    const int64_t filter =
                        m / own * layer->filters + phase * p->phase_filters + m % own;
                    const double sum = one_output(p, layer, input, weight + filter * terms, n,
                                                  filter, high / p->spread_h, wide / p->spread_w);
                    const double y = sum + slope_of(bias, m) + added(add, at(whole.add, n, m, row, x));
                    const double expected = activated(p, slope_of(slopes, m), y)
                                          + added(add_after, at(whole.add_after, n, m, row, x));
                    const double result = value_of(output[at(OUTPUT(&whole), n, m, row, x)]);
                    wrong += !(fabs(result - expected) < TOLERANCE + fabs(expected) * ROUNDING);
                }
    free(input), free(weight), free(bias), free(slopes), free(add), free(add_after), free(output), free(packed);
    return wrong;
}
#else
/* The layer of a call: where it is dilated, not that of one phase. */
static winogen_conv layer_of(const winogen_conv *p)
{
    winogen_conv whole = *p;
#if DILATED
    winogen_strides *const arrays[] = { &OUTPUT(&whole), &whole.add, &whole.add_after };
    for (int i = 0; i < 3; i++) {
        arrays[i]->row /= p->dilation_h;
        arrays[i]->pixel /= p->dilation_w;
    }
    whole.batch /= p->dilation_h * p->dilation_w;
    whole.row_end = p->out_height;
    whole.col_end = p->out_width;
#endif
    return whole;
}

static int failed(int i, unsigned seed)
{
    const winogen_conv whole = layer_of(&calls[i]), *const p = &whole;
    const layer_sizes *const layer = &sizes[i];
    const int64_t filters = layer->groups * layer->filters;
    const int64_t outputs = extent(p, OUTPUT(p), filters);
    const int64_t terms = layer->channels * layer->filter_taps;
    array_number *input = array_of(p->input_numbers, &seed);
    real *weight = filters_of(filters * terms, &seed);
    real *bias = layer->has_bias ? numbers(filters, &seed) : NULL;
    real *slopes = p->activation == PRELU ? numbers(filters, &seed) : NULL;
    array_number *add = p->add.image ? array_of(extent(p, p->add, filters), &seed) : NULL;
    array_number *add_after =
        p->add_after.image ? array_of(extent(p, p->add_after, filters), &seed) : NULL;
    array_number *output = exactly(outputs * (int64_t)sizeof(array_number), layer->is_aligned ? 64 : 8);
    real *packed = exactly(p->packed_bytes, 64);
    winogen_pack(p, weight, packed, threads[i]);
    run(i, &(winogen_call){
        .input = input, .packed = packed, .bias = bias, .slopes = slopes,
        .add = add, .add_after = add_after, .output = output,
    });
    int64_t written = 0;
    int wrong = 0;
    for (int64_t k = 0; k < outputs; k++) written += is_written(output[k]);
    wrong += written != p->batch * filters * (p->row_end - p->row_begin) * (p->col_end - p->col_begin);
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t m = 0; m < filters; m++)
            for (int64_t row = 0; row < p->out_height; row++)
                for (int64_t x = 0; x < p->out_width; x++) {
                    const array_number made = output[at(OUTPUT(p), n, m, row, x)];
                    const double result = value_of(made);
                    const int inside = row >= p->row_begin && row < p->row_end && x >= p->col_begin
                                    && x < p->col_end;
                    const double sum = one_output(p, layer, input, weight + m * terms, n, m, row, x);
                    const double y = sum + slope_of(bias, m) + added(add, at(p->add, n, m, row, x));
                    const double expected = activated(p, slope_of(slopes, m), y)
                                          + added(add_after, at(p->add_after, n, m, row, x));
                    if (inside ? !(fabs(result - expected) < TOLERANCE + fabs(expected) * ROUNDING) : is_written(made)) wrong++;
                }
    free(input), free(weight), free(bias), free(slopes), free(add), free(add_after), free(output), free(packed);
    return wrong;
}
#endif
