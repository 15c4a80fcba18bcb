/* gpt2: learned positions, LayerNorm before each part, one matrix for q, k and v, biases, GELU. */
#include "model/lm.h"

static const ig_weight_row own[] = {
    {"token_embd.weight", IG_LM(embed), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_ONCE},
    {"position_embd.weight", IG_LM(positions), {IG_BY_CONTEXT, IG_BY_MODEL}, IG_ONCE},
    {"output_norm.weight", IG_LM(norm), {IG_BY_MODEL}, IG_ONCE},
    {"output_norm.bias", IG_LM(norm_bias), {IG_BY_MODEL}, IG_ONCE},
    {"output.weight", IG_LM(output), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_MAY_LACK},
    {"attn_norm.weight", IG_LAYER(attn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_norm.bias", IG_LAYER(attn_norm_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_qkv.weight", IG_LAYER(qkv), {IG_BY_QKV, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_qkv.bias", IG_LAYER(qkv_bias), {IG_BY_QKV}, IG_EACH_LAYER},
    {"attn_output.weight", IG_LAYER(o), {IG_BY_MODEL, IG_BY_HEAD_VALUES}, IG_EACH_LAYER},
    {"attn_output.bias", IG_LAYER(o_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_norm.weight", IG_LAYER(ffn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_norm.bias", IG_LAYER(ffn_norm_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.weight", IG_LAYER(up), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.bias", IG_LAYER(up_bias), {IG_BY_FF}, IG_EACH_LAYER},
    {"ffn_down.weight", IG_LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER},
    {"ffn_down.bias", IG_LAYER(down_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {0},
};

static const ig_weight_row *const weights[] = {own, NULL};

static ig_tensor *attention(const ig_lm *m, int64_t i, const ig_rows *rows, ig_tensor *x) {
    const ig_lm_layer *l = &m->layers[i];
    const ig_lm_qkv heads = ig_lm_project(m, l, x);
    return ig_lm_linear(ig_rows_attend(rows, i, heads.q, heads.k, heads.v), l->o, l->o_bias);
}

static ig_tensor *feed_forward(const ig_lm_layer *l, ig_tensor *x) {
    ig_tensor *up = ig_gelu(ig_lm_linear(x, l->up, l->up_bias), IG_GELU_TANH);
    return ig_lm_linear(up, l->down, l->down_bias);
}

static ig_tensor *hidden(void *model, const ig_rows *rows) {
    const ig_lm *m = model;
    const float eps = m->hyper->norm_eps;
    ig_ctx *ctx = ig_tensor_ctx(rows->ids);
    ig_tensor *h =
        ig_add(ig_embedding(m->embed, rows->ids), ig_embedding(m->positions, rows->positions));
    for (int64_t i = 0; i < m->hyper->size.n_layers; i++) {
        const ig_lm_layer *l = &m->layers[i];
        ig_tensor *x = ig_layer_norm(h, l->attn_norm, l->attn_norm_bias, eps);
        ig_tag_begin(ctx, IG_TAG_ATTENTION);
        h = ig_add(ig_rows_asked(rows, i, h), attention(m, i, rows, x));
        ig_tag_end(ctx);
        x = ig_layer_norm(h, l->ffn_norm, l->ffn_norm_bias, eps);
        ig_tag_begin(ctx, IG_TAG_FFN);
        h = ig_add(h, feed_forward(l, x));
        ig_tag_end(ctx);
    }
    return ig_layer_norm(h, m->norm, m->norm_bias, eps);
}

const ig_arch ig_arch_gpt2 = {
    .name = "gpt2",
    .description = "GPT-2: learned positions, LayerNorm, biases, GELU",
    .has_cache = true,
    .weights = weights,
    .hidden = hidden,
    .head = ig_lm_head,
};
