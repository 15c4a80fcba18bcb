/*
 * qwen3moe: qwen3 with a mixture of experts for its feed-forward part.  A router gives
 * each row to a few of many, and their results are added up by its weights.
 */
#include "model/lm.h"

static const ig_weight_row own[] = {
    {"ffn_norm.weight", IG_LAYER(ffn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_gate_inp.weight", IG_LAYER(router), {IG_BY_EXPERTS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_gate_exps.weight",
     IG_LAYER(gate_experts),
     {IG_BY_EXPERTS, IG_BY_EXPERT_FF, IG_BY_MODEL},
     IG_EACH_LAYER},
    {"ffn_up_exps.weight",
     IG_LAYER(up_experts),
     {IG_BY_EXPERTS, IG_BY_EXPERT_FF, IG_BY_MODEL},
     IG_EACH_LAYER},
    {"ffn_down_exps.weight",
     IG_LAYER(down_experts),
     {IG_BY_EXPERTS, IG_BY_MODEL, IG_BY_EXPERT_FF},
     IG_EACH_LAYER},
    {0},
};

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_head_norms, own, NULL};

static ig_status read(const ig_keys *keys, ig_hyper *h) {
    int64_t need;
    IG_TRY(ig_key_int(keys, "expert_count", IG_REQUIRED, 1, 65536, &need));
    IG_TRY(ig_key_int(keys, "expert_used_count", IG_REQUIRED, 1, h->n_experts, &need));
    return ig_key_int(keys, "expert_feed_forward_length", IG_REQUIRED, 1, 1 << 24, &need);
}

static ig_tensor *feed_forward(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x) {
    return ig_lm_experts(m, l, x, ig_silu);
}

static ig_tensor *hidden(void *model, const ig_rows *rows) {
    return ig_lm_decode(model, rows, feed_forward);
}

const ig_arch ig_arch_qwen3moe = {
    .name = "qwen3moe",
    .description = "Qwen 3 with a mixture of experts",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = hidden,
    .head = ig_lm_head,
};
