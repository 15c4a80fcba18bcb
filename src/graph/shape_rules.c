/*
 * Shape rules: one function per rule that op.def names.
 *
 * ig_infer() has checked the number of inputs and outputs before a rule runs,
 * and checks the shapes that come out of it; a rule may scribble on `out`
 * before it knows that all is well.
 */
#include "graph/shape_rules.h"

#include <string.h>

#include "base/quant_blocks.h"

typedef struct call {
    const char *op;
    const void *attrs;
    const ig_desc *in;
    uint32_t n_in;
    ig_desc *out;
    uint32_t n_out;
} call;

typedef ig_status infer_rule(const call *c);

/* Names input i and input j, which clash. */
static ig_status misfit(const call *c, uint32_t i, uint32_t j) {
    char a[IG_SHAPE_TEXT_BYTES], b[IG_SHAPE_TEXT_BYTES];
    return IG_FAIL(IG_ERR_SHAPE, "%s: %s x %s", c->op, ig_shape_text(c->in[i].shape, a),
                   ig_shape_text(c->in[j].shape, b));
}

static ig_status misshapen(const call *c, uint32_t i, const char *why) {
    char a[IG_SHAPE_TEXT_BYTES];
    return IG_FAIL(IG_ERR_SHAPE, "%s: %s: %s", c->op, ig_shape_text(c->in[i].shape, a), why);
}

static ig_status same_dtype(const call *c, uint32_t i, uint32_t j) {
    if (c->in[i].dtype == c->in[j].dtype) return IG_OK;
    return IG_FAIL(IG_ERR_SHAPE, "%s: %s x %s: cast one of them", c->op,
                   ig_dtype_name(c->in[i].dtype), ig_dtype_name(c->in[j].dtype));
}

static bool is_real(ig_dtype dtype) { return dtype == IG_F32 || dtype == IG_F64; }

/* Arithmetic is done in f32 and f64; narrower floats are for storage. */
static ig_status want_real(const call *c, uint32_t i) {
    if (is_real(c->in[i].dtype)) return IG_OK;
    return IG_FAIL(IG_ERR_SHAPE, "%s: input %u is %s: cast it to f32", c->op, i,
                   ig_dtype_name(c->in[i].dtype));
}

static bool is_block(ig_dtype dtype) { return ig_dtype_block(dtype) > 1; }

/* How weights are stored besides f32: halves and blocks.  Only ops that read weights take them. */
static bool is_stored(ig_dtype dtype) { return ig_blocks_can_decode(dtype) && dtype != IG_F32; }

/* What a cache may be kept in for f32 numbers. */
static bool is_cache(ig_dtype dtype) {
    return dtype == IG_F16 || dtype == IG_BF16 || dtype == IG_Q8_0;
}

/* Input i is a cache of numbers like those of input j, or of their own type. */
static ig_status want_cache(const call *c, uint32_t i, uint32_t j) {
    IG_TRY(want_real(c, j));
    return is_cache(c->in[i].dtype) && c->in[j].dtype == IG_F32 ? IG_OK : same_dtype(c, i, j);
}

/* What only moves elements takes indices, too. */
static ig_status want_number(const call *c, uint32_t i) {
    return c->in[i].dtype == IG_I32 ? IG_OK : want_real(c, i);
}

static ig_status want_index(const call *c, uint32_t i) {
    if (c->in[i].dtype == IG_I32) return IG_OK;
    return IG_FAIL(IG_ERR_SHAPE, "%s: input %u holds indices and must be i32, not %s", c->op, i,
                   ig_dtype_name(c->in[i].dtype));
}

/* All inputs from `first` on are real and of the dtype of input 0. */
static ig_status want_reals_alike(const call *c, uint32_t first) {
    for (uint32_t i = first; i < c->n_in; i++) {
        IG_TRY(want_real(c, i));
        IG_TRY(same_dtype(c, 0, i));
    }
    return IG_OK;
}

static ig_status want_axis(const call *c, int axis) {
    char text[IG_SHAPE_TEXT_BYTES];
    if (axis >= 0 && axis < c->in[0].shape.rank) return IG_OK;
    return IG_FAIL(IG_ERR_SHAPE, "%s: axis %d of %s", c->op, axis,
                   ig_shape_text(c->in[0].shape, text));
}

static bool same_but_for_axis(ig_shape a, ig_shape b, int axis) {
    if (a.rank != b.rank) return false;
    b.dim[axis] = a.dim[axis];
    return ig_shape_equal(a, b);
}

/* ---- element by element ---- */

static ig_status infer_same(const call *c) {
    c->out[0] = c->in[0];
    return IG_OK;
}

static ig_status infer_real(const call *c) {
    IG_TRY(want_real(c, 0));
    return infer_same(c);
}

static ig_status infer_alike(const call *c) {
    IG_TRY(want_reals_alike(c, 0));
    for (uint32_t i = 1; i < c->n_in; i++)
        if (!ig_shape_equal(c->in[0].shape, c->in[i].shape)) return misfit(c, 0, i);
    return infer_same(c);
}

/* NumPy's rule: align the last dimensions; equal, or one of them is 1. */
static bool broadcast(ig_shape a, ig_shape b, ig_shape *out) {
    const ig_shape wide = a.rank < b.rank ? b : a, narrow = a.rank < b.rank ? a : b;
    *out = wide;
    for (int d = 0; d < narrow.rank; d++) {
        int64_t *dst = &out->dim[wide.rank - narrow.rank + d];
        if (*dst == 1) *dst = narrow.dim[d];
        if (*dst != narrow.dim[d] && narrow.dim[d] != 1) return false;
    }
    return true;
}

static ig_status pair(const call *c) {
    c->out[0].dtype = c->in[0].dtype;
    return broadcast(c->in[0].shape, c->in[1].shape, &c->out[0].shape) ? IG_OK : misfit(c, 0, 1);
}

static ig_status infer_broadcast(const call *c) {
    IG_TRY(same_dtype(c, 0, 1));
    IG_TRY(want_real(c, 0));
    return pair(c);
}

static ig_status infer_equal(const call *c) {
    IG_TRY(same_dtype(c, 0, 1));
    IG_TRY(want_number(c, 0));
    return pair(c);
}

static ig_status infer_cast(const call *c) {
    const ig_attrs_dtype *attrs = c->attrs;
    if (attrs->dtype >= IG_DTYPE_COUNT)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: dtype %u is unknown", c->op, attrs->dtype);
    if (is_block((ig_dtype)attrs->dtype))
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: to %s: blocks are read, not made", c->op,
                       ig_dtype_name((ig_dtype)attrs->dtype));
    c->out[0] = (ig_desc){(ig_dtype)attrs->dtype, c->in[0].shape};
    return IG_OK;
}

static ig_status infer_fill(const call *c) {
    const ig_attrs_fill *attrs = c->attrs;
    if (attrs->dtype >= IG_DTYPE_COUNT)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: dtype %u is unknown", c->op, attrs->dtype);
    if (is_block((ig_dtype)attrs->dtype))
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: %s: blocks are read, not made", c->op,
                       ig_dtype_name((ig_dtype)attrs->dtype));
    c->out[0] = (ig_desc){(ig_dtype)attrs->dtype, {0}};
    return IG_OK;
}

/* ---- views ---- */

static ig_shape wanted_shape(const call *c) {
    const ig_attrs_shape *attrs = c->attrs;
    ig_shape shape = {.rank = attrs->rank};
    memcpy(shape.dim, attrs->dim, sizeof shape.dim);
    return shape;
}

static ig_status cannot_become(const call *c, ig_shape shape) {
    char a[IG_SHAPE_TEXT_BYTES], b[IG_SHAPE_TEXT_BYTES];
    if (shape.rank < 0 || shape.rank > IG_MAX_RANK)
        return IG_FAIL(IG_ERR_SHAPE, "%s: rank %d; at most %d", c->op, shape.rank, IG_MAX_RANK);
    return IG_FAIL(IG_ERR_SHAPE, "%s: %s cannot become %s", c->op, ig_shape_text(c->in[0].shape, a),
                   ig_shape_text(shape, b));
}

static ig_status infer_reshape(const call *c) {
    const ig_shape shape = wanted_shape(c);
    if (!ig_shape_valid(shape) || ig_shape_count(shape) != ig_shape_count(c->in[0].shape))
        return cannot_become(c, shape);
    c->out[0] = (ig_desc){c->in[0].dtype, shape};
    return IG_OK;
}

static ig_status infer_stretch(const call *c) {
    const ig_shape shape = wanted_shape(c);
    ig_shape joint;
    if (!ig_shape_valid(shape) || !broadcast(c->in[0].shape, shape, &joint) ||
        !ig_shape_equal(joint, shape))
        return cannot_become(c, shape);
    c->out[0] = (ig_desc){c->in[0].dtype, shape};
    return IG_OK;
}

static ig_status infer_transpose(const call *c) {
    const ig_attrs_axes *attrs = c->attrs;
    uint32_t seen = 0;
    c->out[0] = c->in[0];
    for (int d = 0; d < c->in[0].shape.rank; d++) {
        IG_TRY(want_axis(c, attrs->axis[d]));
        if (seen & 1u << attrs->axis[d])
            return IG_FAIL(IG_ERR_SHAPE, "%s: axis %d is named twice", c->op, attrs->axis[d]);
        seen |= 1u << attrs->axis[d];
        if (is_block(c->in[0].dtype) && (d == c->in[0].shape.rank - 1) != (attrs->axis[d] == d))
            return misshapen(c, 0, "blocks lie along the last dimension, which must stay the last");
        c->out[0].shape.dim[d] = c->in[0].shape.dim[attrs->axis[d]];
    }
    return IG_OK;
}

static ig_status infer_slice(const call *c) {
    const ig_attrs_slice *s = c->attrs;
    char text[IG_SHAPE_TEXT_BYTES];
    IG_TRY(want_axis(c, s->axis));
    if (s->begin < 0 || s->end < s->begin || s->end > c->in[0].shape.dim[s->axis])
        return IG_FAIL(IG_ERR_SHAPE, "%s: [%lld, %lld) of axis %d of %s", c->op,
                       (long long)s->begin, (long long)s->end, s->axis,
                       ig_shape_text(c->in[0].shape, text));
    if (s->axis == c->in[0].shape.rank - 1 && s->begin % ig_dtype_block(c->in[0].dtype) != 0)
        return IG_FAIL(IG_ERR_SHAPE, "%s: %lld is within a block of %s", c->op, (long long)s->begin,
                       ig_dtype_name(c->in[0].dtype));
    c->out[0] = c->in[0];
    c->out[0].shape.dim[s->axis] = s->end - s->begin;
    return IG_OK;
}

/* ---- elements moved about ---- */

static ig_status infer_pad(const call *c) {
    const ig_attrs_pad *p = c->attrs;
    IG_TRY(want_number(c, 0));
    IG_TRY(want_axis(c, p->axis));
    if (p->before < 0 || p->after < 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: by %lld and %lld", c->op, (long long)p->before,
                       (long long)p->after);
    c->out[0] = c->in[0];
    int64_t *extent = &c->out[0].shape.dim[p->axis];
    if (__builtin_add_overflow(*extent, p->before, extent) ||
        __builtin_add_overflow(*extent, p->after, extent))
        return misshapen(c, 0, "the result is too large");
    return IG_OK;
}

static ig_status infer_concat(const call *c) {
    const int axis = ((const ig_attrs_axis *)c->attrs)->axis;
    IG_TRY(want_number(c, 0));
    IG_TRY(want_axis(c, axis));
    c->out[0] = c->in[0];
    int64_t *joined = &c->out[0].shape.dim[axis];
    for (uint32_t i = 1; i < c->n_in; i++) {
        IG_TRY(same_dtype(c, 0, i));
        if (!same_but_for_axis(c->in[0].shape, c->in[i].shape, axis) ||
            __builtin_add_overflow(*joined, c->in[i].shape.dim[axis], joined))
            return misfit(c, 0, i);
    }
    return IG_OK;
}

static ig_status infer_gather(const call *c) {
    const int axis = ((const ig_attrs_axis *)c->attrs)->axis;
    IG_TRY(want_number(c, 0));
    IG_TRY(want_axis(c, axis));
    IG_TRY(want_index(c, 1));
    if (!same_but_for_axis(c->in[0].shape, c->in[1].shape, axis)) return misfit(c, 0, 1);
    c->out[0] = (ig_desc){c->in[0].dtype, c->in[1].shape};
    return IG_OK;
}

static ig_status infer_scatter(const call *c) {
    const int axis = ((const ig_attrs_axis *)c->attrs)->axis;
    IG_TRY(want_real(c, 0));
    IG_TRY(want_axis(c, axis));
    IG_TRY(want_index(c, 1));
    IG_TRY(same_dtype(c, 0, 2));
    if (!same_but_for_axis(c->in[0].shape, c->in[1].shape, axis)) return misfit(c, 0, 1);
    if (!ig_shape_equal(c->in[1].shape, c->in[2].shape)) return misfit(c, 1, 2);
    return infer_same(c);
}

/* table [v, d], ids [...] -> [..., d]; weights that are stored otherwise come out as f32 */
static ig_status infer_embedding(const call *c) {
    ig_shape shape = c->in[1].shape;
    const bool stored = is_stored(c->in[0].dtype);
    if (!stored) IG_TRY(want_number(c, 0));
    IG_TRY(want_index(c, 1));
    if (c->in[0].shape.rank != 2 || shape.rank >= IG_MAX_RANK) return misfit(c, 0, 1);
    shape.dim[shape.rank++] = c->in[0].shape.dim[1];
    c->out[0] = (ig_desc){stored ? IG_F32 : c->in[0].dtype, shape};
    return IG_OK;
}

/* ids [...], dy [..., d] -> [rows, d] */
static ig_status infer_embedding_grad(const call *c) {
    const int64_t rows = ((const ig_attrs_rows *)c->attrs)->rows;
    ig_shape outer = c->in[1].shape;
    IG_TRY(want_index(c, 0));
    IG_TRY(want_real(c, 1));
    if (outer.rank-- < 1 || !ig_shape_equal(outer, c->in[0].shape)) return misfit(c, 0, 1);
    c->out[0] = (ig_desc){c->in[1].dtype, {2, {rows, c->in[1].shape.dim[outer.rank]}}};
    return IG_OK;
}

/* ---- many to one ---- */

static ig_status infer_reduce(const call *c) {
    const ig_attrs_reduce *attrs = c->attrs;
    const ig_shape shape = c->in[0].shape;
    IG_TRY(want_real(c, 0));
    if (attrs->axes >> shape.rank)
        return IG_FAIL(IG_ERR_SHAPE, "%s: axes %#x of rank %d", c->op, attrs->axes, shape.rank);
    ig_shape kept = {0};
    for (int d = 0; d < shape.rank; d++) {
        const bool reduced = attrs->axes & 1u << d;
        if (!reduced || attrs->keep) kept.dim[kept.rank++] = reduced ? 1 : shape.dim[d];
    }
    c->out[0] = (ig_desc){c->in[0].dtype, kept};
    return IG_OK;
}

static ig_status infer_argmax(const call *c) {
    const int axis = ((const ig_attrs_axis *)c->attrs)->axis;
    IG_TRY(want_real(c, 0));
    IG_TRY(want_axis(c, axis));
    ig_shape shape = c->in[0].shape;
    if (shape.dim[axis] == 0) return IG_FAIL(IG_ERR_SHAPE, "%s: axis %d is empty", c->op, axis);
    shape.rank--;
    for (int d = axis; d < shape.rank; d++) shape.dim[d] = shape.dim[d + 1];
    shape.dim[shape.rank] = 0;
    c->out[0] = (ig_desc){IG_I32, shape};
    return IG_OK;
}

static ig_status infer_rows(const call *c) {
    if (c->in[0].shape.rank < 1) return misshapen(c, 0, "needs a dimension");
    return infer_real(c);
}

/* logits [..., n], targets [...] -> [...] */
static ig_status infer_loss(const call *c) {
    ig_shape rows = c->in[0].shape;
    IG_TRY(want_real(c, 0));
    IG_TRY(want_index(c, 1));
    if (rows.rank-- < 1 || !ig_shape_equal(rows, c->in[1].shape)) return misfit(c, 0, 1);
    c->out[0] = (ig_desc){c->in[0].dtype, rows};
    return IG_OK;
}

static ig_status infer_loss_grad(const call *c) {
    IG_TRY(infer_loss(c));
    IG_TRY(same_dtype(c, 0, 2));
    if (!ig_shape_equal(c->in[1].shape, c->in[2].shape)) return misfit(c, 1, 2);
    return infer_same(c);
}

static ig_status infer_mse(const call *c) {
    IG_TRY(infer_alike(c));
    c->out[0].shape = (ig_shape){0};
    return IG_OK;
}

/* x [..., n] and, from input `first` on, vectors [n] -> like x */
static ig_status norm(const call *c, uint32_t first) {
    const ig_shape x = c->in[0].shape;
    IG_TRY(want_reals_alike(c, 0));
    if (x.rank < 1) return misshapen(c, 0, "needs a dimension");
    for (uint32_t i = first; i < c->n_in; i++)
        if (c->in[i].shape.rank != 1 || c->in[i].shape.dim[0] != x.dim[x.rank - 1])
            return misfit(c, 0, i);
    return infer_same(c);
}

static ig_status infer_norm(const call *c) { return norm(c, 1); }

static ig_status infer_norm_grad(const call *c) {
    if (!ig_shape_equal(c->in[0].shape, c->in[1].shape)) return misfit(c, 0, 1);
    return norm(c, 2);
}

static ig_status infer_global_norm(const call *c) {
    IG_TRY(want_reals_alike(c, 0));
    c->out[0] = (ig_desc){c->in[0].dtype, {0}};
    return IG_OK;
}

/* ---- contractions ---- */

/* Numbers of one real type; or f32 and halves, in any combination, with sums in f32; or f32 times
 * blocks: rows [n, k]. */
static ig_status want_factors(const call *c, const ig_attrs_matmul *t) {
    if (!is_stored(c->in[0].dtype) && !is_stored(c->in[1].dtype)) return want_reals_alike(c, 0);
    const bool blocks = is_block(c->in[1].dtype);
    for (uint32_t i = 0; i < c->n_in; i++) {
        const ig_dtype dtype = c->in[i].dtype;
        const bool may_be_stored = i == 1 || (i == 0 && !blocks);
        if (dtype != IG_F32 && !(may_be_stored && is_stored(dtype)))
            return IG_FAIL(IG_ERR_SHAPE, "%s: %s x %s: cast one of them", c->op,
                           ig_dtype_name(dtype), ig_dtype_name(c->in[i == 1 ? 0 : 1].dtype));
    }
    if (!blocks || (t->transpose_b && !t->transpose_a && c->in[1].shape.rank == 2)) return IG_OK;
    return misshapen(c, 1, "blocks are rows [n, k], used transposed");
}

/* [..., m, k] x [..., k, n] -> [..., m, n], a bias [n], and a residual like the result. */
static ig_status infer_matmul(const call *c) {
    const ig_attrs_matmul *t = c->attrs;
    const ig_shape a = c->in[0].shape, b = c->in[1].shape;
    IG_TRY(want_factors(c, t));
    if (a.rank < 2 || b.rank < 2) return misfit(c, 0, 1);
    const int64_t m = a.dim[a.rank - (t->transpose_a ? 1 : 2)];
    const int64_t k = a.dim[a.rank - (t->transpose_a ? 2 : 1)];
    const int64_t n = b.dim[b.rank - (t->transpose_b ? 2 : 1)];
    if (k != b.dim[b.rank - (t->transpose_b ? 1 : 2)]) return misfit(c, 0, 1);

    ig_shape batch_a = a, batch_b = b, out;
    batch_a.rank -= 2;
    batch_b.rank -= 2;
    if (!broadcast(batch_a, batch_b, &out)) return misfit(c, 0, 1);
    out.dim[out.rank++] = m;
    out.dim[out.rank++] = n;
    const uint32_t without = c->n_in - (t->residual ? 1 : 0); /* inputs, that is */
    if (without < 2 || without > 3)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: %u inputs", c->op, c->n_in);
    if (without > 2 && (c->in[2].shape.rank != 1 || c->in[2].shape.dim[0] != n))
        return misfit(c, 1, 2);
    if (t->residual && !ig_shape_equal(c->in[without].shape, out)) return misfit(c, 0, without);
    c->out[0] = (ig_desc){c->in[0].dtype == IG_F64 ? IG_F64 : IG_F32, out};
    return IG_OK;
}

static ig_status infer_rope(const call *c) {
    const ig_attrs_rope *attrs = c->attrs;
    const ig_shape x = c->in[0].shape, at = c->in[1].shape;
    IG_TRY(want_real(c, 0));
    IG_TRY(want_index(c, 1));
    if (x.rank < 3) return misshapen(c, 0, "must be [..., rows, heads, width]");
    ig_shape outer = x;
    outer.rank -= 2;
    if (!ig_shape_equal(at, outer) && !(at.rank == 1 && at.dim[0] == x.dim[x.rank - 3]))
        return misfit(c, 0, 1);

    const int64_t width = x.dim[x.rank - 1], dims = attrs->dims ? attrs->dims : width;
    if (dims > width || dims % 2 != 0)
        return IG_FAIL(IG_ERR_SHAPE, "%s: %lld of %lld dimensions; an even number is needed", c->op,
                       (long long)dims, (long long)width);
    if (c->n_in > 2) {
        IG_TRY(same_dtype(c, 0, 2));
        if (c->in[2].shape.rank != 1 || c->in[2].shape.dim[0] != dims / 2) return misfit(c, 0, 2);
    }
    return infer_same(c);
}

/* q [b, t, h, d], k [b, s, g, d], v [b, s, g, e] */
static ig_status infer_attention(const call *c) {
    const ig_shape q = c->in[0].shape, k = c->in[1].shape, v = c->in[2].shape;
    const bool half = c->in[0].dtype == IG_F16 || c->in[0].dtype == IG_BF16;
    const ig_dtype result = half ? IG_F32 : c->in[0].dtype;
    if (!half) IG_TRY(want_real(c, 0));
    for (uint32_t i = 0; i < 3; i++) {
        IG_TRY(same_dtype(c, 0, i));
        if (c->in[i].shape.rank != 4) return misshapen(c, i, "must be [batch, rows, heads, width]");
    }
    if (q.dim[0] != k.dim[0] || q.dim[3] != k.dim[3]) return misfit(c, 0, 1);
    if (k.dim[2] == 0 ? q.dim[2] != 0 : q.dim[2] % k.dim[2] != 0) return misfit(c, 0, 1);
    if (k.dim[0] != v.dim[0] || k.dim[1] != v.dim[1] || k.dim[2] != v.dim[2])
        return misfit(c, 1, 2);
    c->out[0] = (ig_desc){result, {4, {q.dim[0], q.dim[1], q.dim[2], v.dim[3]}}};
    if (c->n_out > 1) c->out[1] = (ig_desc){result, {3, {q.dim[0], q.dim[1], q.dim[2]}}};
    return IG_OK;
}

static ig_status infer_attention_grad(const call *c) {
    ig_desc forward[2];
    call f = *c;
    f.out = forward;
    f.n_out = 2;
    IG_TRY(infer_attention(&f));
    for (uint32_t i = 3; i < 6; i++)
        if (c->in[i].dtype != forward[0].dtype)
            return IG_FAIL(IG_ERR_SHAPE, "%s: %s x %s: cast one of them", c->op,
                           ig_dtype_name(c->in[0].dtype), ig_dtype_name(c->in[i].dtype));
    if (!ig_shape_equal(forward[0].shape, c->in[3].shape)) return misfit(c, 0, 3);
    if (!ig_shape_equal(forward[1].shape, c->in[4].shape)) return misfit(c, 0, 4);
    if (!ig_shape_equal(forward[0].shape, c->in[5].shape)) return misfit(c, 0, 5);
    for (int i = 0; i < 3; i++) c->out[i] = (ig_desc){forward[0].dtype, c->in[i].shape};
    return IG_OK;
}

/* ---- updates ---- */

static ig_status infer_update(const call *c) {
    IG_TRY(same_dtype(c, 0, 1));
    if (!ig_shape_equal(c->in[0].shape, c->in[1].shape)) return misfit(c, 0, 1);
    return infer_same(c);
}

static ig_status infer_accumulate(const call *c) {
    IG_TRY(want_real(c, 0));
    return infer_update(c);
}

static ig_status infer_clip(const call *c) {
    IG_TRY(want_reals_alike(c, 0));
    if (c->in[1].shape.rank != 0) return misshapen(c, 1, "the norm is a scalar");
    return infer_same(c);
}

/* weight, gradient, mean, variance -> weight, mean, variance */
static ig_status infer_adamw(const call *c) {
    IG_TRY(infer_alike(c));
    c->out[1] = c->out[2] = c->in[0];
    return IG_OK;
}

/* weight, gradient, momentum or none -> weight, momentum or none */
static ig_status infer_sgd(const call *c) {
    IG_TRY(infer_alike(c));
    if (c->n_out != c->n_in - 1)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: %u inputs, %u outputs", c->op, c->n_in, c->n_out);
    if (c->n_out > 1) c->out[1] = c->in[0];
    return IG_OK;
}

/* dst [n, ...], rows [r, ...], index [r] -> dst */
static ig_status infer_store_rows(const call *c) {
    const ig_shape dst = c->in[0].shape, rows = c->in[1].shape, index = c->in[2].shape;
    IG_TRY(want_cache(c, 0, 1));
    IG_TRY(want_index(c, 2));
    if (dst.rank < 1 || !same_but_for_axis(dst, rows, 0)) return misfit(c, 0, 1);
    if (index.rank != 1 || index.dim[0] != rows.dim[0]) return misfit(c, 1, 2);
    return infer_same(c);
}

/* q [r, h, d], k [p, 64, g, d], v [p, 64, g, e], table [s, m], sequence [r], position [r], sinks
 * [h] or none */
static ig_status infer_paged(const call *c) {
    const ig_shape q = c->in[0].shape, k = c->in[1].shape, v = c->in[2].shape;
    for (uint32_t i = 0; i < 3; i++) {
        IG_TRY(want_cache(c, i, 0));
        if (c->in[i].shape.rank != (i ? 4 : 3))
            return misshapen(
                c, i, i ? "must be [pages, 64, heads, width]" : "must be [rows, heads, width]");
    }
    for (uint32_t i = 3; i < 6; i++) IG_TRY(want_index(c, i));
    if (k.dim[1] != IG_PAGE_ROWS) return misshapen(c, 1, "a page has 64 positions");
    if (k.dim[0] != v.dim[0] || k.dim[1] != v.dim[1] || k.dim[2] != v.dim[2])
        return misfit(c, 1, 2);
    if (q.dim[2] != k.dim[3] || (k.dim[2] == 0 ? q.dim[1] != 0 : q.dim[1] % k.dim[2] != 0))
        return misfit(c, 0, 1);
    if (c->in[3].shape.rank != 2) return misshapen(c, 3, "must be [sequences, pages of each]");
    for (uint32_t i = 4; i < 6; i++)
        if (c->in[i].shape.rank != 1 || c->in[i].shape.dim[0] != q.dim[0]) return misfit(c, 0, i);
    if (c->n_in > 6) {
        IG_TRY(same_dtype(c, 0, 6));
        if (c->in[6].shape.rank != 1 || c->in[6].shape.dim[0] != q.dim[1]) return misfit(c, 0, 6);
    }
    c->out[0] = (ig_desc){c->in[0].dtype, {3, {q.dim[0], q.dim[1], v.dim[3]}}};
    return IG_OK;
}

/* ---- mixtures of experts ---- */

/* logits [t, e] -> ids [t, k], weights [t, k] */
static ig_status infer_route(const call *c) {
    const ig_attrs_route *attrs = c->attrs;
    const ig_shape logits = c->in[0].shape;
    IG_TRY(want_real(c, 0));
    if (logits.rank != 2) return misshapen(c, 0, "must be [rows, experts]");
    if (attrs->count < 1 || attrs->count > logits.dim[1])
        return IG_FAIL(IG_ERR_SHAPE, "%s: %u of %lld experts", c->op, attrs->count,
                       (long long)logits.dim[1]);
    const ig_shape chosen = {2, {logits.dim[0], attrs->count}};
    c->out[0] = (ig_desc){IG_I32, chosen};
    c->out[1] = (ig_desc){c->in[0].dtype, chosen};
    return IG_OK;
}

/* ids [t, k] -> rows [t k], places [t, k], offsets [experts + 1]; i32 must be able to count them */
static ig_status infer_group_rows(const call *c) {
    const int64_t experts = ((const ig_attrs_rows *)c->attrs)->rows;
    const ig_shape ids = c->in[0].shape;
    IG_TRY(want_index(c, 0));
    if (ids.rank != 2) return misshapen(c, 0, "must be [rows, experts of each]");
    if (experts < 0 || experts >= INT32_MAX || ig_shape_count(ids) > INT32_MAX)
        return IG_FAIL(IG_ERR_SHAPE, "%s: %lld rows to %lld experts", c->op,
                       (long long)ig_shape_count(ids), (long long)experts);
    c->out[0] = (ig_desc){IG_I32, {1, {ig_shape_count(ids)}}};
    c->out[1] = (ig_desc){IG_I32, ids};
    c->out[2] = (ig_desc){IG_I32, {1, {experts + 1}}};
    return IG_OK;
}

/* Input i is offsets [experts + 1]. */
static ig_status want_offsets(const call *c, uint32_t i) {
    IG_TRY(want_index(c, i));
    if (c->in[i].shape.rank == 1 && c->in[i].shape.dim[0] > 0) return IG_OK;
    return misshapen(c, i, "must be [experts + 1]");
}

/* x [s, k], w [e, k, n] or [e, n, k], offsets [e + 1] */
static ig_status infer_matmul_grouped(const call *c) {
    const bool transposed = ((const ig_attrs_grouped *)c->attrs)->transpose_w;
    const ig_shape x = c->in[0].shape, w = c->in[1].shape;
    IG_TRY(want_real(c, 0));
    IG_TRY(want_offsets(c, 2));
    if (!(is_stored(c->in[1].dtype) && c->in[0].dtype == IG_F32)) IG_TRY(same_dtype(c, 0, 1));
    if (is_stored(c->in[1].dtype) && !transposed)
        return misshapen(c, 1, "stored weights are rows [experts, n, k], used transposed");
    if (x.rank != 2 || w.rank != 3 || x.dim[1] != w.dim[transposed ? 2 : 1]) return misfit(c, 0, 1);
    if (w.dim[0] != c->in[2].shape.dim[0] - 1) return misfit(c, 1, 2);
    c->out[0] = (ig_desc){c->in[0].dtype, {2, {x.dim[0], w.dim[transposed ? 1 : 2]}}};
    return IG_OK;
}

/* x [s, k], dy [s, n], offsets [e + 1] -> [e, n, k] */
static ig_status infer_matmul_grouped_grad(const call *c) {
    const ig_shape x = c->in[0].shape, dy = c->in[1].shape;
    IG_TRY(want_real(c, 0));
    IG_TRY(same_dtype(c, 0, 1));
    IG_TRY(want_offsets(c, 2));
    if (x.rank != 2 || dy.rank != 2 || x.dim[0] != dy.dim[0]) return misfit(c, 0, 1);
    const int64_t experts = c->in[2].shape.dim[0] - 1;
    c->out[0] = (ig_desc){c->in[0].dtype, {3, {experts, dy.dim[1], x.dim[1]}}};
    return IG_OK;
}

/* y [s, n], places [t, k], weights [t, k] -> [t, n] */
static ig_status infer_combine(const call *c) {
    const ig_shape y = c->in[0].shape, places = c->in[1].shape;
    IG_TRY(want_real(c, 0));
    IG_TRY(want_index(c, 1));
    IG_TRY(same_dtype(c, 0, 2));
    if (y.rank != 2 || places.rank != 2) return misfit(c, 0, 1);
    if (!ig_shape_equal(places, c->in[2].shape)) return misfit(c, 1, 2);
    c->out[0] = (ig_desc){c->in[0].dtype, {2, {places.dim[0], y.dim[1]}}};
    return IG_OK;
}

static ig_status infer_custom(const call *c) {
    return IG_FAIL(IG_ERR_ARGUMENT, "%s: the shape rule is the program's own", c->op);
}

static infer_rule *const rules[IG_OP_COUNT] = {
#define IG_OP(ID, name, in_min, in_max, out_min, out_max, attrs, infer, grad, traits) \
    [IG_OP_##ID] = infer_##infer,
#include "ingot/op.def"
};

/* Blocks are looked at by views and read as weights; nothing else takes them. */
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
    IG_TRY(rules[op](&(call){info->name, attrs, in, n_in, results, n_out}));
    for (uint32_t i = 0; i < n_out; i++) IG_TRY(check_result(op, results[i]));
    memcpy(out, results, n_out * sizeof *out);
    return IG_OK;
}
