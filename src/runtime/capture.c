/*
 * Capture by hand: a recording that nobody has to match, with memory of its own.
 */
#include "ingot/graph.h"

#include <string.h>

#include "base/blocks.h"
#include "runtime/ctx.h"

const ig_plan *ig_captured_plan(const ig_ctx *ctx, uint32_t index) {
    const ig_captured *c = ctx->captured;
    while (c && index-- > 0) c = c->next;
    return c ? c->recording->plan : NULL;
}

/* ---- after fn ---- */

/* Calls fn for every result of the step that somebody still holds. */
static void each_held(ig_captured *c, void (*fn)(ig_captured *c, ig_tensor *t)) {
    const ig_ctx *ctx = c->ctx;
    for (ig_tensor_slab *slab = ctx->slabs; slab; slab = slab->next)
        for (size_t i = 0; i < sizeof slab->tensors / sizeof slab->tensors[0]; i++) {
            ig_tensor *t = &slab->tensors[i];
            const bool held = t->alive == IG_TENSOR_ALIVE && t->refs > (t->in_scope ? 1u : 0u);
            if (held && t->cell && t->run == ctx->recorder.run) fn(c, t);
        }
}

static void keep(ig_captured *c, ig_tensor *t) { c->recording->cells[t->cell - 1].kept = true; }

/* A held result moves into the arena, where replays will put it. */
static void move_in(ig_captured *c, ig_tensor *t) {
    const ig_recording *r = c->recording;
    const ig_value value = r->cells[t->cell - 1].value;
    const ig_value_info *info = ig_value_at(&r->graph, value);
    const ig_home home = r->plan->homes[info->base];
    uint64_t bytes = 0;
    t->cell = 0;                             /* no recording's any more */
    if (home.offset == IG_NOT_THERE) return; /* a view of something that is bound */
    const ig_status there = ig_storage_to_host(c->ctx, t->storage);
    if (there != IG_OK) {
        c->moved = there;
        return;
    }
    (void)ig_desc_bytes(ig_value_at(&r->graph, info->base)->layout.desc, &bytes);
    memcpy((char *)c->arena->buffer + home.offset, (const char *)t->storage->buffer, bytes);
    if (!IG_GROW(&c->ctx->allocator, c->held, &c->held_room, c->n_held + 1)) {
        c->moved = IG_FAIL(IG_ERR_MEMORY, "capture: %zu results", c->n_held);
        return;
    }
    c->held[c->n_held++] = (ig_held){t, t->id, value};
    ig_storage_release(c->ctx, t->storage);
    t->storage = ig_storage_retain(c->arena);
    t->layout = info->layout;
    t->layout.offset += ig_elements_of(info->layout.desc.dtype, (int64_t)home.offset);
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
    each_held(c, keep);
    IG_TRY(ig_recording_make_plan(ctx, c->recording));
    IG_TRY(ig_storage_create(ctx, c->recording->plan->arena_bytes, &c->arena));
    each_held(c, move_in);
    IG_TRY(c->moved);
    c->n_slots = n_before;
    c->advance = ig_alloc(&ctx->allocator, n_before, sizeof *c->advance);
    if (!c->advance) return IG_FAIL(IG_ERR_MEMORY, "capture: %zu slots", n_before);
    ig_recording *r =
        c->recording; /* nobody compares it any more: its flags say how fn left them */
    for (size_t i = 0; i < r->n_grads; i++)
        r->grads[i].had = r->states[r->grads[i].state].tensor->has_grad;
    for (size_t i = IG_SLOT_STEP + 1; i < n_before; i++)
        if (ctx->slot_is_count[i]) c->advance[i] = ctx->slots[i].i - before[i].i;
    return IG_OK;
}

/* ---- the calls ---- */

static ig_status record(ig_captured *c, ig_status (*fn)(void *arg), void *arg) {
    ig_ctx *ctx = c->ctx;
    ig_recorder *rec = &ctx->recorder;
    const uint64_t steps = ctx->steps;
    ig_step_begin_op(ctx);
    ig_replay_detach(ctx);
    rec->run++;
    rec->n_bound = 0;
    rec->reason[0] = '\0';
    ig_record_begin(ctx);
    rec->capturing = true;
    ig_status status = fn(arg);
    rec->capturing = false;
    if (status == IG_OK) status = ig_graph_take_error(&ctx->graph);
    if (ctx->steps == steps) ctx->steps++; /* it did not end one: a replay is a step all the same */
    c->steps = ctx->steps - steps;
    if (status == IG_OK && rec->state == IG_RECORDING && rec->now->n_events == 0)
        status = IG_FAIL(IG_ERR_ARGUMENT, "capture: the function computed nothing");
    if (status == IG_OK) c->recording = ig_record_take(ctx);
    if (status == IG_OK && !c->recording)
        status = rec->reason[0] ? IG_FAIL(IG_ERR_STATE, "capture: %s", rec->reason)
                                : IG_FAIL(IG_ERR_MEMORY, "capture: no memory for the recording");
    ig_record_give_up(ctx);
    rec->state = IG_BETWEEN;
    rec->now = c->recording; /* for what it bound */
    return status;
}

ig_status ig_capture(ig_ctx *ctx, ig_status (*fn)(void *arg), void *arg, ig_captured **out) {
    if (!ctx || !fn || !out) return IG_FAIL(IG_ERR_ARGUMENT, "capture: NULL");
    IG_TRY(ig_ctx_check_idle(ctx, "capture"));
    IG_TRY(ig_replay_check_between(ctx, "capture"));
    ig_captured *c = ig_alloc(&ctx->allocator, 1, sizeof *c);
    const size_t n_slots = ctx->n_slots;
    ig_slot *before = ig_alloc(&ctx->allocator, n_slots, sizeof *before);
    if (!c || !before) {
        ig_free(&ctx->allocator, before);
        ig_free(&ctx->allocator, c);
        return IG_FAIL(IG_ERR_MEMORY, "capture");
    }
    memcpy(before, ctx->slots, n_slots * sizeof *before);
    c->ctx = ctx;
    ig_status status = record(c, fn, arg);
    if (status == IG_OK) status = settle(c, before, n_slots);
    if (c->recording) ig_record_let_go(ctx, c->recording);
    ctx->recorder.now = NULL;
    ctx->step_has_ops = false;
    ctx->step_ended = true;
    ig_tape_reset(ctx);
    ig_free(&ctx->allocator, before);
    if (status == IG_OK) {
        ctx->counters.records++;
        c->next = ctx->captured;
        ctx->captured = c;
        *out = c;
    } else {
        ig_captured_destroy(c);
    }
    return status;
}

static void advance(const ig_captured *c, int64_t times) {
    for (size_t i = IG_SLOT_STEP + 1; i < c->n_slots; i++)
        c->ctx->slots[i].i += times * c->advance[i];
}

ig_status ig_captured_replay(ig_captured *c) {
    if (!c) return IG_FAIL(IG_ERR_ARGUMENT, "captured_replay: NULL");
    ig_ctx *ctx = c->ctx;
    ig_recording *r = c->recording;
    IG_TRY(ig_ctx_check_idle(ctx, "captured_replay"));
    IG_TRY(ig_replay_check_between(ctx, "captured_replay"));
    if (ctx->options.cancel && ctx->options.cancel(ctx->options.user))
        return IG_FAIL(IG_ERR_CANCELLED, "captured_replay: cancelled");
    advance(c, 1);
    r->buffers[IG_ARENA] = c->arena->buffer;
    r->mirrors[IG_ARENA] = &c->arena->mirror;
    for (size_t i = 0; i < r->n_binds; i++) {
        r->buffers[i + 1] = c->bound[i]->storage->buffer;
        r->mirrors[i + 1] = &c->bound[i]->storage->mirror;
    }
    ig_profile_run(ctx, r->plan);
    const ig_status status =
        ig_plan_run(r->plan, ig_ctx_run_args(ctx, r->buffers, r->mirrors, r->n_binds + 1));
    ctx->steps += c->steps;
    ctx->counters.steps += c->steps;
    ctx->slots[IG_SLOT_STEP].i = (int64_t)ctx->steps;
    if (status != IG_OK) {
        advance(c, -1); /* a step that fails does not count */
        return status;
    }
    for (size_t i = 0; i < r->n_grads; i++)
        r->states[r->grads[i].state].tensor->has_grad = r->grads[i].had;
    ctx->counters.replays++;
    ctx->counters.ops += r->plan->n_steps - r->plan->n_copies;
    ctx->counters.submits += r->plan->n_submits;
    ctx->counters.dispatches += r->plan->n_steps;
    ctx->counters.copies += r->plan->n_copies;
    return IG_OK;
}

/* Results that are held keep the arena until they go. */
void ig_captured_destroy(ig_captured *c) {
    if (!c) return;
    ig_ctx *ctx = c->ctx;
    for (ig_captured **at = &ctx->captured; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    for (size_t i = 0; c->bound && i < c->recording->n_binds; i++) ig_tensor_release(c->bound[i]);
    ig_free(&ctx->allocator, c->bound);
    ig_free(&ctx->allocator, c->advance);
    ig_free(&ctx->allocator, c->held);
    ig_recording_destroy(ctx, c->recording);
    ig_storage_release(ctx, c->arena);
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
        status = ig_storage_create(c->ctx, c->new_plan->arena_bytes, &c->new_arena);
    return status;
}

void ig_captured_keep_old(ig_captured *c) {
    ig_plan_destroy(c->new_plan);
    ig_storage_release(c->ctx, c->new_arena);
    c->new_plan = NULL;
    c->new_arena = NULL;
}

/* Results that somebody holds lie elsewhere in the new arena. */
static void move_over(const ig_captured *c, const ig_held *h) {
    ig_tensor *t = h->tensor;
    if (t->alive != IG_TENSOR_ALIVE || t->id != h->id || t->storage != c->arena) return;
    const ig_value_info *info = ig_value_at(&c->recording->graph, h->value);
    const uint64_t from = c->recording->plan->homes[info->base].offset;
    const uint64_t to = c->new_plan->homes[info->base].offset;
    const int64_t base = info->layout.offset;
    uint64_t bytes = 0;
    (void)ig_desc_bytes(ig_value_at(&c->recording->graph, info->base)->layout.desc, &bytes);
    memcpy((char *)c->new_arena->buffer + to, (const char *)c->arena->buffer + from, bytes);
    t->layout.offset = base + ig_elements_of(info->layout.desc.dtype, (int64_t)to);
    ig_storage_release(c->ctx, t->storage);
    t->storage = ig_storage_retain(c->new_arena);
}

void ig_captured_take_new(ig_captured *c) {
    for (size_t i = 0; i < c->n_held; i++) move_over(c, &c->held[i]);
    ig_recording_drop_plan(c->ctx, c->recording);
    ig_storage_release(c->ctx, c->arena);
    c->recording->plan = c->new_plan;
    c->arena = c->new_arena;
    c->new_plan = NULL;
    c->new_arena = NULL;
}
