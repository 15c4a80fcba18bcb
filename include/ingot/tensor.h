/*
 * tensor.h - dtypes, shapes and the tensor handle.
 *
 * Tensors are reference-counted.  The caller owns the tensors it creates here, until
 * ig_tensor_release().  The innermost scope (context.h) owns the results of ops;
 * ig_tensor_retain() keeps one for longer.
 */
#ifndef INGOT_TENSOR_H
#define INGOT_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ingot/status.h"

typedef struct ig_ctx ig_ctx;
typedef struct ig_tensor ig_tensor;

typedef enum ig_dtype {
#define IG_DTYPE(ID, name, block, bytes) IG_##ID,
#include "ingot/dtype.def"
    IG_DTYPE_COUNT
} ig_dtype;

enum { IG_MAX_RANK = 6, IG_SHAPE_TEXT_BYTES = 128 };

/* Outermost dimension first: {2, {rows, columns}}.  {0} is a scalar. */
typedef struct ig_shape {
    int32_t rank;
    int64_t dim[IG_MAX_RANK];
} ig_shape;

/* Dtype and shape of a tensor: the input of shape rules and planning. */
typedef struct ig_desc {
    ig_dtype dtype;
    ig_shape shape;
} ig_desc;

/* The same keys on every device. */
typedef struct ig_memory_stats {
    uint64_t allocated_bytes, peak_bytes;
    uint64_t available_bytes; /* UINT64_MAX: unknown */
} ig_memory_stats;

/* IG_SHAPE(rows, columns): a shape by value, in C and C++. */
#ifdef __cplusplus
extern "C++" template <typename... Dims> constexpr ig_shape ig_shape_of(Dims... dims) {
    return {int32_t(sizeof...(dims)), {int64_t(dims)...}};
}
#    define IG_SHAPE(...) ig_shape_of(__VA_ARGS__)
#else
#    define IG_SHAPE(...) \
        ((ig_shape){(int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Rank and extents are in range and the element count fits an int64_t.  For untrusted shapes. */
IG_API bool ig_shape_valid(ig_shape shape);
IG_API int64_t ig_shape_count(ig_shape shape); /* of a valid shape */
IG_API bool ig_shape_equal(ig_shape a, ig_shape b);

/* Writes "[4,3]" into `out`, which has IG_SHAPE_TEXT_BYTES, and returns it. */
IG_API const char *ig_shape_text(ig_shape shape, char *out);
IG_API const char *ig_dtype_name(ig_dtype dtype); /* "unknown" for an invalid number */
IG_API bool ig_dtype_find(const char *name, ig_dtype *out);

/* The contiguous size; false: the shape is invalid or the size overflows. */
IG_API bool ig_desc_bytes(ig_desc desc, uint64_t *out);

/* Creates a zeroed tensor; the caller owns the reference. */
IG_API IG_MUST_CHECK ig_status ig_tensor_create(ig_ctx *ctx, ig_desc desc, ig_tensor **out);

/* Creates a tensor with a copy of `src`, which is contiguous and has the desc's size. */
IG_API IG_MUST_CHECK ig_status ig_tensor_create_from(ig_ctx *ctx, ig_desc desc, const void *src,
                                                     ig_tensor **out);

/*
 * Wraps external memory as a tensor.  `stride` is in elements, one per dimension,
 * none negative; NULL: contiguous.  The owner may write to the memory between steps;
 * later ops see the change.  The last release of the tensor calls `release(owner)`
 * (NULL: no callback); until then the memory must stay where it is.
 */
IG_API IG_MUST_CHECK ig_status ig_tensor_wrap(ig_ctx *ctx, ig_desc desc, const int64_t *stride,
                                              void *bytes, void (*release)(void *owner),
                                              void *owner, ig_tensor **out);

/* Moves a contiguous tensor that the caller created to external memory, such as a mapped file, and
 * frees its own.  On failure the owner keeps the memory. */
IG_API IG_MUST_CHECK ig_status ig_tensor_adopt(ig_tensor *tensor, void *bytes,
                                               void (*release)(void *owner), void *owner);

/* Makes the tensor constant: later writes fail.  Recordings made after this may keep it in another
 * layout, such as a device's packed weights. */
IG_API IG_MUST_CHECK ig_status ig_tensor_freeze(ig_tensor *tensor);

/* Adds a reference, which the caller owns and releases. */
IG_API ig_tensor *ig_tensor_retain(ig_tensor *tensor);
IG_API void ig_tensor_release(ig_tensor *tensor); /* NULL is a no-op, as in every release */

IG_API ig_desc ig_tensor_desc(const ig_tensor *tensor); /* of a poisoned tensor: an F32 scalar */
IG_API ig_ctx *ig_tensor_ctx(const ig_tensor *tensor);  /* borrowed */

/* Copies the tensor to `dst`, contiguous; waits for pending ops. */
IG_API IG_MUST_CHECK ig_status ig_tensor_read(ig_tensor *tensor, void *dst, size_t dst_bytes);
IG_API IG_MUST_CHECK ig_status ig_tensor_item(ig_tensor *tensor,
                                              double *out); /* of a one-element tensor */

/* Overwrites the tensor, which must not be the result of an op. */
IG_API IG_MUST_CHECK ig_status ig_tensor_write(ig_tensor *tensor, const void *src,
                                               size_t src_bytes);

/* The same, converting from or to another float dtype: F32, F64, F16 and BF16. */
IG_API IG_MUST_CHECK ig_status ig_tensor_read_as(ig_tensor *tensor, ig_dtype dtype, void *dst,
                                                 size_t dst_bytes);
IG_API IG_MUST_CHECK ig_status ig_tensor_write_as(ig_tensor *tensor, ig_dtype dtype,
                                                  const void *src, size_t src_bytes);

/* Fills with random numbers from the context's seed: the n-th such call of a context always yields
 * the same values.  F32 and F64 only. */
IG_API IG_MUST_CHECK ig_status ig_tensor_fill_uniform(ig_tensor *tensor, double low, double high);
IG_API IG_MUST_CHECK ig_status ig_tensor_fill_normal(ig_tensor *tensor, double mean, double std);

/* Between these, the two calls above advance their count without filling: for layers whose weights
 * are loaded from a file.  Pairs nest. */
IG_API void ig_no_init_begin(ig_ctx *ctx);
IG_API void ig_no_init_end(ig_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
