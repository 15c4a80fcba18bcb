/* backward.h - from a loss to the gradients of what it came from. */
#ifndef IG_AUTOGRAD_BACKWARD_H
#define IG_AUTOGRAD_BACKWARD_H

#include "graph/graph.h"

/* What to do with the gradient of a leaf that asked for one; its failure ends the backward. */
typedef ig_status ig_grad_sink(void *user, ig_value leaf, ig_value grad);

/* Whether the sink will add the leaf's gradient to one that it has already. */
typedef bool ig_grad_adds(void *user, ig_value leaf);

/* Asked of every value that a rule may read: an error if it has been overwritten since. */
typedef ig_status ig_grad_check(void *user, const ig_value_info *value);

typedef struct ig_backward_args {
    ig_value loss;    /* one element */
    bool keep_nodes;  /* what is built here stays in the graph: it is recorded */
    bool keep_memory; /* nothing is dropped: what is built has not run */
    ig_grad_check *check;
    ig_grad_adds *adds;
    ig_grad_sink *sink;
    void *user;
} ig_backward_args;

/*
 * Builds the gradients of the nodes behind `loss`, newest first, and hands those
 * of leaves to the sink: those that are added to others at the end, when nothing can
 * fail any more but adding.  Memory is dropped as soon as nothing needs it: of
 * each node's outputs when its rule has run, and of gradients when they have
 * been used.  The nodes are spent afterwards; what was built here is cut off,
 * unless it is to stay.
 */
IG_MUST_CHECK ig_status ig_graph_backward(ig_graph *g, ig_backward_args args);

#endif
