/* Element by element: odd tails, one, none, many; every layout; every way to repeat. */
#include "conformance/cases.h"

/* Numbers at the edges of what a float holds.  Their count is odd, so that two lists of them, one
 * of another length, meet in every pair. */
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

#define ERF                        ATTRS(ig_attrs_gelu, IG_GELU_ERF)
#define TANH                       ATTRS(ig_attrs_gelu, IG_GELU_TANH)
#define FILLED(what, dtype, value) CASE(IG_OP_FILL, what, ATTRS(ig_attrs_fill, value, dtype, 0))

/* Step and seed of dropout. */
static const ig_slot first_step[] = {{.i = 0}}, late_step[] = {{.i = 5}, {.i = 123456789012}};
#define DROPOUT(what, operand, p, ordinal, slot, slots)                                         \
    CASE(IG_OP_DROPOUT, what, IN(operand), ATTRS(ig_attrs_dropout, p, {17, 42}, ordinal, slot), \
         SLOTS(slots))

static const ig_case cases[] = {
    BINARY(IG_OP_ADD),
    BINARY(IG_OP_SUB),
    BINARY(IG_OP_MUL),
    BINARY(IG_OP_DIV),
    BINARY(IG_OP_EQUAL),
    CASE(IG_OP_EQUAL, "many are", IN(WHOLES(0, 2, 19, 33), WHOLES(0, 2, 19, 33))),
    CASE(IG_OP_EQUAL, "integers", IN(INDEX(0, 2, 19, 33), INDEX(0, 2, 19, 33))),
    CASE(IG_OP_EQUAL, "no integers", IN(INDEX(0, 2, 0), INDEX(0, 2, 0))),

    UNARY(IG_OP_SCALE, -2, 2, ATTRS(ig_attrs_scale, -1.5, 0.25)),
    CASE(IG_OP_SCALE, "by what no float holds", IN(REAL(7, 33)), ATTRS(ig_attrs_scale, 0.1, 1e-3)),
    CASE(IG_OP_SCALE, "edges", IN(LISTED(edges, 7, 17)), ATTRS(ig_attrs_scale, 2, 0)),
    UNARY(IG_OP_NEG, -2, 2, NO_ATTRS),
    CASE(IG_OP_NEG, "edges", IN(LISTED(edges, 7, 17))),
    UNARY(IG_OP_EXP, -10, 10, NO_ATTRS),
    CASE(IG_OP_EXP, "edges", IN(LISTED(edges, 7, 17))),
    UNARY(IG_OP_LOG, 1e-3, 50, NO_ATTRS),
    CASE(IG_OP_LOG, "roots", IN(LISTED(roots, 7, 17))),
    CASE(IG_OP_LOG, "near 1", IN(RANGE(0.9, 1.1, 9, 33))),
    UNARY(IG_OP_SQRT, 0, 50, NO_ATTRS),
    CASE(IG_OP_SQRT, "roots", IN(LISTED(roots, 7, 17))),
    UNARY(IG_OP_TANH, -5, 5, NO_ATTRS),
    CASE(IG_OP_TANH, "edges", IN(LISTED(edges, 7, 17))),
    CASE(IG_OP_TANH, "near 0", IN(RANGE(-1e-3, 1e-3, 9, 33))),
    UNARY(IG_OP_SIGMOID, -10, 10, NO_ATTRS),
    CASE(IG_OP_SIGMOID, "edges", IN(LISTED(edges, 7, 17))),
    UNARY(IG_OP_RELU, -2, 2, NO_ATTRS),
    CASE(IG_OP_RELU, "edges", IN(LISTED(edges, 7, 17))),
    UNARY(IG_OP_GELU, -6, 6, ERF),
    CASE(IG_OP_GELU, "edges", IN(LISTED(edges, 7, 17)), ERF),
    UNARY(IG_OP_GELU, -6, 6, TANH),
    CASE(IG_OP_GELU, "edges", IN(LISTED(edges, 7, 17)), TANH),
    UNARY(IG_OP_SILU, -10, 10, NO_ATTRS),
    CASE(IG_OP_SILU, "edges", IN(LISTED(edges, 7, 17))),
    UNARY(IG_OP_SOFTPLUS, -10, 10, NO_ATTRS),
    CASE(IG_OP_SOFTPLUS, "edges", IN(LISTED(edges, 7, 17))),
    UNARY(IG_OP_POSITIVE, -2, 2, NO_ATTRS),
    CASE(IG_OP_POSITIVE, "edges", IN(LISTED(edges, 7, 17))),
    GRADIENT(IG_OP_GELU_GRAD, ERF),
    GRADIENT(IG_OP_GELU_GRAD, TANH),
    GRADIENT(IG_OP_SILU_GRAD, NO_ATTRS),

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

const case_table cases_elementwise = CASE_TABLE(cases);
