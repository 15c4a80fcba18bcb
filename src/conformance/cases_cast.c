/*
 * Casts between any two dtypes: values between two of the target's, overflow, underflow, and all
 * kinds of bit patterns.
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
    1 + 0x1p-11,           /* halfway between two F16 values: ties to the even one below, */
    1 + 3 * 0x1p-11,       /* and here above */
    1 + 0x1p-11 + 0x1p-40, /* just above halfway, but not if first rounded to F32 */
    1 + 0x1p-8,            /* halfway between two BF16 values */
    1 + 3 * 0x1p-8,
    1 + 0x1p-8 + 0x1p-40,
    65504, /* the largest F16, */
    65519.9,
    65520, /* and the first that rounds to infinity */
    -65520,
    1e6,
    0x1p-14, /* the least normal F16, */
    0x1p-24, /* the least subnormal, */
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

/* ---- tolerances ---- */

static const char once[] = "one operation, which IEEE 754 rounds correctly";
static const case_tolerance tolerances[] = {
    {IG_OP_CAST, 0, once},
};

/* ---- gradients ---- */

#define P(i) in->p[i]

static ig_tensor *grad_cast(const grad_inputs *in) {
    return ig_cast(ig_cast(P(0), IG_F32), ig_tensor_desc(P(0)).dtype);
}

static const grad_case grads[] = {
    /* Values that, with their differences, are exact in F32. */
    {.op = IG_OP_CAST,
     .what = "there and back",
     .build = grad_cast,
     .params = {PARAM_IN(1, 1, 2, 3)},
     .step = 0x1p-10},
};

const case_table cases_cast = {CASES(cases), TOLERANCES(tolerances), GRADS(grads)};
