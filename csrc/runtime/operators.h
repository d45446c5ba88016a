/* ---- making nodes ---------------------------------------------------------------------------- */

/* An operator for one type of numbers. */
typedef struct operator {
    OrtCustomOp face;                                     /* What onnxruntime sees, which comes
                                                           * first. */
    const char *name;                                     /* What models call it. */
    int type;                                             /* The type of its outputs, and of its
                                                           * inputs. */
    OrtStatus *(*read)(node *, const OrtKernelInfo *);    /* Reads its attributes into a node. */
    const int *types;                                     /* Types of the inputs, if they are not
                                                           * all of one. */
} operator;

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
    float tolerance = 0, most_error = 0;
    if (!status) status = read_constants(n, info);
    if (!status)
        status = unless_absent(api, api->GetAttribute_float(info, "tolerance", &tolerance));
    if (!status)
        status = unless_absent(api, api->GetAttribute_float(info, "most_error", &most_error));
    if (!status)
        status = unless_absent(api, api->GetAttribute_int64(info, "threads", &n->threads));
    n->tolerance = tolerance;
    n->most_error = most_error;
    if (!status && (n->threads < 0 || n->threads > 1024))
        status = failure(n, ORT_INVALID_ARGUMENT,
                         "threads: got a number out of range; allowed: 0 to 1024");
    if (!status && !(tolerance >= 0 && tolerance < 1))
        status = failure(n, ORT_INVALID_ARGUMENT,
                         "tolerance: got a number out of range; allowed: 0 to 1");
    if (!status && !(most_error >= 0 && most_error < 1))
        status = failure(n, ORT_INVALID_ARGUMENT,
                         "most_error: got a number out of range; allowed: 0 to 1");
    if (!status) status = read_original(n, info);
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
    { FACE(one, variadic, variadic, compute), "Codes", ORT_UINT8, read_codes },
    { FACE(one, variadic, variadic, compute), "Codes", ORT_INT8, read_codes },
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
