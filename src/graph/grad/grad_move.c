/* Gradient rules of ops that move elements: pad, concat, gather, embedding. */
#include "graph/grad/grad_build.h"

void ig_grad_pad(const ig_grad *r) {
    const ig_attrs_pad *p = r->attrs;
    const int64_t extent = ig_value_shape(r->g, r->in[0]).dim[p->axis];
    r->din[0] = ig_build_slice(r->g, r->dout[0], p->axis, p->before, p->before + extent);
}

/* Each input gets its slice of the gradient. */
void ig_grad_concat(const ig_grad *r) {
    const int axis = ((const ig_attrs_axis *)r->attrs)->axis;
    int64_t begin = 0;
    for (uint32_t i = 0; i < r->n_in; i++) {
        const int64_t end = begin + ig_value_shape(r->g, r->in[i]).dim[axis];
        if (r->wanted[i]) r->din[i] = ig_build_slice(r->g, r->dout[0], axis, begin, end);
        begin = end;
    }
}

void ig_grad_gather(const ig_grad *r) {
    const ig_value zeros = ig_build_full(r->g, ig_value_at(r->g, r->in[0])->layout.desc, 0);
    r->din[0] =
        ig_build(r->g, IG_OP_SCATTER_ADD, r->attrs, (ig_value[]){zeros, r->in[1], r->dout[0]}, 3);
}

void ig_grad_scatter_add(const ig_grad *r) {
    if (r->wanted[0]) r->din[0] = r->dout[0];
    if (r->wanted[2])
        r->din[2] = ig_build(r->g, IG_OP_GATHER, r->attrs, (ig_value[]){r->dout[0], r->in[1]}, 2);
}

void ig_grad_embedding(const ig_grad *r) {
    const ig_attrs_rows rows = {ig_value_shape(r->g, r->in[0]).dim[0]};
    r->din[0] = ig_build(r->g, IG_OP_EMBEDDING_GRAD, &rows, (ig_value[]){r->in[1], r->dout[0]}, 2);
}
