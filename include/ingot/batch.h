/*
 * batch.h - the production route: buffers made once, kernels dispatched by hand.
 *
 * A dispatch batch is a list of dispatches over tensors that the caller owns.
 * Nothing runs until the flush, which runs all of it as one program with one submit
 * and one wait.  Dispatches keep their order where one accesses bytes that another
 * one writes.  A batch equal to the previous one is recognized and costs no planning
 * and no allocation.
 *
 *     IG_TRY(ig_batch_begin(batch));
 *     IG_TRY(ig_dispatch(batch, "rmsnorm", &norm, (ig_tensor *[]){x, w}, 2, &y, 1));
 *     IG_TRY(ig_dispatch(batch, "matmul", &transposed, (ig_tensor *[]){y, up}, 2, &h, 1));
 *     IG_TRY(ig_batch_flush(batch));
 *
 * There is no tape: gradients are dispatches like any other.
 */
#ifndef INGOT_BATCH_H
#define INGOT_BATCH_H

#include "ingot/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_batch ig_batch;

/* The caller owns the batch; the context must outlive it. */
IG_API IG_MUST_CHECK ig_status ig_batch_create(ig_ctx *ctx, ig_batch **out);
IG_API void ig_batch_destroy(ig_batch *batch);

/* The op of a kernel name: that of op.def in any spelling ("rms_norm", "RMSNorm").  The error for
 * an unknown name suggests similar ones. */
IG_API IG_MUST_CHECK ig_status ig_kernel_find(const char *name, ig_op *out);

IG_API IG_MUST_CHECK ig_status ig_batch_begin(ig_batch *batch); /* discards unflushed dispatches */

/*
 * Adds one dispatch.  `attrs` is the op's struct in op.h; NULL: all zero.  The results
 * go to `out`, tensors that the caller created with exactly the dtype and shape of the
 * op's results.  Updates (assign, adamw, ...) write to their inputs and take no
 * outputs.  The tensors must live until the batch is flushed.
 */
IG_API IG_MUST_CHECK ig_status ig_dispatch(ig_batch *batch, const char *kernel, const void *attrs,
                                           ig_tensor *const *in, uint32_t n_in,
                                           ig_tensor *const *out, uint32_t n_out);

/* Plans everything dispatched since begin without running it.  A flush of the same dispatches then
 * allocates no memory, the first one included.  For the Init of a model. */
IG_API IG_MUST_CHECK ig_status ig_batch_prepare(ig_batch *batch);

/* Runs everything dispatched since begin, in order, and waits for it. */
IG_API IG_MUST_CHECK ig_status ig_batch_flush(ig_batch *batch);

/* A zeroed tensor, and a view as ig_tensor_create_view() makes it, for the buffers of a model.  The
 * batch owns them and releases them with itself; other batches may use them. */
IG_API IG_MUST_CHECK ig_status ig_batch_create_tensor(ig_batch *batch, ig_desc desc,
                                                      ig_tensor **out);
IG_API IG_MUST_CHECK ig_status ig_batch_create_view(ig_batch *batch, ig_tensor *of, ig_desc desc,
                                                    const int64_t *stride, int64_t offset,
                                                    ig_tensor **out);

/* A view of a tensor's memory: `offset` and `stride` are in elements; NULL stride: contiguous.  The
 * caller owns the reference; the memory lives until both tensors are released. */
IG_API IG_MUST_CHECK ig_status ig_tensor_create_view(ig_tensor *of, ig_desc desc,
                                                     const int64_t *stride, int64_t offset,
                                                     ig_tensor **out);

/* The tensor's bytes, for reading and writing in place between flushes; NULL: copying them from the
 * device failed. */
IG_API void *ig_tensor_map(ig_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
