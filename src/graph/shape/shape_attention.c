/* Shape rules of RoPE and attention. */
#include "graph/shape/shape_call.h"

ig_status ig_infer_rope(const ig_shape_call *c) {
    const ig_attrs_rope *attrs = c->attrs;
    const ig_shape x = c->in[0].shape, at = c->in[1].shape;
    IG_TRY(want_real(c, 0));
    IG_TRY(want_index(c, 1));
    if (x.rank < 3) return misshapen(c, 0, "must be [..., rows, heads, width]");
    ig_shape outer = x;
    outer.rank -= 2;
    if (!ig_shape_equal(at, outer) && !(at.rank == 1 && at.dim[0] == x.dim[x.rank - 3]))
        return misfit(c, 0, 1);

    const int64_t width = x.dim[x.rank - 1], dims = attrs->rotary_dims ? attrs->rotary_dims : width;
    if (dims > width || dims % 2 != 0)
        return IG_FAIL(IG_ERR_SHAPE, "%s: %lld of %lld dimensions; an even number is needed", c->op,
                       (long long)dims, (long long)width);
    if (c->n_in > 2) {
        IG_TRY(same_dtype(c, 0, 2));
        if (c->in[2].shape.rank != 1 || c->in[2].shape.dim[0] != dims / 2) return misfit(c, 0, 2);
    }
    return ig_infer_same(c);
}

/* q [b, t, h, d], k [b, s, g, d], v [b, s, g, e] */
ig_status ig_infer_attention(const ig_shape_call *c) {
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

ig_status ig_infer_attention_grad(const ig_shape_call *c) {
    ig_desc forward[2];
    ig_shape_call f = *c;
    f.out = forward;
    f.n_out = 2;
    IG_TRY(ig_infer_attention(&f));
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

/* q [r, h, d], k [p, 64, g, d], v [p, 64, g, e], table [s, m], sequence [r], position [r], sinks
 * [h] or none */
ig_status ig_infer_paged(const ig_shape_call *c) {
    const ig_shape q = c->in[0].shape, k = c->in[1].shape, v = c->in[2].shape;
    for (uint32_t i = 0; i < 3; i++) {
        IG_TRY(want_cache(c, i, 0));
        if (c->in[i].shape.rank != (i ? 4 : 3))
            return misshapen(
                c, i, i ? "must be [pages, 64, heads, width]" : "must be [rows, heads, width]");
    }
    for (uint32_t i = 3; i < 6; i++) IG_TRY(want_index(c, i));
    if (k.dim[1] != IG_PAGE_TOKENS) return misshapen(c, 1, "a page has 64 positions");
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
