/*
 * ops.h - what can be computed.
 *
 * Ops never return NULL, so they nest: one whose inputs do not fit returns a
 * poisoned tensor, and so does every op that is given one.  The first such
 * failure is reported, with its words, by the next call that evaluates: read,
 * backward, an optimiser's step, ig_eval().  After that the context goes on as
 * before.  The tensor that an op returns belongs to the innermost scope.
 *
 * Negative axes count from the last dimension.  Indices that point outside of
 * what they index give NaN (0 for integers), and add to nothing.
 */
#ifndef INGOT_OPS_H
#define INGOT_OPS_H

#include "ingot/op.h"
#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element by element; shapes broadcast, as in NumPy. */
IG_API ig_tensor *ig_add(ig_tensor *a, ig_tensor *b);
IG_API ig_tensor *ig_sub(ig_tensor *a, ig_tensor *b);
IG_API ig_tensor *ig_mul(ig_tensor *a, ig_tensor *b);
IG_API ig_tensor *ig_div(ig_tensor *a, ig_tensor *b);
IG_API ig_tensor *ig_equal(ig_tensor *a, ig_tensor *b); /* 1 or 0; nothing flows back */

/* Element by element. */
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
/* x, rounded to what `dtype` can hold; what flows back is not. */
IG_API ig_tensor *ig_round_to(ig_tensor *x, ig_dtype dtype);
IG_API ig_tensor *ig_copy(ig_tensor *x); /* the same elements, packed, in memory of their own */

/* Zeroes a share `p` of the elements, others, every step, and divides the rest by 1 - p. */
IG_API ig_tensor *ig_dropout(ig_tensor *x, double p);

/* A tensor that is `value` everywhere; takes the memory of one element. */
IG_API ig_tensor *ig_full(ig_ctx *ctx, ig_desc desc, double value);

/* Views: other shapes on the same bytes.  A reshape copies where strides cannot express it. */
IG_API ig_tensor *ig_reshape(ig_tensor *x, ig_shape shape); /* one extent may be -1: what is left */
IG_API ig_tensor *ig_transpose(ig_tensor *x, int axis_a, int axis_b);
/* Dimension d of the result is dimension axes[d] of x; n_axes is the rank of x. */
IG_API ig_tensor *ig_permute(ig_tensor *x, const int *axes, int n_axes);
IG_API ig_tensor *ig_slice(ig_tensor *x, int axis, int64_t begin, int64_t end); /* [begin, end) */
IG_API ig_tensor *ig_broadcast(ig_tensor *x, ig_shape shape);

/* Elements moved about. */
IG_API ig_tensor *ig_pad(ig_tensor *x, int axis, int64_t before, int64_t after); /* with zeros */
IG_API ig_tensor *ig_concat(ig_tensor *const *x, int count, int axis);
IG_API ig_tensor *ig_gather(ig_tensor *x, ig_tensor *index, int axis);
IG_API ig_tensor *ig_scatter_add(ig_tensor *x, ig_tensor *index, ig_tensor *src, int axis);
IG_API ig_tensor *ig_embedding(ig_tensor *table, ig_tensor *ids); /* [v, d], [...] -> [..., d] */

/* Over some axes; with n_axes 0, over all.  IG_KEEP leaves reduced dimensions in, as 1. */
typedef enum ig_keep { IG_DROP, IG_KEEP } ig_keep;
IG_API ig_tensor *ig_sum(ig_tensor *x, const int *axes, int n_axes, ig_keep keep);
IG_API ig_tensor *ig_mean(ig_tensor *x, const int *axes, int n_axes, ig_keep keep);
IG_API ig_tensor *ig_max(ig_tensor *x, const int *axes, int n_axes, ig_keep keep);
IG_API ig_tensor *ig_argmax(ig_tensor *x, int axis); /* i32, without the axis */

/* Along one axis: exp(x) as shares of its sum, and the logarithm of that. */
IG_API ig_tensor *ig_softmax(ig_tensor *x, int axis);
IG_API ig_tensor *ig_log_softmax(ig_tensor *x, int axis);

/* Losses: scalars.  Logits [..., n] and targets [...] in i32; the mean over all rows. */
IG_API ig_tensor *ig_cross_entropy(ig_tensor *logits, ig_tensor *targets);
IG_API ig_tensor *ig_mse(ig_tensor *got, ig_tensor *want);

/* Along the last dimension n; w and b are [n], or NULL: ones and zeros. */
IG_API ig_tensor *ig_rms_norm(ig_tensor *x, ig_tensor *w, float eps);
IG_API ig_tensor *ig_layer_norm(ig_tensor *x, ig_tensor *w, ig_tensor *b, float eps);

/* [..., m, k] x [..., k, n] -> [..., m, n]; leading dimensions broadcast. */
IG_API ig_tensor *ig_matmul(ig_tensor *a, ig_tensor *b);

/* The same with either side transposed, plus a bias [n] unless it is NULL. */
typedef struct ig_matmul_options {
    bool transpose_a, transpose_b;
    ig_tensor *bias;
} ig_matmul_options;
IG_API ig_tensor *ig_matmul_with(ig_tensor *a, ig_tensor *b, ig_matmul_options options);

/* x [..., t, h, d] turned by positions [t] or [..., t] (i32); factors [dims / 2] or NULL. */
typedef struct ig_rope_options {
    float base, scale; /* 10000, 1 */
    int dims;          /* all d */
    ig_rope_form form;
    ig_tensor *factors;
    float magnitude; /* 1: of what turns */
} ig_rope_options;
IG_API ig_tensor *ig_rope(ig_tensor *x, ig_tensor *positions, ig_rope_options options);

/* q [b, t, h, d], k [b, s, g, d], v [b, s, g, e] -> [b, t, h, e]; g divides h. */
typedef struct ig_attention_options {
    float scale; /* 1 / sqrt(d) */
    bool causal; /* row i of t sees the keys up to i + s - t */
} ig_attention_options;
IG_API ig_tensor *ig_attention(ig_tensor *q, ig_tensor *k, ig_tensor *v,
                               ig_attention_options options);

/* The same over a paged cache: q [r, h, d], pages [p, 64, g, d] and [p, 64, g, e], the table of
 * each sequence's pages [s, m], and of each row its sequence [r] and its position there [r], in
 * i32. Pages are F32, F16, BF16 or Q8_0.  Nothing flows back.  With sinks [h], the weights of head
 * i sum up to less than 1, as if there were a position of score sinks[i] and values 0. */
typedef struct ig_paged {
    ig_tensor *k_pages, *v_pages, *page_table, *row_seq, *row_pos;
    uint32_t window;  /* a row sees so many positions, its own the last; 0: all */
    float softcap;    /* scores become softcap tanh(score / softcap); 0: they stay */
    ig_tensor *sinks; /* NULL: there are none */
} ig_paged;
IG_API ig_tensor *ig_attention_paged(ig_tensor *q, ig_paged cache, float scale);

/*
 * Mixtures of experts: each of t rows goes to a few of e experts, and all shapes
 * stay what they are whatever was chosen.  op.def says what each step gives.
 *
 *     routed = ig_route(logits, {.count = k})            of logits [t, e]
 *     groups = ig_group_rows(routed.ids, e)
 *     y = ig_embedding(x, groups.rows)                   x [t, d] -> rows by expert
 *     y = ig_matmul_grouped(y, w, groups.offsets)        w [e, n, d], of any type
 *     y = ig_combine(y, groups.places, routed.weights)   -> [t, n]
 */
typedef struct ig_route_options {
    int count;        /* experts for each row */
    bool renormalise; /* their weights sum up to 1 */
} ig_route_options;
typedef struct ig_routed {
    ig_tensor *ids, *weights;
} ig_routed;
IG_API ig_routed ig_route(ig_tensor *logits, ig_route_options options);

/* Rows by expert, [t k]: which row each is, where each row's went, [t, k], and where each expert's
 * begin, [e + 1]; then the products of each with its own matrix, and the sums by weight. */
typedef struct ig_groups {
    ig_tensor *rows, *places, *offsets;
} ig_groups;
IG_API ig_groups ig_group_rows(ig_tensor *ids, int64_t experts);
IG_API ig_tensor *ig_matmul_grouped(ig_tensor *x, ig_tensor *w, ig_tensor *offsets);
IG_API ig_tensor *ig_combine(ig_tensor *y, ig_tensor *places, ig_tensor *weights);

/* Runs what is needed for these tensors; reports the first failure among their makers. */
IG_API IG_MUST_CHECK ig_status ig_eval(ig_tensor *const *tensors, int count);

/* For functions that return tensors as ops do: makes the thread's last failure stick to the
 * context, unless an earlier one does, and returns a poisoned tensor. if (heads < 1) return
 * ig_poison(ctx, IG_FAIL(IG_ERR_ARGUMENT, "heads: %d", heads)); */
IG_API ig_tensor *ig_poison(ig_ctx *ctx, ig_status status);

/* ---- Updates: they write to tensors that a caller owns.  Optimisers are made of them. ---- */

/* A number that changes from run to run without a new recording; ops name it by its index. */
IG_API IG_MUST_CHECK ig_status ig_slot_create(ig_ctx *ctx, uint32_t *out);
IG_API void ig_slot_set_real(ig_ctx *ctx, uint32_t slot, double value);
IG_API void ig_slot_set_count(ig_ctx *ctx, uint32_t slot, int64_t value);
IG_API int64_t ig_slot_count(const ig_ctx *ctx, uint32_t slot);

IG_API IG_MUST_CHECK ig_status ig_assign(ig_tensor *dst, ig_tensor *src);     /* dst = src */
IG_API IG_MUST_CHECK ig_status ig_accumulate(ig_tensor *dst, ig_tensor *src); /* dst += src */
IG_API IG_MUST_CHECK ig_status ig_adamw(ig_tensor *weight, ig_tensor *grad, ig_tensor *mean,
                                        ig_tensor *variance, ig_attrs_adamw attrs);
/* One step of an optimiser, as op.def has the formula; the gradient stays as it is. */
IG_API IG_MUST_CHECK ig_status ig_sgd(ig_tensor *weight, ig_tensor *grad,
                                      ig_tensor *momentum, /* NULL: none */
                                      ig_attrs_sgd attrs);
/* Row index[i] of dst [n, ...] becomes rows[i]; an index that points nowhere is skipped.  F32 rows
 * may go to an F16, BF16 or Q8_0 dst. */
IG_API IG_MUST_CHECK ig_status ig_store_rows(ig_tensor *dst, ig_tensor *rows, ig_tensor *index);
/* The norm of all elements of all tensors together, a scalar. */
IG_API ig_tensor *ig_global_norm(ig_tensor *const *x, int count);
/* Scales a gradient down, in place, where that norm is above the limit. */
IG_API IG_MUST_CHECK ig_status ig_clip(ig_tensor *grad, ig_tensor *norm, float limit);

/* ---- Ops of one's own ---- */

/* An operand of a custom op: packed, in host memory. */
typedef struct ig_custom_operand {
    ig_desc desc;
    void *bytes;
} ig_custom_operand;

typedef struct ig_custom_op {
    const char *name; /* kept; for errors and reports */
    uint32_t n_out;   /* 1 to IG_MAX_OUT */
    /* Dtypes and shapes of the results, or an IG_FAIL with the reason. */
    ig_status (*infer)(void *user, const ig_desc *in, uint32_t n_in, ig_desc *out);
    /* Writes the outputs.  An error is reported by the call that evaluates.  It runs in the midst
     * of a step and works on the bytes alone: calling ops, reads, writes, scopes or steps of the
     * context from here is an error. */
    ig_status (*run)(void *user, const ig_custom_operand *in, uint32_t n_in,
                     const ig_custom_operand *out);
    /*
     * The gradients of the inputs, written in ops, or NULL where nothing flows;
     * dout[i] is NULL where output i was not used.  Without this function a
     * backward through the op is an error.
     */
    ig_status (*grad)(void *user, ig_tensor *const *in, uint32_t n_in, ig_tensor *const *out,
                      ig_tensor *const *dout, ig_tensor **din);
    void *user;
} ig_custom_op;

/* The context keeps a copy until it goes. */
IG_API IG_MUST_CHECK ig_status ig_custom_register(ig_ctx *ctx, const ig_custom_op *op,
                                                  uint32_t *out_id);

/* Calls op `id`; its n_out results go to `out`, poisoned ones if it does not fit. */
IG_API void ig_custom(ig_ctx *ctx, uint32_t id, ig_tensor *const *in, uint32_t n_in,
                      ig_tensor **out);

/* Ops between begin and end, and their gradients, are part of this: builders of models say so.
 * Where several nest, the outermost counts; elsewhere an op's own kind does. */
IG_API void ig_tag_begin(ig_ctx *ctx, ig_tag tag);
IG_API void ig_tag_end(ig_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
