/*
 * deepseek: DeepSeek's first mixture of experts, whose first layers have none.
 * deepseek2: V2, V3 and R1, and others of that form: latent attention (lm_latent.c).
 */
#include <math.h>

#include "model/gguf/decoder.h"

static const char *const expert_keys[] = {IG_EXPERT_KEYS, NULL};

static const ig_weight_row *const weights[] = {ig_weights_ends,    ig_weights_attention,
                                               ig_weights_biases,  ig_weights_gated,
                                               ig_weights_experts, NULL};

static ig_status read(const ig_keys *keys, ig_hyper *h) {
    IG_TRY(ig_hyper_read_experts(keys, h));
    h->raw_routes = true;
    return IG_OK;
}

const ig_arch ig_arch_deepseek = {
    .name = "deepseek",
    .description = "DeepSeek MoE: a mixture of experts behind layers without",
    .has_cache = true,
    .weights = weights,
    .own_keys = expert_keys,
    .pairs = true,
    .read = read,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};

/* ---- deepseek2 ---- */

static const char *const latent_keys[] = {IG_EXPERT_KEYS, "rope.scaling.yarn_log_multiplier", NULL};

static const ig_weight_row *const latent_weights[] = {ig_weights_ends,   ig_weights_latent,
                                                      ig_weights_gated,  ig_weights_experts,
                                                      ig_weights_choice, NULL};

/* Files that keep what keys are made of say how wide keys and values would be. */
static ig_status read_widths(const ig_keys *keys, ig_hyper *h) {
    enum { MOST = 65536 };
    ig_lm_config *c = &h->size;
    IG_TRY(ig_key_int(keys, "attention.q_lora_rank", IG_OPTIONAL, 0, MOST, &h->query_rank));
    IG_TRY(ig_key_int(keys, "attention.kv_lora_rank", IG_REQUIRED, 1, MOST, &h->latent_rank));
    IG_TRY(ig_key_int(keys, "attention.key_length_mla", IG_OPTIONAL, 1, MOST, &h->latent_key));
    IG_TRY(ig_key_int(keys, "attention.value_length_mla", IG_OPTIONAL, 1, MOST, &h->latent_value));
    h->keeps_latent = h->latent_key > 0 && h->latent_value > 0;
    if (!h->keeps_latent) {
        h->latent_key = c->key_width, h->latent_value = c->value_width;
        c->n_kv_heads = c->n_heads;
    } else {
        c->key_width = h->latent_rank + h->rope.dims, c->value_width = h->latent_rank;
        c->n_kv_heads = 1;
    }
    if (h->latent_key > h->rope.dims) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s: %s: all %lld numbers of a key turn; some must not",
                   keys->source, keys->arch, (long long)h->latent_key);
}

/* Where the context was stretched, turned heads are scaled by YaRN's gain; or, by a multiplier that
 * the file has, all scores are and turned heads are not. */
static ig_status read_scale(const ig_keys *keys, ig_hyper *h) {
    float share = 0;
    IG_TRY(ig_key_real(keys, "rope.scaling.yarn_log_multiplier", IG_OPTIONAL, 0, 10, &share));
    const float stretch = h->yarn > 1 ? logf(h->yarn) : 0;
    float gain = h->rope_gain > 0 ? h->rope_gain : 1;
    if (share > 0) gain /= 1 + 0.1F * stretch; /* what YaRN has put into it */
    h->rope_gain = gain;
    const float all = gain * (1 + share * stretch);
    h->attention_scale = all * all / sqrtf((float)h->latent_key);
    return IG_OK;
}

static ig_status read_latent(const ig_keys *keys, ig_hyper *h) {
    if (h->window > 0)
        return IG_FAIL(IG_ERR_FORMAT, "%s: deepseek2 with a window of %lld is not known",
                       keys->source, (long long)h->window);
    IG_TRY(ig_hyper_read_experts(keys, h));
    IG_TRY(read_widths(keys, h));
    return read_scale(keys, h);
}

const ig_arch ig_arch_deepseek2 = {
    .name = "deepseek2",
    .description = "DeepSeek V2, V3 and R1: latent attention, a mixture of experts",
    .has_cache = true,
    .weights = latent_weights,
    .own_keys = latent_keys,
    .pairs = true,
    .read = read_latent,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
