/* olmoe: MoE without renormalized router weights; QK norm over all heads at once. */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,      ig_weights_attention,
                                               ig_weights_row_norms, ig_weights_gated,
                                               ig_weights_experts,   NULL};

static ig_status read(const ig_keys *keys, ig_hparams *h) {
    int64_t need;
    h->no_norm_topk = true;
    return ig_key_int(keys, "expert_count", IG_REQUIRED, 1, 65536, &need);
}

const ig_arch ig_arch_olmoe = {
    .name = "olmoe",
    .description = "OLMoE: QK norm over all heads, MoE",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
