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

/* Outputs along an axis; the padding of SAME_UPPER and SAME_LOWER is resolved on the way. */
static int64_t outputs_along(winogen_layer *l, int axis, int64_t size, int64_t taps, int auto_pad)
{
    const int64_t reach = l->dilation[axis] * (taps - 1) + 1, stride = l->stride[axis];
    int64_t *before = &l->padding[axis], *after = &l->padding[axis + 2];
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

/* Whether rows beyond the image have a source in it. */
static int pads_within(const winogen_layer *l, const int64_t *size, char *message)
{
    for (int axis = 0; axis < 2; axis++)
        for (int side = axis; side < 4; side += 2) {
            const int64_t most = l->padding_mode == REFLECT    ? size[axis] - 1
                                 : l->padding_mode == CIRCULAR ? size[axis]
                                                               : INT64_MAX;
            if (l->padding[side] > most)
                return refuse(message, "pads: got %lld; allowed: at most %lld with this mode",
                              (long long)l->padding[side], (long long)most);
        }
    return 1;
}

/* An array that is added has the sizes of the output. */
static int adds(const char *name, const winogen_array *a, int64_t channel, int64_t filters,
                const int64_t *shape, char *message)
{
    if (a->rank == 4 && a->shape[0] == shape[0] && a->shape[1] >= channel + filters &&
        a->shape[2] == shape[2] && a->shape[3] == shape[3])
        return 1;
    return refuse(message, "%s: got sizes %lld, %lld, %lld, %lld; allowed: those of the output, "
                  "%lld, %lld, %lld, %lld", name, (long long)a->shape[0], (long long)a->shape[1],
                  (long long)a->shape[2], (long long)a->shape[3], (long long)shape[0],
                  (long long)filters, (long long)shape[2], (long long)shape[3]);
}

/* Gives the array that a layer writes its sizes, or checks those that it has. */
static int writes(winogen_array *y, const int64_t *shape, int64_t channel, int64_t filters,
                  char *message)
{
    if (y->rank == 0) {
        y->rank = 4;
        memcpy(y->shape, shape, sizeof y->shape);
    }
    if (!memcmp(y->shape, shape, sizeof y->shape) && shape[1] >= channel + filters) return 1;
    return refuse(message, "layers: got one of %lld filters that does not fit the array it writes; "
                  "allowed: layers that fit", (long long)filters);
}

/* Whether a map spreads channels over pixels: its padding is what is cropped of them. */
static int spreads(const winogen_layer *l)
{
    return l->kind == SPREAD_CHANNELS || l->kind == SPREAD_PIXELS;
}

/* Rows or columns of a map's output. */
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
        return size * l->kernel[axis] - l->padding[axis] - l->padding[axis + 2];
    }
}

/* The same as `layer_shapes` of a map. */
static int map_shapes(winogen_layer *l, winogen_array *arrays, int64_t channels, char *message)
{
    const winogen_array *x = &arrays[l->input];
    if (x->rank != 4 || x->shape[1] < l->input_channel + l->channels)
        return refuse(message, "X: got %lld axes and %lld channels; allowed: 4, N, C, H, W, and at "
                      "least %lld", (long long)x->rank, (long long)x->shape[1],
                      (long long)(l->input_channel + l->channels));
    int64_t shape[4] = { x->shape[0], channels, 0, 0 };
    for (int axis = 0; axis < 2; axis++) {
        const int64_t size = x->shape[2 + axis];
        shape[2 + axis] = map_outputs_along(l, axis, size);
        if (shape[2 + axis] < 1)
            return refuse(message, "X: got %s %lld; allowed: with its padding at least as long as "
                          "the window", axis ? "width" : "height", (long long)size);
    }
    if (l->add >= 0) {
        const winogen_array *other = &arrays[l->add];
        const int64_t pixel[4] = { shape[0], channels, 1, 1 };
        const int repeated = other->shape[2] == 1 && other->shape[3] == 1;
        if (!adds("the other operand", other, l->add_channel, l->channels,
                  repeated || l->kind == GROUP_NORM ? pixel : shape, message))
            return 0;
    }
    const int numbers[2] = { (int)l->weight, (int)l->bias };
    for (int i = 0; i < 2; i++)
        if (numbers[i] >= 0 && numbers_of(&arrays[numbers[i]]) != l->channels)
            return refuse(message, "layers: got %lld factors; allowed: %lld, one per channel",
                          (long long)numbers_of(&arrays[numbers[i]]), (long long)l->channels);
    const int64_t factor = spreads(l) ? l->kernel[0] * l->kernel[1] : 1;
    return writes(&arrays[l->output], shape, l->output_channel, l->channels / factor, message);
}

/* The sizes of the output of one layer, and checks of all that it reads. `channels`: of the array
 * that it writes, 0 for as many as there are filters. */
static int layer_shapes(winogen_layer *l, winogen_array *arrays, int64_t channels, int auto_pad,
                        char *message)
{
    if (l->kind) return map_shapes(l, arrays, channels, message);
    const winogen_array *x = &arrays[l->input], *w = &arrays[l->weight];
    if (x->rank != 4)
        return refuse(message, "X: got %lld axes; allowed: 4, N, C, H, W", (long long)x->rank);
    if (w->rank != 4 || numbers_of(w) == 0)
        return refuse(message, "W: got %lld axes and %lld numbers; allowed: 4 axes, M, C/group, "
                      "KH, KW, of at least 1", (long long)w->rank, (long long)numbers_of(w));
    const int64_t filters = w->shape[0], needed = w->shape[1] * l->groups;
    if (filters % l->groups)
        return refuse(message, "group: got %lld; allowed: a divisor of the %lld filters",
                      (long long)l->groups, (long long)filters);
    if (channels ? x->shape[1] < l->input_channel + needed : x->shape[1] != needed)
        return refuse(message, "X: got %lld channels; allowed: %lld, group %lld times those of W",
                      (long long)x->shape[1], (long long)needed, (long long)l->groups);
    int64_t shape[4] = { x->shape[0], channels ? channels : filters, 0, 0 };
    for (int axis = 0; axis < 2; axis++) {
        shape[2 + axis] = outputs_along(l, axis, x->shape[2 + axis], w->shape[2 + axis], auto_pad);
        if (shape[2 + axis] < 1)
            return refuse(message, "X: got %s %lld; allowed: with its padding at least as long as "
                          "the kernel", axis ? "width" : "height", (long long)x->shape[2 + axis]);
    }
    if (!pads_within(l, &x->shape[2], message)) return 0;
    if (l->bias >= 0 && numbers_of(&arrays[l->bias]) != filters)
        return refuse(message, "B: got %lld numbers; allowed: %lld, one per filter",
                      (long long)numbers_of(&arrays[l->bias]), (long long)filters);
    if (l->slopes >= 0 && numbers_of(&arrays[l->slopes]) != filters)
        return refuse(message, "slopes: got %lld numbers; allowed: %lld, one per filter",
                      (long long)numbers_of(&arrays[l->slopes]), (long long)filters);
    if (l->add >= 0 && !adds("add", &arrays[l->add], l->add_channel, filters, shape, message))
        return 0;
    if (l->add_after >= 0 &&
        !adds("add_after", &arrays[l->add_after], l->add_after_channel, filters, shape, message))
        return 0;
    return writes(&arrays[l->output], shape, l->output_channel, filters, message);
}
