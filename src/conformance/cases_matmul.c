/*
 * Matmul: every combination of transposes, with and without bias; sizes around the kernels' block
 * sizes; batches on one side only.
 */
#include "conformance/cases.h"

#define LAYOUT(form, ...) .layout = form, SHAPE(__VA_ARGS__)

/* op(a) is [m, k], op(b) is [k, n] */
#define MATMUL(what, a, b, ta, tb) \
    CASE(IG_OP_MATMUL, what, IN(a, b), ATTRS(ig_attrs_matmul, .transpose_a = ta, .transpose_b = tb))
#define BIASED(what, a, b, bias, ta, tb)     \
    CASE(IG_OP_MATMUL, what, IN(a, b, bias), \
         ATTRS(ig_attrs_matmul, .transpose_a = ta, .transpose_b = tb))

/* With an activation, with and without bias. */
#define ACTIVATED(what, function)                                                         \
    CASE(IG_OP_MATMUL, what, IN(REAL(17, 33), REAL(33, 19)),                              \
         ATTRS(ig_attrs_matmul, .activation = function)),                                 \
        CASE(IG_OP_MATMUL, what ", bias", IN(REAL(130, 65), REAL(70, 65), REAL(70)),      \
             ATTRS(ig_attrs_matmul, .transpose_b = 1, .activation = function)),           \
        CASE(IG_OP_MATMUL, what ", a batch", IN(REAL(2, 3, 5, 7), REAL(7, 9), REAL(9)),   \
             ATTRS(ig_attrs_matmul, .activation = function)),                             \
        CASE(IG_OP_MATMUL, what ", sums of nothing", IN(REAL(5, 0), REAL(0, 7), REAL(7)), \
             ATTRS(ig_attrs_matmul, .activation = function))

#define SIZE(m, n, k)                                                                   \
    MATMUL(#m " x " #n " x " #k, REAL(m, k), REAL(k, n), 0, 0),                         \
        MATMUL(#m " x " #n " x " #k ", b transposed", REAL(m, k), REAL(n, k), 0, 1),    \
        MATMUL(#m " x " #n " x " #k ", a transposed", REAL(k, m), REAL(k, n), 1, 0),    \
        MATMUL(#m " x " #n " x " #k ", both transposed", REAL(k, m), REAL(n, k), 1, 1), \
        BIASED(#m " x " #n " x " #k ", bias", REAL(m, k), REAL(k, n), REAL(n), 0, 0),   \
        BIASED(#m " x " #n " x " #k ", b transposed, bias", REAL(m, k), REAL(n, k), REAL(n), 0, 1)

/* All transposes, without bias: for slow sizes. */
#define FORMS(m, n, k)                                                               \
    MATMUL(#m " x " #n " x " #k, REAL(m, k), REAL(k, n), 0, 0),                      \
        MATMUL(#m " x " #n " x " #k ", b transposed", REAL(m, k), REAL(n, k), 0, 1), \
        MATMUL(#m " x " #n " x " #k ", a transposed", REAL(k, m), REAL(k, n), 1, 0), \
        MATMUL(#m " x " #n " x " #k ", both transposed", REAL(k, m), REAL(n, k), 1, 1)

/* Longer sums than the tolerance allows for, so with smaller values. */
#define HALF(...) RANGE(-0.5, 0.5, __VA_ARGS__)

/* 16-bit operands with F32 accumulation. */
#define HALVES(what, a, b, type_a, type_b, ta, tb)                 \
    CASE(IG_OP_MATMUL, what ", " #type_a " x " #type_b,            \
         IN(OPERAND(DTYPE(type_a), a), OPERAND(DTYPE(type_b), b)), \
         ATTRS(ig_attrs_matmul, .transpose_a = ta, .transpose_b = tb))

#define HALF_SIZE(m, n, k, type_a, type_b)                                                         \
    HALVES(#m " x " #n " x " #k, SHAPE(m, k), SHAPE(k, n), type_a, type_b, 0, 0),                  \
        HALVES(#m " x " #n " x " #k ", b transposed", SHAPE(m, k), SHAPE(n, k), type_a, type_b, 0, \
               1),                                                                                 \
        HALVES(#m " x " #n " x " #k ", a transposed", SHAPE(k, m), SHAPE(k, n), type_a, type_b, 1, \
               0),                                                                                 \
        HALVES(#m " x " #n " x " #k ", both transposed", SHAPE(k, m), SHAPE(n, k), type_a, type_b, \
               1, 1),                                                                              \
        CASE(IG_OP_MATMUL, #m " x " #n " x " #k ", bias, silu, " #type_a " x " #type_b,            \
             IN(TYPED(type_a, m, k), TYPED(type_b, n, k), TYPED(IG_F32, n)),                       \
             ATTRS(ig_attrs_matmul, .transpose_b = 1, .activation = IG_ACTIVATION_SILU))

#define HALF_SIZES(type_a, type_b)                                                              \
    HALF_SIZE(1, 1, 1, type_a, type_b), HALF_SIZE(3, 5, 7, type_a, type_b),                     \
        HALF_SIZE(17, 33, 65, type_a, type_b), HALF_SIZE(1, 129, 64, type_a, type_b),           \
        HALF_SIZE(130, 70, 129, type_a, type_b), HALF_SIZE(8, 48, 600, type_a, type_b),         \
        HALF_SIZE(5, 7, 0, type_a, type_b), HALF_SIZE(0, 3, 4, type_a, type_b),                 \
        HALF_SIZE(100, 290, 150, type_a, type_b), HALF_SIZE(300, 100, 150, type_a, type_b),     \
        HALVES("a batch", SHAPE(2, 3, 5, 7), SHAPE(2, 3, 7, 9), type_a, type_b, 0, 0),          \
        HALVES("one matrix for all", SHAPE(2, 3, 5, 7), SHAPE(7, 9), type_a, type_b, 0, 0),     \
        HALVES("slices", LAYOUT(SLICED, 17, 33), LAYOUT(SLICED, 33, 19), type_a, type_b, 0, 0), \
        HALVES("every other one", LAYOUT(STRIDED, 17, 33), LAYOUT(STRIDED, 33, 19), type_a,     \
               type_b, 0, 0),                                                                   \
        HALVES("all lie transposed", LAYOUT(TRANSPOSED, 17, 33), LAYOUT(TRANSPOSED, 33, 19),    \
               type_a, type_b, 0, 0)

static const ig_case cases[] = {
    SIZE(1, 1, 1),
    SIZE(3, 5, 7),
    SIZE(2, 16, 32),
    SIZE(17, 33, 65),
    SIZE(64, 64, 64),
    SIZE(1, 129, 64),
    SIZE(4, 45, 61),
    SIZE(7, 80, 40),
    MATMUL("a row by a slice, transposed", REAL(1, 61), LAID(SLICED, 75, 61), 0, 1),
    MATMUL("rows of a slice by a slice, transposed", LAID(SLICED, 3, 61), LAID(SLICED, 75, 61), 0,
           1),
    SIZE(129, 1, 64),
    SIZE(130, 70, 129),
    SIZE(8, 48, 300),
    SIZE(5, 7, 0), /* K = 0: empty sums */
    SIZE(0, 3, 4),
    MATMUL("no rows, b transposed, larger", REAL(0, 16), REAL(40, 16), 0, 1),
    SIZE(4, 0, 3),

    MATMUL("a batch", REAL(2, 3, 5, 7), REAL(2, 3, 7, 9), 0, 0),
    MATMUL("a batch, b transposed", REAL(2, 3, 5, 7), REAL(2, 3, 9, 7), 0, 1),
    MATMUL("a batch, a transposed", REAL(2, 3, 7, 5), REAL(2, 3, 7, 9), 1, 0),
    MATMUL("a batch of nothing", REAL(0, 5, 7), REAL(0, 7, 9), 0, 0),
    MATMUL("one matrix for all", REAL(6, 5, 7), REAL(7, 9), 0, 0),
    MATMUL("one matrix for all, transposed", REAL(2, 3, 5, 7), REAL(9, 7), 0, 1),
    MATMUL("one matrix for all of a transposed batch", REAL(2, 3, 7, 5), REAL(7, 9), 1, 0),
    BIASED("one matrix for all, bias", REAL(2, 3, 5, 7), REAL(7, 9), REAL(9), 0, 0),
    MATMUL("one on the left for all", REAL(5, 7), REAL(2, 3, 7, 9), 0, 0),
    MATMUL("the outer dimension of b repeats", REAL(2, 3, 5, 7), REPEATED(1, 2, 3, 7, 9), 0, 0),
    MATMUL("the inner dimension of b repeats", REAL(2, 3, 5, 7), REPEATED(2, 2, 3, 9, 7), 0, 1),
    MATMUL("a repeats", REPEATED(1, 4, 5, 7), REAL(4, 7, 9), 0, 0),
    MATMUL("each repeats another", REPEATED(1, 2, 3, 5, 7), REPEATED(2, 2, 3, 7, 9), 0, 0),
    MATMUL("a large batch", REAL(40, 17, 33), REAL(40, 33, 19), 0, 0),

    MATMUL("sums over samples, in parts", REAL(700, 19), REAL(700, 33), 1, 0),
    MATMUL("many rows, a small b", REAL(100, 19), REAL(33, 19), 0, 1),
    MATMUL("a lies transposed", LAID(TRANSPOSED, 17, 33), REAL(33, 19), 0, 0),
    MATMUL("b lies transposed", REAL(17, 33), LAID(TRANSPOSED, 33, 19), 0, 0),
    MATMUL("b lies transposed and is", REAL(17, 33), LAID(TRANSPOSED, 19, 33), 0, 1),
    MATMUL("slices", LAID(SLICED, 17, 33), LAID(SLICED, 33, 19), 0, 0),
    MATMUL("slices of batches", LAID(SLICED, 3, 17, 33), LAID(SLICED, 3, 19, 33), 0, 1),
    BIASED("every other one", LAID(STRIDED, 17, 33), LAID(STRIDED, 33, 19), LAID(STRIDED, 19), 0,
           0),
    MATMUL("heads first", LAID(HEADS_FIRST, 2, 3, 5, 7), LAID(HEADS_FIRST, 2, 3, 7, 9), 0, 0),
    MATMUL("one row for all of a", REPEATED(1, 5, 7), REAL(7, 9), 0, 0),
    BIASED("one number for all", REPEATED(3, 5, 7), REPEATED(3, 7, 9), REPEATED(1, 9), 0, 0),

    ACTIVATED("relu", IG_ACTIVATION_RELU),
    ACTIVATED("tanh", IG_ACTIVATION_TANH),
    ACTIVATED("sigmoid", IG_ACTIVATION_SIGMOID),
    ACTIVATED("silu", IG_ACTIVATION_SILU),
    ACTIVATED("gelu", IG_ACTIVATION_GELU_ERF),
    ACTIVATED("approximate gelu", IG_ACTIVATION_GELU_TANH),

    /* large enough for GPU tiles: with odd and with aligned sizes */
    FORMS(515, 517, 33),
    FORMS(520, 520, 40),
    FORMS(1416, 1400, 24),
    MATMUL("a batch of tiles", REAL(20, 130, 40), REAL(20, 40, 72), 0, 0),
    MATMUL("a batch of tiles, b transposed", REAL(20, 130, 40), REAL(20, 70, 40), 0, 1),
    MATMUL("a batch of tiles, a transposed", REAL(4, 5, 40, 136), REAL(4, 5, 40, 70), 1, 0),
    MATMUL("a large product of slices", LAID(SLICED, 600, 40), LAID(SLICED, 520, 40), 0, 1),
    MATMUL("in parts", HALF(400, 600), HALF(600, 300), 0, 0),
    MATMUL("in parts, b transposed", HALF(400, 600), HALF(300, 600), 0, 1),
    MATMUL("in parts, a transposed", HALF(600, 400), HALF(600, 300), 1, 0),
    BIASED("in parts, bias", HALF(400, 600), HALF(300, 600), REAL(300), 0, 1),
    /* K large enough for cooperative matrices */
    CASE(IG_OP_MATMUL, "in parts, f32 x f16",
         IN(OPERAND(DTYPE(IG_F32), BETWEEN(-0.5, 0.5), SHAPE(400, 640)),
            OPERAND(DTYPE(IG_F16), BETWEEN(-0.5, 0.5), SHAPE(300, 640))),
         ATTRS(ig_attrs_matmul, .transpose_b = 1)),
    MATMUL("300 x 270 x 200, b transposed", REAL(300, 200), REAL(270, 200), 0, 1),
    HALVES("300 x 270 x 192, b transposed", SHAPE(300, 192), SHAPE(270, 192), IG_F32, IG_F16, 0, 1),
    HALVES("300 x 270 x 165, b transposed", SHAPE(300, 165), SHAPE(270, 165), IG_F32, IG_F16, 0, 1),
    HALVES("300 x 270 x 165, b transposed", SHAPE(300, 165), SHAPE(270, 165), IG_F32, IG_BF16, 0,
           1),
    CASE(IG_OP_MATMUL, "numbers that no half can hold, f32 x f16",
         IN(OPERAND(DTYPE(IG_F32), BETWEEN(1e5, 1e9), SHAPE(60, 192)),
            OPERAND(DTYPE(IG_F16), BETWEEN(0.25, 1), SHAPE(270, 192))),
         ATTRS(ig_attrs_matmul, .transpose_b = 1)),
    CASE(IG_OP_MATMUL, "gelu and bias of a large product",
         IN(REAL(530, 40), REAL(40, 540), REAL(540)),
         ATTRS(ig_attrs_matmul, .activation = IG_ACTIVATION_GELU_TANH)),

    MATMUL("a weight", REAL(5, 33), WEIGHT(33, 19), 0, 0),
    BIASED("a weight, transposed, bias", REAL(3, 5, 33), WEIGHT(19, 33), WEIGHT(19), 0, 1),
    MATMUL("one row by a weight", REAL(1, 40), WEIGHT(40, 48), 0, 0),
    BIASED("eight rows by a weight, transposed, bias", REAL(8, 33), WEIGHT(19, 33), WEIGHT(19), 0,
           1),

    CASE(IG_OP_MATMUL, "residual", IN(REAL(17, 33), REAL(33, 19), REAL(17, 19)),
         ATTRS(ig_attrs_matmul, .residual = 1)),
    CASE(IG_OP_MATMUL, "bias, silu and residual",
         IN(REAL(2, 65, 33), REAL(70, 33), REAL(70), REAL(2, 65, 70)),
         ATTRS(ig_attrs_matmul, .transpose_b = 1, .activation = IG_ACTIVATION_SILU, .residual = 1)),
    CASE(IG_OP_MATMUL, "residual of a large product",
         IN(REAL(300, 270), REAL(270, 100), REAL(300, 100)), ATTRS(ig_attrs_matmul, .residual = 1)),
    CASE(IG_OP_MATMUL, "residual of a product in parts",
         IN(HALF(128, 2048), HALF(2048, 256), REAL(128, 256)),
         ATTRS(ig_attrs_matmul, .residual = 1)),
    CASE(IG_OP_MATMUL, "residual in f16",
         IN(TYPED(IG_BF16, 9, 33), TYPED(IG_BF16, 40, 33), TYPED(IG_F32, 9, 40)),
         ATTRS(ig_attrs_matmul, .transpose_b = 1, .residual = 1)),
    CASE(IG_OP_MATMUL, "residual of sums of nothing", IN(REAL(5, 0), REAL(0, 7), REAL(5, 7)),
         ATTRS(ig_attrs_matmul, .residual = 1)),

    HALF_SIZES(IG_BF16, IG_BF16),
    HALF_SIZES(IG_F32, IG_BF16),
    HALF_SIZES(IG_BF16, IG_F32),
    HALF_SIZES(IG_F16, IG_F16),
    HALF_SIZES(IG_F16, IG_BF16),
};

/* ---- tolerances ---- */

static const case_tolerance tolerances[] = {
    {IG_OP_MATMUL, 256, "300 products of up to 4 in one chain: partial sums of about 30"},
};

/* ---- gradients ---- */

#define P(i) in->p[i]

static ig_tensor *grad_matmul(const grad_inputs *in) { return ig_matmul(P(0), P(1)); }
static ig_tensor *grad_matmul_nt(const grad_inputs *in) {
    return ig_matmul_with(P(0), P(1), (ig_matmul_options){.transpose_b = true});
}
static ig_tensor *grad_matmul_tn(const grad_inputs *in) {
    return ig_matmul_with(P(0), P(1), (ig_matmul_options){.transpose_a = true});
}
static ig_tensor *grad_matmul_tt(const grad_inputs *in) {
    return ig_matmul_with(P(0), P(1),
                          (ig_matmul_options){.transpose_a = true, .transpose_b = true});
}
static ig_tensor *grad_linear(const grad_inputs *in) {
    return ig_matmul_with(P(0), P(1), (ig_matmul_options){.transpose_b = true, .bias = P(2)});
}
static ig_tensor *grad_linear_tt(const grad_inputs *in) {
    return ig_matmul_with(
        P(0), P(1), (ig_matmul_options){.transpose_a = true, .transpose_b = true, .bias = P(2)});
}
static ig_tensor *grad_matmul_of_views(const grad_inputs *in) {
    return ig_matmul(ig_transpose(P(0), -1, -2), ig_slice(P(1), 0, 1, 4));
}
static ig_tensor *grad_square(const grad_inputs *in) {
    return ig_matmul(P(0), ig_transpose(P(0), 0, 1));
}

static const grad_case grads[] = {
    GRAD(IG_OP_MATMUL, "two matrices", grad_matmul, PARAM(2, 3), PARAM(3, 4)),
    GRAD(IG_OP_MATMUL, "b transposed", grad_matmul_nt, PARAM(2, 3), PARAM(4, 3)),
    GRAD(IG_OP_MATMUL, "a transposed", grad_matmul_tn, PARAM(3, 2), PARAM(3, 4)),
    GRAD(IG_OP_MATMUL, "both transposed", grad_matmul_tt, PARAM(3, 2), PARAM(4, 3)),
    GRAD(IG_OP_MATMUL, "a batch", grad_matmul, PARAM(2, 2, 3), PARAM(2, 3, 2)),
    GRAD(IG_OP_MATMUL, "a batch, both transposed", grad_matmul_tt, PARAM(2, 3, 2), PARAM(2, 4, 3)),
    GRAD(IG_OP_MATMUL, "one matrix for all", grad_matmul, PARAM(2, 2, 3), PARAM(3, 2)),
    GRAD(IG_OP_MATMUL, "one matrix for all, transposed", grad_matmul_nt, PARAM(2, 2, 3),
         PARAM(2, 3)),
    GRAD(IG_OP_MATMUL, "one for all, a transposed", grad_matmul_tn, PARAM(2, 3, 2), PARAM(3, 2)),
    GRAD(IG_OP_MATMUL, "one for all, both transposed", grad_matmul_tt, PARAM(2, 3, 2), PARAM(2, 3)),
    GRAD(IG_OP_MATMUL, "one on the left for all", grad_matmul, PARAM(2, 3), PARAM(2, 3, 2)),
    GRAD(IG_OP_MATMUL, "both broadcast", grad_matmul, PARAM(2, 1, 2, 3), PARAM(3, 3, 2)),
    GRAD(IG_OP_MATMUL, "both broadcast, a transposed", grad_matmul_tn, PARAM(2, 1, 3, 2),
         PARAM(3, 3, 2)),
    GRAD(IG_OP_MATMUL, "bias", grad_linear, PARAM(2, 2, 3), PARAM(4, 3), PARAM(4)),
    GRAD(IG_OP_MATMUL, "bias, both transposed", grad_linear_tt, PARAM(3, 2), PARAM(4, 3), PARAM(4)),
    GRAD(IG_OP_MATMUL, "of views", grad_matmul_of_views, PARAM(2, 3, 2), PARAM(5, 2)),
    GRAD(IG_OP_MATMUL, "by itself, transposed", grad_square, PARAM(3, 2)),
};

const case_table cases_matmul = {CASES(cases), TOLERANCES(tolerances), GRADS(grads)};
