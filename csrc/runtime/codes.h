/* What lies between convolutions of codes: sums, windows, tables; for C and for cffi. */

/* Maps are height x width x channels of int8; a real number is scale * (code - zero). */
typedef struct winogen_codes {
    /* Images, and sizes of the map that is read and of the one that is written. */
    int32_t batch, height, width, out_height, out_width;
    /* Channels of both, and of the map that a part of it is written to. */
    int64_t channels, whole;
    /* Taps of a window, steps from one window to the next, and padding. */
    int32_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
    /* Steps from one tap to the next. */
    int32_t dilation_h, dilation_w;
    /* How far apart the channels of a pixel are, before they are spread over blocks of `kernel`. */
    int32_t apart;
    /* Of means: the number of all taps if those of padding count, else 0. */
    int32_t counted;
    /* Tables of a lookup: one for all channels, or one for each. */
    int32_t tables;
    /* The bits that change where int8 becomes uint8, or back; else 0. */
    int32_t flip;
    /* Pixels of a part of what is taken or given. */
    int32_t run;
    /* Zero points of both inputs and of the output, and its least and largest code. */
    int32_t x_zero, z_zero, y_zero, lowest, highest;
    /* What a step of either input is in steps of the output. */
    float x_factor, z_factor;
} winogen_codes;

/* A part of each is a row of outputs, or `run` pixels. The pointers are a struct, the input, the output, and: */
/* Sums of two maps: the other map. */
void winogen_add_codes(const void *call, int64_t phase, int64_t part, int64_t member);
/* The largest code of each window, and the mean of each: nothing. */
void winogen_largest_code(const void *call, int64_t phase, int64_t part, int64_t member);
void winogen_mean_code(const void *call, int64_t phase, int64_t part, int64_t member);
/* Codes of the same numbers at another scale: nothing. */
void winogen_scale_codes(const void *call, int64_t phase, int64_t part, int64_t member);
/* Codes by tables: these, 256 codes in the order of the bytes that are read. */
void winogen_look_up_codes(const void *call, int64_t phase, int64_t part, int64_t member);
/* The same map, as channels of a larger one: nothing. */
void winogen_join_codes(const void *call, int64_t phase, int64_t part, int64_t member);
/* Pixels chosen: the rows and the columns of the input, one for each of the output, int32. */
void winogen_choose_codes(const void *call, int64_t phase, int64_t part, int64_t member);
/* Channels spread over blocks of `kernel` pixels, of which `pad` are cropped: nothing. */
void winogen_spread_codes(const void *call, int64_t phase, int64_t part, int64_t member);
/* A caller's map, whose channels come first, with these last; and back: nothing. */
void winogen_take_codes(const void *call, int64_t phase, int64_t part, int64_t member);
void winogen_give_codes(const void *call, int64_t phase, int64_t part, int64_t member);
/* Sums of int32 as float: the scale of each channel, and what is added to it. */
void winogen_scale_sums(const void *call, int64_t phase, int64_t part, int64_t member);
