/* view.h - views as layouts: which elements of the input's memory a view op refers to. */
#ifndef IG_GRAPH_VIEW_H
#define IG_GRAPH_VIEW_H

#include "graph/layout.h"
#include "ingot/op.h"

/*
 * Computes the layout of a view op's result; its desc comes from ig_infer(). False: no strides can
 * express it, and the input must be copied first (reshape only).
 */
bool ig_view(ig_op op, const void *attrs, const ig_layout *in, ig_desc desc, ig_layout *out);

/* The layout broadcast to `shape`: missing dimensions and dimensions of extent 1 repeat. */
ig_layout ig_view_broadcast(const ig_layout *in, ig_shape shape);

#endif
