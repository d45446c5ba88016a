/* ---- nodes of many layers -------------------------------------------------------------------- */

/* How a layer stands in the attribute `layers` of a Segment; names are those of winogen_layer. */
enum {
    AT_KIND, AT_CHANNELS, AT_KERNEL, AT_INPUT = AT_KERNEL + 2, AT_INPUT_CHANNEL, AT_WEIGHT,
    AT_BIAS, AT_SLOPES, AT_ADD, AT_ADD_CHANNEL, AT_ADD_AFTER, AT_ADD_AFTER_CHANNEL, AT_OUTPUT,
    AT_OUTPUT_CHANNEL, AT_STRIDE, AT_DILATION = AT_STRIDE + 2, AT_PADDING = AT_DILATION + 2,
    AT_GROUPS = AT_PADDING + 4, AT_PADDING_MODE, LAYER_NUMBERS
};
/* What layers of volumes have besides, along the depth, in the attribute `deep`. */
enum {
    AT_PLANES, AT_DEEP_KERNEL, AT_DEEP_STRIDE, AT_DEEP_DILATION, AT_FRONT, AT_BACK, DEEP_NUMBERS
};
static const int64_t FLAT[DEEP_NUMBERS] = { 0, 1, 1, 1, 0, 0 };    /* of maps */

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
    for (int i = 0; i < AXES; i++)
        fits &= (sized || l->kernel[i] == 1) && (pool || l->stride[i] == 1) &&
                (l->kind == MAX_POOL || l->dilation[i] == 1);
    for (int i = 0; i < 2 * AXES; i++) fits &= pool || spreads(l) || l->padding[i] == 0;
    /* A map of planes looks along these, any other of volumes along the depth. */
    const int along = l->kernel[DEPTH] > 1 || l->stride[DEPTH] > 1 || l->padding[DEPTH] ||
                      l->padding[DEPTH + AXES];
    const int within = l->kernel[HEIGHT] > 1 || l->kernel[WIDTH] > 1 || l->stride[HEIGHT] > 1 ||
                       l->stride[WIDTH] > 1 || l->padding[HEIGHT] || l->padding[WIDTH] ||
                       l->padding[HEIGHT + AXES] || l->padding[WIDTH + AXES];
    fits &= !(along && within) && (!l->planes || sized);
    return fits;
}

/* A layer from its numbers and the name of its activation; whether they can be those of one. */
static int layer_of(const node *n, const int64_t *v, const int64_t *deep, const char *activation,
                    winogen_layer *l)
{
    *l = (winogen_layer){
        .kind = v[AT_KIND], .planes = deep[AT_PLANES], .channels = v[AT_CHANNELS],
        .kernel = { deep[AT_DEEP_KERNEL], v[AT_KERNEL], v[AT_KERNEL + 1] }, .input = v[AT_INPUT],
        .weight = v[AT_WEIGHT], .bias = v[AT_BIAS], .slopes = v[AT_SLOPES],
        .add = v[AT_ADD], .add_after = v[AT_ADD_AFTER], .output = v[AT_OUTPUT],
        .input_channel = v[AT_INPUT_CHANNEL], .add_channel = v[AT_ADD_CHANNEL],
        .add_after_channel = v[AT_ADD_AFTER_CHANNEL], .output_channel = v[AT_OUTPUT_CHANNEL],
        .stride = { deep[AT_DEEP_STRIDE], v[AT_STRIDE], v[AT_STRIDE + 1] },
        .dilation = { deep[AT_DEEP_DILATION], v[AT_DILATION], v[AT_DILATION + 1] },
        .padding = { deep[AT_FRONT], v[AT_PADDING], v[AT_PADDING + 1], deep[AT_BACK],
                     v[AT_PADDING + 2], v[AT_PADDING + 3] },
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
    int sizes = l->groups >= 1 && WITHIN(0, l->planes, 2);
    for (int i = 0; i < AXES; i++) sizes &= l->stride[i] >= 1 && l->dilation[i] >= 1;
    for (int i = 0; i < 2 * AXES; i++) sizes &= l->padding[i] >= 0;
    if (l->kind) {
        sizes &= l->channels >= 1;
        for (int i = 0; i < AXES; i++) sizes &= WITHIN(1, l->kernel[i], MOST_TAPS);
        for (int i = 0; i < AXES; i++) sizes &= WITHIN(1, l->dilation[i], MOST_TAPS);
        const int spread = spreads(l);
        for (int i = 0; sizes && i < 2 * AXES; i++)
            sizes &= l->padding[i] <=
                     (spread ? MOST_TAPS : (l->kernel[i % AXES] - 1) * l->dilation[i % AXES]);
        if (sizes && (l->kind == SHUFFLE || l->kind == GROUP_NORM))
            sizes = l->channels % l->groups == 0;
        if (sizes && spread)
            sizes = l->channels % taps_of(l) == 0;
    }
    sizes &= l->input_channel >= 0 && l->output_channel >= 0 && l->add_channel >= 0 &&
             l->add_after_channel >= 0;
#undef WITHIN
    return arrays && kinds && sizes;
}

/* `activations`: the names of all layers' activations, with spaces between them. `deep`: NULL where
 * there are no volumes. */
static OrtStatus *fill_segment(node *n, const int64_t *layers, const int64_t *deep,
                               char *activations, const int64_t *channels, const float *parameters)
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
        if (!layer_of(n, layers + i * LAYER_NUMBERS, deep ? deep + i * DEEP_NUMBERS : FLAT,
                      activation, l))
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

/* Tolerances of single layers, if there are any. */
static OrtStatus *read_tolerances(node *n, const OrtKernelInfo *info)
{
    size_t size = (size_t)n->layer_count;
    float *tolerances = calloc(size, sizeof *tolerances);
    if (!tolerances) return failure(n, ORT_FAIL, "out of memory");
    OrtStatus *status = unless_absent(
        n->api, n->api->GetAttributes_float(info, "tolerances", tolerances, &size));
    for (int64_t i = 0; !status && i < n->layer_count; i++) {
        n->layers[i].tolerance = tolerances[i];
        if (!(tolerances[i] >= 0 && tolerances[i] < 1))
            status = failure(n, ORT_INVALID_ARGUMENT,
                             "tolerances: got a number out of range; allowed: 0 to 1");
    }
    free(tolerances);
    return status;
}

static OrtStatus *read_segment(node *n, const OrtKernelInfo *info)
{
    int64_t *layers, *channels = NULL, *deep = NULL;
    size_t numbers = 0, arrays = 0, depths = 0, size = 0;
    float *parameters = NULL;
    char *activations = NULL;
    OrtStatus *status = read_list(n, info, "layers", &layers, &numbers);
    if (!status) status = read_list(n, info, "channels", &channels, &arrays);
    n->layer_count = (int64_t)(numbers / LAYER_NUMBERS);
    n->array_count = n->inputs + (int64_t)arrays;
    if (!status) status = read_list(n, info, "deep", &deep, &depths);
    if (!status && (!numbers || numbers % LAYER_NUMBERS || (int64_t)arrays < n->outputs ||
                    (depths && depths != (size_t)n->layer_count * DEEP_NUMBERS) ||
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
    size_t length;
    if (!status) status = read_text(n, info, "activations", &activations, &length);
    if (!status) status = fill_segment(n, layers, depths ? deep : NULL, activations, channels,
                              parameters);
    if (!status) status = read_tolerances(n, info);
    free(layers);
    free(deep);
    free(activations);
    free(channels);
    free(parameters);
    return status;
}
