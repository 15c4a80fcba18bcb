/*
 * Handles a replayed step that differs from its recording.
 *
 * The verified events are rebuilt in the context's graph as if the step had been Dynamic from the
 * start: the nodes are copied, those that have not run are run, and the returned handles become
 * ordinary tensors. Then the step continues, recorded with the same prefix.
 *
 * Regions that ran before a read are run again, unless they contain updates. In that case their
 * results are copied from the arena if still there, and otherwise recomputed if their inputs were
 * not overwritten. The rest is lost: reading it is an error that says so, and the recording keeps
 * it from then on.
 */
#include <string.h>

#include "runtime/ctx.h"

typedef struct divergence {
    ig_ctx *ctx;
    ig_recording *from, *to;
    uint32_t n_events, n_nodes; /* verified */
    uint32_t n_run;             /* of these nodes, those that ran and must not run again */
    uint32_t n_cells;
    uint32_t *updated; /* by base value: 1 + the last node that ran and overwrote it; 0: none */
} divergence;

/* Copies the first n items of an array. */
#define COPY(d, items, room, n)                                          \
    (IG_GROW(&(d)->ctx->allocator, (d)->to->items, &(d)->to->room, n) && \
     ((n) == 0 || memcpy((d)->to->items, (d)->from->items, (n) * sizeof *(d)->to->items)))

/* Copies the verified events as the prefix of a new recording. */
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
        const ig_ref ref =
            f->binds[t->n_binds++].ref; /* gradients are states that no event names */
        if (ref.kind == IG_REF_STATE && ref.index >= t->n_states) t->n_states = ref.index + 1;
    }
    if (!COPY(d, events, events_room, t->n_events) || !COPY(d, refs, refs_room, t->n_refs) ||
        !COPY(d, cells, cells_room, t->n_cells) || !COPY(d, attrs, attrs_room, t->n_attrs) ||
        !COPY(d, grads, grads_room, t->n_grads) || !COPY(d, states, states_room, t->n_states) ||
        !COPY(d, leaves, leaves_room, t->n_leaves) || !COPY(d, binds, binds_room, t->n_binds) ||
        !COPY(d, spent_at, spent_room, d->n_nodes))
        return false;
    t->shares = f->shares;
    for (size_t i = 0; i < t->n_cells; i++) t->cells[i].handle = NULL;
    for (size_t i = 0; i < d->n_nodes; i++)
        if (t->spent_at[i] > d->n_events) t->spent_at[i] = 0;
    return true;
}

/* Copies nodes and values, without memory. */
static bool copy_graph(const divergence *d) {
    const ig_graph *f = &d->from->graph;
    ig_graph *g = &d->ctx->tape.graph;
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
        ig_value_info *info = ig_value_at(&ctx->tape.graph, b->value);
        info->memory = ig_storage_retain(t->storage);
        info->version = t->storage->version;
        if (info->carries_grad) info->source = ig_tensor_retain(t);
        t->value = b->value;
        t->tape = ctx->tape.number;
    }
}

/* ---- what has run ---- */

static ig_status note_updates(divergence *d) {
    const ig_graph *g = &d->ctx->tape.graph;
    if (d->n_run == 0) return IG_OK;
    d->updated = ig_alloc(&d->ctx->allocator, g->n_values, sizeof *d->updated);
    if (!d->updated) return IG_FAIL(IG_ERR_MEMORY, "replay: %zu values", g->n_values);
    for (uint32_t i = 0; i < d->n_run; i++) {
        const ig_node *node = &g->nodes[i];
        for (uint32_t j = 0; ig_op_find(node->op)->traits & IG_UPDATES && j < node->n_out; j++)
            d->updated[ig_value_at(g, node->out + j)->base] = i + 1;
    }
    return IG_OK;
}

/* Counts the versions of an update that already ran. */
static void count_update(const ig_graph *g, const ig_node *node) {
    for (uint32_t i = 0; i < node->n_out; i++) {
        ig_value_info *out = ig_value_at(g, node->out + i);
        ig_storage *storage = ig_value_at(g, ig_node_in(g, node)[ig_update_alias(i)])->memory;
        out->memory = ig_storage_retain(storage);
        out->version = ++storage->version;
    }
}

static bool lies_in_arena(const divergence *d, const ig_node *node) {
    for (uint32_t i = 0; i < node->n_out; i++)
        if (!ig_plan_holds(d->from->plan, node->out + i, d->ctx->recorder.n_regions)) return false;
    return true;
}

static ig_status take_out(const divergence *d, ig_value v) {
    ig_ctx *ctx = d->ctx;
    ig_storage *own = NULL;
    uint64_t bytes = 0;
    const uint64_t offset = d->from->plan->placements[v].offset;
    (void)ig_desc_bytes(ig_value_at(&ctx->tape.graph, v)->layout.desc, &bytes);
    IG_TRY(ig_storage_range_to_host(&ctx->memory, &ctx->memory.arena, offset, bytes));
    IG_TRY(ig_storage_create(&ctx->memory, bytes, &own));
    memcpy((void *)own->buffer, (const char *)ctx->memory.arena.buffer + offset, bytes);
    ig_value_at(&ctx->tape.graph, v)->memory = own;
    return IG_OK;
}

/* Whether all inputs of the node exist and none was overwritten since. */
static bool can_run_again(const divergence *d, uint32_t id) {
    const ig_graph *g = &d->ctx->tape.graph;
    const ig_node *node = &g->nodes[id];
    for (uint32_t i = 0; i < node->n_in; i++) {
        const ig_value_info *in = ig_value_at(g, ig_node_in(g, node)[i]);
        if (!in->memory || d->updated[in->base] > id) return false;
    }
    return true;
}

/* Copies the results out of the arena before anything else runs there. */
static ig_status take_all_out(const divergence *d) {
    const ig_graph *g = &d->ctx->tape.graph;
    for (uint32_t id = 0; id < d->n_run; id++) {
        const ig_node *node = &g->nodes[id];
        if (ig_op_find(node->op)->traits & (IG_UPDATES | IG_VIEWS) || !lies_in_arena(d, node))
            continue;
        for (uint32_t i = 0; i < node->n_out; i++) IG_TRY(take_out(d, node->out + i));
    }
    return IG_OK;
}

/* Recomputes missing results of a node that ran, if possible. */
static ig_status restore(const divergence *d, uint32_t id) {
    ig_graph *g = &d->ctx->tape.graph;
    const ig_node *node = &g->nodes[id];
    if (ig_op_find(node->op)->traits & IG_UPDATES) {
        count_update(g, node);
        return IG_OK;
    }
    if (ig_value_at(g, node->out)->memory || !can_run_again(d, id)) return IG_OK;
    return g->hooks.run(d->ctx, g, id);
}

/* Runs the nodes of each event in recorded order. */
static ig_status run_nodes(const divergence *d) {
    ig_ctx *ctx = d->ctx;
    const uint32_t no_grad = ctx->tape.no_grad;
    ig_status status = IG_OK;
    uint32_t node = 0;
    for (uint32_t i = 0; i < d->n_events && status == IG_OK; i++) {
        const ig_event *e = &d->to->events[i];
        ctx->tape.no_grad = e->no_grad || e->kind != IG_EVENT_OP;
        for (; node < e->node_end && status == IG_OK; node++)
            status = node < d->n_run ? restore(d, node)
                                     : ctx->tape.graph.hooks.run(ctx, &ctx->tape.graph, node);
    }
    ctx->tape.no_grad = no_grad;
    return status;
}

/* ---- tensors ---- */

/* Points every updated tensor to its newest version. */
static void set_versions(const divergence *d) {
    ig_ctx *ctx = d->ctx;
    const ig_graph *g = &ctx->tape.graph;
    for (uint32_t i = 0; i < d->n_nodes; i++) {
        const ig_node *node = &g->nodes[i];
        for (uint32_t j = 0; ig_op_find(node->op)->traits & IG_UPDATES && j < node->n_out; j++)
            for (size_t k = 0; k < d->to->n_binds; k++) {
                if (d->to->binds[k].value != ig_value_at(g, node->out + j)->base) continue;
                ig_replay_bound(ctx, d->to->binds[k].ref)->value = node->out + j;
            }
    }
}

/* Turns handles into ordinary tensors. One without a value is lost for this step. */
static void free_handles(const divergence *d) {
    ig_ctx *ctx = d->ctx;
    for (uint32_t i = 0; i < d->n_cells; i++) {
        ig_tensor *t = d->from->cells[i].handle;
        d->from->cells[i].handle = NULL;
        if (!t) continue;
        const bool held = t->alive == IG_TENSOR_ALIVE;
        const ig_value_info *info = ig_value_at(&ctx->tape.graph, d->to->cells[i].value);
        ig_storage *old = t->storage;
        t->layout = info->layout;
        t->storage = info->memory ? ig_storage_retain(info->memory) : NULL;
        t->value = d->to->cells[i].value;
        t->tape = ctx->tape.number;
        t->lost = !t->storage;
        if (!t->lost) t->recording = d->to->number;
        ig_storage_release(&ctx->memory, old);
        t->replayed = false;
        if (held)
            t->refs--;
        else
            ig_tensor_give_up(t);
    }
}

/* Takes a reference to each state, as every recorded step does. */
static void hold_states(const divergence *d) {
    for (size_t i = 0; i < d->to->n_states; i++) d->to->states[i].tensor->refs++;
}

static bool has_updates(const ig_recording *r, uint32_t n_nodes) {
    for (uint32_t i = 0; i < n_nodes; i++)
        if (ig_op_find(r->graph.nodes[i].op)->traits & IG_UPDATES) return true;
    return false;
}

static ig_status rebuild(divergence *d) {
    if (!copy_events(d) || !copy_graph(d))
        return IG_FAIL(IG_ERR_MEMORY, "replay: %u events", d->n_events);
    bind_leaves(d);
    IG_TRY(note_updates(d));
    IG_TRY(take_all_out(d));
    return run_nodes(d);
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
    for (uint32_t i = 0; i < rec->cursor && reads < rec->n_regions; i++)
        if (from->events[i].kind == IG_EVENT_READ && ++reads == rec->n_regions)
            d.n_run = from->events[i].node_end;
    if (!has_updates(from, d.n_run)) d.n_run = 0;
    ig_record_begin(ctx);
    d.to = rec->now;
    rec->now = from; /* bound tensors belong to the old recording until the rebuild is complete */
    const ig_status status =
        d.to ? rebuild(&d) : IG_FAIL(IG_ERR_MEMORY, "replay: %u events", d.n_events);
    ig_free(&ctx->allocator, d.updated);
    if (status != IG_OK) {
        ig_replay_abandon(ctx, false);
        if (d.to) d.to->n_cells = 0; /* handles may be missing */
        ig_recording_destroy(ctx, d.to);
        return status;
    }
    set_versions(&d);
    free_handles(&d);
    hold_states(&d);
    rec->now = d.to;
    return IG_OK;
}
