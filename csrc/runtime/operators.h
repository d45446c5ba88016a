/* ---- attributes --------------------------------------------------------------------------------
 * Those of a node that are not there keep the value that they have. */

/* Whether an error says only that there is no such attribute; frees it if so. */
static OrtStatus *unless_absent(const OrtApi *api, OrtStatus *status)
{
    if (status && strstr(api->GetErrorMessage(status), "No attribute")) {
        api->ReleaseStatus(status);
        return NULL;
    }
    return status;
}

/* `count` integers of at least `least`; or none. */
static OrtStatus *read_integers(const node *n, const OrtKernelInfo *info, const char *name,
                                size_t count, int64_t least, int64_t *values)
{
    int64_t numbers[8];
    size_t size = 8;
    OrtStatus *status = n->api->GetAttributes_int64(info, name, numbers, &size);
    if (status) return unless_absent(n->api, status);
    char message[MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s: got %zu numbers; allowed: %zu", name, size, count);
    if (size != count) return failure(n, ORT_INVALID_ARGUMENT, message);
    for (size_t i = 0; i < count; i++) {
        snprintf(message, sizeof message, "%s: got %lld; allowed: at least %lld", name,
                 (long long)numbers[i], (long long)least);
        if (numbers[i] < least) return failure(n, ORT_INVALID_ARGUMENT, message);
        values[i] = numbers[i];
    }
    return NULL;
}

/* The place of a text among `names`, -1 for none. */
static int64_t place_of(const char *text, const char *const *names)
{
    for (int64_t i = 0; names[i]; i++)
        if (!strcmp(names[i], text)) return i;
    return -1;
}

/* The place of an attribute among `names`. */
static OrtStatus *read_choice(const node *n, const OrtKernelInfo *info, const char *name,
                              const char *const *names, int64_t *choice)
{
    char text[64] = "";
    size_t size = sizeof text;
    OrtStatus *status = n->api->GetAttribute_string(info, name, text, &size);
    if (status) return unless_absent(n->api, status);
    *choice = place_of(text, names);
    if (*choice >= 0) return NULL;
    char message[MESSAGE_BYTES];
    int length = snprintf(message, sizeof message, "%s: got \"%s\"; allowed: ", name, text);
    for (int64_t i = 0; names[i]; i++)
        length += snprintf(message + length, sizeof message - (size_t)length, "%s%s",
                           i ? ", " : "", names[i]);
    return failure(n, ORT_INVALID_ARGUMENT, message);
}

static const char *const AUTO_PADS[] = { "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", NULL };
static const char *const MODES[] = { "zeros", "reflect", "replicate", "circular", NULL };

/* ---- making nodes ---------------------------------------------------------------------------- */

/* An operator for one type of numbers. */
typedef struct operator {
    OrtCustomOp face;    /* first: what onnxruntime sees */
    const char *name;
    int type;            /* of the outputs, and of the inputs */
    OrtStatus *(*read)(node *, const OrtKernelInfo *);
    const int *types;    /* of the inputs, if they are not all of one */
} operator;

/* Which inputs never change, and where they lie. */
static OrtStatus *read_constants(node *n, const OrtKernelInfo *info)
{
    for (int64_t i = 0; i < n->inputs; i++) {
        int constant = 0;
        const OrtValue *value = NULL;
        TRY(n->api->GetConstantInput(info, (size_t)i, &constant, &value));
        if (!constant || !value) continue;
        winogen_array array;
        TRY(read_shape(n->api, value, &array));
        void *numbers;
        TRY(n->api->GetTensorMutableData((OrtValue *)value, &numbers));
        if (array.rank > 4 || numbers_of(&array) == 0) continue;
        array.constant = numbers;
        n->constants[i] = array;
    }
    return NULL;
}

/* Whether the node leaves an input out, or leaves it empty. */
static int leaves_out(const node *n, const OrtKernelInfo *info, int64_t input)
{
    if (input >= n->inputs) return 1;
    char name[512];
    size_t size = sizeof name;
    OrtStatus *status = n->api->GetInputName(info, (size_t)input, name, &size);
    if (!status) return !name[0];
    n->api->ReleaseStatus(status);    /* longer than that: it has a name */
    return 0;
}

/* Turns the number of such an input to -1. */
static OrtStatus *leave_out(const node *n, const OrtKernelInfo *info, int64_t *input)
{
    if (leaves_out(n, info, *input)) *input = NOWHERE;
    return NULL;
}

/* What all convolutions of one layer have: `l` says which inputs are what. */
static OrtStatus *read_layer(node *n, const OrtKernelInfo *info, winogen_layer roles)
{
    n->layer_count = 1;
    n->layers = calloc(1, sizeof *n->layers);
    n->array_count = n->inputs + 1;
    n->channels = calloc((size_t)n->array_count, sizeof *n->channels);
    if (!n->layers || !n->channels) return failure(n, ORT_FAIL, "out of memory");
    winogen_layer *l = n->layers;
    *l = roles;
    l->output = n->inputs;
    l->stride[0] = l->stride[1] = l->dilation[0] = l->dilation[1] = l->groups = 1;
    int64_t auto_pad = 0, kernel[2];
    TRY(read_integers(n, info, "kernel_shape", 2, 1, kernel));    /* W says it, too */
    TRY(read_integers(n, info, "strides", 2, 1, l->stride));
    TRY(read_integers(n, info, "dilations", 2, 1, l->dilation));
    TRY(read_integers(n, info, "pads", 4, 0, l->padding));
    TRY(read_choice(n, info, "auto_pad", AUTO_PADS, &auto_pad));
    TRY(read_choice(n, info, "padding_mode", MODES, &l->padding_mode));
    TRY(read_choice(n, info, "activation", ACTIVATION_NAMES, &l->activation));
    TRY(unless_absent(n->api, n->api->GetAttribute_int64(info, "group", &l->groups)));
    if (l->groups < 1)
        return failure(n, ORT_INVALID_ARGUMENT, "group: got less than 1; allowed: at least 1");
    n->auto_pad = (int)auto_pad;
    return NULL;
}

static OrtStatus *read_conv(node *n, const OrtKernelInfo *info)
{
    enum { X, W, B, ADD, ADD_AFTER, SLOPES };
    winogen_layer roles = {
        .weight = W, .bias = B, .add = ADD, .add_after = ADD_AFTER, .slopes = SLOPES,
    };
    TRY(leave_out(n, info, &roles.bias));
    TRY(leave_out(n, info, &roles.add));
    TRY(leave_out(n, info, &roles.add_after));
    TRY(leave_out(n, info, &roles.slopes));
    TRY(read_layer(n, info, roles));
    winogen_layer *l = n->layers;
    float parameters[2] = { 0, 0 };
    size_t size = 2;
    TRY(unless_absent(n->api, n->api->GetAttributes_float(info, "activation_parameters", parameters,
                                                          &size)));
    l->parameters[0] = parameters[0], l->parameters[1] = parameters[1];
    if ((l->activation == PRELU) != (l->slopes >= 0))
        return failure(n, ORT_INVALID_ARGUMENT,
                       "slopes: got the input or the activation \"prelu\" alone; allowed: both");
    return NULL;
}

/* QLinearConv and ConvInteger, with weights of int8; all inputs but the first are constants. */
static OrtStatus *read_quantized(node *n, const OrtKernelInfo *info, winogen_layer roles,
                                 winogen_scales scales)
{
    n->itemsize = 1;
    n->scales = malloc(sizeof *n->scales);
    if (!n->scales) return failure(n, ORT_FAIL, "out of memory");
    TRY(leave_out(n, info, &roles.bias));
    TRY(leave_out(n, info, &scales.x_zero));
    TRY(leave_out(n, info, &scales.w_zero));
    TRY(leave_out(n, info, &scales.y_zero));
    *n->scales = scales;
    roles.add = roles.add_after = roles.slopes = NOWHERE;
    TRY(read_layer(n, info, roles));
    const int64_t activation = n->layers->activation;
    if ((activation != NONE && activation != RELU) || n->layers->padding_mode != ZEROS)
        return failure(n, ORT_INVALID_ARGUMENT,
                       "activation, padding_mode: got others; allowed: none or relu, zeros");
    const int64_t filters = n->constants[roles.weight].shape[0];
    for (int64_t i = 1; i < n->inputs; i++) {
        const int64_t count = numbers_of(&n->constants[i]);
        const int many = i == roles.weight || i == roles.bias || i == scales.w_scale ||
                         i == scales.w_zero;
        if (leaves_out(n, info, i)) continue;
        if (!n->constants[i].constant || (!many && count != 1) ||
            (many && i != roles.weight && count != filters && (count != 1 || i == roles.bias)))
            return failure(n, ORT_INVALID_ARGUMENT,
                           "inputs: got one of wrong size, or none that stays the same; allowed: "
                           "constants, of one number or as many as there are filters");
    }
    return NULL;
}

static OrtStatus *read_linear(node *n, const OrtKernelInfo *info, int input, int output)
{
    enum { X, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, B };
    return read_quantized(
        n, info, (winogen_layer){ .input = X, .weight = W, .bias = B },
        (winogen_scales){ .x_scale = X_SCALE, .x_zero = X_ZERO, .w_scale = W_SCALE,
                          .w_zero = W_ZERO, .y_scale = Y_SCALE, .y_zero = Y_ZERO,
                          .input_signed = input == ORT_INT8, .output_signed = output == ORT_INT8 });
}

static OrtStatus *read_integer(node *n, const OrtKernelInfo *info, int input)
{
    enum { X, W, X_ZERO, W_ZERO, NONE_SUCH };
    return read_quantized(
        n, info, (winogen_layer){ .input = X, .weight = W, .bias = NONE_SUCH },
        (winogen_scales){ .x_scale = NOWHERE, .x_zero = X_ZERO, .w_scale = NOWHERE,
                          .w_zero = W_ZERO, .y_scale = NOWHERE, .y_zero = NONE_SUCH,
                          .input_signed = input == ORT_INT8 });
}

/* All integers of an attribute, in memory of the caller's; `count` is 0 if there are none. */
static OrtStatus *read_list(const node *n, const OrtKernelInfo *info, const char *name,
                            int64_t **values, size_t *count)
{
    *values = NULL;
    *count = 0;
    TRY(unless_absent(n->api, n->api->GetAttributes_int64(info, name, NULL, count)));
    *values = malloc((*count + 1) * sizeof **values);
    if (!*values) return failure(n, ORT_FAIL, "out of memory");
    if (!*count) return NULL;
    return n->api->GetAttributes_int64(info, name, *values, count);
}

/* The text of an attribute, in memory of the caller's. */
static OrtStatus *read_text(const node *n, const OrtKernelInfo *info, const char *name, char **text)
{
    size_t size = 0;
    TRY(unless_absent(n->api, n->api->GetAttribute_string(info, name, NULL, &size)));
    *text = calloc(size + 1, 1);
    if (!*text) return failure(n, ORT_FAIL, "out of memory");
    return size ? n->api->GetAttribute_string(info, name, *text, &size) : NULL;
}

/* How a layer stands in the attribute `layers` of a Segment; names are those of winogen_layer. */
enum {
    AT_KIND, AT_CHANNELS, AT_KERNEL, AT_INPUT = AT_KERNEL + 2, AT_INPUT_CHANNEL, AT_WEIGHT, AT_BIAS, AT_SLOPES, AT_ADD, AT_ADD_CHANNEL, AT_ADD_AFTER,
    AT_ADD_AFTER_CHANNEL, AT_OUTPUT, AT_OUTPUT_CHANNEL, AT_STRIDE, AT_DILATION = AT_STRIDE + 2,
    AT_PADDING = AT_DILATION + 2, AT_GROUPS = AT_PADDING + 4, AT_PADDING_MODE, LAYER_NUMBERS
};

/* A layer from its numbers and the name of its activation; whether they can be those of one. */
static int layer_of(const node *n, const int64_t *v, const char *activation, winogen_layer *l)
{
    *l = (winogen_layer){
        .kind = v[AT_KIND], .channels = v[AT_CHANNELS],
        .kernel = { v[AT_KERNEL], v[AT_KERNEL + 1] }, .input = v[AT_INPUT], .weight = v[AT_WEIGHT], .bias = v[AT_BIAS], .slopes = v[AT_SLOPES],
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
                      l->activation >= 0 &&
                      (!l->kind || l->activation == NONE || l->activation == RELU ||
                       (l->activation == SILU && (l->kind == GROUP_NORM || l->kind == LAYER_NORM))) &&
                      (l->activation == PRELU) == (l->slopes >= 0);
    int sizes = l->groups >= 1;
    for (int i = 0; i < 2; i++) sizes &= l->stride[i] >= 1 && l->dilation[i] >= 1;
    for (int i = 0; i < 4; i++) sizes &= l->padding[i] >= 0;
    if (l->kind) {
        const int two = l->kind == SUM || l->kind == PRODUCT;
        sizes &= l->channels >= 1 && (two == (l->add >= 0) || l->kind == GROUP_NORM);
        for (int i = 0; i < 2; i++) sizes &= WITHIN(1, l->kernel[i], MOST_TAPS);
        for (int i = 0; i < 2; i++) sizes &= WITHIN(1, l->dilation[i], MOST_TAPS);
        for (int i = 0; sizes && i < 4; i++)
            sizes &= l->padding[i] <= (l->kernel[i % 2] - 1) * l->dilation[i % 2];
        if (sizes && (l->kind == SHUFFLE || l->kind == GROUP_NORM)) sizes = l->channels % l->groups == 0;
        if (sizes && (l->kind == SPREAD_CHANNELS || l->kind == SPREAD_PIXELS))
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

static OrtStatus *create(const OrtCustomOp *face, const OrtApi *api, const OrtKernelInfo *info,
                         void **result)
{
    static _Atomic int64_t nodes;
    const operator *o = (const operator *)face;
    node *n = calloc(1, sizeof *n);
    if (!n) return api->CreateStatus(ORT_FAIL, "winogen: out of memory");
    n->api = api;
    n->number = atomic_fetch_add(&nodes, 1);
    n->itemsize = o->type == ORT_FLOAT ? 4 : 8;
    pthread_mutex_init(&n->lock, NULL);
    size_t size = sizeof n->name, inputs = 0, outputs = 0;
    OrtStatus *status = api->GetNodeName(info, n->name, &size);
    if (status) {    /* a name that is too long is no reason to stop */
        api->ReleaseStatus(status);
        n->name[0] = 0;
    }
    status = api->NodeInputCount(info, &inputs);
    if (!status) status = api->NodeOutputCount(info, &outputs);
    n->inputs = (int64_t)inputs;
    n->outputs = (int64_t)outputs;
    n->constants = calloc(inputs + 1, sizeof *n->constants);
    float tolerance = 0;
    if (!status) status = read_constants(n, info);
    if (!status)
        status = unless_absent(api, api->GetAttribute_float(info, "tolerance", &tolerance));
    if (!status)
        status = unless_absent(api, api->GetAttribute_int64(info, "threads", &n->threads));
    n->tolerance = tolerance;
    if (!status && (n->threads < 0 || n->threads > 1024))
        status = failure(n, ORT_INVALID_ARGUMENT,
                         "threads: got a number out of range; allowed: 0 to 1024");
    if (!status && !(tolerance >= 0 && tolerance < 1))
        status = failure(n, ORT_INVALID_ARGUMENT,
                         "tolerance: got a number out of range; allowed: 0 to 1");
    if (!status) status = o->read(n, info);
    if (status) {
        forget_node(n);
        return status;
    }
    *result = n;
    return NULL;
}

/* ---- operators ------------------------------------------------------------------------------- */

static const char *name_of(const OrtCustomOp *face) { return ((const operator *)face)->name; }
static const char *any_cpu(const OrtCustomOp *face) { return (void)face, NULL; }
static int type_of(const OrtCustomOp *face, size_t i)
{
    const operator *o = (const operator *)face;
    return o->types ? o->types[i] : o->type;
}
static int output_type_of(const OrtCustomOp *face, size_t i)
{
    return (void)i, ((const operator *)face)->type;
}
static int memory_of(const OrtCustomOp *face, size_t i) { return (void)face, (void)i, 0; }
static size_t two(const OrtCustomOp *face) { return (void)face, 2; }
static size_t four(const OrtCustomOp *face) { return (void)face, 4; }
static size_t six(const OrtCustomOp *face) { return (void)face, 6; }
static size_t nine(const OrtCustomOp *face) { return (void)face, 9; }
static size_t one(const OrtCustomOp *face) { return (void)face, 1; }
static int at_least_one(const OrtCustomOp *face) { return (void)face, 1; }
static int variadic(const OrtCustomOp *face, size_t i) { return (void)face, (void)i, ORT_VARIADIC; }
static int required(const OrtCustomOp *face, size_t i) { return (void)face, (void)i, ORT_REQUIRED; }
static int after_two(const OrtCustomOp *face, size_t i)
{
    return (void)face, i < 2 ? ORT_REQUIRED : ORT_OPTIONAL;
}
static int after_eight(const OrtCustomOp *face, size_t i)
{
    return (void)face, i < 8 ? ORT_REQUIRED : ORT_OPTIONAL;
}

#define FACE(count, input_kind, output_kind, run)                                                  \
    {                                                                                              \
        .version = ORT_VERSION, .GetName = name_of, .GetExecutionProviderType = any_cpu,           \
        .GetInputType = type_of, .GetInputTypeCount = count, .GetOutputType = output_type_of,      \
        .GetOutputTypeCount = one, .KernelDestroy = forget_node,                                   \
        .GetInputCharacteristic = input_kind, .GetOutputCharacteristic = output_kind,              \
        .GetInputMemoryType = memory_of, .GetVariadicInputMinArity = at_least_one,                 \
        .GetVariadicInputHomogeneity = at_least_one, .GetVariadicOutputMinArity = at_least_one,    \
        .GetVariadicOutputHomogeneity = at_least_one, .CreateKernelV2 = create,                    \
        .KernelComputeV2 = run,                                                                    \
    }

/* Quantized operators, for each type that inputs and outputs may have. */
#define LINEAR_TYPES(x, y)                                                                         \
    (const int[]){ x, ORT_FLOAT, x, ORT_INT8, ORT_FLOAT, ORT_INT8, ORT_FLOAT, y, ORT_INT32 }
#define INTEGER_TYPES(x) (const int[]){ x, ORT_INT8, x, ORT_INT8 }
#define LINEAR(x, y)                                                                               \
    {                                                                                              \
        FACE(nine, after_eight, required, compute), "QLinearConv", y, read_linear_##x##_##y,       \
        LINEAR_TYPES(x, y)                                                                         \
    }
#define READ_LINEAR(x, y)                                                                          \
    static OrtStatus *read_linear_##x##_##y(node *n, const OrtKernelInfo *info)                    \
    {                                                                                              \
        return read_linear(n, info, x, y);                                                         \
    }
#define INTEGER(x)                                                                                 \
    {                                                                                              \
        FACE(four, after_two, required, compute), "ConvInteger", ORT_INT32, read_integer_##x,      \
        INTEGER_TYPES(x)                                                                           \
    }
#define LOOKUP(x, y)                                                                               \
    { FACE(two, required, required, compute_lookup), "Lookup", y, read_lookup, (const int[]){ x, y } }
#define READ_INTEGER(x)                                                                            \
    static OrtStatus *read_integer_##x(node *n, const OrtKernelInfo *info)                         \
    {                                                                                              \
        return read_integer(n, info, x);                                                           \
    }
READ_LINEAR(ORT_UINT8, ORT_UINT8)
READ_LINEAR(ORT_UINT8, ORT_INT8)
READ_LINEAR(ORT_INT8, ORT_UINT8)
READ_LINEAR(ORT_INT8, ORT_INT8)
READ_INTEGER(ORT_UINT8)
READ_INTEGER(ORT_INT8)

static const operator OPERATORS[] = {
    { FACE(six, after_two, required, compute), "Conv", ORT_FLOAT, read_conv },
    { FACE(six, after_two, required, compute), "Conv", ORT_DOUBLE, read_conv },
    { FACE(one, variadic, variadic, compute), "Segment", ORT_FLOAT, read_segment },
    { FACE(one, variadic, variadic, compute), "Segment", ORT_DOUBLE, read_segment },
    LINEAR(ORT_UINT8, ORT_UINT8),
    LINEAR(ORT_UINT8, ORT_INT8),
    LINEAR(ORT_INT8, ORT_UINT8),
    LINEAR(ORT_INT8, ORT_INT8),
    INTEGER(ORT_UINT8),
    INTEGER(ORT_INT8),
    LOOKUP(ORT_UINT8, ORT_UINT8),
    LOOKUP(ORT_UINT8, ORT_INT8),
    LOOKUP(ORT_INT8, ORT_UINT8),
    LOOKUP(ORT_INT8, ORT_INT8),
};

/* The domain lives as long as the process: sessions refer to it. */
static OrtStatus *make_domain(const OrtApi *api, OrtCustomOpDomain **domain)
{
    TRY(api->CreateCustomOpDomain("com.winogen", domain));
    for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++)
        TRY(api->CustomOpDomain_Add(*domain, &OPERATORS[i].face));
    return NULL;
}

/* What onnxruntime calls when it loads this library for a session. */
OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static OrtCustomOpDomain *the_domain;
    const OrtApi *api = base->GetApi(ORT_VERSION);
    if (!api) {
        char message[256];
        snprintf(message, sizeof message, "winogen: got onnxruntime %s; allowed: 1.%d or newer",
                 base->GetVersionString(), ORT_VERSION);
        return base->GetApi(1)->CreateStatus(ORT_FAIL, message);
    }
    pthread_mutex_lock(&lock);
    OrtStatus *status = the_domain ? NULL : make_domain(api, &the_domain);
    pthread_mutex_unlock(&lock);
    return status ? status : api->AddCustomOpDomain(options, the_domain);
}
