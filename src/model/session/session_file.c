/*
 * A sequence as a file: the KV cache of a prompt, to continue from later.
 *
 *     header    magic, identity of model and caches, number of tokens; checksums
 *     tokens    [n] i32
 *     layers    keys of all tokens, then values, layer by layer, in the KV cache's dtypes
 *
 * All integers are little-endian. One checksum covers the header, one everything after it, so a
 * file is loaded completely or not at all.
 */
#include <string.h>

#include "base/summed_file.h"
#include "model/adapter.h"
#include "model/gguf/gguf_model.h"

typedef struct head {
    char magic[8];
    uint64_t model; /* digest */
    uint32_t cache_k, cache_v;
    uint64_t n_tokens, n_layers, k_bytes, v_bytes; /* bytes of a token's keys and values */
    uint64_t body_sum, head_sum;
} head;
static_assert(sizeof(head) == 72, "padding");

static const char magic[8] = "IGSTATE2";

/* ---- whose state it is ---- */

/* The first bytes of every weight identify a model without reading all of it. */
static void add_sample(XXH3_state_t *sum, const void *bytes, uint64_t n_bytes) {
    enum { SAMPLE = 4096 };
    XXH3_64bits_update(sum, bytes, (size_t)(n_bytes < SAMPLE ? n_bytes : SAMPLE));
}

/* All keys of the architecture: with another RoPE base the same weights give other keys and
 * values. */
static void add_keys(XXH3_state_t *sum, const ig_gguf *file, const char *arch) {
    for (size_t i = 0; i < ig_gguf_n_values(file); i++) {
        const ig_gguf_value *v = ig_gguf_value_at(file, i);
        const size_t length = strlen(arch);
        if (v->key.n_bytes <= length || memcmp(v->key.bytes, arch, length) != 0 ||
            v->key.bytes[length] != '.')
            continue;
        XXH3_64bits_update(sum, v->key.bytes, v->key.n_bytes);
        for (uint64_t k = 0; k < v->count; k++) {
            const double number = v->texts ? 0 : ig_gguf_real_at(v, k);
            if (v->texts)
                XXH3_64bits_update(sum, v->texts[k].bytes, v->texts[k].n_bytes);
            else
                XXH3_64bits_update(sum, &number, sizeof number);
        }
    }
}

static uint64_t model_digest(const ig_session *s) {
    const ig_adapter *a = s->adapter;
    XXH3_state_t sum;
    XXH3_64bits_reset(&sum);
    XXH3_64bits_update(&sum, a->arch->name, strlen(a->arch->name));
    XXH3_64bits_update(&sum, &a->config, sizeof a->config);
    const ig_gguf *file = a->source ? a->source->file : NULL;
    if (file) add_keys(&sum, file, a->arch->name);
    for (size_t i = 0; file && i < ig_gguf_n_tensors(file); i++) {
        const ig_gguf_tensor *t = ig_gguf_tensor_at(file, i);
        add_sample(&sum, t->bytes, t->n_bytes);
    }
    for (size_t i = 0; a->root && i < ig_module_param_count(a->root); i++) {
        ig_tensor *t = ig_module_param(a->root, i).tensor;
        uint64_t bytes = 0;
        (void)ig_desc_bytes(ig_tensor_desc(t), &bytes);
        add_sample(&sum, ig_tensor_map(t), bytes);
    }
    return XXH3_64bits_digest(&sum);
}

static uint64_t row_bytes(const ig_session *s, const ig_tensor *cache) {
    uint64_t bytes = 0;
    (void)ig_desc_bytes(ig_tensor_desc(cache), &bytes);
    return bytes / ((uint64_t)s->pages.n_pages * IG_PAGE_TOKENS);
}

/* The header of a state with `n_tokens` tokens of this session, without its checksums. */
static head head_of(const ig_session *s, int64_t n_tokens) {
    head h = {.model = model_digest(s),
              .cache_k = s->cache_type_k,
              .cache_v = s->cache_type_v,
              .n_tokens = (uint64_t)n_tokens,
              .n_layers = s->layers ? (uint64_t)s->config.n_layers : 0};
    memcpy(h.magic, magic, sizeof magic);
    if (s->layers) {
        h.k_bytes = row_bytes(s, s->layers[0].k);
        h.v_bytes = row_bytes(s, s->layers[0].v);
    }
    return h;
}

static uint64_t body_bytes(const head *h) {
    return h->n_tokens * (sizeof(int32_t) + h->n_layers * (h->k_bytes + h->v_bytes));
}

uint64_t ig_session_row_bytes(const ig_session *s) {
    const head h = head_of(s, 0);
    return h.n_layers * (h.k_bytes + h.v_bytes);
}

uint64_t ig_session_digest(const ig_session *s) {
    const head h = head_of(s, 0);
    return XXH3_64bits(&h, offsetof(head, body_sum));
}

static uint64_t head_sum(const head *h) { return XXH3_64bits(h, offsetof(head, head_sum)); }

/* ---- rows of the cache, in order ---- */

/* Visits the first rows of a page of a KV cache. */
static ig_status visit_rows(const ig_session *s, ig_tensor *cache, int32_t page, int64_t rows,
                            ig_session_visit_fn *visit, void *user) {
    const uint64_t each = row_bytes(s, cache);
    char *all = ig_tensor_map(cache);
    return visit(user, all + (uint64_t)page * IG_PAGE_TOKENS * each, (uint64_t)rows * each);
}

/* Visits the byte ranges of a KV cache that hold a sequence, page by page. */
static ig_status each_page(const ig_session *s, int32_t sequence, ig_tensor *cache,
                           ig_session_visit_fn *visit, void *user) {
    for (int64_t at = 0; at < s->pages.length[sequence]; at += IG_PAGE_TOKENS) {
        const int64_t left = s->pages.length[sequence] - at;
        const int64_t rows = left < IG_PAGE_TOKENS ? left : IG_PAGE_TOKENS;
        const int32_t page = ig_session_page(s, sequence, at / IG_PAGE_TOKENS);
        IG_TRY(visit_rows(s, cache, page, rows, visit, user));
    }
    return IG_OK;
}

ig_status ig_session_visit_page(const ig_session *s, int32_t page, int64_t rows,
                                ig_session_visit_fn *visit, void *user) {
    for (int64_t i = 0; s->layers && i < s->config.n_layers; i++) {
        IG_TRY(visit_rows(s, s->layers[i].k, page, rows, visit, user));
        IG_TRY(visit_rows(s, s->layers[i].v, page, rows, visit, user));
    }
    return IG_OK;
}

/* Tokens first, then each layer. */
static ig_status each_part(const ig_session *s, int32_t sequence, ig_session_visit_fn *visit,
                           void *user) {
    IG_TRY(visit(user, (char *)(s->tokens + sequence * s->config.ctx_len),
                 (uint64_t)s->pages.length[sequence] * sizeof *s->tokens));
    for (int64_t i = 0; s->layers && i < s->config.n_layers; i++) {
        IG_TRY(each_page(s, sequence, s->layers[i].k, visit, user));
        IG_TRY(each_page(s, sequence, s->layers[i].v, visit, user));
    }
    return IG_OK;
}

/* ---- saving ---- */

static ig_status save(const ig_session *s, int32_t sequence, head *h, ig_summed_file *w) {
    ig_summed_file_begin(w, sizeof *h);
    IG_TRY(each_part(s, sequence, ig_summed_file_append, w));
    h->body_sum = ig_summed_file_digest(w);
    h->head_sum = head_sum(h);
    IG_TRY(ig_file_writer_write(w->writer, 0, h, sizeof *h));
    return ig_file_writer_commit(w->writer);
}

ig_status ig_session_save(ig_session *s, int32_t sequence, const char *path) {
    if (!s || !path) return IG_FAIL(IG_ERR_ARGUMENT, "session_save: NULL");
    IG_TRY(ig_session_check(s, sequence));
    if (!ig_session_counts(s, sequence))
        return IG_FAIL(IG_ERR_UNSUPPORTED,
                       "session_save: sequence %d has positions of its own; files hold none",
                       sequence);
    head h = head_of(s, s->pages.length[sequence]);
    ig_summed_file w = {0};
    IG_TRY(ig_file_writer_create(ig_ctx_allocator(s->ctx), path, sizeof h + body_bytes(&h),
                                 &w.writer));
    const ig_status status = save(s, sequence, &h, &w);
    ig_file_writer_destroy(w.writer);
    return status;
}

/* ---- loading ---- */

static ig_status check_head(const ig_session *s, const char *path, const head *h, uint64_t bytes) {
    const head want = head_of(s, 0);
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return IG_FAIL(IG_ERR_FORMAT, "%s: is no saved state of a session", path);
    if (h->head_sum != head_sum(h))
        return IG_FAIL(IG_ERR_FORMAT, "%s: corrupt header: checksum mismatch", path);
    if (h->model != want.model)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: is the state of another model", path);
    if (h->cache_k != want.cache_k || h->cache_v != want.cache_v)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: has a cache of %s and %s, the session of %s and %s",
                       path, ig_dtype_name((ig_dtype)h->cache_k),
                       ig_dtype_name((ig_dtype)h->cache_v), ig_dtype_name(s->cache_type_k),
                       ig_dtype_name(s->cache_type_v));
    if (h->n_layers != want.n_layers || h->k_bytes != want.k_bytes || h->v_bytes != want.v_bytes)
        return IG_FAIL(IG_ERR_FORMAT, "%s: its head does not fit the model", path);
    if (h->n_tokens > (uint64_t)s->config.ctx_len)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: has %llu tokens, but the context is %lld", path,
                       (unsigned long long)h->n_tokens, (long long)s->config.ctx_len);
    if (bytes - sizeof *h != body_bytes(h))
        return IG_FAIL(IG_ERR_FORMAT, "%s: has %llu bytes, not %llu", path,
                       (unsigned long long)bytes, (unsigned long long)(sizeof *h + body_bytes(h)));
    return IG_OK;
}

static ig_status load_part(void *user, char *bytes, uint64_t n_bytes) {
    const char **from = user;
    memcpy(bytes, *from, n_bytes);
    *from += n_bytes;
    return IG_OK;
}

/* Allocates the pages, then fills them. */
static ig_status take_in(ig_session *s, int32_t sequence, const head *h, const char *body) {
    ig_pages_truncate(&s->pages, sequence, 0);
    for (uint64_t i = 0; i < h->n_tokens; i++) {
        int32_t token, unused;
        memcpy(&token, body + i * sizeof token, sizeof token);
        if (token < 0 || token >= s->config.vocabulary)
            return IG_FAIL(IG_ERR_FORMAT, "token %d is not below %lld", token,
                           (long long)s->config.vocabulary);
        IG_TRY(ig_session_append(s, sequence, token, &unused));
    }
    return each_part(s, sequence, load_part, &body);
}

static ig_status load(ig_session *s, int32_t sequence, const char *path, const ig_file_map *map) {
    head h;
    if (map->size < sizeof h)
        return IG_FAIL(IG_ERR_FORMAT, "%s: is no saved state of a session", path);
    memcpy(&h, map->bytes, sizeof h);
    IG_TRY(check_head(s, path, &h, map->size));
    const char *body = (const char *)map->bytes + sizeof h;
    if (XXH3_64bits(body, (size_t)(map->size - sizeof h)) != h.body_sum)
        return IG_FAIL(IG_ERR_FORMAT, "%s: is damaged: the sum is another", path);
    const ig_status status = take_in(s, sequence, &h, body);
    if (status != IG_OK) ig_pages_truncate(&s->pages, sequence, 0);
    return status;
}

ig_status ig_session_load(ig_session *s, int32_t sequence, const char *path) {
    ig_file_map map = {0};
    if (!s || !path) return IG_FAIL(IG_ERR_ARGUMENT, "session_load: NULL");
    IG_TRY(ig_session_check(s, sequence));
    IG_TRY(ig_file_map_open(path, &map));
    const ig_status status = load(s, sequence, path, &map);
    ig_file_map_close(&map);
    return status;
}
