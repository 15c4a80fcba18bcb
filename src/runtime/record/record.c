/* Writing a step down while it runs. */
#include "runtime/record/record.h"

#include <stdio.h>
#include <string.h>

#include "runtime/ctx.h"

void ig_recording_drop_plan(ig_ctx *ctx, ig_recording *r) {
    if (ctx->profile.plan == r->plan) ctx->profile.plan = NULL;
    ig_plan_destroy(r->plan);
    r->plan = NULL;
    r->stale = false;
}

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

void ig_record_begin(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    rec->state = IG_PLAIN;
    rec->now = ig_alloc(&ctx->allocator, 1, sizeof *rec->now);
    if (!rec->now) return;
    rec->now->allocator = &ctx->allocator;
    rec->now->number = ++rec->n_numbers;
    rec->state = IG_RECORDING;
}

void ig_recording_undo_grads(const ig_recording *r) {
    for (size_t i = r->n_grads; i-- > 0;)
        r->states[r->grads[i].state].tensor->has_grad = r->grads[i].had;
}

/* The step goes on, but nobody writes it down. */
void ig_record_give_up(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    if (rec->state != IG_RECORDING) return;
    rec->failed = rec->deferring;
    if (rec->failed) return; /* what has not run is undone when the capture ends */
    ig_record_let_go(ctx, rec->now);
    ig_recording_destroy(ctx, rec->now);
    rec->now = NULL;
    rec->state = IG_PLAIN;
}

void ig_record_let_go(ig_ctx *ctx, ig_recording *r) {
    ig_replay_let_go(ctx);
    for (size_t i = 0; i < r->n_states; i++) ig_tensor_release(r->states[i].tensor);
}

void ig_record_refuse(ig_ctx *ctx, const char *why) {
    ig_recorder *rec = &ctx->recorder;
    if (rec->state != IG_RECORDING) return;
    snprintf(rec->reason, sizeof rec->reason, "event %zu: %s", rec->now->n_events, why);
    ig_record_give_up(ctx);
}

size_t ig_record_met(const ig_ctx *ctx) {
    const ig_recording *r = ctx->recorder.now;
    return ctx->recorder.state == IG_RECORDING ? r->n_states + r->n_leaves : 0;
}

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

/* A tensor that this step has not met before. */
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

/* Nodes that a backward has gone through since the last event. */
static bool note_spent(ig_ctx *ctx, ig_recording *r) {
    const ig_graph *g = &ctx->graph;
    if (!IG_GROW(&ctx->allocator, r->spent_at, &r->spent_room, g->n_nodes)) return false;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].spent && r->spent_at[i] == 0) r->spent_at[i] = (uint32_t)r->n_events + 1;
    return true;
}

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
                  .no_grad = ctx->no_grad > 0,
                  .op = has_op ? (uint16_t)call->op : 0,
                  .refs = (uint32_t)r->n_refs,
                  .n_refs = call->n_in,
                  .cells = (uint32_t)r->n_cells,
                  .n_cells = n_out,
                  .attrs = (uint32_t)r->n_attrs,
                  .grads = (uint32_t)grads_before,
                  .n_grads = (uint32_t)(r->n_grads - grads_before),
                  .node_end = (uint32_t)ctx->graph.n_nodes,
                  .value_end = (uint32_t)ctx->graph.n_values,
                  .n_random = ctx->n_random};
    for (uint32_t i = 0; i < call->n_in; i++)
        if (!ig_record_find(ctx, call->in[i], &r->refs[r->n_refs++])) return false;
    for (uint32_t i = 0; i < n_out; i++) {
        out[i]->run = ctx->recorder.run;
        out[i]->cell = (uint32_t)r->n_cells + 1;
        out[i]->recording = r->number;
        /* Scalars are kept: losses and norms are looked at after the step, some day. */
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
            ig_record_refuse(ctx, "an op failed"); /* such a step is not repeated */
            return;
        }
    if (!append(ctx, ctx->recorder.now, call, out, n_out)) ig_record_give_up(ctx);
}

/* ---- at the end of the step ---- */

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

static bool same_events(const ig_recording *a, const ig_recording *b) {
    return a->n_events == b->n_events && ig_recording_prefix(a, b, a->n_events);
}

/* Whether the step overwrites a memory that it knows by two names: a plan, which goes by names,
 * would not see what waits for what. */
static bool overwrites_shared(const ig_ctx *ctx, const ig_recording *r) {
    const ig_graph *g = &ctx->graph;
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

/* The graph goes over to the recording, without the memory of this step. */
static bool take_graph(ig_ctx *ctx, ig_recording *r) {
    ig_graph fresh;
    if (overwrites_shared(ctx, r)) {
        snprintf(ctx->recorder.reason, sizeof ctx->recorder.reason,
                 "it overwrites a tensor that another one shares its memory with");
        return false;
    }
    if (!IG_GROW(&ctx->allocator, r->spent_at, &r->spent_room, ctx->graph.n_nodes)) return false;
    if (ig_graph_init(&fresh, &ctx->allocator, ctx->graph.hooks) != IG_OK) return false;
    r->graph = ctx->graph;
    ctx->graph = fresh;
    for (size_t v = 1; v < r->graph.n_values; v++) ctx->graph.hooks.drop(ctx, &r->graph.values[v]);
    r->graph.hooks = (ig_graph_hooks){0};
    r->open = !ig_tape_is_spent(&r->graph);
    return true;
}

ig_recording *ig_record_take(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    if (rec->state != IG_RECORDING || r->n_events == 0 || !take_graph(ctx, r)) return NULL;
    rec->now = NULL;
    rec->state = IG_BETWEEN;
    return r;
}

/* Room for one more: the one that was used longest ago goes. */
static void make_room(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    if (rec->count < IG_MOST_RECORDINGS) return;
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < rec->count; i++)
        if (rec->all[i]->used < rec->all[oldest]->used) oldest = i;
    ig_recording_destroy(ctx, rec->all[oldest]);
    rec->all[oldest] = rec->all[--rec->count];
}

/* Recordings that come too often are not worth making. */
static void count_birth(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    const uint64_t number = rec->n_born++;
    ctx->counters.records++;
    rec->born[number % IG_REFUSE_AFTER] = ctx->steps + 1;
    const uint64_t before = rec->born[(number + 1) % IG_REFUSE_AFTER]; /* the eighth last */
    if (before && ctx->steps + 1 - before < IG_REFUSE_WITHIN) rec->refused = true;
}

/* Results of the step are the older recording's from now on. */
static void take_over(ig_recording *older, const ig_recording *r) {
    older->also = r->number;
    for (size_t i = 0; i < r->n_cells; i++) {
        if (!r->cells[i].kept || older->cells[i].kept) continue;
        older->cells[i].kept = true;
        older->stale = older->plan != NULL;
    }
}

void ig_record_finish(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    if (r->n_events == 0) {
        ig_record_give_up(ctx);
        return;
    }
    for (uint32_t i = 0; i < rec->count; i++)
        if (same_events(rec->all[i], r)) { /* it was there, but could not be followed */
            take_over(rec->all[i], r);
            rec->all[i]->used = ctx->steps;
            ig_record_give_up(ctx);
            return;
        }
    if (!take_graph(ctx, r)) {
        ig_record_give_up(ctx);
        return;
    }
    ig_record_let_go(ctx, r);
    make_room(ctx);
    r->used = ctx->steps;
    rec->all[rec->count++] = r;
    rec->state = IG_BETWEEN;
    count_birth(ctx);
}
