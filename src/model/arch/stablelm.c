/* stablelm and orion: pre-norm LayerNorm, SwiGLU; stablelm has partial RoPE. */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,   ig_weights_attention,
                                               ig_weights_gated,  ig_weights_norm_biases,
                                               ig_weights_biases, NULL};

const ig_arch ig_arch_stablelm = {
    .name = "stablelm",
    .description = "StableLM: LayerNorm, RoPE, SwiGLU",
    .has_cache = true,
    .layer_norm = true,
    .weights = weights,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_orion = {
    .name = "orion",
    .description = "Orion: like llama, with LayerNorm",
    .has_cache = true,
    .layer_norm = true,
    .weights = weights,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
