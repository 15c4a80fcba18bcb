/*
 * ops.h - ops on tensors.
 *
 * Ops never return NULL, so calls nest: an op whose inputs do not fit returns a
 * poisoned tensor, and so does every op with a poisoned input.  The next call that
 * evaluates reports the first such failure: read, backward, an optimizer's step,
 * ig_eval().  Then the context continues normally.  The innermost scope owns the
 * tensor that an op returns.
 *
 * Negative axes count from the last dimension.  Out-of-range indices yield NaN (0 for
 * integers) and scatter nothing.
 */
#ifndef INGOT_OPS_H
#define INGOT_OPS_H

#include "ingot/op.h"
#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elementwise; shapes broadcast as in NumPy. */
IG_API ig_tensor *ig_add(ig_tensor *a, ig_tensor *b);
IG_API ig_tensor *ig_sub(ig_tensor *a, ig_tensor *b);
IG_API ig_tensor *ig_mul(ig_tensor *a, ig_tensor *b);
IG_API ig_tensor *ig_div(ig_tensor *a, ig_tensor *b);
IG_API ig_tensor *ig_equal(ig_tensor *a, ig_tensor *b); /* 1 or 0; nothing flows back */

/* Elementwise. */
IG_API ig_tensor *ig_scale(ig_tensor *x, double scale, double shift); /* scale x + shift */
IG_API ig_tensor *ig_neg(ig_tensor *x);
IG_API ig_tensor *ig_exp(ig_tensor *x);
IG_API ig_tensor *ig_log(ig_tensor *x);
IG_API ig_tensor *ig_sqrt(ig_tensor *x);
IG_API ig_tensor *ig_tanh(ig_tensor *x);
IG_API ig_tensor *ig_sigmoid(ig_tensor *x);
IG_API ig_tensor *ig_relu(ig_tensor *x);
IG_API ig_tensor *ig_gelu(ig_tensor *x, ig_gelu_form form);
IG_API ig_tensor *ig_silu(ig_tensor *x);     /* x sigmoid(x) */
IG_API ig_tensor *ig_softplus(ig_tensor *x); /* log(1 + exp(x)) */
IG_API ig_tensor *ig_positive(ig_tensor *x); /* 1 where x > 0, else 0; nothing flows back */
IG_API ig_tensor *ig_cast(ig_tensor *x, ig_dtype dtype);
/* x rounded to the precision of `dtype`; the gradient is not rounded. */
IG_API ig_tensor *ig_round_to(ig_tensor *x, ig_dtype dtype);
IG_API ig_tensor *ig_copy(ig_tensor *x); /* contiguous, in new memory */

/* Zeroes a fraction `p` of the elements, drawn every step, and divides the rest by 1 - p. */
IG_API ig_tensor *ig_dropout(ig_tensor *x, double p);

/* A tensor filled with `value`; takes the memory of one element. */
IG_API ig_tensor *ig_full(ig_ctx *ctx, ig_desc desc, double value);

/* Views of the same memory.  reshape copies if strides cannot express the result. */
IG_API ig_tensor *ig_reshape(ig_tensor *x, ig_shape shape); /* one extent may be -1: inferred */
IG_API ig_tensor *ig_transpose(ig_tensor *x, int axis_a, int axis_b);
/* Dimension d of the result is dimension axes[d] of x; n_axes is the rank of x. */
IG_API ig_tensor *ig_permute(ig_tensor *x, const int *axes, int n_axes);
IG_API ig_tensor *ig_slice(ig_tensor *x, int axis, int64_t begin, int64_t end); /* [begin, end) */
IG_API ig_tensor *ig_broadcast(ig_tensor *x, ig_shape shape);

/* Data movement. */
IG_API ig_tensor *ig_pad(ig_tensor *x, int axis, int64_t before, int64_t after); /* with zeros */
IG_API ig_tensor *ig_concat(ig_tensor *const *x, int count, int axis);
IG_API ig_tensor *ig_gather(ig_tensor *x, ig_tensor *index, int axis);
IG_API ig_tensor *ig_scatter_add(ig_tensor *x, ig_tensor *index, ig_tensor *src, int axis);
IG_API ig_tensor *ig_embedding(ig_tensor *table, ig_tensor *ids); /* [v, d], [...] -> [..., d] */

/* Over the given axes; n_axes 0: over all.  IG_KEEP_DIM keeps reduced dimensions, with extent 1. */
typedef enum ig_keepdim { IG_DROP_DIM, IG_KEEP_DIM } ig_keepdim;
IG_API ig_tensor *ig_sum(ig_tensor *x, const int *axes, int n_axes, ig_keepdim keep);
IG_API ig_tensor *ig_mean(ig_tensor *x, const int *axes, int n_axes, ig_keepdim keep);
IG_API ig_tensor *ig_max(ig_tensor *x, const int *axes, int n_axes, ig_keepdim keep);
IG_API ig_tensor *ig_argmax(ig_tensor *x, int axis); /* i32; the axis is removed */

/* Along one axis. */
IG_API ig_tensor *ig_softmax(ig_tensor *x, int axis);
IG_API ig_tensor *ig_log_softmax(ig_tensor *x, int axis);

/* Losses: scalars.  Logits [..., n] and i32 targets [...]; the mean over all rows. */
IG_API ig_tensor *ig_cross_entropy(ig_tensor *logits, ig_tensor *targets);
IG_API ig_tensor *ig_mse(ig_tensor *got, ig_tensor *want);

/* Along the last dimension n; w and b are [n]; NULL: ones and zeros. */
IG_API ig_tensor *ig_rms_norm(ig_tensor *x, ig_tensor *w, float eps);
IG_API ig_tensor *ig_layer_norm(ig_tensor *x, ig_tensor *w, ig_tensor *b, float eps);

/* [..., m, k] x [..., k, n] -> [..., m, n]; leading dimensions broadcast. */
IG_API ig_tensor *ig_matmul(ig_tensor *a, ig_tensor *b);

/* The same with either side transposed, plus a bias [n] if not NULL. */
typedef struct ig_matmul_options {
    bool transpose_a, transpose_b;
    ig_tensor *bias;
} ig_matmul_options;
IG_API ig_tensor *ig_matmul_with(ig_tensor *a, ig_tensor *b, ig_matmul_options options);

/* RoPE: x [..., t, h, d], positions [t] or [..., t] (i32), freq_factors [rotary_dims / 2] or NULL.
 */
typedef struct ig_rope_options {
    float freq_base, freq_scale; /* 0: 10000, 1 */
    int rotary_dims;             /* 0: all d */
    ig_rope_type type;
    ig_tensor *freq_factors;
    float mscale; /* 0: 1; multiplies the rotated elements */
} ig_rope_options;
IG_API ig_tensor *ig_rope(ig_tensor *x, ig_tensor *positions, ig_rope_options options);

/* q [b, t, h, d], k [b, s, g, d], v [b, s, g, e] -> [b, t, h, e]; g divides h. */
typedef struct ig_attention_options {
    float scale; /* 0: 1 / sqrt(d) */
    bool causal; /* query i of t attends to keys up to i + s - t */
} ig_attention_options;
IG_API ig_tensor *ig_attention(ig_tensor *q, ig_tensor *k, ig_tensor *v,
                               ig_attention_options options);

/* Attention over a paged KV cache: q [r, h, d], pages [p, 64, g, d] and [p, 64, g, e], page table
 * [sequences, m], and for each token its sequence [r] and position [r], all i32.  Pages are F32,
 * F16, BF16 or Q8_0.  No gradient.  Attention sinks [h] act as one more key of score sinks[i] and
 * value 0. */
typedef struct ig_paged_kv {
    ig_tensor *k_pages, *v_pages, *page_table, *token_seq, *token_pos;
    uint32_t
        window;    /* sliding window: positions that a token attends to, its own included; 0: all */
    float softcap; /* scores become softcap tanh(score / softcap); 0: off */
    ig_tensor *sinks; /* NULL: none */
} ig_paged_kv;
IG_API ig_tensor *ig_attention_paged(ig_tensor *q, ig_paged_kv cache, float scale);

/*
 * Mixture of experts (MoE): each of t tokens goes to k of e experts; shapes do not
 * depend on the routing.  op.def defines each step.
 *
 *     routed = ig_route(logits, {.top_k = k})            logits [t, e]
 *     groups = ig_group_rows(routed.ids, e)
 *     y = ig_embedding(x, groups.rows)                   x [t, d] -> rows grouped by expert
 *     y = ig_matmul_grouped(y, w, groups.offsets)        w [e, n, d], of any type
 *     y = ig_combine(y, groups.inverse, routed.weights)   -> [t, n]
 */
typedef struct ig_route_options {
    int top_k;      /* experts per token */
    bool norm_topk; /* normalize their weights to sum 1 */
} ig_route_options;
typedef struct ig_routed {
    ig_tensor *ids, *weights;
} ig_routed;
IG_API ig_routed ig_route(ig_tensor *logits, ig_route_options options);

/* Grouping by expert: rows [t k] are the source tokens, inverse [t, k] the grouped row of each
 * choice, offsets [e + 1] the first row of each expert. */
typedef struct ig_groups {
    ig_tensor *rows, *inverse, *offsets;
} ig_groups;
IG_API ig_groups ig_group_rows(ig_tensor *ids, int64_t experts);
IG_API ig_tensor *ig_matmul_grouped(ig_tensor *x, ig_tensor *w, ig_tensor *offsets);
IG_API ig_tensor *ig_combine(ig_tensor *y, ig_tensor *inverse, ig_tensor *weights);

/* Runs the ops that these tensors depend on; reports the first failure among them. */
IG_API IG_MUST_CHECK ig_status ig_eval(ig_tensor *const *tensors, int count);

/* For functions that return tensors as ops do: records the thread's last failure in the context,
 * unless an earlier one is pending, and returns a poisoned tensor:
 * if (heads < 1) return ig_poison(ctx, IG_FAIL(IG_ERR_ARGUMENT, "heads: %d", heads)); */
IG_API ig_tensor *ig_poison(ig_ctx *ctx, ig_status status);

/* ---- Updates: ops that write to tensors in place, as optimizers need ---- */

/* A scalar that may change from run to run without re-recording; ops refer to it by index. */
IG_API IG_MUST_CHECK ig_status ig_slot_create(ig_ctx *ctx, uint32_t *out);
IG_API void ig_slot_set_real(ig_ctx *ctx, uint32_t slot, double value);
IG_API void ig_slot_set_count(ig_ctx *ctx, uint32_t slot, int64_t value);
IG_API int64_t ig_slot_count(const ig_ctx *ctx, uint32_t slot);

IG_API IG_MUST_CHECK ig_status ig_assign(ig_tensor *dst, ig_tensor *src);     /* dst = src */
IG_API IG_MUST_CHECK ig_status ig_accumulate(ig_tensor *dst, ig_tensor *src); /* dst += src */
IG_API IG_MUST_CHECK ig_status ig_adamw(ig_tensor *weight, ig_tensor *grad, ig_tensor *mean,
                                        ig_tensor *variance, ig_attrs_adamw attrs);
/* One optimizer step by the formula in op.def; the gradient is unchanged. */
IG_API IG_MUST_CHECK ig_status ig_sgd(ig_tensor *weight, ig_tensor *grad,
                                      ig_tensor *momentum, /* NULL: none */
                                      ig_attrs_sgd attrs);
/* Sets row index[i] of dst [n, ...] to rows[i]; skips out-of-range indices.  Converts F32 rows to
 * an F16, BF16 or Q8_0 dst. */
IG_API IG_MUST_CHECK ig_status ig_store_rows(ig_tensor *dst, ig_tensor *rows, ig_tensor *index);
/* The L2 norm over all elements of all tensors, a scalar. */
IG_API ig_tensor *ig_global_norm(ig_tensor *const *x, int count);
/* Scales a gradient down in place if that norm exceeds the limit. */
IG_API IG_MUST_CHECK ig_status ig_clip(ig_tensor *grad, ig_tensor *norm, float limit);

/* ---- Custom ops ---- */

/* An operand of a custom op: contiguous, in host memory. */
typedef struct ig_custom_operand {
    ig_desc desc;
    void *bytes;
} ig_custom_operand;

typedef struct ig_custom_op {
    const char *name; /* copied; for errors and reports */
    uint32_t n_out;   /* 1 to IG_MAX_OUT */
    /* Dtypes and shapes of the results, or an IG_FAIL with the reason. */
    ig_status (*infer)(void *user, const ig_desc *in, uint32_t n_in, ig_desc *out);
    /* Writes the outputs.  The call that evaluates reports errors.  It runs during a step and may
     * only access the bytes: calling ops, reads, writes, scopes or steps of the context from here
     * is an error. */
    ig_status (*run)(void *user, const ig_custom_operand *in, uint32_t n_in,
                     const ig_custom_operand *out);
    /*
     * The gradients of the inputs, built from ops; NULL for inputs without one.
     * dout[i] is NULL if output i was not used.  Without this function, backward
     * through the op is an error.
     */
    ig_status (*grad)(void *user, ig_tensor *const *in, uint32_t n_in, ig_tensor *const *out,
                      ig_tensor *const *dout, ig_tensor **din);
    void *user;
} ig_custom_op;

/* The context keeps a copy. */
IG_API IG_MUST_CHECK ig_status ig_custom_register(ig_ctx *ctx, const ig_custom_op *op,
                                                  uint32_t *out_id);

/* Calls op `id` and writes its n_out results to `out`, poisoned if the inputs do not fit. */
IG_API void ig_custom(ig_ctx *ctx, uint32_t id, ig_tensor *const *in, uint32_t n_in,
                      ig_tensor **out);

/* Tags the ops between begin and end, and their gradients, as part of a module.  The outermost tag
 * wins; untagged ops have the tag of their op family. */
IG_API void ig_tag_begin(ig_ctx *ctx, ig_tag tag);
IG_API void ig_tag_end(ig_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
