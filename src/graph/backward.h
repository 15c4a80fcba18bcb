/* backward.h - reverse-mode differentiation: builds the gradients of a loss. */
#ifndef IG_GRAPH_BACKWARD_H
#define IG_GRAPH_BACKWARD_H

#include "graph/graph.h"

/* Receives the gradient of a leaf that requires one; a failure ends the backward pass. */
typedef ig_status ig_grad_sink(void *user, ig_value leaf, ig_value grad);

/* Whether the sink will accumulate the leaf's gradient into an existing one. */
typedef bool ig_grad_adds(void *user, ig_value leaf);

/* Called for every value that a rule may read: fails if it has been overwritten since. */
typedef ig_status ig_grad_check(void *user, const ig_value_info *value);

typedef struct ig_backward_args {
    ig_value loss;    /* a single element */
    bool keep_nodes;  /* the new nodes stay in the graph: it is being recorded */
    bool keep_memory; /* nothing is dropped: the new nodes have not run yet */
    ig_grad_check *check;
    ig_grad_adds *adds;
    ig_grad_sink *sink;
    void *user;
} ig_backward_args;

/*
 * Builds the gradients of the nodes that `loss` depends on, in reverse order, and passes those of
 * leaves to the sink: accumulated ones last, when only the accumulation can still fail. Memory is
 * dropped as early as possible: a node's outputs after its rule, gradients after their last use.
 * Afterwards the nodes are spent, and the new nodes are removed unless keep_nodes.
 */
IG_MUST_CHECK ig_status ig_graph_backward(ig_graph *g, ig_backward_args args);

#endif
