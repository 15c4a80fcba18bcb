/*
 * An architecture by modules: a Llama block with the weights and the losses of the built-in llm.
 *
 *     cc -shared -fPIC -Iinclude examples/my_model.c -o my_model.so
 *     ingot train --plugin ./my_model.so --arch my_model -d data.txt
 *     ingot chat --plugin ./my_model.so -m my_model.oam
 */
#include <ingot/arch.h>
#include <math.h>
#include <stdlib.h>

enum { NORM1, Q, K, V, O, NORM2, GATE, UP, DOWN, WEIGHTS };

typedef struct model {
    ig_lm_config c;
    ig_module *embed, *norm, *head;
    ig_module *layers[][WEIGHTS];
} model;

static ig_status create_layer(const ig_lm_config *c, ig_module *group, ig_module **m) {
    static const char *const names[] = {"attn_norm", "q",    "k",  "v",   "o",
                                        "ffn_norm",  "gate", "up", "down"};
    static const int order[] = {Q, K, V, GATE, UP, O, DOWN}; /* the last two feed the residual */
    const int64_t D = c->d_model, F = c->d_ff, kv = D / c->n_heads * c->n_kv_heads;
    const int64_t n_in[] = {0, D, D, D, D, 0, D, D, F}, n_out[] = {0, D, kv, kv, D, 0, F, F, D};
    const double std = 0.02, deep = std / sqrt(2.0 * (double)c->n_layers);
    for (int k = 0; k < WEIGHTS; k++)
        IG_TRY(n_in[k] ? ig_arch_linear(group, names[k], n_in[k], n_out[k], false, &m[k])
                       : ig_arch_rms_norm(group, names[k], D, &m[k]));
    for (int k = 0; k < 7; k++) IG_TRY(ig_arch_reinit(m[order[k]], k < 5 ? std : deep));
    return IG_OK;
}

/* destroy() frees *out, also after a failure. */
static ig_status create(ig_ctx *ctx, const ig_lm_config *c, ig_module *root, void **out) {
    ig_module *layers, *group;
    model *m = calloc(1, sizeof *m + (size_t)c->n_layers * sizeof m->layers[0]);
    if (!m) return IG_FAIL(IG_ERR_MEMORY, "my_model: %lld layers", (long long)c->n_layers);
    (void)ctx, *out = m, m->c = *c;
    IG_TRY(ig_arch_check_heads("my_model", c));
    IG_TRY(ig_arch_embedding(root, "embed", c->vocabulary, c->d_model, 0.02, &m->embed));
    IG_TRY(ig_arch_group(root, "layers", &layers));
    for (int64_t i = 0; i < c->n_layers; i++) {
        IG_TRY(ig_arch_layer_group(layers, i, &group));
        IG_TRY(create_layer(c, group, m->layers[i]));
    }
    IG_TRY(ig_arch_rms_norm(root, "norm", c->d_model, &m->norm));
    IG_TRY(ig_arch_linear(root, "head", c->d_model, c->vocabulary, false, &m->head));
    return ig_arch_reinit(m->head, 0.02);
}

static void destroy(ig_ctx *ctx, void *data) {
    (void)ctx;
    free(data);
}

static ig_tensor *attention(const model *m, int64_t i, const ig_ubatch *rows, ig_tensor *x) {
    ig_module *const *w = m->layers[i];
    ig_tensor *at = ig_ubatch_positions(rows);
    ig_tensor *q = ig_split_heads(ig_module_call(w[Q], x), m->c.n_heads);
    ig_tensor *k = ig_split_heads(ig_module_call(w[K], x), m->c.n_kv_heads);
    ig_tensor *v = ig_split_heads(ig_module_call(w[V], x), m->c.n_kv_heads);
    q = ig_rope(q, at, (ig_rope_options){.type = IG_ROPE_NEOX});
    k = ig_rope(k, at, (ig_rope_options){.type = IG_ROPE_NEOX});
    return ig_module_call(w[O], ig_ubatch_attend(rows, i, q, k, v));
}

static ig_tensor *hidden(void *data, const ig_ubatch *rows) {
    const model *m = data;
    ig_tensor *h = ig_module_call(m->embed, ig_ubatch_ids(rows));
    for (int64_t i = 0; i < m->c.n_layers; i++) {
        ig_module *const *w = m->layers[i];
        ig_tensor *x = ig_module_call(w[NORM1], h);
        h = ig_add(ig_ubatch_outputs(rows, i, h), attention(m, i, rows, x));
        x = ig_module_call(w[NORM2], h);
        x = ig_mul(ig_silu(ig_module_call(w[GATE], x)), ig_module_call(w[UP], x));
        h = ig_add(h, ig_module_call(w[DOWN], x));
    }
    return ig_module_call(m->norm, h);
}

static ig_tensor *head(void *data, ig_tensor *h) {
    return ig_module_call(((model *)data)->head, h);
}

static const ig_arch_desc arch = {
    IG_ARCH_ABI,
    sizeof arch,
    "my_model",
    "llm by modules",
    .defaults = {.d_model = 256, .n_layers = 4, .n_heads = 4, .n_kv_heads = 4, .ctx_len = 256},
    .has_cache = true,

    .create = create,
    .destroy = destroy,
    .hidden = hidden,
    .head = head};
const ig_arch_desc *ig_arch_entry(size_t i) { return i == 0 ? &arch : NULL; }
