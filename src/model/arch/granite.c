/*
 * granite, granitemoe and minicpm: as llama, dense or MoE, with scales of the embedding, attention
 * scores, residual and logits.
 */
#include <math.h>

#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {
    ig_weights_ends,   ig_weights_attention,    ig_weights_gated, ig_weights_experts,
    ig_weights_biases, ig_weights_gated_biases, ig_weights_rope,  NULL};

static const char *const own_keys[] = {"logit_scale", "embedding_scale", "residual_scale", NULL};

/* Logits are divided by their scale. */
static ig_status read(const ig_keys *keys, ig_hparams *h) {
    IG_TRY(ig_key_real(keys, "logit_scale", IG_REQUIRED, 1e-6F, 1e6F, &h->logit_scale));
    h->logit_scale = 1 / h->logit_scale;
    return IG_OK;
}

/* The same keys; the defaults are MiniCPM's. */
static ig_status read_minicpm(const ig_keys *keys, ig_hparams *h) {
    float logits = 256 / (float)h->size.d_model;
    if (h->embedding_scale == 0) h->embedding_scale = 12;
    if (h->residual_scale == 0) h->residual_scale = 1.4F / sqrtf((float)h->size.n_layers);
    IG_TRY(ig_key_real(keys, "logit_scale", IG_OPTIONAL, 1e-6F, 1e6F, &logits));
    h->logit_scale = 1 / logits;
    return IG_OK;
}

const ig_arch ig_arch_granite = {
    .name = "granite",
    .description = "Granite 3: like llama, with scaled embedding, attention, residual and logits",
    .has_cache = true,
    .rope_interleaved = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_granitemoe = {
    .name = "granitemoe",
    .description = "Granite 3: granite with MoE",
    .has_cache = true,
    .rope_interleaved = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_minicpm = {
    .name = "minicpm",
    .description = "MiniCPM: like granite",
    .has_cache = true,
    .rope_interleaved = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read_minicpm,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
