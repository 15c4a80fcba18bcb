/* smollm3: as llama, but every fourth layer is NoPE. */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,         ig_weights_attention,
                                               ig_weights_gated,        ig_weights_biases,
                                               ig_weights_gated_biases, NULL};

static ig_status read(const ig_keys *keys, ig_hparams *h) {
    (void)keys;
    h->nope_period = 4;
    return IG_OK;
}

const ig_arch ig_arch_smollm3 = {
    .name = "smollm3",
    .description = "SmolLM 3: like llama, with NoPE layers",
    .has_cache = true,
    .rope_interleaved = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
