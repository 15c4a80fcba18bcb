/*
 * grad.h - gradients, and how often the same step is worked out anew.
 */
#ifndef INGOT_GRAD_H
#define INGOT_GRAD_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Asks for the gradient of a tensor in F32 or F64 that the caller made (not of an op's result). */
IG_API IG_MUST_CHECK ig_status ig_tensor_require_grad(ig_tensor *tensor);

/* What errors and checkpoints call the tensor; copied, and lent.  "" without a name. */
IG_API IG_MUST_CHECK ig_status ig_tensor_set_name(ig_tensor *tensor, const char *name);
IG_API const char *ig_tensor_name(const ig_tensor *tensor);

/*
 * Adds d(loss)/dt to the gradient of every tensor t that asked for one and that
 * the scalar `loss` came from.  What the loss was computed from is given up:
 * a second backward through it is an error.  One that fails leaves gradients as
 * they were: only when memory or a device gives out while the last sums are added
 * to what was there, some may have been and others not.
 */
IG_API IG_MUST_CHECK ig_status ig_backward(ig_tensor *loss);

/* The gradient so far, lent; NULL: there is none since ig_tensor_zero_grad(). */
IG_API ig_tensor *ig_tensor_grad(const ig_tensor *tensor);
IG_API void ig_tensor_zero_grad(ig_tensor *tensor); /* the next backward writes, it does not add */

/* Between these, ops are not remembered for a backward; pairs nest. */
IG_API void ig_no_grad_begin(ig_ctx *ctx);
IG_API void ig_no_grad_end(ig_ctx *ctx);

/*
 * Dynamic: every op runs when it is called.  Compiled: the first step is recorded
 * and later ones replay it.  Auto: Dynamic for three steps, then Compiled.
 */
typedef enum ig_mode { IG_MODE_DYNAMIC, IG_MODE_COMPILED, IG_MODE_AUTO } ig_mode;
IG_API IG_MUST_CHECK ig_status ig_mode_set(ig_ctx *ctx, ig_mode mode);
IG_API ig_mode ig_mode_get(const ig_ctx *ctx);

/* Ends a step, as an optimiser's step does; random numbers go on to the next. */
IG_API IG_MUST_CHECK ig_status ig_step_end(ig_ctx *ctx);
IG_API uint64_t ig_step_count(const ig_ctx *ctx); /* steps ended so far */
/* To go on where another run ended.  In the midst of a step it holds from the next one on: random
 * numbers of one step belong together, forward and backward. */
IG_API void ig_step_set_count(ig_ctx *ctx, uint64_t count);

#ifdef __cplusplus
}
#endif
#endif
