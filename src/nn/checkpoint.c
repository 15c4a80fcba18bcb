/*
 * Checkpoints: saves and loads a module's parameters and an optimizer's state.
 *
 * Saving copies the tensors one by one through a buffer of the size of the largest, so it never
 * needs memory for a second model. Loading first checks everything that can fail (names, dtypes,
 * shapes, the optimizer's hyperparameters, the checksums of all data it will use), and only then
 * writes.
 */
#include "ingot/checkpoint.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/file.h"
#include "format/oam/oam.h"
#include "ingot/grad.h"
#include "nn/checkpoint_items.h"

/* ---- Saving ---- */

typedef struct saving {
    const char *path;
    const ig_allocator *allocator;
    checkpoint_items items;
    char *optimizer_text;
    ig_oam_writer *oam;
    ig_file_writer *file;
    void *buffer; /* of the size of the largest tensor */
} saving;

static ig_status prepare(saving *s, ig_module *module, const ig_checkpoint_options *options) {
    IG_TRY(checkpoint_items_init(&s->items, s->path, module, options->optimizer));
    if (options->optimizer)
        IG_TRY(checkpoint_optimizer_text(s->allocator, s->path, options->optimizer,
                                         &s->optimizer_text));
    const ig_oam_content content = {
        .config = options->config,
        .progress = options->progress,
        .optimizer = s->optimizer_text,
        .seed = ig_ctx_seed(ig_module_ctx(module)),
        .step = ig_ctx_step_count(ig_module_ctx(module)),
        .entries = s->items.entries,
        .count = s->items.count,
    };
    IG_TRY(ig_oam_writer_create(s->allocator, s->path, &content, &s->oam));

    uint64_t largest = 0;
    for (size_t i = 0; i < s->items.count; i++) {
        uint64_t bytes = 0;
        ig_desc_bytes(s->items.entries[i].desc, &bytes);
        if (bytes > largest) largest = bytes;
    }
    s->buffer = largest <= SIZE_MAX ? ig_alloc(s->allocator, (size_t)largest, 1) : NULL;
    if (!s->buffer)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for the largest tensor, %" PRIu64 " bytes",
                       s->path, largest);
    return IG_OK;
}

static ig_status write_all(saving *s) {
    IG_TRY(
        ig_file_writer_create(s->allocator, s->path, ig_oam_writer_file_bytes(s->oam), &s->file));
    for (size_t i = 0; i < s->items.count; i++) {
        uint64_t bytes = 0;
        ig_desc_bytes(s->items.entries[i].desc, &bytes);
        IG_TRY(ig_tensor_read(s->items.tensors[i], s->buffer, (size_t)bytes));
        const uint64_t at = ig_oam_writer_add(s->oam, s->buffer);
        IG_TRY(ig_file_writer_write(s->file, at, s->buffer, bytes));
    }
    uint64_t head_bytes;
    const void *head = ig_oam_writer_head(s->oam, &head_bytes);
    IG_TRY(ig_file_writer_write(s->file, 0, head, head_bytes));
    return ig_file_writer_commit(s->file);
}

ig_status ig_checkpoint_save(const char *path, ig_module *module,
                             const ig_checkpoint_options *options) {
    if (!path || !module) return IG_FAIL(IG_ERR_ARGUMENT, "checkpoint: no path, or no module");
    const ig_checkpoint_options none = {0};
    saving s = {.path = path, .allocator = ig_ctx_allocator(ig_module_ctx(module))};

    ig_status status = prepare(&s, module, options ? options : &none);
    if (status == IG_OK) status = write_all(&s);

    ig_file_writer_destroy(s.file);
    ig_free(s.allocator, s.buffer);
    ig_oam_writer_destroy(s.oam);
    ig_free(s.allocator, s.optimizer_text);
    checkpoint_items_deinit(&s.items);
    return status;
}

/* ---- Opening ---- */

struct ig_checkpoint {
    _Atomic uint32_t refs; /* one for the opener, and one per parameter backed by the mapped file */
    char *path;
    ig_file_map map;
    ig_oam *oam;
};

ig_status ig_checkpoint_open(const char *path, ig_checkpoint **out) {
    if (!path || !out) return IG_FAIL(IG_ERR_ARGUMENT, "checkpoint: no path, or no place");
    ig_checkpoint *c = ig_alloc(&ig_heap, 1, sizeof *c);
    if (!c) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to open it", path);

    ig_status status = IG_OK;
    atomic_init(&c->refs, 1);
    c->path = ig_copy_text(&ig_heap, path);
    if (!c->path) status = IG_FAIL(IG_ERR_MEMORY, "%s: no memory to open it", path);
    if (status == IG_OK) status = ig_file_map_open(path, &c->map);
    if (status == IG_OK)
        status = ig_oam_open(&ig_heap, c->path, c->map.bytes, c->map.size, &c->oam);
    if (status == IG_OK)
        *out = c;
    else
        ig_checkpoint_close(c);
    return status;
}

void ig_checkpoint_close(ig_checkpoint *c) {
    if (!c || atomic_fetch_sub(&c->refs, 1) > 1) return;
    ig_oam_close(c->oam);
    ig_file_map_close(&c->map);
    ig_free(&ig_heap, c->path);
    ig_free(&ig_heap, c);
}

ig_status ig_checkpoint_verify(const ig_checkpoint *c) { return ig_oam_verify(c->oam); }

uint32_t ig_checkpoint_version(const ig_checkpoint *c) { return ig_oam_version(c->oam); }

static const char *text_or(const char *text, const char *otherwise) {
    return text ? text : otherwise;
}

const char *ig_checkpoint_config(const ig_checkpoint *c) {
    return text_or(ig_oam_config(c->oam), "{}");
}

const char *ig_checkpoint_progress(const ig_checkpoint *c) {
    return text_or(ig_oam_progress(c->oam), "{}");
}

const char *ig_checkpoint_optimizer(const ig_checkpoint *c) {
    return text_or(ig_oam_optimizer(c->oam), "");
}

uint64_t ig_checkpoint_seed(const ig_checkpoint *c) { return ig_oam_seed(c->oam); }
uint64_t ig_checkpoint_step(const ig_checkpoint *c) { return ig_oam_step(c->oam); }
uint64_t ig_checkpoint_file_bytes(const ig_checkpoint *c) { return ig_oam_file_bytes(c->oam); }
size_t ig_checkpoint_count(const ig_checkpoint *c) { return ig_oam_count(c->oam); }

ig_checkpoint_tensor ig_checkpoint_get(const ig_checkpoint *c, size_t i) {
    return i < ig_oam_count(c->oam) ? ig_oam_get(c->oam, i) : (ig_checkpoint_tensor){.name = ""};
}

/* ---- Loading ---- */

enum { MOST_LISTED = 3, LIST_BYTES = 360 };

/* Collects mismatches and describes the first few: "a: file has [2] f32, model has [3] f32; b:
 * ..." */
typedef struct mismatches {
    char text[LIST_BYTES];
    size_t used, count;
} mismatches;

static const char *desc_text(ig_desc desc, char *out, size_t out_bytes) {
    char shape[IG_SHAPE_TEXT_BYTES];
    snprintf(out, out_bytes, "%s %s", ig_shape_text(desc.shape, shape), ig_dtype_name(desc.dtype));
    return out;
}

/* NULL: missing on that side. */
static void add_mismatch(mismatches *m, const char *name, const ig_desc *file,
                         const ig_desc *model) {
    if (m->count++ >= MOST_LISTED || m->used >= LIST_BYTES) return;
    char in_file[IG_SHAPE_TEXT_BYTES + 16], in_model[IG_SHAPE_TEXT_BYTES + 16];
    const int used = snprintf(m->text + m->used, LIST_BYTES - m->used,
                              "%s%s: file has %s, model has %s", m->used ? "; " : "", name,
                              file ? desc_text(*file, in_file, sizeof in_file) : "none",
                              model ? desc_text(*model, in_model, sizeof in_model) : "none");
    m->used += used > 0 ? (size_t)used : 0;
}

static ig_status mismatches_status(const mismatches *m, const char *path) {
    if (m->count == 0) return IG_OK;
    if (m->count > MOST_LISTED)
        return IG_FAIL(IG_ERR_SHAPE, "%s: %s; and %zu more", path, m->text, m->count - MOST_LISTED);
    return IG_FAIL(IG_ERR_SHAPE, "%s: %s", path, m->text);
}

typedef struct loading {
    const ig_allocator *allocator;
    checkpoint_items items;
    checkpoint_optimizer numbers;
    size_t *at;  /* item i is this tensor of the file */
    bool *taken; /* tensor k of the file matches an item */
} loading;

static bool desc_equal(ig_desc a, ig_desc b) {
    return a.dtype == b.dtype && ig_shape_equal(a.shape, b.shape);
}

/* Matches every item to a tensor by name; no requested tensor may be left over. */
static ig_status match(const ig_checkpoint *c, loading *l, bool weights_only) {
    mismatches m = {0};
    for (size_t i = 0; i < l->items.count; i++) {
        const ig_oam_entry *mine = &l->items.entries[i];
        ig_checkpoint_tensor t = {0};
        bool found = ig_oam_find(c->oam, mine->name, &l->at[i]);
        if (found) t = ig_oam_get(c->oam, l->at[i]);
        found = found && t.role == mine->role;
        if (found) l->taken[l->at[i]] = true;
        if (!found || !desc_equal(t.desc, mine->desc))
            add_mismatch(&m, mine->name, found ? &t.desc : NULL, &mine->desc);
    }
    for (size_t k = 0; k < ig_oam_count(c->oam); k++) {
        const ig_checkpoint_tensor t = ig_oam_get(c->oam, k);
        const bool asked_for = !weights_only || t.role == IG_ROLE_WEIGHT;
        if (asked_for && !l->taken[k]) add_mismatch(&m, t.name, &t.desc, NULL);
    }
    return mismatches_status(&m, c->path);
}

static ig_status check_optimizer(const ig_checkpoint *c, loading *l, const ig_ctx *ctx,
                                 const ig_optimizer *opt) {
    const char *text = ig_oam_optimizer(c->oam);
    if (!text) return IG_FAIL(IG_ERR_ARGUMENT, "%s: has no state of an optimizer", c->path);
    IG_TRY(checkpoint_optimizer_read(c->path, text, opt, &l->numbers));
    if (ig_oam_seed(c->oam) != ig_ctx_seed(ctx))
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "%s: was trained with seed %" PRIu64 ", this context has %" PRIu64
                       ": random numbers would continue differently",
                       c->path, ig_oam_seed(c->oam), ig_ctx_seed(ctx));
    return IG_OK;
}

/* Verifies the checksums of items from `first` on, which reads all their bytes. Progress is
 * reported only if it takes a while. */
static ig_status check_bytes(const ig_checkpoint *c, const loading *l, const ig_ctx *ctx,
                             size_t first) {
    static const uint64_t worth_telling = 64 << 20;
    uint64_t total = 0, done = 0;
    for (size_t i = first; i < l->items.count; i++) total += ig_oam_get(c->oam, l->at[i]).n_bytes;
    for (size_t i = first; i < l->items.count; i++) {
        IG_TRY(ig_oam_verify_tensor(c->oam, l->at[i]));
        done += ig_oam_get(c->oam, l->at[i]).n_bytes;
        if (total >= worth_telling && !ig_ctx_progress(ctx, IG_PROGRESS_LOAD, done, total))
            return IG_FAIL(IG_ERR_CANCELLED, "%s: cancelled", c->path);
    }
    return IG_OK;
}

/* All checks that depend on the file. Changes nothing but `l`. */
static ig_status check_all(const ig_checkpoint *c, loading *l, ig_module *module,
                           const ig_optimizer *opt, size_t first) {
    IG_TRY(checkpoint_items_init(&l->items, c->path, module, opt));
    if (opt) IG_TRY(check_optimizer(c, l, ig_module_ctx(module), opt));

    l->at = ig_alloc(l->allocator, l->items.count, sizeof *l->at);
    l->taken = ig_alloc(l->allocator, ig_oam_count(c->oam), sizeof *l->taken);
    if (!l->at || !l->taken)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for a list of %zu tensors", c->path,
                       l->items.count);
    IG_TRY(match(c, l, !opt));
    return check_bytes(c, l, ig_module_ctx(module), first);
}

/* Copies into the items from `first` on; weights come before state. */
static ig_status fill(const ig_checkpoint *c, const loading *l, ig_ctx *ctx, ig_optimizer *opt,
                      size_t first) {
    for (size_t i = first; i < l->items.count; i++) {
        const ig_checkpoint_tensor t = ig_oam_get(c->oam, l->at[i]);
        IG_TRY(ig_tensor_write(l->items.tensors[i], t.bytes, (size_t)t.n_bytes));
    }
    if (!opt) return IG_OK;
    IG_TRY(ig_optimizer_set_hparams(opt, l->numbers.hypers));
    IG_TRY(ig_optimizer_set_steps(opt, l->numbers.steps));
    ig_ctx_set_step_count(ctx, ig_oam_step(c->oam));
    return IG_OK;
}

static void release_weight(void *checkpoint) { ig_checkpoint_close(checkpoint); }

/* Makes the mapped file the parameters' memory. */
static ig_status adopt(ig_checkpoint *c, const loading *l) {
    for (size_t i = 0; i < l->items.count; i++) {
        const ig_checkpoint_tensor t = ig_oam_get(c->oam, l->at[i]);
        if (t.n_bytes == 0) continue;
        atomic_fetch_add(&c->refs, 1);
        const ig_status status =
            ig_tensor_adopt(l->items.tensors[i], (void *)(uintptr_t)t.bytes, release_weight, c);
        if (status != IG_OK) {
            ig_checkpoint_close(c);
            return status;
        }
    }
    return IG_OK;
}

static void loading_deinit(loading *l) {
    ig_free(l->allocator, l->taken);
    ig_free(l->allocator, l->at);
    checkpoint_items_deinit(&l->items);
}

ig_status ig_checkpoint_load(const char *path, ig_module *module, ig_optimizer *opt) {
    if (!module) return IG_FAIL(IG_ERR_ARGUMENT, "checkpoint: no module to load into");
    ig_checkpoint *c = NULL;
    IG_TRY(ig_checkpoint_open(path, &c));
    assert(c);

    ig_ctx *ctx = ig_module_ctx(module);
    loading l = {.allocator = ig_ctx_allocator(ctx)};
    ig_status status = check_all(c, &l, module, opt, 0);
    if (status == IG_OK) status = fill(c, &l, ctx, opt, 0);
    loading_deinit(&l);
    ig_checkpoint_close(c);
    return status;
}

ig_status ig_checkpoint_adopt(ig_checkpoint *c, ig_module *module) {
    if (!c || !module) return IG_FAIL(IG_ERR_ARGUMENT, "checkpoint_adopt: NULL");
    ig_ctx *ctx = ig_module_ctx(module);
    loading l = {.allocator = ig_ctx_allocator(ctx)};
    IG_TRY(ig_file_map_make_writable(&c->map, c->path)); /* before its pages are read */
    ig_status status = check_all(c, &l, module, NULL, 0);
    if (status == IG_OK) status = adopt(c, &l);
    if (status == IG_ERR_UNSUPPORTED)
        status = fill(c, &l, ctx, NULL, 0); /* the device does not use host memory */
    loading_deinit(&l);
    return status;
}

ig_status ig_checkpoint_load_optimizer(const ig_checkpoint *c, ig_optimizer *opt) {
    if (!c || !opt) return IG_FAIL(IG_ERR_ARGUMENT, "checkpoint_load_optimizer: NULL");
    ig_module *module = ig_optimizer_module(opt);
    ig_ctx *ctx = ig_module_ctx(module);
    const size_t first = ig_module_param_count(module);
    loading l = {.allocator = ig_ctx_allocator(ctx)};
    ig_status status = check_all(c, &l, module, opt, first);
    if (status == IG_OK) status = fill(c, &l, ctx, opt, first);
    loading_deinit(&l);
    return status;
}
