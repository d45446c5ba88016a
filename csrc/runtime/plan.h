/* What the operators ask the planner in Python, and what it answers: steps, see steps.h. No arrays are
 * copied: all that the two exchange are sizes and addresses. */

enum { NOWHERE = -1 };    /* the number of an array that is not there */

enum { DEPTH, HEIGHT, WIDTH, AXES };    /* maps have no depth: one plane, one tap */

/* An array of a node: its inputs, then its outputs, then what lies between its layers. */
typedef struct winogen_array {
    int64_t rank, shape[5];     /* sizes of the first `rank` axes: N, C, H, W; N, C, D, H, W */
    const void *constant;       /* the numbers, if they are the same for all calls; else NULL */
} winogen_array;

/* One convolution of a node, y = activation(conv + bias + add) + add_after, or a map of `channels`
 * channels, see maps.h. Arrays are meant by their number, -1 where there is none; those with a
 * `_channel` begin at that channel. */
typedef struct winogen_layer {
    int64_t kind;               /* of winogen_map_kinds; 0: a convolution */
    int64_t planes;             /* of volumes: whether each plane is a map; else all rows of one */
    int64_t channels, kernel[3];    /* of a map; along DEPTH, HEIGHT, WIDTH, as all that follows */
    int64_t input, weight, bias, slopes, add, add_after, output;
    int64_t input_channel, add_channel, add_after_channel, output_channel;
    int64_t stride[3], dilation[3];
    int64_t padding[6];         /* front, top, left, back, bottom, right */
    int64_t groups, padding_mode, activation;
    double parameters[2];       /* of the activation */
} winogen_layer;

/* What a quantized convolution has besides, as ONNX's QLinearConv: arrays by their numbers, -1 where
 * there is none. Without scales its output are the sums, int32. All but the input are constants. */
typedef struct winogen_scales {
    int64_t x_scale, x_zero, w_scale, w_zero, y_scale, y_zero;
    int64_t input_signed, output_signed;    /* whether they are int8; else uint8 */
} winogen_scales;

typedef struct winogen_question {
    int64_t node;               /* its number in this process */
    const char *name;
    int64_t itemsize;           /* of the input's numbers: 4 or 8 bytes; 1: it is quantized */
    int64_t threads;            /* that onnxruntime lends */
    int64_t waits;              /* whether nothing else computes the node meanwhile */
    double tolerance;           /* 0: the planner's own */
    double most_error;          /* predicted, of any layer, where there is a way; 0: any */
    int64_t layers, inputs, outputs, arrays;
    const winogen_layer *layer;
    const winogen_array *array;
    const winogen_scales *scales;    /* of the only layer, if it is quantized; else NULL */
} winogen_question;

/* The slots of its steps are 0, the node's inputs, its outputs, and memory to work in. */
typedef struct winogen_plan {
    int64_t count;
    const winogen_step *steps;
    int64_t scratch_bytes;      /* of that memory */
    int64_t handle;             /* what to give back when the plan is done with; 0: nothing. It
                                 * stays where the planner is asked again */
} winogen_plan;

/* UNKNOWN: there is no plan for these sizes. FAILED: why stands in `message`, of `size` bytes.
 * LATER: the plan is being made; only where nobody `waits`. */
enum { PLANNED = 0, FAILED = 1, UNKNOWN = 2, LATER = 3 };
typedef int (*winogen_planner)(const winogen_question *question, winogen_plan *plan, char *message,
                               int64_t size);
typedef void (*winogen_release)(int64_t handle);
