/* qwen2: as llama, with biases on queries, keys and values; rotary pairs are of two halves. */
#include "model/lm.h"

#define ONCE(member)  offsetof(ig_lm, member)
#define LAYER(member) offsetof(ig_lm_layer, member)

static const ig_weight_row weights[] = {
    {"token_embd.weight", ONCE(embed), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_ONCE},
    {"output_norm.weight", ONCE(norm), {IG_BY_MODEL}, IG_ONCE},
    {"output.weight", ONCE(output), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_MAY_LACK},
    {"output.bias", ONCE(output_bias), {IG_BY_VOCABULARY}, IG_MAY_LACK},
    {"attn_norm.weight", LAYER(attn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_q.weight", LAYER(q), {IG_BY_HEADS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_k.weight", LAYER(k), {IG_BY_KEYS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_v.weight", LAYER(v), {IG_BY_VALUES, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_output.weight", LAYER(o), {IG_BY_MODEL, IG_BY_HEAD_VALUES}, IG_EACH_LAYER},
    {"attn_q.bias", LAYER(q_bias), {IG_BY_HEADS}, IG_EACH_LAYER},
    {"attn_k.bias", LAYER(k_bias), {IG_BY_KEYS}, IG_EACH_LAYER},
    {"attn_v.bias", LAYER(v_bias), {IG_BY_VALUES}, IG_EACH_LAYER},
    {"ffn_norm.weight", LAYER(ffn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_gate.weight", LAYER(gate), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.weight", LAYER(up), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_down.weight", LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER},
    {0},
};

static ig_tensor *attention(const ig_lm *m, int64_t i, const ig_rows *rows, ig_tensor *x) {
    const ig_lm_layer *l = &m->layers[i];
    ig_lm_qkv heads = ig_lm_project(m, l, x);
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
        h = ig_add(h, ig_lm_gated(l, ig_rms_norm(h, l->ffn_norm, eps), ig_silu));
    }
    return ig_rms_norm(h, m->norm, eps);
}

const ig_arch ig_arch_qwen2 = {
    .name = "qwen2",
    .description = "Qwen 2 and 2.5: as llama, with biases on queries, keys and values",
    .has_cache = true,
    .weights = weights,
    .hidden = hidden,
    .head = ig_lm_head,
};
