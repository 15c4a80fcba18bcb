/* scratchlm: as qwen3. */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_head_norms, ig_weights_gated, NULL};

const ig_arch ig_arch_scratchlm = {
    .name = "scratchlm",
    .description = "as qwen3",
    .has_cache = true,
    .weights = weights,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
