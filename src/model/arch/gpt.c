/* gpt: GPT-2's block. LayerNorm, learned positions, multi-head attention, GELU, biases. */
#include "model/arch/arch.h"

#include <math.h>

#include "base/alloc.h"

typedef struct layer {
    ig_module *attn_norm, *qkv, *o;
    ig_module *ffn_norm, *up, *down;
} layer;

typedef struct gpt {
    ig_lm_config config;
    ig_module *embed, *positions, *norm, *head;
    layer layers[];
} gpt;

static ig_status create_layer(layer *l, const ig_lm_config *c, ig_module *group) {
    const int64_t d = c->d_model;
    const double std = 0.02, deep = std / sqrt(2.0 * (double)c->n_layers);
    IG_TRY(ig_arch_layer_norm(group, "attn_norm", d, &l->attn_norm));
    IG_TRY(ig_arch_linear(group, "qkv", d, 3 * d, true, &l->qkv));
    IG_TRY(ig_arch_linear(group, "o", d, d, true, &l->o));
    IG_TRY(ig_arch_layer_norm(group, "ffn_norm", d, &l->ffn_norm));
    IG_TRY(ig_arch_linear(group, "up", d, c->d_ff, true, &l->up));
    IG_TRY(ig_arch_linear(group, "down", c->d_ff, d, true, &l->down));
    IG_TRY(ig_arch_reinit(l->qkv, std));
    IG_TRY(ig_arch_reinit(l->up, std));
    IG_TRY(ig_arch_reinit(l->o, deep));
    return ig_arch_reinit(l->down, deep);
}

static ig_status create_layers(gpt *m, ig_module *root) {
    const ig_lm_config *c = &m->config;
    ig_module *layers, *group;
    IG_TRY(ig_arch_embedding(root, "embed", c->vocabulary, c->d_model, 0.02, &m->embed));
    IG_TRY(ig_arch_embedding(root, "positions", c->ctx_len, c->d_model, 0.01, &m->positions));
    IG_TRY(ig_arch_group(root, "layers", &layers));
    for (int64_t i = 0; i < c->n_layers; i++) {
        IG_TRY(ig_arch_layer_group(layers, i, &group));
        IG_TRY(create_layer(&m->layers[i], c, group));
    }
    IG_TRY(ig_arch_layer_norm(root, "norm", c->d_model, &m->norm));
    IG_TRY(ig_arch_linear(root, "head", c->d_model, c->vocabulary, false, &m->head));
    return ig_arch_reinit(m->head, 0.02);
}

static void destroy(ig_ctx *ctx, void *model) { ig_free(ig_ctx_allocator(ctx), model); }

static ig_status create(ig_ctx *ctx, const ig_lm_config *c, ig_module *root, void **out) {
    gpt *m =
        ig_alloc(ig_ctx_allocator(ctx), 1, sizeof *m + (size_t)c->n_layers * sizeof m->layers[0]);
    if (!m) return IG_FAIL(IG_ERR_MEMORY, "gpt: %lld layers", (long long)c->n_layers);
    m->config = *c;
    const ig_status status = create_layers(m, root);
    if (status == IG_OK)
        *out = m;
    else
        destroy(ctx, m);
    return status;
}

/* Fused QKV: one matmul. */
static ig_tensor *attention(const gpt *m, int64_t i, const ig_ubatch *rows, ig_tensor *x) {
    const int64_t d = m->config.d_model, heads = m->config.n_heads;
    ig_tensor *qkv = ig_module_call(m->layers[i].qkv, x); /* [b, t, 3 d] */
    ig_tensor *q = ig_split_heads(ig_slice(qkv, -1, 0, d), heads);
    ig_tensor *k = ig_split_heads(ig_slice(qkv, -1, d, 2 * d), heads);
    ig_tensor *v = ig_split_heads(ig_slice(qkv, -1, 2 * d, 3 * d), heads);
    return ig_module_call(m->layers[i].o, ig_ubatch_attend(rows, i, q, k, v));
}

static ig_tensor *hidden(void *model, const ig_ubatch *rows) {
    const gpt *m = model;
    ig_ctx *ctx = ig_tensor_ctx(rows->ids);
    ig_tensor *h =
        ig_add(ig_module_call(m->embed, rows->ids), ig_module_call(m->positions, rows->positions));
    for (int64_t i = 0; i < m->config.n_layers; i++) {
        const layer *l = &m->layers[i];
        ig_tensor *x = ig_module_call(l->attn_norm, h);
        ig_tag_begin(ctx, IG_TAG_ATTENTION);
        h = ig_add(ig_ubatch_outputs(rows, i, h), attention(m, i, rows, x));
        ig_tag_end(ctx);
        x = ig_module_call(l->ffn_norm, h);
        ig_tag_begin(ctx, IG_TAG_FFN);
        ig_tensor *up = ig_module_call(l->up, x);
        h = ig_add(h, ig_module_call(l->down, ig_gelu(up, IG_GELU_TANH)));
        ig_tag_end(ctx);
    }
    return ig_module_call(m->norm, h);
}

static ig_tensor *head(void *model, ig_tensor *h) {
    return ig_module_call(((const gpt *)model)->head, h);
}

static ig_status check(const ig_lm_config *c) {
    if (c->n_kv_heads != c->n_heads)
        return IG_FAIL(IG_ERR_ARGUMENT, "gpt: n_kv_heads %lld must equal n_heads %lld (no GQA)",
                       (long long)c->n_kv_heads, (long long)c->n_heads);
    return ig_arch_check_heads("gpt", c);
}

const ig_arch ig_arch_gpt = {
    .name = "gpt",
    .description = "LayerNorm, learned positions, multi-head attention, GELU",
    .defaults = {.d_model = 256, .n_layers = 4, .n_heads = 4, .ctx_len = 256},
    .has_cache = true,
    .check = check,
    .create = create,
    .destroy = destroy,
    .hidden = hidden,
    .head = head,
};
