/* seed_oss: qwen2 with another name for the second norm. */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_biases, ig_weights_gated_late, NULL};

const ig_arch ig_arch_seed_oss = {
    .name = "seed_oss",
    .description = "Seed-OSS: like llama, with QKV biases",
    .has_cache = true,
    .weights = weights,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
