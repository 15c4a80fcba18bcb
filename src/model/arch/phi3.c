/*
 * phi3: as llama, with one matrix for q, k and v and one for gate and up.  Long
 * contexts come by factors for each rotary pair (LongRoPE), others for short ones.
 */
#include "model/lm.h"

#define ONCE(member)  offsetof(ig_lm, member)
#define LAYER(member) offsetof(ig_lm_layer, member)

static const ig_weight_row weights[] = {
    {"token_embd.weight", ONCE(embed), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_ONCE},
    {"output_norm.weight", ONCE(norm), {IG_BY_MODEL}, IG_ONCE},
    {"output.weight", ONCE(output), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_MAY_LACK},
    {"rope_factors_long.weight", ONCE(rope_long), {IG_BY_TURNS}, IG_MAY_LACK},
    {"rope_factors_short.weight", ONCE(rope_short), {IG_BY_TURNS}, IG_MAY_LACK},
    {"attn_norm.weight", LAYER(attn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_qkv.weight", LAYER(qkv), {IG_BY_QKV, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_output.weight", LAYER(o), {IG_BY_MODEL, IG_BY_HEAD_VALUES}, IG_EACH_LAYER},
    {"ffn_norm.weight", LAYER(ffn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.weight", LAYER(up), {IG_BY_TWO_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_down.weight", LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER},
    {0},
};

static ig_status read(const ig_keys *keys, ig_hyper *h) {
    return ig_key_int(keys, "attention.sliding_window", IG_OPTIONAL, 0, 1 << 24, &h->window);
}

static ig_tensor *attention(const ig_lm *m, int64_t i, const ig_rows *rows, ig_tensor *x) {
    const ig_lm_layer *l = &m->layers[i];
    const ig_attend_options options = {.window = m->hyper->window};
    ig_lm_qkv heads = ig_lm_project(m, l, x);
    ig_lm_turn_heads(m, rows, &m->hyper->rope, &heads);
    return ig_lm_linear(ig_rows_attend_with(rows, i, heads.q, heads.k, heads.v, options), l->o,
                        NULL);
}

/* The first half of the columns gates the second. */
static ig_tensor *feed_forward(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x) {
    const int64_t ff = m->hyper->size.d_ff;
    ig_tensor *both = ig_lm_linear(x, l->up, NULL);
    ig_tensor *gate = ig_silu(ig_slice(both, -1, 0, ff));
    return ig_lm_linear(ig_mul(gate, ig_slice(both, -1, ff, 2 * ff)), l->down, NULL);
}

static ig_tensor *hidden(void *model, const ig_rows *rows) {
    const ig_lm *m = model;
    const float eps = m->hyper->norm_eps;
    ig_tensor *h = ig_embedding(m->embed, rows->ids);
    for (int64_t i = 0; i < m->hyper->size.n_layers; i++) {
        const ig_lm_layer *l = &m->layers[i];
        h = ig_add(h, attention(m, i, rows, ig_rms_norm(h, l->attn_norm, eps)));
        h = ig_add(h, feed_forward(m, l, ig_rms_norm(h, l->ffn_norm, eps)));
    }
    return ig_rms_norm(h, m->norm, eps);
}

const ig_arch ig_arch_phi3 = {
    .name = "phi3",
    .description = "Phi 3, 3.5 and 4: as llama, with fused matrices and LongRoPE",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = hidden,
    .head = ig_lm_head,
};
