/* Cost of a token: bytes that must be read, and multiply-adds. */
#include <string.h>

#include "base/quant_blocks.h"
#include "model/adapter.h"
#include "model/gguf/gguf_model.h"

/* A weight with a row per vocabulary entry is the embedding, the output head, or both (tied). */
static bool is_table(const ig_lm_config *c, ig_shape shape) {
    return shape.rank == 2 && shape.dim[0] == c->vocabulary && shape.dim[1] == c->d_model;
}

static void add(const ig_session *s, const char *name, ig_desc desc, ig_token_cost *cost) {
    uint64_t bytes = 0, count = (uint64_t)ig_shape_count(desc.shape);
    const bool in_floats = ig_dtype_block(desc.dtype) == 1;
    (void)ig_desc_bytes(desc, &bytes);
    if (is_table(&s->config, desc.shape)) {
        if (cost->head_bytes > 0 && strstr(name, "emb")) return;
        cost->head_bytes = bytes;
        cost->head_macs = count;
        cost->head_float_macs = in_floats ? count : 0;
        return;
    }
    const ig_model *source = s->adapter->source;
    if (strstr(name, "_exps.") && source && source->hyper.n_experts > 0) {
        const uint64_t used = (uint64_t)source->hyper.n_experts_used;
        const uint64_t all = (uint64_t)source->hyper.n_experts;
        bytes = bytes / all * used;
        count = count / all * used;
    }
    cost->body_bytes += bytes;
    if (desc.shape.rank < 2) return; /* biases and norm weights */
    cost->body_macs += count;
    if (in_floats) cost->body_float_macs += count;
}

/* The multiply-adds of the last layer without its QKV projections; all layers are alike. */
static uint64_t last_products(const ig_lm_config *c, uint64_t body) {
    const int64_t k = ig_lm_key_width(c), v = ig_lm_value_width(c);
    const uint64_t heads = (uint64_t)(c->n_heads * k + c->n_kv_heads * (k + v));
    const uint64_t layer = body / (uint64_t)c->n_layers, all_rows = (uint64_t)c->d_model * heads;
    return layer > all_rows ? layer - all_rows : 0;
}

/* Multiply-adds per token, layer and visible KV position. */
static uint64_t seen_products(const ig_lm_config *c) {
    return (uint64_t)(c->n_heads * (ig_lm_key_width(c) + ig_lm_value_width(c)));
}

ig_token_cost ig_session_cost(const ig_session *s) {
    const ig_adapter *a = s->adapter;
    const ig_gguf *file = a->source ? a->source->file : NULL;
    ig_token_cost cost = {0};
    for (size_t i = 0; file && i < ig_gguf_n_tensors(file); i++) {
        const ig_gguf_tensor *t = ig_gguf_tensor_at(file, i);
        add(s, t->name, t->desc, &cost);
    }
    for (size_t i = 0; a->root && i < ig_module_param_count(a->root); i++) {
        const ig_param param = ig_module_param(a->root, i);
        add(s, param.path, ig_tensor_desc(param.tensor), &cost);
    }
    cost.last_layer_macs = last_products(&s->config, cost.body_macs);
    cost.last_attention_macs = seen_products(&s->config);
    cost.attention_macs = cost.last_attention_macs * (uint64_t)(s->config.n_layers - 1);
    const uint64_t positions = (uint64_t)s->pages.n_pages * IG_PAGE_TOKENS;
    if (positions > 0) cost.kv_bytes = ig_session_cache_bytes(s) / positions;
    return cost;
}
