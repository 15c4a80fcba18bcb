/* Scopes, steps and modes: when tensors go, when the tape starts anew. */
#include <string.h>

#include "runtime/ctx.h"

void ig_tape_reset(ig_ctx *ctx) {
    ig_graph_cut(&ctx->graph, (ig_graph_mark){.n_values = 1});
    ctx->tape++;
    ctx->n_random = 0;
    if (ctx->steps_were_set) ctx->steps = ctx->next_steps;
    ctx->steps_were_set = false;
    ctx->slots[IG_SLOT_STEP].i = (int64_t)ctx->steps;
}

void ig_step_begin_op(ig_ctx *ctx) {
    if (ctx->in_backward) return;
    if (ctx->step_ended && ctx->depth == 0) ig_scope_release(ctx, 0);
    ctx->step_ended = false;
    ctx->step_has_ops = true;
}

bool ig_tape_is_spent(const ig_graph *g) {
    for (size_t i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].spent && ig_value_at(g, g->nodes[i].out)->carries_grad) return false;
    return true;
}

/*
 * Steps in which nothing happened do not count.  Inside of a scope the tape goes
 * on where something could still be gone back through: two losses that share a
 * network may each have an optimiser.
 */
static ig_status end_step(ig_ctx *ctx) {
    if (ctx->step_has_ops) {
        ctx->steps++;
        ctx->counters.steps++;
        ctx->step_has_ops = false;
        ctx->step_ended = true;
    }
    const ig_call call = {.kind = IG_EVENT_STEP};
    if (ctx->recorder.capturing)
        return IG_OK; /* what is captured goes on to the end of its function */
    if (ctx->depth > 0 && ig_replay_goes_on(ctx)) return IG_OK;
    if (ctx->depth > 0 && !ig_tape_is_spent(&ctx->graph)) {
        ig_record_call(ctx, &call, NULL, 0);
        return IG_OK;
    }
    const ig_status status = ig_replay_end(ctx);
    ig_tape_reset(ctx);
    return status;
}

ig_status ig_step_end(ig_ctx *ctx) {
    if (!ctx) return IG_FAIL(IG_ERR_ARGUMENT, "step_end: NULL");
    IG_TRY(ig_ctx_check_idle(ctx, "step_end"));
    const ig_status error = ig_graph_take_error(&ctx->graph);
    const ig_status status = end_step(ctx);
    return error != IG_OK ? error : status;
}

uint64_t ig_step_count(const ig_ctx *ctx) {
    if (!ctx) return 0;
    return ctx->steps_were_set ? ctx->next_steps : ctx->steps;
}

/* What has been drawn in this step is drawn again on the way back, and in a replay. */
void ig_step_set_count(ig_ctx *ctx, uint64_t count) {
    if (!ctx) return;
    ctx->next_steps = count;
    ctx->steps_were_set = true;
    if (ctx->recorder.state != IG_BETWEEN) return;
    ctx->steps_were_set = false;
    ctx->steps = count;
    ctx->slots[IG_SLOT_STEP].i = (int64_t)count;
}

/* Where there is no memory for another level, the scope's tensors go to the one around it. */
void ig_scope_begin(ig_ctx *ctx) {
    if (!ctx || ig_ctx_check_idle(ctx, "scope_begin") != IG_OK) return;
    if (!IG_GROW(&ctx->allocator, ctx->scopes, &ctx->scopes_room, (size_t)ctx->depth + 2)) {
        ig_graph_stick(&ctx->graph, IG_FAIL(IG_ERR_MEMORY, "scope_begin: %u open", ctx->depth));
        ctx->failed_scopes++;
        return;
    }
    ctx->scopes[++ctx->depth] = NULL;
}

void ig_scope_end(ig_ctx *ctx) {
    if (!ctx || ctx->depth + ctx->failed_scopes == 0) return;
    if (ig_ctx_check_idle(ctx, "scope_end") != IG_OK) return;
    if (ctx->failed_scopes > 0) {
        ctx->failed_scopes--;
        return;
    }
    ig_scope_release(ctx, ctx->depth);
    ctx->depth--;
    if (ctx->depth > 0 || ctx->in_backward) return;
    const ig_status status = end_step(ctx);
    if (status != IG_OK) ig_graph_stick(&ctx->graph, status);
}

void ig_no_grad_begin(ig_ctx *ctx) {
    if (ctx) ctx->no_grad++;
}

void ig_no_grad_end(ig_ctx *ctx) {
    if (ctx && ctx->no_grad > 0) ctx->no_grad--;
}

ig_status ig_mode_set(ig_ctx *ctx, ig_mode mode) {
    if (!ctx) return IG_FAIL(IG_ERR_ARGUMENT, "mode_set: NULL");
    if ((unsigned)mode > IG_MODE_AUTO)
        return IG_FAIL(IG_ERR_ARGUMENT, "mode_set: %d is no mode", (int)mode);
    IG_TRY(ig_replay_check_between(ctx, "mode_set"));
    ig_replay_detach(ctx);
    ctx->recorder.mode = mode;
    ctx->recorder.mode_steps = 0;
    ctx->recorder.refused = false;
    return IG_OK;
}

ig_mode ig_mode_get(const ig_ctx *ctx) { return ctx ? ctx->recorder.mode : IG_MODE_DYNAMIC; }

/* ---- slots ---- */

ig_status ig_slot_create(ig_ctx *ctx, uint32_t *out) {
    if (!ctx || !out) return IG_FAIL(IG_ERR_ARGUMENT, "slot_create: NULL");
    if (!IG_GROW(&ctx->allocator, ctx->slots, &ctx->slots_room, ctx->n_slots + 1) ||
        !IG_GROW(&ctx->allocator, ctx->slot_is_count, &ctx->slot_is_count_room, ctx->n_slots + 1))
        return IG_FAIL(IG_ERR_MEMORY, "slot_create: %zu slots", ctx->n_slots);
    ctx->slots[ctx->n_slots] = (ig_slot){0};
    *out = (uint32_t)ctx->n_slots++;
    return IG_OK;
}

void ig_slot_set_real(ig_ctx *ctx, uint32_t slot, double value) {
    if (!ctx || slot >= ctx->n_slots || slot == IG_SLOT_STEP) return;
    if (ctx->slots[slot].f != value) ig_replay_slot(ctx, slot);
    ctx->slots[slot].f = value;
}

void ig_slot_set_count(ig_ctx *ctx, uint32_t slot, int64_t value) {
    if (!ctx || slot >= ctx->n_slots || slot == IG_SLOT_STEP) return;
    if (ctx->slots[slot].i != value) ig_replay_slot(ctx, slot);
    ctx->slots[slot].i = value;
    ctx->slot_is_count[slot] = true;
}

int64_t ig_slot_count(const ig_ctx *ctx, uint32_t slot) {
    return ctx && slot < ctx->n_slots ? ctx->slots[slot].i : 0;
}
