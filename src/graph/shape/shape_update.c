/* Shape rules of updates: each output is the next version of an input. */
#include "graph/shape/shape_call.h"

ig_status ig_infer_update(const ig_shape_call *c) {
    IG_TRY(same_dtype(c, 0, 1));
    if (!ig_shape_equal(c->in[0].shape, c->in[1].shape)) return misfit(c, 0, 1);
    return ig_infer_same(c);
}

ig_status ig_infer_accumulate(const ig_shape_call *c) {
    IG_TRY(want_real(c, 0));
    return ig_infer_update(c);
}

ig_status ig_infer_clip(const ig_shape_call *c) {
    IG_TRY(want_reals_alike(c, 0));
    if (c->in[1].shape.rank != 0) return misshapen(c, 1, "the norm is a scalar");
    return ig_infer_same(c);
}

/* weight, gradient, mean, variance -> weight, mean, variance */
ig_status ig_infer_adamw(const ig_shape_call *c) {
    IG_TRY(ig_infer_alike(c));
    c->out[1] = c->out[2] = c->in[0];
    return IG_OK;
}

/* weight, gradient, momentum or none -> weight, momentum or none */
ig_status ig_infer_sgd(const ig_shape_call *c) {
    IG_TRY(ig_infer_alike(c));
    if (c->n_out != c->n_in - 1)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: %u inputs, %u outputs", c->op, c->n_in, c->n_out);
    if (c->n_out > 1) c->out[1] = c->in[0];
    return IG_OK;
}

/* dst [n, ...], rows [r, ...], index [r] -> dst */
ig_status ig_infer_store_rows(const ig_shape_call *c) {
    const ig_shape dst = c->in[0].shape, rows = c->in[1].shape, index = c->in[2].shape;
    IG_TRY(want_cache(c, 0, 1));
    IG_TRY(want_index(c, 2));
    if (dst.rank < 1 || !same_but_for_axis(dst, rows, 0)) return misfit(c, 0, 1);
    if (index.rank != 1 || index.dim[0] != rows.dim[0]) return misfit(c, 1, 2);
    return ig_infer_same(c);
}
