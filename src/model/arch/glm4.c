/*
 * glm4: as llama, with fused gate and up, norms before and after attention and feed-forward, and
 * QKV biases; interleaved partial RoPE.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,    ig_weights_attention,
                                               ig_weights_gate_up, ig_weights_post_norms,
                                               ig_weights_biases,  NULL};

const ig_arch ig_arch_glm4 = {
    .name = "glm4",
    .description = "GLM 4: fused gate-up matrix, norms before and after each part",
    .has_cache = true,
    .rope_interleaved = true,
    .weights = weights,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
