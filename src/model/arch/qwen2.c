/* qwen2: as llama, with QKV biases; NeoX RoPE. */
#include "model/gguf/decoder.h"

static const ig_weight_row own[] = {
    {"output.bias", IG_LM(output_bias), {IG_BY_VOCABULARY}, IG_OPTIONAL_WEIGHT},
    {"attn_q.bias", IG_LAYER(q_bias), {IG_BY_HEADS}, IG_EACH_LAYER | IG_SPLIT_QKV},
    {"attn_k.bias", IG_LAYER(k_bias), {IG_BY_KEYS}, IG_EACH_LAYER | IG_SPLIT_QKV},
    {"attn_v.bias", IG_LAYER(v_bias), {IG_BY_VALUES}, IG_EACH_LAYER | IG_SPLIT_QKV},
    {"attn_qkv.bias", IG_LAYER(qkv_bias), {IG_BY_QKV}, IG_EACH_LAYER | IG_FUSED_QKV},
    {0},
};

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_gated, own, NULL};

const ig_arch ig_arch_qwen2 = {
    .name = "qwen2",
    .description = "Qwen 2 and 2.5: like llama, with QKV biases",
    .has_cache = true,
    .weights = weights,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
