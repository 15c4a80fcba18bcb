/* Reductions: every set of axes, empty dimensions, NaN and ties. */
#include "conformance/cases.h"

static const double with_nan[] = {1, 2, (double)NAN, -1, 0.5};
static const double infinite[] = {-(double)INFINITY, -(double)INFINITY, 3, -(double)INFINITY};

#define REDUCE(op, what, operand, axes, keep) \
    CASE(op, what, IN(operand), ATTRS(ig_attrs_reduce, axes, keep))
#define REDUCTION(op)                                                                              \
    REDUCE(op, "the last", REAL(7, 37), 2, 0), REDUCE(op, "the last, kept", REAL(7, 37), 2, 1),    \
        REDUCE(op, "the first", REAL(7, 37), 1, 0),                                                \
        REDUCE(op, "the first, many", REAL(300, 129), 1, 0),                                       \
        REDUCE(op, "the first, in parts", REAL(700, 37), 1, 0),                                    \
        REDUCE(op, "the outer two, in parts", LAID(SLICED, 90, 60, 5), 3, 0),                      \
        REDUCE(op, "the last, many", REAL(300, 129), 2, 0),                                        \
        REDUCE(op, "all of many", REAL(300, 129), 3, 0),                                           \
        REDUCE(op, "all, kept", REAL(7, 37), 3, 1), REDUCE(op, "the middle", REAL(3, 7, 5), 2, 0), \
        REDUCE(op, "the outer two", REAL(3, 7, 5), 3, 1),                                          \
        REDUCE(op, "first and last", REAL(3, 7, 5), 5, 0),                                         \
        REDUCE(op, "none of them", REAL(3, 7), 0, 0), REDUCE(op, "a scalar", SCALAR, 0, 0),        \
        REDUCE(op, "one", REAL(1), 1, 0), REDUCE(op, "rows of nothing", REAL(3, 0), 2, 0),         \
        REDUCE(op, "all of nothing", REAL(3, 0), 3, 0),                                            \
        REDUCE(op, "nothing to write", REAL(0, 5), 2, 0),                                          \
        REDUCE(op, "transposed", LAID(TRANSPOSED, 17, 33), 2, 0),                                  \
        REDUCE(op, "transposed, the first", LAID(TRANSPOSED, 17, 33), 1, 0),                       \
        REDUCE(op, "a slice", LAID(SLICED, 5, 7, 19), 4, 0),                                       \
        REDUCE(op, "every other one", LAID(STRIDED, 9, 21), 2, 0),                                 \
        REDUCE(op, "one for all", REPEATED(3, 7, 33), 2, 0),                                       \
        REDUCE(op, "one row for all", REPEATED(1, 7, 33), 1, 0),                                   \
        REDUCE(op, "six dimensions", LAID(COLUMN_MAJOR, 2, 3, 1, 2, 4, 5), 0x2a, 0),               \
        REDUCE(op, "with NaN", LISTED(with_nan, 4, 7), 2, 0),                                      \
        REDUCE(op, "with NaN, the first", LISTED(with_nan, 4, 33), 1, 0),                          \
        REDUCE(op, "infinities", LISTED(infinite, 5, 3), 2, 0)

#define ARGMAX(what, operand, axis) \
    CASE(IG_OP_ARGMAX, what, IN(operand), ATTRS(ig_attrs_axis, axis))

static const ig_case cases[] = {
    REDUCTION(IG_OP_SUM),
    REDUCTION(IG_OP_MEAN),
    REDUCTION(IG_OP_MAX),

    ARGMAX("the last", REAL(7, 37), 1),
    ARGMAX("the first", REAL(7, 37), 0),
    ARGMAX("the middle", REAL(3, 7, 5), 1),
    ARGMAX("a vector", REAL(33), 0),
    ARGMAX("one", REAL(4, 1), 1),
    ARGMAX("nothing to write", REAL(0, 5), 1),
    ARGMAX("ties: the first one", WHOLES(0, 3, 40, 33), 1),
    ARGMAX("ties: the first row", WHOLES(0, 3, 40, 33), 0),
    ARGMAX("many", REAL(300, 129), 1),
    ARGMAX("transposed", LAID(TRANSPOSED, 17, 33), 1),
    ARGMAX("a slice", LAID(SLICED, 5, 7, 19), 2),
    ARGMAX("one for all", REPEATED(3, 5, 9), 1),
    ARGMAX("NaN is the largest", LISTED(with_nan, 4, 7), 1),
    ARGMAX("infinities", LISTED(infinite, 5, 3), 1),

    CASE(IG_OP_MSE, "an odd tail", IN(REAL(3, 37), REAL(3, 37))),
    CASE(IG_OP_MSE, "many", IN(REAL(300, 129), REAL(300, 129))),
    CASE(IG_OP_MSE, "scalars", IN(SCALAR, SCALAR)),
    CASE(IG_OP_MSE, "nothing", IN(REAL(0, 5), REAL(0, 5))),
    CASE(IG_OP_MSE, "layouts", IN(LAID(TRANSPOSED, 17, 33), LAID(SLICED, 17, 33))),
    CASE(IG_OP_MSE, "squares that no float holds",
         IN(RANGE(-2e19, 2e19, 7, 37), RANGE(-1e19, 1e19, 7, 37))),
    CASE(IG_OP_MSE, "many such squares",
         IN(RANGE(-2e19, 2e19, 300, 129), RANGE(-1e19, 1e19, 300, 129))),
    CASE(IG_OP_MSE, "one for all", IN(REAL(5, 7), REPEATED(3, 5, 7))),

    CASE(IG_OP_GLOBAL_NORM, "one", IN(REAL(7, 37))),
    CASE(IG_OP_GLOBAL_NORM, "three", IN(REAL(7, 37), REAL(5), SCALAR)),
    CASE(IG_OP_GLOBAL_NORM, "many", IN(REAL(300, 129), REAL(129))),
    CASE(IG_OP_GLOBAL_NORM, "squares that no float holds",
         IN(RANGE(-1e37, 1e37, 7, 37), RANGE(-1e30, 1e30, 3), REAL(5))),
    CASE(IG_OP_GLOBAL_NORM, "many such squares", IN(RANGE(-1e35, 1e35, 300, 129), REAL(129))),
    CASE(IG_OP_GLOBAL_NORM, "one of nothing", IN(REAL(0), REAL(5))),
    CASE(IG_OP_GLOBAL_NORM, "nothing", IN(REAL(0, 3))),
    CASE(IG_OP_GLOBAL_NORM, "layouts",
         IN(LAID(TRANSPOSED, 7, 9), LAID(SLICED, 3, 5), LAID(STRIDED, 9))),
};

/* ---- tolerances ---- */

static const char moved[] = "elements are moved or chosen, not computed";
static const char sum[] = "some hundred terms of the order of 1, summed in any order";
static const case_tolerance tolerances[] = {
    {IG_OP_SUM, 64, sum},     {IG_OP_MEAN, 16, sum}, {IG_OP_MAX, 0, moved},
    {IG_OP_ARGMAX, 0, moved}, {IG_OP_MSE, 16, sum},  {IG_OP_GLOBAL_NORM, 16, sum},
};

/* ---- gradients ---- */

#define P(i) in->p[i]

static ig_tensor *grad_sum_all(const grad_inputs *in) {
    return ig_exp(ig_sum(P(0), NULL, 0, IG_DROP_DIM));
}
static ig_tensor *grad_sum_some(const grad_inputs *in) {
    return ig_exp(ig_sum(P(0), (const int[]){0, -1}, 2, IG_DROP_DIM));
}
static ig_tensor *grad_sum_kept(const grad_inputs *in) {
    return ig_exp(ig_sum(P(0), (const int[]){1}, 1, IG_KEEP_DIM));
}
static ig_tensor *grad_mean_some(const grad_inputs *in) {
    return ig_exp(ig_mean(P(0), (const int[]){1}, 1, IG_DROP_DIM));
}
static ig_tensor *grad_mean_all(const grad_inputs *in) {
    return ig_exp(ig_mean(P(0), NULL, 0, IG_KEEP_DIM));
}
static ig_tensor *grad_max_last(const grad_inputs *in) {
    return ig_exp(ig_max(P(0), (const int[]){-1}, 1, IG_DROP_DIM));
}
static ig_tensor *grad_max_some(const grad_inputs *in) {
    return ig_exp(ig_max(P(0), (const int[]){0, 2}, 2, IG_KEEP_DIM));
}
static ig_tensor *grad_mse(const grad_inputs *in) { return ig_mse(P(0), P(1)); }

static const grad_case grads[] = {
    GRAD(IG_OP_SUM, "all", grad_sum_all, PARAM_IN(-0.5, 0.5, 2, 3)),
    GRAD(IG_OP_SUM, "first and last", grad_sum_some, PARAM(2, 3, 2)),
    GRAD(IG_OP_SUM, "kept", grad_sum_kept, PARAM(2, 3, 2)),
    GRAD(IG_OP_MEAN, "the middle", grad_mean_some, PARAM(2, 3, 2)),
    GRAD(IG_OP_MEAN, "all, kept", grad_mean_all, PARAM(2, 3)),
    GRAD(IG_OP_MAX, "the last", grad_max_last, PARAM(3, 5)),
    GRAD(IG_OP_MAX, "first and last, kept", grad_max_some, PARAM(2, 3, 2)),
    GRAD(IG_OP_MSE, "both sides", grad_mse, PARAM(2, 3), PARAM(2, 3)),
};

const case_table cases_reduce = {CASES(cases), TOLERANCES(tolerances), GRADS(grads)};
