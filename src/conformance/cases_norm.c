/* Norms with and without weights: one row, no rows, rows of zeros, rows with a large mean. */
#include "conformance/cases.h"

static const double zeros[] = {0};

#define EPS  ATTRS(ig_attrs_norm, 1e-5f)
#define NONE ATTRS(ig_attrs_norm, 0)

#define NORM(op)                                                                       \
    CASE(op, "without weights", IN(REAL(3, 37)), EPS),                                 \
        CASE(op, "with weights", IN(REAL(3, 37), REAL(37)), EPS),                      \
        CASE(op, "without eps", IN(REAL(3, 37), REAL(37)), NONE),                      \
        CASE(op, "a large eps", IN(REAL(3, 37), REAL(37)), ATTRS(ig_attrs_norm, 10)),  \
        CASE(op, "one row", IN(REAL(33), REAL(33)), EPS),                              \
        CASE(op, "rows of one", IN(REAL(5, 1), REAL(1)), EPS),                         \
        CASE(op, "rows of nothing", IN(REAL(3, 0), REAL(0)), EPS),                     \
        CASE(op, "no rows", IN(REAL(0, 5), REAL(5)), EPS),                             \
        CASE(op, "a batch of many", IN(REAL(5, 60, 129), REAL(129)), EPS),             \
        CASE(op, "zeros", IN(LISTED(zeros, 3, 37), REAL(37)), EPS),                    \
        CASE(op, "large ones", IN(RANGE(-1e4, 1e4, 3, 37), REAL(37)), EPS),            \
        CASE(op, "transposed", IN(LAID(TRANSPOSED, 17, 33), REAL(33)), EPS),           \
        CASE(op, "slices", IN(LAID(SLICED, 3, 5, 19), LAID(SLICED, 19)), EPS),         \
        CASE(op, "every other one", IN(LAID(STRIDED, 9, 21), LAID(STRIDED, 21)), EPS), \
        CASE(op, "one row for all", IN(REPEATED(1, 5, 9), REPEATED(1, 9)), EPS)

#define NORM_GRAD(op)                                                                        \
    CASE(op, "without weights", IN(REAL(3, 37), REAL(3, 37)), EPS),                          \
        CASE(op, "with weights", IN(REAL(3, 37), REAL(3, 37), REAL(37)), EPS),               \
        CASE(op, "without eps", IN(REAL(3, 37), REAL(3, 37), REAL(37)), NONE),               \
        CASE(op, "one row", IN(REAL(33), REAL(33), REAL(33)), EPS),                          \
        CASE(op, "rows of nothing", IN(REAL(3, 0), REAL(3, 0), REAL(0)), EPS),               \
        CASE(op, "no rows", IN(REAL(0, 5), REAL(0, 5)), EPS),                                \
        CASE(op, "a batch of many", IN(REAL(5, 60, 129), REAL(5, 60, 129), REAL(129)), EPS), \
        CASE(op, "transposed, a slice",                                                      \
             IN(LAID(TRANSPOSED, 17, 33), LAID(SLICED, 17, 33), REAL(33)), EPS),             \
        CASE(op, "every other one",                                                          \
             IN(LAID(STRIDED, 9, 21), LAID(STRIDED, 9, 21), LAID(STRIDED, 21)), EPS),        \
        CASE(op, "one slope for all", IN(REAL(5, 9), REPEATED(3, 5, 9), REPEATED(1, 9)), EPS)

static const ig_case cases[] = {
    NORM(IG_OP_RMS_NORM),
    NORM(IG_OP_LAYER_NORM),
    NORM_GRAD(IG_OP_RMS_NORM_GRAD),
    NORM_GRAD(IG_OP_LAYER_NORM_GRAD),

    CASE(IG_OP_RMS_NORM, "a weight", IN(REAL(3, 37), WEIGHT(37)), EPS),
    CASE(IG_OP_LAYER_NORM, "with weights and shifts", IN(REAL(3, 37), REAL(37), REAL(37)), EPS),
    CASE(IG_OP_LAYER_NORM, "a batch of many, shifted", IN(REAL(5, 60, 129), REAL(129), REAL(129)),
         EPS),
    CASE(IG_OP_LAYER_NORM, "slices, shifted",
         IN(LAID(SLICED, 3, 5, 19), LAID(SLICED, 19), LAID(STRIDED, 19)), EPS),
    CASE(IG_OP_LAYER_NORM, "far from zero", IN(RANGE(99, 101, 3, 37)), EPS),
};

/* ---- tolerances ---- */

static const char row[] = "sums along a row, then functions of them";
static const case_tolerance tolerances[] = {
    {IG_OP_RMS_NORM, 16, row},
    {IG_OP_RMS_NORM_GRAD, 32, row},
    {IG_OP_LAYER_NORM, 128, "as rms_norm; a mean of 100 costs two digits before that"},
    {IG_OP_LAYER_NORM_GRAD, 32, row},
};

/* ---- gradients ---- */

#define P(i) in->p[i]

static ig_tensor *grad_rms_norm(const grad_inputs *in) { return ig_rms_norm(P(0), P(1), 1e-3f); }
static ig_tensor *grad_rms_norm_plain(const grad_inputs *in) {
    return ig_rms_norm(P(0), NULL, 1e-3f);
}
static ig_tensor *grad_layer_norm(const grad_inputs *in) {
    return ig_layer_norm(P(0), P(1), P(2), 1e-3f);
}
static ig_tensor *grad_layer_norm_weighted(const grad_inputs *in) {
    return ig_layer_norm(P(0), P(1), NULL, 1e-3f);
}
static ig_tensor *grad_layer_norm_plain(const grad_inputs *in) {
    return ig_layer_norm(ig_transpose(P(0), 0, 1), NULL, NULL, 1e-3f);
}

static const grad_case grads[] = {
    GRAD(IG_OP_RMS_NORM, "weighted", grad_rms_norm, PARAM(2, 2, 5), PARAM(5)),
    GRAD(IG_OP_RMS_NORM, "plain", grad_rms_norm_plain, PARAM(3, 5)),
    GRAD(IG_OP_LAYER_NORM, "weighted and shifted", grad_layer_norm, PARAM(2, 2, 5), PARAM(5),
         PARAM(5)),
    GRAD(IG_OP_LAYER_NORM, "weighted", grad_layer_norm_weighted, PARAM(3, 5), PARAM(5)),
    GRAD(IG_OP_LAYER_NORM, "plain, of a view", grad_layer_norm_plain, PARAM(3, 5)),
};

const case_table cases_norm = {CASES(cases), TOLERANCES(tolerances), GRADS(grads)};
