/* ---- the original of a node ---------------------------------------------------------------------
 * A node whose sizes are open holds the nodes that it stands for, as a model of ONNX. Where no plan
 * is at hand, a session of onnxruntime's own runs that model: at the original's speed.
 *
 * Its inputs and some of its initializers are called "i0", "i1", ... after the inputs of the node,
 * its outputs "o0", "o1", ... */

enum { NAME_BYTES = 24 };

typedef struct original {
    char *model;                      /* The bytes of a model; NULL: there is none. */
    size_t bytes;                     /* How many there are. */
    int64_t *reads, *holds;           /* Inputs of the node that are inputs of the model, and
                                       * those that are its initializers. */
    size_t read_count, held_count;    /* How many there are of each. */
    OrtSession *session;              /* What runs the model, made when it is first needed. */
    int fails;                        /* Whether onnxruntime does not run it. */
} original;

static void drop_original(const OrtApi *api, original *o)
{
    if (o->session) api->ReleaseSession(o->session);
    free(o->model);
    free(o->reads);
    free(o->holds);
}

static void name_array(char *name, char kind, int64_t number)
{
    snprintf(name, NAME_BYTES, "%c%lld", kind, (long long)number);
}

/* Lends the constants of the node to a session that is about to be made. */
static OrtStatus *lend_constants(const OrtApi *api, const original *o, OrtSessionOptions *options,
                                 const winogen_array *constants, int type)
{
    const size_t count = o->held_count;
    const int64_t size = type == ORT_FLOAT ? 4 : 8;
    OrtValue *values[count + 1];
    char text[count + 1][NAME_BYTES];
    const char *names[count + 1];
    OrtMemoryInfo *memory = NULL;
    OrtStatus *status = api->CreateCpuMemoryInfo(0, 0, &memory);
    size_t made = 0;
    for (; !status && made < count; made++) {
        const winogen_array *a = &constants[o->holds[made]];
        name_array(text[made], 'i', o->holds[made]);
        names[made] = text[made];
        values[made] = NULL;
        status = api->CreateTensorWithDataAsOrtValue(
            memory, (void *)(intptr_t)a->constant, (size_t)(numbers_of(a) * size), a->shape,
            (size_t)a->rank, type, &values[made]);
    }
    if (!status && count)
        status = api->AddExternalInitializers(options, names, (const OrtValue *const *)values, count);
    for (size_t i = 0; i < made; i++)
        if (values[i]) api->ReleaseValue(values[i]);
    if (memory) api->ReleaseMemoryInfo(memory);
    return status;
}

/* Whether onnxruntime runs the original; makes its session the first time, with as many threads. */
static int start_original(const OrtApi *api, original *o, const winogen_array *constants, int type,
                          int64_t threads)
{
    if (o->session) return 1;
    if (!o->model || o->fails) return 0;
    OrtEnv *env = NULL;    /* that of the process: it is there already */
    OrtSessionOptions *options = NULL;
    OrtStatus *status = api->CreateEnv(ORT_ERROR, "winogen", &env);
    if (!status) status = api->CreateSessionOptions(&options);
    if (!status) status = api->SetSessionLogSeverityLevel(options, ORT_ERROR);
    if (!status) status = api->SetIntraOpNumThreads(options, (int)threads);
    if (!status) status = lend_constants(api, o, options, constants, type);
    if (!status)
        status = api->CreateSessionFromArray(env, o->model, o->bytes, options, &o->session);
    if (options) api->ReleaseSessionOptions(options);
    if (env) api->ReleaseEnv(env);
    if (!status) return 1;
    api->ReleaseStatus(status);
    o->fails = 1;
    return 0;
}

static OrtStatus *run_original(const OrtApi *api, const original *o, const OrtKernelContext *context,
                               OrtValue **outputs, size_t count)
{
    const OrtValue *values[o->read_count + 1];
    char text[o->read_count + count + 1][NAME_BYTES];
    const char *names[o->read_count + count + 1];
    for (size_t i = 0; i < o->read_count; i++) {
        OrtStatus *status = api->GetInput(context, (size_t)o->reads[i], &values[i]);
        if (status) return status;
        name_array(text[i], 'i', o->reads[i]);
    }
    for (size_t i = 0; i < count; i++) name_array(text[o->read_count + i], 'o', (int64_t)i);
    for (size_t i = 0; i < o->read_count + count; i++) names[i] = text[i];
    return api->Run(o->session, NULL, names, values, o->read_count, names + o->read_count, count,
                    outputs);
}
