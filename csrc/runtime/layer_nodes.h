/* ---- nodes of one layer: what their attributes and constants say ----------------------------- */

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
        if (array.rank > 5 || numbers_of(&array) == 0) continue;
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
    for (int axis = 0; axis < AXES; axis++) l->stride[axis] = l->dilation[axis] = 1;
    l->groups = 1;
    int64_t auto_pad = 0, kernel[AXES];
    TRY(read_axes(n, info, "kernel_shape", 1, 1, kernel));    /* W says it, too */
    TRY(read_axes(n, info, "strides", 1, 1, l->stride));
    TRY(read_axes(n, info, "dilations", 1, 1, l->dilation));
    TRY(read_axes(n, info, "pads", 2, 0, l->padding));
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
