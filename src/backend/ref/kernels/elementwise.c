/*
 * Elementwise: out[i] = f(in[0][i], in[1][i]). Binary operands arrive broadcast, with stride 0 in
 * broadcast dimensions, so both have the same shape.
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

static double add_of(double a, double b) { return a + b; }
static double sub_of(double a, double b) { return a - b; }
static double mul_of(double a, double b) { return a * b; }
static double div_of(double a, double b) { return a / b; }
static double equal_of(double a, double b) { return a == b; }
static double neg_of(double x) { return -x; }
static double positive_of(double x) { return x > 0; }
static double exp_of(double x) { return exp(x); }
static double log_of(double x) { return log(x); }
static double sqrt_of(double x) { return sqrt(x); }

/* log(1 + e^x) without overflow of e^x. */
static double softplus_of(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

/* y = x s, s = sigmoid_of(x), s' = s (1 - s)  =>  dx = dy s (1 + x (1 - s)) */
static double silu_grad_of(double x, double dy) {
    const double s = sigmoid_of(x);
    return dy * s * (1 + x * (1 - s));
}

/* y = x below(x); the derivative of below() is the normal density */
static double gelu_erf_grad_of(double x, double dy) {
    const double density = exp(-x * x / 2) / sqrt(2 * M_PI);
    return dy * (below(x) + x * density);
}

static double gelu_tanh_grad_of(double x, double dy) {
    const double t = gelu_inner(x), du = sqrt(2 / M_PI) * (1 + 3 * gelu_cubic * x * x);
    return dy / 2 * (1 + t + x * (1 - t * t) * du);
}

#define UNARY(name) \
    static void name##_real(const ig_ref_launch *l) { unary(l, name##_of); }
#define BINARY(name) \
    static void name##_real(const ig_ref_launch *l) { binary(l, name##_of); }
#define IG_FN1(ID, name, cost, low, high, epsilons)          UNARY(name)
#define IG_FN1_OF(ID, form, name, cost, low, high, epsilons) UNARY(name)
#define IG_FN2(ID, name, cost, epsilons)                     BINARY(name)
#define IG_SLOPE(ID, name, cost, epsilons)                   BINARY(name)
#define IG_SLOPE_OF(ID, form, name, cost, epsilons)          BINARY(name)
#include "ingot/function.def"

static void gelu_real(const ig_ref_launch *l) {
    (l->attrs.gelu.form == IG_GELU_TANH ? gelu_tanh_real : gelu_erf_real)(l);
}

static void gelu_grad_real(const ig_ref_launch *l) {
    (l->attrs.gelu.form == IG_GELU_TANH ? gelu_tanh_grad_real : gelu_erf_grad_real)(l);
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
#define IG_FN1(ID, name, cost, low, high, epsilons) \
    {IG_OP_##ID, IG_REF_DTYPE, "r", "r", name##_real},
#define IG_FN2(ID, name, cost, epsilons)   {IG_OP_##ID, IG_REF_DTYPE, "rr", "r", name##_real},
#define IG_SLOPE(ID, name, cost, epsilons) {IG_OP_##ID, IG_REF_DTYPE, "rr", "r", name##_real},
#include "ingot/function.def"
    {IG_OP_GELU, IG_REF_DTYPE, "r", "r", gelu_real},
    {IG_OP_GELU_GRAD, IG_REF_DTYPE, "rr", "r", gelu_grad_real},
    {IG_OP_EQUAL, IG_REF_DTYPE, "ii", "i", equal_i32},
    {IG_OP_SCALE, IG_REF_DTYPE, "r", "r", scale_real},
    {0},
};
