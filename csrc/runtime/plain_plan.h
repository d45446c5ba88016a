/* ---- the plain way as a plan -------------------------------------------------------------------
 * A step for each layer. What lies between them has a place of its own in the memory to work in. */

enum { PLAIN_THREADS = 64 };    /* at most, where nobody says how many */

/* Where channel `channel` of an array begins; nowhere for an array that is not there. */
static winogen_place place_of_array(const node *n, const entry *e, int64_t array, int64_t channel)
{
    if (array < 0) return (winogen_place){ 0, 0 };
    const winogen_array *a = &e->arrays[array];
    const int64_t begin = channel ? channel * a->shape[2] * a->shape[3] * n->itemsize : 0;
    const int64_t outside = n->inputs + n->outputs;
    if (array < outside) return (winogen_place){ 1 + array, begin };
    return (winogen_place){ 1 + outside, e->plain.offsets[array] + begin };
}

static int64_t image_of(const entry *e, int64_t array)
{
    if (array < 0) return 0;
    const int64_t *shape = e->arrays[array].shape;
    return shape[1] * shape[2] * shape[3];
}

static plain_layer plain_layer_of(const entry *e, const winogen_layer *l)
{
    const winogen_array *x = &e->arrays[l->input], *w = &e->arrays[l->weight];
    const winogen_array *y = &e->arrays[l->output];
    return (plain_layer){
        .layer = l, .input_image = image_of(e, l->input), .add_image = image_of(e, l->add),
        .add_after_image = image_of(e, l->add_after), .output_image = image_of(e, l->output),
        .batch = x->shape[0], .filters = w->shape[0], .channels = w->shape[1],
        .size = { x->shape[2], x->shape[3] }, .kernel = { w->shape[2], w->shape[3] },
        .out = { y->shape[2], y->shape[3] },
    };
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

static winogen_map map_of(const winogen_layer *l)
{
    return (winogen_map){
        .kind = l->kind, .planar = 1, .channels = l->channels, .kernel_h = l->kernel[0],
        .kernel_w = l->kernel[1], .stride_h = l->stride[0], .stride_w = l->stride[1],
        .pad_top = l->padding[0], .pad_left = l->padding[1], .dilation_h = l->dilation[0],
        .dilation_w = l->dilation[1], .groups = l->groups, .relu = l->activation == RELU,
        .silu = l->activation == SILU, .epsilon = l->parameters[0],
    };
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
            *m = map_of(l);
            s->parts = s->last =
                winogen_lay_map(m, e->arrays[l->input].shape,
                                l->add < 0 ? NULL : e->arrays[l->add].shape,
                                e->arrays[l->output].shape);
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
