/* gemma: as llama, with a scaled embedding and GELU gates; rotary pairs are of two halves. */
#include <math.h>

#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_gated, NULL};

static ig_status read(const ig_keys *keys, ig_hyper *h) {
    (void)keys;
    h->embedding_scale = sqrtf((float)h->size.d_model);
    return IG_OK;
}

const ig_arch ig_arch_gemma = {
    .name = "gemma",
    .description = "Gemma: a scaled embedding, GELU gates",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_decode_geglu,
    .head = ig_lm_head,
};
