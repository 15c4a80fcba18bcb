/* gemma: as llama, with a scaled embedding and GELU gates; NeoX RoPE. */
#include <math.h>

#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_gated, NULL};

static ig_status read(const ig_keys *keys, ig_hparams *h) {
    (void)keys;
    h->embedding_scale = sqrtf((float)h->size.d_model);
    return IG_OK;
}

const ig_arch ig_arch_gemma = {
    .name = "gemma",
    .description = "Gemma: scaled embedding, GEGLU",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_forward_geglu,
    .head = ig_lm_head,
};
