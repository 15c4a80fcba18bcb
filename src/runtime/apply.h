/* apply.h - turns op calls into nodes, and their results into tensors. */
#ifndef IG_RUNTIME_APPLY_H
#define IG_RUNTIME_APPLY_H

#include "runtime/tensor.h"

typedef struct ig_apply_args {
    ig_op op;
    const void *attrs;
    ig_tensor *const *in;
    uint32_t n_in, n_out;
    const ig_desc *desc; /* of a CUSTOM op */
} ig_apply_args;

/* Calls an op and returns its first `n_returned` results; poisoned ones if it fails. */
void ig_apply(ig_ctx *ctx, const ig_apply_args *args, ig_tensor **out, uint32_t n_returned);
ig_tensor *ig_apply_one(ig_op op, const void *attrs, ig_tensor *const *in, uint32_t n_in);
ig_tensor *ig_poisoned(ig_ctx *ctx, ig_status status); /* with the thread's error */
/* The tensor's value in the tape; creates a leaf if it has none. IG_NO_VALUE: the error sticks. */
ig_value ig_value_of(ig_ctx *ctx, ig_tensor *tensor);
/* A tensor for a value of the tape, owned by the innermost scope. */
ig_tensor *ig_tensor_of(ig_ctx *ctx, ig_value v);
/* Applies an update to tensors that callers own and returns its status. */
IG_MUST_CHECK ig_status ig_apply_update(ig_op op, const void *attrs, ig_tensor *const *in,
                                        uint32_t n_in, uint32_t n_out);

#endif
