/* What moves numbers between convolutions; for C and for cffi. */

typedef struct winogen_map {
    int64_t planar;                                     /* whether the layout is NCHW */
    int64_t batch, channels;                            /* channels of the output */
    int64_t height, width, out_height, out_width;
    int64_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
    int64_t step_channel, step_row, step_col;           /* of the input's channels, when spread */
    int64_t in_image, in_row, in_pixel, in_channel;     /* from one to the next, in numbers */
    int64_t out_image, out_row, out_pixel, out_channel;
} winogen_map;

void winogen_pool(const void *call, int64_t first, int64_t last, int threads);
void winogen_repeat(const void *call, int64_t first, int64_t last, int threads);
void winogen_spread(const void *call, int64_t first, int64_t last, int threads);
