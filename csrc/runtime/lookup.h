/* ---- Lookup ------------------------------------------------------------------------------------
 * Y = table[X], byte by byte: any function of one quantized number. The table has the 256 outputs in
 * the order of the inputs' bytes, or as many for each channel. */

enum { CODES = 256, LOOKUP_RUN = 1 << 16 };    /* numbers of a part, where channels do not matter */

typedef struct lookup_call {
    const uint8_t *input, *table;    /* The input, and the table. */
    uint8_t *output;                 /* The output. */
    int64_t run, total, tables;      /* Numbers of a run, numbers in all, and tables. */
} lookup_call;

static void lookup_part(const void *call, int64_t phase, int64_t part, int64_t member)
{
    const lookup_call *c = call;
    (void)phase, (void)member;
    const int64_t begin = part * c->run, rest = c->total - begin;
    const int64_t count = rest < c->run ? rest : c->run;
    const uint8_t *table = c->table + part % c->tables * CODES, *from = c->input + begin;
    uint8_t *to = c->output + begin;
    for (int64_t i = 0; i < count; i++) to[i] = table[from[i]];
}

static OrtStatus *read_lookup(node *n, const OrtKernelInfo *info)
{
    (void)info;
    const winogen_array *table = &n->constants[1];
    if (table->constant && table->rank == 2 && table->shape[0] > 0 && table->shape[1] == CODES)
        return NULL;
    return failure(n, ORT_INVALID_ARGUMENT,
                   "table: got another; allowed: a constant of (1, 256) or (C, 256) numbers");
}

static OrtStatus *compute_lookup(void *data, OrtKernelContext *context)
{
    const node *n = data;
    const OrtApi *api = n->api;
    const OrtValue *input;
    OrtValue *output;
    void *from, *to;
    winogen_array x;
    TRY(api->GetInput(context, 0, &input));
    TRY(read_shape(api, input, &x));
    const int64_t tables = n->constants[1].shape[0];
    if (x.rank > 5 || (tables > 1 && (x.rank < 2 || x.shape[1] != tables)))
        return failure(n, ORT_INVALID_ARGUMENT,
                       "X: got other sizes; allowed: up to 5 axes, as many channels as tables");
    TRY(api->GetOutput(context, 0, x.shape, (size_t)x.rank, &output));
    TRY(api->GetTensorMutableData((OrtValue *)input, &from));
    TRY(api->GetTensorMutableData(output, &to));
    lookup_call call = {
        .input = from, .output = to, .table = n->constants[1].constant, .run = LOOKUP_RUN,
        .total = numbers_of(&x), .tables = tables,
    };
    if (!call.total) return NULL;
    if (tables > 1) call.run = call.total / x.shape[0] / tables;
    team_work work = {
        .part = lookup_part, .call = &call, .parts = (call.total + call.run - 1) / call.run,
    };
    return run_phase(api, context, &work, n->threads ? n->threads : PLAIN_THREADS);
}
