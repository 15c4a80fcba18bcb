/*
 * Models of GGUF files. Everything that can be wrong with a file is found here, without a context:
 * keys, weights and shapes, tokenizer tables.
 */
#include "model/gguf/gguf_model.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/quant_blocks.h"
#include "format/gguf/gguf_layout.h"
#include "ingot/device.h"
#include "model/adapter.h"
#include "model/gguf/gguf_vocab.h"

ig_keys ig_model_keys(const ig_model *m) {
    return (ig_keys){
        .file = m->file, .source = m->path, .arch = m->arch ? m->arch->name : "general"};
}

int64_t ig_model_param_count(const ig_model *m) {
    int64_t count = 0;
    for (size_t i = 0; i < ig_gguf_n_tensors(m->file); i++)
        count += ig_shape_count(ig_gguf_tensor_at(m->file, i)->desc.shape);
    return count;
}

/* ---- loading ---- */

static ig_status find_arch(ig_model *m) {
    char name[65];
    ig_string_view text;
    if (!ig_gguf_string(m->file, "general.architecture", &text))
        return IG_FAIL(IG_ERR_FORMAT, "%s: key general.architecture is missing", m->path);
    snprintf(name, sizeof name, "%.*s", (int)(text.n_bytes < 64 ? text.n_bytes : 64), text.bytes);
    m->arch = ig_arch_find(NULL, name, IG_ARCH_OF_FILES);
    return m->arch ? IG_OK : IG_FAIL(IG_ERR_MODEL, "%s: %s", m->path, ig_error_text());
}

/* The embedding may have more rows than the vocabulary has tokens, never fewer. */
static ig_status read_tokenizer(ig_model *m, const char *pre) {
    IG_TRY(ig_vocab_from_gguf(&m->memory, m->path, m->file, pre, &m->tokenizer));
    const int32_t tokens = ig_tokenizer_vocab_size(m->tokenizer);
    if (tokens <= m->hyper.size.vocabulary) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s: %d tokens, but an embedding of %lld", m->path, tokens,
                   (long long)m->hyper.size.vocabulary);
}

static ig_status make_packing(ig_model *m, const ig_model_options *o) {
    const bool is_mapped = !m->in_memory.file && !o->no_mmap && !o->mlock;
    const ig_pack_source kind = is_mapped ? IG_PACK_MAPPED : IG_PACK_MEMORY;
    if (o->no_pack) return IG_OK;
    IG_TRY(ig_packing_create(&m->memory, &m->packing));
    for (size_t i = 0; i < ig_gguf_n_tensors(m->file); i++) {
        const ig_gguf_tensor *t = ig_gguf_tensor_at(m->file, i);
        IG_TRY(ig_packing_add(m->packing, t->bytes, t->n_bytes, kind));
    }
    return IG_OK;
}

static bool tell(void *user, uint64_t done, uint64_t total) {
    const ig_model_options *o = user;
    if (o->progress) o->progress(o->user, IG_PROGRESS_LOAD, done, total);
    return !o->cancel || !o->cancel(o->user);
}

/* Reads everything but the weight data.  Messages have the names of `named` (or NULL). */
static ig_status read_file(ig_model *m, const char *pre, const ig_conversion *named) {
    IG_TRY(find_arch(m));
    ig_keys keys = ig_model_keys(m);
    if (named) {
        keys.shown = ig_conversion_source_name;
        keys.user = named;
    }
    IG_TRY(ig_hparams_read(&keys, m->arch, &m->hyper));
    IG_TRY(ig_weights_check(&keys, m->arch, &m->hyper));
    if (m->in_memory.file && !ig_gguf_find(m->file, "tokenizer.ggml.model")) return IG_OK;
    return read_tokenizer(m, pre);
}

ig_status ig_model_check(const ig_allocator *a, const char *source, ig_gguf *file) {
    ig_model m = {.memory = *a, .path = (char *)(uintptr_t)source, .file = file};
    const ig_status status = read_file(&m, NULL, NULL);
    ig_tokenizer_destroy(m.tokenizer);
    return status;
}

static ig_status load(ig_model *m, const ig_model_options *o) {
    const ig_gguf_options options = {.no_mmap = o->no_mmap,
                                     .mlock = o->mlock,
                                     .progress = tell,
                                     .user = (void *)(uintptr_t)o,
                                     .allocator = &m->memory};
    IG_TRY(ig_gguf_open(m->path, &options, &m->file));
    IG_TRY(read_file(m, o->pre_tokenizer, NULL));
    return make_packing(m, o);
}

static ig_status take_source(ig_model *m, const ig_model_options *o,
                             const ig_model_source *source) {
    const ig_conversion_options how = {.pre = o->pre_tokenizer};
    ig_conversion *c = NULL;
    IG_TRY(ig_conversion_open_source(&m->memory, m->path, source, &how, &c));
    ig_status status = ig_memory_file_make(c, &m->in_memory);
    m->file = m->in_memory.file;
    if (status == IG_OK) status = read_file(m, o->pre_tokenizer, c);
    ig_conversion_close(c);
    IG_TRY(status);
    IG_TRY(make_packing(m, o));
    m->release = source->release;
    m->user = source->user;
    return IG_OK;
}

/* Of a file, or of a source. */
static ig_status make(const char *path, const ig_model_source *source,
                      const ig_model_options *options, ig_model **out) {
    static const ig_model_options defaults;
    const ig_model_options *o = options ? options : &defaults;
    const ig_allocator memory = o->allocator.alloc ? o->allocator : ig_heap;
    ig_model *m = ig_alloc(&memory, 1, sizeof *m);
    if (!m) return IG_FAIL(IG_ERR_MEMORY, "%s: a model", path);
    atomic_init(&m->refs, 1);
    m->memory = memory;
    m->path = ig_copy_text(&m->memory, path);
    ig_status status = IG_OK;
    if (!m->path)
        status = IG_FAIL(IG_ERR_MEMORY, "%s: a model", path);
    else
        status = source ? take_source(m, o, source) : load(m, o);
    if (status == IG_OK)
        *out = m;
    else
        ig_model_release(m);
    return status;
}

ig_status ig_model_load(const char *path, const ig_model_options *options, ig_model **out) {
    if (!path || !out) return IG_FAIL(IG_ERR_ARGUMENT, "model_load: NULL");
    return make(path, NULL, options, out);
}

ig_status ig_model_create(const ig_model_source *source, const ig_model_options *options,
                          ig_model **out) {
    if (!source || !out) return IG_FAIL(IG_ERR_ARGUMENT, "model_create: NULL");
    if (options && (options->no_mmap || options->mlock))
        return IG_FAIL(IG_ERR_ARGUMENT, "model_create: no_mmap and mlock apply to files alone");
    return make(source->name ? source->name : "model", source, options, out);
}

uint64_t ig_model_copied_bytes(const ig_model *m) { return m ? m->in_memory.copied_bytes : 0; }

ig_model *ig_model_retain(ig_model *m) {
    if (m) atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

void ig_model_release(ig_model *m) {
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1) return;
    const ig_allocator memory = m->memory;
    ig_tokenizer_destroy(m->tokenizer);
    ig_packing_release(m->packing);
    if (!m->in_memory.file) ig_gguf_close(m->file);
    ig_memory_file_deinit(&m->in_memory);
    if (m->release) m->release(m->user);
    ig_free(&memory, m->path);
    ig_free(&memory, m);
}

/* ---- in a context ---- */

static void retain(void *model) { (void)ig_model_retain(model); }
static void release(void *model) { ig_model_release(model); }

/* The device must have the dtypes of the weights, and room for them. */
static ig_status require_device(ig_ctx *ctx, const ig_model *m) {
    ig_needs needs = {.module = "model"};
    for (size_t i = 0; i < ig_gguf_n_tensors(m->file); i++) {
        const ig_gguf_tensor *t = ig_gguf_tensor_at(m->file, i);
        needs.dtypes |= UINT64_C(1) << t->desc.dtype;
        needs.bytes += (uint64_t)ig_bytes_of(t->desc.dtype, ig_shape_count(t->desc.shape));
    }
    return ig_ctx_require(ctx, &needs);
}

ig_status ig_adapter_from_model(ig_ctx *ctx, ig_model *model, ig_adapter **out) {
    if (!ctx || !model || !out) return IG_FAIL(IG_ERR_ARGUMENT, "adapter_from_model: NULL");
    const ig_allocator *a_memory = ig_ctx_allocator(ctx);
    IG_TRY(require_device(ctx, model));
    IG_TRY(ig_ctx_attach_packing(ctx, model->packing));
    ig_adapter *a = ig_alloc(a_memory, 1, sizeof *a);
    if (!a) {
        ig_ctx_detach_packing(ctx, model->packing);
        return IG_FAIL(IG_ERR_MEMORY, "%s: an adapter", model->path);
    }
    const ig_keys keys = ig_model_keys(model);
    a->ctx = ctx;
    a->arch = model->arch;
    a->config = model->hyper.size;
    a->source = ig_model_retain(model);
    a->tokenizer = model->tokenizer;
    a->tokenizer_name =
        ig_copy_text(a_memory, model->tokenizer ? ig_tokenizer_name(model->tokenizer) : "none");
    a->progress = ig_copy_text(a_memory, "{}");
    ig_status status = a->tokenizer_name && a->progress
                           ? IG_OK
                           : IG_FAIL(IG_ERR_MEMORY, "%s: an adapter", model->path);
    if (status == IG_OK)
        status = ig_lm_create(ctx, &keys, model->arch, &model->hyper,
                              (ig_weights_owner){retain, release, model}, (ig_lm **)&a->model);
    if (status == IG_OK)
        *out = a;
    else
        ig_adapter_destroy(a);
    return status;
}
