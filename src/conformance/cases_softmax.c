/* Softmax and cross-entropy: extreme logits, masked ones, targets out of range. */
#include "conformance/cases.h"

static const double masked[] = {1, -(double)INFINITY, 2, -(double)INFINITY, -1};
static const double with_nan[] = {1, 2, (double)NAN, -1, 0.5, 3, 1, 2, 1, 0};

#define SOFTMAX(op)                                                                       \
    CASE(op, "an odd tail", IN(REAL(3, 37))), CASE(op, "one row", IN(REAL(33))),          \
        CASE(op, "one column", IN(REAL(5, 1))), CASE(op, "many", IN(REAL(300, 129))),     \
        CASE(op, "a long row", IN(RANGE(-8, 8, 2, 1001))),                                \
        CASE(op, "far out", IN(RANGE(-1000, 1000, 9, 33))),                               \
        CASE(op, "far out, together", IN(RANGE(990, 1000, 9, 33))),                       \
        CASE(op, "rows of nothing", IN(REAL(3, 0))), CASE(op, "no rows", IN(REAL(0, 5))), \
        CASE(op, "masked", IN(LISTED(masked, 4, 7))),                                     \
        CASE(op, "with NaN", IN(LISTED(with_nan, 4, 5))),                                 \
        CASE(op, "transposed", IN(LAID(TRANSPOSED, 17, 33))),                             \
        CASE(op, "a slice", IN(LAID(SLICED, 3, 5, 19))),                                  \
        CASE(op, "every other one", IN(LAID(STRIDED, 9, 21))),                            \
        CASE(op, "one for all", IN(REPEATED(3, 5, 9)))

#define TARGET(least, most) OPERAND(DTYPE(IG_I32), BETWEEN(least, most))
#define TARGETS_SLICED(...) \
    OPERAND(DTYPE(IG_I32), BETWEEN(0, 18), .layout = SLICED, SHAPE(__VA_ARGS__))

static const ig_case cases[] = {
    SOFTMAX(IG_OP_SOFTMAX),
    SOFTMAX(IG_OP_LOG_SOFTMAX),

    CASE(IG_OP_CROSS_ENTROPY, "an odd tail", IN(REAL(9, 37), INDEX(0, 36, 9))),
    CASE(IG_OP_CROSS_ENTROPY, "a batch", IN(REAL(3, 5, 37), INDEX(0, 36, 3, 5))),
    CASE(IG_OP_CROSS_ENTROPY, "one row", IN(REAL(37), TARGET(3, 3))),
    CASE(IG_OP_CROSS_ENTROPY, "many", IN(REAL(300, 129), INDEX(0, 128, 300))),
    CASE(IG_OP_CROSS_ENTROPY, "far out", IN(RANGE(-1000, 1000, 9, 33), INDEX(0, 32, 9))),
    CASE(IG_OP_CROSS_ENTROPY, "some targets are not there", IN(REAL(40, 7), INDEX(-3, 9, 40))),
    CASE(IG_OP_CROSS_ENTROPY, "no rows", IN(REAL(0, 7), INDEX(0, 6, 0))),
    CASE(IG_OP_CROSS_ENTROPY, "rows of nothing", IN(REAL(3, 0), INDEX(0, 6, 3))),
    CASE(IG_OP_CROSS_ENTROPY, "slices", IN(LAID(SLICED, 3, 5, 19), TARGETS_SLICED(3, 5))),
    CASE(IG_OP_CROSS_ENTROPY, "transposed", IN(LAID(TRANSPOSED, 17, 33), INDEX(0, 32, 17))),

    CASE(IG_OP_CROSS_ENTROPY_GRAD, "an odd tail", IN(REAL(9, 37), INDEX(0, 36, 9), REAL(9))),
    CASE(IG_OP_CROSS_ENTROPY_GRAD, "a batch", IN(REAL(3, 5, 37), INDEX(0, 36, 3, 5), REAL(3, 5))),
    CASE(IG_OP_CROSS_ENTROPY_GRAD, "one row", IN(REAL(37), TARGET(3, 3), SCALAR)),
    CASE(IG_OP_CROSS_ENTROPY_GRAD, "many", IN(REAL(300, 129), INDEX(0, 128, 300), REAL(300))),
    CASE(IG_OP_CROSS_ENTROPY_GRAD, "far out",
         IN(RANGE(-1000, 1000, 9, 33), INDEX(0, 32, 9), REAL(9))),
    CASE(IG_OP_CROSS_ENTROPY_GRAD, "some targets are not there",
         IN(REAL(40, 7), INDEX(-3, 9, 40), REAL(40))),
    CASE(IG_OP_CROSS_ENTROPY_GRAD, "no rows", IN(REAL(0, 7), INDEX(0, 6, 0), REAL(0))),
    CASE(IG_OP_CROSS_ENTROPY_GRAD, "rows of nothing", IN(REAL(3, 0), INDEX(0, 6, 3), REAL(3))),
    CASE(IG_OP_CROSS_ENTROPY_GRAD, "slices",
         IN(LAID(SLICED, 3, 5, 19), TARGETS_SLICED(3, 5), LAID(SLICED, 3, 5))),
    CASE(IG_OP_CROSS_ENTROPY_GRAD, "transposed, one slope for all",
         IN(LAID(TRANSPOSED, 17, 33), INDEX(0, 32, 17), REPEATED(1, 17))),
};

/* ---- tolerances ---- */

static const char row[] = "sums along a row, then functions of them";
static const case_tolerance tolerances[] = {
    {IG_OP_SOFTMAX, 16, row},
    {IG_OP_LOG_SOFTMAX, 16, row},
    {IG_OP_CROSS_ENTROPY, 16, row},
    {IG_OP_CROSS_ENTROPY_GRAD, 16, row},
};

/* ---- gradients ---- */

#define P(i) in->p[i]

static ig_tensor *grad_softmax_last(const grad_inputs *in) { return ig_softmax(P(0), -1); }
static ig_tensor *grad_softmax_first(const grad_inputs *in) { return ig_softmax(P(0), 0); }
static ig_tensor *grad_log_softmax_last(const grad_inputs *in) { return ig_log_softmax(P(0), -1); }
static ig_tensor *grad_log_softmax_first(const grad_inputs *in) { return ig_log_softmax(P(0), 0); }
static ig_tensor *grad_cross_entropy(const grad_inputs *in) {
    return ig_cross_entropy(P(0), in->index);
}

static const grad_case grads[] = {
    GRAD(IG_OP_SOFTMAX, "the last", grad_softmax_last, PARAM(3, 5)),
    GRAD(IG_OP_SOFTMAX, "the first", grad_softmax_first, PARAM(3, 5)),
    GRAD(IG_OP_LOG_SOFTMAX, "the last", grad_log_softmax_last, PARAM(3, 5)),
    GRAD(IG_OP_LOG_SOFTMAX, "the first", grad_log_softmax_first, PARAM(3, 5)),
    GRAD_INDEXED(IG_OP_CROSS_ENTROPY, "rows", grad_cross_entropy, EXTENTS(4), INDICES(2, 0, 4, 1),
                 PARAM(4, 5)),
    GRAD_INDEXED(IG_OP_CROSS_ENTROPY, "a batch", grad_cross_entropy, EXTENTS(2, 2),
                 INDICES(2, 0, 4, 1), PARAM(2, 2, 5)),
};

const case_table cases_softmax = {CASES(cases), TOLERANCES(tolerances), GRADS(grads)};
