/*
 * grad.h - gradients, grad modes and training steps.
 */
#ifndef INGOT_GRAD_H
#define INGOT_GRAD_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Marks a leaf tensor in F32 or F64 as requiring a gradient; the result of an op cannot be one. */
IG_API IG_MUST_CHECK ig_status ig_tensor_require_grad(ig_tensor *tensor);

/* The tensor's name in errors and checkpoints; set copies it, get lends it.  "": unnamed. */
IG_API IG_MUST_CHECK ig_status ig_tensor_set_name(ig_tensor *tensor, const char *name);
IG_API const char *ig_tensor_name(const ig_tensor *tensor);

/*
 * Adds d(loss)/dt to the gradient of every tensor t that requires one and that the
 * scalar `loss` depends on.  Frees the graph of the loss: a second backward through it
 * is an error.  On failure gradients are unchanged, except that running out of memory
 * or losing the device during the final accumulation may leave it incomplete.
 */
IG_API IG_MUST_CHECK ig_status ig_backward(ig_tensor *loss);

/* The accumulated gradient, borrowed; NULL: none since ig_tensor_zero_grad(). */
IG_API ig_tensor *ig_tensor_grad(const ig_tensor *tensor);
IG_API void ig_tensor_zero_grad(ig_tensor *tensor); /* the next backward overwrites */

/* Ops between these are not recorded for backward; pairs nest. */
IG_API void ig_no_grad_begin(ig_ctx *ctx);
IG_API void ig_no_grad_end(ig_ctx *ctx);

/*
 * Dynamic: every op runs when it is called.  Compiled: the first step is recorded
 * and later ones replay it.  Auto: Dynamic for three steps, then Compiled.
 */
typedef enum ig_mode { IG_MODE_DYNAMIC, IG_MODE_COMPILED, IG_MODE_AUTO } ig_mode;
IG_API IG_MUST_CHECK ig_status ig_mode_set(ig_ctx *ctx, ig_mode mode);
IG_API ig_mode ig_mode_get(const ig_ctx *ctx);

/* Ends a training step, as an optimizer's step does; random numbers advance. */
IG_API IG_MUST_CHECK ig_status ig_ctx_step_end(ig_ctx *ctx);
IG_API uint64_t ig_ctx_step_count(const ig_ctx *ctx); /* steps that have ended */
/* For resuming another run.  Called during a step, it takes effect with the next one: forward and
 * backward of a step share their random numbers. */
IG_API void ig_ctx_set_step_count(ig_ctx *ctx, uint64_t count);

#ifdef __cplusplus
}
#endif
#endif
