/* view.h - views as layouts: which elements of the input's memory a view op shows. */
#ifndef IG_OP_VIEW_H
#define IG_OP_VIEW_H

#include "ingot/op.h"
#include "graph/layout.h"

/*
 * The layout of a view op's result, whose desc ig_infer() has given.  False: the
 * elements do not lie evenly enough for it, and the input must be copied first
 * (reshape only).
 */
bool ig_view(ig_op op, const void *attrs, const ig_layout *in, ig_desc desc, ig_layout *out);

/* The layout as an op of shape `shape` sees it: missing and single dimensions repeat. */
ig_layout ig_view_broadcast(const ig_layout *in, ig_shape shape);

#endif
