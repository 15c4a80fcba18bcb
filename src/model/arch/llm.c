/*
 * llm: the Llama family's block. RMSNorm, RoPE, GQA, SwiGLU; no biases.
 */
#include "model/arch/arch.h"

#include <math.h>

#include "base/alloc.h"

typedef struct layer {
    ig_module *attn_norm, *q, *k, *v, *o;
    ig_module *ffn_norm, *gate, *up, *down;
} layer;

typedef struct llm {
    ig_lm_config config;
    ig_module *embed, *norm, *head;
    layer layers[];
} llm;

/* Projections that feed the residual are initialized smaller the more layers there are, as in
 * GPT-2. */
static ig_status create_layer(layer *l, const ig_lm_config *c, ig_module *group) {
    const int64_t d = c->d_model, kv = d / c->n_heads * c->n_kv_heads;
    const double std = 0.02, deep = std / sqrt(2.0 * (double)c->n_layers);
    IG_TRY(ig_arch_rms_norm(group, "attn_norm", d, &l->attn_norm));
    IG_TRY(ig_arch_linear(group, "q", d, d, false, &l->q));
    IG_TRY(ig_arch_linear(group, "k", d, kv, false, &l->k));
    IG_TRY(ig_arch_linear(group, "v", d, kv, false, &l->v));
    IG_TRY(ig_arch_linear(group, "o", d, d, false, &l->o));
    IG_TRY(ig_arch_rms_norm(group, "ffn_norm", d, &l->ffn_norm));
    IG_TRY(ig_arch_linear(group, "gate", d, c->d_ff, false, &l->gate));
    IG_TRY(ig_arch_linear(group, "up", d, c->d_ff, false, &l->up));
    IG_TRY(ig_arch_linear(group, "down", c->d_ff, d, false, &l->down));
    ig_module *const plain[] = {l->q, l->k, l->v, l->gate, l->up};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        IG_TRY(ig_arch_reinit(plain[i], std));
    IG_TRY(ig_arch_reinit(l->o, deep));
    return ig_arch_reinit(l->down, deep);
}

static ig_status create_layers(llm *m, ig_module *root) {
    const ig_lm_config *c = &m->config;
    ig_module *layers, *group;
    IG_TRY(ig_arch_embedding(root, "embed", c->vocabulary, c->d_model, 0.02, &m->embed));
    IG_TRY(ig_arch_group(root, "layers", &layers));
    for (int64_t i = 0; i < c->n_layers; i++) {
        IG_TRY(ig_arch_layer_group(layers, i, &group));
        IG_TRY(create_layer(&m->layers[i], c, group));
    }
    IG_TRY(ig_arch_rms_norm(root, "norm", c->d_model, &m->norm));
    IG_TRY(ig_arch_linear(root, "head", c->d_model, c->vocabulary, false, &m->head));
    return ig_arch_reinit(m->head, 0.02);
}

static void destroy(ig_ctx *ctx, void *model) { ig_free(ig_ctx_allocator(ctx), model); }

static ig_status create(ig_ctx *ctx, const ig_lm_config *c, ig_module *root, void **out) {
    llm *m =
        ig_alloc(ig_ctx_allocator(ctx), 1, sizeof *m + (size_t)c->n_layers * sizeof m->layers[0]);
    if (!m) return IG_FAIL(IG_ERR_MEMORY, "llm: %lld layers", (long long)c->n_layers);
    m->config = *c;
    const ig_status status = create_layers(m, root);
    if (status == IG_OK)
        *out = m;
    else
        destroy(ctx, m);
    return status;
}

static ig_tensor *attention(const llm *m, int64_t i, const ig_ubatch *rows, ig_tensor *x) {
    const layer *l = &m->layers[i];
    const ig_rope_options rope = {.type = IG_ROPE_NEOX};
    ig_tensor *q = ig_split_heads(ig_module_call(l->q, x), m->config.n_heads);
    ig_tensor *k = ig_split_heads(ig_module_call(l->k, x), m->config.n_kv_heads);
    ig_tensor *v = ig_split_heads(ig_module_call(l->v, x), m->config.n_kv_heads);
    q = ig_rope(q, rows->positions, rope);
    k = ig_rope(k, rows->positions, rope);
    return ig_module_call(l->o, ig_ubatch_attend(rows, i, q, k, v));
}

static ig_tensor *feed_forward(const layer *l, ig_tensor *x) {
    ig_tensor *gate = ig_silu(ig_module_call(l->gate, x));
    return ig_module_call(l->down, ig_mul(gate, ig_module_call(l->up, x)));
}

static ig_tensor *hidden(void *model, const ig_ubatch *rows) {
    const llm *m = model;
    ig_ctx *ctx = ig_tensor_ctx(rows->ids);
    ig_tensor *h = ig_module_call(m->embed, rows->ids);
    for (int64_t i = 0; i < m->config.n_layers; i++) {
        const layer *l = &m->layers[i];
        ig_tensor *x = ig_module_call(l->attn_norm, h);
        ig_tag_begin(ctx, IG_TAG_ATTENTION);
        h = ig_add(ig_ubatch_outputs(rows, i, h), attention(m, i, rows, x));
        ig_tag_end(ctx);
        x = ig_module_call(l->ffn_norm, h);
        ig_tag_begin(ctx, IG_TAG_FFN);
        h = ig_add(h, feed_forward(l, x));
        ig_tag_end(ctx);
    }
    return ig_module_call(m->norm, h);
}

static ig_tensor *head(void *model, ig_tensor *h) {
    return ig_module_call(((const llm *)model)->head, h);
}

static ig_status check(const ig_lm_config *c) {
    IG_TRY(ig_arch_check_heads("llm", c));
    if (c->d_model / c->n_heads % 2 != 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "llm: head_dim %lld must be even for RoPE",
                       (long long)(c->d_model / c->n_heads));
    return IG_OK;
}

const ig_arch ig_arch_llm = {
    .name = "llm",
    .description = "RMSNorm, RoPE, GQA, SwiGLU",
    .defaults = {.d_model = 256, .n_layers = 4, .n_heads = 4, .n_kv_heads = 4, .ctx_len = 256},
    .has_cache = true,
    .check = check,
    .create = create,
    .destroy = destroy,
    .hidden = hidden,
    .head = head,
};
