/*
 * llama: Llama 1 to 3, Mistral, Mixtral and what is built like them, as internlm2 and ernie4_5 are.
 * RMSNorm, rotary positions in neighbouring pairs (converters have put the rows of q and k in that
 * order), heads that share keys and values, SwiGLU, by experts or not. Files for long contexts
 * bring a factor for each pair.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {
    ig_weights_ends,   ig_weights_attention,    ig_weights_gated, ig_weights_experts,
    ig_weights_biases, ig_weights_gated_biases, ig_weights_rope,  NULL};

const ig_arch ig_arch_llama = {
    .name = "llama",
    .description = "Llama, Mistral, Mixtral: RMSNorm, rotary positions, grouped attention, SwiGLU",
    .has_cache = true,
    .pairs = true,
    .weights = weights,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_internlm2 = {
    .name = "internlm2",
    .description = "InternLM 2: as llama",
    .has_cache = true,
    .pairs = true,
    .weights = weights,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_ernie4_5 = {
    .name = "ernie4_5",
    .description = "ERNIE 4.5: as llama",
    .has_cache = true,
    .pairs = true,
    .weights = weights,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
