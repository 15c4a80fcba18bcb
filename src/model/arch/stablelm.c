/* stablelm and orion: LayerNorm before each part, SwiGLU; in stablelm a part of each head turns. */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,   ig_weights_attention,
                                               ig_weights_gated,  ig_weights_norm_biases,
                                               ig_weights_biases, NULL};

const ig_arch ig_arch_stablelm = {
    .name = "stablelm",
    .description = "StableLM: LayerNorm, rotary positions, SwiGLU",
    .has_cache = true,
    .layer_norm = true,
    .weights = weights,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_orion = {
    .name = "orion",
    .description = "Orion: as llama, with LayerNorm",
    .has_cache = true,
    .layer_norm = true,
    .weights = weights,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
