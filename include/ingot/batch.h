/*
 * batch.h - the production route: buffers made once, kernels dispatched by hand.
 *
 * A batch is a list of dispatches over tensors that the caller owns.  Nothing
 * runs until the flush: then all of it goes as one program, one submit and one
 * wait.  Order among dispatches is kept where it matters: where one touches
 * bytes that another one writes.  A batch that is the same as the last one is
 * recognised and costs no planning and no allocation.
 *
 *     IG_TRY(ig_batch_begin(batch));
 *     IG_TRY(ig_dispatch(batch, "rmsnorm", &norm, (ig_tensor *[]){x, w}, 2, &y, 1));
 *     IG_TRY(ig_dispatch(batch, "matmul", &turned, (ig_tensor *[]){y, up}, 2, &h, 1));
 *     IG_TRY(ig_batch_flush(batch));
 *
 * There is no tape: gradients are dispatches like all others.
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

/* The op that a kernel's name stands for: op.def's, however it is spelled ("rms_norm", "RMSNorm").
 * An unknown one is an error that names those that sound alike. */
IG_API IG_MUST_CHECK ig_status ig_kernel_find(const char *name, ig_op *out);

IG_API IG_MUST_CHECK ig_status ig_batch_begin(ig_batch *batch); /* what was not flushed is gone */

/*
 * Adds one dispatch.  `attrs` is the op's struct in op.h; NULL is all zero.  The
 * results go to `out`, tensors that the caller made, of just the dtype and shape
 * that the op gives.  Updates (assign, adamw, ...) write to their inputs and take
 * no outputs.  The tensors must live until the batch is flushed.
 */
IG_API IG_MUST_CHECK ig_status ig_dispatch(ig_batch *batch, const char *kernel, const void *attrs,
                                           ig_tensor *const *in, uint32_t n_in,
                                           ig_tensor *const *out, uint32_t n_out);

/* Runs all that was dispatched since begin, in order, and waits for it. */
IG_API IG_MUST_CHECK ig_status ig_batch_flush(ig_batch *batch);

/* Another look at the bytes of a tensor: `offset` and `stride` are in elements; a NULL stride is
 * packed.  The caller owns the reference; the bytes stay until both have gone. */
IG_API IG_MUST_CHECK ig_status ig_tensor_create_view(ig_tensor *of, ig_desc desc,
                                                     const int64_t *stride, int64_t offset,
                                                     ig_tensor **out);

/* The tensor's bytes, to be written and read in place between flushes; NULL where they could not be
 * brought from the device. */
IG_API void *ig_tensor_map(ig_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
