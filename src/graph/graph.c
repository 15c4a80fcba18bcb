#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

ig_status ig_graph_init(ig_graph *g, const ig_allocator *allocator, ig_graph_hooks hooks) {
    *g = (ig_graph){.allocator = allocator, .hooks = hooks, .n_values = 1};
    g->error = ig_alloc(allocator, IG_ERROR_TEXT_BYTES, 1);
    if (g->error && IG_GROW(allocator, g->values, &g->values_room, 1)) return IG_OK;
    ig_graph_deinit(g);
    return IG_FAIL(IG_ERR_MEMORY, "graph");
}

void ig_graph_deinit(ig_graph *g) {
    if (g->values) ig_graph_cut(g, (ig_graph_mark){.n_values = 1});
    ig_free(g->allocator, g->error);
    ig_free(g->allocator, g->nodes);
    ig_free(g->allocator, g->values);
    ig_free(g->allocator, g->inputs);
    ig_free(g->allocator, g->attrs);
    *g = (ig_graph){0};
}

ig_graph_mark ig_graph_get_mark(const ig_graph *g) {
    return (ig_graph_mark){g->n_nodes, g->n_values, g->n_inputs, g->n_attrs};
}

void ig_graph_cut(ig_graph *g, ig_graph_mark mark) {
    for (size_t v = mark.n_values; v < g->n_values && g->hooks.drop; v++)
        g->hooks.drop(g->hooks.user, &g->values[v]);
    g->n_nodes = mark.n_nodes;
    g->n_values = mark.n_values;
    g->n_inputs = mark.n_inputs;
    g->n_attrs = mark.n_attrs;
}

void ig_graph_stick(ig_graph *g, ig_status status) {
    if (g->status != IG_OK) return;
    g->status = status;
    snprintf(g->error, IG_ERROR_TEXT_BYTES, "%s", ig_error_text());
}

ig_status ig_graph_take_error(ig_graph *g) {
    const ig_status status = g->status;
    g->status = IG_OK;
    return status == IG_OK ? IG_OK : ig_fail(status, NULL, 0, "%s", g->error);
}

ig_value ig_graph_leaf(ig_graph *g, ig_layout layout) {
    if (g->status != IG_OK) return IG_NO_VALUE;
    if (!IG_GROW(g->allocator, g->values, &g->values_room, g->n_values + 1)) {
        ig_graph_stick(g, IG_FAIL(IG_ERR_MEMORY, "graph: %zu values", g->n_values));
        return IG_NO_VALUE;
    }
    const ig_value v = (ig_value)g->n_values++;
    g->values[v] = (ig_value_info){.layout = layout, .base = v, .node = IG_NO_NODE};
    return v;
}
