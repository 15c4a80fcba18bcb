/* Elementwise ops: odd tails, one element, none, many; every layout; every broadcast. */
#include "conformance/cases.h"

/* Edge values of floats. Their count is odd, so that two lists of different lengths pair every
 * value with every other. */
static const double edges[] = {
    0.0,
    -0.0,
    1,
    -1,
    (double)INFINITY,
    -(double)INFINITY,
    (double)NAN,
    1e-40,
    -1e-40,
    1e30,
    -1e30,
    0.5,
    -0.5,
    20,
    -20,
    88,
    -88,
};
static const double few[] = {2, -3, 0.0, (double)INFINITY, (double)NAN, -1e30, 1e-40};
static const double roots[] = {0.0, 1, (double)INFINITY, (double)NAN, -1, 1e-40, 1e30, 4};

#define UNARY(op, least, most, ...)                                                                \
    CASE(op, "an odd tail", IN(RANGE(least, most, 3, 37)), __VA_ARGS__),                           \
        CASE(op, "many", IN(RANGE(least, most, 300, 129)), __VA_ARGS__),                           \
        CASE(op, "one", IN(RANGE(least, most, 1)), __VA_ARGS__),                                   \
        CASE(op, "a scalar", IN(OPERAND(BETWEEN(least, most))), __VA_ARGS__),                      \
        CASE(op, "none", IN(REAL(0, 5)), __VA_ARGS__),                                             \
        CASE(op, "transposed",                                                                     \
             IN(OPERAND(BETWEEN(least, most), .layout = TRANSPOSED, SHAPE(33, 17))), __VA_ARGS__), \
        CASE(op, "a slice", IN(OPERAND(BETWEEN(least, most), .layout = SLICED, SHAPE(5, 7, 19))),  \
             __VA_ARGS__),                                                                         \
        CASE(op, "every other one",                                                                \
             IN(OPERAND(BETWEEN(least, most), .layout = STRIDED, SHAPE(9, 21))), __VA_ARGS__),     \
        CASE(op, "six dimensions, the other way round",                                            \
             IN(OPERAND(BETWEEN(least, most), .layout = COLUMN_MAJOR, SHAPE(2, 1, 3, 2, 1, 5))),   \
             __VA_ARGS__),                                                                         \
        CASE(op, "one for all", IN(OPERAND(BETWEEN(least, most), .repeat = 3, SHAPE(7, 33))),      \
             __VA_ARGS__),                                                                         \
        CASE(op, "one row for all", IN(OPERAND(BETWEEN(least, most), .repeat = 1, SHAPE(7, 33))),  \
             __VA_ARGS__)

#define BINARY(op)                                                                               \
    CASE(op, "an odd tail", IN(REAL(3, 37), REAL(3, 37))),                                       \
        CASE(op, "many", IN(REAL(300, 129), REAL(300, 129))),                                    \
        CASE(op, "one", IN(REAL(1, 1), REAL(1, 1))), CASE(op, "scalars", IN(SCALAR, SCALAR)),    \
        CASE(op, "none", IN(REAL(0, 5), REAL(0, 5))),                                            \
        CASE(op, "none, repeated", IN(REAL(4, 0), REPEATED(1, 4, 0))),                           \
        CASE(op, "one row for all", IN(REAL(300, 129), REPEATED(1, 300, 129))),                  \
        CASE(op, "one row for all, first", IN(REPEATED(1, 30, 33), REAL(30, 33))),               \
        CASE(op, "one column for all", IN(REAL(31, 65), REPEATED(2, 31, 65))),                   \
        CASE(op, "one number for all", IN(REAL(31, 65), REPEATED(3, 31, 65))),                   \
        CASE(op, "a row and a column", IN(REPEATED(1, 31, 65), REPEATED(2, 31, 65))),            \
        CASE(op, "the middle repeats", IN(REAL(5, 7, 19), REPEATED(2, 5, 7, 19))),               \
        CASE(op, "transposed, and a slice", IN(LAID(TRANSPOSED, 33, 17), LAID(SLICED, 33, 17))), \
        CASE(op, "every other one", IN(LAID(STRIDED, 9, 21), LAID(STRIDED, 9, 21))),             \
        CASE(op, "six dimensions",                                                               \
             IN(LAID(COLUMN_MAJOR, 2, 1, 3, 2, 1, 5), REAL(2, 1, 3, 2, 1, 5))),                  \
        CASE(op, "edges", IN(LISTED(edges, 7, 17), LISTED(few, 7, 17)))

#define GRADIENT(op, ...)                                                                       \
    CASE(op, "an odd tail", IN(RANGE(-6, 6, 3, 37), REAL(3, 37)), __VA_ARGS__),                 \
        CASE(op, "many", IN(RANGE(-6, 6, 300, 129), REAL(300, 129)), __VA_ARGS__),              \
        CASE(op, "scalars", IN(SCALAR, SCALAR), __VA_ARGS__),                                   \
        CASE(op, "none", IN(REAL(0, 5), REAL(0, 5)), __VA_ARGS__),                              \
        CASE(op, "transposed, and a slice", IN(LAID(TRANSPOSED, 33, 17), LAID(SLICED, 33, 17)), \
             __VA_ARGS__),                                                                      \
        CASE(op, "one slope for all", IN(REAL(31, 65), REPEATED(3, 31, 65)), __VA_ARGS__),      \
        CASE(op, "far out", IN(RANGE(-50, 50, 9, 33), REAL(9, 33)), __VA_ARGS__)

#define FILLED(what, dtype, value) CASE(IG_OP_FILL, what, ATTRS(ig_attrs_fill, value, dtype, 0))

/* Step and seed of dropout. */
static const ig_slot first_step[] = {{.i = 0}}, late_step[] = {{.i = 5}, {.i = 123456789012}};
#define DROPOUT(what, operand, p, ordinal, slot, slots)                                         \
    CASE(IG_OP_DROPOUT, what, IN(operand), ATTRS(ig_attrs_dropout, p, {17, 42}, ordinal, slot), \
         SLOTS(slots))

static const ig_case cases[] = {
#define EDGES(ID, ...) CASE(IG_OP_##ID, "edges", IN(LISTED(edges, 7, 17)), __VA_ARGS__)
#define FORM(form)     ATTRS(ig_attrs_gelu, IG_GELU_##form)
#define IG_FN1(ID, name, cost, low, high, epsilons) \
    UNARY(IG_OP_##ID, low, high, NO_ATTRS), EDGES(ID, NO_ATTRS),
#define IG_FN1_OF(ID, form, name, cost, low, high, epsilons) \
    UNARY(IG_OP_##ID, low, high, FORM(form)), EDGES(ID, FORM(form)),
#define IG_FN2(ID, name, cost, epsilons)            BINARY(IG_OP_##ID),
#define IG_SLOPE(ID, name, cost, epsilons)          GRADIENT(IG_OP_##ID, NO_ATTRS),
#define IG_SLOPE_OF(ID, form, name, cost, epsilons) GRADIENT(IG_OP_##ID, FORM(form)),
#include "ingot/function.def"
    CASE(IG_OP_EQUAL, "many are", IN(WHOLES(0, 2, 19, 33), WHOLES(0, 2, 19, 33))),
    CASE(IG_OP_EQUAL, "integers", IN(INDEX(0, 2, 19, 33), INDEX(0, 2, 19, 33))),
    CASE(IG_OP_EQUAL, "no integers", IN(INDEX(0, 2, 0), INDEX(0, 2, 0))),
    CASE(IG_OP_LOG, "roots", IN(LISTED(roots, 7, 17))),
    CASE(IG_OP_LOG, "near 1", IN(RANGE(0.9, 1.1, 9, 33))),
    CASE(IG_OP_SQRT, "roots", IN(LISTED(roots, 7, 17))),
    CASE(IG_OP_TANH, "near 0", IN(RANGE(-1e-3, 1e-3, 9, 33))),
    UNARY(IG_OP_SCALE, -2, 2, ATTRS(ig_attrs_scale, -1.5, 0.25)),
    CASE(IG_OP_SCALE, "by what no float holds", IN(REAL(7, 33)), ATTRS(ig_attrs_scale, 0.1, 1e-3)),
    CASE(IG_OP_SCALE, "edges", IN(LISTED(edges, 7, 17)), ATTRS(ig_attrs_scale, 2, 0)),

    FILLED("a fraction", IG_F32, 0.1),
    FILLED("NaN", IG_F32, (double)NAN),
    FILLED("a fraction", IG_F64, 0.1),
    FILLED("a fraction", IG_F16, 0.1),
    FILLED("too much", IG_F16, 1e6),
    FILLED("a fraction", IG_BF16, 0.1),
    FILLED("a negative fraction", IG_I32, -2.7),
    FILLED("too much", IG_I32, 1e10),

    DROPOUT("none dropped", REAL(3, 37), 0, 0, 0, first_step),
    DROPOUT("half dropped", REAL(3, 37), 0.5f, 0, 0, first_step),
    DROPOUT("another op of the step", REAL(3, 37), 0.5f, 3, 0, first_step),
    DROPOUT("a late step", REAL(300, 129), 0.1f, 1, 1, late_step),
    DROPOUT("all dropped", REAL(3, 37), 1, 0, 0, first_step),
    DROPOUT("edges", LISTED(edges, 7, 17), 0.5f, 0, 0, first_step),
    DROPOUT("no elements", REAL(0, 5), 0.5f, 0, 0, first_step),
    DROPOUT("a scalar", SCALAR, 0.5f, 0, 0, first_step),
    DROPOUT("transposed", LAID(TRANSPOSED, 33, 17), 0.3f, 0, 0, first_step),
    DROPOUT("a slice", LAID(SLICED, 5, 7, 19), 0.3f, 0, 0, first_step),
    DROPOUT("one for all", REPEATED(3, 7, 33), 0.3f, 0, 0, first_step),
};

/* ---- tolerances ---- */

static const char once[] = "one operation, which IEEE 754 rounds correctly";
static const char function[] = "a few polynomials and products of vector kernels in a row";
static const char moved[] = "elements are moved or chosen, not computed";
static const char twice[] = "a product and a sum or two, each rounded";
static const case_tolerance tolerances[] = {
#define ROW(ID, epsilons)                                    {IG_OP_##ID, epsilons, (epsilons) > 0 ? function : once},
#define IG_FN1(ID, name, cost, low, high, epsilons)          ROW(ID, epsilons)
#define IG_FN1_OF(ID, form, name, cost, low, high, epsilons) ROW(ID, epsilons)
#define IG_FN2(ID, name, cost, epsilons)                     ROW(ID, epsilons)
#define IG_SLOPE(ID, name, cost, epsilons)                   ROW(ID, epsilons)
#define IG_SLOPE_OF(ID, form, name, cost, epsilons)          ROW(ID, epsilons)
#include "ingot/function.def"
    {IG_OP_SCALE, 2, twice},
    {IG_OP_FILL, 0, moved},
    {IG_OP_DROPOUT, 2, twice},
};

/* ---- gradients ---- */

#define P(i) in->p[i]

#define IG_FN1(ID, name, cost, low, high, epsilons) \
    static ig_tensor *grad_##name(const grad_inputs *in) { return ig_##name(P(0)); }
#include "ingot/function.def"

static ig_tensor *grad_add(const grad_inputs *in) { return ig_add(P(0), P(1)); }
static ig_tensor *grad_sub(const grad_inputs *in) { return ig_sub(P(0), P(1)); }
static ig_tensor *grad_mul(const grad_inputs *in) { return ig_mul(P(0), P(1)); }
static ig_tensor *grad_divide(const grad_inputs *in) { return ig_div(P(0), P(1)); }
static ig_tensor *grad_scale(const grad_inputs *in) { return ig_scale(P(0), -1.5, 0.25); }
static ig_tensor *grad_gelu_erf(const grad_inputs *in) { return ig_gelu(P(0), IG_GELU_ERF); }
static ig_tensor *grad_gelu_tanh(const grad_inputs *in) { return ig_gelu(P(0), IG_GELU_TANH); }
static ig_tensor *grad_dropout(const grad_inputs *in) { return ig_dropout(P(0), 0.4); }
/* The same element gets an independent dropout mask in each. */
static ig_tensor *grad_dropout_twice(const grad_inputs *in) {
    return ig_mul(ig_dropout(P(0), 0.4), ig_dropout(ig_exp(P(0)), 0.3));
}
static ig_tensor *grad_used_twice(const grad_inputs *in) {
    return ig_add(ig_mul(P(0), P(0)), ig_exp(P(0)));
}

static const grad_case grads[] = {
/* Functions defined only for positive values are tested away from 0. */
#define IG_FN1(ID, name, cost, low, high, epsilons) \
    GRAD(IG_OP_##ID, "plain", grad_##name, PARAM_IN((low) < 0 ? 0 : 0.5, (low) < 0 ? 0 : 3, 3, 5)),
#include "ingot/function.def"
    GRAD(IG_OP_ADD, "alike", grad_add, PARAM(2, 3), PARAM(2, 3)),
    GRAD(IG_OP_ADD, "a row", grad_add, PARAM(2, 3), PARAM(3)),
    GRAD(IG_OP_ADD, "both broadcast", grad_add, PARAM(2, 1, 3), PARAM(4, 1)),
    GRAD(IG_OP_ADD, "a scalar", grad_add, PARAM(2, 3), SCALAR_PARAM),
    GRAD(IG_OP_SUB, "a row on the left", grad_sub, PARAM(3), PARAM(2, 3)),
    GRAD(IG_OP_SUB, "a column", grad_sub, PARAM(2, 3), PARAM(2, 1)),
    GRAD(IG_OP_MUL, "a column", grad_mul, PARAM(2, 3), PARAM(2, 1)),
    GRAD(IG_OP_MUL, "both broadcast", grad_mul, PARAM(2, 1, 3), PARAM(4, 1)),
    GRAD(IG_OP_DIV, "a row below", grad_divide, PARAM(2, 3), PARAM_IN(1, 2, 3)),
    GRAD(IG_OP_DIV, "a column above", grad_divide, PARAM(2, 1), PARAM_IN(-2, -1, 2, 3)),
    GRAD(IG_OP_SCALE, "and shift", grad_scale, PARAM(2, 3)),
    GRAD(IG_OP_GELU, "exact", grad_gelu_erf, PARAM(3, 5)),
    GRAD(IG_OP_GELU, "approximate", grad_gelu_tanh, PARAM(3, 5)),
    GRAD(IG_OP_DROPOUT, "the same elements", grad_dropout, PARAM(4, 5)),
    GRAD(IG_OP_DROPOUT, "two in a step", grad_dropout_twice, PARAM(4, 5)),
    GRAD(IG_OP_MUL, "a tensor used twice", grad_used_twice, PARAM(2, 3)),
};

const case_table cases_elementwise = {CASES(cases), TOLERANCES(tolerances), GRADS(grads)};
