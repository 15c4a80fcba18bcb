/*
 * From a call of an op to a node and back: checks the tensors, finds their
 * values in the tape, builds, and hands the results out.
 */
#include <string.h>

#include "runtime/ctx.h"

enum { FEW = 16 };

ig_tensor *ig_poisoned(ig_ctx *ctx, ig_status status) {
    if (!ctx) return ig_nowhere();
    ig_graph_stick(&ctx->graph, status);
    return &ctx->poison;
}

ig_tensor *ig_poison(ig_ctx *ctx, ig_status status) {
    if (status == IG_OK) status = IG_FAIL(IG_ERR_ARGUMENT, "poison: nothing has failed");
    return ig_poisoned(ctx, status);
}

/* A view of a tensor that was written to since shows the new numbers, but would not hand its
 * gradient on. */
static ig_status check_view(const ig_ctx *ctx, const ig_tensor *t, const ig_value_info *known) {
    if (!t->made_by_op || !known->carries_grad || ctx->no_grad > 0) return IG_OK;
    const ig_tensor *source = ig_value_at(&ctx->graph, known->base)->source;
    return IG_FAIL(IG_ERR_STATE,
                   "a view of %s is used after %s was written to, and its gradient would be lost; "
                   "make the view anew",
                   source && source->name ? source->name : "a tensor without a name",
                   source && source->name ? source->name : "it");
}

ig_value ig_value_of(ig_ctx *ctx, ig_tensor *t) {
    ig_graph *g = &ctx->graph;
    if (!t->storage) {
        if (t->lost) ig_graph_stick(g, ig_tensor_missing(t, "op"));
        return IG_NO_VALUE;
    }
    if (t->tape == ctx->tape && t->value != IG_NO_VALUE) {
        ig_value_info *known = ig_value_at(g, t->value);
        if (known->version == t->storage->version) {
            if (!known->memory)
                known->memory = ig_storage_retain(t->storage); /* after a backward */
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
    info->carries_grad = t->wants_grad && ctx->no_grad == 0;
    if (info->carries_grad) info->source = ig_tensor_retain(t);
    if (!ig_is_passing(ctx)) {
        t->value = v;
        t->tape = ctx->tape;
    }
    ig_record_leaf(ctx, t, v);
    return v;
}

ig_tensor *ig_tensor_of(ig_ctx *ctx, ig_value v) {
    const ig_value_info *info = ig_value_at(&ctx->graph, v);
    if (!info->memory) return &ctx->poison;
    ig_tensor *t = ig_tensor_new(ctx, info->layout, ig_storage_retain(info->memory));
    if (!t) return ig_poisoned(ctx, IG_FAIL(IG_ERR_MEMORY, "a tensor handle"));
    t->made_by_op = true;
    t->value = v;
    t->tape = ctx->tape;
    return ig_tensor_to_scope(t);
}

/* Nothing flows back through what was built since the mark: the tape does without it. */
static void forget(ig_ctx *ctx, ig_graph_mark mark, const ig_apply_args *args, ig_tensor **out,
                   uint32_t n_out) {
    ig_graph_cut(&ctx->graph, mark);
    for (uint32_t i = 0; i < args->n_in; i++)
        if (args->in[i]->tape == ctx->tape && args->in[i]->value >= mark.n_values)
            args->in[i]->value = IG_NO_VALUE;
    for (uint32_t i = 0; i < n_out; i++)
        if (out[i]->storage) out[i]->value = IG_NO_VALUE;
}

static ig_status check_inputs(const ig_ctx *ctx, const ig_apply_args *args) {
    for (uint32_t i = 0; i < args->n_in; i++)
        IG_TRY(ig_tensor_check(args->in[i], ctx, ig_op_name(args->op)));
    return IG_OK;
}

static ig_value build(ig_ctx *ctx, const ig_apply_args *args) {
    ig_value few[FEW], *in = few;
    if (args->n_in > FEW) in = ig_alloc(&ctx->allocator, args->n_in, sizeof *in);
    if (!in) {
        ig_graph_stick(&ctx->graph,
                       IG_FAIL(IG_ERR_MEMORY, "%s: %u inputs", ig_op_name(args->op), args->n_in));
        return IG_NO_VALUE;
    }
    for (uint32_t i = 0; i < args->n_in; i++) in[i] = ig_value_of(ctx, args->in[i]);
    if (!ctx->in_backward) ctx->graph.tag = ctx->tag;
    const ig_value v = ig_build_op(&ctx->graph, (ig_build_args){.op = args->op,
                                                                .attrs = args->attrs,
                                                                .in = in,
                                                                .n_in = args->n_in,
                                                                .n_out = args->n_out,
                                                                .desc = args->desc});
    if (in != few) ig_free(&ctx->allocator, in);
    return v;
}

void ig_apply(ig_ctx *ctx, const ig_apply_args *args, ig_tensor **out, uint32_t n_handed) {
    for (uint32_t i = 0; i < n_handed; i++) out[i] = ctx ? &ctx->poison : ig_nowhere();
    if (!ctx) {
        (void)IG_FAIL(IG_ERR_ARGUMENT, "%s: a tensor is NULL", ig_op_name(args->op));
        return;
    }
    if (ig_ctx_check_idle(ctx, ig_op_name(args->op)) != IG_OK) return;
    const ig_call call = {IG_EVENT_OP, args->op, args->attrs, args->in, args->n_in, args->desc};
    ig_step_begin_op(ctx);
    if (ig_replay_call(ctx, &call, out, n_handed)) return;
    const ig_status status = check_inputs(ctx, args);
    if (status != IG_OK) {
        ig_graph_stick(&ctx->graph, status);
        ig_record_refuse(ctx, "an op failed");
        return;
    }
    const ig_graph_mark mark = ig_graph_get_mark(&ctx->graph);
    const ig_value v = build(ctx, args);
    for (uint32_t i = 0; v != IG_NO_VALUE && i < n_handed; i++) out[i] = ig_tensor_of(ctx, v + i);
    if (ctx->in_backward) return;
    ig_record_call(ctx, &call, out, n_handed);
    const bool keep = v != IG_NO_VALUE && ig_value_at(&ctx->graph, v)->carries_grad;
    if (!keep && ctx->recorder.state != IG_RECORDING) forget(ctx, mark, args, out, n_handed);
}

void ig_tag_begin(ig_ctx *ctx, ig_tag tag) {
    if (ctx && ctx->tags_begun++ == 0) ctx->tag = tag;
}

void ig_tag_end(ig_ctx *ctx) {
    if (ctx && ctx->tags_begun > 0 && --ctx->tags_begun == 0) ctx->tag = IG_TAG_NONE;
}

ig_tensor *ig_apply_one(ig_op op, const void *attrs, ig_tensor *const *in, uint32_t n_in) {
    ig_tensor *out;
    ig_ctx *ctx = NULL;
    for (uint32_t i = 0; i < n_in && !ctx; i++) ctx = ig_tensor_ctx(in[i]);
    const ig_apply_args args = {.op = op, .attrs = attrs, .in = in, .n_in = n_in};
    ig_apply(ctx, &args, &out, 1);
    return out;
}

/* Whether `read` shows the memory of `written`, but with other elements at other places. */
static bool crosses(const ig_tensor *read, const ig_tensor *written) {
    const ig_layout *a = &read->layout, *b = &written->layout;
    return read->storage == written->storage &&
           (a->offset != b->offset || memcmp(a->stride, b->stride, sizeof a->stride) != 0);
}

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
    IG_TRY(ig_graph_take_error(&ctx->graph));
    IG_TRY(check_inputs(ctx, &args));
    for (uint32_t i = 0; i < n_in; i++)
        if (!in[i]->storage) return ig_tensor_missing(in[i], name);
    IG_TRY(check_written(&args));

    const ig_graph_mark mark = ig_graph_get_mark(&ctx->graph);
    for (uint32_t i = 0; i < n_in; i++)
        if (!in[i]->made_by_op) in[i]->state = true;
    ctx->no_grad++;
    const ig_value v = build(ctx, &args);
    ctx->no_grad--;
    if (v == IG_NO_VALUE)
        ig_record_refuse(ctx, "an update failed");
    else
        ig_record_call(ctx, &call, NULL, 0);
    if (ctx->recorder.state != IG_RECORDING) forget(ctx, mark, &args, NULL, 0);
    for (uint32_t i = 0; ctx->recorder.state == IG_RECORDING && i < n_out; i++)
        in[ig_update_alias(i)]->value = v + i; /* the next version */
    return ig_graph_take_error(&ctx->graph);
}
