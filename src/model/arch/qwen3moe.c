/*
 * qwen3moe: qwen3 with a mixture of experts for its feed-forward part.  A router gives
 * each row to a few of many, and their results are added up by its weights.
 */
#include "model/lm.h"

#define ONCE(member)  offsetof(ig_lm, member)
#define LAYER(member) offsetof(ig_lm_layer, member)

static const ig_weight_row weights[] = {
    {"token_embd.weight", ONCE(embed), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_ONCE},
    {"output_norm.weight", ONCE(norm), {IG_BY_MODEL}, IG_ONCE},
    {"output.weight", ONCE(output), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_MAY_LACK},
    {"attn_norm.weight", LAYER(attn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_q.weight", LAYER(q), {IG_BY_HEADS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_k.weight", LAYER(k), {IG_BY_KEYS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_v.weight", LAYER(v), {IG_BY_VALUES, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_output.weight", LAYER(o), {IG_BY_MODEL, IG_BY_HEAD_VALUES}, IG_EACH_LAYER},
    {"attn_q_norm.weight", LAYER(q_norm), {IG_BY_HEAD}, IG_EACH_LAYER},
    {"attn_k_norm.weight", LAYER(k_norm), {IG_BY_HEAD}, IG_EACH_LAYER},
    {"ffn_norm.weight", LAYER(ffn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_gate_inp.weight", LAYER(router), {IG_BY_EXPERTS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_gate_exps.weight",
     LAYER(gate_experts),
     {IG_BY_EXPERTS, IG_BY_EXPERT_FF, IG_BY_MODEL},
     IG_EACH_LAYER},
    {"ffn_up_exps.weight",
     LAYER(up_experts),
     {IG_BY_EXPERTS, IG_BY_EXPERT_FF, IG_BY_MODEL},
     IG_EACH_LAYER},
    {"ffn_down_exps.weight",
     LAYER(down_experts),
     {IG_BY_EXPERTS, IG_BY_MODEL, IG_BY_EXPERT_FF},
     IG_EACH_LAYER},
    {0},
};

static ig_status read(const ig_keys *keys, ig_hyper *h) {
    int64_t need;
    IG_TRY(ig_key_int(keys, "expert_count", IG_REQUIRED, 1, 65536, &need));
    IG_TRY(ig_key_int(keys, "expert_used_count", IG_REQUIRED, 1, h->n_experts, &need));
    return ig_key_int(keys, "expert_feed_forward_length", IG_REQUIRED, 1, 1 << 24, &need);
}

static ig_tensor *attention(const ig_lm *m, int64_t i, const ig_rows *rows, ig_tensor *x) {
    const ig_lm_layer *l = &m->layers[i];
    ig_lm_qkv heads = ig_lm_project(m, l, x);
    ig_lm_norm_heads(m, l, &heads);
    ig_lm_turn_heads(m, rows, &m->hyper->rope, &heads);
    return ig_lm_linear(ig_rows_attend(rows, i, heads.q, heads.k, heads.v), l->o, NULL);
}

static ig_tensor *hidden(void *model, const ig_rows *rows) {
    const ig_lm *m = model;
    const float eps = m->hyper->norm_eps;
    ig_tensor *h = ig_embedding(m->embed, rows->ids);
    for (int64_t i = 0; i < m->hyper->size.n_layers; i++) {
        const ig_lm_layer *l = &m->layers[i];
        h = ig_add(h, attention(m, i, rows, ig_rms_norm(h, l->attn_norm, eps)));
        h = ig_add(h, ig_lm_experts(m, l, ig_rms_norm(h, l->ffn_norm, eps), ig_silu));
    }
    return ig_rms_norm(h, m->norm, eps);
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
