/* What lies between convolutions: pools, sums and products, numbers moved; for C and for cffi. */

typedef struct winogen_map {
    /* What it does, one of `winogen_map_kinds`. */
    int64_t kind;
    /* Whether the layout is NCHW. */
    int64_t planar;
    /* Channels that it reads. */
    int64_t channels;
    /* Planes of a channel, in volumes. */
    int64_t planes;
    /* Size of windows; else factors. */
    int64_t kernel_h, kernel_w;
    /* Steps between windows and padding; else what is cropped. */
    int64_t stride_h, stride_w, pad_top, pad_left;
    /* Steps between taps. */
    int64_t dilation_h, dilation_w;
    /* Groups of channels. */
    int64_t groups;
    /* Whether ReLU follows, of POINT and norms, or SiLU. */
    int64_t relu, silu;
    /* What norms add to the variance. */
    double epsilon;
    /* What winogen_lay_map fills in begins here: sizes of the input, then of the output. */
    int64_t batch, height, width, out_channels, out_height, out_width;
    /* Steps between the input's channels when they are spread. */
    int64_t step_channel, step_row, step_col;
    /* Numbers of the input from one to the next. */
    int64_t in_image, in_row, in_pixel, in_channel;
    /* The same of the other operand, 0 where it is repeated. */
    int64_t other_image, other_row, other_pixel, other_channel;
    /* The same of the output. */
    int64_t out_image, out_row, out_pixel, out_channel;
} winogen_map;

/* The largest number of every window; pixels repeated; channels spread over pixels, from channels
 * (c, i, j) or (i, j, c); the mean of every window, of the numbers that are there or of padding,
 * too; the mean of each channel; relu(scale * x + shift) of every number; the sum and the product
 * of two maps; channels (g, c) as (c, g); group norm; layer norm over all channels of a pixel;
 * softmax over them. Models in files have these numbers: new ones come last. */
enum winogen_map_kinds {
    MAX_POOL = 1, REPEAT, SPREAD_CHANNELS, SPREAD_PIXELS, AVERAGE_POOL, AVERAGE_POOL_COUNTED,
    GLOBAL_AVERAGE, POINT, SUM, PRODUCT, SHUFFLE, GROUP_NORM, LAYER_NORM, SOFTMAX,
    MAP_KINDS
};

/* Fills in a map between channels of arrays of these shapes, (N, C, H, W); returns its parts.
 * `other` is that of the second operand, of one pixel if it is repeated; NULL without one. */
int64_t winogen_lay_map(winogen_map *map, const int64_t *in, const int64_t *other,
                        const int64_t *out);

/* One part: the pointers are a map, the input, the output, then the other operand, or the scale and
 * the shift of each channel, NULL for 1 and 0. Of GROUP_NORM a map follows that is added first, of
 * one pixel, or NULL. */
void winogen_map_part_float(const void *call, int64_t phase, int64_t part, int64_t member);
void winogen_map_part_double(const void *call, int64_t phase, int64_t part, int64_t member);
