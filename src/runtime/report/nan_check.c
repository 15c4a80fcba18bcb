/*
 * Finds the first NaN or Inf: while the check is on, the results of every op that runs by itself
 * are scanned.
 */
#include "runtime/report/nan_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/quant_blocks.h"
#include "ingot/report.h"
#include "runtime/tensor.h"

void ig_nan_check_begin(ig_ctx *ctx) {
    if (ctx) *ig_ctx_nan_check(ctx) = (ig_nan_check){.watching = true};
}

const char *ig_nan_check_end(ig_ctx *ctx) {
    if (!ctx) return "";
    ig_nan_check *check = ig_ctx_nan_check(ctx);
    check->watching = false;
    return check->first;
}

/* `at` points to one number; a 16-bit exponent of all ones means NaN or Inf. */
static bool is_finite(ig_dtype dtype, const char *at) {
    uint16_t f16; /* F16 or BF16 */
    float f32;
    double f64;
    switch (dtype) {
    case IG_F16: memcpy(&f16, at, sizeof f16); return (f16 & 0x7C00) != 0x7C00;
    case IG_BF16: memcpy(&f16, at, sizeof f16); return (f16 & 0x7F80) != 0x7F80;
    case IG_F32: memcpy(&f32, at, sizeof f32); return isfinite(f32);
    case IG_F64: memcpy(&f64, at, sizeof f64); return isfinite(f64);
    default: return true;
    }
}

/* Views were scanned with their source. Unreadable bytes are not reported. */
static bool all_finite(ig_memory *memory, const ig_value_info *v) {
    const ig_dtype dtype = v->layout.desc.dtype;
    ig_storage *storage = v->memory;
    if (!storage || dtype > IG_F64 || !ig_layout_is_packed(&v->layout)) return true;
    if (ig_storage_to_host(memory, storage) != IG_OK) return true;
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

/* Results of earlier ops were finite, so a non-finite input came from the caller. */
void ig_nan_check_look(ig_nan_check *check, ig_memory *memory, const ig_graph *g,
                       const ig_node *node) {
    char op[IG_NAN_CHECK_BYTES / 2], shape[IG_SHAPE_TEXT_BYTES];
    if (check->first[0]) return;
    name_op(g, node, op, sizeof op);
    for (uint32_t i = 0; i < node->n_in; i++) {
        const ig_value_info *in = ig_value_at(g, ig_node_in(g, node)[i]);
        if (in->node != IG_NO_NODE || all_finite(memory, in)) continue;
        const char *name = name_of(in);
        snprintf(check->first, sizeof check->first, "%.100s, given to %s",
                 *name ? name : "a tensor without a name", ig_op_name(node->op));
        return;
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        const ig_value_info *out = ig_value_at(g, node->out + i);
        if (all_finite(memory, out)) continue;
        snprintf(check->first, sizeof check->first, "%s -> %s", op,
                 ig_shape_text(out->layout.desc.shape, shape));
        return;
    }
}
