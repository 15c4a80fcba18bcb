/* Shape rules of ops that move elements: pad, concat, gather, embedding. */
#include "graph/shape/shape_call.h"

ig_status ig_infer_pad(const ig_shape_call *c) {
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

ig_status ig_infer_concat(const ig_shape_call *c) {
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

ig_status ig_infer_gather(const ig_shape_call *c) {
    const int axis = ((const ig_attrs_axis *)c->attrs)->axis;
    IG_TRY(want_number(c, 0));
    IG_TRY(want_axis(c, axis));
    IG_TRY(want_index(c, 1));
    if (!same_but_for_axis(c->in[0].shape, c->in[1].shape, axis)) return misfit(c, 0, 1);
    c->out[0] = (ig_desc){c->in[0].dtype, c->in[1].shape};
    return IG_OK;
}

ig_status ig_infer_scatter(const ig_shape_call *c) {
    const int axis = ((const ig_attrs_axis *)c->attrs)->axis;
    IG_TRY(want_real(c, 0));
    IG_TRY(want_axis(c, axis));
    IG_TRY(want_index(c, 1));
    IG_TRY(same_dtype(c, 0, 2));
    if (!same_but_for_axis(c->in[0].shape, c->in[1].shape, axis)) return misfit(c, 0, 1);
    if (!ig_shape_equal(c->in[1].shape, c->in[2].shape)) return misfit(c, 1, 2);
    return ig_infer_same(c);
}

/* table [v, d], ids [...] -> [..., d]; 16-bit and quantized tables give f32 */
ig_status ig_infer_embedding(const ig_shape_call *c) {
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
ig_status ig_infer_embedding_grad(const ig_shape_call *c) {
    const int64_t rows = ((const ig_attrs_rows *)c->attrs)->rows;
    ig_shape outer = c->in[1].shape;
    IG_TRY(want_index(c, 0));
    IG_TRY(want_real(c, 1));
    if (outer.rank-- < 1 || !ig_shape_equal(outer, c->in[0].shape)) return misfit(c, 0, 1);
    c->out[0] = (ig_desc){c->in[1].dtype, {2, {rows, c->in[1].shape.dim[outer.rank]}}};
    return IG_OK;
}
