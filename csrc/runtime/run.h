/* ---- running --------------------------------------------------------------------------------- */

/* Memory to work in, LINE-aligned: the thread's own, as large as any of its calls needed. A thread
 * that waits for others might begin another call meanwhile, which then gets memory for itself. */
typedef struct scratch {
    size_t bytes;    /* How large it is. */
    void *memory;    /* Where it begins. */
    int used;        /* Whether a call uses it. */
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
    /* The function that computes a part. */
    void (*part)(const void *call, int64_t phase, int64_t part, int64_t member);
    /* The call whose work it is. */
    const void *call;
    /* The phase, and how many parts it has. */
    int64_t phase, parts;
    /* The next part to take. */
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
    int64_t id, expected;       /* The number of the loop, and how many threads it waits for. */
    struct timespec begin;      /* When the loop began. */
    _Atomic int64_t present;    /* Threads that were counted. */
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

/* The threads that onnxruntime lends for one call of a node. */
typedef struct lender {
    const OrtApi *api;                  /* The interface of onnxruntime. */
    const OrtKernelContext *context;    /* The call of the node. */
    OrtStatus *status;                  /* What went wrong, NULL for nothing. */
} lender;

static int run_on_lent(void *pool, const winogen_step *step, const void *call)
{
    lender *l = pool;
    team_work work = { .part = step->part, .call = call, .parts = step->parts };
    for (; work.phase * step->parts < step->last && !l->status; work.phase++)
        l->status = run_phase(l->api, l->context, &work, step->threads);
    return l->status != NULL;
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
    if (!status && rank <= 5) status = api->GetDimensions(shape, array->shape, rank);
    api->ReleaseShape(shape);
    return status;
}

/* `by_original` and the plan belong to the time at which the lock of the node was held. */
static OrtStatus *run_entry(const node *n, const entry *e, int by_original,
                            OrtKernelContext *context, void **arrays)
{
    const OrtApi *api = n->api;
    const int64_t outside = n->inputs + n->outputs;
    int64_t numbers = 0, slots[outside + 2];
    OrtValue *values[n->outputs];
    for (int64_t i = n->inputs; i < outside; i++) {
        OrtValue **value = &values[i - n->inputs];
        TRY(api->GetOutput(context, (size_t)(i - n->inputs), e->arrays[i].shape,
                           (size_t)e->arrays[i].rank, value));
        TRY(api->GetTensorMutableData(*value, &arrays[i]));
        numbers += numbers_of(&e->arrays[i]);
    }
    if (!numbers) return NULL;    /* an empty batch */
    if (by_original)
        return run_original(api, &n->original, context, values, (size_t)n->outputs);
    scratch *s = borrow_scratch((size_t)e->plan.scratch_bytes + LINE);
    if (!s) return failure(n, ORT_FAIL, "out of memory");
    slots[0] = 0;
    for (int64_t i = 0; i < outside; i++) slots[1 + i] = (int64_t)(intptr_t)arrays[i];
    slots[1 + outside] = (int64_t)(intptr_t)s->memory;
    lender pool = { api, context, NULL };
    winogen_run_steps(e->plan.steps, e->plan.count, slots, run_on_lent, &pool);
    return_scratch(s);
    return pool.status;
}

/* Says, once for each node, who computes sizes without a plan, and what helps. */
static void tell(node *n, const OrtKernelContext *context, const entry *e)
{
    char text[MESSAGE_BYTES], sizes[SIZES_BYTES];
    if (n->told) return;
    n->told = 1;
    snprintf(text, sizeof text,
             "winogen, node \"%s\": no plan for an input of %s, which %s. Write a library with plans "
             "for such sizes, too: winogen onnx library MODEL -o LIBRARY --input NAME=N,C,H,W",
             n->name, listed(&e->arrays[n->layers ? e->layers->input : 0], "x", sizes),
             e->by_original ? "onnxruntime computes as the original does, and as fast"
                            : "a plain loop computes, tens of times as slowly");
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
    void *arrays[n->inputs + n->outputs];
    winogen_array inputs[n->inputs];
    memset(arrays, 0, sizeof arrays);
    for (int64_t i = 0; i < n->inputs; i++) {
        inputs[i] = n->constants[i];
        const OrtValue *value;
        TRY(api->GetInput(context, (size_t)i, &value));
        if (!value) continue;
        TRY(api->GetTensorMutableData((OrtValue *)value, &arrays[i]));
        if (!inputs[i].constant) TRY(read_shape(api, value, &inputs[i]));
        if (inputs[i].rank > 5)
            return failure(n, ORT_INVALID_ARGUMENT,
                           "got an input of more than 5 axes; allowed: 4, or 5 of volumes");
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
            if (e->unplanned) tell(n, context, e);
        }
    } else if (e->waiting)
        ask_again(n, e);
    if (e) e->users++;
    const int by_original = e && e->by_original;
    pthread_mutex_unlock(&n->lock);
    if (!e) return failure(n, ORT_INVALID_ARGUMENT, message);
    OrtStatus *status = run_entry(n, e, by_original, context, arrays);
    pthread_mutex_lock(&n->lock);
    e->users--;
    pthread_mutex_unlock(&n->lock);
    return status;
}
