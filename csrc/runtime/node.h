/* ---- nodes ----------------------------------------------------------------------------------- */

/* The struct of a layer, of whichever kind it is. */
typedef union plain_struct {
    winogen_map map;
    plain_layer real;
    quantized_layer bytes;
} plain_struct;

/* What the steps of a plain plan point to. */
typedef struct plain_plan {
    int64_t *offsets;         /* Where every array between layers begins. */
    plain_struct *structs;    /* The struct of every layer. */
    winogen_step *steps;      /* The steps. */
} plain_plan;

static void drop_plain(plain_plan *p)
{
    free(p->offsets);
    free(p->structs);
    free(p->steps);
}

/* What is known for inputs of some sizes. */
typedef struct entry {
    struct entry *next;       /* The one that was used before. */
    int64_t users;            /* Calls that are running by it. */
    int unplanned;            /* Whether there is no plan, and something to compute. */
    int by_original;          /* Whether onnxruntime computes it. */
    int waiting;              /* Whether it does so until the planner has a plan. */
    double ask_at;            /* When to ask again, in seconds. */
    int64_t threads;          /* Threads that the plan is for. */
    winogen_plan plan;        /* What is run. */
    plain_plan plain;         /* What the plan is made of, if it is plain. */
    winogen_layer *layers;    /* The layers with their padding resolved. */
    winogen_array *arrays;    /* The arrays with their sizes. */
} entry;

/* A node of a session. */
typedef struct node {
    const OrtApi *api;                                    /* The interface of onnxruntime. */
    int64_t number;                                       /* Its number among all nodes that this
                                                           * process ever had. */
    char name[128];                                       /* What the session calls it. */
    int64_t itemsize;                                     /* Bytes of a number. */
    int64_t threads, lent;                                /* Threads that it may use, and those
                                                           * that onnxruntime lends: 0 until they
                                                           * are counted. */
    double tolerance, most_error;                         /* The largest error that it may have,
                                                           * and that a layer may be predicted. */
    int auto_pad;                                         /* How padding is found, as ONNX says
                                                           * it. */
    int64_t rank;                                         /* Axes of arrays, where attributes say
                                                           * it; else 0. */
    int told;                                             /* Whether it said that it computes the
                                                           * plain way. */
    int64_t layer_count, inputs, outputs, array_count;    /* How many layers, inputs, outputs and
                                                           * arrays it has. */
    winogen_layer *layers;                                /* The layers. */
    winogen_scales *scales;                               /* Scales of a quantized node. */
    int64_t *channels;                                    /* Channels of every array that layers
                                                           * write; 0: as many as filters. */
    winogen_array *constants;                             /* Inputs that are constant, of rank 0
                                                           * where they come with the call. */
    original original;                                    /* The nodes that it stands for. */
    int64_t *sizes, open;                                 /* Sizes of a node of codes behind the
                                                           * batch, else NULL; and whether that
                                                           * is open. */
    pthread_mutex_t lock;                                 /* What guards the entries. */
    entry *entries;                                       /* What is known for some sizes, the
                                                           * latest used first. */
} node;

static _Atomic(winogen_planner) the_planner;
static _Atomic(winogen_release) the_release;

/* Who plans, and who takes back plans that are done with; NULL for nobody. */
void winogen_onnx_set_planner(winogen_planner planner, winogen_release release)
{
    atomic_store(&the_release, release);
    atomic_store(&the_planner, planner);
}

static OrtStatus *failure(const node *n, int kind, const char *message)
{
    char text[MESSAGE_BYTES + 256];
    snprintf(text, sizeof text, "winogen, node \"%s\": %s", n->name, message);
    return n->api->CreateStatus(kind, text);
}

static void drop(entry *e)
{
    const winogen_release release = atomic_load(&the_release);
    if (release && e->plan.handle) release(e->plan.handle);
    drop_plain(&e->plain);
    free(e->layers);
    free(e->arrays);
    free(e);
}

static void forget_node(void *data)
{
    node *n = data;
    if (!n) return;
    while (n->entries) {
        entry *e = n->entries;
        n->entries = e->next;
        drop(e);
    }
    pthread_mutex_destroy(&n->lock);
    drop_original(n->api, &n->original);
    free(n->layers);
    free(n->scales);
    free(n->channels);
    free(n->constants);
    free(n->sizes);
    free(n);
}

static int plan_plainly(const node *n, entry *e);
static int code_shapes(const node *n, winogen_array *arrays, char *message);

/* Asks the planner for a plan of an entry. `waits`: it must be there now. */
static int ask(const node *n, entry *e, int waits, char *message)
{
    const winogen_planner planner = atomic_load(&the_planner);
    if (!planner) return UNKNOWN;
    const winogen_question question = {
        .node = n->number, .name = n->name, .itemsize = n->itemsize, .threads = e->threads,
        .waits = waits,
        .tolerance = n->tolerance, .most_error = n->most_error, .layers = n->layer_count,
        .inputs = n->inputs, .outputs = n->outputs, .arrays = n->array_count, .layer = e->layers,
        .array = e->arrays, .scales = n->scales, .codes = n->sizes ? n->original.model : NULL,
        .code_bytes = (int64_t)n->original.bytes,
    };
    return planner(&question, &e->plan, message, MESSAGE_BYTES);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Asks for the plan that is being made, but spends a hundredth of the time on asking. */
static void ask_again(const node *n, entry *e)
{
    const double begin = seconds_now();
    if (begin < e->ask_at) return;
    char message[MESSAGE_BYTES];
    if (ask(n, e, 0, message) == PLANNED) e->waiting = e->by_original = 0;
    const double end = seconds_now(), pause = 100 * (end - begin);
    e->ask_at = end + (pause > 5e-3 ? pause : 5e-3);
}

/* The answer for a new entry, which the original computes if there is no plan yet. */
static int first_answer(node *n, entry *e, char *message)
{
    const int waits = n->sizes && !n->open;    /* for the only plan that there will be */
    int answer = ask(n, e, waits || !n->original.model || n->original.fails, message);
    if (answer != LATER && answer != UNKNOWN) return answer;
    const int type = n->itemsize == 4 ? ORT_FLOAT : ORT_DOUBLE;
    e->by_original = start_original(n->api, &n->original, n->constants, type, e->threads);
    e->waiting = e->by_original && answer == LATER;
    return answer == LATER && !e->waiting ? ask(n, e, 1, message) : answer;
}

/* Everything that follows from the sizes of the inputs; NULL with a message. */
static entry *make_entry(node *n, const winogen_array *inputs, int64_t threads, char *message)
{
    entry *e = calloc(1, sizeof *e);
    if (e) {
        e->threads = threads;
        e->layers = malloc((size_t)(n->layer_count + 1) * sizeof *e->layers);
        e->arrays = calloc((size_t)n->array_count, sizeof *e->arrays);
    }
    if (!e || !e->layers || !e->arrays) {
        refuse(message, "out of memory");
        goto failed;
    }
    if (n->layers) memcpy(e->layers, n->layers, (size_t)n->layer_count * sizeof *e->layers);
    memcpy(e->arrays, inputs, (size_t)n->inputs * sizeof *e->arrays);
    int64_t numbers = 0;
    if (n->sizes) {
        if (!code_shapes(n, e->arrays, message)) goto failed;
        numbers = numbers_of(&e->arrays[n->inputs]);
    }
    for (int64_t i = 0; i < n->layer_count; i++) {
        winogen_layer *l = &e->layers[i];
        if (!layer_shapes(l, e->arrays, n->channels[l->output], n->auto_pad, n->rank, message))
            goto failed;
        numbers += numbers_of(&e->arrays[l->output]);
    }
    const int answer = numbers ? first_answer(n, e, message) : UNKNOWN;    /* empty: no plan */
    if (answer == FAILED) goto failed;
    e->unplanned = answer == UNKNOWN && numbers;
    if (e->unplanned && n->sizes && !e->by_original) {
        refuse(message, "there is no plan for it, and onnxruntime does not run its original");
        goto failed;
    }
    if (answer == UNKNOWN && !e->by_original && !n->sizes && !plan_plainly(n, e)) {
        refuse(message, "out of memory");
        goto failed;
    }
    return e;
failed:
    if (e) drop(e);
    return NULL;
}

static int same_sizes(const winogen_array *a, const winogen_array *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (a[i].rank != b[i].rank ||
            memcmp(a[i].shape, b[i].shape, (size_t)a[i].rank * sizeof *a[i].shape))
            return 0;
    return 1;
}

/* Puts the entry for these sizes first and returns it, NULL if there is none. */
static entry *look_up(node *n, const winogen_array *inputs)
{
    for (entry **at = &n->entries; *at; at = &(*at)->next)
        if (same_sizes((*at)->arrays, inputs, n->inputs)) {
            entry *e = *at;
            *at = e->next;
            e->next = n->entries;
            return n->entries = e;
        }
    return NULL;
}

/* Lets go of sizes that were not met for long. */
static void prune(node *n)
{
    int64_t count = 0;
    for (entry **at = &n->entries; *at;) {
        entry *e = *at;
        if (++count <= SHAPES_KEPT || e->users) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        drop(e);
    }
}
