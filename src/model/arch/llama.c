/*
 * llama: Llama 1 to 3, Mistral and what is built like them.  RMSNorm, rotary
 * positions in neighbouring pairs, heads that share keys and values, SwiGLU.
 * Files for long contexts bring a factor for each pair.
 */
#include "model/lm.h"

#define ONCE(member)  offsetof(ig_lm, member)
#define LAYER(member) offsetof(ig_lm_layer, member)

static const ig_weight_row weights[] = {
    {"token_embd.weight", ONCE(embed), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_ONCE},
    {"output_norm.weight", ONCE(norm), {IG_BY_MODEL}, IG_ONCE},
    {"output.weight", ONCE(output), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_MAY_LACK},
    {"rope_freqs.weight", ONCE(rope_factors), {IG_BY_TURNS}, IG_MAY_LACK},
    {"attn_norm.weight", LAYER(attn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_q.weight", LAYER(q), {IG_BY_HEADS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_k.weight", LAYER(k), {IG_BY_KEYS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_v.weight", LAYER(v), {IG_BY_VALUES, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_output.weight", LAYER(o), {IG_BY_MODEL, IG_BY_HEAD_VALUES}, IG_EACH_LAYER},
    {"attn_q.bias", LAYER(q_bias), {IG_BY_HEADS}, IG_EACH_LAYER | IG_MAY_LACK},
    {"attn_k.bias", LAYER(k_bias), {IG_BY_KEYS}, IG_EACH_LAYER | IG_MAY_LACK},
    {"attn_v.bias", LAYER(v_bias), {IG_BY_VALUES}, IG_EACH_LAYER | IG_MAY_LACK},
    {"attn_output.bias", LAYER(o_bias), {IG_BY_MODEL}, IG_EACH_LAYER | IG_MAY_LACK},
    {"ffn_norm.weight", LAYER(ffn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_gate.weight", LAYER(gate), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.weight", LAYER(up), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_down.weight", LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER},
    {"ffn_gate.bias", LAYER(gate_bias), {IG_BY_FF}, IG_EACH_LAYER | IG_MAY_LACK},
    {"ffn_up.bias", LAYER(up_bias), {IG_BY_FF}, IG_EACH_LAYER | IG_MAY_LACK},
    {"ffn_down.bias", LAYER(down_bias), {IG_BY_MODEL}, IG_EACH_LAYER | IG_MAY_LACK},
    {0},
};

/* Converters have put the rows of q and k in an order that makes pairs neighbours. */
static ig_status read(const ig_keys *keys, ig_hyper *h) {
    h->rope.form = IG_ROPE_PAIRS;
    if (h->n_experts == 0) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s: llama with %lld experts (Mixtral) is not known",
                   keys->source, (long long)h->n_experts);
}

static ig_tensor *attention(const ig_lm *m, int64_t i, const ig_rows *rows, ig_tensor *x) {
    const ig_lm_layer *l = &m->layers[i];
    ig_lm_qkv heads = ig_lm_project(m, l, x);
    ig_lm_turn_heads(m, rows, &m->hyper->rope, &heads);
    return ig_lm_linear(ig_rows_attend(rows, i, heads.q, heads.k, heads.v), l->o, l->o_bias);
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

const ig_arch ig_arch_llama = {
    .name = "llama",
    .description = "Llama, Mistral: RMSNorm, rotary positions, grouped attention, SwiGLU",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = hidden,
    .head = ig_lm_head,
};
