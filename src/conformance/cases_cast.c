/*
 * Between any two dtypes: values that lie between two of the target's, that are
 * too large or too small for it, and bit patterns of every kind.
 */
#include "conformance/cases.h"

static const double numbers[] = {
    0.0,
    -0.0,
    1,
    -1,
    2.5,
    -3.75,
    0.5,
    -0.5,
    1.5,
    -1.999,
    1 + 0x1p-11,           /* halfway between two of F16: the even one is below, */
    1 + 3 * 0x1p-11,       /* and here above */
    1 + 0x1p-11 + 0x1p-40, /* just above halfway, unless it is rounded to F32 first */
    1 + 0x1p-8,            /* halfway for BF16 */
    1 + 3 * 0x1p-8,
    1 + 0x1p-8 + 0x1p-40,
    65504, /* the largest of F16, */
    65519.9,
    65520, /* and what rounds to infinity */
    -65520,
    1e6,
    0x1p-14, /* the least normal one of F16, */
    0x1p-24, /* the least of all, */
    0x1p-25, /* and half of it, which rounds to 0 */
    0x1.8p-25,
    3.3e38,
    -3.4e38,
    0x1p-126,
    0x1p-133,
    2147483520,
    2147483647,
    2147483648.0,
    -2147483648.0,
    -2147483904.0,
    1e10,
    -1e10,
    16777217,
    (double)INFINITY,
    -(double)INFINITY,
    (double)NAN,
    123456.789,
};

#define CAST(from, to)                                                                             \
    CASE(IG_OP_CAST, "numbers to " #to, IN(OPERAND(DTYPE(from), NUMBERS(numbers), SHAPE(3, 41))),  \
         ATTRS(ig_attrs_dtype, to)),                                                               \
        CASE(IG_OP_CAST, "bit patterns to " #to,                                                   \
             IN(OPERAND(DTYPE(from), .values = BITS, SHAPE(256, 256))),                            \
             ATTRS(ig_attrs_dtype, to)),                                                           \
        CASE(IG_OP_CAST, "none to " #to, IN(TYPED(from, 0, 3)), ATTRS(ig_attrs_dtype, to)),        \
        CASE(IG_OP_CAST, "a scalar to " #to, IN(OPERAND(DTYPE(from))), ATTRS(ig_attrs_dtype, to)), \
        CASE(IG_OP_CAST, "transposed to " #to,                                                     \
             IN(OPERAND(DTYPE(from), .layout = TRANSPOSED, SHAPE(33, 17))),                        \
             ATTRS(ig_attrs_dtype, to)),                                                           \
        CASE(IG_OP_CAST, "a slice to " #to,                                                        \
             IN(OPERAND(DTYPE(from), .layout = SLICED, SHAPE(5, 7, 19))),                          \
             ATTRS(ig_attrs_dtype, to)),                                                           \
        CASE(IG_OP_CAST, "one for all to " #to,                                                    \
             IN(OPERAND(DTYPE(from), .repeat = 3, SHAPE(5, 19))), ATTRS(ig_attrs_dtype, to))

#define CASTS(from)                                                                  \
    CAST(from, IG_F32), CAST(from, IG_F16), CAST(from, IG_BF16), CAST(from, IG_F64), \
        CAST(from, IG_I32)

static const ig_case cases[] = {
    CASTS(IG_F32), CASTS(IG_F16), CASTS(IG_BF16), CASTS(IG_F64), CASTS(IG_I32),
};

const case_table cases_cast = CASE_TABLE(cases);
