/*
 * llama: Llama 1 to 3, Mistral, Mixtral and models with the same block, such as internlm2 and
 * ernie4_5. RMSNorm, interleaved RoPE (converters permute the rows of q and k), GQA, SwiGLU, dense
 * or MoE. Long-context files bring a frequency factor per rotary pair.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {
    ig_weights_ends,   ig_weights_attention,    ig_weights_gated, ig_weights_experts,
    ig_weights_biases, ig_weights_gated_biases, ig_weights_rope,  NULL};

const ig_arch ig_arch_llama = {
    .name = "llama",
    .description = "Llama, Mistral, Mixtral: RMSNorm, RoPE, GQA, SwiGLU",
    .has_cache = true,
    .rope_interleaved = true,
    .weights = weights,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_internlm2 = {
    .name = "internlm2",
    .description = "InternLM 2: like llama",
    .has_cache = true,
    .rope_interleaved = true,
    .weights = weights,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_ernie4_5 = {
    .name = "ernie4_5",
    .description = "ERNIE 4.5: like llama",
    .has_cache = true,
    .rope_interleaved = true,
    .weights = weights,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
