/* Of ggml's own ggml.h (MIT, Copyright (c) 2023-2026 The ggml authors, version 0.15), what a
 * generated node uses, so that nodes compile where ggml is not installed. */
#ifndef GGML_EXCERPT_H
#define GGML_EXCERPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define GGML_NORETURN [[noreturn]]
extern "C" {
#else
#define GGML_NORETURN _Noreturn
#endif

#define GGML_ASSERT(x) if (!(x)) ggml_abort(__FILE__, __LINE__, "GGML_ASSERT(%s) failed", #x)

enum ggml_type { GGML_TYPE_F32 = 0, GGML_TYPE_F16 = 1, GGML_TYPE_I8 = 24, GGML_TYPE_BF16 = 30 };
enum ggml_op { GGML_OP_NONE = 0 };

struct ggml_context;
struct ggml_backend_buffer;

struct ggml_tensor {
    enum ggml_type type;
    struct ggml_backend_buffer *buffer;
    int64_t ne[4];
    size_t nb[4];
    enum ggml_op op;
    int32_t op_params[16];
    int32_t flags;
    struct ggml_tensor *src[10];
    struct ggml_tensor *view_src;
    size_t view_offs;
    void *data;
    char name[64];
    void *extra;
    char padding[8];
};

typedef void (*ggml_to_float_t)(const void *x, float *y, int64_t k);
struct ggml_type_traits {
    const char *type_name;
    int64_t blck_size;
    int64_t blck_size_interleave;
    size_t type_size;
    bool is_quantized;
    ggml_to_float_t to_float;
};
typedef void (*ggml_custom_op_t)(struct ggml_tensor *dst, int ith, int nth, void *userdata);

GGML_NORETURN void ggml_abort(const char *file, int line, const char *fmt, ...);
int64_t ggml_nelements(const struct ggml_tensor *tensor);
size_t ggml_nbytes(const struct ggml_tensor *tensor);
bool ggml_is_contiguous(const struct ggml_tensor *tensor);
const struct ggml_type_traits *ggml_get_type_traits(enum ggml_type type);
struct ggml_tensor *ggml_new_tensor_1d(struct ggml_context *ctx, enum ggml_type type, int64_t ne0);
struct ggml_tensor *ggml_cont(struct ggml_context *ctx, struct ggml_tensor *a);
struct ggml_tensor *ggml_custom_4d(
    struct ggml_context *ctx, enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2,
    int64_t ne3, struct ggml_tensor **args, int n_args, ggml_custom_op_t fun, int n_tasks,
    void *userdata);

#ifdef __cplusplus
}
#endif

#endif
