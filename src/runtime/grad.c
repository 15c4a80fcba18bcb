/* Gradients of tensors: which tensors require one, where it is stored, and the backward that
 * writes it. */
#include "ingot/grad.h"
#include "graph/backward.h"
#include "graph/build.h"
#include "runtime/apply.h"
#include "runtime/ctx_host.h"
#include "runtime/record/record.h"
#include "runtime/tape.h"

static ig_status check_leaf(const ig_tensor *t, const char *what) {
    IG_TRY(ig_tensor_check(t, NULL, what));
    return t->storage ? IG_OK : ig_tensor_missing(t, what);
}

ig_status ig_tensor_require_grad(ig_tensor *tensor) {
    IG_TRY(check_leaf(tensor, "require_grad"));
    const ig_dtype dtype = tensor->layout.desc.dtype;
    if (tensor->made_by_op)
        return IG_FAIL(IG_ERR_ARGUMENT, "require_grad: the result of an op always has a gradient");
    if (dtype != IG_F32 && dtype != IG_F64)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "require_grad: %s has no gradient: only f32 and f64 have one",
                       ig_dtype_name(dtype));
    /* The new id hides the tensor from recordings in which it required no gradient. */
    if (!tensor->wants_grad) tensor->id = ++ig_ctx_handles(tensor->ctx)->n_ids;
    tensor->wants_grad = tensor->state = true;
    tensor->value = IG_NO_VALUE;
    return IG_OK;
}

ig_tensor *ig_tensor_grad(const ig_tensor *tensor) {
    return tensor && tensor->alive == IG_TENSOR_ALIVE && tensor->has_grad ? tensor->grad : NULL;
}

void ig_tensor_zero_grad(ig_tensor *tensor) {
    if (tensor && tensor->alive == IG_TENSOR_ALIVE && tensor->storage) tensor->has_grad = false;
}

/* Checks that the memory exists and was not overwritten since the op read it. */
static ig_status check_version(void *user, const ig_value_info *value) {
    const ig_graph *g = &ig_ctx_tape(user)->graph;
    const ig_storage *storage = value->memory;
    const ig_tensor *source = ig_value_at(g, value->base)->source; /* also of a view */
    if (!storage)
        return IG_FAIL(IG_ERR_STATE, "backward: part of the graph was freed by the backward of "
                                     "another loss; sum the losses and call ig_backward() once");
    if (storage->version == value->version) return IG_OK;
    return IG_FAIL(IG_ERR_STATE,
                   "backward: %s was written to after the loss was computed from it; go back "
                   "before the update",
                   source && source->name ? source->name : "a tensor without a name");
}

static bool adds_to_grad(void *user, ig_value leaf) {
    const ig_tensor *t = ig_value_at(&ig_ctx_tape(user)->graph, leaf)->source;
    return t->has_grad;
}

/* The first gradient after zeroing is written, later ones are added. */
static ig_status keep_grad(void *user, ig_value leaf, ig_value grad) {
    ig_ctx *ctx = user;
    ig_graph *g = &ig_ctx_tape(ctx)->graph;
    const ig_recorder *rec = ig_ctx_recorder(ctx);
    ig_tensor *t = ig_value_at(g, leaf)->source;
    if (!t->grad) IG_TRY(ig_tensor_create(ctx, t->layout.desc, &t->grad));
    t->grad->state = true;
    const ig_value before = ig_value_of(ctx, t->grad);
    const ig_value after =
        ig_build_binary(g, t->has_grad ? IG_OP_ACCUMULATE : IG_OP_ASSIGN, before, grad);
    IG_TRY(ig_graph_take_error(g));
    ig_record_grad(ctx, t, t->has_grad);
    if (rec->failed) return ig_capture_failed(ctx);
    /* Nodes of the backward are dropped at its end, unless it is recorded. */
    t->grad->value = rec->state == IG_RECORDING ? after : IG_NO_VALUE;
    t->new_grad |= !t->has_grad;
    t->has_grad = true;
    return IG_OK;
}

/* Ends a backward; if it failed, tensors that had no gradient before have none. */
static void settle_grads(const ig_graph *g, bool failed) {
    for (size_t v = 0; v < g->n_values; v++) {
        ig_tensor *t = ig_value_at(g, (ig_value)v)->source;
        if (!t || !t->new_grad) continue;
        t->new_grad = false;
        if (failed) t->has_grad = false;
    }
}

ig_status ig_backward(ig_tensor *loss) {
    char text[IG_SHAPE_TEXT_BYTES];
    IG_TRY(ig_tensor_check(loss, NULL, "backward"));
    ig_ctx *ctx = loss->ctx;
    IG_TRY(ig_ctx_check_idle(ctx, "backward"));
    ig_tape *tape = ig_ctx_tape(ctx);
    const ig_recorder *rec = ig_ctx_recorder(ctx);
    if (tape->in_backward)
        return IG_FAIL(IG_ERR_STATE, "backward: called from the gradient function of an op");
    const ig_call call = {.kind = IG_EVENT_BACKWARD, .in = &loss, .n_in = 1};
    if (ig_replay_call(ctx, &call, NULL, 0)) return IG_OK;
    IG_TRY(ig_graph_take_error(&tape->graph));
    IG_TRY(check_leaf(loss, "backward"));
    if (ig_shape_count(loss->layout.desc.shape) != 1)
        return IG_FAIL(IG_ERR_SHAPE,
                       "backward: the loss is %s; it must be a scalar: take its mean or sum",
                       ig_shape_text(loss->layout.desc.shape, text));
    const bool known = loss->tape == tape->number && loss->value != IG_NO_VALUE;
    if (!known || !ig_value_at(&tape->graph, loss->value)->carries_grad)
        return IG_FAIL(IG_ERR_STATE, "backward: the loss does not come from any tensor that "
                                     "requires a gradient, or its step has ended");
    tape->no_grad++;
    tape->in_backward++;
    const ig_backward_args args = {.loss = loss->value,
                                   .keep_nodes = rec->state == IG_RECORDING,
                                   .keep_memory = rec->deferring,
                                   .check = check_version,
                                   .adds = adds_to_grad,
                                   .sink = keep_grad,
                                   .user = ctx};
    const ig_status status = ig_graph_backward(&tape->graph, args);
    settle_grads(&tape->graph, status != IG_OK);
    tape->in_backward--;
    tape->no_grad--;
    if (status == IG_OK)
        ig_record_call(ctx, &call, NULL, 0);
    else
        ig_record_refuse(ctx, "a backward failed");
    return status;
}
