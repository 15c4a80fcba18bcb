#include "graph/backward.h"

#include <string.h>

#include "graph/grad_rules.h"

typedef struct pass {
    ig_graph *g;
    const ig_backward_args *args;
    ig_graph_mark mark; /* state of the graph before the first gradient */
    ig_value *grads;    /* gradient of each value below the mark */
    bool *wanted;       /* for the inputs of one node */
    ig_value *din;
} pass;

static void drop(const pass *p, ig_value v) {
    if (p->g->hooks.drop && !p->args->keep_memory)
        p->g->hooks.drop(p->g->hooks.user, ig_value_at(p->g, v));
}

static bool has_grad(const pass *p, const ig_node *node) {
    for (uint32_t i = 0; i < node->n_out; i++)
        if (p->grads[node->out + i] != IG_NO_VALUE) return true;
    return false;
}

/* Checks that no value the rule may read has been overwritten since. */
static ig_status check(const pass *p, const ig_node *node) {
    if (node->spent)
        return IG_FAIL(IG_ERR_STATE,
                       "backward: %s belongs to a loss that a backward has gone through already; "
                       "sum the losses and call ig_backward() once",
                       ig_op_name(node->op));
    const ig_value *in = ig_node_in(p->g, node);
    for (uint32_t i = 0; i < node->n_in; i++)
        IG_TRY(p->args->check(p->args->user, ig_value_at(p->g, in[i])));
    return IG_OK;
}

/* Sets the gradient of a value, or adds to it if the value has several uses. */
static void add_to(const pass *p, ig_value v, ig_value d) {
    const ig_value before = p->grads[v];
    p->grads[v] = before == IG_NO_VALUE ? d : ig_build_binary(p->g, IG_OP_ADD, before, d);
    if (before != IG_NO_VALUE) drop(p, before);
}

/*
 * A rule may return a gradient that it was given, or the same value for two inputs. Each pending
 * gradient is dropped separately, so such a value gets an id of its own: a view of the same memory.
 */
static ig_value own(const pass *p, uint32_t i, size_t first) {
    bool shared = p->din[i] < first;
    for (uint32_t j = 0; j < i; j++) shared |= p->din[j] == p->din[i];
    return shared ? ig_build_reshape(p->g, p->din[i], ig_value_shape(p->g, p->din[i])) : p->din[i];
}

/* Drops the values built since `first`, except pending gradients of the node's inputs. */
static void tidy(const pass *p, const ig_node *node, size_t first) {
    const ig_value *in = ig_node_in(p->g, node);
    for (size_t v = first; v < p->g->n_values; v++) {
        bool waits = false;
        for (uint32_t i = 0; i < node->n_in; i++) waits |= p->grads[in[i]] == v;
        if (!waits) drop(p, (ig_value)v);
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (p->grads[node->out + i] != IG_NO_VALUE) drop(p, p->grads[node->out + i]);
        drop(p, node->out + i);
    }
}

static ig_status go_through(const pass *p, uint32_t id) {
    ig_graph *g = p->g;
    const ig_node node = g->nodes[id]; /* a copy: rules may reallocate the array */
    const size_t first = g->n_values;
    IG_TRY(check(p, &node));
    for (uint32_t i = 0; i < node.n_in; i++) {
        p->wanted[i] = ig_value_at(g, ig_node_in(g, &node)[i])->carries_grad;
        p->din[i] = IG_NO_VALUE;
    }
    ig_value out[IG_MAX_OUT];
    for (uint32_t i = 0; i < node.n_out; i++) out[i] = node.out + i;

    /* The rule reads attributes and inputs while the pools may be reallocated: copy them, too. */
    _Alignas(16) char attrs[IG_ATTRS_MAX];
    memcpy(attrs, ig_node_attrs(g, &node), ig_op_find(node.op)->attrs_bytes);
    ig_value *in = p->din + node.n_in;
    const ig_tag tag = g->tag;
    g->tag = (ig_tag)node.tag; /* gradients inherit the tag of the forward op */
    memcpy(in, ig_node_in(g, &node), node.n_in * sizeof *in);
    ig_grad_rules[node.op](&(ig_grad){g, id, (ig_op)node.op, attrs, node.n_in, node.n_out, in, out,
                                      &p->grads[node.out], p->wanted, p->din});

    for (uint32_t i = 0; i < node.n_in && g->status == IG_OK; i++)
        if (p->wanted[i] && p->din[i] != IG_NO_VALUE) add_to(p, in[i], own(p, i, first));
    g->tag = tag;
    IG_TRY(ig_graph_take_error(g));
    tidy(p, &node, first);
    g->nodes[id].spent = true;
    return IG_OK;
}

static ig_status sink(const pass *p, ig_value leaf) {
    IG_TRY(p->args->sink(p->args->user, leaf, p->grads[leaf]));
    drop(p, p->grads[leaf]);
    p->grads[leaf] = IG_NO_VALUE;
    return IG_OK;
}

static bool is_leaf_with_grad(const pass *p, ig_value v) {
    const ig_value_info *info = ig_value_at(p->g, v);
    return info->node == IG_NO_NODE && info->source && p->grads[v] != IG_NO_VALUE;
}

static ig_status walk(const pass *p) {
    ig_graph *g = p->g;
    const ig_value loss = p->args->loss;
    p->grads[loss] = ig_build_full(g, ig_value_at(g, loss)->layout.desc, 1);
    IG_TRY(ig_graph_take_error(g));

    /* Ids ascend and this walk descends, so value v has the gradients of all its uses. Leaves lie
     * between the nodes' outputs. */
    uint32_t node = (uint32_t)p->mark.n_nodes;
    for (ig_value v = (ig_value)p->mark.n_values - 1; v > 0; v--) {
        const uint32_t of = ig_value_at(g, v)->node;
        if (is_leaf_with_grad(p, v) && !p->args->adds(p->args->user, v)) {
            IG_TRY(sink(p, v));
        } else if (of != IG_NO_NODE && of < node) { /* the last output of its node */
            node = of;
            if (has_grad(p, &g->nodes[node])) IG_TRY(go_through(p, node));
        }
    }
    for (ig_value v = (ig_value)p->mark.n_values - 1; v > 0; v--)
        if (is_leaf_with_grad(p, v)) IG_TRY(sink(p, v));
    return IG_OK;
}

static uint32_t most_inputs(const ig_graph *g) {
    uint32_t most = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].n_in > most) most = g->nodes[i].n_in;
    return most;
}

ig_status ig_graph_backward(ig_graph *g, ig_backward_args args) {
    const uint32_t inputs = most_inputs(g);
    pass p = {.g = g, .args = &args, .mark = ig_graph_get_mark(g)};
    p.grads = ig_alloc(g->allocator, g->n_values, sizeof *p.grads);
    p.wanted = ig_alloc(g->allocator, inputs, sizeof *p.wanted);
    p.din = ig_alloc(g->allocator, (size_t)inputs * 2, sizeof *p.din);
    ig_status status = IG_OK;
    if (!p.grads || !p.wanted || !p.din)
        status = IG_FAIL(IG_ERR_MEMORY, "backward: %zu values", g->n_values);
    if (status == IG_OK) status = walk(&p);
    if (status != IG_OK || !args.keep_nodes) ig_graph_cut(g, p.mark);
    ig_free(g->allocator, p.din);
    ig_free(g->allocator, p.wanted);
    ig_free(g->allocator, p.grads);
    return status;
}
