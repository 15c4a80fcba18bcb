/*
 * Element by element: out[i] = f(in[0][i], in[1][i]).  Operands of a pair arrive
 * broadcast, with stride 0 where they repeat, so both are counted alike.
 */
#include "backend/ref/functions.h"
#include "backend/ref/real.h"

typedef double binary_fn(double a, double b);

static void unary(const ig_ref_launch *l, unary_fn *f) {
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) put(&l->out[0], i, f(get(&l->in[0], i)));
}

static void binary(const ig_ref_launch *l, binary_fn *f) {
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) put(&l->out[0], i, f(get(&l->in[0], i), get(&l->in[1], i)));
}

static double add(double a, double b) { return a + b; }
static double sub(double a, double b) { return a - b; }
static double mul(double a, double b) { return a * b; }
static double divide(double a, double b) { return a / b; }
static double equal(double a, double b) { return a == b; }
static double neg(double x) { return -x; }
static double positive(double x) { return x > 0; }

/* log(1 + e^x), without an e^x that overflows. */
static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

/* y = x s, s = sigmoid(x), s' = s (1 - s)  =>  dx = dy s (1 + x (1 - s)) */
static double silu_grad(double x, double dy) {
    const double s = sigmoid(x);
    return dy * s * (1 + x * (1 - s));
}

/* y = x below(x), and the slope of below() is the density */
static double gelu_erf_grad(double x, double dy) {
    const double density = exp(-x * x / 2) / sqrt(2 * M_PI);
    return dy * (below(x) + x * density);
}

static double gelu_tanh_grad(double x, double dy) {
    const double t = gelu_inner(x), du = sqrt(2 / M_PI) * (1 + 3 * gelu_cubic * x * x);
    return dy / 2 * (1 + t + x * (1 - t * t) * du);
}

static void add_real(const ig_ref_launch *l) { binary(l, add); }
static void sub_real(const ig_ref_launch *l) { binary(l, sub); }
static void mul_real(const ig_ref_launch *l) { binary(l, mul); }
static void div_real(const ig_ref_launch *l) { binary(l, divide); }
static void equal_real(const ig_ref_launch *l) { binary(l, equal); }
static void silu_grad_real(const ig_ref_launch *l) { binary(l, silu_grad); }
static void neg_real(const ig_ref_launch *l) { unary(l, neg); }
static void exp_real(const ig_ref_launch *l) { unary(l, exp); }
static void log_real(const ig_ref_launch *l) { unary(l, log); }
static void sqrt_real(const ig_ref_launch *l) { unary(l, sqrt); }
static void tanh_real(const ig_ref_launch *l) { unary(l, tanh); }
static void sigmoid_real(const ig_ref_launch *l) { unary(l, sigmoid); }
static void relu_real(const ig_ref_launch *l) { unary(l, relu); }
static void silu_real(const ig_ref_launch *l) { unary(l, silu); }
static void softplus_real(const ig_ref_launch *l) { unary(l, softplus); }
static void positive_real(const ig_ref_launch *l) { unary(l, positive); }

static void gelu_real(const ig_ref_launch *l) {
    unary(l, l->attrs.gelu.form == IG_GELU_TANH ? gelu_tanh : gelu_erf);
}

static void gelu_grad_real(const ig_ref_launch *l) {
    binary(l, l->attrs.gelu.form == IG_GELU_TANH ? gelu_tanh_grad : gelu_erf_grad);
}

static void scale_real(const ig_ref_launch *l) {
    const ig_attrs_scale a = l->attrs.scale;
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) put(&l->out[0], i, a.scale * get(&l->in[0], i) + a.shift);
}

static void equal_i32(const ig_ref_launch *l) {
    const int64_t n = ig_shape_count(l->out[0].shape);
    const ig_ref_view *y = &l->out[0];
    for (int64_t i = 0; i < n; i++)
        ((int32_t *)y->at)[ig_ref_place(y, i)] = get_index(&l->in[0], i) == get_index(&l->in[1], i);
}

const ig_ref_entry IG_REF_LIST(elementwise)[] = {
    {IG_OP_ADD, IG_REF_DTYPE, "rr", "r", add_real},
    {IG_OP_SUB, IG_REF_DTYPE, "rr", "r", sub_real},
    {IG_OP_MUL, IG_REF_DTYPE, "rr", "r", mul_real},
    {IG_OP_DIV, IG_REF_DTYPE, "rr", "r", div_real},
    {IG_OP_EQUAL, IG_REF_DTYPE, "rr", "r", equal_real},
    {IG_OP_EQUAL, IG_REF_DTYPE, "ii", "i", equal_i32},
    {IG_OP_SCALE, IG_REF_DTYPE, "r", "r", scale_real},
    {IG_OP_NEG, IG_REF_DTYPE, "r", "r", neg_real},
    {IG_OP_EXP, IG_REF_DTYPE, "r", "r", exp_real},
    {IG_OP_LOG, IG_REF_DTYPE, "r", "r", log_real},
    {IG_OP_SQRT, IG_REF_DTYPE, "r", "r", sqrt_real},
    {IG_OP_TANH, IG_REF_DTYPE, "r", "r", tanh_real},
    {IG_OP_SIGMOID, IG_REF_DTYPE, "r", "r", sigmoid_real},
    {IG_OP_RELU, IG_REF_DTYPE, "r", "r", relu_real},
    {IG_OP_GELU, IG_REF_DTYPE, "r", "r", gelu_real},
    {IG_OP_SILU, IG_REF_DTYPE, "r", "r", silu_real},
    {IG_OP_SOFTPLUS, IG_REF_DTYPE, "r", "r", softplus_real},
    {IG_OP_POSITIVE, IG_REF_DTYPE, "r", "r", positive_real},
    {IG_OP_GELU_GRAD, IG_REF_DTYPE, "rr", "r", gelu_grad_real},
    {IG_OP_SILU_GRAD, IG_REF_DTYPE, "rr", "r", silu_grad_real},
    {0},
};
