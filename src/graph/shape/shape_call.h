/*
 * shape_call.h - the arguments of a shape rule, and checks shared by the rules.
 *
 * A rule of op.def is a function ig_infer_<shape> in any file of graph/shape; op.def declares it.
 * ig_infer() checks the number of inputs and outputs before a rule runs, and the resulting shapes
 * afterwards; a rule may write to `out` before it fails.
 */
#ifndef IG_GRAPH_SHAPE_SHAPE_CALL_H
#define IG_GRAPH_SHAPE_SHAPE_CALL_H

#include "base/quant_blocks.h"
#include "graph/shape_rules.h"

typedef struct ig_shape_call {
    const char *op;
    const void *attrs;
    const ig_desc *in;
    uint32_t n_in;
    ig_desc *out;
    uint32_t n_out;
} ig_shape_call;

typedef ig_status ig_shape_rule(const ig_shape_call *c);

#define IG_OP(ID, name, in_min, in_max, out_min, out_max, attrs, shape, grad, build, traits) \
    ig_shape_rule ig_infer_##shape;
#include "ingot/op.def"

/* Fails with input i and input j, whose shapes do not match. */
static inline ig_status misfit(const ig_shape_call *c, uint32_t i, uint32_t j) {
    char a[IG_SHAPE_TEXT_BYTES], b[IG_SHAPE_TEXT_BYTES];
    return IG_FAIL(IG_ERR_SHAPE, "%s: %s x %s", c->op, ig_shape_text(c->in[i].shape, a),
                   ig_shape_text(c->in[j].shape, b));
}

static inline ig_status misshapen(const ig_shape_call *c, uint32_t i, const char *why) {
    char a[IG_SHAPE_TEXT_BYTES];
    return IG_FAIL(IG_ERR_SHAPE, "%s: %s: %s", c->op, ig_shape_text(c->in[i].shape, a), why);
}

static inline ig_status same_dtype(const ig_shape_call *c, uint32_t i, uint32_t j) {
    if (c->in[i].dtype == c->in[j].dtype) return IG_OK;
    return IG_FAIL(IG_ERR_SHAPE, "%s: %s x %s: cast one of them", c->op,
                   ig_dtype_name(c->in[i].dtype), ig_dtype_name(c->in[j].dtype));
}

static inline bool is_real(ig_dtype dtype) { return dtype == IG_F32 || dtype == IG_F64; }

/* Arithmetic is in f32 and f64; narrower floats are storage dtypes. */
static inline ig_status want_real(const ig_shape_call *c, uint32_t i) {
    if (is_real(c->in[i].dtype)) return IG_OK;
    return IG_FAIL(IG_ERR_SHAPE, "%s: input %u is %s: cast it to f32", c->op, i,
                   ig_dtype_name(c->in[i].dtype));
}

static inline bool is_block(ig_dtype dtype) { return ig_dtype_block(dtype) > 1; }

/* Weight dtypes besides f32: 16-bit floats and blocks.  Only ops that read weights accept them. */
static inline bool is_stored(ig_dtype dtype) {
    return ig_blocks_can_dequantize(dtype) && dtype != IG_F32;
}

/* KV cache dtypes for f32 values. */
static inline bool is_cache(ig_dtype dtype) {
    return dtype == IG_F16 || dtype == IG_BF16 || dtype == IG_Q8_0;
}

/* Input i is a KV cache for values like input j: of a KV cache dtype, or of the same dtype. */
static inline ig_status want_cache(const ig_shape_call *c, uint32_t i, uint32_t j) {
    IG_TRY(want_real(c, j));
    return is_cache(c->in[i].dtype) && c->in[j].dtype == IG_F32 ? IG_OK : same_dtype(c, i, j);
}

/* Ops that only move elements accept indices, too. */
static inline ig_status want_number(const ig_shape_call *c, uint32_t i) {
    return c->in[i].dtype == IG_I32 ? IG_OK : want_real(c, i);
}

static inline ig_status want_index(const ig_shape_call *c, uint32_t i) {
    if (c->in[i].dtype == IG_I32) return IG_OK;
    return IG_FAIL(IG_ERR_SHAPE, "%s: input %u holds indices and must be i32, not %s", c->op, i,
                   ig_dtype_name(c->in[i].dtype));
}

/* All inputs from `first` on are real and have the dtype of input 0. */
static inline ig_status want_reals_alike(const ig_shape_call *c, uint32_t first) {
    for (uint32_t i = first; i < c->n_in; i++) {
        IG_TRY(want_real(c, i));
        IG_TRY(same_dtype(c, 0, i));
    }
    return IG_OK;
}

static inline ig_status want_axis(const ig_shape_call *c, int axis) {
    char text[IG_SHAPE_TEXT_BYTES];
    if (axis >= 0 && axis < c->in[0].shape.rank) return IG_OK;
    return IG_FAIL(IG_ERR_SHAPE, "%s: axis %d of %s", c->op, axis,
                   ig_shape_text(c->in[0].shape, text));
}

static inline bool same_but_for_axis(ig_shape a, ig_shape b, int axis) {
    if (a.rank != b.rank) return false;
    b.dim[axis] = a.dim[axis];
    return ig_shape_equal(a, b);
}

/* NumPy's rule: align the last dimensions; equal, or one of them is 1. */
static inline bool broadcast(ig_shape a, ig_shape b, ig_shape *out) {
    const ig_shape wide = a.rank < b.rank ? b : a, narrow = a.rank < b.rank ? a : b;
    *out = wide;
    for (int d = 0; d < narrow.rank; d++) {
        int64_t *dst = &out->dim[wide.rank - narrow.rank + d];
        if (*dst == 1) *dst = narrow.dim[d];
        if (*dst != narrow.dim[d] && narrow.dim[d] != 1) return false;
    }
    return true;
}

#endif
