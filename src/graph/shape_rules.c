/*
 * Finds the shape rule that op.def names, and checks its inputs and results.
 */
#include "graph/shape_rules.h"

#include <string.h>

#include "graph/shape/shape_call.h"

ig_status ig_infer_custom(const ig_shape_call *c) {
    return IG_FAIL(IG_ERR_ARGUMENT, "%s: the shape rule is the program's own", c->op);
}

static ig_shape_rule *const rules[IG_OP_COUNT] = {
#define IG_OP(ID, name, in_min, in_max, out_min, out_max, attrs, shape, grad, build, traits) \
    [IG_OP_##ID] = ig_infer_##shape,
#include "ingot/op.def"
};

/* Quantized operands are allowed for views and as weights only. */
static bool takes_blocks(ig_op op, uint32_t input) {
    switch (op) {
    case IG_OP_CAST:
    case IG_OP_EMBEDDING:
    case IG_OP_STORE_ROWS: return input == 0;
    case IG_OP_ATTENTION_PAGED: return input == 1 || input == 2;
    case IG_OP_MATMUL:
    case IG_OP_MATMUL_GROUPED: return input == 1;
    case IG_OP_CUSTOM: return true;
    default: return ig_op_find(op)->traits & IG_VIEWS;
    }
}

static ig_status check_blocks(ig_op op, const ig_desc *in, uint32_t n_in) {
    for (uint32_t i = 0; i < n_in; i++)
        if (is_block(in[i].dtype) && !takes_blocks(op, i))
            return IG_FAIL(IG_ERR_SHAPE, "%s: input %u is %s: cast it to f32", ig_op_name(op), i,
                           ig_dtype_name(in[i].dtype));
    return IG_OK;
}

static ig_status check_result(ig_op op, ig_desc result) {
    uint64_t bytes;
    char text[IG_SHAPE_TEXT_BYTES];
    if (ig_desc_bytes(result, &bytes)) return IG_OK;
    if (is_block(result.dtype) && ig_shape_valid(result.shape))
        return IG_FAIL(IG_ERR_SHAPE, "%s: %s does not end in whole blocks of %s", ig_op_name(op),
                       ig_shape_text(result.shape, text), ig_dtype_name(result.dtype));
    return IG_FAIL(IG_ERR_SHAPE, "%s: the result is too large", ig_op_name(op));
}

ig_status ig_infer(ig_op op, const void *attrs, const ig_desc *in, uint32_t n_in, ig_desc *out,
                   uint32_t n_out) {
    const ig_op_info *info = ig_op_find(op);
    assert(info && (attrs || info->attrs_bytes == 0) && info->out_max <= IG_MAX_OUT);
    if (n_in < info->in_min || n_in > info->in_max || n_out < info->out_min ||
        n_out > info->out_max)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: %u inputs, %u outputs", info->name, n_in, n_out);

    ig_desc results[IG_MAX_OUT];
    IG_TRY(check_blocks(op, in, n_in));
    IG_TRY(rules[op](&(ig_shape_call){info->name, attrs, in, n_in, results, n_out}));
    for (uint32_t i = 0; i < n_out; i++) IG_TRY(check_result(op, results[i]));
    memcpy(out, results, n_out * sizeof *out);
    return IG_OK;
}
