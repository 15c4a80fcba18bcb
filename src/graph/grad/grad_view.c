/* Gradient rules of views. */
#include "graph/grad/grad_build.h"

void ig_grad_reshape(const ig_grad *r) {
    r->din[0] = ig_build_reshape(r->g, r->dout[0], ig_value_shape(r->g, r->in[0]));
}

void ig_grad_transpose(const ig_grad *r) {
    const ig_attrs_axes *attrs = r->attrs;
    ig_attrs_axes back = {{0}};
    for (int d = 0; d < ig_value_shape(r->g, r->in[0]).rank; d++) back.axis[attrs->axis[d]] = d;
    r->din[0] = ig_build(r->g, IG_OP_TRANSPOSE, &back, r->dout, 1);
}

void ig_grad_slice(const ig_grad *r) {
    const ig_attrs_slice *s = r->attrs;
    const int64_t extent = ig_value_shape(r->g, r->in[0]).dim[s->axis];
    const ig_attrs_pad pad = {s->begin, extent - s->end, s->axis, 0};
    r->din[0] = ig_build(r->g, IG_OP_PAD, &pad, r->dout, 1);
}

void ig_grad_broadcast(const ig_grad *r) { r->din[0] = to_shape_of(r, 0, r->dout[0]); }
