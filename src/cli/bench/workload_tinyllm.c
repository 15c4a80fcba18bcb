/*
 * tinyllm: the model of examples/easy.c, over bytes.
 *
 *     ids [b, 64] -> embed [b, 64, 64]
 *     per layer      h = h + down(silu(up(rms_norm(h))))       up: 64 to 256, down: 256 to 64
 *     head        -> [b, 64, 256]
 *
 * It sees one byte at a time, so its loss is bounded by the ambiguity of the text: it exercises
 * small matmuls between many small ops.
 */
#include <stdio.h>

#include "cli/bench/workload.h"
#include "ingot/ops.h"

enum { SYMBOLS = 256, INNER = 4 /* times the width */, LAYERS_MAX = 64 };

typedef struct block {
    ig_module *self, *norm, *up, *down;
} block;

typedef struct tinyllm {
    ig_workload base;
    ig_module *embed, *head;
    block blocks[LAYERS_MAX];
} tinyllm;

static ig_tensor *block_forward(ig_module *module, ig_tensor *h) {
    const block *b = ig_module_data(module);
    ig_tensor *x = ig_silu(ig_module_call(b->up, ig_module_call(b->norm, h)));
    return ig_add(h, ig_module_call(b->down, x));
}

static ig_status add_block(ig_workload *w, block *b, int64_t i) {
    const int64_t width = w->sizes.width;
    ig_module *child;
    char name[24];
    snprintf(name, sizeof name, "%lld", (long long)i);
    IG_TRY(ig_module_create(w->ctx, block_forward, b, &child));
    IG_TRY(ig_workload_adopt(w->model, name, child, &b->self));
    IG_TRY(ig_rms_norm_create(w->ctx, width, 0, &child));
    IG_TRY(ig_workload_adopt(b->self, "norm", child, &b->norm));
    IG_TRY(ig_linear_create(w->ctx, width, INNER * width, NULL, &child));
    IG_TRY(ig_workload_adopt(b->self, "up", child, &b->up));
    IG_TRY(ig_linear_create(w->ctx, INNER * width, width, NULL, &child));
    return ig_workload_adopt(b->self, "down", child, &b->down);
}

static ig_status build(ig_workload *w) {
    tinyllm *m = (tinyllm *)w;
    const ig_workload_sizes *s = &w->sizes;
    if (s->layers > LAYERS_MAX)
        return IG_FAIL(IG_ERR_ARGUMENT, "--layers %lld: tinyllm has at most %d",
                       (long long)s->layers, LAYERS_MAX);
    snprintf(w->config, sizeof w->config,
             "{\"workload\": \"tinyllm\", \"d_model\": %lld, \"d_ff\": %lld, \"layers\": %lld, "
             "\"ctx\": %lld, \"vocabulary\": %d}",
             (long long)s->width, (long long)(INNER * s->width), (long long)s->layers,
             (long long)s->length, SYMBOLS);
    ig_module *child;
    IG_TRY(ig_sequential_create(w->ctx, &w->model));
    IG_TRY(ig_embedding_create(w->ctx, SYMBOLS, s->width, &child));
    IG_TRY(ig_workload_adopt(w->model, "embed", child, &m->embed));
    for (int64_t i = 0; i < s->layers; i++) IG_TRY(add_block(w, &m->blocks[i], i));
    IG_TRY(ig_linear_create(w->ctx, s->width, SYMBOLS, NULL, &child));
    return ig_workload_adopt(w->model, "head", child, &m->head);
}

const ig_workload_type ig_workload_tinyllm = {
    .name = "tinyllm",
    .summary = "embedding, two layers of norm, up, silu, down, output head: predicts the next byte",
    .steps = 300,
    .sizes = {.batch = 8, .width = 64, .layers = 2, .length = 64},
    .target = IG_TARGET_EACH,
    .symbols = SYMBOLS,
    .optimizer = {.lr = 0.001, .weight_decay = 0.01},
    .struct_bytes = sizeof(tinyllm),
    .build = build,
};
