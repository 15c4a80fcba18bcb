/* Models by name: created, trained, asked. */
#include "model/adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingot/report.h"
#include "model/gguf/gguf_model.h"

/* ---- making ---- */

/* What is zero becomes the architecture's default; the rest has to make sense. */
static ig_status resolve(const ig_arch *arch, const ig_model_config *given, ig_lm_config *out) {
    const ig_lm_config *d = &arch->defaults;
    const int64_t got[] = {given->d_model,    given->n_layers, given->n_heads,
                           given->n_kv_heads, given->d_ff,     given->ctx_len};
    for (size_t i = 0; i < sizeof got / sizeof got[0]; i++)
        if (got[i] < 0 || got[i] > 1 << 24)
            return IG_FAIL(IG_ERR_ARGUMENT, "%s: a size of %lld", arch->name, (long long)got[i]);
    out->d_model = given->d_model ? given->d_model : d->d_model;
    out->n_layers = given->n_layers ? given->n_layers : d->n_layers;
    out->n_heads = given->n_heads ? given->n_heads : d->n_heads;
    if (!given->n_heads && d->n_heads > 1) { /* heads of 64, where that divides */
        out->n_heads = out->d_model % 64 == 0 ? out->d_model / 64 : d->n_heads;
        while (out->d_model % out->n_heads != 0) out->n_heads--;
    }
    out->n_kv_heads = given->n_kv_heads ? given->n_kv_heads : out->n_heads;
    out->d_ff = given->d_ff ? given->d_ff : d->d_ff ? d->d_ff : 4 * out->d_model;
    out->ctx_len = given->ctx_len ? given->ctx_len : d->ctx_len;
    return IG_OK;
}

/* "byte", "char", "bpe" or "bpe:8192" */
static ig_status make_tokenizer(ig_ctx *ctx, const ig_model_config *given, ig_tokenizer **out) {
    const char *name = given->tokenizer ? given->tokenizer : "byte", *colon = strchr(name, ':');
    const ig_tokenizer_data data = {given->sample, given->sample_bytes};
    ig_tokenizer_options options = {
        .data = &data, .n_data = given->sample ? 1 : 0, .merges = IG_TOKENIZER_DEFAULT_MERGES};
    char kind[16];
    snprintf(kind, sizeof kind, "%.*s", colon ? (int)(colon - name) : (int)sizeof kind - 1, name);
    if (colon) {
        char *end;
        const long merges = strtol(colon + 1, &end, 10);
        if (end == colon + 1 || *end || merges < 1 || merges > IG_TOKENIZER_IDS_MAX - 256)
            return IG_FAIL(IG_ERR_ARGUMENT, "tokenizer %s: merges from 1 to %d", name,
                           IG_TOKENIZER_IDS_MAX - 256);
        options.merges = (int32_t)merges;
    }
    return ig_tokenizer_create(ig_ctx_allocator(ctx), kind, &options, out);
}

ig_status ig_adapter_build(ig_ctx *ctx, const ig_arch *arch, const ig_lm_config *config,
                           const char *tokenizer_name, ig_tokenizer *tokenizer, ig_adapter **out) {
    const ig_allocator *memory = ig_ctx_allocator(ctx);
    IG_TRY(arch->check(config));
    ig_adapter *a = ig_alloc(memory, 1, sizeof *a);
    if (!a) return IG_FAIL(IG_ERR_MEMORY, "%s: an adapter", arch->name);
    a->ctx = ctx;
    a->arch = arch;
    a->config = *config;
    a->tokenizer_name = ig_copy_text(memory, tokenizer_name);
    a->progress = ig_copy_text(memory, "{}");
    ig_status status = IG_OK;
    if (!a->tokenizer_name || !a->progress) status = IG_FAIL(IG_ERR_MEMORY, "%s: text", arch->name);
    if (status == IG_OK) status = ig_module_create(ctx, NULL, NULL, &a->root);
    if (status == IG_OK) status = arch->create(ctx, config, a->root, &a->model);
    if (status != IG_OK) {
        ig_adapter_destroy(a);
        return status;
    }
    a->tokenizer = tokenizer; /* the adapter's from here on */
    *out = a;
    return IG_OK;
}

/* Systems promise more memory than there is, and end who takes it.  Less than any architecture has:
 * the embedding, and two matrices in each layer. */
static ig_status check_memory(const ig_ctx *ctx, const ig_arch *arch, const ig_lm_config *c) {
    const double layers = 2 * (double)c->n_layers * (double)c->d_ff;
    const double bytes = 4 * (double)c->d_model * ((double)c->vocabulary + layers);
    const double there = (double)ig_report_memory(ctx).available_bytes;
    if (there == 0 || bytes <= there) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY,
                   "%s: weights of %.1f GiB at least, and %.1f GiB are available; fewer layers or "
                   "a smaller width take less",
                   arch->name, bytes / 0x1p30, there / 0x1p30);
}

ig_status ig_adapter_create(ig_ctx *ctx, const char *name, const ig_model_config *config,
                            ig_adapter **out) {
    static const ig_model_config defaults;
    if (!ctx || !out) return IG_FAIL(IG_ERR_ARGUMENT, "adapter_create: NULL");
    if (!config) config = &defaults;
    const ig_arch *arch = ig_arch_find(name, IG_ARCH_TRAINED);
    if (!arch) return IG_ERR_MODEL;
    ig_lm_config resolved = {0};
    ig_tokenizer *tokenizer = NULL;
    IG_TRY(resolve(arch, config, &resolved));
    IG_TRY(make_tokenizer(ctx, config, &tokenizer));
    resolved.vocabulary = ig_tokenizer_vocabulary(tokenizer);
    ig_status status = check_memory(ctx, arch, &resolved);
    if (status == IG_OK)
        status = ig_adapter_build(ctx, arch, &resolved,
                                  config->tokenizer ? config->tokenizer : "byte", tokenizer, out);
    if (status != IG_OK) ig_tokenizer_destroy(tokenizer);
    return status;
}

static void release_batch(ig_adapter *a) {
    ig_tensor_release(a->ids);
    ig_tensor_release(a->targets);
    ig_tensor_release(a->positions);
    a->ids = a->targets = a->positions = NULL;
    a->batch = a->ctx_rows = 0;
}

void ig_adapter_destroy(ig_adapter *a) {
    if (!a) return;
    const ig_allocator *memory = ig_ctx_allocator(a->ctx);
    ig_session_destroy(a->embedder);
    ig_session_destroy(a->session);
    release_batch(a);
    ig_optimizer_destroy(a->optimizer);
    ig_checkpoint_close(a->file);
    if (a->source)
        ig_lm_destroy(a->ctx, a->arch, a->model);
    else if (a->model)
        a->arch->destroy(a->ctx, a->model);
    ig_module_destroy(a->root);
    if (!a->source) ig_tokenizer_destroy(a->tokenizer);
    if (a->source) ig_ctx_detach_packing(a->ctx, a->source->packing);
    ig_model_release(a->source);
    ig_free(memory, a->tokenizer_name);
    ig_free(memory, a->progress);
    ig_free(memory, a);
}

/* ---- what it is ---- */

ig_status ig_adapter_freeze(ig_adapter *a) {
    const size_t count = ig_module_param_count(a->root);
    for (size_t i = 0; i < count; i++) IG_TRY(ig_tensor_freeze(ig_module_param(a->root, i).tensor));
    return IG_OK;
}

const char *ig_adapter_architecture(const ig_adapter *a) { return a->arch->name; }
int64_t ig_adapter_param_count(const ig_adapter *a) {
    return a->source ? ig_model_param_count(a->source) : ig_module_element_count(a->root);
}
bool ig_adapter_makes_text(const ig_adapter *a) { return a->arch->head != NULL; }
int64_t ig_adapter_vocabulary(const ig_adapter *a) { return a->config.vocabulary; }
const char *ig_adapter_progress(const ig_adapter *a) { return a->progress; }

ig_model_config ig_adapter_config(const ig_adapter *a) {
    const ig_lm_config *c = &a->config;
    return (ig_model_config){.d_model = c->d_model,
                             .n_layers = c->n_layers,
                             .n_heads = c->n_heads,
                             .n_kv_heads = c->n_kv_heads,
                             .d_ff = c->d_ff,
                             .ctx_len = c->ctx_len,
                             .tokenizer = a->tokenizer_name};
}

typedef struct ids_out {
    int32_t *ids;
    size_t room, *count;
} ids_out;

static ig_status encode(const ig_adapter *a, const char *text, size_t bytes, unsigned flags,
                        ids_out out) {
    ig_ids all = {.allocator = ig_ctx_allocator(a->ctx)};
    const ig_status status = ig_tokenizer_encode(a->tokenizer, text, bytes, flags, &all);
    if (status == IG_OK) {
        const size_t kept = all.count < out.room ? all.count : out.room;
        if (kept) memcpy(out.ids, all.at, kept * sizeof *out.ids);
        *out.count = all.count;
    }
    ig_ids_deinit(&all);
    return status;
}

ig_status ig_adapter_encode(const ig_adapter *a, const char *text, size_t bytes, int32_t *ids,
                            size_t room, size_t *out) {
    return encode(a, text, bytes, 0, (ids_out){ids, room, out});
}

ig_status ig_adapter_encode_prompt(const ig_adapter *a, const char *text, size_t bytes,
                                   int32_t *ids, size_t room, size_t *out) {
    const unsigned flags = IG_ENCODE_ADD_SPECIAL | IG_ENCODE_PARSE_SPECIAL | IG_ENCODE_GOES_ON;
    return encode(a, text, bytes, flags, (ids_out){ids, room, out});
}

ig_status ig_adapter_decode(const ig_adapter *a, const int32_t *ids, size_t count, char *text,
                            size_t room, size_t *out) {
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= a->config.vocabulary)
            return IG_FAIL(IG_ERR_ARGUMENT, "decode: token %d is not below %lld", ids[i],
                           (long long)a->config.vocabulary);
    *out = ig_tokenizer_decode(a->tokenizer, ids, count, 0, text, room);
    return IG_OK;
}

/* ---- training ---- */

ig_status ig_adapter_make_optimizer(ig_adapter *a, double rate, double decay) {
    const ig_adamw_options options = {.rate = rate, .beta2 = 0.95, .decay = decay};
    return ig_adamw_create(a->root, &options, &a->optimizer);
}

ig_status ig_adapter_set_compute(ig_adapter *a, ig_dtype dtype) {
    if (!a) return IG_FAIL(IG_ERR_ARGUMENT, "set_compute: NULL");
    return a->root ? ig_module_set_compute(a->root, dtype) : IG_OK;
}

/* Tensors for [batch, ctx] rows: inputs, targets, and where each row stands. */
static ig_status reserve_batch(ig_adapter *a, int64_t batch, int64_t ctx) {
    if (a->batch == batch && a->ctx_rows == ctx) return IG_OK;
    const ig_desc rows = {IG_I32, IG_SHAPE(batch, ctx)}, line = {IG_I32, IG_SHAPE(ctx)};
    release_batch(a);
    IG_TRY(ig_tensor_create(a->ctx, rows, &a->ids));
    IG_TRY(ig_tensor_create(a->ctx, rows, &a->targets));
    IG_TRY(ig_tensor_create(a->ctx, line, &a->positions));
    int32_t *positions = ig_tensor_map(a->positions);
    if (!positions)
        return IG_FAIL(IG_ERR_UNSUPPORTED, "train: the device's memory is not the host's");
    for (int64_t i = 0; i < ctx; i++) positions[i] = (int32_t)i;
    a->batch = batch;
    a->ctx_rows = ctx;
    return IG_OK;
}

/* Each token of a row is predicted from those before it. */
static ig_status take_batch(ig_adapter *a, const int32_t *tokens, int64_t batch, int64_t ctx) {
    if (a->source)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "train: a %s model of a GGUF file is read only; train one of 'ingot archs'",
                       a->arch->name);
    if (!tokens || batch < 1 || ctx < 1)
        return IG_FAIL(IG_ERR_ARGUMENT, "train: %lld rows of %lld tokens", (long long)batch,
                       (long long)ctx);
    if (ctx > a->config.ctx_len)
        return IG_FAIL(IG_ERR_ARGUMENT, "train: rows of %lld tokens; the model's context is %lld",
                       (long long)ctx, (long long)a->config.ctx_len);
    IG_TRY(reserve_batch(a, batch, ctx));
    int32_t *ids = ig_tensor_map(a->ids), *targets = ig_tensor_map(a->targets);
    for (int64_t b = 0; b < batch; b++) {
        const int32_t *row = tokens + b * (ctx + 1);
        memcpy(ids + b * ctx, row, (size_t)ctx * sizeof *ids);
        memcpy(targets + b * ctx, row + 1, (size_t)ctx * sizeof *targets);
    }
    return IG_OK;
}

ig_tensor *ig_adapter_loss(const ig_adapter *a) {
    const ig_rows rows = {
        .ids = a->ids, .positions = a->positions, .compute = ig_module_compute(a->root)};
    ig_tensor *h = a->arch->hidden(a->model, &rows);
    return ig_cross_entropy(a->arch->head(a->model, h), a->targets);
}

/* Forward, backward, and the update if what came out is finite: it is read before.  `out_norm` is
 * that of the gradients where they are limited. */
static ig_status learn(ig_adapter *a, const ig_train_options *o, double *out_loss,
                       double *out_norm) {
    ig_tensor *loss = ig_adapter_loss(a), *norm = NULL;
    IG_TRY(ig_backward(o->accumulated > 1 ? ig_scale(loss, 1.0 / o->accumulated, 0) : loss));
    if (!o->accumulate && o->clip > 0) norm = ig_optimizer_clip(a->optimizer, o->clip);
    IG_TRY(ig_tensor_item(loss, out_loss));
    if (norm) IG_TRY(ig_tensor_item(norm, out_norm));
    const bool update = !o->accumulate && isfinite(*out_loss) && isfinite(*out_norm);
    IG_TRY(update ? ig_optimizer_step(a->optimizer) : ig_step_end(a->ctx));
    if (!o->accumulate) ig_optimizer_zero_grad(a->optimizer);
    return IG_OK;
}

ig_status ig_adapter_train(ig_adapter *a, const int32_t *tokens, int64_t batch, int64_t ctx,
                           const ig_train_options *options, double *out_loss) {
    static const ig_train_options defaults;
    if (!options) options = &defaults;
    const double rate = options->rate != 0 ? options->rate : 3e-4;
    IG_TRY(take_batch(a, tokens, batch, ctx));
    IG_TRY(ig_adapter_load_optimizer(a));
    if (!a->optimizer) IG_TRY(ig_adapter_make_optimizer(a, rate, options->weight_decay));
    ig_optimizer_set_rate(a->optimizer, rate);

    double loss = 0, norm = 0;
    ig_scope_begin(a->ctx);
    ig_status status = learn(a, options, &loss, &norm);
    ig_scope_end(a->ctx);
    if (status == IG_OK && !isfinite(loss)) status = ig_adapter_explain(a, "the loss", loss);
    if (status == IG_OK && !isfinite(norm))
        status = ig_adapter_explain(a, "the gradients' norm", norm);
    if (status == IG_OK && out_loss) *out_loss = loss;
    return status;
}

ig_status ig_adapter_evaluate(ig_adapter *a, const int32_t *tokens, int64_t batch, int64_t ctx,
                              double *out_loss) {
    IG_TRY(take_batch(a, tokens, batch, ctx));
    ig_scope_begin(a->ctx);
    ig_no_grad_begin(a->ctx);
    ig_tensor *loss = ig_adapter_loss(a);
    ig_no_grad_end(a->ctx);
    double value = 0;
    ig_status status = ig_step_end(a->ctx);
    if (status == IG_OK) status = ig_tensor_item(loss, &value);
    ig_scope_end(a->ctx);
    if (status == IG_OK && !isfinite(value)) status = ig_adapter_explain(a, "the loss", value);
    if (status == IG_OK && out_loss) *out_loss = value;
    return status;
}

/* ---- applications ---- */

ig_status ig_app_run(const ig_app *app) {
    bool done = false;
    ig_status status = app->init ? app->init(app->self) : IG_OK;
    while (status == IG_OK && !done) status = app->tick(app->self, &done);
    if (app->shutdown) app->shutdown(app->self);
    return status;
}
