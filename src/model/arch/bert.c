/*
 * bert: embeddings of texts.  Every row sees all rows of its text; LayerNorm stands
 * behind each part.  There is no head: the hidden states are what is asked for.
 */
#include "model/lm.h"

#define ONCE(member)  offsetof(ig_lm, member)
#define LAYER(member) offsetof(ig_lm_layer, member)

static const ig_weight_row weights[] = {
    {"token_embd.weight", ONCE(embed), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_ONCE},
    {"token_types.weight", ONCE(types), {IG_BY_TYPES, IG_BY_MODEL}, IG_ONCE},
    {"position_embd.weight", ONCE(positions), {IG_BY_CONTEXT, IG_BY_MODEL}, IG_ONCE},
    {"token_embd_norm.weight", ONCE(embed_norm), {IG_BY_MODEL}, IG_ONCE},
    {"token_embd_norm.bias", ONCE(embed_norm_bias), {IG_BY_MODEL}, IG_ONCE},
    {"attn_q.weight", LAYER(q), {IG_BY_HEADS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_q.bias", LAYER(q_bias), {IG_BY_HEADS}, IG_EACH_LAYER},
    {"attn_k.weight", LAYER(k), {IG_BY_KEYS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_k.bias", LAYER(k_bias), {IG_BY_KEYS}, IG_EACH_LAYER},
    {"attn_v.weight", LAYER(v), {IG_BY_VALUES, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_v.bias", LAYER(v_bias), {IG_BY_VALUES}, IG_EACH_LAYER},
    {"attn_output.weight", LAYER(o), {IG_BY_MODEL, IG_BY_HEAD_VALUES}, IG_EACH_LAYER},
    {"attn_output.bias", LAYER(o_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_output_norm.weight", LAYER(attn_post_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_output_norm.bias", LAYER(attn_post_norm_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.weight", LAYER(up), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.bias", LAYER(up_bias), {IG_BY_FF}, IG_EACH_LAYER},
    {"ffn_down.weight", LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER},
    {"ffn_down.bias", LAYER(down_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"layer_output_norm.weight", LAYER(ffn_post_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"layer_output_norm.bias", LAYER(ffn_post_norm_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {0},
};

static ig_status read(const ig_keys *keys, ig_hyper *h) {
    h->pooling = IG_POOLING_MEAN;
    return ig_key_int(keys, "pooling_type", IG_OPTIONAL, IG_POOLING_NONE, IG_POOLING_LAST,
                      &h->pooling);
}

static ig_tensor *attention(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x) {
    const ig_lm_qkv heads = ig_lm_project(m, l, x);
    ig_tensor *y = ig_attention(heads.q, heads.k, heads.v, (ig_attention_options){0});
    const ig_shape s = ig_tensor_desc(x).shape;
    return ig_lm_linear(ig_reshape(y, IG_SHAPE(s.dim[0], s.dim[1], -1)), l->o, l->o_bias);
}

static ig_tensor *feed_forward(const ig_lm_layer *l, ig_tensor *x) {
    ig_tensor *up = ig_gelu(ig_lm_linear(x, l->up, l->up_bias), IG_GELU_ERF);
    return ig_lm_linear(up, l->down, l->down_bias);
}

/* All tokens are of the first type, a single sentence. */
static ig_tensor *embed(const ig_lm *m, const ig_rows *rows) {
    const ig_desc ids = ig_tensor_desc(rows->ids);
    ig_tensor *types = ig_embedding(m->types, ig_full(ig_tensor_ctx(rows->ids), ids, 0));
    ig_tensor *h = ig_add(ig_embedding(m->embed, rows->ids), types);
    h = ig_add(h, ig_embedding(m->positions, rows->positions));
    return ig_layer_norm(h, m->embed_norm, m->embed_norm_bias, m->hyper->norm_eps);
}

static ig_tensor *hidden(void *model, const ig_rows *rows) {
    const ig_lm *m = model;
    const float eps = m->hyper->norm_eps;
    ig_tensor *h = embed(m, rows);
    for (int64_t i = 0; i < m->hyper->size.n_layers; i++) {
        const ig_lm_layer *l = &m->layers[i];
        h = ig_add(h, attention(m, l, h));
        h = ig_layer_norm(h, l->attn_post_norm, l->attn_post_norm_bias, eps);
        h = ig_add(h, feed_forward(l, h));
        h = ig_layer_norm(h, l->ffn_post_norm, l->ffn_post_norm_bias, eps);
    }
    return h;
}

const ig_arch ig_arch_bert = {
    .name = "bert",
    .description = "BERT: embeddings of texts, for 'ingot embed'",
    .weights = weights,
    .read = read,
    .hidden = hidden,
};
