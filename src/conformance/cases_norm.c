/* Normalisations with and without weights: rows of one and of none, of zeros, far from zero. */
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

const case_table cases_norm = CASE_TABLE(cases);
