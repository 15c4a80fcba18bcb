/* Models by name: create, train, evaluate. */
#include "model/adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingot/report.h"
#include "model/gguf/gguf_model.h"

/* ---- making ---- */

/* Replaces zeros by the architecture's defaults and checks the rest. */
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
    if (!given->n_heads && d->n_heads > 1) { /* heads of 64, if that divides d_model */
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
    const ig_string_view data = {given->sample, given->sample_bytes};
    ig_tokenizer_training options = {
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
    return ig_tokenizer_train(ig_ctx_allocator(ctx), kind, &options, out);
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
    a->tokenizer = tokenizer; /* owned by the adapter from here on */
    *out = a;
    return IG_OK;
}

/* Systems overcommit memory and kill the process that uses it. So check a lower bound first: the
 * embedding, and two matrices per layer. */
static ig_status check_memory(const ig_ctx *ctx, const ig_arch *arch, const ig_lm_config *c) {
    const double layers = 2 * (double)c->n_layers * (double)c->d_ff;
    const double bytes = 4 * (double)c->d_model * ((double)c->vocabulary + layers);
    const double there = (double)ig_report_memory(ctx).available_bytes;
    if (there == 0 || bytes <= there) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY,
                   "%s: the weights need at least %.1f MiB, but %.1f MiB are available; use fewer "
                   "layers or a smaller hidden size",
                   arch->name, bytes / 0x1p20, there / 0x1p20);
}

ig_status ig_adapter_create(ig_ctx *ctx, const char *name, const ig_model_config *config,
                            ig_adapter **out) {
    static const ig_model_config defaults;
    if (!ctx || !out) return IG_FAIL(IG_ERR_ARGUMENT, "adapter_create: NULL");
    if (!config) config = &defaults;
    const ig_arch *arch = ig_arch_find(ctx, name, IG_ARCH_TRAINED);
    if (!arch) return IG_ERR_MODEL;
    ig_lm_config resolved = {0};
    ig_tokenizer *tokenizer = NULL;
    IG_TRY(resolve(arch, config, &resolved));
    IG_TRY(make_tokenizer(ctx, config, &tokenizer));
    resolved.vocabulary = ig_tokenizer_vocab_size(tokenizer);
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
    ig_production_run_destroy(a->evaluator);
    ig_production_run_destroy(a->production);
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
bool ig_adapter_can_generate(const ig_adapter *a) {
    return a->arch->head != NULL || a->arch->production != NULL;
}
bool ig_adapter_has_modules(const ig_adapter *a) { return a->arch->hidden != NULL; }
int64_t ig_adapter_vocab_size(const ig_adapter *a) { return a->config.vocabulary; }
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

const ig_tokenizer *ig_adapter_tokenizer(const ig_adapter *a) { return a->tokenizer; }

/* ---- training ---- */

ig_status ig_adapter_make_optimizer(ig_adapter *a, double rate, double decay) {
    const ig_adamw_options options = {.lr = rate, .beta2 = 0.95, .weight_decay = decay};
    return ig_adamw_create(a->root, &options, &a->optimizer);
}

ig_status ig_adapter_set_compute_dtype(ig_adapter *a, ig_dtype dtype) {
    if (!a) return IG_FAIL(IG_ERR_ARGUMENT, "set_compute: NULL");
    return a->root ? ig_module_set_compute_dtype(a->root, dtype) : IG_OK;
}

/* Creates tensors for [batch, ctx] tokens: inputs, targets and positions. */
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

static ig_status check_batch(const ig_adapter *a, const int32_t *tokens, int64_t batch,
                             int64_t ctx) {
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
    return IG_OK;
}

/* Each token of a sequence is predicted from those before it. */
static void write_batch(ig_tensor *to_ids, ig_tensor *to_targets, const int32_t *tokens,
                        int64_t ctx) {
    const int64_t batch = ig_shape_count(ig_tensor_desc(to_ids).shape) / ctx;
    int32_t *ids = ig_tensor_map(to_ids), *targets = ig_tensor_map(to_targets);
    for (int64_t b = 0; b < batch; b++) {
        const int32_t *row = tokens + b * (ctx + 1);
        memcpy(ids + b * ctx, row, (size_t)ctx * sizeof *ids);
        memcpy(targets + b * ctx, row + 1, (size_t)ctx * sizeof *targets);
    }
}

static ig_status take_batch(ig_adapter *a, const int32_t *tokens, int64_t batch, int64_t ctx) {
    IG_TRY(check_batch(a, tokens, batch, ctx));
    IG_TRY(reserve_batch(a, batch, ctx));
    write_batch(a->ids, a->targets, tokens, ctx);
    return IG_OK;
}

ig_tensor *ig_adapter_loss(const ig_adapter *a) {
    const ig_ubatch rows = {
        .ids = a->ids, .positions = a->positions, .compute = ig_module_compute_dtype(a->root)};
    ig_tensor *h = a->arch->hidden(a->model, &rows);
    return ig_cross_entropy(a->arch->head(a->model, h), a->targets);
}

/* Forward, backward, and the update if the loss is finite: it is read back first. `out_norm` is
 * the gradient norm if clipping is on. */
static ig_status learn(ig_adapter *a, const ig_train_options *o, double *out_loss,
                       double *out_norm) {
    ig_tensor *loss = ig_adapter_loss(a), *norm = NULL;
    IG_TRY(ig_backward(o->n_accumulated > 1 ? ig_scale(loss, 1.0 / o->n_accumulated, 0) : loss));
    if (!o->accumulate && o->clip_norm > 0)
        norm = ig_optimizer_clip_grad_norm(a->optimizer, o->clip_norm);
    IG_TRY(ig_tensor_item(loss, out_loss));
    if (norm) IG_TRY(ig_tensor_item(norm, out_norm));
    const bool update = !o->accumulate && isfinite(*out_loss) && isfinite(*out_norm);
    IG_TRY(update ? ig_optimizer_step(a->optimizer) : ig_ctx_step_end(a->ctx));
    if (!o->accumulate) ig_optimizer_zero_grad(a->optimizer);
    return IG_OK;
}

/* Restores the optimizer from the file, or creates a new one. */
static ig_status reserve_optimizer(ig_adapter *a, double rate, double decay) {
    IG_TRY(ig_adapter_load_optimizer(a));
    if (!a->optimizer) IG_TRY(ig_adapter_make_optimizer(a, rate, decay));
    ig_optimizer_set_lr(a->optimizer, rate);
    return IG_OK;
}

static double rate_of(const ig_train_options *o) { return o->lr != 0 ? o->lr : 3e-4; }

static ig_status train_by_ops(ig_adapter *a, const ig_train_options *o, double *out_loss,
                              double *out_norm) {
    ig_scope_begin(a->ctx);
    const ig_status status = learn(a, o, out_loss, out_norm);
    ig_scope_end(a->ctx);
    return status;
}

/* ---- the production route ---- */

static bool has_sizes(const ig_production_run *run, int64_t batch, int64_t ctx) {
    return run && run->args.batch == batch && run->args.rows == ctx;
}

static ig_status check_production(const ig_adapter *a, const ig_train_options *o) {
    if (ig_module_compute_dtype(a->root) != IG_F32)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "%s: the production route computes in F32; train in %s by the easy or the "
                       "replay route",
                       a->arch->name, ig_dtype_name(ig_module_compute_dtype(a->root)));
    if (o->accumulate || o->n_accumulated > 1)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "%s: the production route does not accumulate gradients; use a larger "
                       "batch, or the easy or the replay route",
                       a->arch->name);
    return IG_OK;
}

ig_status ig_adapter_use_production(ig_adapter *a, const ig_production *production, int64_t batch,
                                    int64_t ctx, const ig_train_options *options) {
    static const ig_train_options defaults;
    static const int32_t no_tokens[1];
    if (!a) return IG_FAIL(IG_ERR_ARGUMENT, "use_production: NULL");
    if (!options) options = &defaults;
    if (!production) production = a->arch->production;
    IG_TRY(check_batch(a, no_tokens, batch, ctx));
    if (!production)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: has no production route; use easy or replay",
                       a->arch->name);
    IG_TRY(ig_production_check(a->arch->name, production));
    IG_TRY(check_production(a, options));
    IG_TRY(reserve_optimizer(a, rate_of(options), options->weight_decay));
    ig_production_run_destroy(a->production);
    a->production = NULL;
    a->table = production;
    return ig_production_run_create(&(ig_production_parts){.ctx = a->ctx,
                                                           .table = production,
                                                           .config = &a->config,
                                                           .root = a->root,
                                                           .optimizer = a->optimizer,
                                                           .batch = batch,
                                                           .rows = ctx,
                                                           .clip_norm = options->clip_norm},
                                    &a->production);
}

/* A model without modules has only this route; other sizes need another Init. */
static ig_status reserve_production(ig_adapter *a, int64_t batch, int64_t ctx,
                                    const ig_train_options *o) {
    const bool wanted = a->production || !a->arch->hidden;
    if (!wanted || has_sizes(a->production, batch, ctx)) return IG_OK;
    return ig_adapter_use_production(a, a->table, batch, ctx, o);
}

static ig_status train_by_hand(ig_adapter *a, const int32_t *tokens, const ig_train_options *o,
                               double *out_loss, double *out_norm) {
    ig_production_run *run = a->production;
    IG_TRY(check_production(a, o));
    write_batch(run->args.ids, run->args.targets, tokens, run->args.rows);
    return ig_production_run_step(run, o->clip_norm, out_loss, out_norm);
}

/* Evaluates a model without modules. */
static ig_status evaluate_by_hand(ig_adapter *a, const int32_t *tokens, int64_t batch, int64_t ctx,
                                  double *out_loss) {
    ig_production_run *run = has_sizes(a->production, batch, ctx) ? a->production : a->evaluator;
    if (!has_sizes(run, batch, ctx)) {
        ig_production_run_destroy(a->evaluator);
        a->evaluator = NULL;
        IG_TRY(ig_production_run_create(&(ig_production_parts){.ctx = a->ctx,
                                                               .table = a->arch->production,
                                                               .config = &a->config,
                                                               .root = a->root,
                                                               .batch = batch,
                                                               .rows = ctx},
                                        &a->evaluator));
        run = a->evaluator;
    }
    write_batch(run->args.ids, run->args.targets, tokens, run->args.rows);
    return ig_production_run_forward(run, out_loss);
}

/* ---- steps of either ---- */

/* Runs the tokens again op by op to find the op that produced the first NaN or Inf. */
static ig_status explain(ig_adapter *a, const int32_t *tokens, int64_t batch, int64_t ctx,
                         const char *what, double value) {
    if (a->arch->hidden) IG_TRY(take_batch(a, tokens, batch, ctx));
    return ig_adapter_explain(a, what, value);
}

ig_status ig_adapter_train(ig_adapter *a, const int32_t *tokens, int64_t batch, int64_t ctx,
                           const ig_train_options *options, double *out_loss) {
    static const ig_train_options defaults;
    if (!options) options = &defaults;
    IG_TRY(check_batch(a, tokens, batch, ctx));
    IG_TRY(reserve_production(a, batch, ctx, options));
    if (!a->production) IG_TRY(take_batch(a, tokens, batch, ctx));
    IG_TRY(reserve_optimizer(a, rate_of(options), options->weight_decay));

    double loss = 0, norm = 0;
    ig_status status = a->production ? train_by_hand(a, tokens, options, &loss, &norm)
                                     : train_by_ops(a, options, &loss, &norm);
    if (status == IG_OK && !isfinite(loss))
        status = explain(a, tokens, batch, ctx, "the loss", loss);
    if (status == IG_OK && !isfinite(norm))
        status = explain(a, tokens, batch, ctx, "the gradients' norm", norm);
    if (status == IG_OK && !options->accumulate) a->as_loaded = false;
    if (status == IG_OK && out_loss) *out_loss = loss;
    return status;
}

static ig_status evaluate_by_ops(ig_adapter *a, double *out_loss) {
    ig_scope_begin(a->ctx);
    ig_no_grad_begin(a->ctx);
    ig_tensor *loss = ig_adapter_loss(a);
    ig_no_grad_end(a->ctx);
    ig_status status = ig_ctx_step_end(a->ctx);
    if (status == IG_OK) status = ig_tensor_item(loss, out_loss);
    ig_scope_end(a->ctx);
    return status;
}

ig_status ig_adapter_evaluate(ig_adapter *a, const int32_t *tokens, int64_t batch, int64_t ctx,
                              double *out_loss) {
    double value = 0;
    IG_TRY(check_batch(a, tokens, batch, ctx));
    if (a->arch->hidden) IG_TRY(take_batch(a, tokens, batch, ctx));
    ig_status status = a->arch->hidden ? evaluate_by_ops(a, &value)
                                       : evaluate_by_hand(a, tokens, batch, ctx, &value);
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
