/*
 * Following a recording.  Each call moves a cursor and costs a comparison; a read
 * or the end of the step runs the plan up to there.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/ctx.h"

ig_tensor *ig_replay_bound(const ig_ctx *ctx, ig_ref ref) {
    const ig_recorder *rec = &ctx->recorder;
    if (ref.kind == IG_REF_STATE) return rec->now->states[ref.index].tensor;
    return ref.index < rec->n_bound ? rec->bound[ref.index] : NULL;
}

/* ---- comparing ---- */

static bool same_tensor(ig_ctx *ctx, const ig_recording *r, ig_ref ref, ig_tensor *t,
                        size_t *n_bound) {
    ig_recorder *rec = &ctx->recorder;
    if (!t || t->alive != IG_TENSOR_ALIVE) return false;
    if (ref.kind == IG_REF_CELL) return t->run == rec->run && t->cell == ref.index + 1;
    if (ref.kind == IG_REF_STATE) {
        if (r->states[ref.index].id != t->id) return false;
        r->states[ref.index].tensor = t;
        return true;
    }
    if (ref.index < *n_bound) return rec->bound[ref.index] == t;
    if (ref.index != *n_bound || t->state || !t->storage || t->ctx != ctx) return false;
    if ((t->cell && t->run == rec->run) ||
        !ig_layout_equal(&r->leaves[ref.index], &t->layout) ||
        !IG_GROW(&ctx->allocator, rec->bound, &rec->bound_room, *n_bound + 1))
        return false;
    rec->bound[(*n_bound)++] = t;
    return true;
}

/* Whether event number `cursor` is the call.  Leaves that it meets first are bound. */
static bool matches(ig_ctx *ctx, const ig_recording *r, const ig_call *call) {
    ig_recorder *rec = &ctx->recorder;
    if (rec->cursor >= r->n_events) return false;
    const ig_event *e = &r->events[rec->cursor];
    if (e->kind != call->kind || e->n_refs != call->n_in || e->no_grad != (ctx->no_grad > 0))
        return false;
    if (call->kind <= IG_EVENT_UPDATE) {
        const size_t attrs = ig_op_find(e->op)->attrs_bytes;
        if (e->op != call->op || (attrs && memcmp(&r->attrs[e->attrs], call->attrs, attrs) != 0))
            return false;
    }
    size_t n_bound = rec->n_bound;
    for (uint32_t i = 0; i < e->n_refs; i++)
        if (!same_tensor(ctx, r, r->refs[e->refs + i], call->in[i], &n_bound)) return false;
    for (uint32_t i = 0; i < e->n_grads; i++) {
        const ig_grad_flag flag = r->grads[e->grads + i];
        if (r->states[flag.state].tensor->has_grad != flag.had) return false;
    }
    rec->n_bound = n_bound;
    return true;
}

/* ---- handles ---- */

/* The tensor that brings the memory a value lies in; false: it lies in the arena. */
static bool bind_of(const ig_recording *r, ig_value base, ig_ref *out) {
    for (size_t i = 0; i < r->n_binds; i++)
        if (r->binds[i].value == base) {
            *out = r->binds[i].ref;
            return true;
        }
    return false;
}

/* Points a handle to where the recording's plan puts the value. */
static void point(ig_ctx *ctx, const ig_recording *r, const ig_cell *cell, ig_tensor *handle) {
    const ig_value_info *info = ig_value_at(&r->graph, cell->value);
    ig_storage *storage = &ctx->arena;
    ig_ref ref;
    handle->layout = info->layout;
    if (bind_of(r, info->base, &ref)) {
        storage = ig_replay_bound(ctx, ref)->storage;
    } else {
        const uint64_t offset = r->plan->homes[info->base].offset;
        if (offset != IG_NOT_THERE)
            handle->layout.offset +=
                (int64_t)offset / ig_dtype_bytes(info->layout.desc.dtype);
    }
    ig_storage_retain(storage);
    ig_storage_release(ctx, handle->storage);
    handle->storage = storage;
}

static bool lies_in_arena(const ig_ctx *ctx, const ig_tensor *t) {
    return t->storage == &ctx->arena;
}

static bool hand_out(ig_ctx *ctx, uint32_t index, ig_tensor **out) {
    const ig_recorder *rec = &ctx->recorder;
    ig_cell *cell = &rec->now->cells[index];
    ig_tensor *t = cell->handle;
    if (!t) {
        t = ig_tensor_new(ctx, (ig_layout){0}, NULL);
        if (!t) return false;
        t->made_by_op = t->replayed = true;
        t->cell = index + 1;
        cell->handle = t;
        point(ctx, rec->now, cell, t);
    } else if (!lies_in_arena(ctx, t)) { /* a view of a leaf, which may be another tensor now */
        point(ctx, rec->now, cell, t);
    }
    t->alive = IG_TENSOR_ALIVE;
    t->refs = 2; /* the recording's and the scope's */
    t->run = rec->run;
    *out = ig_tensor_to_scope(t);
    return true;
}

/* A handle that outlives its step leaves the recording and gets memory of its own. */
static void detach(ig_ctx *ctx, ig_recording *r, ig_cell *cell) {
    ig_tensor *t = cell->handle;
    ig_device *device = ctx->planner.devices[0];
    uint64_t bytes = 0;
    cell->handle = NULL;
    t->replayed = false;
    t->refs--;
    if (!lies_in_arena(ctx, t)) return;
    const ig_value base = ig_value_at(&r->graph, cell->value)->base;
    const ig_home home = r->plan->homes[base];
    const ig_desc desc = ig_value_at(&r->graph, base)->layout.desc;
    ig_storage *own = NULL;
    ig_status status = IG_OK;
    (void)ig_desc_bytes(desc, &bytes);
    if (!cell->kept) status = IG_ERR_STATE;
    if (status == IG_OK) status = ig_storage_create(ctx, bytes, &own);
    if (status == IG_OK && device->host_memory) /* both are addresses */
        memcpy((void *)own->buffer, (const char *)ctx->arena.buffer + home.offset, bytes);
    t->layout.offset -= (int64_t)home.offset / ig_dtype_bytes(desc.dtype);
    ig_storage_release(ctx, t->storage);
    t->storage = own; /* NULL: reading it says that it was not kept */
}

void ig_replay_detach(ig_ctx *ctx) {
    ig_recording *r = ctx->recorder.now;
    bool plan_again = false;
    for (size_t i = 0; r && r->plan && i < r->n_cells; i++) {
        ig_cell *cell = &r->cells[i];
        if (!cell->handle || cell->handle->alive != IG_TENSOR_ALIVE) continue;
        detach(ctx, r, cell);
        plan_again |= !cell->kept;
        cell->kept = true;
    }
    if (plan_again) ig_recording_drop_plan(ctx, r);
}

/* ---- planning and running ---- */

ig_status ig_recording_make_plan(ig_ctx *ctx, ig_recording *r) {
    const ig_allocator *a = &ctx->allocator;
    ig_value *bound = ig_alloc(a, r->n_binds, sizeof *bound);
    ig_value *kept = ig_alloc(a, r->n_cells, sizeof *kept);
    uint32_t *cuts = ig_alloc(a, r->n_events, sizeof *cuts), n_kept = 0, n_cuts = 0;
    if (!r->buffers) r->buffers = ig_alloc(a, r->n_binds + 1, sizeof(ig_backend_buffer *));
    ig_status status = IG_OK;
    if (!bound || !kept || !cuts || !r->buffers)
        status = IG_FAIL(IG_ERR_MEMORY, "replay: %zu events", r->n_events);
    if (status == IG_OK) {
        for (size_t i = 0; i < r->n_binds; i++) bound[i] = r->binds[i].value;
        for (size_t i = 0; i < r->n_cells; i++)
            if (r->cells[i].kept) kept[n_kept++] = r->cells[i].value;
        for (size_t i = 0; i < r->n_events; i++)
            if (r->events[i].kind == IG_EVENT_READ) cuts[n_cuts++] = r->events[i].node_end;
        status = ig_plan_create(&ctx->planner,
                                (ig_plan_args){.graph = &r->graph,
                                               .count = (uint32_t)r->graph.n_nodes,
                                               .bound = bound,
                                               .n_bound = (uint32_t)r->n_binds,
                                               .kept = kept,
                                               .n_kept = n_kept,
                                               .cuts = cuts,
                                               .n_cuts = n_cuts},
                                &r->plan);
    }
    ig_free(a, cuts);
    ig_free(a, kept);
    ig_free(a, bound);
    ig_pool_drain(ctx); /* what the recorded step took one by one, the arena has now */
    for (size_t i = 0; status == IG_OK && i < r->n_cells; i++) { /* the arena is laid out anew */
        ig_tensor_give_up(r->cells[i].handle);
        r->cells[i].handle = NULL;
    }
    return status;
}

/* The plan, and room for it. */
static ig_status prepare(ig_ctx *ctx, ig_recording *r) {
    if (!r->plan) IG_TRY(ig_recording_make_plan(ctx, r));
    return ig_arena_reserve(ctx, r->plan->arena_bytes);
}

static ig_status run_part(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    if (ctx->options.cancel && ctx->options.cancel(ctx->options.user))
        return IG_FAIL(IG_ERR_CANCELLED, "replay: cancelled");
    r->buffers[IG_ARENA] = ctx->arena.buffer;
    for (size_t i = 0; i < r->n_binds; i++) {
        const ig_tensor *t = ig_replay_bound(ctx, r->binds[i].ref);
        r->buffers[i + 1] = t && t->storage ? t->storage->buffer : NULL;
    }
    const uint32_t part = rec->part++;
    if (part == 0) ig_profile_run(ctx, r->plan);
    return ig_plan_run_part(r->plan, part,
                            (ig_run_args){r->buffers, (uint32_t)r->n_binds + 1, ctx->slots,
                                          (uint32_t)ctx->n_slots, &ctx->profile.first_step});
}

/* ---- choosing a recording ---- */

static void say_what_changed(ig_recorder *rec, const ig_call *call) {
    const ig_recording *r = rec->now;
    const ig_event *e = r && rec->cursor < r->n_events ? &r->events[rec->cursor] : NULL;
    const bool was_op = e && e->kind <= IG_EVENT_UPDATE;
    const char *was = !e                           ? "the end of the step"
                      : was_op                     ? ig_op_name(e->op)
                      : e->kind == IG_EVENT_READ   ? "a read"
                      : e->kind == IG_EVENT_STEP   ? "a step's end"
                                                   : "backward";
    const char *is = !call                                ? "the end of the step"
                     : call->kind <= IG_EVENT_UPDATE      ? ig_op_name(call->op)
                     : call->kind == IG_EVENT_BACKWARD    ? "backward"
                                                          : "a read";
    char shape[IG_SHAPE_TEXT_BYTES] = "";
    if (call && call->n_in > 0 && call->in[0])
        ig_shape_text(ig_tensor_desc(call->in[0]).shape, shape);
    snprintf(rec->reason, sizeof rec->reason, "event %u: %s %s, recorded was %s", rec->cursor, is,
             shape, was);
}

/* Another recording with the same beginning that goes on as the step does. */
static bool switch_over(ig_ctx *ctx, const ig_call *call) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *from = rec->now;
    if (rec->part > 0) return false; /* its results lie where this plan put them */
    for (uint32_t i = 0; i < rec->count; i++) {
        ig_recording *to = rec->all[i];
        if (to == from || !ig_recording_prefix(from, to, rec->cursor)) continue;
        for (size_t s = 0; s < from->n_states && s < to->n_states; s++)
            if (from->states[s].id == to->states[s].id)
                to->states[s].tensor = from->states[s].tensor;
        if (call ? !matches(ctx, to, call) : to->n_events != rec->cursor) continue;
        if (prepare(ctx, to) != IG_OK) continue;
        const uint32_t handed = rec->cursor ? from->events[rec->cursor - 1].cells +
                                                  from->events[rec->cursor - 1].n_cells
                                            : 0;
        for (uint32_t c = 0; c < handed; c++) { /* what was handed out belongs to the other now */
            ig_tensor *t = from->cells[c].handle;
            from->cells[c].handle = to->cells[c].handle;
            to->cells[c].handle = t;
            rec->now = to;
            if (t) point(ctx, to, &to->cells[c], t);
            rec->now = from;
            if (from->cells[c].handle) point(ctx, from, &from->cells[c], from->cells[c].handle);
        }
        rec->now = to;
        return true;
    }
    return false;
}

/* The first event of a step. */
static bool choose(ig_ctx *ctx, const ig_call *call) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *best = NULL;
    for (uint32_t i = 0; i < rec->count; i++)
        if ((!best || rec->all[i]->used > best->used) && matches(ctx, rec->all[i], call)) {
            best = rec->all[i];
            rec->n_bound = 0;
        }
    if (!best) return false;
    if (prepare(ctx, best) != IG_OK) {
        rec->refused = true;
        snprintf(rec->reason, sizeof rec->reason, "%s", ig_error_text());
        return false;
    }
    rec->now = best;
    rec->state = IG_REPLAYING;
    return true;
}

/* What this step is going to be. */
static void begin(ig_ctx *ctx, const ig_call *call) {
    ig_recorder *rec = &ctx->recorder;
    ig_replay_detach(ctx);
    rec->run++;
    rec->cursor = rec->part = 0;
    rec->n_bound = 0;
    rec->now = NULL;
    /* Auto's last Dynamic step is the one that is recorded. */
    const bool early = rec->mode == IG_MODE_AUTO && rec->mode_steps + 1 < IG_AUTO_STEPS;
    if (rec->mode == IG_MODE_DYNAMIC || rec->refused || early) rec->state = IG_PLAIN;
    else if (!choose(ctx, call)) {
        if (rec->count > 0) say_what_changed(rec, call);
        ig_record_begin(ctx);
    }
}

bool ig_replay_call(ig_ctx *ctx, const ig_call *call, ig_tensor **out, uint32_t n_out) {
    ig_recorder *rec = &ctx->recorder;
    if (ctx->in_backward) return false;
    if (rec->state == IG_BETWEEN) begin(ctx, call);
    if (rec->state != IG_REPLAYING) return false;
    if (!matches(ctx, rec->now, call) && !switch_over(ctx, call)) {
        say_what_changed(rec, call);
        const ig_status status = ig_diverge(ctx);
        if (status != IG_OK) ig_graph_stick(&ctx->graph, status);
        return false;
    }
    const ig_event *e = &rec->now->events[rec->cursor++];
    for (uint32_t i = 0; i < e->n_grads; i++)
        rec->now->states[rec->now->grads[e->grads + i].state].tensor->has_grad = true;
    for (uint32_t i = 0; i < n_out; i++)
        if (!hand_out(ctx, e->cells + i, &out[i]))
            out[i] = ig_poisoned(ctx, IG_FAIL(IG_ERR_MEMORY, "replay: a handle"));
    return true;
}

/* ---- cuts ---- */

/* Whether an event before the cursor that has not run writes the tensor. */
static bool is_pending(const ig_ctx *ctx, const ig_tensor *t) {
    const ig_recorder *rec = &ctx->recorder;
    const ig_recording *r = rec->now;
    for (uint32_t i = 0; i < rec->cursor; i++) {
        const ig_event *e = &r->events[i];
        for (uint32_t j = 0; e->kind == IG_EVENT_UPDATE && j < e->n_refs; j++) {
            const ig_ref ref = r->refs[e->refs + j];
            if (ref.kind != IG_REF_CELL && ig_replay_bound(ctx, ref) == t) return true;
        }
        for (uint32_t j = 0; j < e->n_grads; j++) {
            const ig_tensor *whose = r->states[r->grads[e->grads + j].state].tensor;
            if (whose->grad == t) return true;
        }
    }
    return false;
}

/* Whether the result has been computed by the parts that have run. */
static bool has_run(const ig_recorder *rec, const ig_tensor *t) {
    uint32_t part = 0;
    for (uint32_t i = 0; i < rec->cursor && part < rec->part; i++) {
        const ig_event *e = &rec->now->events[i];
        if (e->kind == IG_EVENT_READ) part++;
        if (t->cell - 1 < e->cells + e->n_cells) return true;
    }
    return false;
}

static ig_status read_after(ig_ctx *ctx, ig_tensor *t) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    if (!r || !t->cell || t->run != rec->run || t->cell > r->n_cells) return IG_OK;
    ig_cell *cell = &r->cells[t->cell - 1];
    if (cell->kept || !t->replayed || !lies_in_arena(ctx, t)) {
        cell->kept = true;
        return IG_OK;
    }
    cell->kept = true;
    ig_recording_drop_plan(ctx, r);
    return IG_FAIL(IG_ERR_STATE,
                   "read: the replayed step did not keep this result; it does from the next "
                   "step on (results that are read in the first step are kept)");
}

ig_status ig_replay_read(ig_ctx *ctx, ig_tensor *t) {
    ig_recorder *rec = &ctx->recorder;
    if (rec->mode == IG_MODE_DYNAMIC && !t->cell) return IG_OK;
    if (rec->state == IG_BETWEEN) return read_after(ctx, t);
    const bool of_this_step = t->cell && t->run == rec->run;
    const ig_call call = {.kind = IG_EVENT_READ, .in = &t, .n_in = 1};
    if (rec->state == IG_RECORDING) {
        ig_ref ref;
        if (!ig_record_find(ctx, t, &ref) || ref.kind == IG_REF_LEAF) return IG_OK;
        if (ref.kind == IG_REF_CELL) rec->now->cells[ref.index].kept = true;
        ig_record_call(ctx, &call, NULL, 0);
        return IG_OK;
    }
    if (rec->state != IG_REPLAYING) return IG_OK;
    if (matches(ctx, rec->now, &call)) {
        rec->cursor++;
        return run_part(ctx);
    }
    if (of_this_step ? has_run(rec, t) && rec->now->cells[t->cell - 1].kept : !is_pending(ctx, t))
        return IG_OK;
    say_what_changed(rec, &call);
    IG_TRY(ig_diverge(ctx));
    return ig_replay_read(ctx, t); /* recorded now */
}

ig_status ig_replay_write(ig_ctx *ctx, ig_tensor *t) {
    ig_recorder *rec = &ctx->recorder;
    ig_ref ref;
    if (rec->state != IG_REPLAYING || !ig_record_find(ctx, t, &ref)) return IG_OK;
    if (ref.kind == IG_REF_STATE && rec->now->states[ref.index].tensor != t) return IG_OK;
    return ig_diverge(ctx); /* what is pending reads it as it is now */
}

/* The slots that an op reads. */
static bool reads_slot(const ig_recording *r, const ig_event *e, uint32_t slot) {
    const void *attrs = &r->attrs[e->attrs];
    ig_attrs_adamw adamw;
    ig_attrs_sgd sgd;
    if (e->kind != IG_EVENT_UPDATE) return false;
    if (e->op == IG_OP_ADAMW) {
        memcpy(&adamw, attrs, sizeof adamw);
        return adamw.rate_slot == slot || adamw.step_slot == slot;
    }
    if (e->op != IG_OP_SGD) return false;
    memcpy(&sgd, attrs, sizeof sgd);
    return sgd.rate_slot == slot;
}

void ig_replay_slot(ig_ctx *ctx, uint32_t slot) {
    ig_recorder *rec = &ctx->recorder;
    if (rec->state != IG_REPLAYING) return;
    for (uint32_t i = 0; i < rec->cursor; i++) {
        if (!reads_slot(rec->now, &rec->now->events[i], slot)) continue;
        const ig_status status = ig_diverge(ctx);
        if (status != IG_OK) ig_graph_stick(&ctx->graph, status);
        return;
    }
}

bool ig_replay_goes_on(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    const ig_call call = {.kind = IG_EVENT_STEP};
    if (rec->state != IG_REPLAYING || !matches(ctx, rec->now, &call)) return false;
    rec->cursor++;
    return true;
}

ig_status ig_replay_end(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    if (rec->state == IG_BETWEEN) return IG_OK; /* the step has ended already */
    rec->mode_steps++;
    if (rec->state == IG_REPLAYING) {
        if (rec->cursor == rec->now->n_events || switch_over(ctx, NULL)) {
            ig_recording *r = rec->now;
            const ig_status status = run_part(ctx);
            r->used = ctx->steps + 1;
            rec->state = IG_BETWEEN;
            ctx->counters.replays++;
            ctx->counters.ops += r->plan->n_steps - r->plan->n_copies;
            ctx->counters.submits += r->plan->n_submits;
            ctx->counters.dispatches += r->plan->n_steps;
            ctx->counters.copies += r->plan->n_copies;
            return status;
        }
        say_what_changed(rec, NULL);
        IG_TRY(ig_diverge(ctx));
    }
    if (rec->state == IG_RECORDING) ig_record_finish(ctx);
    rec->state = IG_BETWEEN;
    return IG_OK;
}
