/*
 * grad_build.h - building blocks of gradient rules.
 *
 * A rule of op.def is a function ig_grad_<grad> in any file of graph/grad; op.def declares it. It
 * gets the gradients of an op's outputs and adds the nodes that compute the gradients of its
 * inputs. In the formulas dy is d(loss)/dy.
 */
#ifndef IG_GRAPH_GRAD_GRAD_BUILD_H
#define IG_GRAPH_GRAD_GRAD_BUILD_H

#include "graph/grad_rules.h"

static inline ig_value sub(ig_graph *g, ig_value a, ig_value b) {
    return ig_build_binary(g, IG_OP_SUB, a, b);
}
static inline ig_value mul(ig_graph *g, ig_value a, ig_value b) {
    return ig_build_binary(g, IG_OP_MUL, a, b);
}
static inline ig_value divide(ig_graph *g, ig_value a, ig_value b) {
    return ig_build_binary(g, IG_OP_DIV, a, b);
}
static inline ig_value neg(ig_graph *g, ig_value x) { return ig_build_unary(g, IG_OP_NEG, x); }
static inline ig_value scale(ig_graph *g, ig_value x, double by, double shift) {
    return ig_build_scale(g, x, by, shift);
}

/* Sums a gradient over the dimensions that broadcast the input. */
static inline ig_value to_shape_of(const ig_grad *r, int input, ig_value d) {
    return ig_build_sum_to(r->g, d, ig_value_shape(r->g, r->in[input]));
}

static inline uint32_t last_axis(const ig_grad *r, ig_value x) {
    return 1u << (ig_value_shape(r->g, x).rank - 1);
}

static inline ig_dtype dtype_of(const ig_grad *r, ig_value v) {
    return ig_value_at(r->g, v)->layout.desc.dtype;
}

static inline bool is_half(ig_dtype dtype) { return dtype == IG_F16 || dtype == IG_BF16; }

/* dx = y (dy - sum(dy y)) along the last dimension */
static inline ig_value softmax_grad(const ig_grad *r, ig_value y, ig_value dy) {
    const ig_value along =
        ig_build_reduce(r->g, IG_OP_SUM, mul(r->g, dy, y), last_axis(r, y), true);
    return mul(r->g, y, sub(r->g, dy, along));
}

/* Casts weights to the dtype of `like`; dequantizes them if needed. */
static inline ig_value as_numbers(const ig_grad *r, ig_value weights, ig_value like) {
    const ig_dtype dtype = dtype_of(r, like);
    if (dtype_of(r, weights) == dtype) return weights;
    return ig_build(r->g, IG_OP_CAST, &(ig_attrs_dtype){dtype}, &weights, 1);
}

#endif
