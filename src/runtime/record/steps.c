/* Scopes, steps and modes: when tensors are released and when the tape restarts. */
#include <string.h>

#include "runtime/ctx.h"

void ig_tape_reset(ig_ctx *ctx) {
    ig_graph_cut(&ctx->tape.graph, (ig_graph_mark){.n_values = 1});
    ctx->tape.number++;
    ctx->tape.n_random = 0;
    if (ctx->steps.next_is_set) ctx->steps.count = ctx->steps.next;
    ctx->steps.next_is_set = false;
    ctx->slots.at[IG_SLOT_STEP].i = (int64_t)ctx->steps.count;
}

void ig_step_begin_op(ig_ctx *ctx) {
    if (ctx->tape.in_backward) return;
    if (ctx->steps.ended && ctx->handles.depth == 0) ig_scope_release(ctx, 0);
    ctx->steps.ended = false;
    ctx->steps.has_ops = true;
}

bool ig_tape_is_spent(const ig_graph *g) {
    for (size_t i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].spent && ig_value_at(g, g->nodes[i].out)->carries_grad) return false;
    return true;
}

/*
 * Steps without ops do not count. Inside a scope the tape continues while a backward could still go
 * through it: two losses that share a network may each have an optimizer.
 */
static ig_status end_step(ig_ctx *ctx) {
    if (ctx->steps.has_ops || ctx->steps.flushed) {
        ctx->steps.count++;
        ctx->counters.steps++;
        ctx->steps.has_ops = ctx->steps.flushed = false;
        ctx->steps.ended = true;
    }
    const ig_call call = {.kind = IG_EVENT_STEP};
    if (ctx->recorder.capturing) return IG_OK; /* a capture ends with its function */
    if (ctx->handles.depth > 0 && ig_replay_continues(ctx)) return IG_OK;
    if (ctx->handles.depth > 0 && !ig_tape_is_spent(&ctx->tape.graph)) {
        ig_record_call(ctx, &call, NULL, 0);
        return IG_OK;
    }
    const ig_status status = ig_replay_end(ctx);
    ig_tape_reset(ctx);
    return status;
}

ig_status ig_ctx_step_end(ig_ctx *ctx) {
    if (!ctx) return IG_FAIL(IG_ERR_ARGUMENT, "step_end: NULL");
    IG_TRY(ig_ctx_check_idle(ctx, "step_end"));
    const ig_status error = ig_graph_take_error(&ctx->tape.graph);
    const ig_status status = end_step(ctx);
    return error != IG_OK ? error : status;
}

uint64_t ig_ctx_step_count(const ig_ctx *ctx) {
    if (!ctx) return 0;
    return ctx->steps.next_is_set ? ctx->steps.next : ctx->steps.count;
}

/* Takes effect after the current step: its backward and replays must repeat its random numbers. */
void ig_ctx_set_step_count(ig_ctx *ctx, uint64_t count) {
    if (!ctx) return;
    ctx->steps.next = count;
    ctx->steps.next_is_set = true;
    if (ctx->recorder.state != IG_BETWEEN) return;
    ctx->steps.next_is_set = false;
    ctx->steps.count = count;
    ctx->slots.at[IG_SLOT_STEP].i = (int64_t)count;
}

/* If memory runs out, the scope's tensors go to the enclosing scope. */
void ig_scope_begin(ig_ctx *ctx) {
    if (!ctx || ig_ctx_check_idle(ctx, "scope_begin") != IG_OK) return;
    if (!IG_GROW(&ctx->allocator, ctx->handles.scopes, &ctx->handles.scopes_room,
                 (size_t)ctx->handles.depth + 2)) {
        ig_graph_stick(&ctx->tape.graph,
                       IG_FAIL(IG_ERR_MEMORY, "scope_begin: %u open", ctx->handles.depth));
        ctx->handles.failed_scopes++;
        return;
    }
    ctx->handles.scopes[++ctx->handles.depth] = NULL;
}

void ig_scope_end(ig_ctx *ctx) {
    if (!ctx || ctx->handles.depth + ctx->handles.failed_scopes == 0) return;
    if (ig_ctx_check_idle(ctx, "scope_end") != IG_OK) return;
    if (ctx->handles.failed_scopes > 0) {
        ctx->handles.failed_scopes--;
        return;
    }
    ig_scope_release(ctx, ctx->handles.depth);
    ctx->handles.depth--;
    if (ctx->handles.depth > 0 || ctx->tape.in_backward) return;
    const ig_status status = end_step(ctx);
    if (status != IG_OK) ig_graph_stick(&ctx->tape.graph, status);
}

void ig_no_grad_begin(ig_ctx *ctx) {
    if (ctx) ctx->tape.no_grad++;
}

void ig_no_grad_end(ig_ctx *ctx) {
    if (ctx && ctx->tape.no_grad > 0) ctx->tape.no_grad--;
}

ig_status ig_mode_set(ig_ctx *ctx, ig_mode mode) {
    if (!ctx) return IG_FAIL(IG_ERR_ARGUMENT, "mode_set: NULL");
    if ((unsigned)mode > IG_MODE_AUTO)
        return IG_FAIL(IG_ERR_ARGUMENT, "mode_set: %d is no mode", (int)mode);
    IG_TRY(ig_replay_check_between(ctx, "mode_set"));
    ig_replay_detach(ctx);
    ctx->recorder.mode = mode;
    ctx->recorder.mode_steps = 0;
    ctx->recorder.refused = ctx->recorder.out_of_memory = false;
    return IG_OK;
}

ig_mode ig_mode_get(const ig_ctx *ctx) { return ctx ? ctx->recorder.mode : IG_MODE_DYNAMIC; }

void ig_no_init_begin(ig_ctx *ctx) {
    if (ctx) ctx->steps.no_init++;
}

void ig_no_init_end(ig_ctx *ctx) {
    if (ctx && ctx->steps.no_init > 0) ctx->steps.no_init--;
}
