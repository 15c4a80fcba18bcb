/*
 * Adapters as .oam files. The config has all that is needed to rebuild the model: architecture,
 * sizes, tokenizer.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_parse.h"
#include "ingot/device.h"
#include "model/adapter.h"
#include "model/gguf/gguf_model.h"

/* The sizes, by their names in the config. */
static const struct {
    const char *name;
    size_t offset;
} sizes[] = {
    {"d_model", offsetof(ig_lm_config, d_model)},
    {"n_layers", offsetof(ig_lm_config, n_layers)},
    {"n_heads", offsetof(ig_lm_config, n_heads)},
    {"n_kv_heads", offsetof(ig_lm_config, n_kv_heads)},
    {"d_ff", offsetof(ig_lm_config, d_ff)},
    {"ctx_len", offsetof(ig_lm_config, ctx_len)},
    {"vocabulary", offsetof(ig_lm_config, vocabulary)},
};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static int64_t *size_at(ig_lm_config *c, size_t i) {
    return (int64_t *)((char *)c + sizes[i].offset);
}

/* ---- saving ---- */

static json_t *tokenizer_json(const ig_adapter *a) {
    const ig_allocator *memory = ig_ctx_allocator(a->ctx);
    const size_t bytes = ig_tokenizer_json(a->tokenizer, NULL, 0);
    char *text = ig_alloc(memory, bytes + 1, 1);
    if (!text) return NULL;
    (void)ig_tokenizer_json(a->tokenizer, text, bytes + 1);
    json_t *json = NULL;
    (void)!ig_json_decode(IG_ERR_FORMAT, a->arch->name, "its tokenizer", text, bytes, 0, &json);
    ig_free(memory, text);
    return json; /* our own text: only memory can run out */
}

/* The config as a malloc'd string; NULL: out of memory. */
static char *config_text(ig_adapter *a) {
    const unsigned long before = ig_json_failures();
    json_t *config = json_object();
    bool ok = config && json_object_set_new(config, "arch", json_string(a->arch->name)) == 0;
    for (size_t i = 0; ok && i < SIZES; i++)
        ok = json_object_set_new(config, sizes[i].name, json_integer(*size_at(&a->config, i))) == 0;
    ok = ok && json_object_set_new(config, "tokenizer_name", json_string(a->tokenizer_name)) == 0 &&
         json_object_set_new(config, "tokenizer", tokenizer_json(a)) == 0;
    char *text = ok ? json_dumps(config, JSON_COMPACT) : NULL;
    json_decref(config);
    if (ig_json_failures() == before) return text;
    free(text);
    return NULL;
}

static ig_status keep_progress(ig_adapter *a, const char *progress) {
    const ig_allocator *memory = ig_ctx_allocator(a->ctx);
    char *copy = ig_copy_text(memory, progress);
    if (!copy) return IG_FAIL(IG_ERR_MEMORY, "%s: progress", a->arch->name);
    ig_free(memory, a->progress);
    a->progress = copy;
    return IG_OK;
}

static ig_status save(ig_adapter *a, const char *path, ig_optimizer *optimizer,
                      const char *progress) {
    if (!a || !path) return IG_FAIL(IG_ERR_ARGUMENT, "adapter_save: NULL");
    if (a->source)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: a %s model of a GGUF file is read only; copy its file",
                       path, a->arch->name);
    char *config = config_text(a);
    if (!config) return IG_FAIL(IG_ERR_MEMORY, "%s: config", path);
    const ig_checkpoint_options options = {
        .optimizer = optimizer, .config = config, .progress = progress ? progress : "{}"};
    const ig_status status = ig_checkpoint_save(path, a->root, &options);
    free(config);
    return status;
}

ig_status ig_adapter_save(ig_adapter *a, const char *path, const char *progress) {
    if (a) IG_TRY(ig_adapter_load_optimizer(a));
    IG_TRY(save(a, path, a ? a->optimizer : NULL, progress));
    return keep_progress(a, progress ? progress : "{}");
}

ig_status ig_adapter_export(ig_adapter *a, const char *path) {
    return save(a, path, NULL, a ? a->progress : NULL);
}

/* ---- the config ---- */

static ig_status read_sizes(const char *path, const json_t *config, ig_lm_config *out) {
    enum { MOST = 1 << 24 };
    for (size_t i = 0; i < SIZES; i++) {
        const json_t *value = json_object_get(config, sizes[i].name);
        const json_int_t n = json_is_integer(value) ? json_integer_value(value) : 0;
        if (n < 1 || n > MOST)
            return IG_FAIL(IG_ERR_FORMAT, "%s: its config has no valid %s", path, sizes[i].name);
        *size_at(out, i) = n;
    }
    return IG_OK;
}

static ig_status read_tokenizer(ig_ctx *ctx, const char *path, const json_t *config,
                                const ig_lm_config *sizes_of, ig_tokenizer **out) {
    const json_t *described = json_object_get(config, "tokenizer");
    if (!json_is_object(described))
        return IG_FAIL(IG_ERR_FORMAT, "%s: its config has no tokenizer", path);
    char *text = json_dumps(described, JSON_COMPACT);
    if (!text) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to read its tokenizer", path);
    ig_status status = ig_tokenizer_parse(ig_ctx_allocator(ctx), path, text, strlen(text), out);
    free(text);
    if (status == IG_OK && ig_tokenizer_vocab_size(*out) != sizes_of->vocabulary) {
        status = IG_FAIL(IG_ERR_FORMAT,
                         "%s: the vocabulary size is %lld, but the tokenizer has %d tokens", path,
                         (long long)sizes_of->vocabulary, ig_tokenizer_vocab_size(*out));
        ig_tokenizer_destroy(*out);
    }
    return status;
}

static ig_status build(ig_ctx *ctx, const char *path, const json_t *config, ig_adapter **out) {
    const char *name = json_string_value(json_object_get(config, "arch"));
    const char *tokenizer_name = json_string_value(json_object_get(config, "tokenizer_name"));
    ig_lm_config c = {0};
    ig_tokenizer *tokenizer = NULL;
    if (!name)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: its config has no architecture: it is not a language model", path);
    const ig_arch *arch = ig_arch_find(ctx, name, IG_ARCH_TRAINED);
    if (!arch)
        return IG_FAIL(IG_ERR_MODEL,
                       "%s: %s; if a plugin defines %.64s, load that with --plugin FILE "
                       "(ig_arch_load() in a program)",
                       path, ig_error_text(), name);
    IG_TRY(read_sizes(path, config, &c));
    IG_TRY(read_tokenizer(ctx, path, config, &c, &tokenizer));
    const ig_status status =
        ig_adapter_build(ctx, arch, &c, tokenizer_name ? tokenizer_name : "byte", tokenizer, out);
    if (status != IG_OK) ig_tokenizer_destroy(tokenizer);
    return status;
}

/* ---- the optimizer, which stays in the file until the first training step ---- */

ig_status ig_adapter_load_optimizer(ig_adapter *a) {
    if (!a->file) return IG_OK;
    if (!a->optimizer) IG_TRY(ig_adapter_make_optimizer(a, 3e-4, 0));
    IG_TRY(ig_checkpoint_load_optimizer(a->file, a->optimizer));
    ig_checkpoint_close(a->file);
    a->file = NULL;
    return IG_OK;
}

int64_t ig_adapter_steps(const ig_adapter *a) {
    if (!a->file) return a->optimizer ? ig_optimizer_steps(a->optimizer) : 0;
    const char *text = ig_checkpoint_optimizer(a->file);
    json_t *optimizer = NULL;
    if (ig_json_decode(IG_ERR_FORMAT, "checkpoint", "its optimizer", text, strlen(text), 0,
                       &optimizer) != IG_OK)
        return 0;
    const json_int_t steps = json_integer_value(json_object_get(optimizer, "steps"));
    json_decref(optimizer);
    return steps;
}

/* ---- loading ---- */

/* A model with uninitialized weights: they come from the file. */
static ig_status build_empty(ig_ctx *ctx, const char *path, const ig_checkpoint *file,
                             ig_adapter **out) {
    const char *text = ig_checkpoint_config(file);
    json_t *config = NULL;
    IG_TRY(ig_json_decode(IG_ERR_FORMAT, path, "its config", text, strlen(text), 0, &config));
    ig_no_init_begin(ctx);
    const ig_status status = build(ctx, path, config, out);
    ig_no_init_end(ctx);
    json_decref(config);
    return status;
}

/* The device must have the dtypes of the weights, and room for them. */
static ig_status require_device(ig_ctx *ctx, const ig_checkpoint *file) {
    ig_needs needs = {.module = "model"};
    for (size_t i = 0; i < ig_checkpoint_count(file); i++) {
        const ig_checkpoint_tensor t = ig_checkpoint_get(file, i);
        if (t.role != IG_ROLE_WEIGHT) continue;
        needs.dtypes |= UINT64_C(1) << t.desc.dtype;
        needs.bytes += t.n_bytes;
    }
    return ig_ctx_require(ctx, &needs);
}

static ig_status load(ig_ctx *ctx, const char *path, ig_checkpoint *file, ig_adapter **out) {
    IG_TRY(require_device(ctx, file));
    IG_TRY(build_empty(ctx, path, file, out));
    IG_TRY(ig_checkpoint_adopt(file, (*out)->root));
    (*out)->as_loaded = true;
    return keep_progress(*out, ig_checkpoint_progress(file));
}

ig_status ig_adapter_load(ig_ctx *ctx, const char *path, ig_adapter **out) {
    if (!ctx || !path || !out) return IG_FAIL(IG_ERR_ARGUMENT, "adapter_load: NULL");
    if (ig_file_kind_of(path) == IG_FILE_GGUF) return ig_adapter_open(ctx, path, NULL, out);
    ig_checkpoint *file = NULL;
    ig_adapter *a = NULL;
    IG_TRY(ig_checkpoint_open(path, &file));
    const ig_status status = load(ctx, path, file, &a);
    if (status == IG_OK && *ig_checkpoint_optimizer(file))
        a->file = file; /* owned by the adapter from here on */
    else
        ig_checkpoint_close(file);
    if (status == IG_OK)
        *out = a;
    else
        ig_adapter_destroy(a);
    return status;
}
