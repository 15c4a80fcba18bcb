/* Shape rules of MoE ops. */
#include "graph/shape/shape_call.h"

/* logits [t, e] -> ids [t, k], weights [t, k] */
ig_status ig_infer_route(const ig_shape_call *c) {
    const ig_attrs_route *attrs = c->attrs;
    const ig_shape logits = c->in[0].shape;
    IG_TRY(want_real(c, 0));
    if (logits.rank != 2) return misshapen(c, 0, "must be [rows, experts]");
    if (attrs->top_k < 1 || attrs->top_k > logits.dim[1])
        return IG_FAIL(IG_ERR_SHAPE, "%s: %u of %lld experts", c->op, attrs->top_k,
                       (long long)logits.dim[1]);
    const ig_shape chosen = {2, {logits.dim[0], attrs->top_k}};
    c->out[0] = (ig_desc){IG_I32, chosen};
    c->out[1] = (ig_desc){c->in[0].dtype, chosen};
    return IG_OK;
}

/* ids [t, k] -> rows [t k], places [t, k], offsets [experts + 1]; t k must fit i32 */
ig_status ig_infer_group_rows(const ig_shape_call *c) {
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

/* Checks that input i is offsets [experts + 1]. */
static ig_status want_offsets(const ig_shape_call *c, uint32_t i) {
    IG_TRY(want_index(c, i));
    if (c->in[i].shape.rank == 1 && c->in[i].shape.dim[0] > 0) return IG_OK;
    return misshapen(c, i, "must be [experts + 1]");
}

/* x [s, k], w [e, k, n] or [e, n, k], offsets [e + 1] */
ig_status ig_infer_matmul_grouped(const ig_shape_call *c) {
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
ig_status ig_infer_matmul_grouped_grad(const ig_shape_call *c) {
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
ig_status ig_infer_combine(const ig_shape_call *c) {
    const ig_shape y = c->in[0].shape, places = c->in[1].shape;
    IG_TRY(want_real(c, 0));
    IG_TRY(want_index(c, 1));
    IG_TRY(same_dtype(c, 0, 2));
    if (y.rank != 2 || places.rank != 2) return misfit(c, 0, 1);
    if (!ig_shape_equal(places, c->in[2].shape)) return misfit(c, 1, 2);
    c->out[0] = (ig_desc){c->in[0].dtype, {2, {places.dim[0], y.dim[1]}}};
    return IG_OK;
}
