/* dots1 and bailingmoe2 (Ling 2): QK norm, and MoE after leading dense layers. */
#include "model/gguf/decoder.h"

static const char *const own_keys[] = {IG_EXPERT_KEYS, NULL};

static const ig_weight_row *const weights[] = {
    ig_weights_ends,  ig_weights_attention, ig_weights_biases,      ig_weights_head_norms,
    ig_weights_gated, ig_weights_experts,   ig_weights_router_bias, NULL};

const ig_arch ig_arch_dots1 = {
    .name = "dots1",
    .description = "dots.llm1: QK norm, MoE after leading dense layers",
    .has_cache = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = ig_hparams_read_experts,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_bailingmoe2 = {
    .name = "bailingmoe2",
    .description = "Ling 2: QK norm, MoE after leading dense layers",
    .has_cache = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = ig_hparams_read_experts,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
