#include "graph/build.h"

#include <string.h>

#include "graph/shape_rules.h"
#include "graph/view.h"

enum { MANY_INPUTS = 64 }; /* more inputs are allocated on the heap */

/* Reserves memory for a node, its outputs, inputs and attributes. */
static bool reserve(ig_graph *g, const ig_build_args *a, size_t attrs_bytes) {
    const ig_allocator *al = g->allocator;
    return IG_GROW(al, g->nodes, &g->nodes_room, g->n_nodes + 1) &&
           IG_GROW(al, g->values, &g->values_room, g->n_values + a->n_out) &&
           IG_GROW(al, g->inputs, &g->inputs_room, g->n_inputs + a->n_in) &&
           IG_GROW(al, g->attrs, &g->attrs_room, g->n_attrs + attrs_bytes);
}

static ig_status describe(const ig_graph *g, const ig_build_args *a, const void *attrs,
                          ig_desc *out) {
    if (a->desc) {
        memcpy(out, a->desc, a->n_out * sizeof *out);
        return IG_OK;
    }
    ig_desc few[MANY_INPUTS], *in = few;
    if (a->n_in > MANY_INPUTS) in = ig_alloc(g->allocator, a->n_in, sizeof *in);
    if (!in) return IG_FAIL(IG_ERR_MEMORY, "%s: %u inputs", ig_op_name(a->op), a->n_in);
    few[0] = (ig_desc){0}; /* silences a warning about ops without inputs */
    for (uint32_t i = 0; i < a->n_in; i++) in[i] = g->values[a->in[i]].layout.desc;
    const ig_status status = ig_infer(a->op, attrs, in, a->n_in, out, a->n_out);
    if (in != few) ig_free(g->allocator, in);
    return status;
}

/* The default tag of an op. */
static ig_tag tag_of(ig_op op) {
    static const uint8_t tags[IG_OP_COUNT] = {
        [IG_OP_MATMUL] = IG_TAG_MATMUL,
        [IG_OP_RMS_NORM] = IG_TAG_NORM,
        [IG_OP_RMS_NORM_GRAD] = IG_TAG_NORM,
        [IG_OP_LAYER_NORM] = IG_TAG_NORM,
        [IG_OP_LAYER_NORM_GRAD] = IG_TAG_NORM,
        [IG_OP_ATTENTION] = IG_TAG_ATTENTION,
        [IG_OP_ATTENTION_GRAD] = IG_TAG_ATTENTION,
        [IG_OP_ATTENTION_PAGED] = IG_TAG_ATTENTION,
        [IG_OP_STORE_ROWS] = IG_TAG_ATTENTION,
        [IG_OP_ADAMW] = IG_TAG_OPTIMIZER,
        [IG_OP_SGD] = IG_TAG_OPTIMIZER,
        [IG_OP_GLOBAL_NORM] = IG_TAG_OPTIMIZER,
        [IG_OP_CLIP] = IG_TAG_OPTIMIZER,
    };
    return (ig_tag)tags[op];
}

static uint32_t append(ig_graph *g, const ig_build_args *a, const void *attrs,
                       const ig_desc *desc) {
    const ig_op_info *info = ig_op_find(a->op);
    const uint32_t id = (uint32_t)g->n_nodes++;
    ig_node *node = &g->nodes[id];
    *node = (ig_node){.op = (uint16_t)a->op,
                      .tag = (uint16_t)(g->tag != IG_TAG_NONE ? g->tag : tag_of(a->op)),
                      .attrs = (uint32_t)g->n_attrs,
                      .in = (uint32_t)g->n_inputs,
                      .n_in = a->n_in,
                      .out = (ig_value)g->n_values,
                      .n_out = a->n_out};
    if (info->attrs_bytes) memcpy(&g->attrs[g->n_attrs], attrs, info->attrs_bytes);
    if (a->n_in) memcpy(&g->inputs[g->n_inputs], a->in, a->n_in * sizeof *a->in);
    g->n_attrs += (info->attrs_bytes + 7u) & ~7u; /* attribute structs are aligned to 8 bytes */
    g->n_inputs += a->n_in;

    for (uint32_t i = 0; i < a->n_out; i++) {
        const ig_value v = (ig_value)g->n_values++;
        g->values[v] = (ig_value_info){.layout = ig_layout_packed(desc[i]), .base = v, .node = id};
    }
    return id;
}

/* A view aliases its input's memory; an update's results alias its inputs. */
static bool lay(ig_graph *g, const ig_node *node) {
    const uint32_t traits = ig_op_find(node->op)->traits;
    ig_value_info *out = &g->values[node->out];
    if (traits & IG_VIEWS) {
        const ig_value_info *in = &g->values[ig_node_in(g, node)[0]];
        const ig_desc desc = out->layout.desc;
        out->base = in->base;
        return ig_view((ig_op)node->op, ig_node_attrs(g, node), &in->layout, desc, &out->layout);
    }
    for (uint32_t i = 0; traits & IG_UPDATES && i < node->n_out; i++) {
        const ig_value v = ig_node_in(g, node)[ig_update_alias(i)];
        out[i].layout = g->values[v].layout;
        out[i].base = g->values[v].base;
    }
    return true;
}

ig_value ig_build_op(ig_graph *g, ig_build_args a) {
    static const char zeros[IG_ATTRS_MAX];
    const ig_op_info *info = ig_op_find(a.op);
    const void *attrs = a.attrs ? a.attrs : zeros;
    ig_desc desc[IG_MAX_OUT];
    if (a.n_out == 0) a.n_out = info->out_min;
    if (g->status != IG_OK) return IG_NO_VALUE;
    for (uint32_t i = 0; i < a.n_in; i++)
        if (a.in[i] == IG_NO_VALUE) return IG_NO_VALUE;

    ig_status status = describe(g, &a, attrs, desc);
    if (status == IG_OK && !reserve(g, &a, info->attrs_bytes + 8u))
        status = IG_FAIL(IG_ERR_MEMORY, "%s: graph of %zu nodes", info->name, g->n_nodes);
    if (status != IG_OK) {
        ig_graph_stick(g, status);
        return IG_NO_VALUE;
    }

    const ig_graph_mark mark = ig_graph_get_mark(g);
    const uint32_t node = append(g, &a, attrs, desc);
    if (!lay(g, &g->nodes[node])) { /* a reshape that no strides can express */
        ig_graph_cut(g, mark);
        const ig_value packed = ig_build_unary(g, IG_OP_COPY, a.in[0]);
        a.in = &packed;
        return ig_build_op(g, a);
    }
    if (g->hooks.run) status = g->hooks.run(g->hooks.user, g, node);
    if (status == IG_OK) return g->nodes[node].out;
    ig_graph_stick(g, status);
    ig_graph_cut(g, mark);
    return IG_NO_VALUE;
}

ig_value ig_build(ig_graph *g, ig_op op, const void *attrs, const ig_value *in, uint32_t n_in) {
    return ig_build_op(g, (ig_build_args){.op = op, .attrs = attrs, .in = in, .n_in = n_in});
}

ig_value ig_build_unary(ig_graph *g, ig_op op, ig_value x) { return ig_build(g, op, NULL, &x, 1); }

ig_value ig_build_binary(ig_graph *g, ig_op op, ig_value a, ig_value b) {
    return ig_build(g, op, NULL, (ig_value[]){a, b}, 2);
}

ig_value ig_build_scale(ig_graph *g, ig_value x, double scale, double shift) {
    return ig_build(g, IG_OP_SCALE, &(ig_attrs_scale){scale, shift}, &x, 1);
}

ig_attrs_shape ig_shape_attrs(ig_shape shape) {
    ig_attrs_shape attrs = {.rank = shape.rank};
    for (int d = 0; d < shape.rank && d < IG_MAX_RANK; d++) attrs.dim[d] = shape.dim[d];
    return attrs;
}

ig_value ig_build_reshape(ig_graph *g, ig_value x, ig_shape shape) {
    const ig_attrs_shape attrs = ig_shape_attrs(shape);
    return ig_build(g, IG_OP_RESHAPE, &attrs, &x, 1);
}

ig_value ig_build_broadcast(ig_graph *g, ig_value x, ig_shape shape) {
    const ig_attrs_shape attrs = ig_shape_attrs(shape);
    return ig_build(g, IG_OP_BROADCAST, &attrs, &x, 1);
}

ig_value ig_build_full(ig_graph *g, ig_desc desc, double value) {
    const ig_attrs_fill attrs = {value, desc.dtype, 0};
    const ig_value one = ig_build(g, IG_OP_FILL, &attrs, NULL, 0);
    return desc.shape.rank == 0 ? one : ig_build_broadcast(g, one, desc.shape);
}

ig_value ig_build_slice(ig_graph *g, ig_value x, int axis, int64_t begin, int64_t end) {
    return ig_build(g, IG_OP_SLICE, &(ig_attrs_slice){begin, end, axis, 0}, &x, 1);
}

ig_value ig_build_rows(ig_graph *g, ig_value x) {
    if (g->status != IG_OK || x == IG_NO_VALUE) return IG_NO_VALUE;
    const ig_shape shape = ig_value_shape(g, x);
    if (shape.rank == 2) return x;
    int64_t rows = 1;
    for (int d = 0; d < shape.rank - 1; d++) rows *= shape.dim[d];
    return ig_build_reshape(g, x, IG_SHAPE(rows, shape.dim[shape.rank - 1]));
}

ig_value ig_build_reduce(ig_graph *g, ig_op op, ig_value x, uint32_t axes, bool keep) {
    return ig_build(g, op, &(ig_attrs_reduce){axes, keep}, &x, 1);
}

ig_value ig_build_sum_to(ig_graph *g, ig_value x, ig_shape shape) {
    if (g->status != IG_OK || x == IG_NO_VALUE) return IG_NO_VALUE;
    const ig_shape wide = ig_value_shape(g, x);
    const int added = wide.rank - shape.rank;
    uint32_t axes = 0;
    for (int d = 0; d < wide.rank; d++)
        if (d < added || (shape.dim[d - added] == 1 && wide.dim[d] != 1)) axes |= 1u << d;
    if (axes == 0) return x;
    const ig_value sum = ig_build_reduce(g, IG_OP_SUM, x, axes, false);
    if (sum == IG_NO_VALUE || ig_shape_equal(ig_value_shape(g, sum), shape)) return sum;
    return ig_build_reshape(g, sum, shape);
}
