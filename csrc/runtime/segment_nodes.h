/* ---- nodes of many layers -------------------------------------------------------------------- */

/* How a layer stands in the attribute `layers` of a Segment; names are those of winogen_layer. */
enum {
    AT_KIND, AT_CHANNELS, AT_KERNEL, AT_INPUT = AT_KERNEL + 2, AT_INPUT_CHANNEL, AT_WEIGHT,
    AT_BIAS, AT_SLOPES, AT_ADD, AT_ADD_CHANNEL, AT_ADD_AFTER, AT_ADD_AFTER_CHANNEL, AT_OUTPUT,
    AT_OUTPUT_CHANNEL, AT_STRIDE, AT_DILATION = AT_STRIDE + 2, AT_PADDING = AT_DILATION + 2,
    AT_GROUPS = AT_PADDING + 4, AT_PADDING_MODE, LAYER_NUMBERS
};

/* Whether a map has all that its kind computes with, and nothing that its kind ignores. */
static int fits_kind(const winogen_layer *l)
{
    const int pool = l->kind == MAX_POOL || l->kind == AVERAGE_POOL ||
                     l->kind == AVERAGE_POOL_COUNTED;
    const int sized = pool || l->kind == REPEAT || l->kind == SPREAD_CHANNELS ||
                      l->kind == SPREAD_PIXELS;
    const int point = l->kind == POINT, two = l->kind == SUM || l->kind == PRODUCT;
    const int groups = l->kind == GROUP_NORM, norm = groups || l->kind == LAYER_NORM;
    int fits = l->activation == NONE || ((point || norm) && l->activation == RELU) ||
               (norm && l->activation == SILU);
    fits &= point || norm || (l->weight < 0 && l->bias < 0);
    fits &= (groups || two == (l->add >= 0)) && l->add_after < 0 && l->padding_mode == ZEROS;
    fits &= l->kind == SHUFFLE || groups || l->groups == 1;
    for (int i = 0; i < 2; i++)
        fits &= (sized || l->kernel[i] == 1) && (pool || l->stride[i] == 1) &&
                (l->kind == MAX_POOL || l->dilation[i] == 1);
    for (int i = 0; i < 4; i++) fits &= pool || spreads(l) || l->padding[i] == 0;
    return fits;
}

/* A layer from its numbers and the name of its activation; whether they can be those of one. */
static int layer_of(const node *n, const int64_t *v, const char *activation, winogen_layer *l)
{
    *l = (winogen_layer){
        .kind = v[AT_KIND], .channels = v[AT_CHANNELS],
        .kernel = { v[AT_KERNEL], v[AT_KERNEL + 1] }, .input = v[AT_INPUT],
        .weight = v[AT_WEIGHT], .bias = v[AT_BIAS], .slopes = v[AT_SLOPES],
        .add = v[AT_ADD], .add_after = v[AT_ADD_AFTER], .output = v[AT_OUTPUT],
        .input_channel = v[AT_INPUT_CHANNEL], .add_channel = v[AT_ADD_CHANNEL],
        .add_after_channel = v[AT_ADD_AFTER_CHANNEL], .output_channel = v[AT_OUTPUT_CHANNEL],
        .stride = { v[AT_STRIDE], v[AT_STRIDE + 1] },
        .dilation = { v[AT_DILATION], v[AT_DILATION + 1] },
        .padding = { v[AT_PADDING], v[AT_PADDING + 1], v[AT_PADDING + 2], v[AT_PADDING + 3] },
        .groups = v[AT_GROUPS], .padding_mode = v[AT_PADDING_MODE],
        .activation = activation ? place_of(activation, ACTIVATION_NAMES) : -1,
    };
    const int64_t all = n->array_count, inputs = n->inputs;
#define WITHIN(low, x, high) ((low) <= (x) && (x) < (high))
    const int arrays = WITHIN(0, l->input, all) && WITHIN(l->kind ? -1 : 0, l->weight, inputs) &&
                       WITHIN(-1, l->bias, inputs) && WITHIN(-1, l->slopes, inputs) &&
                       WITHIN(-1, l->add, all) && WITHIN(-1, l->add_after, all) &&
                       WITHIN(inputs, l->output, all);
    const int kinds = WITHIN(0, l->kind, MAP_KINDS) && WITHIN(0, l->padding_mode, PADDING_MODES) &&
                      l->activation >= 0 && (l->activation == PRELU) == (l->slopes >= 0) &&
                      (!l->kind || fits_kind(l));
    int sizes = l->groups >= 1;
    for (int i = 0; i < 2; i++) sizes &= l->stride[i] >= 1 && l->dilation[i] >= 1;
    for (int i = 0; i < 4; i++) sizes &= l->padding[i] >= 0;
    if (l->kind) {
        sizes &= l->channels >= 1;
        for (int i = 0; i < 2; i++) sizes &= WITHIN(1, l->kernel[i], MOST_TAPS);
        for (int i = 0; i < 2; i++) sizes &= WITHIN(1, l->dilation[i], MOST_TAPS);
        const int spread = spreads(l);
        for (int i = 0; sizes && i < 4; i++)
            sizes &= l->padding[i] <=
                     (spread ? MOST_TAPS : (l->kernel[i % 2] - 1) * l->dilation[i % 2]);
        if (sizes && (l->kind == SHUFFLE || l->kind == GROUP_NORM))
            sizes = l->channels % l->groups == 0;
        if (sizes && spread)
            sizes = l->channels % (l->kernel[0] * l->kernel[1]) == 0;
    }
    sizes &= l->input_channel >= 0 && l->output_channel >= 0 && l->add_channel >= 0 &&
             l->add_after_channel >= 0;
#undef WITHIN
    return arrays && kinds && sizes;
}

/* `activations`: the names of all layers' activations, with spaces between them. */
static OrtStatus *fill_segment(node *n, const int64_t *layers, char *activations,
                               const int64_t *channels, const float *parameters)
{
    n->layers = calloc((size_t)n->layer_count, sizeof *n->layers);
    n->channels = calloc((size_t)n->array_count, sizeof *n->channels);
    if (!n->layers || !n->channels) return failure(n, ORT_FAIL, "out of memory");
    for (int64_t i = n->inputs; i < n->array_count; i++) {
        n->channels[i] = channels[i - n->inputs];
        if (n->channels[i] < 1)
            return failure(n, ORT_INVALID_ARGUMENT,
                           "channels: got less than 1; allowed: at least 1");
    }
    for (int64_t i = 0; i < n->layer_count; i++) {
        winogen_layer *l = &n->layers[i];
        char *next;
        const char *activation = strtok_r(activations, " ", &next);
        activations = next;
        if (!layer_of(n, layers + i * LAYER_NUMBERS, activation, l))
            return failure(n, ORT_INVALID_ARGUMENT,
                           "layers, activations: got what makes no layer; allowed: what `winogen "
                           "onnx optimize` of the same version writes");
        l->parameters[0] = parameters[2 * i], l->parameters[1] = parameters[2 * i + 1];
    }
    for (int64_t i = n->inputs; i < n->inputs + n->outputs; i++) {
        int written = 0;
        for (int64_t k = 0; k < n->layer_count; k++) written |= n->layers[k].output == i;
        if (!written)
            return failure(n, ORT_INVALID_ARGUMENT,
                           "layers: got none for an output; allowed: at least one for each");
    }
    return NULL;
}

static OrtStatus *read_segment(node *n, const OrtKernelInfo *info)
{
    int64_t *layers, *channels = NULL;
    size_t numbers = 0, arrays = 0, size = 0;
    float *parameters = NULL;
    char *activations = NULL;
    OrtStatus *status = read_list(n, info, "layers", &layers, &numbers);
    if (!status) status = read_list(n, info, "channels", &channels, &arrays);
    n->layer_count = (int64_t)(numbers / LAYER_NUMBERS);
    n->array_count = n->inputs + (int64_t)arrays;
    if (!status && (!numbers || numbers % LAYER_NUMBERS || (int64_t)arrays < n->outputs ||
                    n->array_count > MOST_ARRAYS))
        status = failure(n, ORT_INVALID_ARGUMENT,
                         "layers, channels: got lists of wrong lengths; allowed: what `winogen "
                         "onnx optimize` of the same version writes");
    if (!status) {
        size = 2 * (size_t)n->layer_count;
        parameters = calloc(size, sizeof *parameters);
        status = parameters ? n->api->GetAttributes_float(info, "parameters", parameters, &size)
                            : failure(n, ORT_FAIL, "out of memory");
    }
    if (!status) status = read_text(n, info, "activations", &activations);
    if (!status) status = fill_segment(n, layers, activations, channels, parameters);
    free(layers);
    free(activations);
    free(channels);
    free(parameters);
    return status;
}
