/* dots1 and bailingmoe2 (Ling 2): norms of heads, and a mixture of experts behind layers without.
 */
#include "model/gguf/decoder.h"

static const char *const own_keys[] = {IG_EXPERT_KEYS, NULL};

static const ig_weight_row *const weights[] = {
    ig_weights_ends,  ig_weights_attention, ig_weights_biases, ig_weights_head_norms,
    ig_weights_gated, ig_weights_experts,   ig_weights_choice, NULL};

const ig_arch ig_arch_dots1 = {
    .name = "dots1",
    .description = "dots.llm1: norms of heads, a mixture of experts behind layers without",
    .has_cache = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = ig_hyper_read_experts,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_bailingmoe2 = {
    .name = "bailingmoe2",
    .description = "Ling 2: norms of heads, a mixture of experts behind layers without",
    .has_cache = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = ig_hyper_read_experts,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
