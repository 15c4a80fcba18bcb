/*
 * tensor.h - dtypes, shapes and the tensor handle.
 *
 * Tensors are counted references.  Those a caller makes here are the caller's,
 * until ig_tensor_release().  Those that ops make belong to the innermost scope
 * (context.h); ig_tensor_retain() keeps one for longer.
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

/* Outermost dimension first, as it is written: {2, {rows, columns}}.  {0} is that of a scalar. */
typedef struct ig_shape {
    int32_t rank;
    int64_t dim[IG_MAX_RANK];
} ig_shape;

/* What a tensor is, without where it lies: all that shape rules and planning look at. */
typedef struct ig_desc {
    ig_dtype dtype;
    ig_shape shape;
} ig_desc;

/* The same keys on every device. */
typedef struct ig_memory_stats {
    uint64_t allocated_bytes, peak_bytes;
    uint64_t available_bytes; /* UINT64_MAX: the device does not tell */
} ig_memory_stats;

/* IG_SHAPE(rows, columns): a shape by value, in the words of either language. */
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

/* Rank and extents are in range, and the elements fit an int64_t.  Ask of shapes from outside. */
IG_API bool ig_shape_valid(ig_shape shape);
IG_API int64_t ig_shape_count(ig_shape shape); /* of a valid shape */
IG_API bool ig_shape_equal(ig_shape a, ig_shape b);

/* Writes "[4,3]" into `out`, which has IG_SHAPE_TEXT_BYTES, and returns it. */
IG_API const char *ig_shape_text(ig_shape shape, char *out);
IG_API const char *ig_dtype_name(ig_dtype dtype); /* "unknown" for a number that is none */
IG_API bool ig_dtype_find(const char *name, ig_dtype *out);

/* What the elements take, packed; false: the shape is not valid or the product overflows. */
IG_API bool ig_desc_bytes(ig_desc desc, uint64_t *out);

/* Makes a tensor of zeros; the caller owns the reference. */
IG_API IG_MUST_CHECK ig_status ig_tensor_create(ig_ctx *ctx, ig_desc desc, ig_tensor **out);

/* Makes a tensor with a copy of `src`, packed, which must have the desc's bytes. */
IG_API IG_MUST_CHECK ig_status ig_tensor_create_from(ig_ctx *ctx, ig_desc desc, const void *src,
                                                     ig_tensor **out);

/*
 * Wraps memory that someone else owns as a tensor.  `stride` is in elements, one
 * for each dimension and none negative; NULL: packed.  The owner may write to
 * the memory between steps, and what is computed next sees it.  `release(owner)`
 * runs when the last reference goes; until then the memory must stay where it
 * is.  A NULL `release` is not called.
 */
IG_API IG_MUST_CHECK ig_status ig_tensor_wrap(ig_ctx *ctx, ig_desc desc, const int64_t *stride,
                                              void *bytes, void (*release)(void *owner),
                                              void *owner, ig_tensor **out);

/* Lets a tensor of the caller's, packed, lie in such memory from now on: that of a mapped file,
 * say. What it lay in is given back.  If this fails, the owner keeps the memory. */
IG_API IG_MUST_CHECK ig_status ig_tensor_adopt(ig_tensor *tensor, void *bytes,
                                               void (*release)(void *owner), void *owner);

/* Its numbers do not change any more: whoever writes to it fails.  What is recorded from then on
 * may keep them in a form of its own, as a device that lays weights out its way does. */
IG_API IG_MUST_CHECK ig_status ig_tensor_freeze(ig_tensor *tensor);

/* One more reference, which the caller owns and gives back with release(). */
IG_API ig_tensor *ig_tensor_retain(ig_tensor *tensor);
IG_API void ig_tensor_release(ig_tensor *tensor); /* NULL is allowed, as in every release */

IG_API ig_desc ig_tensor_desc(const ig_tensor *tensor); /* of a failed op: {IG_F32, a scalar} */
IG_API ig_ctx *ig_tensor_ctx(const ig_tensor *tensor);  /* lent */

/* Copies the whole tensor out, packed; waits for whatever still has to be computed. */
IG_API IG_MUST_CHECK ig_status ig_tensor_read(ig_tensor *tensor, void *dst, size_t dst_bytes);
IG_API IG_MUST_CHECK ig_status ig_tensor_item(ig_tensor *tensor, double *out); /* of one element */

/* Overwrites the whole tensor.  Not for results of ops. */
IG_API IG_MUST_CHECK ig_status ig_tensor_write(ig_tensor *tensor, const void *src,
                                               size_t src_bytes);

/* The same with numbers of another float type, which are converted: F32, F64, F16 and BF16. */
IG_API IG_MUST_CHECK ig_status ig_tensor_read_as(ig_tensor *tensor, ig_dtype dtype, void *dst,
                                                 size_t dst_bytes);
IG_API IG_MUST_CHECK ig_status ig_tensor_write_as(ig_tensor *tensor, ig_dtype dtype,
                                                  const void *src, size_t src_bytes);

/* Overwrites with numbers drawn from the context's seed: the n-th such call of a context always
 * draws the same.  For F32 and F64. */
IG_API IG_MUST_CHECK ig_status ig_tensor_fill_uniform(ig_tensor *tensor, double low, double high);
IG_API IG_MUST_CHECK ig_status ig_tensor_fill_normal(ig_tensor *tensor, double mean, double std);

/* Between these, the two above count but draw nothing: for layers whose weights a file brings.
 * Pairs nest. */
IG_API void ig_no_draw_begin(ig_ctx *ctx);
IG_API void ig_no_draw_end(ig_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
