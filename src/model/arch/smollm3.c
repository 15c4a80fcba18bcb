/* smollm3: as llama, but each fourth layer turns no heads. */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,         ig_weights_attention,
                                               ig_weights_gated,        ig_weights_biases,
                                               ig_weights_gated_biases, NULL};

static ig_status read(const ig_keys *keys, ig_hyper *h) {
    (void)keys;
    h->unturned_period = 4;
    return IG_OK;
}

const ig_arch ig_arch_smollm3 = {
    .name = "smollm3",
    .description = "SmolLM 3: as llama, with layers that know no positions",
    .has_cache = true,
    .pairs = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
