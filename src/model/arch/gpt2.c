/* gpt2: learned positions, pre-norm LayerNorm, fused QKV, biases, GELU. */
#include "model/gguf/decoder.h"

static const ig_weight_row own[] = {
    {"position_embd.weight", IG_LM(positions), {IG_BY_CONTEXT, IG_BY_MODEL}, IG_ONCE},
    {"attn_qkv.bias", IG_LAYER(qkv_bias), {IG_BY_QKV}, IG_EACH_LAYER},
    {"attn_output.bias", IG_LAYER(o_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_norm.bias", IG_LAYER(ffn_norm_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.bias", IG_LAYER(up_bias), {IG_BY_FF}, IG_EACH_LAYER},
    {"ffn_down.bias", IG_LAYER(down_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {0},
};

static const ig_weight_row *const weights[] = {
    ig_weights_ends, ig_weights_attention, ig_weights_plain, ig_weights_norm_biases, own, NULL};

const ig_arch ig_arch_gpt2 = {
    .name = "gpt2",
    .description = "GPT-2: learned positions, LayerNorm, biases, GELU",
    .has_cache = true,
    .layer_norm = true,
    .weights = weights,
    .hidden = ig_lm_forward_gelu,
    .head = ig_lm_head,
};
