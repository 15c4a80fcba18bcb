/*
 * Records a step while it runs as in Dynamic mode.
 *
 *     event    op, attributes        which tensors            which results
 *     0        matmul                leaf 0, state 0          cell 0
 *     1        silu                  cell 0                   cell 1
 *     2        READ                  cell 1
 *
 * Events, references, cells and attributes are append-only arrays, so the first events of a
 * recording can be copied as a prefix (diverge.c). The graph of the step becomes the recording's
 * graph at the end, without the memory of this step.
 *
 * Ownership. A recorded step holds a reference to each leaf and state until it ends: callers may
 * release them earlier, and a reused handle must not be mistaken for the same tensor. Afterwards a
 * recording knows states by id, and owns its handles, its plan and its graph.
 *
 * Failure. Recording never fails a step: if memory runs out, or the step cannot be repeated, the
 * recorder gives up and the step continues unrecorded. The report contains the reason.
 */
#include "runtime/record/record.h"

#include <stdio.h>
#include <string.h>

#include "runtime/ctx.h"

/* The profile refers to the plan that ran last, so resets it first. */
void ig_recording_drop_plan(ig_ctx *ctx, ig_recording *r) {
    if (ctx->profile.plan == r->plan) ctx->profile.plan = NULL;
    ig_plan_destroy(r->plan);
    r->plan = NULL;
    r->stale = false;
}

/* NULL is fine. Drops the recording's reference to each handle. */
void ig_recording_destroy(ig_ctx *ctx, ig_recording *r) {
    if (!r) return;
    for (size_t i = 0; i < r->n_cells; i++) ig_tensor_give_up(r->cells[i].handle);
    ig_recording_drop_plan(ctx, r);
    if (r->graph.allocator) ig_graph_deinit(&r->graph);
    void *const all[] = {r->events, r->refs,  r->cells,    r->attrs,   r->grads,  r->states,
                         r->leaves, r->binds, r->spent_at, r->buffers, r->mirrors};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) ig_free(&ctx->allocator, all[i]);
    if (ctx->recorder.now == r) ctx->recorder.now = NULL;
    ig_free(&ctx->allocator, r);
}

void ig_recorder_deinit(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    if (rec->state == IG_RECORDING) ig_recording_destroy(ctx, rec->now);
    while (rec->count > 0) ig_recording_destroy(ctx, rec->all[--rec->count]);
    ig_free(&ctx->allocator, rec->bound);
    rec->bound = NULL;
    rec->now = NULL;
}

void ig_recorder_note(ig_ctx *ctx, const char *what, const char *why) {
    ig_recorder *rec = &ctx->recorder;
    ig_recorder_entry *last = rec->n_log > 0 ? &rec->log[(rec->n_log - 1) % IG_RECORDER_LOG] : NULL;
    if (last && strcmp(last->what, what) == 0 &&
        strncmp(last->why, why, sizeof last->why - 1) == 0) {
        last->count++;
        return;
    }
    ig_recorder_entry *e = &rec->log[rec->n_log++ % IG_RECORDER_LOG];
    *e = (ig_recorder_entry){.what = what, .step = ctx->steps.count + 1, .count = 1};
    snprintf(e->why, sizeof e->why, "%s", why);
}

/* If memory runs out, the step continues unrecorded. */
void ig_record_begin(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    rec->state = IG_PLAIN;
    rec->now = ig_alloc(&ctx->allocator, 1, sizeof *rec->now);
    if (!rec->now) return;
    rec->now->allocator = &ctx->allocator;
    rec->now->number = ++rec->n_numbers;
    rec->state = IG_RECORDING;
}

/* In reverse order: each flag holds the state before its own backward. */
void ig_recording_undo_grads(const ig_recording *r) {
    for (size_t i = r->n_grads; i-- > 0;)
        r->states[r->grads[i].state].tensor->has_grad = r->grads[i].had;
}

/* The step continues without recording. */
void ig_record_give_up(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    if (rec->state != IG_RECORDING) return;
    rec->failed = rec->deferring;
    if (rec->failed) return; /* undone when the capture ends */
    ig_record_let_go(ctx, rec->now);
    ig_recording_destroy(ctx, rec->now);
    rec->now = NULL;
    rec->state = IG_PLAIN;
}

/* Drops the references that record_leaf() took. */
void ig_record_let_go(ig_ctx *ctx, ig_recording *r) {
    ig_replay_let_go(ctx);
    for (size_t i = 0; i < r->n_states; i++) ig_tensor_release(r->states[i].tensor);
}

void ig_record_refuse(ig_ctx *ctx, const char *why) {
    ig_recorder *rec = &ctx->recorder;
    if (rec->state != IG_RECORDING) return;
    snprintf(rec->reason, sizeof rec->reason, "event %zu: %s", rec->now->n_events, why);
    ig_recorder_note(ctx, "refuse", rec->reason);
    ig_record_give_up(ctx);
}

/* A gradient function that uses a tensor unknown to the step cannot be replayed. */
size_t ig_record_met(const ig_ctx *ctx) {
    const ig_recording *r = ctx->recorder.now;
    return ctx->recorder.state == IG_RECORDING ? r->n_states + r->n_leaves : 0;
}

/* Linear in the tensors of the step; only recording steps search, replays compare. */
bool ig_record_find(const ig_ctx *ctx, const ig_tensor *t, ig_ref *out) {
    const ig_recorder *rec = &ctx->recorder;
    const ig_recording *r = rec->now;
    if (t->cell && t->run == rec->run) {
        *out = (ig_ref){IG_REF_CELL, t->cell - 1};
        return true;
    }
    for (uint32_t i = 0; i < r->n_states; i++)
        if (r->states[i].id == t->id) {
            *out = (ig_ref){IG_REF_STATE, i};
            return true;
        }
    for (uint32_t i = 0; i < rec->n_bound; i++)
        if (rec->bound[i] == t) {
            *out = (ig_ref){IG_REF_LEAF, i};
            return true;
        }
    return false;
}

/* Adds a tensor that is new to this step, as a state or a leaf, and takes a reference. */
static bool record_leaf(ig_ctx *ctx, ig_recording *r, ig_tensor *t, ig_ref *out) {
    ig_recorder *rec = &ctx->recorder;
    ig_replay_used(ctx, t);
    if (ig_tensor_has_identity(t)) {
        if (!IG_GROW(&ctx->allocator, r->states, &r->states_room, r->n_states + 1)) return false;
        *out = (ig_ref){IG_REF_STATE, (uint32_t)r->n_states};
        r->states[r->n_states++] = (ig_state){t->id, t};
        t->refs++;
        return true;
    }
    if (!IG_GROW(&ctx->allocator, r->leaves, &r->leaves_room, r->n_leaves + 1) ||
        !IG_GROW(&ctx->allocator, rec->bound, &rec->bound_room, rec->n_bound + 1))
        return false;
    *out = (ig_ref){IG_REF_LEAF, (uint32_t)r->n_leaves};
    r->leaves[r->n_leaves++] = t->layout;
    rec->bound[rec->n_bound++] = t;
    rec->n_held++;
    t->refs++;
    return true;
}

/* A leaf of the graph takes its memory from a tensor: replays bind the tensor's memory there. Two
 * binds may share memory, which matters only to updates (overwrites_shared). */
void ig_record_leaf(ig_ctx *ctx, ig_tensor *t, ig_value value) {
    ig_recording *r = ctx->recorder.now;
    ig_ref ref;
    if (ctx->recorder.state != IG_RECORDING) return;
    if ((!ig_record_find(ctx, t, &ref) && !record_leaf(ctx, r, t, &ref)) ||
        !IG_GROW(&ctx->allocator, r->binds, &r->binds_room, r->n_binds + 1)) {
        ig_record_give_up(ctx);
        return;
    }
    if (ref.kind == IG_REF_CELL) {
        ig_record_refuse(ctx, "a view is used after its tensor was overwritten");
        return;
    }
    for (size_t i = 0; i < r->n_binds && !r->shares; i++)
        r->shares = ig_storage_overlaps(ig_replay_bound(ctx, r->binds[i].ref)->storage, t->storage);
    r->binds[r->n_binds++] = (ig_bind){value, ref};
}

/* The event includes whether a backward wrote or added to the gradient: the ops differ. */
void ig_record_grad(ig_ctx *ctx, ig_tensor *t, bool had) {
    ig_recording *r = ctx->recorder.now;
    ig_ref ref;
    if (ctx->recorder.state != IG_RECORDING) return;
    if (!ig_record_find(ctx, t, &ref) || ref.kind != IG_REF_STATE ||
        !IG_GROW(&ctx->allocator, r->grads, &r->grads_room, r->n_grads + 1)) {
        ig_record_give_up(ctx);
        return;
    }
    r->grads[r->n_grads++] = (ig_grad_flag){ref.index, had};
}

/* Marks the nodes that a backward has consumed since the last event. */
static bool note_spent(ig_ctx *ctx, ig_recording *r) {
    const ig_graph *g = &ctx->tape.graph;
    if (!IG_GROW(&ctx->allocator, r->spent_at, &r->spent_room, g->n_nodes)) return false;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].spent && r->spent_at[i] == 0) r->spent_at[i] = (uint32_t)r->n_events + 1;
    return true;
}

/* If memory runs out, a partial event may remain: the caller then gives up the recording. */
static bool append(ig_ctx *ctx, ig_recording *r, const ig_call *call, ig_tensor *const *out,
                   uint32_t n_out) {
    const ig_allocator *a = &ctx->allocator;
    const bool has_op = call->kind == IG_EVENT_OP || call->kind == IG_EVENT_UPDATE;
    const size_t attrs_bytes = has_op ? ig_op_find(call->op)->attrs_bytes : 0;
    if (!IG_GROW(a, r->events, &r->events_room, r->n_events + 1) ||
        !IG_GROW(a, r->refs, &r->refs_room, r->n_refs + call->n_in) ||
        !IG_GROW(a, r->cells, &r->cells_room, r->n_cells + n_out) ||
        !IG_GROW(a, r->attrs, &r->attrs_room, r->n_attrs + attrs_bytes))
        return false;
    const size_t grads_before =
        r->n_events ? r->events[r->n_events - 1].grads + r->events[r->n_events - 1].n_grads : 0;
    ig_event e = {.kind = (uint8_t)call->kind,
                  .no_grad = ctx->tape.no_grad > 0,
                  .op = has_op ? (uint16_t)call->op : 0,
                  .refs = (uint32_t)r->n_refs,
                  .n_refs = call->n_in,
                  .cells = (uint32_t)r->n_cells,
                  .n_cells = n_out,
                  .attrs = (uint32_t)r->n_attrs,
                  .grads = (uint32_t)grads_before,
                  .n_grads = (uint32_t)(r->n_grads - grads_before),
                  .node_end = (uint32_t)ctx->tape.graph.n_nodes,
                  .value_end = (uint32_t)ctx->tape.graph.n_values,
                  .n_random = ctx->tape.n_random};
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!ig_record_find(ctx, call->in[i], &r->refs[r->n_refs++])) return false;
    for (uint32_t i = 0; i < n_out; i++) {
        out[i]->run = ctx->recorder.run;
        out[i]->cell = (uint32_t)r->n_cells + 1;
        out[i]->recording = r->number;
        /* Keep scalars: callers usually read losses and norms after the step. */
        r->cells[r->n_cells++] = (ig_cell){.value = out[i]->value,
                                           .kept = ig_shape_count(out[i]->layout.desc.shape) == 1};
    }
    if (attrs_bytes) memcpy(&r->attrs[r->n_attrs], call->attrs, attrs_bytes);
    r->n_attrs += attrs_bytes;
    if (call->kind == IG_EVENT_BACKWARD && !note_spent(ctx, r)) return false;
    r->events[r->n_events++] = e;
    return true;
}

void ig_record_call(ig_ctx *ctx, const ig_call *call, ig_tensor *const *out, uint32_t n_out) {
    if (ctx->recorder.state != IG_RECORDING) return;
    for (uint32_t i = 0; i < n_out; i++)
        if (!out[i]->storage) {
            ig_record_refuse(ctx, "an op failed"); /* a failed step is not repeated */
            return;
        }
    if (!append(ctx, ctx->recorder.now, call, out, n_out)) ig_record_give_up(ctx);
}

/* ---- at the end of the step ---- */

/* Events are compared as bytes: the struct has no padding, and offsets into the pools are equal if
 * all earlier events are. */
bool ig_recording_prefix(const ig_recording *a, const ig_recording *b, size_t n_events) {
    if (a->n_events < n_events || b->n_events < n_events) return false;
    for (size_t i = 0; i < n_events; i++) {
        const ig_event *x = &a->events[i], *y = &b->events[i];
        if (memcmp(x, y, sizeof *x) != 0) return false;
        const size_t attrs = x->kind <= IG_EVENT_UPDATE ? ig_op_find(x->op)->attrs_bytes : 0;
        if (attrs && memcmp(&a->attrs[x->attrs], &b->attrs[y->attrs], attrs) != 0) return false;
        for (uint32_t j = 0; j < x->n_refs; j++) {
            const ig_ref p = a->refs[x->refs + j], q = b->refs[y->refs + j];
            if (p.kind != q.kind || p.index != q.index) return false;
            if (p.kind == IG_REF_STATE && a->states[p.index].id != b->states[q.index].id)
                return false;
            if (p.kind == IG_REF_LEAF && !ig_layout_equal(&a->leaves[p.index], &b->leaves[q.index]))
                return false;
        }
        for (uint32_t j = 0; j < x->n_grads; j++) {
            const ig_grad_flag p = a->grads[x->grads + j], q = b->grads[y->grads + j];
            if (p.state != q.state || p.had != q.had) return false;
        }
    }
    return true;
}

/* Plans need no comparison: equal events give equal plans. */
static bool same_events(const ig_recording *a, const ig_recording *b) {
    return a->n_events == b->n_events && ig_recording_prefix(a, b, a->n_events);
}

/* Whether the step overwrites memory that two of its tensors share: a plan tracks dependencies by
 * value and would miss them. */
static bool overwrites_shared(const ig_ctx *ctx, const ig_recording *r) {
    const ig_graph *g = &ctx->tape.graph;
    for (size_t n = 0; r->shares && n < g->n_nodes; n++) {
        const ig_node *node = &g->nodes[n];
        for (uint32_t o = 0; ig_op_find(node->op)->traits & IG_UPDATES && o < node->n_out; o++) {
            const ig_value_info *out = ig_value_at(g, node->out + o);
            for (size_t i = 0; i < r->n_binds; i++)
                if (r->binds[i].value != out->base &&
                    ig_storage_overlaps(ig_replay_bound(ctx, r->binds[i].ref)->storage,
                                        out->memory))
                    return true;
        }
    }
    return false;
}

/* Moves the graph to the recording, without the memory of this step. */
static bool take_graph(ig_ctx *ctx, ig_recording *r) {
    ig_graph fresh;
    if (overwrites_shared(ctx, r)) {
        snprintf(ctx->recorder.reason, sizeof ctx->recorder.reason,
                 "it overwrites memory that two of its tensors share");
        return false;
    }
    if (!IG_GROW(&ctx->allocator, r->spent_at, &r->spent_room, ctx->tape.graph.n_nodes))
        return false;
    if (ig_graph_init(&fresh, &ctx->allocator, ctx->tape.graph.hooks) != IG_OK) return false;
    r->graph = ctx->tape.graph;
    ctx->tape.graph = fresh;
    for (size_t v = 1; v < r->graph.n_values; v++)
        ctx->tape.graph.hooks.drop(ctx, &r->graph.values[v]);
    r->graph.hooks = (ig_graph_hooks){0};
    r->open = !ig_tape_is_spent(&r->graph);
    return true;
}

/* Used by captures; the caller destroys the recording. */
ig_recording *ig_record_take(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    if (rec->state != IG_RECORDING || r->n_events == 0 || !take_graph(ctx, r)) return NULL;
    rec->now = NULL;
    rec->state = IG_BETWEEN;
    return r;
}

/* Makes room for one more by evicting the least recently used recording. */
static void make_room(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    if (rec->count < IG_MOST_RECORDINGS) return;
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < rec->count; i++)
        if (rec->all[i]->used < rec->all[oldest]->used) oldest = i;
    ig_recording_destroy(ctx, rec->all[oldest]);
    rec->all[oldest] = rec->all[--rec->count];
}

/* Refuses to record if recordings are made too often to pay off. */
static void count_birth(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    const uint64_t number = rec->n_born++;
    ctx->counters.records++;
    ig_recorder_note(ctx, "record", number > 0 ? rec->reason : "");
    rec->born[number % IG_REFUSE_AFTER] = ctx->steps.count + 1;
    const uint64_t before = rec->born[(number + 1) % IG_REFUSE_AFTER]; /* the oldest */
    if (!before || ctx->steps.count + 1 - before >= IG_REFUSE_WITHIN) return;
    rec->refused = true;
    ig_recorder_note(ctx, "refuse", rec->reason);
}

/* Assigns the results of the step to the older, equal recording. */
static void take_over(ig_recording *older, const ig_recording *r) {
    older->also = r->number;
    for (size_t i = 0; i < r->n_cells; i++) {
        if (!r->cells[i].kept || older->cells[i].kept) continue;
        older->cells[i].kept = true;
        older->stale = older->plan != NULL;
    }
}

/* Keeps the recording, unless an equal one exists: a step that diverged and came back. At most
 * IG_MOST_RECORDINGS are kept; the least recently used one is evicted. */
void ig_record_finish(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    if (r->n_events == 0) {
        ig_record_give_up(ctx);
        return;
    }
    for (uint32_t i = 0; i < rec->count; i++)
        if (same_events(rec->all[i], r)) { /* an equal one exists, but could not be followed */
            take_over(rec->all[i], r);
            rec->all[i]->used = ctx->steps.count;
            ig_record_give_up(ctx);
            return;
        }
    if (!take_graph(ctx, r)) {
        ig_record_give_up(ctx);
        return;
    }
    ig_record_let_go(ctx, r);
    make_room(ctx);
    r->used = ctx->steps.count;
    rec->all[rec->count++] = r;
    rec->state = IG_BETWEEN;
    count_birth(ctx);
}
