/* Scopes, steps and modes: when tensors go, when the tape starts anew. */
#include <string.h>

#include "runtime/ctx.h"

void ig_tape_reset(ig_ctx *ctx) {
    ig_graph_cut(&ctx->graph, (ig_graph_mark){.n_values = 1});
    ctx->tape++;
    ctx->n_random = 0;
    ctx->slots[IG_SLOT_STEP].i = (int64_t)ctx->steps;
}

void ig_step_begin_op(ig_ctx *ctx) {
    if (ctx->in_backward) return;
    if (ctx->step_ended && ctx->depth == 0) ig_scope_release(ctx, 0);
    ctx->step_ended = false;
    ctx->step_has_ops = true;
}

/* Steps in which nothing happened do not count. */
static void end_step(ig_ctx *ctx) {
    if (ctx->step_has_ops) {
        ctx->steps++;
        ctx->counters.steps++;
        ctx->step_has_ops = false;
        ctx->step_ended = true;
    }
    if (ctx->depth == 0) ig_tape_reset(ctx);
}

ig_status ig_step_end(ig_ctx *ctx) {
    if (!ctx) return IG_FAIL(IG_ERR_ARGUMENT, "step_end: NULL");
    const ig_status status = ig_graph_take_error(&ctx->graph);
    end_step(ctx);
    return status;
}

uint64_t ig_step_count(const ig_ctx *ctx) { return ctx->steps; }

void ig_step_set_count(ig_ctx *ctx, uint64_t count) {
    ctx->steps = count;
    ctx->slots[IG_SLOT_STEP].i = (int64_t)count;
}

/* Where there is no memory for another level, the scope's tensors go to the one around it. */
void ig_scope_begin(ig_ctx *ctx) {
    if (!ctx) return;
    if (!IG_GROW(&ctx->allocator, ctx->scopes, &ctx->scopes_room, (size_t)ctx->depth + 2)) {
        ig_graph_stick(&ctx->graph, IG_FAIL(IG_ERR_MEMORY, "scope_begin: %u open", ctx->depth));
        ctx->failed_scopes++;
        return;
    }
    ctx->scopes[++ctx->depth] = NULL;
}

void ig_scope_end(ig_ctx *ctx) {
    if (!ctx || ctx->depth + ctx->failed_scopes == 0) return;
    if (ctx->failed_scopes > 0) {
        ctx->failed_scopes--;
        return;
    }
    ig_scope_release(ctx, ctx->depth);
    ctx->depth--;
    if (ctx->depth == 0 && !ctx->in_backward) end_step(ctx);
}

void ig_no_grad_begin(ig_ctx *ctx) { ctx->no_grad++; }

void ig_no_grad_end(ig_ctx *ctx) {
    if (ctx->no_grad > 0) ctx->no_grad--;
}

ig_status ig_mode_set(ig_ctx *ctx, ig_mode mode) {
    if (!ctx) return IG_FAIL(IG_ERR_ARGUMENT, "mode_set: NULL");
    if (mode == IG_MODE_DYNAMIC) return IG_OK;
    if (mode == IG_MODE_COMPILED || mode == IG_MODE_AUTO)
        return IG_FAIL(IG_ERR_UNSUPPORTED,
                       "mode_set: %s: steps are not replayed yet; Dynamic mode works",
                       mode == IG_MODE_AUTO ? "Auto" : "Compiled");
    return IG_FAIL(IG_ERR_ARGUMENT, "mode_set: %d is no mode", (int)mode);
}

ig_mode ig_mode_get(const ig_ctx *ctx) {
    (void)ctx;
    return IG_MODE_DYNAMIC;
}

/* ---- slots ---- */

ig_status ig_slot_create(ig_ctx *ctx, uint32_t *out) {
    if (!ctx || !out) return IG_FAIL(IG_ERR_ARGUMENT, "slot_create: NULL");
    if (!IG_GROW(&ctx->allocator, ctx->slots, &ctx->slots_room, ctx->n_slots + 1))
        return IG_FAIL(IG_ERR_MEMORY, "slot_create: %zu slots", ctx->n_slots);
    ctx->slots[ctx->n_slots] = (ig_slot){0};
    *out = (uint32_t)ctx->n_slots++;
    return IG_OK;
}

void ig_slot_set_real(ig_ctx *ctx, uint32_t slot, double value) {
    if (ctx && slot < ctx->n_slots && slot != IG_SLOT_STEP) ctx->slots[slot].f = value;
}

void ig_slot_set_count(ig_ctx *ctx, uint32_t slot, int64_t value) {
    if (ctx && slot < ctx->n_slots && slot != IG_SLOT_STEP) ctx->slots[slot].i = value;
}
