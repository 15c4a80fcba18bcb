/*
 * graph.h - the IR: a flat array of typed ops in SSA form.
 *
 * Nodes refer to values by id, values to the node that computes them. Node and value ids ascend in
 * build order, so an input's id is always smaller than the output's, and truncating the arrays at a
 * mark undoes everything built since. Attributes and input lists are in two pools beside the nodes.
 *
 * Building only records; the owner of the graph may run each node as it is built (ig_graph_hooks).
 * Builders return a value and never a status, so expressions nest: the first error sticks, later
 * builders return IG_NO_VALUE, and ig_graph_take_error() returns it.
 */
#ifndef IG_GRAPH_GRAPH_H
#define IG_GRAPH_GRAPH_H

#include "base/alloc.h"
#include "graph/layout.h"
#include "ingot/op.h"

typedef uint32_t ig_value; /* SSA id, from 1 */
enum { IG_NO_VALUE = 0 };
#define IG_NO_NODE UINT32_MAX /* does not fit an enum */

typedef struct ig_node {
    uint16_t op;
    uint16_t tag;   /* ig_tag, 0 for none */
    bool spent;     /* already differentiated by a backward pass */
    uint32_t attrs; /* offset in the pool of attributes */
    uint32_t in;    /* offset in the pool of inputs */
    uint32_t n_in;
    ig_value out; /* the first output; the others have the next ids */
    uint32_t n_out;
} ig_node;

typedef struct ig_value_info {
    ig_layout layout;
    ig_value base;     /* of a view: the value that owns the memory; else the value itself */
    uint32_t node;     /* that computes it; IG_NO_NODE: a leaf */
    uint32_t version;  /* version of its memory when it was built */
    bool carries_grad; /* depends on a leaf that requires a gradient */
    void *memory;      /* owned by the graph's owner */
    void *source;      /* of a leaf: the tensor it stands for */
} ig_value_info;

typedef struct ig_graph ig_graph;

/* All may be NULL. run() sets the `memory` of a new node's outputs; its failure sticks. */
typedef struct ig_graph_hooks {
    ig_status (*run)(void *user, ig_graph *g, uint32_t node);
    void (*drop)(void *user, ig_value_info *value); /* its memory is no longer needed */
    /* Gradients of a CUSTOM node: dout and din as in graph/grad_rules.h. */
    ig_status (*custom_grad)(void *user, ig_graph *g, uint32_t node, const ig_value *dout,
                             ig_value *din);
    void *user;
} ig_graph_hooks;

struct ig_graph {
    const ig_allocator *allocator;
    ig_graph_hooks hooks;
    ig_node *nodes;
    ig_value_info *values; /* [0] is IG_NO_VALUE */
    ig_value *inputs;
    char *attrs;
    size_t n_nodes, n_values, n_inputs, n_attrs;
    size_t nodes_room, values_room, inputs_room, attrs_room;
    ig_tag tag;       /* tag of new nodes; IG_TAG_NONE: the op's default */
    ig_status status; /* the first error, */
    char *error;      /* and its message */
};

enum { IG_ERROR_TEXT_BYTES = 512 };

typedef struct ig_graph_mark {
    size_t n_nodes, n_values, n_inputs, n_attrs;
} ig_graph_mark;

IG_MUST_CHECK ig_status ig_graph_init(ig_graph *g, const ig_allocator *allocator,
                                      ig_graph_hooks hooks);
void ig_graph_deinit(ig_graph *g);

ig_graph_mark ig_graph_get_mark(const ig_graph *g);
void ig_graph_cut(ig_graph *g, ig_graph_mark mark); /* drops the memory of removed values */

/* Reports the sticky error, if there is one, and clears it. */
IG_MUST_CHECK ig_status ig_graph_take_error(ig_graph *g);
/* Makes the thread's last failure the graph's sticky error, unless it has one. */
void ig_graph_stick(ig_graph *g, ig_status status);

/* Adds a value that no node computes. */
ig_value ig_graph_leaf(ig_graph *g, ig_layout layout);

static inline ig_value_info *ig_value_at(const ig_graph *g, ig_value v) { return &g->values[v]; }
static inline const ig_value *ig_node_in(const ig_graph *g, const ig_node *node) {
    return &g->inputs[node->in];
}
static inline const void *ig_node_attrs(const ig_graph *g, const ig_node *node) {
    return &g->attrs[node->attrs];
}
static inline ig_shape ig_value_shape(const ig_graph *g, ig_value v) {
    return g->values[v].layout.desc.shape;
}

#endif
