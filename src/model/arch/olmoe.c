/* olmoe: a mixture of experts whose weights are as the router has them; norms over all heads. */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,      ig_weights_attention,
                                               ig_weights_row_norms, ig_weights_gated,
                                               ig_weights_experts,   NULL};

static ig_status read(const ig_keys *keys, ig_hyper *h) {
    int64_t need;
    h->raw_routes = true;
    return ig_key_int(keys, "expert_count", IG_REQUIRED, 1, 65536, &need);
}

const ig_arch ig_arch_olmoe = {
    .name = "olmoe",
    .description = "OLMoE: norms over all heads, a mixture of experts",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
