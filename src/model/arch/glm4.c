/*
 * glm4: as llama, with gate and up in one matrix, norms before and behind each part, and biases of
 * queries, keys and values; a part of each head turns, in neighbouring pairs.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,    ig_weights_attention,
                                               ig_weights_gate_up, ig_weights_post_norms,
                                               ig_weights_biases,  NULL};

const ig_arch ig_arch_glm4 = {
    .name = "glm4",
    .description = "GLM 4: fused matrices, norms before and behind each part",
    .has_cache = true,
    .pairs = true,
    .weights = weights,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
