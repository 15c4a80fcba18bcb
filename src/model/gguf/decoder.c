/* Building blocks of the forward passes. */
#include "model/gguf/decoder.h"

ig_tensor *ig_lm_linear(ig_tensor *x, ig_tensor *weight, ig_tensor *bias) {
    return ig_matmul_with(x, weight, (ig_matmul_options){.transpose_b = true, .bias = bias});
}

/* Columns [begin, begin + heads x width) of x, split into heads. */
static ig_tensor *part(ig_tensor *x, int64_t begin, int64_t heads, int64_t width) {
    return ig_split_heads(ig_slice(x, -1, begin, begin + heads * width), heads);
}

ig_lm_qkv ig_lm_project(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x) {
    const ig_lm_config *c = &m->hparams->size;
    if (l->qkv) {
        ig_tensor *all = ig_lm_linear(x, l->qkv, l->qkv_bias);
        const int64_t k = c->n_heads * c->key_width, v = k + c->n_kv_heads * c->key_width;
        return (ig_lm_qkv){part(all, 0, c->n_heads, c->key_width),
                           part(all, k, c->n_kv_heads, c->key_width),
                           part(all, v, c->n_kv_heads, c->value_width)};
    }
    return (ig_lm_qkv){ig_split_heads(ig_lm_linear(x, l->q, l->q_bias), c->n_heads),
                       ig_split_heads(ig_lm_linear(x, l->k, l->k_bias), c->n_kv_heads),
                       ig_split_heads(ig_lm_linear(x, l->v, l->v_bias), c->n_kv_heads)};
}

/* QK norm per head, or over all heads if the weight is that long; x unchanged without a weight. */
static ig_tensor *norm_heads(const ig_lm *m, ig_tensor *x, ig_tensor *weight) {
    if (!weight) return x;
    const ig_shape s = ig_tensor_desc(x).shape; /* [b, t, h, d] */
    if (ig_tensor_desc(weight).shape.dim[0] == s.dim[3])
        return ig_rms_norm(x, weight, m->hparams->norm_eps);
    ig_tensor *rows = ig_reshape(x, IG_SHAPE(s.dim[0], s.dim[1], s.dim[2] * s.dim[3]));
    return ig_reshape(ig_rms_norm(rows, weight, m->hparams->norm_eps), s);
}

static void norm_both(const ig_lm *m, const ig_lm_layer *l, ig_lm_qkv *heads) {
    heads->q = norm_heads(m, heads->q, l->q_norm);
    heads->k = norm_heads(m, heads->k, l->k_norm);
}

/* The RoPE frequency factors for this context length: long and short contexts have their own. */
static ig_tensor *factors_for(const ig_lm *m, const ig_ubatch *rows) {
    const ig_hparams *h = m->hparams;
    const int64_t ctx_len = rows->ctx_len ? rows->ctx_len : h->size.ctx_len;
    if (m->rope_factors) return m->rope_factors;
    return h->orig_ctx_len && ctx_len > h->orig_ctx_len ? m->rope_long : m->rope_short;
}

ig_tensor *ig_lm_rope(const ig_lm *m, const ig_ubatch *rows, const ig_rope_options *rope,
                      ig_tensor *x) {
    ig_rope_options options = *rope;
    if (m->hparams->swa_rope_unscaled && rope == &m->hparams->rope_swa)
        return ig_rope(x, rows->positions, options);
    options.freq_factors = factors_for(m, rows);
    options.mscale = m->hparams->mscale;
    return ig_rope(x, rows->positions, options);
}

/* Whether layer i is the last of its period. */
static bool ends_period(int64_t period, int64_t i) { return period > 0 && (i + 1) % period == 0; }

/* Attention of layer i on x, which is already normalized. */
static ig_tensor *attend(const ig_lm *m, int64_t i, const ig_ubatch *rows, ig_tensor *x) {
    const ig_hparams *h = m->hparams;
    const ig_lm_layer *l = &m->layers[i];
    const bool sees_all = h->sliding_window == 0 || ends_period(h->full_attn_period, i);
    const ig_attend_options options = {h->attention_scale, sees_all ? 0 : h->sliding_window,
                                       h->attn_softcap, l->sinks};
    if (l->kv_a) return ig_lm_linear(ig_lm_attend_mla(m, i, rows, x), l->o, NULL);
    ig_lm_qkv heads = ig_lm_project(m, l, x);
    if (!h->qk_norm_after_rope) norm_both(m, l, &heads);
    if (!m->positions && !ends_period(h->nope_period, i)) {
        const ig_rope_options *rope = sees_all ? &h->rope : &h->rope_swa;
        heads.q = ig_lm_rope(m, rows, rope, heads.q);
        heads.k = ig_lm_rope(m, rows, rope, heads.k);
    }
    if (h->qk_norm_after_rope) norm_both(m, l, &heads);
    ig_tensor *y = ig_ubatch_attend_with(rows, i, heads.q, heads.k, heads.v, options);
    return ig_lm_linear(y, l->o, l->o_bias);
}

/* x unchanged if the layer has no such norm. */
static ig_tensor *norm(const ig_lm *m, ig_tensor *x, ig_tensor *weight, ig_tensor *bias) {
    if (!weight) return x;
    if (m->hparams->layer_norm) return ig_layer_norm(x, weight, bias, m->hparams->norm_eps);
    return ig_rms_norm(x, weight, m->hparams->norm_eps);
}

static ig_tensor *scaled(ig_tensor *x, float by) {
    return by == 0 ? x : ig_scale(x, (double)by, 0);
}

static ig_tensor *embed(const ig_lm *m, const ig_ubatch *rows) {
    ig_tensor *h = scaled(ig_embedding(m->embed, rows->ids), m->hparams->embedding_scale);
    return m->positions ? ig_add(h, ig_embedding(m->positions, rows->positions)) : h;
}

static ig_tensor *do_layer(const ig_lm *m, int64_t i, const ig_ubatch *rows, ig_tensor *h,
                           ig_lm_feed_forward *feed_forward) {
    const ig_lm_layer *l = &m->layers[i];
    const float gain = m->hparams->residual_scale;
    ig_ctx *ctx = ig_tensor_ctx(rows->ids);
    ig_tensor *x = norm(m, h, l->attn_norm, l->attn_norm_bias);
    ig_tag_begin(ctx, IG_TAG_ATTENTION);
    ig_tensor *y = scaled(norm(m, attend(m, i, rows, x), l->attn_post_norm, NULL), gain);
    ig_tensor *before = ig_ubatch_outputs(rows, i, h);
    h = ig_add(before, y);
    ig_tag_end(ctx);
    if (!m->hparams->parallel_residual)
        x = norm(m, h, l->ffn_norm, l->ffn_norm_bias);
    else if (l->ffn_norm)
        x = norm(m, before, l->ffn_norm, l->ffn_norm_bias);
    else
        x = ig_ubatch_outputs(rows, i, x);
    ig_tag_begin(ctx, IG_TAG_FFN);
    h = ig_add(h, scaled(norm(m, feed_forward(m, l, x), l->ffn_post_norm, NULL), gain));
    ig_tag_end(ctx);
    return h;
}

ig_tensor *ig_lm_forward(const ig_lm *m, const ig_ubatch *rows, ig_lm_feed_forward *feed_forward) {
    ig_tensor *h = embed(m, rows);
    for (int64_t i = 0; i < m->hparams->size.n_layers; i++) {
        if (rows->states) rows->states[i] = h;
        h = do_layer(m, i, rows, h, feed_forward);
    }
    return norm(m, h, m->norm, m->norm_bias);
}

/* ---- feed-forward parts ---- */

typedef ig_tensor *activation(ig_tensor *x);

/* The activation of a gated FFN; up NULL: not gated. */
typedef struct gating {
    activation *gate, *up;
} gating;

static ig_tensor *gelu(ig_tensor *x) { return ig_gelu(x, IG_GELU_TANH); }

/* min(x, most), bit-exact for x below `most`. The next function is max(x, least). */
static ig_tensor *at_most(ig_tensor *x, double most) {
    return ig_sub(x, ig_relu(ig_scale(x, 1, -most)));
}
static ig_tensor *at_least(ig_tensor *x, double least) {
    return ig_add(x, ig_relu(ig_scale(x, -1, least)));
}

/* gpt-oss: x sigmoid(1.702 x) with the gate clamped to 7, times up clamped to [-7, 7] plus 1. */
static const double oss_limit = 7, oss_slope = 1.702;
static ig_tensor *limited_gate(ig_tensor *x) {
    ig_tensor *y = at_most(x, oss_limit);
    return ig_mul(y, ig_sigmoid(ig_scale(y, oss_slope, 0)));
}
static ig_tensor *limited_up(ig_tensor *x) {
    return ig_scale(at_least(at_most(x, oss_limit), -oss_limit), 1, 1);
}

static ig_tensor *joined(gating how, ig_tensor *gate, ig_tensor *up) {
    return ig_mul(gate, how.up ? how.up(up) : up);
}

/* The shared expert; some models have a gate for it. */
static ig_tensor *add_shared(const ig_lm_layer *l, ig_tensor *x, ig_tensor *y, gating how) {
    if (!l->up_shared) return y;
    ig_tensor *gate = how.gate(ig_lm_linear(x, l->gate_shared, NULL));
    ig_tensor *own =
        ig_lm_linear(joined(how, gate, ig_lm_linear(x, l->up_shared, NULL)), l->down_shared, NULL);
    if (l->shared_router) {
        ig_tensor *row = ig_reshape(l->shared_router, IG_SHAPE(1, -1));
        own = ig_mul(own, ig_sigmoid(ig_lm_linear(x, row, NULL)));
    }
    return ig_add(y, own);
}

/* Scales rows y, which are grouped by expert, by a weight per expert. A bias [experts, out] is
 * gathered as a grouped matmul with ones. */
static ig_tensor *by_experts(ig_tensor *y, ig_tensor *weight, ig_tensor *bias, ig_groups groups) {
    ig_tensor *product = ig_matmul_grouped(y, weight, groups.offsets);
    if (!bias) return product;
    const ig_shape s = ig_tensor_desc(bias).shape;
    const int64_t rows = ig_tensor_desc(y).shape.dim[0];
    ig_tensor *ones = ig_full(ig_tensor_ctx(y), (ig_desc){IG_F32, IG_SHAPE(rows, 1)}, 1);
    bias = ig_reshape(bias, IG_SHAPE(s.dim[0], s.dim[1], 1));
    return ig_add(product, ig_matmul_grouped(ones, bias, groups.offsets));
}

/* The `count` largest values of each row and their indices. */
static ig_tensor *largest_of(ig_tensor *x, int64_t count, ig_tensor **out_ids) {
    *out_ids = ig_route(x, (ig_route_options){.top_k = (int)count}).ids;
    return ig_gather(x, *out_ids, 1);
}

static ig_tensor *sum_of_rows(ig_tensor *x) { return ig_sum(x, (const int[]){-1}, 1, IG_KEEP_DIM); }

/* Scores [t, e] of experts with those outside the best groups masked. A group is ranked by the sum
 * of its two largest scores. */
static ig_tensor *among_best_groups(const ig_hparams *h, ig_tensor *scores) {
    const double far_below = 1e30;
    ig_tensor *ids;
    const int64_t t = ig_tensor_desc(scores).shape.dim[0], each = h->n_experts / h->n_groups;
    ig_tensor *of_groups = ig_reshape(scores, IG_SHAPE(t * h->n_groups, each));
    ig_tensor *best_two = sum_of_rows(largest_of(of_groups, 2, &ids));
    ig_tensor *chosen =
        largest_of(ig_reshape(best_two, IG_SHAPE(t, h->n_groups)), h->n_groups_used, &ids);
    ig_ctx *ctx = ig_tensor_ctx(scores);
    ig_tensor *none = ig_full(ctx, (ig_desc){IG_F32, IG_SHAPE(t, h->n_groups)}, 0);
    ig_tensor *ones = ig_full(ctx, (ig_desc){IG_F32, ig_tensor_desc(chosen).shape}, 1);
    ig_tensor *is_best = ig_scatter_add(none, ids, ones, 1);
    ig_tensor *below =
        ig_reshape(ig_scale(is_best, far_below, -far_below), IG_SHAPE(t, h->n_groups, 1));
    ig_tensor *all = ig_add(ig_reshape(scores, IG_SHAPE(t, h->n_groups, each)), below);
    return ig_reshape(all, IG_SHAPE(t, h->n_experts));
}

/* The experts and weights of each row [t, d]. */
static ig_routed routes(const ig_hparams *h, const ig_lm_layer *l, ig_tensor *rows) {
    const ig_route_options options = {.top_k = (int)h->n_experts_used,
                                      .norm_topk = !h->no_norm_topk};
    ig_tensor *logits = ig_lm_linear(rows, l->router, l->router_bias);
    ig_routed routed;
    if (!h->sigmoid_gating && !l->router_score_bias && h->n_groups == 0) {
        routed = ig_route(logits, options);
    } else {
        const double least_sum = 0x1p-14; /* as in llama.cpp */
        ig_tensor *shares = h->sigmoid_gating ? ig_sigmoid(logits) : ig_softmax(logits, -1);
        ig_tensor *scores = l->router_score_bias ? ig_add(shares, l->router_score_bias) : shares;
        if (h->n_groups > 0) scores = among_best_groups(h, scores);
        routed.ids = ig_route(scores, options).ids;
        routed.weights = ig_gather(shares, routed.ids, 1);
        if (!h->no_norm_topk)
            routed.weights =
                ig_div(routed.weights, at_least(sum_of_rows(routed.weights), least_sum));
    }
    if (h->routed_scaling != 0)
        routed.weights = ig_scale(routed.weights, (double)h->routed_scaling, 0);
    return routed;
}

/* MoE: runs the routed experts of each row and combines them by weight. */
static ig_tensor *experts(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x, gating how) {
    const ig_shape s = ig_tensor_desc(x).shape; /* [b, t, d] */
    ig_tensor *rows = ig_reshape(x, IG_SHAPE(s.dim[0] * s.dim[1], s.dim[2]));
    const ig_routed routed = routes(m->hparams, l, rows);
    const ig_groups groups = ig_group_rows(routed.ids, m->hparams->n_experts);
    ig_tensor *y = ig_embedding(rows, groups.rows); /* each row once per selected expert */
    ig_tensor *gate = how.gate(by_experts(y, l->gate_experts, l->gate_experts_bias, groups));
    y = joined(how, gate, by_experts(y, l->up_experts, l->up_experts_bias, groups));
    y = by_experts(y, l->down_experts, l->down_experts_bias, groups);
    y = ig_reshape(ig_combine(y, groups.inverse, routed.weights), s);
    return add_shared(l, x, y, how);
}

static ig_tensor *gated(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x, gating how) {
    if (l->router) return experts(m, l, x, how);
    if (!l->gate) { /* gate and up are fused */
        const int64_t ff = m->hparams->size.d_ff;
        ig_tensor *both = ig_lm_linear(x, l->up, NULL);
        ig_tensor *first = how.gate(ig_slice(both, -1, 0, ff));
        return ig_lm_linear(joined(how, first, ig_slice(both, -1, ff, 2 * ff)), l->down, NULL);
    }
    ig_tensor *gate = how.gate(ig_lm_linear(x, l->gate, l->gate_bias));
    return ig_lm_linear(joined(how, gate, ig_lm_linear(x, l->up, l->up_bias)), l->down,
                        l->down_bias);
}

static ig_tensor *swiglu(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x) {
    return gated(m, l, x, (gating){ig_silu, NULL});
}
static ig_tensor *geglu(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x) {
    return gated(m, l, x, (gating){gelu, NULL});
}
static ig_tensor *limited(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x) {
    return gated(m, l, x, (gating){limited_gate, limited_up});
}
static ig_tensor *plain(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x) {
    (void)m;
    return ig_lm_linear(gelu(ig_lm_linear(x, l->up, l->up_bias)), l->down, l->down_bias);
}

ig_tensor *ig_lm_forward_swiglu(void *model, const ig_ubatch *rows) {
    return ig_lm_forward(model, rows, swiglu);
}
ig_tensor *ig_lm_forward_geglu(void *model, const ig_ubatch *rows) {
    return ig_lm_forward(model, rows, geglu);
}
ig_tensor *ig_lm_forward_clamped_swiglu(void *model, const ig_ubatch *rows) {
    return ig_lm_forward(model, rows, limited);
}
ig_tensor *ig_lm_forward_gelu(void *model, const ig_ubatch *rows) {
    return ig_lm_forward(model, rows, plain);
}

ig_tensor *ig_lm_head(void *model, ig_tensor *hidden) {
    const ig_lm *m = model;
    const float cap = m->hparams->final_softcap;
    ig_tensor *y = ig_lm_linear(hidden, m->output ? m->output : m->embed, m->output_bias);
    y = scaled(y, m->hparams->logit_scale);
    return cap == 0 ? y : ig_scale(ig_tanh(ig_scale(y, 1 / (double)cap, 0)), (double)cap, 0);
}
