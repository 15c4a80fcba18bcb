/* Shared by the architectures: named layers, heads, attention with and without a KV cache. */
#include "model/arch/arch.h"

#include <stdio.h>

/* ---- layers ---- */

static ig_status add(ig_module *parent, const char *name, ig_module *child, ig_status made,
                     ig_module **out) {
    if (made != IG_OK) return made;
    const ig_status status = ig_module_add(parent, name, child);
    if (status == IG_OK)
        *out = child;
    else
        ig_module_destroy(child);
    return status;
}

ig_status ig_arch_reinit(ig_module *linear, double std) {
    ig_tensor *weight = ig_module_find(linear, "weight");
    return ig_tensor_fill_normal(weight, 0, std);
}

ig_status ig_arch_linear(ig_module *parent, const char *name, int64_t n_in, int64_t n_out,
                         bool bias, ig_module **out) {
    ig_module *m = NULL;
    const ig_linear_options options = {.no_bias = !bias};
    const ig_status made = ig_linear_create(ig_module_ctx(parent), n_in, n_out, &options, &m);
    return add(parent, name, m, made, out);
}

ig_status ig_arch_embedding(ig_module *parent, const char *name, int64_t count, int64_t width,
                            double std, ig_module **out) {
    ig_module *m = NULL;
    const ig_status made = ig_embedding_create(ig_module_ctx(parent), count, width, &m);
    IG_TRY(add(parent, name, m, made, out));
    return ig_arch_reinit(m, std);
}

ig_status ig_arch_rms_norm(ig_module *parent, const char *name, int64_t width, ig_module **out) {
    ig_module *m = NULL;
    const ig_status made = ig_rms_norm_create(ig_module_ctx(parent), width, 0, &m);
    return add(parent, name, m, made, out);
}

ig_status ig_arch_layer_norm(ig_module *parent, const char *name, int64_t width, ig_module **out) {
    ig_module *m = NULL;
    const ig_status made = ig_layer_norm_create(ig_module_ctx(parent), width, 0, &m);
    return add(parent, name, m, made, out);
}

ig_status ig_arch_group(ig_module *parent, const char *name, ig_module **out) {
    ig_module *m = NULL;
    const ig_status made = ig_module_create(ig_module_ctx(parent), NULL, NULL, &m);
    return add(parent, name, m, made, out);
}

ig_status ig_arch_layer_group(ig_module *layers, int64_t number, ig_module **out) {
    char name[24];
    snprintf(name, sizeof name, "%lld", (long long)number);
    return ig_arch_group(layers, name, out);
}

ig_status ig_arch_check_heads(const char *arch, const ig_lm_config *c) {
    if (c->d_model % c->n_heads != 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: d_model %lld is not divisible by %lld heads", arch,
                       (long long)c->d_model, (long long)c->n_heads);
    if (c->n_heads % c->n_kv_heads != 0)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "%s: n_heads %lld is not a multiple of n_kv_heads %lld (GQA)", arch,
                       (long long)c->n_heads, (long long)c->n_kv_heads);
    return IG_OK;
}

/* ---- attention ---- */

ig_tensor *ig_ubatch_ids(const ig_ubatch *rows) { return rows->ids; }
ig_tensor *ig_ubatch_positions(const ig_ubatch *rows) { return rows->positions; }

ig_tensor *ig_split_heads(ig_tensor *x, int64_t heads) {
    const ig_shape s = ig_tensor_desc(x).shape;
    return ig_reshape(x, IG_SHAPE(s.dim[0], s.dim[1], heads, -1));
}

/* Scatters [1, t, g, d] as rows into the pages [p, 64, g, d], viewed as [p 64, g, d].  Returns the
 * pages; poisoned, like the result of any op, if that failed. */
static ig_tensor *store(const ig_ubatch *rows, ig_tensor *pages, ig_tensor *x) {
    const ig_shape s = ig_tensor_desc(x).shape;
    const ig_status status =
        ig_store_rows(pages, ig_reshape(x, IG_SHAPE(s.dim[1], s.dim[2], s.dim[3])), rows->store_at);
    return status == IG_OK ? pages : ig_poison(ig_tensor_ctx(x), status);
}

/* [p 64, g, d] as [p, 64, g, d] */
static ig_tensor *as_pages(ig_tensor *rows) {
    const ig_shape s = ig_tensor_desc(rows).shape;
    return ig_reshape(rows, IG_SHAPE(-1, IG_PAGE_TOKENS, s.dim[1], s.dim[2]));
}

static bool leaves_out(const ig_ubatch *rows, int64_t layer) {
    return rows->outputs && layer == rows->last_layer;
}

ig_tensor *ig_ubatch_outputs(const ig_ubatch *rows, int64_t layer, ig_tensor *x) {
    if (!leaves_out(rows, layer)) return x;
    const int64_t d = ig_tensor_desc(x).shape.dim[2];
    return ig_reshape(ig_embedding(ig_reshape(x, IG_SHAPE(-1, d)), rows->outputs),
                      IG_SHAPE(1, -1, d));
}

static ig_tensor *attend_paged(const ig_ubatch *rows, int64_t layer, ig_tensor *q, ig_tensor *k,
                               ig_tensor *v, ig_attend_options o) {
    const bool some = leaves_out(rows, layer);
    const ig_paged_kv cache = {.k_pages = as_pages(k),
                               .v_pages = as_pages(v),
                               .page_table = rows->page_table,
                               .token_seq = some ? rows->output_seq : rows->token_seq,
                               .token_pos = some ? rows->output_pos : rows->token_pos,
                               .window = (uint32_t)o.window,
                               .softcap = o.cap,
                               .sinks = o.sinks};
    return ig_attention_paged(q, cache, o.scale);
}

ig_tensor *ig_ubatch_attend_with(const ig_ubatch *rows, int64_t layer, ig_tensor *q, ig_tensor *k,
                                 ig_tensor *v, ig_attend_options o) {
    const ig_shape s = ig_tensor_desc(q).shape; /* [b, t, h, d] */
    const ig_shape joined = IG_SHAPE(s.dim[0], s.dim[1], -1);
    if (!rows->layers) {
        if (o.cap > 0 || o.sinks || (o.window > 0 && s.dim[1] > o.window))
            return ig_poison(ig_tensor_ctx(q),
                             IG_FAIL(IG_ERR_ARGUMENT,
                                     "%lld tokens at once: layers with a window of %lld, scores "
                                     "within %g%s need a session",
                                     (long long)s.dim[1], (long long)o.window, (double)o.cap,
                                     o.sinks ? " and sinks" : ""));
        const ig_attention_options options = {.scale = o.scale, .causal = true};
        if (rows->compute != IG_F32) {
            q = ig_cast(q, rows->compute);
            k = ig_cast(k, rows->compute);
            v = ig_cast(v, rows->compute);
        }
        return ig_reshape(ig_attention(q, k, v, options), joined);
    }
    k = store(rows, rows->layers[layer].k, k);
    v = store(rows, rows->layers[layer].v, v);
    q = ig_ubatch_outputs(rows, layer, ig_reshape(q, IG_SHAPE(1, s.dim[1], s.dim[2] * s.dim[3])));
    ig_tensor *row_q = ig_reshape(q, IG_SHAPE(-1, s.dim[2], s.dim[3]));
    ig_tensor *y = attend_paged(rows, layer, row_q, k, v, o);
    return ig_reshape(y, IG_SHAPE(1, ig_tensor_desc(y).shape.dim[0], -1));
}

ig_tensor *ig_ubatch_attend(const ig_ubatch *rows, int64_t layer, ig_tensor *q, ig_tensor *k,
                            ig_tensor *v) {
    return ig_ubatch_attend_with(rows, layer, q, k, v, (ig_attend_options){0});
}
