/* Custom ops: registered with the context, called by id. */
#include "runtime/custom_op.h"

#include "base/alloc.h"
#include "ingot/ops.h"
#include "runtime/apply.h"

ig_status ig_custom_register(ig_ctx *ctx, const ig_custom_op *op, uint32_t *out_id) {
    if (!ctx || !op || !out_id) return IG_FAIL(IG_ERR_ARGUMENT, "custom_register: NULL");
    if (!op->name || !op->infer || !op->run)
        return IG_FAIL(IG_ERR_ARGUMENT, "custom_register: a name, infer and run are needed");
    if (op->n_out < 1 || op->n_out > IG_MAX_OUT)
        return IG_FAIL(IG_ERR_ARGUMENT, "custom_register: %s: %u outputs; from 1 to %d", op->name,
                       op->n_out, IG_MAX_OUT);
    const ig_allocator *a = ig_ctx_allocator(ctx);
    ig_custom_ops *ops = ig_ctx_custom_ops(ctx);
    char *name = ig_copy_text(a, op->name);
    if (!name || !IG_GROW(a, ops->at, &ops->room, ops->count + 1)) {
        ig_free(a, name);
        return IG_FAIL(IG_ERR_MEMORY, "custom_register: %s", op->name);
    }
    ig_custom_op *kept = &ops->at[ops->count];
    *kept = *op;
    kept->name = name;
    *out_id = (uint32_t)ops->count++;
    return IG_OK;
}

void ig_custom_ops_deinit(ig_custom_ops *ops, const ig_allocator *allocator) {
    for (size_t i = 0; i < ops->count; i++) ig_free(allocator, (void *)(uintptr_t)ops->at[i].name);
    ig_free(allocator, ops->at);
}

/* Calls the custom op's shape rule and checks its result. */
static ig_status infer(const ig_custom_op *op, ig_tensor *const *in, uint32_t n_in, ig_desc *out) {
    ig_desc descs[IG_CUSTOM_MOST_IN];
    if (n_in < 1 || n_in > IG_CUSTOM_MOST_IN)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: %u inputs; from 1 to %d", op->name, n_in,
                       IG_CUSTOM_MOST_IN);
    for (uint32_t i = 0; i < n_in; i++) {
        IG_TRY(ig_tensor_check(in[i], NULL, op->name));
        descs[i] = ig_tensor_desc(in[i]);
    }
    IG_TRY(op->infer(op->user, descs, n_in, out));
    for (uint32_t i = 0; i < op->n_out; i++) {
        uint64_t bytes;
        if (out[i].shape.rank < 0 || out[i].shape.rank > IG_MAX_RANK ||
            !ig_desc_bytes(out[i], &bytes))
            return IG_FAIL(IG_ERR_SHAPE, "%s: its shape rule gives output %u an invalid shape",
                           op->name, i);
    }
    return IG_OK;
}

/* Poisoned inputs give poisoned outputs; the shape rule is not called. */
static bool any_failed(ig_tensor *const *in, uint32_t n_in) {
    for (uint32_t i = 0; i < n_in; i++)
        if (in[i] && in[i]->ctx && in[i]->alive == IG_TENSOR_ALIVE && !in[i]->storage) return true;
    return false;
}

void ig_custom(ig_ctx *ctx, uint32_t id, ig_tensor *const *in, uint32_t n_in, ig_tensor **out) {
    ig_desc desc[IG_MAX_OUT] = {{0}};
    const ig_custom_ops *ops = ctx ? ig_ctx_custom_ops(ctx) : NULL;
    if (!ops || id >= ops->count) { /* its number of outputs is unknown */
        out[0] = ig_poisoned(ctx, IG_FAIL(IG_ERR_ARGUMENT, "custom: there is no op %u", id));
        return;
    }
    const ig_custom_op *op = &ops->at[id];
    const ig_status status = any_failed(in, n_in) ? IG_OK : infer(op, in, n_in, desc);
    if (status != IG_OK) {
        for (uint32_t i = 0; i < op->n_out; i++) out[i] = ig_poisoned(ctx, status);
        return;
    }
    const ig_attrs_custom attrs = {id};
    ig_apply(ctx,
             &(ig_apply_args){.op = IG_OP_CUSTOM,
                              .attrs = &attrs,
                              .in = in,
                              .n_in = n_in,
                              .n_out = op->n_out,
                              .desc = desc},
             out, op->n_out);
}
