/*
 * phi3: as llama, with fused QKV and fused gate and up. LongRoPE: frequency factors per rotary
 * pair, one set for long contexts and one for short ones.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_gate_up, ig_weights_rope, NULL};

const ig_arch ig_arch_phi3 = {
    .name = "phi3",
    .description = "Phi 3, 3.5 and 4: like llama, with fused QKV and gate-up matrices, LongRoPE",
    .has_cache = true,
    .weights = weights,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
