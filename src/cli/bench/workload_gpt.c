/*
 * gpt: a GPT-2 style transformer over bytes.
 *
 *     x = tokens[ids] + positions                               [b, t, d]
 *     per layer   x = x + proj(attention(q, k, v of ln1(x)))    heads of 64, causal
 *                 x = x + down(gelu(up(ln2(x))))                d to 4 d to d, tanh form
 *     logits = ln(x) tokens^T                                   tied embeddings
 *
 * Initialization as in GPT-2: normal, std 0.02, output projections (proj, down) scaled by 1 /
 * sqrt(2 layers); biases 0; no dropout.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/bench/workload.h"
#include "ingot/ops.h"

enum { SYMBOLS = 256, HEAD = 64, INNER = 4 /* times the width */, LAYERS_MAX = 64 };

static const double weight_std = 0.02;

typedef struct block {
    ig_module *self, *ln1, *q, *k, *v, *proj, *ln2, *up, *down;
} block;

typedef struct gpt {
    ig_workload base;
    ig_tensor *tokens, *positions; /* [symbols, d], [length, d]: parameters of the model */
    ig_module *ln;
    block blocks[LAYERS_MAX];
} gpt;

/* ---- Forward ---- */

/* [b, t, d] -> [b, t, heads, 64] */
static ig_tensor *to_heads(ig_tensor *x) {
    const ig_shape s = ig_tensor_desc(x).shape;
    if (s.rank != 3) return x; /* poisoned: attention passes it on */
    return ig_reshape(x, IG_SHAPE(s.dim[0], s.dim[1], s.dim[2] / HEAD, HEAD));
}

static ig_tensor *attend(const block *b, ig_tensor *x) {
    const ig_shape s = ig_tensor_desc(x).shape;
    ig_tensor *y =
        ig_attention(to_heads(ig_module_call(b->q, x)), to_heads(ig_module_call(b->k, x)),
                     to_heads(ig_module_call(b->v, x)), (ig_attention_options){.causal = true});
    return ig_module_call(b->proj, ig_reshape(y, s));
}

static ig_tensor *block_forward(ig_module *module, ig_tensor *x) {
    const block *b = ig_module_data(module);
    x = ig_add(x, attend(b, ig_module_call(b->ln1, x)));
    ig_tensor *y = ig_module_call(b->up, ig_module_call(b->ln2, x));
    return ig_add(x, ig_module_call(b->down, ig_gelu(y, IG_GELU_TANH)));
}

static ig_tensor *forward(ig_module *module, ig_tensor *ids) {
    const gpt *m = ig_module_data(module);
    ig_tensor *x = ig_add(ig_embedding(m->tokens, ids), m->positions);
    for (int64_t i = 0; i < m->base.sizes.layers; i++) x = ig_module_call(m->blocks[i].self, x);
    x = ig_module_call(m->ln, x);
    return ig_matmul_with(x, m->tokens, (ig_matmul_options){.transpose_b = true});
}

/* ---- Building ---- */

static ig_status add_linear(ig_ctx *ctx, ig_module *to, const char *name, int64_t n_in,
                            int64_t n_out, ig_module **out) {
    ig_module *child;
    IG_TRY(ig_linear_create(ctx, n_in, n_out, NULL, &child));
    return ig_workload_adopt(to, name, child, out);
}

static ig_status add_norm(ig_ctx *ctx, ig_module *to, const char *name, int64_t width,
                          ig_module **out) {
    ig_module *child;
    IG_TRY(ig_layer_norm_create(ctx, width, 0, &child));
    return ig_workload_adopt(to, name, child, out);
}

static ig_status add_block(ig_workload *w, block *b, int64_t i) {
    const int64_t d = w->sizes.width;
    ig_module *child;
    char name[24];
    snprintf(name, sizeof name, "%lld", (long long)i);
    IG_TRY(ig_module_create(w->ctx, block_forward, b, &child));
    IG_TRY(ig_workload_adopt(w->model, name, child, &b->self));
    IG_TRY(add_norm(w->ctx, b->self, "ln1", d, &b->ln1));
    IG_TRY(add_linear(w->ctx, b->self, "q", d, d, &b->q));
    IG_TRY(add_linear(w->ctx, b->self, "k", d, d, &b->k));
    IG_TRY(add_linear(w->ctx, b->self, "v", d, d, &b->v));
    IG_TRY(add_linear(w->ctx, b->self, "proj", d, d, &b->proj));
    IG_TRY(add_norm(w->ctx, b->self, "ln2", d, &b->ln2));
    IG_TRY(add_linear(w->ctx, b->self, "up", d, INNER * d, &b->up));
    return add_linear(w->ctx, b->self, "down", INNER * d, d, &b->down);
}

static bool ends_with(const char *path, const char *end) {
    const size_t length = strlen(path), wanted = strlen(end);
    return length >= wanted && strcmp(path + length - wanted, end) == 0;
}

/* Initializes matrices and zeroes biases; norms are initialized already. */
static ig_status draw(const ig_workload *w) {
    const double last_std = weight_std / sqrt(2.0 * (double)w->sizes.layers);
    for (size_t i = 0; i < ig_module_param_count(w->model); i++) {
        const ig_param p = ig_module_param(w->model, i);
        const bool matrix = ig_tensor_desc(p.tensor).shape.rank == 2;
        const bool ends = ends_with(p.path, "proj.weight") || ends_with(p.path, "down.weight");
        if (matrix)
            IG_TRY(ig_tensor_fill_normal(p.tensor, 0, ends ? last_std : weight_std));
        else if (ends_with(p.path, ".bias"))
            IG_TRY(ig_tensor_fill_uniform(p.tensor, 0, 0));
    }
    return IG_OK;
}

static ig_status check_sizes(const ig_workload_sizes *s) {
    if (s->width % HEAD != 0)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--d-model %lld: must be a multiple of %d, the head dim of gpt",
                       (long long)s->width, HEAD);
    if (s->layers > LAYERS_MAX)
        return IG_FAIL(IG_ERR_ARGUMENT, "--layers %lld: gpt has at most %d", (long long)s->layers,
                       LAYERS_MAX);
    return IG_OK;
}

static ig_status build(ig_workload *w) {
    gpt *m = (gpt *)w;
    const ig_workload_sizes *s = &w->sizes;
    IG_TRY(check_sizes(s));
    snprintf(w->config, sizeof w->config,
             "{\"workload\": \"gpt\", \"d_model\": %lld, \"heads\": %lld, \"d_ff\": %lld, "
             "\"layers\": %lld, \"ctx\": %lld, \"vocabulary\": %d, \"tied\": true}",
             (long long)s->width, (long long)(s->width / HEAD), (long long)(INNER * s->width),
             (long long)s->layers, (long long)s->length, SYMBOLS);
    IG_TRY(ig_module_create(w->ctx, forward, m, &w->model));
    IG_TRY(ig_module_add_param(w->model, "tokens", (ig_desc){IG_F32, IG_SHAPE(SYMBOLS, s->width)},
                               &m->tokens));
    IG_TRY(ig_module_add_param(w->model, "positions",
                               (ig_desc){IG_F32, IG_SHAPE(s->length, s->width)}, &m->positions));
    for (int64_t i = 0; i < s->layers; i++) IG_TRY(add_block(w, &m->blocks[i], i));
    IG_TRY(add_norm(w->ctx, w->model, "ln", s->width, &m->ln));
    return draw(w);
}

const ig_workload_type ig_workload_gpt = {
    .name = "gpt",
    .summary = "a GPT-2 style transformer, 6 layers of 384: predicts the next byte",
    .steps = 30,
    .sizes = {.batch = 8, .width = 384, .layers = 6, .length = 128},
    .target = IG_TARGET_EACH,
    .symbols = SYMBOLS,
    .optimizer = {.lr = 3e-4, .weight_decay = 0.01},
    .struct_bytes = sizeof(gpt),
    .build = build,
};
