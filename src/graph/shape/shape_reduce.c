/* Shape rules of reductions, losses and norms. */
#include "graph/shape/shape_call.h"

ig_status ig_infer_reduce(const ig_shape_call *c) {
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

ig_status ig_infer_argmax(const ig_shape_call *c) {
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

ig_status ig_infer_rows(const ig_shape_call *c) {
    if (c->in[0].shape.rank < 1) return misshapen(c, 0, "needs a dimension");
    return ig_infer_real(c);
}

/* logits [..., n], targets [...] -> [...] */
ig_status ig_infer_loss(const ig_shape_call *c) {
    ig_shape rows = c->in[0].shape;
    IG_TRY(want_real(c, 0));
    IG_TRY(want_index(c, 1));
    if (rows.rank-- < 1 || !ig_shape_equal(rows, c->in[1].shape)) return misfit(c, 0, 1);
    c->out[0] = (ig_desc){c->in[0].dtype, rows};
    return IG_OK;
}

ig_status ig_infer_loss_grad(const ig_shape_call *c) {
    IG_TRY(ig_infer_loss(c));
    IG_TRY(same_dtype(c, 0, 2));
    if (!ig_shape_equal(c->in[1].shape, c->in[2].shape)) return misfit(c, 1, 2);
    return ig_infer_same(c);
}

ig_status ig_infer_mse(const ig_shape_call *c) {
    IG_TRY(ig_infer_alike(c));
    c->out[0].shape = (ig_shape){0};
    return IG_OK;
}

/* x [..., n] and, from input `first` on, vectors [n] -> shape of x */
static ig_status norm(const ig_shape_call *c, uint32_t first) {
    const ig_shape x = c->in[0].shape;
    IG_TRY(want_reals_alike(c, 0));
    if (x.rank < 1) return misshapen(c, 0, "needs a dimension");
    for (uint32_t i = first; i < c->n_in; i++)
        if (c->in[i].shape.rank != 1 || c->in[i].shape.dim[0] != x.dim[x.rank - 1])
            return misfit(c, 0, i);
    return ig_infer_same(c);
}

ig_status ig_infer_norm(const ig_shape_call *c) { return norm(c, 1); }

ig_status ig_infer_norm_grad(const ig_shape_call *c) {
    if (!ig_shape_equal(c->in[0].shape, c->in[1].shape)) return misfit(c, 0, 1);
    return norm(c, 2);
}

ig_status ig_infer_global_norm(const ig_shape_call *c) {
    IG_TRY(want_reals_alike(c, 0));
    c->out[0] = (ig_desc){c->in[0].dtype, {0}};
    return IG_OK;
}
