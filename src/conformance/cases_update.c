/* In-place updates: results alias an input, packed or not; first and late steps. */
#include "conformance/cases.h"

/* Slots: step count and learning rate, not in this order everywhere. */
static const ig_slot first[] = {{.i = 1}, {.f = 1e-3}};
static const ig_slot late[] = {{.f = 0.05}, {.i = 0}, {.i = 1000}};

#define ADAMW_AT(what, slot_of_rate, slot_of_step, slots, decay, ...)                   \
    CASE(IG_OP_ADAMW, what, IN(__VA_ARGS__),                                            \
         ATTRS(ig_attrs_adamw, 0.9f, 0.999f, 1e-8f, decay, slot_of_rate, slot_of_step), \
         SLOTS(slots))
#define ADAMW(what, ...)    ADAMW_AT(what, 1, 0, first, 0.01f, __VA_ARGS__)
#define VARIANCE(form, ...) OPERAND(BETWEEN(0, 2), .layout = form, SHAPE(__VA_ARGS__))

#define SGD(what, momentum, decay, nesterov, ...)                                             \
    CASE(IG_OP_SGD, what, IN(__VA_ARGS__), ATTRS(ig_attrs_sgd, momentum, decay, nesterov, 1), \
         SLOTS(first))

#define ASSIGN(dtype)                                                                     \
    CASE(IG_OP_ASSIGN, "an odd tail", IN(TYPED(dtype, 3, 37), TYPED(dtype, 3, 37))),      \
        CASE(IG_OP_ASSIGN, "a scalar", IN(OPERAND(DTYPE(dtype)), OPERAND(DTYPE(dtype)))), \
        CASE(IG_OP_ASSIGN, "nothing", IN(TYPED(dtype, 0, 3), TYPED(dtype, 0, 3))),        \
        CASE(IG_OP_ASSIGN, "to a slice, transposed",                                      \
             IN(OPERAND(DTYPE(dtype), .layout = SLICED, SHAPE(9, 17)),                    \
                OPERAND(DTYPE(dtype), .layout = TRANSPOSED, SHAPE(9, 17)))),              \
        CASE(IG_OP_ASSIGN, "one for all",                                                 \
             IN(TYPED(dtype, 9, 17), OPERAND(DTYPE(dtype), .repeat = 3, SHAPE(9, 17))))

#define NORM_OF(number) OPERAND(BETWEEN(number, number))
#define CLIP(what, limit, norm, operand) \
    CASE(IG_OP_CLIP, what, IN(operand, NORM_OF(norm)), ATTRS(ig_attrs_clip, limit))

/* F32 rows into a KV cache of another dtype. */
#define STORED(type)                                                                      \
    CASE(IG_OP_STORE_ROWS, "into " #type,                                                 \
         IN(TYPED(type, 9, 3, 32), TYPED(IG_F32, 6, 3, 32), INDEX(-2, 11, 6)), NO_ATTRS), \
        CASE(IG_OP_STORE_ROWS, "large and small into " #type,                             \
             IN(TYPED(type, 4, 64), OPERAND(DTYPE(IG_F32), .values = BITS, SHAPE(9, 64)), \
                INDEX(0, 3, 9)),                                                          \
             NO_ATTRS),                                                                   \
        CASE(IG_OP_STORE_ROWS, "zeros into " #type,                                       \
             IN(TYPED(type, 4, 64), OPERAND(DTYPE(IG_F32), NUMBERS(zero), SHAPE(9, 64)),  \
                INDEX(0, 3, 9)),                                                          \
             NO_ATTRS)
static const double zero[] = {0};

static const ig_case cases[] = {
    ASSIGN(IG_F32),
    ASSIGN(IG_F16),
    ASSIGN(IG_BF16),
    ASSIGN(IG_F64),
    ASSIGN(IG_I32),
    CASE(IG_OP_ASSIGN, "many", IN(REAL(300, 129), REAL(300, 129))),

    CASE(IG_OP_ACCUMULATE, "an odd tail", IN(REAL(3, 37), REAL(3, 37))),
    CASE(IG_OP_ACCUMULATE, "many", IN(REAL(300, 129), REAL(300, 129))),
    CASE(IG_OP_ACCUMULATE, "scalars", IN(SCALAR, SCALAR)),
    CASE(IG_OP_ACCUMULATE, "nothing", IN(REAL(0, 3), REAL(0, 3))),
    CASE(IG_OP_ACCUMULATE, "layouts", IN(LAID(SLICED, 9, 17), LAID(TRANSPOSED, 9, 17))),
    CASE(IG_OP_ACCUMULATE, "every other one", IN(LAID(STRIDED, 9, 17), LAID(STRIDED, 9, 17))),
    CASE(IG_OP_ACCUMULATE, "one for all", IN(REAL(9, 17), REPEATED(3, 9, 17))),
    CASE(IG_OP_ACCUMULATE, "one row for all", IN(LAID(TRANSPOSED, 9, 17), REPEATED(1, 9, 17))),

    ADAMW("the first step", REAL(3, 37), REAL(3, 37), REAL(3, 37), VARIANCE(PACKED, 3, 37)),
    ADAMW_AT("a late step", 0, 2, late, 0.1f, REAL(3, 37), REAL(3, 37), REAL(3, 37),
             VARIANCE(PACKED, 3, 37)),
    ADAMW_AT("without decay", 1, 0, first, 0, REAL(33), REAL(33), REAL(33), VARIANCE(PACKED, 33)),
    ADAMW("many", REAL(300, 129), REAL(300, 129), REAL(300, 129), VARIANCE(PACKED, 300, 129)),
    ADAMW("one", REAL(1), REAL(1), REAL(1), VARIANCE(PACKED, 1)),
    ADAMW("nothing", REAL(0, 3), REAL(0, 3), REAL(0, 3), VARIANCE(PACKED, 0, 3)),
    ADAMW("layouts", LAID(SLICED, 9, 17), LAID(TRANSPOSED, 9, 17), LAID(STRIDED, 9, 17),
          VARIANCE(TRANSPOSED, 9, 17)),
    ADAMW("one slope for all", REAL(9, 17), REPEATED(3, 9, 17), REAL(9, 17),
          VARIANCE(PACKED, 9, 17)),

    SGD("plain", 0, 0, 0, REAL(3, 37), REAL(3, 37)),
    SGD("with decay", 0, 0.1f, 0, REAL(3, 37), REAL(3, 37)),
    SGD("with momentum", 0.9f, 0, 0, REAL(3, 37), REAL(3, 37), REAL(3, 37)),
    SGD("with all", 0.9f, 0.1f, 1, REAL(3, 37), REAL(3, 37), REAL(3, 37)),
    SGD("many", 0.9f, 0.1f, 1, REAL(300, 129), REAL(300, 129), REAL(300, 129)),
    SGD("scalars", 0.9f, 0, 0, SCALAR, SCALAR, SCALAR),
    SGD("nothing", 0.9f, 0, 0, REAL(0, 3), REAL(0, 3), REAL(0, 3)),
    SGD("layouts", 0.9f, 0.1f, 0, LAID(SLICED, 9, 17), LAID(TRANSPOSED, 9, 17),
        LAID(STRIDED, 9, 17)),
    SGD("one slope for all", 0, 0, 0, REAL(9, 17), REPEATED(3, 9, 17)),

    CASE(IG_OP_STORE_ROWS, "rows to their places, some nowhere",
         IN(REAL(9, 17), REAL(6, 17), INDEX(-2, 11, 6)), NO_ATTRS),
    STORED(IG_F16),
    STORED(IG_BF16),
    STORED(IG_Q8_0),
    CASE(IG_OP_STORE_ROWS, "two to one place", IN(REAL(2, 3, 5), REAL(7, 3, 5), INDEX(0, 1, 7)),
         NO_ATTRS),
    CASE(IG_OP_STORE_ROWS, "no rows", IN(REAL(4, 3), REAL(0, 3), INDEX(0, 1, 0)), NO_ATTRS),
    CASE(IG_OP_STORE_ROWS, "rows of no width", IN(REAL(4, 0), REAL(2, 0), INDEX(0, 3, 2)),
         NO_ATTRS),
    CASE(IG_OP_STORE_ROWS, "rows from a slice",
         IN(REAL(9, 17), LAID(SLICED, 6, 17), INDEX(0, 8, 6)), NO_ATTRS),

    CLIP("above the limit", 1, 12.5, REAL(3, 37)),
    CLIP("below the limit", 1, 0.5, REAL(3, 37)),
    CLIP("many", 0.3f, 12.5, REAL(300, 129)),
    CLIP("a scalar", 1, 12.5, SCALAR),
    CLIP("nothing", 1, 12.5, REAL(0, 3)),
    CLIP("a slice", 1, 12.5, LAID(SLICED, 9, 17)),
    CLIP("transposed", 1, 12.5, LAID(TRANSPOSED, 9, 17)),
};

/* ---- tolerances ---- */

static const char moved[] = "elements are moved or chosen, not computed";
static const char once[] = "one operation, which IEEE 754 rounds correctly";
static const char twice[] = "a product and a sum or two, each rounded";
static const char fused[] = "a few functions and products in a row";
static const case_tolerance tolerances[] = {
    {IG_OP_STORE_ROWS, 0, moved}, {IG_OP_ASSIGN, 0, moved}, {IG_OP_ACCUMULATE, 0, once},
    {IG_OP_ADAMW, 8, fused},      {IG_OP_SGD, 4, twice},    {IG_OP_CLIP, 4, twice},
};

const case_table cases_update = {CASES(cases), TOLERANCES(tolerances)};
