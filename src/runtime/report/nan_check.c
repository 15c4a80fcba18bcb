/*
 * Looking for the first number that is none: while somebody watches, every op
 * that runs by itself has its results looked through.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/quant_blocks.h"
#include "runtime/ctx.h"

void ig_finite_begin(ig_ctx *ctx) {
    if (!ctx) return;
    ctx->finite.watching = true;
    ctx->finite.first[0] = '\0';
}

const char *ig_finite_end(ig_ctx *ctx) {
    if (!ctx) return "";
    ctx->finite.watching = false;
    return ctx->finite.first;
}

/* Of the bytes of one number; of 16 bits, one with an exponent of all ones is not. */
static bool is_finite(ig_dtype dtype, const char *at) {
    uint16_t half;
    float single;
    double whole;
    switch (dtype) {
    case IG_F16: memcpy(&half, at, sizeof half); return (half & 0x7C00) != 0x7C00;
    case IG_BF16: memcpy(&half, at, sizeof half); return (half & 0x7F80) != 0x7F80;
    case IG_F32: memcpy(&single, at, sizeof single); return isfinite(single);
    case IG_F64: memcpy(&whole, at, sizeof whole); return isfinite(whole);
    default: return true;
    }
}

/* What views show was looked at when it was made.  Bytes that cannot be had are not complained of.
 */
static bool all_finite(ig_ctx *ctx, const ig_value_info *v) {
    const ig_dtype dtype = v->layout.desc.dtype;
    ig_storage *storage = v->memory;
    if (!storage || dtype > IG_F64 || !ig_layout_is_packed(&v->layout)) return true;
    if (ig_storage_to_host(ctx, storage) != IG_OK) return true;
    const int64_t each = ig_bytes_of(dtype, 1), count = ig_shape_count(v->layout.desc.shape);
    const char *at = (const char *)storage->buffer + v->layout.offset * each;
    for (int64_t i = 0; i < count; i++)
        if (!is_finite(dtype, at + i * each)) return false;
    return true;
}

static const char *name_of(const ig_value_info *v) {
    const ig_tensor *source = v->source;
    return source && source->name ? source->name : "";
}

/* "matmul with layers.0.up.weight" */
static void name_op(const ig_graph *g, const ig_node *node, char *out, size_t out_bytes) {
    const char *with = "";
    for (uint32_t i = 0; i < node->n_in && !*with; i++)
        with = name_of(ig_value_at(g, ig_node_in(g, node)[i]));
    snprintf(out, out_bytes, "%s%s%s", ig_op_name(node->op), *with ? " with " : "", with);
}

/* Results of ops before this one were finite, so an input that is not came from outside. */
void ig_finite_look(ig_ctx *ctx, const ig_graph *g, const ig_node *node) {
    char op[IG_FINITE_BYTES / 2], shape[IG_SHAPE_TEXT_BYTES];
    if (ctx->finite.first[0]) return;
    name_op(g, node, op, sizeof op);
    for (uint32_t i = 0; i < node->n_in; i++) {
        const ig_value_info *in = ig_value_at(g, ig_node_in(g, node)[i]);
        if (in->node != IG_NO_NODE || all_finite(ctx, in)) continue;
        const char *name = name_of(in);
        snprintf(ctx->finite.first, sizeof ctx->finite.first, "%.100s, given to %s",
                 *name ? name : "a tensor without a name", ig_op_name(node->op));
        return;
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        const ig_value_info *out = ig_value_at(g, node->out + i);
        if (all_finite(ctx, out)) continue;
        snprintf(ctx->finite.first, sizeof ctx->finite.first, "%s -> %s", op,
                 ig_shape_text(out->layout.desc.shape, shape));
        return;
    }
}
