/* What moves numbers between convolutions; for C and for cffi. */

typedef struct winogen_map {
    int64_t kind;                                       /* see `winogen_map_kinds` */
    int64_t planar;                                     /* whether the layout is NCHW */
    int64_t channels;                                   /* that it reads */
    int64_t kernel_h, kernel_w;                         /* of windows; else factors */
    int64_t stride_h, stride_w, pad_top, pad_left;      /* of windows */
    /* What winogen_lay_map fills in. */
    int64_t batch, height, width, out_channels, out_height, out_width;
    int64_t step_channel, step_row, step_col;           /* of the input's channels, when spread */
    int64_t in_image, in_row, in_pixel, in_channel;     /* from one to the next, in numbers */
    int64_t out_image, out_row, out_pixel, out_channel;
} winogen_map;

/* The largest number of every window; pixels repeated; channels spread over pixels, from channels
 * (c, i, j) or (i, j, c). */
enum winogen_map_kinds { MAX_POOL = 1, REPEAT, SPREAD_CHANNELS, SPREAD_PIXELS, MAP_KINDS };

/* Fills in a map between channels of arrays of these shapes, (N, C, H, W); returns its parts. */
int64_t winogen_lay_map(winogen_map *map, const int64_t *in, const int64_t *out);

/* One part: the pointers are a map, the input and the output. */
void winogen_map_part_float(const void *call, int64_t phase, int64_t part, int64_t member);
void winogen_map_part_double(const void *call, int64_t phase, int64_t part, int64_t member);
