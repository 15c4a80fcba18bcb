/* What the forward passes of several architectures have in common. */
#include "model/lm.h"

ig_tensor *ig_lm_linear(ig_tensor *x, ig_tensor *weight, ig_tensor *bias) {
    return ig_matmul_with(x, weight, (ig_matmul_options){.transpose_b = true, .bias = bias});
}

/* Columns [begin, begin + heads x width) of x, in heads. */
static ig_tensor *part(ig_tensor *x, int64_t begin, int64_t heads, int64_t width) {
    return ig_rows_split_heads(ig_slice(x, -1, begin, begin + heads * width), heads);
}

ig_lm_qkv ig_lm_project(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x) {
    const ig_lm_config *c = &m->hyper->size;
    if (l->qkv) {
        ig_tensor *all = ig_lm_linear(x, l->qkv, l->qkv_bias);
        const int64_t k = c->n_heads * c->key_width, v = k + c->n_kv_heads * c->key_width;
        return (ig_lm_qkv){part(all, 0, c->n_heads, c->key_width),
                           part(all, k, c->n_kv_heads, c->key_width),
                           part(all, v, c->n_kv_heads, c->value_width)};
    }
    return (ig_lm_qkv){ig_rows_split_heads(ig_lm_linear(x, l->q, l->q_bias), c->n_heads),
                       ig_rows_split_heads(ig_lm_linear(x, l->k, l->k_bias), c->n_kv_heads),
                       ig_rows_split_heads(ig_lm_linear(x, l->v, l->v_bias), c->n_kv_heads)};
}

void ig_lm_norm_heads(const ig_lm *m, const ig_lm_layer *l, ig_lm_qkv *heads) {
    if (!l->q_norm) return;
    heads->q = ig_rms_norm(heads->q, l->q_norm, m->hyper->norm_eps);
    heads->k = ig_rms_norm(heads->k, l->k_norm, m->hyper->norm_eps);
}

/* Long contexts have factors of their own, and so have short ones. */
static ig_tensor *factors_for(const ig_lm *m, const ig_rows *rows) {
    const ig_hyper *h = m->hyper;
    const int64_t ctx_len = rows->ctx_len ? rows->ctx_len : h->size.ctx_len;
    if (m->rope_factors) return m->rope_factors;
    return h->rope_ctx_len && ctx_len > h->rope_ctx_len ? m->rope_long : m->rope_short;
}

void ig_lm_turn_heads(const ig_lm *m, const ig_rows *rows, const ig_rope_options *rope,
                      ig_lm_qkv *heads) {
    ig_rope_options options = *rope;
    options.factors = factors_for(m, rows);
    options.magnitude = m->hyper->rope_gain;
    heads->q = ig_rope(heads->q, rows->positions, options);
    heads->k = ig_rope(heads->k, rows->positions, options);
}

ig_tensor *ig_lm_attend(const ig_lm *m, int64_t i, const ig_rows *rows, ig_tensor *x) {
    const ig_lm_layer *l = &m->layers[i];
    const ig_attend_options options = {m->hyper->attention_scale, m->hyper->window};
    ig_lm_qkv heads = ig_lm_project(m, l, x);
    ig_lm_norm_heads(m, l, &heads);
    ig_lm_turn_heads(m, rows, &m->hyper->rope, &heads);
    ig_tensor *y = ig_rows_attend_with(rows, i, heads.q, heads.k, heads.v, options);
    return ig_lm_linear(y, l->o, l->o_bias);
}

ig_tensor *ig_lm_decode(const ig_lm *m, const ig_rows *rows, ig_lm_feed_forward *feed_forward) {
    const float eps = m->hyper->norm_eps;
    ig_ctx *ctx = ig_tensor_ctx(rows->ids);
    ig_tensor *h = ig_embedding(m->embed, rows->ids);
    for (int64_t i = 0; i < m->hyper->size.n_layers; i++) {
        const ig_lm_layer *l = &m->layers[i];
        ig_tensor *x = ig_rms_norm(h, l->attn_norm, eps);
        ig_tag_begin(ctx, IG_TAG_ATTENTION);
        h = ig_add(ig_rows_asked(rows, i, h), ig_lm_attend(m, i, rows, x));
        ig_tag_end(ctx);
        x = ig_rms_norm(h, l->ffn_norm, eps);
        ig_tag_begin(ctx, IG_TAG_FFN);
        h = ig_add(h, feed_forward(m, l, x));
        ig_tag_end(ctx);
    }
    return ig_rms_norm(h, m->norm, eps);
}

ig_tensor *ig_lm_gated(const ig_lm_layer *l, ig_tensor *x, ig_lm_activation *act) {
    ig_tensor *gate = act(ig_lm_linear(x, l->gate, l->gate_bias));
    return ig_lm_linear(ig_mul(gate, ig_lm_linear(x, l->up, l->up_bias)), l->down, l->down_bias);
}

ig_tensor *ig_lm_swiglu(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x) {
    (void)m;
    return ig_lm_gated(l, x, ig_silu);
}

ig_tensor *ig_lm_experts(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x,
                         ig_lm_activation *act) {
    const ig_shape s = ig_tensor_desc(x).shape; /* [b, t, d] */
    ig_tensor *rows = ig_reshape(x, IG_SHAPE(s.dim[0] * s.dim[1], s.dim[2]));
    const ig_route_options options = {.count = (int)m->hyper->n_experts_used, .renormalise = true};
    const ig_routed routed = ig_route(ig_lm_linear(rows, l->router, NULL), options);
    const ig_groups groups = ig_group_rows(routed.ids, m->hyper->n_experts);
    ig_tensor *y = ig_embedding(rows, groups.rows); /* each row once for each of its experts */
    ig_tensor *gate = act(ig_matmul_grouped(y, l->gate_experts, groups.offsets));
    y = ig_mul(gate, ig_matmul_grouped(y, l->up_experts, groups.offsets));
    y = ig_matmul_grouped(y, l->down_experts, groups.offsets);
    return ig_reshape(ig_combine(y, groups.places, routed.weights), s);
}

ig_tensor *ig_lm_head(void *model, ig_tensor *hidden) {
    const ig_lm *m = model;
    return ig_lm_linear(hidden, m->output ? m->output : m->embed, m->output_bias);
}

/* ---- weights ---- */

const ig_weight_row ig_weights_ends[] = {
    {"token_embd.weight", IG_LM(embed), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_ONCE},
    {"output_norm.weight", IG_LM(norm), {IG_BY_MODEL}, IG_ONCE},
    {"output.weight", IG_LM(output), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_MAY_LACK},
    {0},
};

const ig_weight_row ig_weights_attention[] = {
    {"attn_norm.weight", IG_LAYER(attn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_q.weight", IG_LAYER(q), {IG_BY_HEADS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_k.weight", IG_LAYER(k), {IG_BY_KEYS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_v.weight", IG_LAYER(v), {IG_BY_VALUES, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_output.weight", IG_LAYER(o), {IG_BY_MODEL, IG_BY_HEAD_VALUES}, IG_EACH_LAYER},
    {0},
};

const ig_weight_row ig_weights_head_norms[] = {
    {"attn_q_norm.weight", IG_LAYER(q_norm), {IG_BY_HEAD}, IG_EACH_LAYER},
    {"attn_k_norm.weight", IG_LAYER(k_norm), {IG_BY_HEAD}, IG_EACH_LAYER},
    {0},
};

const ig_weight_row ig_weights_gated[] = {
    {"ffn_norm.weight", IG_LAYER(ffn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_gate.weight", IG_LAYER(gate), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.weight", IG_LAYER(up), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_down.weight", IG_LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER},
    {0},
};

const ig_weight_row ig_weights_long_rope[] = {
    {"rope_factors_long.weight", IG_LM(rope_long), {IG_BY_TURNS}, IG_MAY_LACK},
    {"rope_factors_short.weight", IG_LM(rope_short), {IG_BY_TURNS}, IG_MAY_LACK},
    {0},
};
