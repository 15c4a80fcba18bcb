/*
 * Following a recording.  Each call moves a cursor and costs a comparison; a read
 * or the end of the step runs the plan up to there.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/ctx.h"

ig_tensor *ig_replay_bound(const ig_ctx *ctx, ig_ref ref) {
    const ig_recorder *rec = &ctx->recorder;
    if (ref.kind == IG_REF_STATE) return rec->now->states[ref.index].tensor;
    return ref.index < rec->n_bound ? rec->bound[ref.index] : NULL;
}

void ig_replay_let_go(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    while (rec->n_held > 0) ig_tensor_release(rec->bound[--rec->n_held]);
}

/* ---- comparing ---- */

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

/* A custom op's own rule may give other shapes than it did. */
static bool same_results(const ig_recording *r, const ig_event *e, const ig_desc *desc) {
    for (uint32_t i = 0; desc && i < e->n_cells; i++) {
        const ig_desc was = ig_value_at(&r->graph, r->cells[e->cells + i].value)->layout.desc;
        if (was.dtype != desc[i].dtype || !ig_shape_equal(was.shape, desc[i].shape)) return false;
    }
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

/* The bytes of a frozen tensor; NULL: they may change, or another tensor may come in its place. */
static const void *weight_of(const ig_recording *r, ig_ref ref) {
    if (ref.kind != IG_REF_STATE) return NULL;
    const ig_tensor *t = r->states[ref.index].tensor;
    if (t->alive != IG_TENSOR_ALIVE || t->id != r->states[ref.index].id) return NULL;
    return t->storage && t->storage->frozen ? t->storage->buffer : NULL;
}

ig_status ig_recording_make_plan(ig_ctx *ctx, ig_recording *r) {
    const ig_allocator *a = &ctx->allocator;
    const uint64_t began = ig_clock_ns();
    ig_value *bound = ig_alloc(a, r->n_binds, sizeof *bound);
    ig_value *kept = ig_alloc(a, r->n_cells, sizeof *kept);
    uint32_t *cuts = ig_alloc(a, r->n_events, sizeof *cuts), n_kept = 0, n_cuts = 0;
    const void **weights = ig_alloc(a, r->n_binds, sizeof *weights);
    if (!r->buffers) r->buffers = ig_alloc(a, r->n_binds + 1, sizeof(ig_backend_buffer *));
    if (!r->mirrors) r->mirrors = ig_alloc(a, r->n_binds + 1, sizeof(ig_mirror *));
    ig_status status = IG_OK;
    if (!bound || !kept || !cuts || !weights || !r->buffers || !r->mirrors)
        status = IG_FAIL(IG_ERR_MEMORY, "replay: %zu events", r->n_events);
    if (status == IG_OK) {
        for (size_t i = 0; i < r->n_binds; i++) {
            bound[i] = r->binds[i].value;
            weights[i] = weight_of(r, r->binds[i].ref);
        }
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
                                               .n_cuts = n_cuts,
                                               .weights = weights},
                                &r->plan);
    }
    ig_free(a, (void *)weights);
    ig_free(a, cuts);
    ig_free(a, kept);
    ig_free(a, bound);
    ctx->plan_ns += ig_clock_ns() - began;
    ig_pool_drain(ctx); /* what the recorded step took one by one, the arena has now */
    for (size_t i = 0; status == IG_OK && i < r->n_cells; i++) { /* the arena is laid out anew */
        ig_tensor_give_up(r->cells[i].handle);
        r->cells[i].handle = NULL;
    }
    return status;
}

/* The plan, and room for it. */
static ig_status prepare(ig_ctx *ctx, ig_recording *r) {
    if (r->stale) ig_recording_drop_plan(ctx, r);
    if (!r->plan) IG_TRY(ig_recording_make_plan(ctx, r));
    return ig_arena_reserve(ctx, r->plan->arena_bytes);
}

static ig_status run_part(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    if (ctx->options.cancel && ctx->options.cancel(ctx->options.user))
        return IG_FAIL(IG_ERR_CANCELLED, "replay: cancelled");
    const uint64_t began = r->plan->far ? ig_clock_ns() : 0;
    r->buffers[IG_ARENA] = ctx->arena.buffer;
    r->mirrors[IG_ARENA] = &ctx->arena.mirror;
    for (size_t i = 0; i < r->n_binds; i++) {
        const ig_tensor *t = ig_replay_bound(ctx, r->binds[i].ref);
        r->buffers[i + 1] = t && t->storage ? t->storage->buffer : NULL;
        r->mirrors[i + 1] = t && t->storage ? &t->storage->mirror : NULL;
    }
    if (rec->part == 0) ig_profile_run(ctx, r->plan);
    const ig_status status = ig_plan_run_part(
        r->plan, rec->part, ig_ctx_run_args(ctx, r->buffers, r->mirrors, r->n_binds + 1));
    if (status == IG_OK) rec->part++;
    if (r->plan->far) ctx->counters.replay_ns += ig_clock_ns() - began;
    return status;
}

/* ---- choosing a recording ---- */

/* An event in words: what is recorded, or what is called. */
static const char *name_of(uint32_t kind, uint32_t op) {
    static const char *const names[] = {[IG_EVENT_BACKWARD] = "backward",
                                        [IG_EVENT_READ] = "a read",
                                        [IG_EVENT_STEP] = "a step's end"};
    return kind <= IG_EVENT_UPDATE ? ig_op_name(op) : names[kind];
}

static void say_what_changed(ig_recorder *rec, const ig_call *call) {
    const ig_recording *r = rec->now;
    const ig_event *e = r && rec->cursor < r->n_events ? &r->events[rec->cursor] : NULL;
    const char *is = call ? name_of(call->kind, call->op) : "the end of the step";
    const char *was = e ? name_of(e->kind, e->op) : r ? "the end of the step" : "none like it";
    char shape[IG_SHAPE_TEXT_BYTES] = "";
    if (call && call->n_in > 0 && call->in[0])
        ig_shape_text(ig_tensor_desc(call->in[0]).shape, shape);
    snprintf(rec->reason, sizeof rec->reason, "event %u: %s %s, recorded was %s", rec->cursor, is,
             shape, was);
}

/* Results handed out so far. */
static uint32_t n_handed(const ig_recorder *rec) {
    const ig_event *last = rec->cursor ? &rec->now->events[rec->cursor - 1] : NULL;
    return last ? last->cells + last->n_cells : 0;
}

/* What somebody holds already has to be kept by the other recording too. */
static void keep_held(const ig_recorder *rec, ig_recording *to) {
    for (uint32_t c = 0; c < n_handed(rec); c++) {
        const ig_tensor *t = rec->now->cells[c].handle;
        if (!t || t->alive != IG_TENSOR_ALIVE || t->refs <= 1u + t->in_scope) continue;
        if (!to->cells[c].kept) to->stale = to->plan != NULL;
        to->cells[c].kept = true;
    }
}

/* What was handed out belongs to the other recording now. */
static void swap_handles(ig_ctx *ctx, ig_recording *from, ig_recording *to) {
    ig_recorder *rec = &ctx->recorder;
    const uint32_t handed = n_handed(rec);
    for (uint32_t c = 0; c < handed; c++) {
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

/* Another recording with the same beginning that goes on as the step does. */
static bool switch_over(ig_ctx *ctx, const ig_call *call) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *from = rec->now;
    const size_t n_bound = rec->n_bound;
    if (rec->part > 0) return false; /* its results lie where this plan put them */
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
    const ig_status status = prepare(ctx, best);
    if (status != IG_OK) { /* Dynamic it is, unless that is not what was asked for */
        rec->refused = true;
        snprintf(rec->reason, sizeof rec->reason, "%s", ig_error_text());
        if (ctx->options.strict) ig_graph_stick(&ctx->graph, status);
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
    if (rec->mode == IG_MODE_DYNAMIC || rec->refused || early)
        rec->state = IG_PLAIN;
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
    const bool failed = ctx->graph.status != IG_OK; /* after an error nothing is computed */
    if (failed || (!matches(ctx, rec->now, call) && !switch_over(ctx, call))) {
        if (!failed) say_what_changed(rec, call);
        const ig_status status = ig_diverge(ctx);
        if (status != IG_OK) ig_graph_stick(&ctx->graph, status);
        return false;
    }
    const ig_event *e = &rec->now->events[rec->cursor++];
    for (; rec->n_held < rec->n_bound; rec->n_held++) rec->bound[rec->n_held]->refs++;
    for (uint32_t i = 0; i < e->n_grads; i++)
        rec->now->states[rec->now->grads[e->grads + i].state].tensor->has_grad = true;
    ctx->n_random = e->n_random;
    for (uint32_t i = 0; i < n_out; i++) {
        out[i] = ig_handle_out(ctx, e->cells + i);
        if (!out[i]) out[i] = ig_poisoned(ctx, IG_FAIL(IG_ERR_MEMORY, "replay: a handle"));
    }
    return true;
}

/* ---- cuts ---- */

/* Events that may wait to be run: those that are verified, or what a capture has written down. */
static size_t n_waiting(const ig_recorder *rec) {
    if (rec->state == IG_REPLAYING) return rec->cursor;
    return rec->state == IG_RECORDING && rec->deferring ? rec->now->n_events : 0;
}

/* Whether such an event touches the memory, or, if so asked, overwrites it.  That it may have
 * run already makes no difference worth asking for. */
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

/* Whether the result has been computed by the parts that have run. */
static bool has_run(const ig_recorder *rec, uint32_t cell) {
    uint32_t part = 0;
    for (uint32_t i = 0; i < rec->cursor && part < rec->part; i++) {
        const ig_event *e = &rec->now->events[i];
        if (e->kind == IG_EVENT_READ) part++;
        if (cell < e->cells + e->n_cells) return true;
    }
    return false;
}

/* Whether the result's bytes are there, in the arena or in a tensor that it shows. */
static bool is_there(const ig_ctx *ctx, const ig_tensor *t) {
    const ig_recorder *rec = &ctx->recorder;
    const ig_recording *r = rec->now;
    const ig_value base = ig_value_at(&r->graph, r->cells[t->cell - 1].value)->base;
    return t->storage != &ctx->arena || ig_plan_holds(r->plan, base, rec->part);
}

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

/* What a step has not overwritten can be read at any time: that is no event. */
static bool is_overwritten(const ig_ctx *ctx, const ig_tensor *t) {
    return t->tape == ctx->tape && t->value != IG_NO_VALUE &&
           ig_value_at(&ctx->graph, t->value)->node != IG_NO_NODE;
}

static void record_read(ig_ctx *ctx, ig_tensor *t, const ig_call *call) {
    ig_recorder *rec = &ctx->recorder;
    ig_ref ref;
    if (!ig_record_find(ctx, t, &ref) || ref.kind == IG_REF_LEAF) return;
    if (ref.kind == IG_REF_STATE && !is_overwritten(ctx, t)) return;
    if (ref.kind == IG_REF_CELL) rec->now->cells[ref.index].kept = true;
    ig_record_call(ctx, call, NULL, 0);
}

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
        const ig_status status = run_part(ctx);
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
    return ig_replay_read(ctx, t); /* recorded now */
}

ig_status ig_replay_write(ig_ctx *ctx, ig_tensor *t) {
    ig_recorder *rec = &ctx->recorder;
    if (!touches(ctx, t->storage, false)) return IG_OK;
    if (rec->deferring) return ig_capture_run_now(ctx);
    snprintf(rec->reason, sizeof rec->reason, "event %u: a tensor is written to in the middle",
             rec->cursor);
    return ig_diverge(ctx); /* what is pending reads it as it is now */
}

void ig_replay_release(ig_tensor *t) {
    ig_ctx *ctx = t->ctx;
    if (ctx->recorder.state != IG_REPLAYING || !t->storage || !touches(ctx, t->storage, false))
        return;
    const ig_status status = ig_diverge(ctx); /* what is pending needs it */
    if (status != IG_OK) ig_graph_stick(&ctx->graph, status);
}

ig_status ig_replay_give_way(ig_ctx *ctx) {
    if (ctx->recorder.deferring) return ig_capture_run_now(ctx);
    if (ctx->recorder.state == IG_REPLAYING) return ig_diverge(ctx);
    if (ctx->recorder.state == IG_BETWEEN) ig_replay_detach(ctx);
    return IG_OK;
}

ig_status ig_replay_check_between(const ig_ctx *ctx, const char *what) {
    const ig_recorder *rec = &ctx->recorder;
    if (!ctx->step_has_ops && !rec->capturing && rec->state == IG_BETWEEN) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "%s: in the middle of a step; end it first", what);
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
    for (size_t i = 0; i < n_waiting(rec); i++) {
        if (!reads_slot(rec->now, &rec->now->events[i], slot)) continue;
        const ig_status status = rec->deferring ? ig_capture_run_now(ctx) : ig_diverge(ctx);
        if (status != IG_OK) ig_graph_stick(&ctx->graph, status);
        return;
    }
}

bool ig_replay_goes_on(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    const ig_call call = {.kind = IG_EVENT_STEP};
    if (rec->state != IG_REPLAYING) return false;
    if (matches(ctx, rec->now, &call)) {
        rec->cursor++;
        return true;
    }
    if (rec->cursor < rec->now->n_events || !rec->now->open) return false;
    const ig_status status =
        ig_diverge(ctx); /* it was recorded where the tape ended, here it goes on */
    if (status != IG_OK) ig_graph_stick(&ctx->graph, status);
    return false;
}

/* ---- the end ---- */

void ig_replay_abandon(ig_ctx *ctx, bool arena_is_whole) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    uint32_t part = 0;
    for (uint32_t i = 0; i < rec->cursor; i++) part += r->events[i].kind == IG_EVENT_READ;
    for (uint32_t i = rec->cursor; i-- > 0;) { /* gradients that were not computed are not there */
        const ig_event *e = &r->events[i];
        part -= e->kind == IG_EVENT_READ;
        for (uint32_t j = 0; part >= rec->part && j < e->n_grads; j++)
            r->states[r->grads[e->grads + j].state].tensor->has_grad = r->grads[e->grads + j].had;
    }
    for (uint32_t i = 0; i < r->n_cells; i++) {
        const ig_tensor *t = r->cells[i].handle;
        if (!t || t->alive != IG_TENSOR_ALIVE) continue;
        ig_handle_detach(ctx, r, &r->cells[i],
                         arena_is_whole && has_run(rec, i) && is_there(ctx, t));
    }
    ig_replay_let_go(ctx);
    rec->now = NULL;
    rec->state = IG_PLAIN;
}

static ig_status end_replay(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    const ig_status status = run_part(ctx);
    if (status != IG_OK) {
        ig_replay_abandon(ctx, true);
        return status;
    }
    ig_replay_let_go(ctx);
    r->used = ctx->steps + 1;
    ctx->counters.replays++;
    ctx->counters.ops += r->plan->n_steps - r->plan->n_copies;
    ctx->counters.submits += r->plan->n_submits;
    ctx->counters.dispatches += r->plan->n_steps;
    ctx->counters.copies += r->plan->n_copies;
    return IG_OK;
}

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
            status = ig_diverge(ctx);
        }
    }
    if (rec->state == IG_RECORDING) ig_record_finish(ctx);
    rec->state = IG_BETWEEN;
    return status;
}
