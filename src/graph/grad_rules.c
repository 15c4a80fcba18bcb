/*
 * Gradient rules: one per op, written in ops.
 *
 * A rule gets the gradients of an op's outputs and adds the nodes that compute
 * the gradients of its inputs.  Because it only builds graph, it runs on every
 * backend and is fused and planned like the forward pass.  In the formulas dy
 * stands for d(loss)/dy.
 */
#include "graph/grad_rules.h"

#include <string.h>

static ig_value sub(ig_graph *g, ig_value a, ig_value b) {
    return ig_build_binary(g, IG_OP_SUB, a, b);
}
static ig_value mul(ig_graph *g, ig_value a, ig_value b) {
    return ig_build_binary(g, IG_OP_MUL, a, b);
}
static ig_value divide(ig_graph *g, ig_value a, ig_value b) {
    return ig_build_binary(g, IG_OP_DIV, a, b);
}
static ig_value neg(ig_graph *g, ig_value x) { return ig_build_unary(g, IG_OP_NEG, x); }
static ig_value scale(ig_graph *g, ig_value x, double by, double shift) {
    return ig_build_scale(g, x, by, shift);
}

/* What an input was broadcast to is summed up again. */
static ig_value to_shape_of(const ig_grad *r, int input, ig_value d) {
    return ig_build_sum_to(r->g, d, ig_value_shape(r->g, r->in[input]));
}

static uint32_t last_axis(const ig_grad *r, ig_value x) {
    return 1u << (ig_value_shape(r->g, x).rank - 1);
}

static void grad_none(const ig_grad *r) { (void)r; }

static void grad_refuse(const ig_grad *r) {
    ig_graph_stick(r->g, IG_FAIL(IG_ERR_UNSUPPORTED,
                                 "backward: no gradient rule for %s: second derivatives of fused "
                                 "gradients are not there",
                                 ig_op_name(r->op)));
}

/* ---- element by element ---- */

static void grad_add(const ig_grad *r) {
    if (r->wanted[0]) r->din[0] = to_shape_of(r, 0, r->dout[0]);
    if (r->wanted[1]) r->din[1] = to_shape_of(r, 1, r->dout[0]);
}

static void grad_sub(const ig_grad *r) {
    if (r->wanted[0]) r->din[0] = to_shape_of(r, 0, r->dout[0]);
    if (r->wanted[1]) r->din[1] = neg(r->g, to_shape_of(r, 1, r->dout[0]));
}

static void grad_mul(const ig_grad *r) {
    if (r->wanted[0]) r->din[0] = to_shape_of(r, 0, mul(r->g, r->dout[0], r->in[1]));
    if (r->wanted[1]) r->din[1] = to_shape_of(r, 1, mul(r->g, r->dout[0], r->in[0]));
}

/* y = a / b:  da = dy / b,  db = -da y */
static void grad_div(const ig_grad *r) {
    const ig_value da = divide(r->g, r->dout[0], r->in[1]);
    if (r->wanted[0]) r->din[0] = to_shape_of(r, 0, da);
    if (r->wanted[1]) r->din[1] = neg(r->g, to_shape_of(r, 1, mul(r->g, da, r->out[0])));
}

static void grad_scale(const ig_grad *r) {
    r->din[0] = scale(r->g, r->dout[0], ((const ig_attrs_scale *)r->attrs)->scale, 0);
}

static void grad_neg(const ig_grad *r) { r->din[0] = neg(r->g, r->dout[0]); }
static void grad_exp(const ig_grad *r) { r->din[0] = mul(r->g, r->dout[0], r->out[0]); }
static void grad_log(const ig_grad *r) { r->din[0] = divide(r->g, r->dout[0], r->in[0]); }

/* dx = dy / (2 y) */
static void grad_sqrt(const ig_grad *r) {
    r->din[0] = divide(r->g, scale(r->g, r->dout[0], 0.5, 0), r->out[0]);
}

/* dx = dy (1 - y^2) */
static void grad_tanh(const ig_grad *r) {
    const ig_value slope = scale(r->g, mul(r->g, r->out[0], r->out[0]), -1, 1);
    r->din[0] = mul(r->g, r->dout[0], slope);
}

/* dx = dy y (1 - y) */
static void grad_sigmoid(const ig_grad *r) {
    const ig_value slope = mul(r->g, r->out[0], scale(r->g, r->out[0], -1, 1));
    r->din[0] = mul(r->g, r->dout[0], slope);
}

static void grad_relu(const ig_grad *r) {
    r->din[0] = mul(r->g, r->dout[0], ig_build_unary(r->g, IG_OP_POSITIVE, r->in[0]));
}

static void grad_gelu(const ig_grad *r) {
    r->din[0] = ig_build(r->g, IG_OP_GELU_GRAD, r->attrs, (ig_value[]){r->in[0], r->dout[0]}, 2);
}

static void grad_silu(const ig_grad *r) {
    r->din[0] = ig_build_binary(r->g, IG_OP_SILU_GRAD, r->in[0], r->dout[0]);
}

static void grad_softplus(const ig_grad *r) {
    r->din[0] = mul(r->g, r->dout[0], ig_build_unary(r->g, IG_OP_SIGMOID, r->in[0]));
}

static ig_dtype dtype_of(const ig_grad *r, ig_value v) {
    return ig_value_at(r->g, v)->layout.desc.dtype;
}

static bool is_half(ig_dtype dtype) { return dtype == IG_F16 || dtype == IG_BF16; }

/* Integers have no slope.  Numbers of 16 bits are stored so, but their gradients are not. */
static void grad_cast(const ig_grad *r) {
    const ig_dtype from = dtype_of(r, r->in[0]), got = dtype_of(r, r->dout[0]);
    if (from == IG_I32 || dtype_of(r, r->out[0]) == IG_I32) return;
    r->din[0] = from == got || is_half(from)
                    ? r->dout[0]
                    : ig_build(r->g, IG_OP_CAST, &(ig_attrs_dtype){from}, r->dout, 1);
}

static void grad_copy(const ig_grad *r) { r->din[0] = r->dout[0]; }

/* The same numbers are drawn again, so the same elements are kept. */
static void grad_dropout(const ig_grad *r) {
    r->din[0] = ig_build(r->g, IG_OP_DROPOUT, r->attrs, r->dout, 1);
}

/* ---- views ---- */

static void grad_reshape(const ig_grad *r) {
    r->din[0] = ig_build_reshape(r->g, r->dout[0], ig_value_shape(r->g, r->in[0]));
}

static void grad_transpose(const ig_grad *r) {
    const ig_attrs_axes *attrs = r->attrs;
    ig_attrs_axes back = {{0}};
    for (int d = 0; d < ig_value_shape(r->g, r->in[0]).rank; d++) back.axis[attrs->axis[d]] = d;
    r->din[0] = ig_build(r->g, IG_OP_TRANSPOSE, &back, r->dout, 1);
}

static void grad_slice(const ig_grad *r) {
    const ig_attrs_slice *s = r->attrs;
    const int64_t extent = ig_value_shape(r->g, r->in[0]).dim[s->axis];
    const ig_attrs_pad pad = {s->begin, extent - s->end, s->axis, 0};
    r->din[0] = ig_build(r->g, IG_OP_PAD, &pad, r->dout, 1);
}

static void grad_broadcast(const ig_grad *r) { r->din[0] = to_shape_of(r, 0, r->dout[0]); }

/* ---- elements moved about ---- */

static void grad_pad(const ig_grad *r) {
    const ig_attrs_pad *p = r->attrs;
    const int64_t extent = ig_value_shape(r->g, r->in[0]).dim[p->axis];
    r->din[0] = ig_build_slice(r->g, r->dout[0], p->axis, p->before, p->before + extent);
}

/* Each input gets its stretch of the gradient back. */
static void grad_concat(const ig_grad *r) {
    const int axis = ((const ig_attrs_axis *)r->attrs)->axis;
    int64_t begin = 0;
    for (uint32_t i = 0; i < r->n_in; i++) {
        const int64_t end = begin + ig_value_shape(r->g, r->in[i]).dim[axis];
        if (r->wanted[i]) r->din[i] = ig_build_slice(r->g, r->dout[0], axis, begin, end);
        begin = end;
    }
}

static void grad_gather(const ig_grad *r) {
    const ig_value zeros = ig_build_full(r->g, ig_value_at(r->g, r->in[0])->layout.desc, 0);
    r->din[0] =
        ig_build(r->g, IG_OP_SCATTER_ADD, r->attrs, (ig_value[]){zeros, r->in[1], r->dout[0]}, 3);
}

static void grad_scatter_add(const ig_grad *r) {
    if (r->wanted[0]) r->din[0] = r->dout[0];
    if (r->wanted[2])
        r->din[2] = ig_build(r->g, IG_OP_GATHER, r->attrs, (ig_value[]){r->dout[0], r->in[1]}, 2);
}

static void grad_embedding(const ig_grad *r) {
    const ig_attrs_rows rows = {ig_value_shape(r->g, r->in[0]).dim[0]};
    r->din[0] = ig_build(r->g, IG_OP_EMBEDDING_GRAD, &rows, (ig_value[]){r->in[1], r->dout[0]}, 2);
}

/* ---- many to one ---- */

/* The reduced dimensions come back, with extent 1. */
static ig_value with_reduced(const ig_grad *r, ig_value x) {
    const ig_attrs_reduce *attrs = r->attrs;
    ig_shape shape = ig_value_shape(r->g, r->in[0]);
    for (int d = 0; d < shape.rank; d++)
        if (attrs->axes & 1u << d) shape.dim[d] = 1;
    return attrs->keep ? x : ig_build_reshape(r->g, x, shape);
}

static int64_t reduced_count(const ig_grad *r) {
    const ig_shape shape = ig_value_shape(r->g, r->in[0]);
    int64_t n = 1;
    for (int d = 0; d < shape.rank; d++)
        if (((const ig_attrs_reduce *)r->attrs)->axes & 1u << d) n *= shape.dim[d];
    return n;
}

static void grad_sum(const ig_grad *r) {
    const ig_shape shape = ig_value_shape(r->g, r->in[0]);
    r->din[0] = ig_build_broadcast(r->g, with_reduced(r, r->dout[0]), shape);
}

static void grad_mean(const ig_grad *r) {
    const ig_value part = scale(r->g, r->dout[0], 1.0 / (double)reduced_count(r), 0);
    r->din[0] = ig_build_broadcast(r->g, with_reduced(r, part), ig_value_shape(r->g, r->in[0]));
}

/* Where several are largest, each gets an equal part. */
static void grad_max(const ig_grad *r) {
    const uint32_t axes = ((const ig_attrs_reduce *)r->attrs)->axes;
    const ig_value hit = ig_build_binary(r->g, IG_OP_EQUAL, r->in[0], with_reduced(r, r->out[0]));
    const ig_value hits = ig_build_reduce(r->g, IG_OP_SUM, hit, axes, true);
    r->din[0] = mul(r->g, hit, divide(r->g, with_reduced(r, r->dout[0]), hits));
}

/* dx = y (dy - sum(dy y)) along the last dimension */
static ig_value softmax_grad(const ig_grad *r, ig_value y, ig_value dy) {
    const ig_value along =
        ig_build_reduce(r->g, IG_OP_SUM, mul(r->g, dy, y), last_axis(r, y), true);
    return mul(r->g, y, sub(r->g, dy, along));
}

static void grad_softmax(const ig_grad *r) { r->din[0] = softmax_grad(r, r->out[0], r->dout[0]); }

/* dx = dy - exp(y) sum(dy) along the last dimension */
static void grad_log_softmax(const ig_grad *r) {
    const ig_value y = r->out[0];
    const ig_value sum = ig_build_reduce(r->g, IG_OP_SUM, r->dout[0], last_axis(r, y), true);
    r->din[0] = sub(r->g, r->dout[0], mul(r->g, ig_build_unary(r->g, IG_OP_EXP, y), sum));
}

static void grad_cross_entropy(const ig_grad *r) {
    r->din[0] = ig_build(r->g, IG_OP_CROSS_ENTROPY_GRAD, NULL,
                         (ig_value[]){r->in[0], r->in[1], r->dout[0]}, 3);
}

/* d got = dy 2 (got - want) / n, d want = -d got */
static void grad_mse(const ig_grad *r) {
    const int64_t n = ig_shape_count(ig_value_shape(r->g, r->in[0]));
    const ig_value rate = scale(r->g, r->dout[0], 2.0 / (double)n, 0);
    const ig_value d = mul(r->g, sub(r->g, r->in[0], r->in[1]), rate);
    if (r->wanted[0]) r->din[0] = d;
    if (r->wanted[1]) r->din[1] = neg(r->g, d);
}

/*
 * y = w n + b, where n is x normalised row by row:
 * dw = sum over rows of dy n, db = sum over rows of dy; dx is an op of its own.
 */
static void norm(const ig_grad *r, ig_op grad_op) {
    const bool weighted = r->n_in > 1;
    const ig_value in[] = {r->in[0], r->dout[0], weighted ? r->in[1] : IG_NO_VALUE};
    if (r->wanted[0]) r->din[0] = ig_build(r->g, grad_op, r->attrs, in, weighted ? 3 : 2);
    if (weighted && r->wanted[1]) {
        const ig_value n = ig_build(r->g, r->op, r->attrs, r->in, 1);
        r->din[1] = to_shape_of(r, 1, mul(r->g, r->dout[0], n));
    }
    if (r->n_in > 2 && r->wanted[2]) r->din[2] = to_shape_of(r, 2, r->dout[0]);
}

static void grad_rms_norm(const ig_grad *r) { norm(r, IG_OP_RMS_NORM_GRAD); }
static void grad_layer_norm(const ig_grad *r) { norm(r, IG_OP_LAYER_NORM_GRAD); }

/* ---- contractions ---- */

static ig_value matmul(ig_graph *g, ig_value a, ig_value b, uint32_t transpose_a,
                       uint32_t transpose_b) {
    const ig_attrs_matmul attrs = {.transpose_a = transpose_a, .transpose_b = transpose_b};
    return ig_build(g, IG_OP_MATMUL, &attrs, (ig_value[]){a, b}, 2);
}

/*
 * c = a b:    da = dc b^T,  db = a^T dc
 * c = a b^T:  da = dc b,    db = dc^T a
 * c = a^T b:  da = b dc^T,  db = a dc
 * c = a^T b^T: da = b^T dc^T, db = dc^T a^T
 * What was broadcast is summed up.  A matrix b that serves a whole batch sums
 * over all its rows at once: [..., m, k] is taken as [rows, k].  The gradient of what
 * is stored in halves is f32, as dc is.
 */
/* Weights as numbers of the type that `like` has; stored ones are decoded. */
static ig_value as_numbers(const ig_grad *r, ig_value weights, ig_value like) {
    const ig_dtype dtype = dtype_of(r, like);
    if (dtype_of(r, weights) == dtype) return weights;
    return ig_build(r->g, IG_OP_CAST, &(ig_attrs_dtype){dtype}, &weights, 1);
}

static void grad_matmul(const ig_grad *r) {
    const ig_attrs_matmul *t = r->attrs;
    ig_value a = r->in[0], dc = r->dout[0];
    const bool half = is_half(dtype_of(r, r->in[1])); /* which may be a factor; blocks may not */
    const ig_value b = r->wanted[0] && !half ? as_numbers(r, r->in[1], dc) : r->in[1];

    if (r->wanted[0]) {
        const ig_value da = t->transpose_a ? matmul(r->g, b, dc, t->transpose_b, 1)
                                           : matmul(r->g, dc, b, 0, !t->transpose_b);
        r->din[0] = to_shape_of(r, 0, da);
    }
    if (r->n_in > 2 && r->wanted[2]) r->din[2] = to_shape_of(r, 2, dc);
    if (!r->wanted[1]) return;
    if (ig_value_shape(r->g, b).rank == 2 && !t->transpose_a) {
        a = ig_build_rows(r->g, a);
        dc = ig_build_rows(r->g, dc);
    }
    const ig_value db = t->transpose_b ? matmul(r->g, dc, a, 1, t->transpose_a)
                                       : matmul(r->g, a, dc, !t->transpose_a, 0);
    r->din[1] = to_shape_of(r, 1, db);
}

static void grad_rope(const ig_grad *r) {
    ig_attrs_rope back;
    memcpy(&back, r->attrs, sizeof back);
    back.inverse = !back.inverse;
    const ig_value in[] = {r->dout[0], r->in[1], r->n_in > 2 ? r->in[2] : IG_NO_VALUE};
    r->din[0] = ig_build(r->g, IG_OP_ROPE, &back, in, r->n_in);
}

static void grad_attention(const ig_grad *r) {
    if (r->dout[0] == IG_NO_VALUE || r->n_out < 2 || r->dout[1] != IG_NO_VALUE) {
        ig_graph_stick(r->g, IG_FAIL(IG_ERR_UNSUPPORTED,
                                     "backward: attention: nothing flows back through the "
                                     "log-sum-exp, and it must have been kept"));
        return;
    }
    const ig_value in[] = {r->in[0], r->in[1], r->in[2], r->out[0], r->out[1], r->dout[0]};
    const ig_value d = ig_build(r->g, IG_OP_ATTENTION_GRAD, r->attrs, in, 6);
    for (uint32_t i = 0; i < 3 && d != IG_NO_VALUE; i++) r->din[i] = d + i;
}

/* ---- mixtures of experts ---- */

/* Weights are a softmax over the chosen, or the chosen of a softmax over all. */
static void grad_route(const ig_grad *r) {
    const ig_attrs_axis last = {1};
    const ig_value ids = r->out[0];
    if (r->dout[1] == IG_NO_VALUE) return;
    const ig_value zeros = ig_build_full(r->g, ig_value_at(r->g, r->in[0])->layout.desc, 0);
    const bool own = ((const ig_attrs_route *)r->attrs)->renormalise;
    const ig_value chosen = own ? softmax_grad(r, r->out[1], r->dout[1]) : r->dout[1];
    const ig_value all =
        ig_build(r->g, IG_OP_SCATTER_ADD, &last, (ig_value[]){zeros, ids, chosen}, 3);
    r->din[0] = own ? all : softmax_grad(r, ig_build_unary(r->g, IG_OP_SOFTMAX, r->in[0]), all);
}

/* y = x w:  dx = dy w^T,  dw = x^T dy, of the rows of each expert */
static void grad_matmul_grouped(const ig_grad *r) {
    const ig_attrs_grouped *t = r->attrs, back = {!t->transpose_w};
    const ig_value x = r->in[0], dy = r->dout[0], offsets = r->in[2];
    if (r->wanted[0]) {
        const ig_value w = as_numbers(r, r->in[1], x);
        r->din[0] = ig_build(r->g, IG_OP_MATMUL_GROUPED, &back, (ig_value[]){dy, w, offsets}, 3);
    }
    if (!r->wanted[1]) return;
    const ig_value rows[] = {t->transpose_w ? x : dy, t->transpose_w ? dy : x, offsets};
    r->din[1] = ig_build(r->g, IG_OP_MATMUL_GROUPED_GRAD, NULL, rows, 3);
}

/* out[t] = sum of weights[t, j] y[places[t, j]] */
static void grad_combine(const ig_grad *r) {
    const ig_value y = r->in[0], places = r->in[1], weights = r->in[2];
    const ig_shape t_k = ig_value_shape(r->g, places), of_y = ig_value_shape(r->g, y);
    const ig_value dout = ig_build_reshape(r->g, r->dout[0], IG_SHAPE(t_k.dim[0], 1, of_y.dim[1]));
    if (r->wanted[0]) {
        const ig_value each = ig_build_reshape(r->g, weights, IG_SHAPE(t_k.dim[0], t_k.dim[1], 1));
        const ig_value in[] = {places, mul(r->g, each, dout)};
        r->din[0] = ig_build(r->g, IG_OP_EMBEDDING_GRAD, &(ig_attrs_rows){of_y.dim[0]}, in, 2);
    }
    if (r->wanted[2]) {
        const ig_value rows = ig_build(r->g, IG_OP_EMBEDDING, NULL, (ig_value[]){y, places}, 2);
        r->din[2] = ig_build_reduce(r->g, IG_OP_SUM, mul(r->g, rows, dout), 1u << 2, false);
    }
}

/* The program's own rule. */
static void grad_custom(const ig_grad *r) {
    const ig_graph_hooks *hooks = &r->g->hooks;
    const ig_status status =
        hooks->custom_grad ? hooks->custom_grad(hooks->user, r->g, r->node, r->dout, r->din)
                           : IG_FAIL(IG_ERR_UNSUPPORTED, "backward: custom op without a gradient");
    if (status != IG_OK) ig_graph_stick(r->g, status);
}

ig_grad_rule *const ig_grad_rules[IG_OP_COUNT] = {
#define IG_OP(ID, name, in_min, in_max, out_min, out_max, attrs, infer, grad, traits) \
    [IG_OP_##ID] = grad_##grad,
#include "ingot/op.def"
};

bool ig_grad_flows(ig_op op) { return ig_grad_rules[op] != grad_none; }
