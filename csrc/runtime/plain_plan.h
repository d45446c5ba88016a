/* ---- the plain way as a plan -------------------------------------------------------------------
 * A step for each layer. What lies between them has a place of its own in the memory to work in. */

enum { PLAIN_THREADS = 64 };    /* at most, where nobody says how many */

/* Where channel `channel` of an array begins; nowhere for an array that is not there. */
static winogen_place place_of_array(const node *n, const entry *e, int64_t array, int64_t channel)
{
    if (array < 0) return (winogen_place){ 0, 0 };
    const winogen_array *a = &e->arrays[array];
    const int64_t begin = channel ? channel * pixels_of(a) * n->itemsize : 0;
    const int64_t outside = n->inputs + n->outputs;
    if (array < outside) return (winogen_place){ 1 + array, begin };
    return (winogen_place){ 1 + outside, e->plain.offsets[array] + begin };
}

static int64_t image_of(const entry *e, int64_t array)
{
    if (array < 0) return 0;
    return e->arrays[array].shape[1] * pixels_of(&e->arrays[array]);
}

static plain_layer plain_layer_of(const entry *e, const winogen_layer *l)
{
    const winogen_array *x = &e->arrays[l->input], *w = &e->arrays[l->weight];
    const winogen_array *y = &e->arrays[l->output];
#define SIZES(a) { size_along(a, DEPTH), size_along(a, HEIGHT), size_along(a, WIDTH) }
    return (plain_layer){
        .layer = l, .input_image = image_of(e, l->input), .add_image = image_of(e, l->add),
        .add_after_image = image_of(e, l->add_after), .output_image = image_of(e, l->output),
        .batch = x->shape[0], .filters = w->shape[0], .channels = w->shape[1],
        .size = SIZES(x), .kernel = SIZES(w), .out = SIZES(y),
    };
#undef SIZES
}

/* A zero point of uint8 or int8; 0 where there is none. */
static int64_t zero_of(const entry *e, int64_t array, int64_t is_signed)
{
    if (array < 0) return 0;
    const uint8_t byte = *(const uint8_t *)e->arrays[array].constant;
    return is_signed ? (int8_t)byte : byte;
}

static quantized_layer quantized_layer_of(const entry *e, const winogen_layer *l,
                                          const winogen_scales *s)
{
    const winogen_array *x = &e->arrays[l->input], *w = &e->arrays[l->weight];
    const winogen_array *y = &e->arrays[l->output];
#define CONSTANT(i) ((i) < 0 ? NULL : e->arrays[i].constant)
#define COUNT(i) ((i) < 0 ? 1 : numbers_of(&e->arrays[i]))
    const int64_t flip = s->input_signed ? 128 : 0, y_zero = zero_of(e, s->y_zero, s->output_signed);
    const int64_t lowest = s->output_signed ? -128 : 0;
    return (quantized_layer){
        .layer = l, .flip = (uint8_t)flip, .weight = CONSTANT(l->weight),
        .w_zero = CONSTANT(s->w_zero), .bias = CONSTANT(l->bias), .x_scale = CONSTANT(s->x_scale),
        .w_scale = CONSTANT(s->w_scale), .y_scale = CONSTANT(s->y_scale),
        .w_zeros = COUNT(s->w_zero), .w_scales = COUNT(s->w_scale),
        .x_zero = zero_of(e, s->x_zero, s->input_signed) + flip, .y_zero = y_zero,
        .lowest = l->activation == RELU ? y_zero : lowest, .highest = lowest + 255,
        .batch = x->shape[0], .filters = w->shape[0], .channels = w->shape[1],
        .size = { x->shape[2], x->shape[3] }, .kernel = { w->shape[2], w->shape[3] },
        .out = { y->shape[2], y->shape[3] },
    };
#undef CONSTANT
#undef COUNT
}

/* Whether all rows of a plane are one row: of volumes whose planes are no maps of their own. */
static int in_rows(const entry *e, const winogen_layer *l)
{
    return e->arrays[l->input].rank == 5 && !l->planes;
}

/* Without the sizes. The height is the depth where all rows of a plane are one row. */
static winogen_map map_of(const entry *e, const winogen_layer *l)
{
    const int rows = in_rows(e, l), high = rows ? DEPTH : HEIGHT;
    const int64_t planes = l->planes ? size_along(&e->arrays[l->input], DEPTH) : 1;
    return (winogen_map){
        .kind = l->kind, .planar = 1, .channels = l->channels * planes, .planes = planes,
        .kernel_h = l->kernel[high], .kernel_w = rows ? 1 : l->kernel[WIDTH],
        .stride_h = l->stride[high], .stride_w = rows ? 1 : l->stride[WIDTH],
        .pad_top = l->padding[high], .pad_left = rows ? 0 : l->padding[WIDTH],
        .dilation_h = l->dilation[high], .dilation_w = rows ? 1 : l->dilation[WIDTH],
        .groups = l->groups, .relu = l->activation == RELU, .silu = l->activation == SILU,
        .epsilon = l->parameters[0],
    };
}

/* The shape as which a map has an array, four numbers; nothing for an array that is not there. */
static const int64_t *as_map(const entry *e, const winogen_layer *l, int64_t array, int64_t *shape)
{
    if (array < 0) return NULL;
    const winogen_array *a = &e->arrays[array];
    const int64_t deep = size_along(a, DEPTH), high = size_along(a, HEIGHT);
    const int rows = in_rows(e, l);
    shape[0] = a->shape[0];
    shape[1] = l->planes ? a->shape[1] * deep : a->shape[1];
    shape[2] = rows ? deep : high;
    shape[3] = rows ? high * size_along(a, WIDTH) : size_along(a, WIDTH);
    return shape;
}

/* The plan of an entry, of plain steps; 0: out of memory. */
static int plan_plainly(const node *n, entry *e)
{
    plain_plan *p = &e->plain;
    p->offsets = calloc((size_t)n->array_count, sizeof *p->offsets);
    p->structs = calloc((size_t)n->layer_count, sizeof *p->structs);
    p->steps = calloc((size_t)n->layer_count, sizeof *p->steps);
    if (!p->offsets || !p->structs || !p->steps) return 0;
    for (int64_t i = n->inputs + n->outputs; i < n->array_count; i++) {
        p->offsets[i] = e->plan.scratch_bytes;
        e->plan.scratch_bytes += (numbers_of(&e->arrays[i]) * n->itemsize + LINE - 1) / LINE * LINE;
    }
    for (int64_t i = 0; i < n->layer_count; i++) {
        const winogen_layer *l = &e->layers[i];
        winogen_step *s = &p->steps[i];
#define PLACE(name) place_of_array(n, e, l->name, l->name##_channel)
#define WHOLE(name) place_of_array(n, e, l->name, 0)
        s->threads = n->threads ? n->threads : PLAIN_THREADS;
        s->pointers[LAYER].offset = (int64_t)(intptr_t)&p->structs[i];
        s->pointers[INPUT] = PLACE(input);
        if (l->kind) {
            winogen_map *m = &p->structs[i].map;
            int64_t in[4], other[4], out[4];
            *m = map_of(e, l);
            s->parts = s->last =
                winogen_lay_map(m, as_map(e, l, l->input, in), as_map(e, l, l->add, other),
                                as_map(e, l, l->output, out));
            s->part = n->itemsize == 4 ? winogen_map_part_float : winogen_map_part_double;
            s->pointers[2] = PLACE(output);
            const int joins = l->kind == SUM || l->kind == PRODUCT;
            s->pointers[3] = joins ? PLACE(add) : WHOLE(weight);
            s->pointers[4] = WHOLE(bias);
            if (!joins) s->pointers[5] = PLACE(add);
            continue;
        }
        s->parts = s->last = e->arrays[l->input].shape[0] * e->arrays[l->weight].shape[0];
        if (n->scales) {
            p->structs[i].bytes = quantized_layer_of(e, l, n->scales);
            s->part = plain_part_quantized;
            s->pointers[QUANTIZED_OUTPUT] = PLACE(output);
            continue;
        }
        p->structs[i].real = plain_layer_of(e, l);
        s->part = n->itemsize == 4 ? plain_part_float : plain_part_double;
        s->pointers[WEIGHT] = WHOLE(weight);
        s->pointers[BIAS] = WHOLE(bias);
        s->pointers[SLOPES] = WHOLE(slopes);
        s->pointers[ADDED] = PLACE(add);
        s->pointers[ADDED_AFTER] = PLACE(add_after);
        s->pointers[OUTPUT] = PLACE(output);
#undef PLACE
#undef WHOLE
    }
    e->plan.count = n->layer_count;
    e->plan.steps = p->steps;
    return 1;
}
