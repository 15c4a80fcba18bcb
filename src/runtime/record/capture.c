/*
 * Explicit capture: a recording without matching, with its own memory.
 *
 * The function is called to record its ops; nothing is computed meanwhile. Then the whole recording
 * is planned, and the plan runs for the first time. Ops run one by one during the capture only if
 * the function reads results, or changes a tensor that recorded ops use.
 */
#include "ingot/graph.h"

#include <string.h>

#include "base/clock.h"
#include "base/quant_blocks.h"
#include "runtime/ctx.h"

const ig_plan *ig_captured_plan(const ig_ctx *ctx, uint32_t index) {
    const ig_captured *c = ctx->captures.newest;
    while (c && index-- > 0) c = c->next;
    return c ? c->recording->plan : NULL;
}

/* ---- after fn ---- */

/* Calls fn for every live tensor of the context. */
static void each_tensor(ig_captured *c, void (*fn)(ig_captured *c, ig_tensor *t)) {
    for (ig_tensor_slab *slab = c->ctx->handles.slabs; slab; slab = slab->next)
        for (size_t i = 0; i < IG_SLAB_TENSORS; i++)
            if (slab->tensors[i].alive == IG_TENSOR_ALIVE) fn(c, &slab->tensors[i]);
}

/* Whether it is a result of this step that is still referenced. */
static bool is_held(const ig_captured *c, const ig_tensor *t) {
    return t->cell && t->run == c->ctx->recorder.run && t->refs > (t->in_scope ? 1u : 0u);
}

static void keep(ig_captured *c, ig_tensor *t) {
    if (is_held(c, t)) c->recording->cells[t->cell - 1].kept = true;
}

/* Moves a held result into the arena, at the offset where replays write it. */
static void move_in(ig_captured *c, ig_tensor *t) {
    if (!is_held(c, t)) return;
    const ig_recording *r = c->recording;
    const ig_value value = r->cells[t->cell - 1].value;
    const ig_value_info *info = ig_value_at(&r->graph, value);
    const ig_placement placement = r->plan->placements[info->base];
    uint64_t bytes = 0;
    t->cell = 0;                                  /* no longer a recording's cell */
    if (placement.offset == IG_NOT_THERE) return; /* a view of a bound tensor */
    const ig_status there = ig_storage_to_host(&c->ctx->memory, t->storage);
    if (there != IG_OK) {
        c->move_status = there;
        return;
    }
    (void)ig_desc_bytes(ig_value_at(&r->graph, info->base)->layout.desc, &bytes);
    if (t->storage->buffer) /* computed already */
        memcpy((char *)c->arena->buffer + placement.offset, (const char *)t->storage->buffer,
               bytes);
    if (!IG_GROW(&c->ctx->allocator, c->held, &c->held_room, c->n_held + 1)) {
        c->move_status = IG_FAIL(IG_ERR_MEMORY, "capture: %zu results", c->n_held);
        return;
    }
    c->held[c->n_held++] = (ig_captured_result){t, t->id, value};
    ig_storage_release(&c->ctx->memory, t->storage);
    t->storage = ig_storage_retain(c->arena);
    t->layout = info->layout;
    t->layout.offset += ig_elements_of(info->layout.desc.dtype, (int64_t)placement.offset);
}

/* Drops the storage of results without memory: unreferenced ones, and all of them if nothing ran.
 */
static void lose(ig_captured *c, ig_tensor *t) {
    if (!t->storage || (t->storage->buffer && (c->has_run || t->storage != c->arena))) return;
    ig_storage_release(&c->ctx->memory, t->storage);
    t->storage = NULL;
    t->cell = 0;
    t->lost = c->has_run;
}

static ig_status bind(ig_captured *c) {
    const ig_recording *r = c->recording;
    c->bound = ig_alloc(&c->ctx->allocator, r->n_binds, sizeof(ig_tensor *));
    if (!c->bound) return IG_FAIL(IG_ERR_MEMORY, "capture: %zu tensors", r->n_binds);
    for (size_t i = 0; i < r->n_binds; i++)
        c->bound[i] = ig_tensor_retain(ig_replay_bound(c->ctx, r->binds[i].ref));
    return IG_OK;
}

static ig_status settle(ig_captured *c, const ig_slot *before, size_t n_before) {
    ig_ctx *ctx = c->ctx;
    IG_TRY(bind(c));
    each_tensor(c, keep);
    IG_TRY(ig_recording_make_plan(ctx, c->recording));
    IG_TRY(ig_storage_create(&ctx->memory, c->recording->plan->arena_bytes, &c->arena));
    each_tensor(c, move_in);
    IG_TRY(c->move_status);
    c->n_slots = n_before;
    c->advance = ig_alloc(&ctx->allocator, n_before, sizeof *c->advance);
    if (!c->advance) return IG_FAIL(IG_ERR_MEMORY, "capture: %zu slots", n_before);
    for (size_t i = IG_SLOT_STEP + 1; i < n_before; i++)
        if (ctx->slots.is_count[i]) c->advance[i] = ctx->slots.at[i].i - before[i].i;
    return IG_OK;
}

/* ---- the calls ---- */

ig_status ig_capture_failed(const ig_ctx *ctx) {
    const char *reason = ctx->recorder.reason;
    return *reason ? IG_FAIL(IG_ERR_STATE, "capture: %s", reason)
                   : IG_FAIL(IG_ERR_MEMORY, "capture: no memory for the recording");
}

ig_status ig_capture_run_now(ig_ctx *ctx) {
    ig_recorder *rec = &ctx->recorder;
    if (rec->failed) return ig_capture_failed(ctx);
    const ig_status status = ig_tape_run(ctx);
    if (status == IG_OK)
        rec->deferring = false;
    else
        ig_record_give_up(ctx); /* unfinished results must not be used */
    return status;
}

static ig_status record(ig_captured *c, ig_status (*fn)(void *arg), void *arg) {
    ig_ctx *ctx = c->ctx;
    ig_recorder *rec = &ctx->recorder;
    const uint64_t steps = ctx->steps.count;
    ig_step_begin_op(ctx);
    ig_replay_detach(ctx);
    rec->run++;
    rec->n_bound = 0;
    rec->reason[0] = '\0';
    ig_record_begin(ctx);
    rec->capturing = true;
    rec->failed = rec->state != IG_RECORDING;
    rec->deferring = !ctx->nan_check.watching; /* the NaN check needs the results of each op */
    ig_status status = fn(arg);
    c->has_run = !rec->deferring;
    if (status == IG_OK) status = ig_graph_take_error(&ctx->tape.graph);
    if (status == IG_OK && rec->failed) status = ig_capture_failed(ctx);
    rec->capturing = rec->deferring = rec->failed = false;
    if (ctx->steps.count == steps)
        ctx->steps.count++; /* fn ended no step: a replay still counts as one */
    c->steps = ctx->steps.count - steps;
    if (status == IG_OK && rec->state == IG_RECORDING && rec->now->n_events == 0)
        status = IG_FAIL(IG_ERR_ARGUMENT, "capture: the function computed nothing");
    if (status == IG_OK) c->recording = ig_record_take(ctx);
    if (status == IG_OK && !c->recording) status = ig_capture_failed(ctx);
    if (rec->state == IG_RECORDING && !c->has_run) ig_recording_undo_grads(rec->now);
    ig_record_give_up(ctx);
    rec->state = IG_BETWEEN;
    rec->now = c->recording; /* keep its bound tensors readable */
    return status;
}

static ig_status check_cancel(const ig_ctx *ctx, const char *what) {
    if (!ig_ctx_is_cancelled(ctx)) return IG_OK;
    return IG_FAIL(IG_ERR_CANCELLED, "%s: cancelled", what);
}

/* Runs the plan with the current slots. */
static ig_status run(const ig_captured *c) {
    ig_ctx *ctx = c->ctx;
    const ig_recording *r = c->recording;
    const uint64_t began = r->plan->remote ? ig_clock_ns() : 0;
    r->buffers[IG_ARENA] = c->arena->buffer;
    r->mirrors[IG_ARENA] = &c->arena->mirror;
    for (size_t i = 0; i < r->n_binds; i++) {
        r->buffers[i + 1] = c->bound[i]->storage->buffer;
        r->mirrors[i + 1] = &c->bound[i]->storage->mirror;
    }
    ig_profile_run(&ctx->profile, r->plan);
    const ig_status status =
        ig_plan_run(r->plan, ig_ctx_run_args(ctx, r->buffers, r->mirrors, r->n_binds + 1));
    if (r->plan->remote) ctx->counters.replay_ns += ig_clock_ns() - began;
    IG_TRY(status);
    ig_ctx_count_run(ctx, r->plan, r->plan->n_steps - r->plan->n_copies);
    return IG_OK;
}

/* First run after planning, unless the ops ran during the capture. */
static ig_status run_first(ig_captured *c) {
    ig_recording *r = c->recording;
    IG_TRY(check_cancel(c->ctx, "capture"));
    if (!c->has_run) IG_TRY(run(c));
    c->has_run = true;
    for (size_t i = 0; i < r->n_grads; i++) /* replays start from the state fn left */
        r->grads[i].had = r->states[r->grads[i].state].tensor->has_grad;
    return IG_OK;
}

/* If nothing ran, restores slots and gradient flags. */
static void roll_back(const ig_captured *c, const ig_slot *before, size_t n_before) {
    if (c->has_run) return;
    memcpy(c->ctx->slots.at, before, n_before * sizeof *before);
    if (c->recording) ig_recording_undo_grads(c->recording);
}

ig_status ig_capture(ig_ctx *ctx, ig_status (*fn)(void *arg), void *arg, ig_captured **out) {
    if (!ctx || !fn || !out) return IG_FAIL(IG_ERR_ARGUMENT, "capture: NULL");
    IG_TRY(ig_ctx_check_idle(ctx, "capture"));
    IG_TRY(ig_replay_check_between(ctx, "capture"));
    ig_captured *c = ig_alloc(&ctx->allocator, 1, sizeof *c);
    const size_t n_slots = ctx->slots.count;
    ig_slot *before = ig_alloc(&ctx->allocator, n_slots, sizeof *before);
    if (!c || !before) {
        ig_free(&ctx->allocator, before);
        ig_free(&ctx->allocator, c);
        return IG_FAIL(IG_ERR_MEMORY, "capture");
    }
    memcpy(before, ctx->slots.at, n_slots * sizeof *before);
    c->ctx = ctx;
    ig_status status = record(c, fn, arg);
    if (status == IG_OK) status = settle(c, before, n_slots);
    if (status == IG_OK) status = run_first(c);
    if (status != IG_OK) roll_back(c, before, n_slots);
    each_tensor(c, lose);
    if (c->recording) ig_record_let_go(ctx, c->recording);
    ctx->recorder.now = NULL;
    ctx->steps.has_ops = false;
    ctx->steps.ended = true;
    ig_tape_reset(ctx);
    ig_free(&ctx->allocator, before);
    if (status == IG_OK) {
        ctx->counters.records++;
        c->next = ctx->captures.newest;
        ctx->captures.newest = c;
        *out = c;
    } else {
        ig_captured_destroy(c);
    }
    return status;
}

static void advance(const ig_captured *c, int64_t times) {
    for (size_t i = IG_SLOT_STEP + 1; i < c->n_slots; i++)
        c->ctx->slots.at[i].i += times * c->advance[i];
}

ig_status ig_captured_replay(ig_captured *c) {
    if (!c) return IG_FAIL(IG_ERR_ARGUMENT, "captured_replay: NULL");
    ig_ctx *ctx = c->ctx;
    const ig_recording *r = c->recording;
    IG_TRY(ig_ctx_check_idle(ctx, "captured_replay"));
    IG_TRY(ig_replay_check_between(ctx, "captured_replay"));
    IG_TRY(check_cancel(ctx, "captured_replay"));
    advance(c, 1);
    const ig_status status = run(c);
    ctx->steps.count += c->steps;
    ctx->counters.steps += c->steps;
    ctx->slots.at[IG_SLOT_STEP].i = (int64_t)ctx->steps.count;
    if (status != IG_OK) {
        advance(c, -1); /* a failed step does not count */
        return status;
    }
    for (size_t i = 0; i < r->n_grads; i++)
        r->states[r->grads[i].state].tensor->has_grad = r->grads[i].had;
    ctx->counters.replays++;
    return IG_OK;
}

/* Results that are still held keep the arena alive. */
void ig_captured_destroy(ig_captured *c) {
    if (!c) return;
    ig_ctx *ctx = c->ctx;
    for (ig_captured **at = &ctx->captures.newest; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    for (size_t i = 0; c->bound && i < c->recording->n_binds; i++) ig_tensor_release(c->bound[i]);
    ig_free(&ctx->allocator, c->bound);
    ig_free(&ctx->allocator, c->advance);
    ig_free(&ctx->allocator, c->held);
    ig_recording_destroy(ctx, c->recording);
    ig_storage_release(&ctx->memory, c->arena);
    ig_free(&ctx->allocator, c);
}

/* ---- on another device ---- */

ig_status ig_captured_replan(ig_captured *c) {
    ig_recording *r = c->recording;
    ig_plan *old = r->plan;
    r->plan = NULL;
    ig_status status = ig_recording_make_plan(c->ctx, r);
    c->new_plan = r->plan;
    r->plan = old;
    if (status == IG_OK)
        status = ig_storage_create(&c->ctx->memory, c->new_plan->arena_bytes, &c->new_arena);
    return status;
}

void ig_captured_keep_old(ig_captured *c) {
    ig_plan_destroy(c->new_plan);
    ig_storage_release(&c->ctx->memory, c->new_arena);
    c->new_plan = NULL;
    c->new_arena = NULL;
}

/* Moves referenced results to their offsets in the new arena. */
static void move_over(const ig_captured *c, const ig_captured_result *h) {
    ig_tensor *t = h->tensor;
    if (t->alive != IG_TENSOR_ALIVE || t->id != h->id || t->storage != c->arena) return;
    const ig_value_info *info = ig_value_at(&c->recording->graph, h->value);
    const uint64_t from = c->recording->plan->placements[info->base].offset;
    const uint64_t to = c->new_plan->placements[info->base].offset;
    const int64_t base = info->layout.offset;
    uint64_t bytes = 0;
    (void)ig_desc_bytes(ig_value_at(&c->recording->graph, info->base)->layout.desc, &bytes);
    memcpy((char *)c->new_arena->buffer + to, (const char *)c->arena->buffer + from, bytes);
    t->layout.offset = base + ig_elements_of(info->layout.desc.dtype, (int64_t)to);
    ig_storage_release(&c->ctx->memory, t->storage);
    t->storage = ig_storage_retain(c->new_arena);
}

void ig_captured_take_new(ig_captured *c) {
    for (size_t i = 0; i < c->n_held; i++) move_over(c, &c->held[i]);
    ig_recording_drop_plan(c->ctx, c->recording);
    ig_storage_release(&c->ctx->memory, c->arena);
    c->recording->plan = c->new_plan;
    c->arena = c->new_arena;
    c->new_plan = NULL;
    c->new_arena = NULL;
}
