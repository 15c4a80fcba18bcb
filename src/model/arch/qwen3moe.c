/*
 * qwen3moe: qwen3 with a mixture of experts for its feed-forward part.  A router gives
 * each row to a few of many, and their results are added up by its weights.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,       ig_weights_attention,
                                               ig_weights_head_norms, ig_weights_gated,
                                               ig_weights_experts,    NULL};

static ig_status read(const ig_keys *keys, ig_hyper *h) {
    int64_t need;
    (void)h;
    IG_TRY(ig_key_int(keys, "expert_count", IG_REQUIRED, 1, 65536, &need));
    return ig_key_int(keys, "expert_feed_forward_length", IG_REQUIRED, 1, 1 << 24, &need);
}

const ig_arch ig_arch_qwen3moe = {
    .name = "qwen3moe",
    .description = "Qwen 3 with a mixture of experts",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
