/* ---- running --------------------------------------------------------------------------------- */

/* What a kernel takes; as winogen_call, whatever its numbers are. */
typedef struct kernel_call {
    const void *conv, *input, *packed, *bias, *slopes, *add, *add_after;
    void *output, *workspace;
} kernel_call;

/* What a quantized kernel takes: all constants are in its packed weights. */
typedef struct quantized_kernel_call {
    const void *conv, *input, *packed;
    void *output, *workspace;
} quantized_kernel_call;

/* Memory to work in, LINE-aligned: the thread's own, as large as any of its calls needed. A thread
 * that waits for others might begin another call meanwhile, which then gets memory for itself. */
typedef struct scratch {
    size_t bytes;
    void *memory;
    int used;
} scratch;
static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;

static void free_scratch(void *data)
{
    free(((scratch *)data)->memory);
    free(data);
}

static void make_scratch_key(void) { pthread_key_create(&scratch_key, free_scratch); }

static scratch *borrow_scratch(size_t bytes)
{
    pthread_once(&scratch_once, make_scratch_key);
    scratch *own = pthread_getspecific(scratch_key), *s = own;
    if (!own || own->used) s = calloc(1, sizeof *s);
    if (s && !own && pthread_setspecific(scratch_key, s)) {
        free(s);
        return NULL;
    }
    if (!s) return NULL;
    if (s->bytes < bytes) {
        free(s->memory);
        s->bytes = (bytes + LINE - 1) / LINE * LINE;
        s->memory = aligned_alloc(LINE, s->bytes);
        if (!s->memory) s->bytes = 0;
    }
    if (s->memory) {
        s->used = 1;
        return s;
    }
    if (s != own && own) free(s);
    return NULL;
}

static void return_scratch(scratch *s)
{
    s->used = 0;
    if (s != pthread_getspecific(scratch_key)) free_scratch(s);
}

/* Parts that the members of a team take from a common counter. A member has buffers of its own and
 * waits for nobody, so that it does not matter how many of them really run at once. */
typedef struct team_work {
    void (*part)(const void *call, int64_t phase, int64_t part, int64_t member);
    const void *call;
    int64_t phase, parts;
    _Atomic int64_t next;
} team_work;

static void join(void *data, size_t member)
{
    team_work *w = data;
    for (;;) {
        const int64_t part = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed);
        if (part >= w->parts) return;
        w->part(w->call, w->phase, part, (int64_t)member);
    }
}

static OrtStatus *run_phase(const OrtApi *api, const OrtKernelContext *context, team_work *work,
                            int64_t threads)
{
    const int64_t members = work->parts < threads ? work->parts : threads;
    atomic_init(&work->next, 0);
    if (members > 1) return api->ParallelFor(context, join, (size_t)members, 0, work);
    join(work, 0);
    return NULL;
}

/* How many threads onnxruntime lends, which it does not tell: each that takes part in a loop is
 * counted once, and waits a little for the others. */
typedef struct roll_call {
    int64_t id, expected;
    struct timespec begin;
    _Atomic int64_t present;
} roll_call;

static void answer(void *data, size_t index)
{
    static _Thread_local int64_t answered;
    roll_call *r = data;
    (void)index;
    if (answered != r->id) {
        answered = r->id;
        atomic_fetch_add(&r->present, 1);
    }
    while (atomic_load(&r->present) < r->expected) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        const double waited = (double)(now.tv_sec - r->begin.tv_sec) +
                              1e-9 * (double)(now.tv_nsec - r->begin.tv_nsec);
        if (waited > 5e-3) return;
        usleep(20);    /* the others may need this CPU to come */
    }
}

static int64_t threads_lent(const OrtApi *api, const OrtKernelContext *context)
{
    static _Atomic int64_t calls;
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (cpus <= 1) return 1;
    roll_call r = { .id = atomic_fetch_add(&calls, 1) + 1, .expected = cpus };
    clock_gettime(CLOCK_MONOTONIC, &r.begin);
    OrtStatus *status = api->ParallelFor(context, answer, (size_t)cpus, 0, &r);
    if (status) {
        api->ReleaseStatus(status);
        return 1;
    }
    return atomic_load(&r.present);
}

/* The memory of a call: the node's arrays, and what lies between its layers. */
typedef struct memory {
    void **arrays;
    char *arena;
} memory;

static void *at(const memory *m, winogen_place place)
{
    switch (place.base) {
    case NOWHERE:
        return NULL;
    case ARENA:
        return m->arena + place.offset;
    case ADDRESS:
        return (void *)(intptr_t)place.offset;
    default:
        return (char *)m->arrays[place.base] + place.offset;
    }
}

static OrtStatus *run_plan(const node *n, const entry *e, const OrtKernelContext *context,
                           const memory *m, void *workspace)
{
    const winogen_plan *plan = &e->plan;
    for (int64_t i = 0; i < plan->packings; i++) {
        const winogen_packing *p = &plan->packing[i];
        p->pack(p->conv, at(m, p->weight), at(m, p->packed), 1);
    }
    for (int64_t i = 0; i < plan->steps; i++) {
        const winogen_step *s = &plan->step[i];
        const kernel_call call = {
            .conv = s->conv, .input = at(m, s->input), .packed = at(m, s->packed),
            .bias = at(m, s->bias), .slopes = at(m, s->slopes), .add = at(m, s->add),
            .add_after = at(m, s->add_after), .output = at(m, s->output), .workspace = workspace,
        };
        const quantized_kernel_call narrow = {
            .conv = call.conv, .input = call.input, .packed = call.packed, .output = call.output,
            .workspace = workspace,
        };
        const void *given = n->scales ? (const void *)&narrow : &call;
        team_work work = { .part = s->part, .call = given, .parts = s->parts };
        for (; work.phase < s->phases; work.phase++) {
            OrtStatus *status = run_phase(n->api, context, &work, s->threads);
            if (status) return status;
        }
    }
    return NULL;
}

static void plain_part_float(const void *call, int64_t phase, int64_t part, int64_t member)
{
    (void)phase, (void)member;
    plain_plane_float(call, part);
}

static void plain_part_double(const void *call, int64_t phase, int64_t part, int64_t member)
{
    (void)phase, (void)member;
    plain_plane_double(call, part);
}

/* A zero point of uint8 or int8; 0 where there is none. */
static int64_t zero_of(const memory *m, int64_t array, int64_t is_signed)
{
    if (array < 0) return 0;
    const uint8_t byte = *(const uint8_t *)m->arrays[array];
    return is_signed ? (int8_t)byte : byte;
}

static OrtStatus *run_quantized_plainly(const node *n, const entry *e,
                                        const OrtKernelContext *context, const memory *m)
{
    const winogen_layer *l = e->layers;
    const winogen_scales *s = n->scales;
    const winogen_array *x = &e->arrays[l->input], *w = &e->arrays[l->weight];
    const winogen_array *y = &e->arrays[l->output];
#define ARRAY(i) ((i) < 0 ? NULL : m->arrays[i])
#define COUNT(i) ((i) < 0 ? 1 : numbers_of(&e->arrays[i]))
    const int64_t flip = s->input_signed ? 128 : 0, y_zero = zero_of(m, s->y_zero, s->output_signed);
    const int64_t lowest = s->output_signed ? -128 : 0;
    const quantized_call call = {
        .layer = l, .input = m->arrays[l->input], .flip = (uint8_t)flip,
        .weight = m->arrays[l->weight], .w_zero = ARRAY(s->w_zero), .bias = ARRAY(l->bias),
        .x_scale = ARRAY(s->x_scale), .w_scale = ARRAY(s->w_scale), .y_scale = ARRAY(s->y_scale),
        .output = m->arrays[l->output], .w_zeros = COUNT(s->w_zero), .w_scales = COUNT(s->w_scale),
        .x_zero = zero_of(m, s->x_zero, s->input_signed) + flip, .y_zero = y_zero,
        .lowest = l->activation == RELU ? y_zero : lowest, .highest = lowest + 255,
        .batch = x->shape[0], .filters = w->shape[0], .channels = w->shape[1],
        .size = { x->shape[2], x->shape[3] }, .kernel = { w->shape[2], w->shape[3] },
        .out = { y->shape[2], y->shape[3] },
    };
#undef ARRAY
#undef COUNT
    team_work work = {
        .part = plain_part_quantized, .call = &call, .parts = call.batch * call.filters,
    };
    return run_phase(n->api, context, &work, n->threads ? n->threads : 64);
}

static OrtStatus *run_plainly(const node *n, const entry *e, const OrtKernelContext *context,
                              const memory *m)
{
    if (n->scales) return run_quantized_plainly(n, e, context, m);
    for (int64_t i = n->inputs + n->outputs; i < n->array_count; i++)
        m->arrays[i] = m->arena + e->offsets[i];
    for (int64_t i = 0; i < n->layer_count; i++) {
        const winogen_layer *l = &e->layers[i];
        const winogen_array *x = &e->arrays[l->input], *w = &e->arrays[l->weight];
        const winogen_array *y = &e->arrays[l->output];
        /* From channel `channel` of an array on, and the numbers of one of its images. */
#define FROM(array, channel)                                                                       \
    ((array) < 0 ? NULL                                                                            \
                 : (char *)m->arrays[array] + (channel) * e->arrays[array].shape[2] *              \
                                                  e->arrays[array].shape[3] * n->itemsize)
#define IMAGE(array)                                                                               \
    ((array) < 0 ? 0                                                                               \
                 : e->arrays[array].shape[1] * e->arrays[array].shape[2] *                         \
                       e->arrays[array].shape[3])
        const plain_call call = {
            .layer = l,
            .input = FROM(l->input, l->input_channel), .input_image = IMAGE(l->input),
            .weight = m->arrays[l->weight],
            .bias = l->bias < 0 ? NULL : m->arrays[l->bias],
            .slopes = l->slopes < 0 ? NULL : m->arrays[l->slopes],
            .add = FROM(l->add, l->add_channel), .add_image = IMAGE(l->add),
            .add_after = FROM(l->add_after, l->add_after_channel),
            .add_after_image = IMAGE(l->add_after),
            .output = FROM(l->output, l->output_channel), .output_image = IMAGE(l->output),
            .batch = x->shape[0], .filters = w->shape[0], .channels = w->shape[1],
            .size = { x->shape[2], x->shape[3] }, .kernel = { w->shape[2], w->shape[3] },
            .out = { y->shape[2], y->shape[3] },
        };
#undef FROM
#undef IMAGE
        team_work work = {
            .part = n->itemsize == 4 ? plain_part_float : plain_part_double,
            .call = &call, .parts = call.batch * call.filters,
        };
        OrtStatus *status = run_phase(n->api, context, &work, n->threads ? n->threads : 64);
        if (status) return status;
    }
    return NULL;
}

/* ---- one call of a node ---------------------------------------------------------------------- */

#define TRY(call)                                                                                  \
    do {                                                                                           \
        OrtStatus *status_ = (call);                                                               \
        if (status_) return status_;                                                               \
    } while (0)

static OrtStatus *read_shape(const OrtApi *api, const OrtValue *value, winogen_array *array)
{
    OrtShape *shape;
    TRY(api->GetTensorTypeAndShape(value, &shape));
    size_t rank = 0;
    OrtStatus *status = api->GetDimensionsCount(shape, &rank);
    memset(array, 0, sizeof *array);
    array->rank = (int64_t)rank;
    if (!status && rank <= 4) status = api->GetDimensions(shape, array->shape, rank);
    api->ReleaseShape(shape);
    return status;
}

static OrtStatus *run_entry(const node *n, const entry *e, OrtKernelContext *context,
                            void **arrays)
{
    const OrtApi *api = n->api;
    int64_t numbers = 0;
    for (int64_t i = n->inputs; i < n->inputs + n->outputs; i++) {
        OrtValue *value;
        TRY(api->GetOutput(context, (size_t)(i - n->inputs), e->arrays[i].shape, 4, &value));
        TRY(api->GetTensorMutableData(value, &arrays[i]));
        numbers += numbers_of(&e->arrays[i]);
    }
    if (!numbers) return NULL;    /* an empty batch */
    const size_t arena = ((size_t)e->plan.arena_bytes + LINE - 1) / LINE * LINE;
    scratch *s = borrow_scratch(arena + (size_t)e->plan.workspace_bytes + LINE);
    if (!s) return failure(n, ORT_FAIL, "out of memory");
    const memory m = { arrays, s->memory };
    OrtStatus *status = e->planned ? run_plan(n, e, context, &m, m.arena + arena)
                                   : run_plainly(n, e, context, &m);
    return_scratch(s);
    return status;
}

/* Says, once for each node, that these sizes take long, and what helps. */
static void tell(node *n, const OrtKernelContext *context, const entry *e)
{
    const int64_t *x = e->arrays[e->layers->input].shape;
    char text[MESSAGE_BYTES];
    if (n->told) return;
    n->told = 1;
    snprintf(text, sizeof text,
             "winogen, node \"%s\": no plan for an input of %lldx%lldx%lldx%lld, which takes a plain "
             "loop, tens of times as long. Write a library with plans for such sizes, too: winogen "
             "onnx library MODEL -o LIBRARY --input NAME=N,C,H,W",
             n->name, (long long)x[0], (long long)x[1], (long long)x[2], (long long)x[3]);
    const OrtLogger *logger = NULL;
    OrtStatus *status = n->api->GetLogger(context, &logger);
    if (!status)
        status = n->api->LogMessage(logger, ORT_WARNING, text, "winogen", __LINE__, "compute");
    if (!status) return;
    n->api->ReleaseStatus(status);
    fprintf(stderr, "%s\n", text);
}

static OrtStatus *compute(void *data, OrtKernelContext *context)
{
    node *n = data;
    const OrtApi *api = n->api;
    void *arrays[n->array_count];
    winogen_array inputs[n->inputs];
    memset(arrays, 0, sizeof arrays);
    for (int64_t i = 0; i < n->inputs; i++) {
        inputs[i] = n->constants[i];
        const OrtValue *value;
        TRY(api->GetInput(context, (size_t)i, &value));
        if (!value) continue;
        TRY(api->GetTensorMutableData((OrtValue *)value, &arrays[i]));
        if (!inputs[i].constant) TRY(read_shape(api, value, &inputs[i]));
        if (inputs[i].rank > 4)
            return failure(n, ORT_INVALID_ARGUMENT, "got an input of more than 4 axes; allowed: 4");
    }
    char message[MESSAGE_BYTES] = "";
    pthread_mutex_lock(&n->lock);
    entry *e = look_up(n, inputs);
    if (!e) {
        if (!n->threads && !n->lent) n->lent = threads_lent(api, context);
        e = make_entry(n, inputs, n->threads ? n->threads : n->lent, message);
        if (e) {
            e->next = n->entries;
            n->entries = e;
            prune(n);
            if (e->slow) tell(n, context, e);
        }
    }
    if (e) e->users++;
    pthread_mutex_unlock(&n->lock);
    if (!e) return failure(n, ORT_INVALID_ARGUMENT, message);
    OrtStatus *status = run_entry(n, e, context, arrays);
    pthread_mutex_lock(&n->lock);
    e->users--;
    pthread_mutex_unlock(&n->lock);
    return status;
}
