/*
 * tinyllm: an embedding, then per layer a norm, up, SiLU, down and a residual, then a head. No
 * attention: it learns which byte follows which. The model of examples/easy.c, as an architecture.
 */
#include "model/arch/arch.h"

#include "base/alloc.h"

typedef struct layer {
    ig_module *norm, *up, *down;
} layer;

typedef struct tinyllm {
    int64_t n_layers;
    ig_module *embed, *head;
    layer layers[];
} tinyllm;

static ig_status create_layers(tinyllm *m, const ig_lm_config *c, ig_module *root) {
    ig_module *layers, *group;
    IG_TRY(ig_arch_embedding(root, "embed", c->vocabulary, c->d_model, 1, &m->embed));
    IG_TRY(ig_arch_group(root, "layers", &layers));
    for (int64_t i = 0; i < c->n_layers; i++) {
        layer *l = &m->layers[i];
        IG_TRY(ig_arch_layer_group(layers, i, &group));
        IG_TRY(ig_arch_rms_norm(group, "norm", c->d_model, &l->norm));
        IG_TRY(ig_arch_linear(group, "up", c->d_model, c->d_ff, true, &l->up));
        IG_TRY(ig_arch_linear(group, "down", c->d_ff, c->d_model, true, &l->down));
    }
    return ig_arch_linear(root, "head", c->d_model, c->vocabulary, true, &m->head);
}

static void destroy(ig_ctx *ctx, void *model) { ig_free(ig_ctx_allocator(ctx), model); }

static ig_status create(ig_ctx *ctx, const ig_lm_config *c, ig_module *root, void **out) {
    tinyllm *m =
        ig_alloc(ig_ctx_allocator(ctx), 1, sizeof *m + (size_t)c->n_layers * sizeof m->layers[0]);
    if (!m) return IG_FAIL(IG_ERR_MEMORY, "tinyllm: %lld layers", (long long)c->n_layers);
    m->n_layers = c->n_layers;
    const ig_status status = create_layers(m, c, root);
    if (status == IG_OK)
        *out = m;
    else
        destroy(ctx, m);
    return status;
}

static ig_tensor *hidden(void *model, const ig_ubatch *rows) {
    const tinyllm *m = model;
    ig_ctx *ctx = ig_tensor_ctx(rows->ids);
    ig_tensor *h = ig_module_call(m->embed, rows->ids);
    for (int64_t i = 0; i < m->n_layers; i++) {
        const layer *l = &m->layers[i];
        h = ig_ubatch_outputs(rows, i, h);
        ig_tensor *x = ig_module_call(l->norm, h);
        ig_tag_begin(ctx, IG_TAG_FFN);
        h = ig_add(h, ig_module_call(l->down, ig_silu(ig_module_call(l->up, x))));
        ig_tag_end(ctx);
    }
    return h;
}

static ig_tensor *head(void *model, ig_tensor *h) {
    return ig_module_call(((const tinyllm *)model)->head, h);
}

static ig_status check(const ig_lm_config *c) {
    (void)c;
    return IG_OK;
}

const ig_arch ig_arch_tinyllm = {
    .name = "tinyllm",
    .description = "RMSNorm and SiLU layers, no attention: the smallest that learns",
    .defaults =
        {.d_model = 64, .n_layers = 2, .n_heads = 1, .n_kv_heads = 1, .d_ff = 256, .ctx_len = 128},
    .check = check,
    .create = create,
    .destroy = destroy,
    .hidden = hidden,
    .head = head,
};
