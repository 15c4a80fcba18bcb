/* Gradient rules of reductions, losses and norms. */
#include "graph/grad/grad_build.h"

/* Restores the reduced dimensions, with extent 1. */
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

void ig_grad_sum(const ig_grad *r) {
    const ig_shape shape = ig_value_shape(r->g, r->in[0]);
    r->din[0] = ig_build_broadcast(r->g, with_reduced(r, r->dout[0]), shape);
}

void ig_grad_mean(const ig_grad *r) {
    const ig_value part = scale(r->g, r->dout[0], 1.0 / (double)reduced_count(r), 0);
    r->din[0] = ig_build_broadcast(r->g, with_reduced(r, part), ig_value_shape(r->g, r->in[0]));
}

/* If several elements are the maximum, they share the gradient equally. */
void ig_grad_max(const ig_grad *r) {
    const uint32_t axes = ((const ig_attrs_reduce *)r->attrs)->axes;
    const ig_value hit = ig_build_binary(r->g, IG_OP_EQUAL, r->in[0], with_reduced(r, r->out[0]));
    const ig_value hits = ig_build_reduce(r->g, IG_OP_SUM, hit, axes, true);
    r->din[0] = mul(r->g, hit, divide(r->g, with_reduced(r, r->dout[0]), hits));
}

void ig_grad_softmax(const ig_grad *r) { r->din[0] = softmax_grad(r, r->out[0], r->dout[0]); }

/* dx = dy - exp(y) sum(dy) along the last dimension */
void ig_grad_log_softmax(const ig_grad *r) {
    const ig_value y = r->out[0];
    const ig_value sum = ig_build_reduce(r->g, IG_OP_SUM, r->dout[0], last_axis(r, y), true);
    r->din[0] = sub(r->g, r->dout[0], mul(r->g, ig_build_unary(r->g, IG_OP_EXP, y), sum));
}

void ig_grad_cross_entropy(const ig_grad *r) {
    r->din[0] = ig_build(r->g, IG_OP_CROSS_ENTROPY_GRAD, NULL,
                         (ig_value[]){r->in[0], r->in[1], r->dout[0]}, 3);
}

/* d got = dy 2 (got - want) / n, d want = -d got */
void ig_grad_mse(const ig_grad *r) {
    const int64_t n = ig_shape_count(ig_value_shape(r->g, r->in[0]));
    const ig_value rate = scale(r->g, r->dout[0], 2.0 / (double)n, 0);
    const ig_value d = mul(r->g, sub(r->g, r->in[0], r->in[1]), rate);
    if (r->wanted[0]) r->din[0] = d;
    if (r->wanted[1]) r->din[1] = neg(r->g, d);
}

/*
 * y = w n + b, where n is x normalized row by row: dw = sum over rows of dy n, db = sum over rows
 * of dy; dx is an op of its own.
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

void ig_grad_rms_norm(const ig_grad *r) { norm(r, IG_OP_RMS_NORM_GRAD); }
void ig_grad_layer_norm(const ig_grad *r) { norm(r, IG_OP_LAYER_NORM_GRAD); }
