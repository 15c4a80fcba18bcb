/* starcoder2: pre-norm LayerNorm, RoPE, GQA, biases, GELU. */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,
                                               ig_weights_attention,
                                               ig_weights_plain,
                                               ig_weights_norm_biases,
                                               ig_weights_biases,
                                               ig_weights_plain_biases,
                                               NULL};

const ig_arch ig_arch_starcoder2 = {
    .name = "starcoder2",
    .description = "StarCoder 2: LayerNorm, RoPE, biases, GELU",
    .has_cache = true,
    .layer_norm = true,
    .weights = weights,
    .hidden = ig_lm_forward_gelu,
    .head = ig_lm_head,
};
