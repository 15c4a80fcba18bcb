/*
 * phi3: as llama, with one matrix for q, k and v and one for gate and up.  Long
 * contexts come by factors for each rotary pair (LongRoPE), others for short ones.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_gate_up, ig_weights_rope, NULL};

const ig_arch ig_arch_phi3 = {
    .name = "phi3",
    .description = "Phi 3, 3.5 and 4: as llama, with fused matrices and LongRoPE",
    .has_cache = true,
    .weights = weights,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
