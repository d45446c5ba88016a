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

/* Integers of at least `least` for height and width, or for the depth, too, `sides` times; or none.
 * All attributes say the same of how many axes there are. */
static OrtStatus *read_axes(node *n, const OrtKernelInfo *info, const char *name, size_t sides,
                            int64_t least, int64_t *values)
{
    int64_t numbers[8];
    size_t size = 8;
    OrtStatus *status = n->api->GetAttributes_int64(info, name, numbers, &size);
    if (status) return unless_absent(n->api, status);
    char message[MESSAGE_BYTES];
    const size_t axes = size / sides;
    if (size % sides || (axes != 2 && axes != 3) || (n->rank && n->rank != (int64_t)axes + 2)) {
        if (n->rank)
            snprintf(message, sizeof message, "%s: got %zu numbers; allowed: %zu", name, size,
                     sides * (size_t)(n->rank - 2));
        else
            snprintf(message, sizeof message, "%s: got %zu numbers; allowed: %zu, or %zu of volumes",
                     name, size, 2 * sides, 3 * sides);
        return failure(n, ORT_INVALID_ARGUMENT, message);
    }
    n->rank = (int64_t)axes + 2;
    for (size_t i = 0; i < size; i++) {
        snprintf(message, sizeof message, "%s: got %lld; allowed: at least %lld", name,
                 (long long)numbers[i], (long long)least);
        if (numbers[i] < least) return failure(n, ORT_INVALID_ARGUMENT, message);
        values[i / axes * AXES + AXES - axes + i % axes] = numbers[i];
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

/* The text of an attribute, in memory of the caller's; `size` with the 0 at its end. */
static OrtStatus *read_text(const node *n, const OrtKernelInfo *info, const char *name, char **text,
                            size_t *size)
{
    *size = 0;
    TRY(unless_absent(n->api, n->api->GetAttribute_string(info, name, NULL, size)));
    *text = calloc(*size + 1, 1);
    if (!*text) return failure(n, ORT_FAIL, "out of memory");
    return *size ? n->api->GetAttribute_string(info, name, *text, size) : NULL;
}

/* What onnxruntime runs where there is no plan. */
static OrtStatus *read_original(node *n, const OrtKernelInfo *info)
{
    original *o = &n->original;
    TRY(read_list(n, info, "original_reads", &o->reads, &o->read_count));
    TRY(read_list(n, info, "original_holds", &o->holds, &o->held_count));
    size_t size;
    TRY(read_text(n, info, "original", &o->model, &size));
    if (!size) return NULL;
    o->bytes = size - 1;
    for (size_t i = 0; i < o->read_count + o->held_count; i++) {
        const int held = i >= o->read_count;
        const int64_t input = held ? o->holds[i - o->read_count] : o->reads[i];
        if (input < 0 || input >= n->inputs || (held && !n->constants[input].constant)) {
            return failure(n, ORT_INVALID_ARGUMENT,
                           "original_reads, original_holds: got inputs that the node has not; "
                           "allowed: what `winogen onnx optimize` of the same version writes");
        }
    }
    return NULL;
}
