/* Shape rules of elementwise ops. */
#include "graph/shape/shape_call.h"

ig_status ig_infer_same(const ig_shape_call *c) {
    c->out[0] = c->in[0];
    return IG_OK;
}

ig_status ig_infer_real(const ig_shape_call *c) {
    IG_TRY(want_real(c, 0));
    return ig_infer_same(c);
}

ig_status ig_infer_alike(const ig_shape_call *c) {
    IG_TRY(want_reals_alike(c, 0));
    for (uint32_t i = 1; i < c->n_in; i++)
        if (!ig_shape_equal(c->in[0].shape, c->in[i].shape)) return misfit(c, 0, i);
    return ig_infer_same(c);
}

static ig_status pair(const ig_shape_call *c) {
    c->out[0].dtype = c->in[0].dtype;
    return broadcast(c->in[0].shape, c->in[1].shape, &c->out[0].shape) ? IG_OK : misfit(c, 0, 1);
}

ig_status ig_infer_broadcast(const ig_shape_call *c) {
    IG_TRY(same_dtype(c, 0, 1));
    IG_TRY(want_real(c, 0));
    return pair(c);
}

ig_status ig_infer_equal(const ig_shape_call *c) {
    IG_TRY(same_dtype(c, 0, 1));
    IG_TRY(want_number(c, 0));
    return pair(c);
}

ig_status ig_infer_cast(const ig_shape_call *c) {
    const ig_attrs_dtype *attrs = c->attrs;
    if (attrs->dtype >= IG_DTYPE_COUNT)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: dtype %u is unknown", c->op, attrs->dtype);
    if (is_block((ig_dtype)attrs->dtype))
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: to %s: blocks are read, not made", c->op,
                       ig_dtype_name((ig_dtype)attrs->dtype));
    c->out[0] = (ig_desc){(ig_dtype)attrs->dtype, c->in[0].shape};
    return IG_OK;
}

ig_status ig_infer_fill(const ig_shape_call *c) {
    const ig_attrs_fill *attrs = c->attrs;
    if (attrs->dtype >= IG_DTYPE_COUNT)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: dtype %u is unknown", c->op, attrs->dtype);
    if (is_block((ig_dtype)attrs->dtype))
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: %s: blocks are read, not made", c->op,
                       ig_dtype_name((ig_dtype)attrs->dtype));
    c->out[0] = (ig_desc){(ig_dtype)attrs->dtype, {0}};
    return IG_OK;
}
