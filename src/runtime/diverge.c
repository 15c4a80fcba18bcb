/*
 * When a step is not the recorded one after all.
 *
 * What has been verified is rebuilt in the context's graph, as if it had been
 * Dynamic from the start: the nodes are copied, those that have not run are run,
 * and the handles that were handed out become ordinary tensors.  Then the step
 * goes on, recorded with the same beginning.
 *
 * Parts that ran before a read are run again, unless they have updated
 * something; then what they computed is taken out of the arena, as far as it is
 * there still.
 */
#include <string.h>

#include "runtime/ctx.h"

typedef struct divergence {
    ig_ctx *ctx;
    ig_recording *from, *to;
    uint32_t n_events, n_nodes; /* verified */
    uint32_t n_run;             /* of these nodes, those that ran and are not run again */
    uint32_t n_cells;
} divergence;

/* Copies the beginning of an array. */
#define COPY(d, items, room, n)                                                            \
    (IG_GROW(&(d)->ctx->allocator, (d)->to->items, &(d)->to->room, n) &&                   \
     ((n) == 0 || memcpy((d)->to->items, (d)->from->items, (n) * sizeof *(d)->to->items)))

/* The verified events, as the beginning of a new recording. */
static bool copy_events(divergence *d) {
    const ig_recording *f = d->from;
    ig_recording *t = d->to;
    const ig_event *last = d->n_events ? &f->events[d->n_events - 1] : NULL;
    t->n_events = d->n_events;
    t->n_refs = last ? last->refs + last->n_refs : 0;
    t->n_cells = d->n_cells;
    t->n_attrs = last ? last->attrs : 0;
    if (last && last->kind <= IG_EVENT_UPDATE) t->n_attrs += ig_op_find(last->op)->attrs_bytes;
    t->n_grads = last ? last->grads + last->n_grads : 0;
    t->n_leaves = d->ctx->recorder.n_bound;
    for (size_t i = 0; i < t->n_refs; i++)
        if (f->refs[i].kind == IG_REF_STATE && f->refs[i].index >= t->n_states)
            t->n_states = f->refs[i].index + 1;
    while (last && t->n_binds < f->n_binds && f->binds[t->n_binds].value < last->value_end) {
        const ig_ref ref = f->binds[t->n_binds++].ref; /* gradients are states that no event names */
        if (ref.kind == IG_REF_STATE && ref.index >= t->n_states) t->n_states = ref.index + 1;
    }
    if (!COPY(d, events, events_room, t->n_events) || !COPY(d, refs, refs_room, t->n_refs) ||
        !COPY(d, cells, cells_room, t->n_cells) || !COPY(d, attrs, attrs_room, t->n_attrs) ||
        !COPY(d, grads, grads_room, t->n_grads) || !COPY(d, states, states_room, t->n_states) ||
        !COPY(d, leaves, leaves_room, t->n_leaves) || !COPY(d, binds, binds_room, t->n_binds) ||
        !COPY(d, spent_at, spent_room, d->n_nodes))
        return false;
    for (size_t i = 0; i < t->n_cells; i++) t->cells[i].handle = NULL;
    for (size_t i = 0; i < d->n_nodes; i++)
        if (t->spent_at[i] > d->n_events) t->spent_at[i] = 0;
    return true;
}

/* Nodes and values, without memory. */
static bool copy_graph(const divergence *d) {
    const ig_graph *f = &d->from->graph;
    ig_graph *g = &d->ctx->graph;
    const ig_allocator *a = &d->ctx->allocator;
    const ig_node *end = d->n_nodes < f->n_nodes ? &f->nodes[d->n_nodes] : NULL;
    const size_t n_inputs = end ? end->in : f->n_inputs, n_attrs = end ? end->attrs : f->n_attrs;
    const size_t n_values = d->n_events ? d->from->events[d->n_events - 1].value_end : 1;
    if (!IG_GROW(a, g->nodes, &g->nodes_room, d->n_nodes) ||
        !IG_GROW(a, g->values, &g->values_room, n_values) ||
        !IG_GROW(a, g->inputs, &g->inputs_room, n_inputs) ||
        !IG_GROW(a, g->attrs, &g->attrs_room, n_attrs))
        return false;
    if (d->n_nodes) memcpy(g->nodes, f->nodes, d->n_nodes * sizeof *g->nodes);
    memcpy(g->values, f->values, n_values * sizeof *g->values);
    if (n_inputs) memcpy(g->inputs, f->inputs, n_inputs * sizeof *g->inputs);
    if (n_attrs) memcpy(g->attrs, f->attrs, n_attrs);
    g->n_nodes = d->n_nodes;
    g->n_values = n_values;
    g->n_inputs = n_inputs;
    g->n_attrs = n_attrs;
    for (size_t i = 0; i < d->n_nodes; i++) g->nodes[i].spent = d->to->spent_at[i] != 0;
    return true;
}

static void bind_leaves(const divergence *d) {
    ig_ctx *ctx = d->ctx;
    for (size_t i = 0; i < d->to->n_binds; i++) {
        const ig_bind *b = &d->to->binds[i];
        ig_tensor *t = ig_replay_bound(ctx, b->ref);
        ig_value_info *info = ig_value_at(&ctx->graph, b->value);
        info->memory = ig_storage_retain(t->storage);
        info->version = t->storage->version;
        if (info->carries_grad) info->source = ig_tensor_retain(t);
        t->value = b->value;
        t->tape = ctx->tape;
    }
}

/* Takes what the parts that ran have left out of the arena. */
static ig_status take_out(const divergence *d) {
    ig_ctx *ctx = d->ctx;
    ig_graph *g = &ctx->graph;
    const ig_plan *plan = d->from->plan;
    const uint32_t level = plan->part_levels[ctx->recorder.part]; /* of the next part */
    for (ig_value v = 1; v < g->n_values; v++) {
        ig_value_info *info = ig_value_at(g, v);
        if (info->node == IG_NO_NODE || info->node >= d->n_run) continue;
        const ig_value_info *base = ig_value_at(g, info->base);
        if (info->base != v) { /* a view, or an update of something bound */
            if (base->memory) info->memory = ig_storage_retain(base->memory);
            if (base->memory) info->version = ((ig_storage *)base->memory)->version;
            continue;
        }
        const ig_home home = plan->homes[v];
        if (home.offset == IG_NOT_THERE || home.last < level) continue; /* it is gone */
        uint64_t bytes = 0;
        ig_storage *own = NULL;
        (void)ig_desc_bytes(info->layout.desc, &bytes);
        IG_TRY(ig_storage_create(ctx, bytes, &own));
        memcpy((void *)own->buffer, (const char *)ctx->arena.buffer + home.offset, bytes);
        info->memory = own;
    }
    return IG_OK;
}

/* Runs the nodes of each event as they ran when they were recorded. */
static ig_status run_rest(const divergence *d) {
    ig_ctx *ctx = d->ctx;
    const uint32_t no_grad = ctx->no_grad;
    ig_status status = IG_OK;
    uint32_t node = 0;
    for (uint32_t i = 0; i < d->n_events && status == IG_OK; i++) {
        const ig_event *e = &d->to->events[i];
        ctx->no_grad = e->no_grad || e->kind != IG_EVENT_OP;
        for (; node < e->node_end && status == IG_OK; node++)
            if (node >= d->n_run) status = ctx->graph.hooks.run(ctx, &ctx->graph, node);
    }
    ctx->no_grad = no_grad;
    return status;
}

/* The newest version of everything that was updated. */
static void set_versions(const divergence *d) {
    ig_ctx *ctx = d->ctx;
    const ig_graph *g = &ctx->graph;
    for (uint32_t i = 0; i < d->n_nodes; i++) {
        const ig_node *node = &g->nodes[i];
        for (uint32_t j = 0; ig_op_find(node->op)->traits & IG_UPDATES && j < node->n_out; j++)
            for (size_t k = 0; k < d->to->n_binds; k++) {
                if (d->to->binds[k].value != ig_value_at(g, node->out + j)->base) continue;
                ig_replay_bound(ctx, d->to->binds[k].ref)->value = node->out + j;
            }
    }
}

static void free_handles(const divergence *d) {
    ig_ctx *ctx = d->ctx;
    for (uint32_t i = 0; i < d->n_cells; i++) {
        ig_tensor *t = d->from->cells[i].handle;
        d->from->cells[i].handle = NULL;
        if (!t) continue;
        const bool held = t->alive == IG_TENSOR_ALIVE;
        const ig_value_info *info = ig_value_at(&ctx->graph, d->to->cells[i].value);
        ig_storage *old = t->storage;
        t->layout = info->layout;
        t->storage = info->memory ? ig_storage_retain(info->memory) : NULL;
        t->value = d->to->cells[i].value;
        t->tape = ctx->tape;
        ig_storage_release(ctx, old);
        t->replayed = false;
        if (held) t->refs--;
        else ig_tensor_give_up(t);
    }
}

static bool has_updates(const ig_recording *r, uint32_t n_nodes) {
    for (uint32_t i = 0; i < n_nodes; i++)
        if (ig_op_find(r->graph.nodes[i].op)->traits & IG_UPDATES) return true;
    return false;
}

static ig_status rebuild(divergence *d) {
    ig_recorder *rec = &d->ctx->recorder;
    if (!copy_events(d) || !copy_graph(d))
        return IG_FAIL(IG_ERR_MEMORY, "replay: %u events", d->n_events);
    bind_leaves(d);
    ig_status status = d->n_run > 0 ? take_out(d) : IG_OK;
    if (status == IG_OK) status = run_rest(d);
    set_versions(d);
    free_handles(d); /* after a failure they are poisoned */
    rec->now = d->to;
    return status;
}

ig_status ig_diverge(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *from = rec->now;
    const ig_event *last = rec->cursor ? &from->events[rec->cursor - 1] : NULL;
    divergence d = {.ctx = ctx,
                    .from = from,
                    .n_events = rec->cursor,
                    .n_nodes = last ? last->node_end : 0,
                    .n_cells = last ? last->cells + last->n_cells : 0};
    uint32_t reads = 0;
    for (uint32_t i = 0; i < rec->cursor && reads < rec->part; i++)
        if (from->events[i].kind == IG_EVENT_READ && ++reads == rec->part)
            d.n_run = from->events[i].node_end;
    if (!has_updates(from, d.n_run)) d.n_run = 0;
    ig_record_begin(ctx);
    d.to = rec->now;
    rec->now = from; /* bound tensors are the old recording's until all is rebuilt */
    if (!d.to) return IG_FAIL(IG_ERR_MEMORY, "replay: a recording");
    const ig_status status = rebuild(&d);
    if (status != IG_OK) {
        rec->now = d.to;
        ig_record_give_up(ctx);
    }
    return status;
}
