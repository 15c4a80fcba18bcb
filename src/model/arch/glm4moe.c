/*
 * glm4moe: GLM 4.5 and later. RoPE rotates half of each head; leading dense layers, then MoE with a
 * router bias; large models have QK norm.
 */
#include "model/gguf/decoder.h"

static const char *const own_keys[] = {IG_EXPERT_KEYS, NULL};

static const ig_weight_row own[] = {
    {"attn_q_norm.weight", IG_LAYER(q_norm), {IG_BY_HEAD}, IG_EACH_LAYER | IG_OPTIONAL_WEIGHT},
    {"attn_k_norm.weight", IG_LAYER(k_norm), {IG_BY_HEAD}, IG_EACH_LAYER | IG_OPTIONAL_WEIGHT},
    {0},
};

static const ig_weight_row *const weights[] = {
    ig_weights_ends,       ig_weights_attention, ig_weights_biases,      own,
    ig_weights_gated_late, ig_weights_experts,   ig_weights_router_bias, NULL};

static ig_status read(const ig_keys *keys, ig_hparams *h) {
    h->sigmoid_gating = true; /* the default */
    return ig_hparams_read_experts(keys, h);
}

const ig_arch ig_arch_glm4moe = {
    .name = "glm4moe",
    .description = "GLM 4.5 and later: MoE after leading dense layers",
    .has_cache = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
