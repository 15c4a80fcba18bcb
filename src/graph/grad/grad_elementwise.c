/* Gradient rules of elementwise ops. */
#include "graph/grad/grad_build.h"

void ig_grad_add(const ig_grad *r) {
    if (r->wanted[0]) r->din[0] = to_shape_of(r, 0, r->dout[0]);
    if (r->wanted[1]) r->din[1] = to_shape_of(r, 1, r->dout[0]);
}

void ig_grad_sub(const ig_grad *r) {
    if (r->wanted[0]) r->din[0] = to_shape_of(r, 0, r->dout[0]);
    if (r->wanted[1]) r->din[1] = neg(r->g, to_shape_of(r, 1, r->dout[0]));
}

void ig_grad_mul(const ig_grad *r) {
    if (r->wanted[0]) r->din[0] = to_shape_of(r, 0, mul(r->g, r->dout[0], r->in[1]));
    if (r->wanted[1]) r->din[1] = to_shape_of(r, 1, mul(r->g, r->dout[0], r->in[0]));
}

/* y = a / b:  da = dy / b,  db = -da y */
void ig_grad_div(const ig_grad *r) {
    const ig_value da = divide(r->g, r->dout[0], r->in[1]);
    if (r->wanted[0]) r->din[0] = to_shape_of(r, 0, da);
    if (r->wanted[1]) r->din[1] = neg(r->g, to_shape_of(r, 1, mul(r->g, da, r->out[0])));
}

void ig_grad_scale(const ig_grad *r) {
    r->din[0] = scale(r->g, r->dout[0], ((const ig_attrs_scale *)r->attrs)->scale, 0);
}

void ig_grad_neg(const ig_grad *r) { r->din[0] = neg(r->g, r->dout[0]); }
void ig_grad_exp(const ig_grad *r) { r->din[0] = mul(r->g, r->dout[0], r->out[0]); }
void ig_grad_log(const ig_grad *r) { r->din[0] = divide(r->g, r->dout[0], r->in[0]); }

/* dx = dy / (2 y) */
void ig_grad_sqrt(const ig_grad *r) {
    r->din[0] = divide(r->g, scale(r->g, r->dout[0], 0.5, 0), r->out[0]);
}

/* dx = dy (1 - y^2) */
void ig_grad_tanh(const ig_grad *r) {
    const ig_value slope = scale(r->g, mul(r->g, r->out[0], r->out[0]), -1, 1);
    r->din[0] = mul(r->g, r->dout[0], slope);
}

/* dx = dy y (1 - y) */
void ig_grad_sigmoid(const ig_grad *r) {
    const ig_value slope = mul(r->g, r->out[0], scale(r->g, r->out[0], -1, 1));
    r->din[0] = mul(r->g, r->dout[0], slope);
}

void ig_grad_relu(const ig_grad *r) {
    r->din[0] = mul(r->g, r->dout[0], ig_build_unary(r->g, IG_OP_POSITIVE, r->in[0]));
}

void ig_grad_gelu(const ig_grad *r) {
    r->din[0] = ig_build(r->g, IG_OP_GELU_GRAD, r->attrs, (ig_value[]){r->in[0], r->dout[0]}, 2);
}

void ig_grad_silu(const ig_grad *r) {
    r->din[0] = ig_build_binary(r->g, IG_OP_SILU_GRAD, r->in[0], r->dout[0]);
}

void ig_grad_softplus(const ig_grad *r) {
    r->din[0] = mul(r->g, r->dout[0], ig_build_unary(r->g, IG_OP_SIGMOID, r->in[0]));
}

/* Integers have no gradient. 16-bit floats are a storage dtype: their gradients are f32. */
void ig_grad_cast(const ig_grad *r) {
    const ig_dtype from = dtype_of(r, r->in[0]), got = dtype_of(r, r->dout[0]);
    if (from == IG_I32 || dtype_of(r, r->out[0]) == IG_I32) return;
    r->din[0] = from == got || is_half(from)
                    ? r->dout[0]
                    : ig_build(r->g, IG_OP_CAST, &(ig_attrs_dtype){from}, r->dout, 1);
}

void ig_grad_copy(const ig_grad *r) { r->din[0] = r->dout[0]; }

/* The same random numbers are generated again, so the same elements are kept. */
void ig_grad_dropout(const ig_grad *r) {
    r->din[0] = ig_build(r->g, IG_OP_DROPOUT, r->attrs, r->dout, 1);
}
