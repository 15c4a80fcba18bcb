/*
 * qwen3moe: qwen3 with MoE: a router sends each token to its top-k experts and sums their outputs
 * by the router weights.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,       ig_weights_attention,
                                               ig_weights_head_norms, ig_weights_gated,
                                               ig_weights_experts,    NULL};

static ig_status read(const ig_keys *keys, ig_hparams *h) {
    int64_t need;
    (void)h;
    IG_TRY(ig_key_int(keys, "expert_count", IG_REQUIRED, 1, 65536, &need));
    return ig_key_int(keys, "expert_feed_forward_length", IG_REQUIRED, 1, 1 << 24, &need);
}

const ig_arch ig_arch_qwen3moe = {
    .name = "qwen3moe",
    .description = "Qwen 3: qwen3 with MoE",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
