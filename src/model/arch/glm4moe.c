/*
 * glm4moe: GLM 4.5 and later.  Half of each head turns; experts behind layers without, chosen with
 * a bias; large ones have norms of heads.
 */
#include "model/gguf/decoder.h"

static const char *const own_keys[] = {IG_EXPERT_KEYS, NULL};

static const ig_weight_row own[] = {
    {"attn_q_norm.weight", IG_LAYER(q_norm), {IG_BY_HEAD}, IG_EACH_LAYER | IG_MAY_LACK},
    {"attn_k_norm.weight", IG_LAYER(k_norm), {IG_BY_HEAD}, IG_EACH_LAYER | IG_MAY_LACK},
    {0},
};

static const ig_weight_row *const weights[] = {
    ig_weights_ends,       ig_weights_attention, ig_weights_biases, own,
    ig_weights_gated_late, ig_weights_experts,   ig_weights_choice, NULL};

static ig_status read(const ig_keys *keys, ig_hyper *h) {
    h->sigmoid_routes = true; /* unless the file says otherwise */
    return ig_hyper_read_experts(keys, h);
}

const ig_arch ig_arch_glm4moe = {
    .name = "glm4moe",
    .description = "GLM 4.5 and later: a mixture of experts behind layers without",
    .has_cache = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
