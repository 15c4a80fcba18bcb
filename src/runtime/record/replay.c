/*
 * Replays a recording.
 *
 *     calls       ig_matmul   ig_silu   ig_tensor_item      ...   ig_ctx_step_end
 *     cursor      0           1         2: a graph break          n_events
 *     plan        -           -         runs region 0             runs the last region
 *
 * Invariants.
 *   - Events before the cursor are verified: same op, attributes, shapes and tensors. The events of
 *     the first n_regions regions have run; the others are pending.
 *   - A leaf is bound when its first event matches, in order; n_bound grows only with the whole
 *     event, so a mismatch has no effect. The step holds a reference to each leaf.
 *   - Because pending events have not run, a step that differs can still continue as Dynamic
 *     (diverge.c), and nothing runs twice.
 *   - Whatever could change the result of a pending event (a write, a slot, the release of a state)
 *     ends the replay before it happens.
 *
 * Handles belong to the recording, one per result, and point into the arena (handles.c).
 *
 * Cost: a call is one comparison with the event at the cursor; from the second replay on nothing is
 * allocated. A region costs what its programs cost.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/ctx.h"

/* NULL: a leaf that this step has not used yet. */
ig_tensor *ig_replay_bound(const ig_ctx *ctx, ig_ref ref) {
    const ig_recorder *rec = &ctx->recorder;
    if (ref.kind == IG_REF_STATE) return rec->now->states[ref.index].tensor;
    return ref.index < rec->n_bound ? rec->bound[ref.index] : NULL;
}

/* Drops the step's references to its leaves; `bound` itself stays readable. */
void ig_replay_let_go(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    while (rec->n_held > 0) ig_tensor_release(rec->bound[--rec->n_held]);
}

/* ---- comparing ---- */

/* A cell must be the same result of this step, and a state the same tensor. A leaf must be the
 * tensor bound at this index or, at first use, any tensor of the same layout that is neither a
 * result of this step nor a state. */
static bool same_tensor(ig_ctx *ctx, const ig_recording *r, ig_ref ref, ig_tensor *t,
                        size_t *n_bound) {
    ig_recorder *rec = &ctx->recorder;
    if (!t || t->alive != IG_TENSOR_ALIVE || t->ctx != ctx) return false;
    if (ref.kind == IG_REF_CELL) return t->run == rec->run && t->cell == ref.index + 1;
    if (ref.kind == IG_REF_STATE) {
        if (r->states[ref.index].id != t->id) return false;
        r->states[ref.index].tensor = t;
        return true;
    }
    if (ref.index < *n_bound) return rec->bound[ref.index] == t;
    if (ref.index != *n_bound || !t->storage || ig_tensor_has_identity(t)) return false;
    if ((t->cell && t->run == rec->run) || !ig_layout_equal(&r->leaves[ref.index], &t->layout) ||
        !IG_GROW(&ctx->allocator, rec->bound, &rec->bound_room, *n_bound + 1))
        return false;
    rec->bound[(*n_bound)++] = t;
    ig_replay_used(ctx, t);
    return true;
}

/* A custom op's shape rule may give other shapes than when recorded. */
static bool same_results(const ig_recording *r, const ig_event *e, const ig_desc *desc) {
    for (uint32_t i = 0; desc && i < e->n_cells; i++) {
        const ig_desc was = ig_value_at(&r->graph, r->cells[e->cells + i].value)->layout.desc;
        if (was.dtype != desc[i].dtype || !ig_shape_equal(was.shape, desc[i].shape)) return false;
    }
    return true;
}

/* Whether the event at the cursor is this call. Binds leaves at first use. */
static bool matches(ig_ctx *ctx, const ig_recording *r, const ig_call *call) {
    ig_recorder *rec = &ctx->recorder;
    if (rec->cursor >= r->n_events) return false;
    const ig_event *e = &r->events[rec->cursor];
    if (e->kind != call->kind || e->n_refs != call->n_in || e->no_grad != (ctx->tape.no_grad > 0))
        return false;
    if (call->kind <= IG_EVENT_UPDATE) {
        const size_t attrs = ig_op_find(e->op)->attrs_bytes;
        if (e->op != call->op || (attrs && memcmp(&r->attrs[e->attrs], call->attrs, attrs) != 0) ||
            !same_results(r, e, call->desc))
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

/* ---- planning and running ---- */

/* The bytes of a frozen tensor; NULL: they may change, or another tensor may take its place. */
static const void *weight_of(const ig_recording *r, ig_ref ref) {
    if (ref.kind != IG_REF_STATE) return NULL;
    const ig_tensor *t = r->states[ref.index].tensor;
    if (t->alive != IG_TENSOR_ALIVE || t->id != r->states[ref.index].id) return NULL;
    return t->storage && t->storage->frozen ? t->storage->buffer : NULL;
}

/* Makes one plan for the whole step: binds take their memory from tensors, kept results stay in
 * the arena to its end, and each read is a graph break. Frozen states are planned as constant
 * weights. Old handles are dropped, since their offsets belong to the old plan. */
ig_status ig_recording_make_plan(ig_ctx *ctx, ig_recording *r) {
    const ig_allocator *a = &ctx->allocator;
    const uint64_t began = ig_clock_ns();
    ig_value *bound = ig_alloc(a, r->n_binds, sizeof *bound);
    ig_value *kept = ig_alloc(a, r->n_cells, sizeof *kept);
    uint32_t *graph_breaks = ig_alloc(a, r->n_events, sizeof *graph_breaks), n_kept = 0,
             n_graph_breaks = 0;
    const void **weights = ig_alloc(a, r->n_binds, sizeof *weights);
    if (!r->buffers) r->buffers = ig_alloc(a, r->n_binds + 1, sizeof(ig_backend_buffer *));
    if (!r->mirrors) r->mirrors = ig_alloc(a, r->n_binds + 1, sizeof(ig_mirror *));
    ig_status status = IG_OK;
    if (!bound || !kept || !graph_breaks || !weights || !r->buffers || !r->mirrors)
        status = IG_FAIL(IG_ERR_MEMORY, "replay: %zu events", r->n_events);
    if (status == IG_OK) {
        for (size_t i = 0; i < r->n_binds; i++) {
            bound[i] = r->binds[i].value;
            weights[i] = weight_of(r, r->binds[i].ref);
        }
        for (size_t i = 0; i < r->n_cells; i++)
            if (r->cells[i].kept) kept[n_kept++] = r->cells[i].value;
        for (size_t i = 0; i < r->n_events; i++)
            if (r->events[i].kind == IG_EVENT_READ)
                graph_breaks[n_graph_breaks++] = r->events[i].node_end;
        status = ig_plan_create(&ctx->devices.planner,
                                (ig_plan_args){.graph = &r->graph,
                                               .count = (uint32_t)r->graph.n_nodes,
                                               .bound = bound,
                                               .n_bound = (uint32_t)r->n_binds,
                                               .kept = kept,
                                               .n_kept = n_kept,
                                               .graph_breaks = graph_breaks,
                                               .n_graph_breaks = n_graph_breaks,
                                               .weights = weights},
                                &r->plan);
    }
    ig_free(a, (void *)weights);
    ig_free(a, graph_breaks);
    ig_free(a, kept);
    ig_free(a, bound);
    ctx->counters.plan_ns += ig_clock_ns() - began;
    ig_pool_drain(&ctx->memory); /* the arena replaces the recorded step's single allocations */
    for (size_t i = 0; status == IG_OK && i < r->n_cells; i++) { /* the arena has a new layout */
        ig_tensor_give_up(r->cells[i].handle);
        r->cells[i].handle = NULL;
    }
    return status;
}

/* Makes the plan at the first replay, and again after a result was requested that the plan does
 * not keep. */
static ig_status prepare(ig_ctx *ctx, ig_recording *r) {
    if (r->stale) ig_recording_drop_plan(ctx, r);
    if (!r->plan) IG_TRY(ig_recording_make_plan(ctx, r));
    return ig_arena_reserve(&ctx->memory, r->plan->arena_bytes);
}

/* Runs the next region with the tensors' current memory: addresses may change from step to step,
 * layouts may not. */
static ig_status run_region(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    if (ig_ctx_is_cancelled(ctx)) return IG_FAIL(IG_ERR_CANCELLED, "replay: cancelled");
    const uint64_t began = r->plan->remote ? ig_clock_ns() : 0;
    r->buffers[IG_ARENA] = ctx->memory.arena.buffer;
    r->mirrors[IG_ARENA] = &ctx->memory.arena.mirror;
    for (size_t i = 0; i < r->n_binds; i++) {
        const ig_tensor *t = ig_replay_bound(ctx, r->binds[i].ref);
        r->buffers[i + 1] = t && t->storage ? t->storage->buffer : NULL;
        r->mirrors[i + 1] = t && t->storage ? &t->storage->mirror : NULL;
    }
    if (rec->n_regions == 0) ig_profile_run(&ctx->profile, r->plan);
    const ig_status status = ig_plan_run_region(
        r->plan, rec->n_regions, ig_ctx_run_args(ctx, r->buffers, r->mirrors, r->n_binds + 1));
    if (status == IG_OK) rec->n_regions++;
    if (r->plan->remote) ctx->counters.replay_ns += ig_clock_ns() - began;
    return status;
}

/* ---- choosing a recording ---- */

/* An event's name, for messages. */
static const char *name_of(uint32_t kind, uint32_t op) {
    static const char *const names[] = {[IG_EVENT_BACKWARD] = "backward",
                                        [IG_EVENT_READ] = "read",
                                        [IG_EVENT_STEP] = "end of the step"};
    return kind <= IG_EVENT_UPDATE ? ig_op_name(op) : names[kind];
}

/* Sets the report's reason: which event differed, what was called and what was recorded. */
static void say_what_changed(ig_recorder *rec, const ig_call *call) {
    const ig_recording *r = rec->now;
    const ig_event *e = r && rec->cursor < r->n_events ? &r->events[rec->cursor] : NULL;
    const char *is = call ? name_of(call->kind, call->op) : "end of the step";
    char shape[IG_SHAPE_TEXT_BYTES] = "", what[IG_SHAPE_TEXT_BYTES + 64];
    if (call && call->n_in > 0 && call->in[0])
        ig_shape_text(ig_tensor_desc(call->in[0]).shape, shape);
    snprintf(what, sizeof what, "event %u: %s%s%s", rec->cursor, is, *shape ? " " : "", shape);
    if (!r)
        snprintf(rec->reason, sizeof rec->reason, "%s: no recording has it", what);
    else if (e)
        snprintf(rec->reason, sizeof rec->reason, "%s instead of the recorded %s", what,
                 name_of(e->kind, e->op));
    else
        snprintf(rec->reason, sizeof rec->reason, "%s after the end of the recorded step", what);
}

/* Number of results returned so far. */
static uint32_t n_returned(const ig_recorder *rec) {
    const ig_event *last = rec->cursor ? &rec->now->events[rec->cursor - 1] : NULL;
    return last ? last->cells + last->n_cells : 0;
}

/* Makes the other recording keep the values that callers still reference. */
static void keep_held(const ig_recorder *rec, ig_recording *to) {
    for (uint32_t c = 0; c < n_returned(rec); c++) {
        const ig_tensor *t = rec->now->cells[c].handle;
        if (!t || t->alive != IG_TENSOR_ALIVE || t->refs <= 1u + t->in_scope) continue;
        if (!to->cells[c].kept) to->stale = to->plan != NULL;
        to->cells[c].kept = true;
    }
}

/* Swaps the handles of both recordings: each keeps one per result, pointing to the result's
 * placement in its own plan. */
static void swap_handles(ig_ctx *ctx, ig_recording *from, ig_recording *to) {
    ig_recorder *rec = &ctx->recorder;
    const uint32_t n_handles = n_returned(rec);
    for (uint32_t c = 0; c < n_handles; c++) {
        ig_tensor *t = from->cells[c].handle, *other = to->cells[c].handle;
        from->cells[c].handle = other;
        to->cells[c].handle = t;
        rec->now = to;
        if (t) ig_handle_point(ctx, to, &to->cells[c], t);
        if (t) t->recording = to->number;
        rec->now = from;
        if (other) ig_handle_point(ctx, from, &from->cells[c], other);
        if (other) other->recording = from->number;
    }
    rec->now = to;
}

/* Switches to another recording with the same verified events whose next event is this call. Only
 * possible before the first region has run, since results are placed by this plan. */
static bool switch_over(ig_ctx *ctx, const ig_call *call) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *from = rec->now;
    const size_t n_bound = rec->n_bound;
    if (rec->n_regions > 0) return false;
    for (uint32_t i = 0; i < rec->count; i++) {
        ig_recording *to = rec->all[i];
        if (to == from || !ig_recording_prefix(from, to, rec->cursor)) continue;
        for (size_t s = 0; s < from->n_states && s < to->n_states; s++)
            if (from->states[s].id == to->states[s].id)
                to->states[s].tensor = from->states[s].tensor;
        if (call ? !matches(ctx, to, call) : to->n_events != rec->cursor) continue;
        keep_held(rec, to);
        if (prepare(ctx, to) == IG_OK) {
            swap_handles(ctx, from, to);
            return true;
        }
        rec->n_bound = n_bound;
    }
    return false;
}

/* Picks a recording by the first event of the step: the most recently used one that matches.
 * switch_over() corrects a wrong choice at the event that differs. */
static bool choose(ig_ctx *ctx, const ig_call *call) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *best = NULL;
    for (uint32_t i = 0; i < rec->count; i++)
        if ((!best || rec->all[i]->used > best->used) && matches(ctx, rec->all[i], call)) {
            best = rec->all[i];
            rec->n_bound = 0;
        }
    if (!best) return false;
    const ig_status status = prepare(ctx, best);
    if (status != IG_OK) { /* continue as Dynamic; an error in strict mode */
        rec->refused = true;
        rec->out_of_memory = status == IG_ERR_MEMORY;
        snprintf(rec->reason, sizeof rec->reason, "%s", ig_error_text());
        ig_recorder_note(ctx, "refuse", rec->reason);
        if (ctx->options.strict) ig_graph_stick(&ctx->tape.graph, status);
        return false;
    }
    rec->now = best;
    rec->state = IG_REPLAYING;
    return true;
}

/* Decides what this step is: plain Dynamic, a replay, or a new recording. */
static void begin(ig_ctx *ctx, const ig_call *call) {
    ig_recorder *rec = &ctx->recorder;
    ig_replay_detach(ctx);
    rec->run++;
    rec->cursor = rec->n_regions = 0;
    rec->n_bound = 0;
    rec->now = NULL;
    /* Auto records its last Dynamic step. */
    const bool early = rec->mode == IG_MODE_AUTO && rec->mode_steps + 1 < IG_AUTO_STEPS;
    if (rec->mode == IG_MODE_DYNAMIC || rec->refused || early)
        rec->state = IG_PLAIN;
    else if (!choose(ctx, call)) {
        if (rec->count > 0) say_what_changed(rec, call);
        ig_record_begin(ctx);
    }
}

/* The hot path of a replayed step.  True: `out` are handles of the recording and nothing has run.
 * False: the caller builds and runs the op itself; a replay that did not match has become Dynamic.
 */
bool ig_replay_call(ig_ctx *ctx, const ig_call *call, ig_tensor **out, uint32_t n_out) {
    ig_recorder *rec = &ctx->recorder;
    if (ctx->tape.in_backward) return false;
    if (rec->state == IG_BETWEEN) begin(ctx, call);
    if (rec->state != IG_REPLAYING) return false;
    const bool failed = ctx->tape.graph.status != IG_OK; /* after an error nothing is computed */
    if (failed || (!matches(ctx, rec->now, call) && !switch_over(ctx, call))) {
        if (!failed) say_what_changed(rec, call);
        ig_recorder_note(ctx, "diverge", failed ? "an op failed" : rec->reason);
        const ig_status status = ig_diverge(ctx);
        if (status != IG_OK) ig_graph_stick(&ctx->tape.graph, status);
        return false;
    }
    const ig_event *e = &rec->now->events[rec->cursor++];
    for (; rec->n_held < rec->n_bound; rec->n_held++) rec->bound[rec->n_held]->refs++;
    for (uint32_t i = 0; i < e->n_grads; i++)
        rec->now->states[rec->now->grads[e->grads + i].state].tensor->has_grad = true;
    ctx->tape.n_random = e->n_random;
    for (uint32_t i = 0; i < n_out; i++) {
        out[i] = ig_handle_out(ctx, e->cells + i);
        if (!out[i]) out[i] = ig_poisoned(ctx, IG_FAIL(IG_ERR_MEMORY, "replay: a handle"));
    }
    return true;
}

/* ---- graph breaks ---- */

/* Number of events that may be pending: verified ones, or those that a capture has recorded. */
static size_t n_waiting(const ig_recorder *rec) {
    if (rec->state == IG_REPLAYING) return rec->cursor;
    return rec->state == IG_RECORDING && rec->deferring ? rec->now->n_events : 0;
}

/* Whether one of these events uses the memory or, with `overwrites`, overwrites it. Conservative:
 * the event may have run already. */
static bool touches(const ig_ctx *ctx, const ig_storage *memory, bool overwrites) {
    const ig_recorder *rec = &ctx->recorder;
    const ig_recording *r = rec->now;
    for (size_t i = 0; i < n_waiting(rec); i++) {
        const ig_event *e = &r->events[i];
        const bool counts = !overwrites || e->kind == IG_EVENT_UPDATE;
        for (uint32_t j = 0; counts && j < e->n_refs; j++) {
            const ig_ref ref = r->refs[e->refs + j];
            if (ref.kind != IG_REF_CELL &&
                ig_storage_overlaps(ig_replay_bound(ctx, ref)->storage, memory))
                return true;
        }
        for (uint32_t j = 0; j < e->n_grads; j++) {
            const ig_tensor *whose = r->states[r->grads[e->grads + j].state].tensor;
            if (ig_storage_overlaps(whose->grad->storage, memory)) return true;
        }
    }
    return false;
}

/* Whether the regions that have run computed the result. */
static bool has_run(const ig_recorder *rec, uint32_t cell) {
    uint32_t region = 0;
    for (uint32_t i = 0; i < rec->cursor && region < rec->n_regions; i++) {
        const ig_event *e = &rec->now->events[i];
        if (e->kind == IG_EVENT_READ) region++;
        if (cell < e->cells + e->n_cells) return true;
    }
    return false;
}

/* Whether the result's bytes exist, in the arena or in the tensor it is a view of. */
static bool is_there(const ig_ctx *ctx, const ig_tensor *t) {
    const ig_recorder *rec = &ctx->recorder;
    const ig_recording *r = rec->now;
    const ig_value base = ig_value_at(&r->graph, r->cells[t->cell - 1].value)->base;
    return t->storage != &ctx->memory.arena || ig_plan_holds(r->plan, base, rec->n_regions);
}

/* A read between two steps. The recording keeps the result from now on; if the current plan did
 * not, this read fails. */
static ig_status read_after(ig_ctx *ctx, ig_tensor *t) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    if (!r || !t->cell || t->run != rec->run || t->cell > r->n_cells) return IG_OK;
    const bool there = !t->replayed || is_there(ctx, t);
    if (!r->cells[t->cell - 1].kept && r->plan && !there) r->stale = true;
    r->cells[t->cell - 1].kept = true;
    if (there) return IG_OK;
    return IG_FAIL(IG_ERR_STATE,
                   "read: the replayed step did not keep this result; it does from the next "
                   "step on (results that are read in the first step are kept)");
}

/* A tensor that the step has not overwritten can be read at any time, without an event. */
static bool is_overwritten(const ig_ctx *ctx, const ig_tensor *t) {
    return t->tape == ctx->tape.number && t->value != IG_NO_VALUE &&
           ig_value_at(&ctx->tape.graph, t->value)->node != IG_NO_NODE;
}

/* A read is an event only if replays must stop for it: of a result or an overwritten state. */
static void record_read(ig_ctx *ctx, ig_tensor *t, const ig_call *call) {
    ig_recorder *rec = &ctx->recorder;
    ig_ref ref;
    if (!ig_record_find(ctx, t, &ref) || ref.kind == IG_REF_LEAF) return;
    if (ref.kind == IG_REF_STATE && !is_overwritten(ctx, t)) return;
    if (ref.kind == IG_REF_CELL) rec->now->cells[ref.index].kept = true;
    ig_record_call(ctx, call, NULL, 0);
}

/* A recorded graph break runs the region before it. Otherwise the bytes may exist already; if not,
 * the step has diverged. */
ig_status ig_replay_read(ig_ctx *ctx, ig_tensor *t) {
    ig_recorder *rec = &ctx->recorder;
    const ig_call call = {.kind = IG_EVENT_READ, .in = &t, .n_in = 1};
    const bool of_this_step = t->cell && t->run == rec->run;
    if (t->cell && !of_this_step) ig_replay_used(ctx, t);
    if (rec->state == IG_BETWEEN) return read_after(ctx, t);
    if (rec->deferring && (!t->storage->buffer || touches(ctx, t->storage, true)))
        IG_TRY(ig_capture_run_now(ctx));
    if (rec->state == IG_RECORDING) record_read(ctx, t, &call);
    if (rec->state != IG_REPLAYING) return IG_OK;
    if (matches(ctx, rec->now, &call)) {
        const ig_status status = run_region(ctx);
        if (status == IG_OK)
            rec->cursor++;
        else if (status != IG_ERR_CANCELLED)
            ig_replay_abandon(ctx, true);
        return status;
    }
    if (of_this_step ? has_run(rec, t->cell - 1) && is_there(ctx, t)
                     : !touches(ctx, t->storage, true))
        return IG_OK;
    say_what_changed(rec, &call);
    IG_TRY(ig_diverge(ctx));
    if (!t->storage) return ig_tensor_missing(t, "read");
    return ig_replay_read(ctx, t); /* recorded this time */
}

/* Pending events must see the old bytes, so they run first. */
ig_status ig_replay_write(ig_ctx *ctx, ig_tensor *t) {
    ig_recorder *rec = &ctx->recorder;
    if (!touches(ctx, t->storage, false)) return IG_OK;
    if (rec->deferring) return ig_capture_run_now(ctx);
    snprintf(rec->reason, sizeof rec->reason, "event %u: a tensor is written to during the step",
             rec->cursor);
    return ig_diverge(ctx); /* pending events read the current bytes */
}

void ig_replay_release(ig_tensor *t) {
    ig_ctx *ctx = t->ctx;
    if (ctx->recorder.state != IG_REPLAYING || !t->storage || !touches(ctx, t->storage, false))
        return;
    const ig_status status = ig_diverge(ctx); /* pending events need it */
    if (status != IG_OK) ig_graph_stick(&ctx->tape.graph, status);
}

/* Dispatch batches use the arena, too. */
ig_status ig_replay_give_way(ig_ctx *ctx) {
    if (ctx->recorder.deferring) return ig_capture_run_now(ctx);
    if (ctx->recorder.state == IG_REPLAYING) return ig_diverge(ctx);
    if (ctx->recorder.state == IG_BETWEEN) ig_replay_detach(ctx);
    return IG_OK;
}

ig_status ig_replay_check_between(const ig_ctx *ctx, const char *what) {
    const ig_recorder *rec = &ctx->recorder;
    if (!ctx->steps.has_ops && !rec->capturing && rec->state == IG_BETWEEN) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "%s: in the middle of a step; end it first", what);
}

/* Whether the event's op reads the slot. */
static bool reads_slot(const ig_recording *r, const ig_event *e, uint32_t slot) {
    const void *attrs = &r->attrs[e->attrs];
    ig_attrs_adamw adamw;
    ig_attrs_sgd sgd;
    if (e->kind != IG_EVENT_UPDATE) return false;
    if (e->op == IG_OP_ADAMW) {
        memcpy(&adamw, attrs, sizeof adamw);
        return adamw.lr_slot == slot || adamw.step_slot == slot;
    }
    if (e->op != IG_OP_SGD) return false;
    memcpy(&sgd, attrs, sizeof sgd);
    return sgd.lr_slot == slot;
}

/* Pending updates read slots when they run: they must run with the old value. */
void ig_replay_slot(ig_ctx *ctx, uint32_t slot) {
    ig_recorder *rec = &ctx->recorder;
    for (size_t i = 0; i < n_waiting(rec); i++) {
        if (!reads_slot(rec->now, &rec->now->events[i], slot)) continue;
        const ig_status status = rec->deferring ? ig_capture_run_now(ctx) : ig_diverge(ctx);
        if (status != IG_OK) ig_graph_stick(&ctx->tape.graph, status);
        return;
    }
}

/* Steps that end inside a scope while losses still wait for their backward form one recording. */
bool ig_replay_continues(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    const ig_call call = {.kind = IG_EVENT_STEP};
    if (rec->state != IG_REPLAYING) return false;
    if (matches(ctx, rec->now, &call)) {
        rec->cursor++;
        return true;
    }
    if (rec->cursor < rec->now->n_events || !rec->now->open) return false;
    const ig_status status =
        ig_diverge(ctx); /* recorded as the end of the tape; here the tape continues */
    if (status != IG_OK) ig_graph_stick(&ctx->tape.graph, status);
    return false;
}

/* ---- the end ---- */

/* After a failed region or divergence: resets flags of gradients that were not computed, gives
 * results in a valid arena their own memory and poisons all others. */
void ig_replay_abandon(ig_ctx *ctx, bool arena_is_valid) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    uint32_t region = 0;
    for (uint32_t i = 0; i < rec->cursor; i++) region += r->events[i].kind == IG_EVENT_READ;
    for (uint32_t i = rec->cursor; i-- > 0;) { /* reset gradients that were not computed */
        const ig_event *e = &r->events[i];
        region -= e->kind == IG_EVENT_READ;
        for (uint32_t j = 0; region >= rec->n_regions && j < e->n_grads; j++)
            r->states[r->grads[e->grads + j].state].tensor->has_grad = r->grads[e->grads + j].had;
    }
    for (uint32_t i = 0; i < r->n_cells; i++) {
        const ig_tensor *t = r->cells[i].handle;
        if (!t || t->alive != IG_TENSOR_ALIVE) continue;
        ig_handle_detach(ctx, r, &r->cells[i],
                         arena_is_valid && has_run(rec, i) && is_there(ctx, t));
    }
    ig_replay_let_go(ctx);
    rec->now = NULL;
    rec->state = IG_PLAIN;
}

/* Runs the last region and counts the step. */
static ig_status end_replay(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    const ig_status status = run_region(ctx);
    if (status != IG_OK) {
        ig_replay_abandon(ctx, true);
        return status;
    }
    ig_replay_let_go(ctx);
    r->used = ctx->steps.count + 1;
    ctx->counters.replays++;
    ig_recorder_note(ctx, "replay", "");
    ig_ctx_count_run(ctx, r->plan, r->plan->n_steps - r->plan->n_copies);
    return IG_OK;
}

/* Ends the step in any state. A replay with unverified events left is a different step: a shorter
 * recording with the same events takes over, or the step becomes Dynamic. */
ig_status ig_replay_end(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    ig_status status = IG_OK;
    if (rec->state == IG_BETWEEN) return IG_OK; /* the step has ended already */
    rec->mode_steps++;
    if (rec->state == IG_REPLAYING) {
        if (rec->cursor == rec->now->n_events || switch_over(ctx, NULL)) {
            status = end_replay(ctx);
        } else {
            say_what_changed(rec, NULL);
            ig_recorder_note(ctx, "diverge", rec->reason);
            status = ig_diverge(ctx);
        }
    }
    if (rec->state == IG_RECORDING) ig_record_finish(ctx);
    rec->state = IG_BETWEEN;
    return status;
}
