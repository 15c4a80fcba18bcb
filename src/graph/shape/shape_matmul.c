/* Shape rules of matmul. */
#include "graph/shape/shape_call.h"

/* One real dtype; or f32 and 16-bit floats in any combination, with f32 accumulation; or f32 times
 * quantized rows [n, k]. */
static ig_status want_factors(const ig_shape_call *c, const ig_attrs_matmul *t) {
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

/* [..., m, k] x [..., k, n] -> [..., m, n], a bias [n], and a residual of the result's shape. */
ig_status ig_infer_matmul(const ig_shape_call *c) {
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
    const uint32_t without = c->n_in - (t->residual ? 1 : 0); /* without the residual */
    if (without < 2 || without > 3)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: %u inputs", c->op, c->n_in);
    if (without > 2 && (c->in[2].shape.rank != 1 || c->in[2].shape.dim[0] != n))
        return misfit(c, 1, 2);
    if (t->residual && !ig_shape_equal(c->in[without].shape, out)) return misfit(c, 0, without);
    c->out[0] = (ig_desc){c->in[0].dtype == IG_F64 ? IG_F64 : IG_F32, out};
    return IG_OK;
}
