/*
 * Turns op calls into graph nodes and node results into tensors.
 *
 *     ig_matmul(a, b) > ig_apply > next event of the replay?    yes: return its handles, build
 * nothing no: check > value_of > build, which runs it > tensor_of
 *
 * Values. tensor->value is the tensor's node result in the tape if tensor->tape is the tape's
 * number; a restart of the tape thereby invalidates all values at once. A leaf records the version
 * of its memory; a write in between creates a new leaf, so a backward never sees newer bytes.
 *
 * Errors. The first error sticks to the graph, and every later result is the context's poison
 * tensor, until a call that returns a status takes the error.
 *
 * Lifetime. Nodes through which a gradient flows stay, and so do all nodes while a step is
 * recorded; others are cut off as soon as they have run, so inference does not grow the tape.
 */
#include <string.h>

#include "graph/build.h"
#include "runtime/ctx.h"

enum { FEW = 16 }; /* inputs of most ops: no allocation up to this count */

/* Without a context the error can only go to the thread's error. */
ig_tensor *ig_poisoned(ig_ctx *ctx, ig_status status) {
    if (!ctx) return ig_null_tensor();
    ig_graph_stick(&ctx->tape.graph, status);
    return &ctx->handles.poison;
}

ig_tensor *ig_poison(ig_ctx *ctx, ig_status status) {
    if (status == IG_OK) status = IG_FAIL(IG_ERR_ARGUMENT, "poison: there is no error to report");
    return ig_poisoned(ctx, status);
}

/* A view of a tensor that was written to since shows the new values, but would not pass its
 * gradient on. */
static ig_status check_view(const ig_ctx *ctx, const ig_tensor *t, const ig_value_info *known) {
    if (!t->made_by_op || !known->carries_grad || ctx->tape.no_grad > 0) return IG_OK;
    const ig_tensor *source = ig_value_at(&ctx->tape.graph, known->base)->source;
    return IG_FAIL(IG_ERR_STATE,
                   "a view of %s is used after %s was written to, and its gradient would be lost; "
                   "create the view again",
                   source && source->name ? source->name : "a tensor without a name",
                   source && source->name ? source->name : "it");
}

/* A value of the tape is still valid if the memory has the version it was built with. References:
 * the value holds one on the storage and, if it carries a gradient, one on the tensor as its
 * source. */
ig_value ig_value_of(ig_ctx *ctx, ig_tensor *t) {
    ig_graph *g = &ctx->tape.graph;
    if (!t->storage) {
        if (t->lost) ig_graph_stick(g, ig_tensor_missing(t, "op"));
        return IG_NO_VALUE;
    }
    if (t->tape == ctx->tape.number && t->value != IG_NO_VALUE) {
        ig_value_info *known = ig_value_at(g, t->value);
        if (known->version == t->storage->version) {
            if (!known->memory)
                known->memory = ig_storage_retain(t->storage); /* dropped by a backward */
            return t->value;
        }
        const ig_status status = check_view(ctx, t, known);
        if (status != IG_OK) {
            ig_graph_stick(g, status);
            return IG_NO_VALUE;
        }
    }
    const ig_value v = ig_graph_leaf(g, t->layout);
    if (v == IG_NO_VALUE) return v;
    ig_value_info *info = ig_value_at(g, v);
    info->memory = ig_storage_retain(t->storage);
    info->version = t->storage->version;
    info->carries_grad = t->wants_grad && ctx->tape.no_grad == 0;
    if (info->carries_grad) info->source = ig_tensor_retain(t);
    if (!ig_is_passing(ctx)) {
        t->value = v;
        t->tape = ctx->tape.number;
    }
    ig_record_leaf(ctx, t, v);
    return v;
}

/* Shares the storage of the value; a value without memory means that the op failed. */
ig_tensor *ig_tensor_of(ig_ctx *ctx, ig_value v) {
    const ig_value_info *info = ig_value_at(&ctx->tape.graph, v);
    if (!info->memory) return &ctx->handles.poison;
    ig_tensor *t = ig_tensor_new(ctx, info->layout, ig_storage_retain(info->memory));
    if (!t) return ig_poisoned(ctx, IG_FAIL(IG_ERR_MEMORY, "a tensor handle"));
    t->made_by_op = true;
    t->value = v;
    t->tape = ctx->tape.number;
    return ig_tensor_to_scope(t);
}

/* Drops the nodes built since the mark if no gradient flows through them. */
static void forget(ig_ctx *ctx, ig_graph_mark mark, const ig_apply_args *args, ig_tensor **out,
                   uint32_t n_out) {
    ig_graph_cut(&ctx->tape.graph, mark);
    for (uint32_t i = 0; i < args->n_in; i++)
        if (args->in[i]->tape == ctx->tape.number && args->in[i]->value >= mark.n_values)
            args->in[i]->value = IG_NO_VALUE;
    for (uint32_t i = 0; i < n_out; i++)
        if (out[i]->storage) out[i]->value = IG_NO_VALUE;
}

/* Inputs must belong to this context and still be referenced; they come from any thread. */
static ig_status check_inputs(const ig_ctx *ctx, const ig_apply_args *args) {
    for (uint32_t i = 0; i < args->n_in; i++)
        IG_TRY(ig_tensor_check(args->in[i], ctx, ig_op_name(args->op)));
    return IG_OK;
}

/* Builds the node; the graph's run hook has run it when this returns, unless a capture defers it.
 */
static ig_value build(ig_ctx *ctx, const ig_apply_args *args) {
    ig_value few[FEW], *in = few;
    if (args->n_in > FEW) in = ig_alloc(&ctx->allocator, args->n_in, sizeof *in);
    if (!in) {
        ig_graph_stick(&ctx->tape.graph,
                       IG_FAIL(IG_ERR_MEMORY, "%s: %u inputs", ig_op_name(args->op), args->n_in));
        return IG_NO_VALUE;
    }
    for (uint32_t i = 0; i < args->n_in; i++) in[i] = ig_value_of(ctx, args->in[i]);
    if (!ctx->tape.in_backward) ctx->tape.graph.tag = ctx->tape.tag;
    const ig_value v = ig_build_op(&ctx->tape.graph, (ig_build_args){.op = args->op,
                                                                     .attrs = args->attrs,
                                                                     .in = in,
                                                                     .n_in = args->n_in,
                                                                     .n_out = args->n_out,
                                                                     .desc = args->desc});
    if (in != few) ig_free(&ctx->allocator, in);
    return v;
}

/* `out` is poison until an op succeeds, so callers may nest calls without checking. */
void ig_apply(ig_ctx *ctx, const ig_apply_args *args, ig_tensor **out, uint32_t n_returned) {
    for (uint32_t i = 0; i < n_returned; i++)
        out[i] = ctx ? &ctx->handles.poison : ig_null_tensor();
    if (!ctx) {
        (void)IG_FAIL(IG_ERR_ARGUMENT, "%s: a tensor is NULL", ig_op_name(args->op));
        return;
    }
    if (ig_ctx_check_idle(ctx, ig_op_name(args->op)) != IG_OK) return;
    const ig_call call = {IG_EVENT_OP, args->op, args->attrs, args->in, args->n_in, args->desc};
    ig_step_begin_op(ctx);
    if (ig_replay_call(ctx, &call, out, n_returned)) return;
    const ig_status status = check_inputs(ctx, args);
    if (status != IG_OK) {
        ig_graph_stick(&ctx->tape.graph, status);
        ig_record_refuse(ctx, "an op failed");
        return;
    }
    const ig_graph_mark mark = ig_graph_get_mark(&ctx->tape.graph);
    const ig_value v = build(ctx, args);
    for (uint32_t i = 0; v != IG_NO_VALUE && i < n_returned; i++) out[i] = ig_tensor_of(ctx, v + i);
    if (ctx->tape.in_backward) return;
    ig_record_call(ctx, &call, out, n_returned);
    const bool keep = v != IG_NO_VALUE && ig_value_at(&ctx->tape.graph, v)->carries_grad;
    if (!keep && ctx->recorder.state != IG_RECORDING) forget(ctx, mark, args, out, n_returned);
}

void ig_tag_begin(ig_ctx *ctx, ig_tag tag) {
    if (ctx && ctx->tape.tags_begun++ == 0) ctx->tape.tag = tag;
}

void ig_tag_end(ig_ctx *ctx) {
    if (ctx && ctx->tape.tags_begun > 0 && --ctx->tape.tags_begun == 0) ctx->tape.tag = IG_TAG_NONE;
}

/* Uses the context of the first non-NULL input; check_inputs() finds the NULL ones. */
ig_tensor *ig_apply_one(ig_op op, const void *attrs, ig_tensor *const *in, uint32_t n_in) {
    ig_tensor *out;
    ig_ctx *ctx = NULL;
    for (uint32_t i = 0; i < n_in && !ctx; i++) ctx = ig_tensor_ctx(in[i]);
    const ig_apply_args args = {.op = op, .attrs = attrs, .in = in, .n_in = n_in};
    ig_apply(ctx, &args, &out, 1);
    return out;
}

/* Whether `read` shows the memory of `written` with another layout. */
static bool crosses(const ig_tensor *read, const ig_tensor *written) {
    const ig_layout *a = &read->layout, *b = &written->layout;
    return read->storage == written->storage &&
           (a->offset != b->offset || memcmp(a->stride, b->stride, sizeof a->stride) != 0);
}

/* Updates overwrite memory in place: it must belong to the caller, not be frozen, and not be read
 * through another view at the same time, where the result would depend on the order of the kernel.
 */
static ig_status check_written(const ig_apply_args *args) {
    const char *name = ig_op_name(args->op);
    for (uint32_t i = 0; i < args->n_out; i++) {
        const ig_tensor *written = args->in[ig_update_alias(i)];
        if (written->made_by_op)
            return IG_FAIL(IG_ERR_ARGUMENT, "%s: the result of an op cannot be overwritten", name);
        IG_TRY(ig_tensor_check_writable(written, name));
        for (uint32_t j = 0; j < args->n_in; j++)
            if (crosses(args->in[j], written))
                return IG_FAIL(IG_ERR_ARGUMENT,
                               "%s: input %u is a view of what is overwritten; ig_copy() it first",
                               name, j);
    }
    return IG_OK;
}

/* An update returns its status instead of sticking it: an optimizer step must not fail silently.
 * Inputs become known by identity, and the outputs are their next versions. */
ig_status ig_apply_update(ig_op op, const void *attrs, ig_tensor *const *in, uint32_t n_in,
                          uint32_t n_out) {
    const char *name = ig_op_name(op);
    IG_TRY(ig_tensor_check(in[0], NULL, name));
    ig_ctx *ctx = in[0]->ctx;
    IG_TRY(ig_ctx_check_idle(ctx, name));
    const ig_apply_args args = {.op = op, .attrs = attrs, .in = in, .n_in = n_in, .n_out = n_out};
    const ig_call call = {IG_EVENT_UPDATE, op, attrs, in, n_in, NULL};
    ig_step_begin_op(ctx);
    if (ig_replay_call(ctx, &call, NULL, 0)) return IG_OK;
    IG_TRY(ig_graph_take_error(&ctx->tape.graph));
    IG_TRY(check_inputs(ctx, &args));
    for (uint32_t i = 0; i < n_in; i++)
        if (!in[i]->storage) return ig_tensor_missing(in[i], name);
    IG_TRY(check_written(&args));

    const ig_graph_mark mark = ig_graph_get_mark(&ctx->tape.graph);
    for (uint32_t i = 0; i < n_in; i++)
        if (!in[i]->made_by_op) in[i]->state = true;
    ctx->tape.no_grad++;
    const ig_value v = build(ctx, &args);
    ctx->tape.no_grad--;
    if (v == IG_NO_VALUE)
        ig_record_refuse(ctx, "an update failed");
    else
        ig_record_call(ctx, &call, NULL, 0);
    if (ctx->recorder.state != IG_RECORDING) forget(ctx, mark, &args, NULL, 0);
    for (uint32_t i = 0; ctx->recorder.state == IG_RECORDING && i < n_out; i++)
        in[ig_update_alias(i)]->value = v + i; /* the next version */
    return ig_graph_take_error(&ctx->tape.graph);
}
