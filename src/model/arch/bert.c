/*
 * bert: text embeddings. Bidirectional attention; post-norm LayerNorm. No output head: the hidden
 * states are the output.
 */
#include "base/alloc.h"
#include "model/gguf/decoder.h"

static const ig_weight_row own[] = {
    {"token_embd.weight", IG_LM(embed), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_ONCE},
    {"token_types.weight", IG_LM(types), {IG_BY_TYPES, IG_BY_MODEL}, IG_OPTIONAL_WEIGHT},
    {"position_embd.weight", IG_LM(positions), {IG_BY_CONTEXT, IG_BY_MODEL}, IG_ONCE},
    {"token_embd_norm.weight", IG_LM(embed_norm), {IG_BY_MODEL}, IG_ONCE},
    {"token_embd_norm.bias", IG_LM(embed_norm_bias), {IG_BY_MODEL}, IG_ONCE},
    {"attn_q.weight", IG_LAYER(q), {IG_BY_HEADS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_q.bias", IG_LAYER(q_bias), {IG_BY_HEADS}, IG_EACH_LAYER},
    {"attn_k.weight", IG_LAYER(k), {IG_BY_KEYS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_k.bias", IG_LAYER(k_bias), {IG_BY_KEYS}, IG_EACH_LAYER},
    {"attn_v.weight", IG_LAYER(v), {IG_BY_VALUES, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_v.bias", IG_LAYER(v_bias), {IG_BY_VALUES}, IG_EACH_LAYER},
    {"attn_output.weight", IG_LAYER(o), {IG_BY_MODEL, IG_BY_HEAD_VALUES}, IG_EACH_LAYER},
    {"attn_output.bias", IG_LAYER(o_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_output_norm.weight", IG_LAYER(attn_post_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_output_norm.bias", IG_LAYER(attn_post_norm_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.weight", IG_LAYER(up), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.bias", IG_LAYER(up_bias), {IG_BY_FF}, IG_EACH_LAYER},
    {"ffn_down.weight", IG_LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER},
    {"ffn_down.bias", IG_LAYER(down_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"layer_output_norm.weight", IG_LAYER(ffn_post_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"layer_output_norm.bias", IG_LAYER(ffn_post_norm_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {0},
};

static const ig_weight_row *const weights[] = {own, NULL};

/* A text sees itself alone. */
static ig_tensor *attend(const ig_ubatch *rows, ig_lm_qkv heads) {
    static const ig_attention_options all;
    ig_ctx *ctx = ig_tensor_ctx(heads.q);
    const int64_t n = rows->n_texts;
    if (n < 2) return ig_attention(heads.q, heads.k, heads.v, all);
    ig_tensor **parts = ig_alloc(ig_ctx_allocator(ctx), (size_t)n, sizeof(*parts));
    if (!parts) return ig_poison(ctx, IG_FAIL(IG_ERR_MEMORY, "bert: %lld texts", (long long)n));
    for (int64_t i = 0, begin = 0; i < n; i++) {
        const int64_t end = begin + rows->text_lengths[i];
        parts[i] = ig_attention(ig_slice(heads.q, 1, begin, end), ig_slice(heads.k, 1, begin, end),
                                ig_slice(heads.v, 1, begin, end), all);
        begin = end;
    }
    ig_tensor *y = ig_concat(parts, (int)n, 1);
    ig_free(ig_ctx_allocator(ctx), (void *)parts);
    return y;
}

static ig_tensor *attention(const ig_lm *m, const ig_lm_layer *l, const ig_ubatch *rows,
                            ig_tensor *x) {
    ig_tensor *y = attend(rows, ig_lm_project(m, l, x));
    const ig_shape s = ig_tensor_desc(x).shape;
    return ig_lm_linear(ig_reshape(y, IG_SHAPE(s.dim[0], s.dim[1], -1)), l->o, l->o_bias);
}

static ig_tensor *feed_forward(const ig_lm_layer *l, ig_tensor *x) {
    ig_tensor *up = ig_gelu(ig_lm_linear(x, l->up, l->up_bias), IG_GELU_ERF);
    return ig_lm_linear(up, l->down, l->down_bias);
}

/* Without token types, all are 0: a single sentence. */
static ig_tensor *embed(const ig_lm *m, const ig_ubatch *rows) {
    const ig_desc ids = ig_tensor_desc(rows->ids);
    ig_tensor *h = ig_embedding(m->embed, rows->ids), *types = rows->token_types;
    if (!types) types = ig_full(ig_tensor_ctx(rows->ids), ids, 0);
    if (m->types) h = ig_add(h, ig_embedding(m->types, types));
    h = ig_add(h, ig_embedding(m->positions, rows->positions));
    return ig_layer_norm(h, m->embed_norm, m->embed_norm_bias, m->hparams->norm_eps);
}

static ig_tensor *hidden(void *model, const ig_ubatch *rows) {
    const ig_lm *m = model;
    const float eps = m->hparams->norm_eps;
    ig_ctx *ctx = ig_tensor_ctx(rows->ids);
    ig_tensor *h = embed(m, rows);
    for (int64_t i = 0; i < m->hparams->size.n_layers; i++) {
        const ig_lm_layer *l = &m->layers[i];
        if (rows->states) rows->states[i] = h;
        ig_tag_begin(ctx, IG_TAG_ATTENTION);
        h = ig_add(h, attention(m, l, rows, h));
        ig_tag_end(ctx);
        h = ig_layer_norm(h, l->attn_post_norm, l->attn_post_norm_bias, eps);
        ig_tag_begin(ctx, IG_TAG_FFN);
        h = ig_add(h, feed_forward(l, h));
        ig_tag_end(ctx);
        h = ig_layer_norm(h, l->ffn_post_norm, l->ffn_post_norm_bias, eps);
    }
    return h;
}

const ig_arch ig_arch_bert = {
    .name = "bert",
    .description = "BERT: text embeddings, for 'ingot embed'",
    .weights = weights,
    .hidden = hidden,
};
