/*
 * Weights in 16-bit floats and all quantized types: matmuls with M = 1, small and large M, N around
 * the kernels' block sizes, rows of one block and of several; embeddings; and dequantization.
 */
#include "conformance/cases.h"

#define BYTES(n) n / 64.0
const double case_bytes[32] = {
    BYTES(-127), BYTES(3),   BYTES(41),  BYTES(-90), BYTES(77),  BYTES(-12),  BYTES(101), BYTES(-1),
    BYTES(64),   BYTES(-33), BYTES(8),   BYTES(119), BYTES(-75), BYTES(26),   BYTES(-51), BYTES(0),
    BYTES(15),   BYTES(-99), BYTES(54),  BYTES(-6),  BYTES(88),  BYTES(-120), BYTES(37),  BYTES(70),
    BYTES(-44),  BYTES(111), BYTES(-83), BYTES(20),  BYTES(-60), BYTES(95),   BYTES(-28), BYTES(1),
};
#define F32_LAID(form, ...) \
    OPERAND(DTYPE(IG_F32), NUMBERS(case_bytes), .layout = form, SHAPE(__VA_ARGS__))
#define F32(...)  F32_LAID(PACKED, __VA_ARGS__)
#define BIAS(...) TYPED(IG_F32, __VA_ARGS__)

/* a [m, k] x rows [n, k] */
#define PRODUCT(what, type, m, n, k)                                        \
    CASE(IG_OP_MATMUL, what " of " #type, IN(F32(m, k), TYPED(type, n, k)), \
         ATTRS(ig_attrs_matmul, .transpose_b = 1))

#define WEIGHTS_OF(type, block)                                                                   \
    PRODUCT("one row, one block", type, 1, 1, block), PRODUCT("one row", type, 1, 37, 2 * block), \
        PRODUCT("one row, long", type, 1, 9, 1280 - 1280 % block),                                \
        PRODUCT("two rows", type, 2, 16, 3 * block),                                              \
        PRODUCT("seven rows", type, 7, 19, 2 * block),                                            \
        PRODUCT("many rows", type, 101, 35, 2 * block), PRODUCT("no rows", type, 0, 5, block),    \
        PRODUCT("a large product", type, 520, 515, block),                                        \
        PRODUCT("no columns", type, 3, 0, block),                                                 \
        CASE(IG_OP_MATMUL, "bias of " #type,                                                      \
             IN(F32(2, 3, 2 * block), TYPED(type, 21, 2 * block), BIAS(21)),                      \
             ATTRS(ig_attrs_matmul, .transpose_b = 1)),                                           \
        CASE(IG_OP_MATMUL, "silu of " #type, IN(F32(5, block), TYPED(type, 18, block)),           \
             ATTRS(ig_attrs_matmul, .transpose_b = 1, .activation = IG_ACTIVATION_SILU)),         \
        CASE(IG_OP_MATMUL, "bias, silu and residual of " #type,                                   \
             IN(F32(9, block), TYPED(type, 35, block), BIAS(35), BIAS(9, 35)),                    \
             ATTRS(ig_attrs_matmul, .transpose_b = 1, .activation = IG_ACTIVATION_SILU,           \
                   .residual = 1)),                                                               \
        CASE(IG_OP_MATMUL, "slices of " #type,                                                    \
             IN(F32_LAID(SLICED, 5, block),                                                       \
                OPERAND(DTYPE(type), .layout = SLICED, SHAPE(18, block))),                        \
             ATTRS(ig_attrs_matmul, .transpose_b = 1)),                                           \
        CASE(IG_OP_MATMUL, "a weight of " #type,                                                  \
             IN(F32(3, block), OPERAND(DTYPE(type), .weight = true, SHAPE(40, block))),           \
             ATTRS(ig_attrs_matmul, .transpose_b = 1)),                                           \
        CASE(IG_OP_MATMUL, "four rows, a weight of " #type,                                       \
             IN(F32(4, block), OPERAND(DTYPE(type), .weight = true, SHAPE(40, block))),           \
             ATTRS(ig_attrs_matmul, .transpose_b = 1)),                                           \
        CASE(IG_OP_EMBEDDING, "some outside, of " #type,                                          \
             IN(TYPED(type, 7, 2 * block), INDEX(-1, 8, 3, 5))),                                  \
        CASE(IG_OP_EMBEDDING, "slices of " #type,                                                 \
             IN(OPERAND(DTYPE(type), .layout = SLICED, SHAPE(7, block)), INDEX(0, 6, 9))),        \
        CASE(IG_OP_CAST, "many of " #type, IN(TYPED(type, 33, 2 * block)),                        \
             ATTRS(ig_attrs_dtype, IG_F32)),                                                      \
        CASE(IG_OP_CAST, "a slice of " #type,                                                     \
             IN(OPERAND(DTYPE(type), .layout = SLICED, SHAPE(5, 3, block))),                      \
             ATTRS(ig_attrs_dtype, IG_F32)),                                                      \
        CASE(IG_OP_CAST, "to double of " #type, IN(TYPED(type, 3, block)),                        \
             ATTRS(ig_attrs_dtype, IG_F64))

static const ig_case cases[] = {
    WEIGHTS_OF(IG_F16, 40),
    WEIGHTS_OF(IG_BF16, 40),
    WEIGHTS_OF(IG_Q4_0, 32),
    WEIGHTS_OF(IG_Q4_1, 32),
    WEIGHTS_OF(IG_Q5_0, 32),
    WEIGHTS_OF(IG_Q5_1, 32),
    WEIGHTS_OF(IG_Q8_0, 32),
    WEIGHTS_OF(IG_Q2_K, 256),
    WEIGHTS_OF(IG_Q3_K, 256),
    WEIGHTS_OF(IG_Q4_K, 256),
    WEIGHTS_OF(IG_Q5_K, 256),
    WEIGHTS_OF(IG_Q6_K, 256),
    WEIGHTS_OF(IG_IQ4_NL, 32),
    WEIGHTS_OF(IG_IQ4_XS, 256),
    WEIGHTS_OF(IG_MXFP4, 32),

    CASE(IG_OP_MATMUL, "f16 that lies transposed",
         IN(F32(5, 33), OPERAND(DTYPE(IG_F16), .layout = TRANSPOSED, SHAPE(19, 33))),
         ATTRS(ig_attrs_matmul, .transpose_b = 1)),
    CASE(IG_OP_MATMUL, "a lies transposed", IN(F32_LAID(TRANSPOSED, 5, 64), TYPED(IG_Q4_0, 19, 64)),
         ATTRS(ig_attrs_matmul, .transpose_b = 1)),
};

const case_table cases_quant = {CASES(cases)};
