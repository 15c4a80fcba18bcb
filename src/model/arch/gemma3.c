/*
 * gemma3: most layers look back over a window only, with rotary positions of a pace
 * of their own; each sixth sees all.  Norms stand before and behind each part, and on
 * the heads of queries and keys; the embedding is scaled; GELU gates.
 */
#include <math.h>

#include "model/lm.h"

static const ig_weight_row own[] = {
    {"post_attention_norm.weight", IG_LAYER(attn_post_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"post_ffw_norm.weight", IG_LAYER(ffn_post_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {0},
};

static const ig_weight_row *const weights[] = {
    ig_weights_ends, ig_weights_attention, ig_weights_head_norms, ig_weights_gated, own, NULL};

/* Most files name neither the period of the layers that see all nor the pace of the others. */
static ig_status read(const ig_keys *keys, ig_hyper *h) {
    enum { PERIOD = 6, LAYERS_OF_27B = 62 };
    h->window_period = PERIOD;
    h->rope_window = h->rope;
    h->rope_window.scale = 1;
    h->rope_window.base = 10000;
    IG_TRY(ig_key_int(keys, "attention.sliding_window", IG_REQUIRED, 1, 1 << 24, &h->window));
    IG_TRY(ig_key_int(keys, "attention.sliding_window_pattern", IG_OPTIONAL, 1, 4096,
                      &h->window_period));
    IG_TRY(ig_key_real(keys, "rope.freq_base_swa", IG_OPTIONAL, 1, 1e12F, &h->rope_window.base));
    if (h->size.n_layers == LAYERS_OF_27B) /* the one whose heads are narrower than d / n */
        h->attention_scale = 1 / sqrtf((float)h->size.d_model / (float)h->size.n_heads);
    return IG_OK;
}

static ig_tensor *attention(const ig_lm *m, int64_t i, const ig_rows *rows, ig_tensor *x) {
    const ig_hyper *h = m->hyper;
    const ig_lm_layer *l = &m->layers[i];
    const bool sees_all = (i + 1) % h->window_period == 0;
    const ig_attend_options options = {h->attention_scale, sees_all ? 0 : h->window};
    ig_lm_qkv heads = ig_lm_project(m, l, x);
    ig_lm_norm_heads(m, l, &heads);
    ig_lm_turn_heads(m, rows, sees_all ? &h->rope : &h->rope_window, &heads);
    return ig_lm_linear(ig_rows_attend_with(rows, i, heads.q, heads.k, heads.v, options), l->o,
                        NULL);
}

static ig_tensor *gelu(ig_tensor *x) { return ig_gelu(x, IG_GELU_TANH); }

static ig_tensor *hidden(void *model, const ig_rows *rows) {
    const ig_lm *m = model;
    const float eps = m->hyper->norm_eps;
    ig_ctx *ctx = ig_tensor_ctx(rows->ids);
    ig_tensor *h =
        ig_scale(ig_embedding(m->embed, rows->ids), sqrt((double)m->hyper->size.d_model), 0);
    for (int64_t i = 0; i < m->hyper->size.n_layers; i++) {
        const ig_lm_layer *l = &m->layers[i];
        ig_tensor *x = ig_rms_norm(h, l->attn_norm, eps);
        ig_tag_begin(ctx, IG_TAG_ATTENTION);
        x = attention(m, i, rows, x);
        h = ig_add(ig_rows_asked(rows, i, h), ig_rms_norm(x, l->attn_post_norm, eps));
        ig_tag_end(ctx);
        x = ig_rms_norm(h, l->ffn_norm, eps);
        ig_tag_begin(ctx, IG_TAG_FFN);
        x = ig_lm_gated(l, x, gelu);
        h = ig_add(h, ig_rms_norm(x, l->ffn_post_norm, eps));
        ig_tag_end(ctx);
    }
    return ig_rms_norm(h, m->norm, eps);
}

const ig_arch ig_arch_gemma3 = {
    .name = "gemma3",
    .description = "Gemma 3: windowed layers, norms before and behind each part, GELU gates",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = hidden,
    .head = ig_lm_head,
};
