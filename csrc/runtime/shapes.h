/* ---- sizes -------------------------------------------------------------------------------------
 * What follows from the sizes of a node's inputs: those of all other arrays, or why not. */

enum { NO_AUTO_PAD, VALID, SAME_UPPER, SAME_LOWER };

/* Writes a message and returns 0. */
static int refuse(char *message, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(message, MESSAGE_BYTES, format, values);
    va_end(values);
    return 0;
}

static int64_t numbers_of(const winogen_array *array)
{
    int64_t numbers = 1;
    for (int64_t axis = 0; axis < array->rank; axis++) numbers *= array->shape[axis];
    return numbers;
}

/* The size of an array along DEPTH, HEIGHT or WIDTH; maps have one plane. */
static int64_t size_along(const winogen_array *a, int axis)
{
    const int64_t place = axis + a->rank - AXES;
    return place < 2 ? 1 : a->shape[place];
}

static int64_t pixels_of(const winogen_array *a)
{
    return size_along(a, DEPTH) * size_along(a, HEIGHT) * size_along(a, WIDTH);
}

/* An array of images of a rank, whose sizes along the axes follow. */
static winogen_array images(int64_t batch, int64_t channels, int64_t rank)
{
    return (winogen_array){ .rank = rank, .shape = { batch, channels } };
}

/* Outputs along an axis; the padding of SAME_UPPER and SAME_LOWER is resolved on the way. */
static int64_t outputs_along(winogen_layer *l, int axis, int64_t size, int64_t taps, int auto_pad)
{
    const int64_t reach = l->dilation[axis] * (taps - 1) + 1, stride = l->stride[axis];
    int64_t *before = &l->padding[axis], *after = &l->padding[axis + AXES];
    if (auto_pad == VALID) *before = *after = 0;
    if (auto_pad == SAME_UPPER || auto_pad == SAME_LOWER) {
        const int64_t outputs = (size + stride - 1) / stride;
        int64_t padding = (outputs - 1) * stride + reach - size;
        if (padding < 0) padding = 0;
        *before = auto_pad == SAME_UPPER ? padding / 2 : padding - padding / 2;
        *after = padding - *before;
    }
    const int64_t room = size + *before + *after - reach;
    return room < 0 ? 0 : room / stride + 1;
}

enum { SIZES_BYTES = 128 };
static const char *const AXIS_NAMES[] = { "depth", "height", "width" };

/* The sizes of an array as words, in `text` of SIZES_BYTES bytes. */
static const char *listed(const winogen_array *a, const char *between, char *text)
{
    int length = 0;
    for (int64_t axis = 0; axis < a->rank; axis++)
        length += snprintf(text + length, (size_t)(SIZES_BYTES - length), "%s%lld",
                           axis ? between : "", (long long)a->shape[axis]);
    return text;
}

/* Whether rows beyond the image have a source in it. */
static int pads_within(const winogen_layer *l, const winogen_array *x, char *message)
{
    for (int axis = 0; axis < AXES; axis++)
        for (int side = axis; side < 2 * AXES; side += AXES) {
            const int64_t size = size_along(x, axis);
            const int64_t most = l->padding_mode == REFLECT    ? size - 1
                                 : l->padding_mode == CIRCULAR ? size
                                                               : INT64_MAX;
            if (l->padding[side] > most)
                return refuse(message, "pads: got %lld; allowed: at most %lld with this mode",
                              (long long)l->padding[side], (long long)most);
        }
    return 1;
}

/* An array that is added has the sizes of the output. */
static int adds(const char *name, const winogen_array *a, int64_t channel, int64_t filters,
                const winogen_array *wanted, char *message)
{
    const int64_t *shape = wanted->shape, rank = wanted->rank;
    if (a->rank == rank && a->shape[0] == shape[0] && a->shape[1] >= channel + filters &&
        !memcmp(a->shape + 2, shape + 2, (size_t)(rank - 2) * sizeof *shape))
        return 1;
    winogen_array allowed = *wanted;
    allowed.shape[1] = filters;
    char got[SIZES_BYTES], sizes[SIZES_BYTES];
    return refuse(message, "%s: got sizes %s; allowed: those of the output, %s", name,
                  listed(a, ", ", got), listed(&allowed, ", ", sizes));
}

/* Gives the array that a layer writes its sizes, or checks those that it has. */
static int writes(winogen_array *y, const winogen_array *made, int64_t channel, int64_t filters,
                  char *message)
{
    if (y->rank == 0) {
        y->rank = made->rank;
        memcpy(y->shape, made->shape, sizeof y->shape);
    }
    if (y->rank == made->rank && !memcmp(y->shape, made->shape, sizeof y->shape) &&
        y->shape[1] >= channel + filters)
        return 1;
    return refuse(message, "layers: got one of %lld filters that does not fit the array it writes; "
                  "allowed: layers that fit", (long long)filters);
}

/* The taps of a map's window, or the product of its factors. */
static int64_t taps_of(const winogen_layer *l)
{
    return l->kernel[DEPTH] * l->kernel[HEIGHT] * l->kernel[WIDTH];
}

/* Whether a map spreads channels over pixels: its padding is what is cropped of them. */
static int spreads(const winogen_layer *l)
{
    return l->kind == SPREAD_CHANNELS || l->kind == SPREAD_PIXELS;
}

/* Planes, rows or columns of a map's output. */
static int64_t map_outputs_along(winogen_layer *l, int axis, int64_t size)
{
    switch (l->kind) {
    case MAX_POOL:
    case AVERAGE_POOL:
    case AVERAGE_POOL_COUNTED:
        return outputs_along(l, axis, size, l->kernel[axis], NO_AUTO_PAD);
    case GLOBAL_AVERAGE:
        return 1;
    default:
        return size * l->kernel[axis] - l->padding[axis] - l->padding[axis + AXES];
    }
}

/* The same as `layer_shapes` of a map. */
static int map_shapes(winogen_layer *l, winogen_array *arrays, int64_t channels, char *message)
{
    const winogen_array *x = &arrays[l->input];
    if ((x->rank != 4 && x->rank != 5) || x->shape[1] < l->input_channel + l->channels)
        return refuse(message, "X: got %lld axes and %lld channels; allowed: 4, N, C, H, W, or 5, "
                      "N, C, D, H, W, and at least %lld", (long long)x->rank,
                      (long long)x->shape[1], (long long)(l->input_channel + l->channels));
    winogen_array made = images(x->shape[0], channels, x->rank), pixel = made;
    for (int axis = AXES + 2 - (int)x->rank; axis < AXES; axis++) {
        const int64_t place = axis + x->rank - AXES, size = x->shape[place];
        made.shape[place] = map_outputs_along(l, axis, size);
        pixel.shape[place] = 1;
        if (made.shape[place] < 1)
            return refuse(message, "X: got %s %lld; allowed: with its padding at least as long as "
                          "the window", AXIS_NAMES[axis], (long long)size);
    }
    if (l->add >= 0) {
        const winogen_array *other = &arrays[l->add];
        const int repeated = pixels_of(other) == 1;
        if (!adds("the other operand", other, l->add_channel, l->channels,
                  repeated || l->kind == GROUP_NORM ? &pixel : &made, message))
            return 0;
    }
    const int numbers[2] = { (int)l->weight, (int)l->bias };
    for (int i = 0; i < 2; i++)
        if (numbers[i] >= 0 && numbers_of(&arrays[numbers[i]]) != l->channels)
            return refuse(message, "layers: got %lld factors; allowed: %lld, one per channel",
                          (long long)numbers_of(&arrays[numbers[i]]), (long long)l->channels);
    const int64_t factor = spreads(l) ? taps_of(l) : 1;
    return writes(&arrays[l->output], &made, l->output_channel, l->channels / factor, message);
}

/* The sizes of the output of one layer, and checks of all that it reads. `channels`: of the array
 * that it writes, 0 for as many as there are filters. `rank`: of arrays, where attributes say it;
 * else 0. */
static int layer_shapes(winogen_layer *l, winogen_array *arrays, int64_t channels, int auto_pad,
                        int64_t rank, char *message)
{
    if (l->kind) return map_shapes(l, arrays, channels, message);
    const winogen_array *x = &arrays[l->input], *w = &arrays[l->weight];
    if ((x->rank != 4 && x->rank != 5) || (rank && x->rank != rank))
        return refuse(message, "X: got %lld axes; allowed: 4, N, C, H, W, or 5, N, C, D, H, W, as "
                      "the attributes say", (long long)x->rank);
    if (w->rank != x->rank || numbers_of(w) == 0)
        return refuse(message, "W: got %lld axes and %lld numbers; allowed: %lld axes, M, C/group, "
                      "KH, KW, with KD before these of volumes, of at least 1",
                      (long long)w->rank, (long long)numbers_of(w), (long long)x->rank);
    const int64_t filters = w->shape[0], needed = w->shape[1] * l->groups;
    if (filters % l->groups)
        return refuse(message, "group: got %lld; allowed: a divisor of the %lld filters",
                      (long long)l->groups, (long long)filters);
    if (channels ? x->shape[1] < l->input_channel + needed : x->shape[1] != needed)
        return refuse(message, "X: got %lld channels; allowed: %lld, group %lld times those of W",
                      (long long)x->shape[1], (long long)needed, (long long)l->groups);
    winogen_array made = images(x->shape[0], channels ? channels : filters, x->rank);
    for (int axis = AXES + 2 - (int)x->rank; axis < AXES; axis++) {
        const int64_t place = axis + x->rank - AXES, size = x->shape[place];
        made.shape[place] = outputs_along(l, axis, size, w->shape[place], auto_pad);
        if (made.shape[place] < 1)
            return refuse(message, "X: got %s %lld; allowed: with its padding at least as long as "
                          "the kernel", AXIS_NAMES[axis], (long long)size);
    }
    if (!pads_within(l, x, message)) return 0;
    if (l->bias >= 0 && numbers_of(&arrays[l->bias]) != filters)
        return refuse(message, "B: got %lld numbers; allowed: %lld, one per filter",
                      (long long)numbers_of(&arrays[l->bias]), (long long)filters);
    if (l->slopes >= 0 && numbers_of(&arrays[l->slopes]) != filters)
        return refuse(message, "slopes: got %lld numbers; allowed: %lld, one per filter",
                      (long long)numbers_of(&arrays[l->slopes]), (long long)filters);
    if (l->add >= 0 && !adds("add", &arrays[l->add], l->add_channel, filters, &made, message))
        return 0;
    if (l->add_after >= 0 &&
        !adds("add_after", &arrays[l->add_after], l->add_after_channel, filters, &made, message))
        return 0;
    return writes(&arrays[l->output], &made, l->output_channel, filters, message);
}
