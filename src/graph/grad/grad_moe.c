/* Gradient rules of MoE ops. */
#include "graph/grad/grad_build.h"

/* Router weights are a softmax over the top-k logits, or the top-k of a softmax over all. */
void ig_grad_route(const ig_grad *r) {
    const ig_attrs_axis last = {1};
    const ig_value ids = r->out[0];
    if (r->dout[1] == IG_NO_VALUE) return;
    const ig_value zeros = ig_build_full(r->g, ig_value_at(r->g, r->in[0])->layout.desc, 0);
    const bool own = ((const ig_attrs_route *)r->attrs)->norm_topk;
    const ig_value chosen = own ? softmax_grad(r, r->out[1], r->dout[1]) : r->dout[1];
    const ig_value all =
        ig_build(r->g, IG_OP_SCATTER_ADD, &last, (ig_value[]){zeros, ids, chosen}, 3);
    r->din[0] = own ? all : softmax_grad(r, ig_build_unary(r->g, IG_OP_SOFTMAX, r->in[0]), all);
}

/* y = x w:  dx = dy w^T,  dw = x^T dy, over the rows of each expert */
void ig_grad_matmul_grouped(const ig_grad *r) {
    const ig_attrs_grouped *t = r->attrs, back = {!t->transpose_w};
    const ig_value x = r->in[0], dy = r->dout[0], offsets = r->in[2];
    if (r->wanted[0]) {
        const ig_value w = as_numbers(r, r->in[1], x);
        r->din[0] = ig_build(r->g, IG_OP_MATMUL_GROUPED, &back, (ig_value[]){dy, w, offsets}, 3);
    }
    if (!r->wanted[1]) return;
    const ig_value rows[] = {t->transpose_w ? x : dy, t->transpose_w ? dy : x, offsets};
    r->din[1] = ig_build(r->g, IG_OP_MATMUL_GROUPED_GRAD, NULL, rows, 3);
}

/* out[t] = sum of weights[t, j] y[places[t, j]] */
void ig_grad_combine(const ig_grad *r) {
    const ig_value y = r->in[0], places = r->in[1], weights = r->in[2];
    const ig_shape t_k = ig_value_shape(r->g, places), of_y = ig_value_shape(r->g, y);
    const ig_value dout = ig_build_reshape(r->g, r->dout[0], IG_SHAPE(t_k.dim[0], 1, of_y.dim[1]));
    if (r->wanted[0]) {
        const ig_value each = ig_build_reshape(r->g, weights, IG_SHAPE(t_k.dim[0], t_k.dim[1], 1));
        const ig_value in[] = {places, mul(r->g, each, dout)};
        r->din[0] = ig_build(r->g, IG_OP_EMBEDDING_GRAD, &(ig_attrs_rows){of_y.dim[0]}, in, 2);
    }
    if (r->wanted[2]) {
        const ig_value rows = ig_build(r->g, IG_OP_EMBEDDING, NULL, (ig_value[]){y, places}, 2);
        r->din[2] = ig_build_reduce(r->g, IG_OP_SUM, mul(r->g, rows, dout), 1u << 2, false);
    }
}
