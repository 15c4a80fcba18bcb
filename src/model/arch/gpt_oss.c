/*
 * gpt-oss: MoE, biases everywhere. Every second layer has a sliding window; each head has an
 * attention sink; gate and up are clamped.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row own[] = {
    {"attn_sinks.weight", IG_LAYER(sinks), {IG_BY_EACH_HEAD}, IG_EACH_LAYER},
    {"ffn_gate_inp.bias", IG_LAYER(router_bias), {IG_BY_EXPERTS}, IG_EACH_LAYER},
    {"ffn_gate_exps.bias",
     IG_LAYER(gate_experts_bias),
     {IG_BY_EXPERTS, IG_BY_EXPERT_FF},
     IG_EACH_LAYER},
    {"ffn_up_exps.bias",
     IG_LAYER(up_experts_bias),
     {IG_BY_EXPERTS, IG_BY_EXPERT_FF},
     IG_EACH_LAYER},
    {"ffn_down_exps.bias",
     IG_LAYER(down_experts_bias),
     {IG_BY_EXPERTS, IG_BY_MODEL},
     IG_EACH_LAYER},
    {0},
};

static const ig_weight_row *const weights[] = {ig_weights_ends,
                                               ig_weights_attention,
                                               ig_weights_biases,
                                               ig_weights_gated_late,
                                               ig_weights_experts,
                                               own,
                                               NULL};

static ig_status read(const ig_keys *keys, ig_hparams *h) {
    int64_t need;
    h->full_attn_period = 2;
    IG_TRY(ig_key_int(keys, "expert_count", IG_REQUIRED, 1, 65536, &need));
    IG_TRY(ig_key_int(keys, "attention.sliding_window", IG_REQUIRED, 1, 1 << 24, &need));
    return ig_hparams_read_windows(keys, h);
}

const ig_arch ig_arch_gpt_oss = {
    .name = "gpt-oss",
    .description = "gpt-oss: MoE, attention sinks, sliding window in every second layer",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_forward_clamped_swiglu,
    .head = ig_lm_head,
};
