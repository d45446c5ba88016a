/* ---- nodes of codes ----------------------------------------------------------------------------
 * A run of quantized layers: what is to be computed says its original, which the planner reads, too.
 * Images are computed each alone. `sizes` has those of all inputs and outputs: how many axes each
 * has, and what follows the batch. */

/* The sizes of an array from its numbers in `sizes`, which move on. */
static winogen_array sized_array(const int64_t **sizes, int64_t batch)
{
    winogen_array array = { .rank = *(*sizes)++, .shape = { batch } };
    for (int64_t axis = 1; axis < array.rank; axis++) array.shape[axis] = *(*sizes)++;
    return array;
}

/* Those of the outputs from those of the inputs; whether these are as the node says. */
static int code_shapes(const node *n, winogen_array *arrays, char *message)
{
    const int64_t *sizes = n->sizes, batch = arrays->rank ? arrays->shape[0] : 0;
    for (int64_t i = 0; i < n->inputs + n->outputs; i++) {
        const winogen_array wanted = sized_array(&sizes, batch);
        if (i >= n->inputs) {
            arrays[i] = wanted;
        } else if (!same_sizes(&arrays[i], &wanted, 1)) {
            char got[SIZES_BYTES], allowed[SIZES_BYTES];
            return refuse(message, "input: got sizes %s; allowed: %s",
                          listed(&arrays[i], "x", got), listed(&wanted, "x", allowed));
        }
    }
    return 1;
}

static OrtStatus *read_codes(node *n, const OrtKernelInfo *info)
{
    size_t count;
    n->itemsize = 1;
    n->array_count = n->inputs + n->outputs;
    TRY(read_list(n, info, "sizes", &n->sizes, &count));
    TRY(unless_absent(n->api, n->api->GetAttribute_int64(info, "open", &n->open)));
    int64_t arrays = 0;
    size_t at = 0;
    for (; at < count && n->sizes[at] >= 1 && n->sizes[at] <= 5; arrays++) at += (size_t)n->sizes[at];
    if (n->original.model && at == count && arrays == n->array_count) return NULL;
    return failure(n, ORT_INVALID_ARGUMENT,
                   "original, sizes: got none, or lists of wrong lengths; allowed: what `winogen "
                   "onnx optimize` of the same version writes");
}
