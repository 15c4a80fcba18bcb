/*
 * phi2 and falcon: parallel residual with one LayerNorm; GELU. phi2 has partial RoPE, and biases,
 * on the output head too.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row own[] = {
    {"output_norm.bias", IG_LM(norm_bias), {IG_BY_MODEL}, IG_ONCE},
    {"attn_norm.bias", IG_LAYER(attn_norm_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.weight", IG_LAYER(up), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_down.weight", IG_LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER},
    {0},
};

static const ig_weight_row output_bias[] = {
    {"output.bias", IG_LM(output_bias), {IG_BY_VOCABULARY}, IG_ONCE},
    {0},
};

static const ig_weight_row *const weights[] = {ig_weights_ends,
                                               ig_weights_attention,
                                               ig_weights_biases,
                                               ig_weights_plain_biases,
                                               own,
                                               output_bias,
                                               NULL};
static const ig_weight_row *const falcon_weights[] = {ig_weights_ends, ig_weights_attention, own,
                                                      NULL};

const ig_arch ig_arch_phi2 = {
    .name = "phi2",
    .description = "Phi 1 to 2: parallel attention and FFN, LayerNorm, GELU",
    .has_cache = true,
    .layer_norm = true,
    .parallel_residual = true,
    .weights = weights,
    .hidden = ig_lm_forward_gelu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_falcon = {
    .name = "falcon",
    .description = "Falcon 7B: parallel attention and FFN, LayerNorm, GELU",
    .has_cache = true,
    .layer_norm = true,
    .parallel_residual = true,
    .weights = falcon_weights,
    .hidden = ig_lm_forward_gelu,
    .head = ig_lm_head,
};
