/*
 * build.h - building a graph, op by op.
 *
 * Gradient rules are written with these functions. The shape of a value is known as soon as it is
 * built: ig_value_shape().
 */
#ifndef IG_GRAPH_BUILD_H
#define IG_GRAPH_BUILD_H

#include "graph/graph.h"

/* One op to build. NULL attrs are all zero; n_out 0 is the op's minimum. */
typedef struct ig_build_args {
    ig_op op;
    const void *attrs;
    const ig_value *in;
    uint32_t n_in, n_out;
    const ig_desc *desc; /* of CUSTOM: its outputs; else NULL: the op's shape rule infers them */
} ig_build_args;

/* The shape attribute of reshape and broadcast; truncates an invalid rank. */
ig_attrs_shape ig_shape_attrs(ig_shape shape);

/* Returns the first output; the others have the next ids. */
ig_value ig_build_op(ig_graph *g, ig_build_args args);
ig_value ig_build(ig_graph *g, ig_op op, const void *attrs, const ig_value *in, uint32_t n_in);

ig_value ig_build_unary(ig_graph *g, ig_op op, ig_value x);
ig_value ig_build_binary(ig_graph *g, ig_op op, ig_value a, ig_value b);
ig_value ig_build_scale(ig_graph *g, ig_value x, double scale, double shift); /* scale x + shift */
ig_value ig_build_full(ig_graph *g, ig_desc desc, double value);
ig_value ig_build_reshape(ig_graph *g, ig_value x, ig_shape shape);
ig_value ig_build_broadcast(ig_graph *g, ig_value x, ig_shape shape);
ig_value ig_build_slice(ig_graph *g, ig_value x, int axis, int64_t begin, int64_t end);
ig_value ig_build_rows(ig_graph *g, ig_value x); /* [..., n] -> [rows, n] */
ig_value ig_build_reduce(ig_graph *g, ig_op op, ig_value x, uint32_t axes, bool keep);
ig_value ig_build_sum_to(ig_graph *g, ig_value x, ig_shape shape); /* undoes a broadcast */

#endif
