/*
 * granite, granitemoe and minicpm: as llama, by experts or not, and with a scale for each of
 * embedding, attention, what a layer adds, and logits.
 */
#include <math.h>

#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {
    ig_weights_ends,   ig_weights_attention,    ig_weights_gated, ig_weights_experts,
    ig_weights_biases, ig_weights_gated_biases, ig_weights_rope,  NULL};

static const char *const own_keys[] = {"logit_scale", "embedding_scale", "residual_scale", NULL};

/* Logits are divided by their scale, not multiplied. */
static ig_status read(const ig_keys *keys, ig_hyper *h) {
    IG_TRY(ig_key_real(keys, "logit_scale", IG_REQUIRED, 1e-6F, 1e6F, &h->logit_scale));
    h->logit_scale = 1 / h->logit_scale;
    return IG_OK;
}

/* The same by default, where a file says nothing: what MiniCPM was made with. */
static ig_status read_minicpm(const ig_keys *keys, ig_hyper *h) {
    float logits = 256 / (float)h->size.d_model;
    if (h->embedding_scale == 0) h->embedding_scale = 12;
    if (h->residual_scale == 0) h->residual_scale = 1.4F / sqrtf((float)h->size.n_layers);
    IG_TRY(ig_key_real(keys, "logit_scale", IG_OPTIONAL, 1e-6F, 1e6F, &logits));
    h->logit_scale = 1 / logits;
    return IG_OK;
}

const ig_arch ig_arch_granite = {
    .name = "granite",
    .description = "Granite 3: as llama, with scales of its own",
    .has_cache = true,
    .pairs = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_granitemoe = {
    .name = "granitemoe",
    .description = "Granite 3 with a mixture of experts",
    .has_cache = true,
    .pairs = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_minicpm = {
    .name = "minicpm",
    .description = "MiniCPM: as granite",
    .has_cache = true,
    .pairs = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read_minicpm,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
