/*
 * How far from the oracle a result may be.  Units are epsilons of the result's
 * dtype times 1 + |want|: inputs of the cases are of the order of 1, so that is
 * about the rounding of one number.
 */
#include "conformance/cases.h"

case_tolerance case_tolerance_of(uint32_t op) {
    static const char moved[] = "elements are moved or chosen, not computed";
    static const char once[] = "one operation, which IEEE 754 rounds correctly";
    static const char twice[] = "a product and a sum or two, each rounded";
    static const char function[] = "polynomials of vector kernels are good to a few epsilons";
    static const char fused[] = "a few functions and products in a row";
    static const char sum[] = "some hundred terms of the order of 1, summed in any order";
    static const char row[] = "sums along a row, then functions of them";
    static const char shares[] = "scores are sums, their exponentials are summed up again";
    static const char turned[] = "two products; the angle is given to no better than its dtype";

    static const case_tolerance table[IG_OP_COUNT] = {
        [IG_OP_ADD] = {0, once},
        [IG_OP_SUB] = {0, once},
        [IG_OP_MUL] = {0, once},
        [IG_OP_DIV] = {0, once},
        [IG_OP_EQUAL] = {0, moved},
        [IG_OP_SCALE] = {2, twice},
        [IG_OP_NEG] = {0, once},
        [IG_OP_EXP] = {4, function},
        [IG_OP_LOG] = {4, function},
        [IG_OP_SQRT] = {0, once},
        [IG_OP_TANH] = {4, function},
        [IG_OP_SIGMOID] = {4, function},
        [IG_OP_RELU] = {0, moved},
        [IG_OP_GELU] = {8, fused},
        [IG_OP_SILU] = {4, function},
        [IG_OP_SOFTPLUS] = {4, function},
        [IG_OP_POSITIVE] = {0, moved},
        [IG_OP_GELU_GRAD] = {16, fused},
        [IG_OP_SILU_GRAD] = {16, fused},
        [IG_OP_CAST] = {0, once},
        [IG_OP_COPY] = {0, moved},
        [IG_OP_FILL] = {0, moved},
        [IG_OP_DROPOUT] = {2, twice},
        [IG_OP_PAD] = {0, moved},
        [IG_OP_CONCAT] = {0, moved},
        [IG_OP_GATHER] = {0, moved},
        [IG_OP_SCATTER_ADD] = {16, sum},
        [IG_OP_EMBEDDING] = {0, moved},
        [IG_OP_EMBEDDING_GRAD] = {16, sum},
        [IG_OP_SUM] = {64, sum},
        [IG_OP_MEAN] = {16, sum},
        [IG_OP_MAX] = {0, moved},
        [IG_OP_ARGMAX] = {0, moved},
        [IG_OP_SOFTMAX] = {16, row},
        [IG_OP_LOG_SOFTMAX] = {16, row},
        [IG_OP_CROSS_ENTROPY] = {16, row},
        [IG_OP_CROSS_ENTROPY_GRAD] = {16, row},
        [IG_OP_MSE] = {16, sum},
        [IG_OP_RMS_NORM] = {16, row},
        [IG_OP_RMS_NORM_GRAD] = {32, row},
        [IG_OP_LAYER_NORM] = {128, "as rms_norm; a mean of 100 costs two digits before that"},
        [IG_OP_LAYER_NORM_GRAD] = {32, row},
        [IG_OP_MATMUL] = {256, "300 products of up to 4 in one chain: partial sums of about 30"},
        [IG_OP_ROPE] = {16, turned},
        [IG_OP_ATTENTION] = {64, shares},
        [IG_OP_ATTENTION_PAGED] = {64, shares},
        [IG_OP_STORE_ROWS] = {0, moved},
        [IG_OP_ATTENTION_GRAD] = {128, shares},
        [IG_OP_ROUTE] = {16, row},
        [IG_OP_GROUP_ROWS] = {0, moved},
        [IG_OP_MATMUL_GROUPED] = {256, "as matmul"},
        [IG_OP_MATMUL_GROUPED_GRAD] = {256, "as matmul"},
        [IG_OP_COMBINE] = {4, twice},
        [IG_OP_ASSIGN] = {0, moved},
        [IG_OP_ACCUMULATE] = {0, once},
        [IG_OP_ADAMW] = {8, fused},
        [IG_OP_SGD] = {4, twice},
        [IG_OP_GLOBAL_NORM] = {16, sum},
        [IG_OP_CLIP] = {4, twice},
    };
    return op < IG_OP_COUNT ? table[op] : (case_tolerance){0};
}

const case_table *const case_tables[] = {
    &cases_elementwise, &cases_cast,   &cases_move,  &cases_reduce, &cases_softmax,
    &cases_norm,        &cases_matmul, &cases_quant, &cases_rope,   &cases_attention,
    &cases_update,      &cases_moe,    NULL,
};
