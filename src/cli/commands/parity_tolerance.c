#include "cli/commands/parity_tolerance.h"

#include <string.h>

#include "base/quant_blocks.h"

/*
 * Float weights: devices add the same products in another order.
 * Blocks: cpu quantizes activations to int8 before a matmul, as llama.cpp does; ref and vulkan do
 * not. An int8 step is 0.4 % of the largest activation of a block.
 *
 * Measured, the larger of the errors of logits and of hidden states: cpu and ref on the synthetic
 * llama, gpt2, gemma3, qwen3 and phi3, then cpu and vulkan (lavapipe) on the synthetic llama.
 */
static const char order[] = "summation order", rounded[] = "activations in int8";

static const parity_tolerance rows[IG_DTYPE_COUNT] = {
    [IG_F32] = {1e-4, order},      /* 1.8e-06, 1.5e-06 */
    [IG_F16] = {1e-4, order},      /* 5.5e-07, 6.5e-07 */
    [IG_BF16] = {1e-4, order},     /* 7.4e-07, 6.1e-07 */
    [IG_Q4_0] = {1e-1, rounded},   /* 2.2e-02, 2.1e-02 */
    [IG_Q4_1] = {1e-1, rounded},   /* 2.1e-02, 2.0e-02 */
    [IG_Q5_0] = {1e-1, rounded},   /* 2.9e-02, 2.2e-02 */
    [IG_Q5_1] = {1e-1, rounded},   /* 3.0e-02, 2.0e-02 */
    [IG_Q8_0] = {1e-1, rounded},   /* 2.1e-02, 2.1e-02 */
    [IG_Q2_K] = {1e-1, rounded},   /* 2.7e-02, 2.1e-02 */
    [IG_Q3_K] = {1e-1, rounded},   /* 2.1e-02, 1.9e-02 */
    [IG_Q4_K] = {1e-1, rounded},   /* 2.3e-02, 2.3e-02 */
    [IG_Q5_K] = {1e-1, rounded},   /* 2.2e-02, 2.1e-02 */
    [IG_Q6_K] = {1e-1, rounded},   /* 2.2e-02, 2.2e-02 */
    [IG_IQ4_NL] = {1e-1, rounded}, /* 2.1e-02, 2.1e-02 */
    [IG_IQ4_XS] = {1e-1, rounded}, /* 2.2e-02, 2.2e-02 */
    [IG_MXFP4] = {1e-1, rounded},  /* 2.1e-02, 2.1e-02 */
};

parity_tolerance parity_tolerance_of(ig_dtype dtype) { return rows[dtype]; }

/* Where two devices differ in the last bits of a key, a cache may round it to two neighbors.
 * Measured on the synthetic llama, gpt2 and gemma3, F32: bf16 2.8e-4, q8_0 1.7e-4. */
static const struct {
    const char *dtype;
    parity_tolerance tolerance;
} caches[] = {{"bf16", {1e-3, "rounding in the KV cache"}},
              {"q8_0", {1e-3, "rounding in the KV cache"}}};

parity_tolerance parity_tolerance_of_cache(const char *dtype) {
    for (size_t i = 0; dtype && i < sizeof caches / sizeof caches[0]; i++)
        if (strcmp(caches[i].dtype, dtype) == 0) return caches[i].tolerance;
    return (parity_tolerance){0};
}

static double bits_per_weight(ig_dtype dtype) {
    const int64_t block = ig_dtype_block(dtype);
    return 8.0 * (double)ig_bytes_of(dtype, block) / (double)block;
}

bool parity_is_coarser(ig_dtype a, ig_dtype b) {
    if (rows[a].most != rows[b].most) return rows[a].most > rows[b].most;
    return rows[a].from && bits_per_weight(a) < bits_per_weight(b);
}
