/* What the operators ask the planner in Python, and what it answers: steps, see steps.h. No arrays are
 * copied: all that the two exchange are sizes and addresses. */

enum { NOWHERE = -1 };    /* the number of an array that is not there */

enum { DEPTH, HEIGHT, WIDTH, AXES };    /* maps have no depth: one plane, one tap */

/* An array of a node: its inputs, then its outputs, then what lies between its layers. */
typedef struct winogen_array {
    int64_t rank, shape[5];    /* How many axes it has, and their sizes: N, C, H, W or N, C, D,
                                * H, W. */
    const void *constant;      /* The numbers, if all calls have the same; else NULL. */
} winogen_array;

/* One convolution of a node, y = activation(conv + bias + add) + add_after, or a map of `channels`
 * channels, see maps.h. Arrays are meant by their number, -1 where there is none; those with a
 * `_channel` begin at that channel. */
typedef struct winogen_layer {
    /* One of winogen_map_kinds; 0: a convolution. */
    int64_t kind;
    /* Whether each plane of a volume is a map; else all rows of one are. */
    int64_t planes;
    /* Channels and kernel of a map, along DEPTH, HEIGHT and WIDTH, as all that follows. */
    int64_t channels, kernel[3];
    /* The arrays that it reads, and the one that it writes. */
    int64_t input, weight, bias, slopes, add, add_after, output;
    /* The channel that each of them begins at. */
    int64_t input_channel, add_channel, add_after_channel, output_channel;
    /* From one window to the next, and from one tap. */
    int64_t stride[3], dilation[3];
    /* Padding in front, on top, on the left, behind, at the bottom and on the right. */
    int64_t padding[6];
    /* Groups of channels, the mode of padding and the number of the activation. */
    int64_t groups, padding_mode, activation;
    /* Parameters of the activation. */
    double parameters[2];
    /* The largest error that it may have; 0: the node's. */
    double tolerance;
} winogen_layer;

/* What a quantized convolution has besides, as ONNX's QLinearConv: arrays by their numbers, -1 where
 * there is none. Without scales its output are the sums, int32. All but the input are constants. */
typedef struct winogen_scales {
    /* Arrays of scales and zero points. */
    int64_t x_scale, x_zero, w_scale, w_zero, y_scale, y_zero;
    /* Whether they are int8; else they are uint8. */
    int64_t input_signed, output_signed;
} winogen_scales;

typedef struct winogen_question {
    int64_t node;                               /* The number of the node in this process. */
    const char *name;                           /* What the session calls it. */
    int64_t itemsize;                           /* Bytes of the input's numbers: 4 or 8; 1: it is
                                                 * quantized. */
    int64_t threads;                            /* Threads that onnxruntime lends. */
    int64_t waits;                              /* Whether nothing else computes the node
                                                 * meanwhile. */
    double tolerance;                           /* The largest error that it may have; 0: the
                                                 * planner's own. */
    double most_error;                          /* The largest error that a layer may be
                                                 * predicted, where there is a way; 0: any. */
    int64_t layers, inputs, outputs, arrays;    /* How many layers, inputs, outputs and arrays
                                                 * there are. */
    const winogen_layer *layer;                 /* The layers. */
    const winogen_array *array;                 /* The arrays. */
    const winogen_scales *scales;               /* Scales of the only layer, if it is quantized;
                                                 * else NULL. */
    const char *codes;                          /* The model of a node of codes, which has no
                                                 * layers; else NULL. */
    int64_t code_bytes;                         /* How many bytes that has. */
} winogen_question;

/* The slots of its steps are 0, the node's inputs, its outputs, and memory to work in. */
typedef struct winogen_plan {
    int64_t count;                /* How many steps there are. */
    const winogen_step *steps;    /* The steps. */
    int64_t scratch_bytes;        /* Bytes of memory to work in. */
    int64_t handle;               /* What to give back when the plan is done with; 0: nothing. It
                                   * stays where the planner is asked again. */
} winogen_plan;

/* UNKNOWN: there is no plan for these sizes. FAILED: why stands in `message`, of `size` bytes.
 * LATER: the plan is being made; only where nobody `waits`. */
enum { PLANNED = 0, FAILED = 1, UNKNOWN = 2, LATER = 3 };
typedef int (*winogen_planner)(const winogen_question *question, winogen_plan *plan, char *message,
                               int64_t size);
typedef void (*winogen_release)(int64_t handle);
