/*
 * deepseek: DeepSeek's first MoE model, with leading dense layers.
 * deepseek2: V2, V3, R1 and the same architecture: multi-head latent attention (mla.c).
 */
#include <math.h>

#include "model/gguf/decoder.h"

static const char *const expert_keys[] = {IG_EXPERT_KEYS, NULL};

static const ig_weight_row *const weights[] = {ig_weights_ends,    ig_weights_attention,
                                               ig_weights_biases,  ig_weights_gated,
                                               ig_weights_experts, NULL};

static ig_status read(const ig_keys *keys, ig_hparams *h) {
    IG_TRY(ig_hparams_read_experts(keys, h));
    h->no_norm_topk = true;
    return IG_OK;
}

const ig_arch ig_arch_deepseek = {
    .name = "deepseek",
    .description = "DeepSeek MoE: MoE after leading dense layers",
    .has_cache = true,
    .weights = weights,
    .own_keys = expert_keys,
    .rope_interleaved = true,
    .read = read,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};

/* ---- deepseek2 ---- */

static const char *const latent_keys[] = {IG_EXPERT_KEYS, "rope.scaling.yarn_log_multiplier", NULL};

static const ig_weight_row *const latent_weights[] = {ig_weights_ends,        ig_weights_mla,
                                                      ig_weights_gated,       ig_weights_experts,
                                                      ig_weights_router_bias, NULL};

/* Files for absorbed MLA have the head widths of keys and values in keys of their own. */
static ig_status read_widths(const ig_keys *keys, ig_hparams *h) {
    enum { MOST = 65536 };
    ig_lm_config *c = &h->size;
    IG_TRY(ig_key_int(keys, "attention.q_lora_rank", IG_OPTIONAL, 0, MOST, &h->q_lora_rank));
    IG_TRY(ig_key_int(keys, "attention.kv_lora_rank", IG_REQUIRED, 1, MOST, &h->kv_lora_rank));
    IG_TRY(ig_key_int(keys, "attention.key_length_mla", IG_OPTIONAL, 1, MOST, &h->qk_head_dim));
    IG_TRY(ig_key_int(keys, "attention.value_length_mla", IG_OPTIONAL, 1, MOST, &h->v_head_dim));
    h->mla_absorbed = h->qk_head_dim > 0 && h->v_head_dim > 0;
    if (!h->mla_absorbed) {
        h->qk_head_dim = c->key_width, h->v_head_dim = c->value_width;
        c->n_kv_heads = c->n_heads;
    } else {
        c->key_width = h->kv_lora_rank + h->rope.rotary_dims, c->value_width = h->kv_lora_rank;
        c->n_kv_heads = 1;
    }
    if (h->qk_head_dim > h->rope.rotary_dims) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT,
                   "%s: %s: RoPE covers all %lld dimensions of a key; MLA needs some without RoPE",
                   keys->source, keys->arch, (long long)h->qk_head_dim);
}

/* If YaRN extended the context, its mscale scales the rotated heads; if the file has a multiplier,
 * it scales all scores and the rotated heads stay unscaled. */
static ig_status read_scale(const ig_keys *keys, ig_hparams *h) {
    float share = 0;
    IG_TRY(ig_key_real(keys, "rope.scaling.yarn_log_multiplier", IG_OPTIONAL, 0, 10, &share));
    const float log_scale = h->yarn_scale > 1 ? logf(h->yarn_scale) : 0;
    float gain = h->mscale > 0 ? h->mscale : 1;
    if (share > 0) gain /= 1 + 0.1F * log_scale; /* YaRN's own mscale */
    h->mscale = gain;
    const float all = gain * (1 + share * log_scale);
    h->attention_scale = all * all / sqrtf((float)h->qk_head_dim);
    return IG_OK;
}

static ig_status read_latent(const ig_keys *keys, ig_hparams *h) {
    if (h->sliding_window > 0)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: deepseek2 with a sliding window of %lld is not supported", keys->source,
                       (long long)h->sliding_window);
    IG_TRY(ig_hparams_read_experts(keys, h));
    IG_TRY(read_widths(keys, h));
    return read_scale(keys, h);
}

const ig_arch ig_arch_deepseek2 = {
    .name = "deepseek2",
    .description = "DeepSeek V2, V3 and R1: MLA, MoE",
    .has_cache = true,
    .weights = latent_weights,
    .own_keys = latent_keys,
    .rope_interleaved = true,
    .read = read_latent,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
