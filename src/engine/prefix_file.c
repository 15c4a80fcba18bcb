/*
 * The prefix cache as a file, so that a new process starts with the prompts of the one before.
 *
 *     head      magic, identity, counts; checksums of the body and of itself
 *     salts     [n_salts] SHA-256 digests
 *     nodes     [n_nodes] parent, n_tokens, tokens; the most recently used first
 *     rows      of each node: keys and values of its tokens, layer by layer
 *
 * All integers are little-endian.  A parent comes before its children, so the beginning of the list
 * is a tree, too: what does not fit is left out, the oldest first.
 */
#include <string.h>

#include "base/summed_file.h"
#include "engine/prefix_tree.h"
#include "ingot/report.h"

typedef struct file_head {
    char magic[8];
    uint64_t identity;
    uint64_t n_salts, n_nodes, n_rows, row_bytes;
    uint64_t body_sum, head_sum;
} file_head;
static_assert(sizeof(file_head) == 64, "padding");

typedef struct file_node {
    int32_t parent; /* a node before this one, or -1 - salt */
    int32_t n_tokens;
    int32_t tokens[IG_PAGE_TOKENS];
} file_node;
static_assert(sizeof(file_node) == 8 + 4 * IG_PAGE_TOKENS, "padding");

static const char magic[8] = "IGPREFX1";

static uint64_t head_sum(const file_head *h) {
    return XXH3_64bits(h, offsetof(file_head, head_sum));
}

static uint64_t body_bytes(const file_head *h) {
    return h->n_salts * IG_SALT_DIGEST_BYTES + h->n_nodes * sizeof(file_node) +
           h->n_rows * h->row_bytes;
}

/* ---- identity ---- */

static ig_status hash_part(void *user, char *bytes, uint64_t n_bytes) {
    XXH3_64bits_update(user, bytes, (size_t)n_bytes);
    return IG_OK;
}

/* Another device, instruction set or release of the library gives a few tokens other bits. */
static ig_status hash_probe(ig_session *s, XXH3_state_t *sum) {
    enum { PROBE = 24 };
    int32_t tokens[PROBE];
    const int64_t n = s->config.ctx_len < PROBE ? s->config.ctx_len : PROBE;
    for (int64_t i = 0; i < n; i++) tokens[i] = (int32_t)((i * i + 1) % s->config.vocabulary);
    IG_TRY(ig_session_feed(s, 0, tokens, n, NULL));
    const ig_status status = ig_session_visit_page(s, ig_session_page(s, 0, 0), n, hash_part, sum);
    ig_pages_truncate(&s->pages, 0, 0);
    return status;
}

ig_status ig_prefix_file_identify(ig_session *s, uint64_t *out) {
    const uint64_t digest = ig_session_digest(s);
    XXH3_state_t sum;
    XXH3_64bits_reset(&sum);
    XXH3_64bits_update(&sum, &digest, sizeof digest);
    XXH3_64bits_update(&sum, ig_version(), strlen(ig_version()));
    XXH3_64bits_update(&sum, ig_ctx_device(s->ctx), strlen(ig_ctx_device(s->ctx)));
    if (s->layers) IG_TRY(hash_probe(s, &sum));
    *out = XXH3_64bits_digest(&sum);
    return IG_OK;
}

/* ---- saving ---- */

/* Numbers the nodes that fit and their roots, and counts them. */
static void count_nodes(const ig_prefix_cache *c, uint64_t most_bytes, file_head *h) {
    for (ig_prefix_node *n = c->newest; n; n = n->older) n->number = n->parent->number = -1;
    for (ig_prefix_node *n = c->newest; n; n = n->older) {
        file_head with = *h;
        const bool is_first = n->parent->page < 0 && n->parent->number < 0;
        with.n_nodes++;
        with.n_rows += (uint64_t)n->n_tokens;
        with.n_salts += is_first;
        if (sizeof *h + body_bytes(&with) > most_bytes) break;
        if (is_first) n->parent->number = (int32_t)h->n_salts;
        n->number = (int32_t)h->n_nodes;
        *h = with;
    }
}

static bool is_saved(const ig_prefix_node *n) { return n && n->number >= 0; }

static ig_status save_body(const ig_prefix_cache *c, ig_summed_file *w) {
    int32_t n_salts = 0;
    for (const ig_prefix_node *n = c->newest; is_saved(n); n = n->older) {
        ig_prefix_node *root = n->parent;
        if (root->page >= 0 || root->number != n_salts) continue;
        IG_TRY(ig_summed_file_append(w, root->salt.text, IG_SALT_DIGEST_BYTES));
        n_salts++;
    }
    for (const ig_prefix_node *n = c->newest; is_saved(n); n = n->older) {
        const int32_t number = n->parent->number;
        file_node f = {.parent = n->parent->page < 0 ? -1 - number : number,
                       .n_tokens = n->n_tokens};
        memcpy(f.tokens, n->tokens, (size_t)n->n_tokens * sizeof *f.tokens);
        IG_TRY(ig_summed_file_append(w, (char *)&f, sizeof f));
    }
    for (const ig_prefix_node *n = c->newest; is_saved(n); n = n->older)
        IG_TRY(ig_session_visit_page(c->session, n->page, n->n_tokens, ig_summed_file_append, w));
    return IG_OK;
}

static ig_status save(const ig_prefix_cache *c, file_head *h, ig_summed_file *w) {
    ig_summed_file_begin(w, sizeof *h);
    IG_TRY(save_body(c, w));
    h->body_sum = ig_summed_file_digest(w);
    h->head_sum = head_sum(h);
    IG_TRY(ig_file_writer_write(w->writer, 0, h, sizeof *h));
    return ig_file_writer_commit(w->writer);
}

ig_status ig_prefix_file_save(ig_prefix_cache *c, const char *path, uint64_t identity,
                              uint64_t most_bytes) {
    file_head h = {.identity = identity, .row_bytes = ig_session_row_bytes(c->session)};
    ig_summed_file w = {0};
    memcpy(h.magic, magic, sizeof magic);
    count_nodes(c, most_bytes, &h);
    if (h.n_nodes == 0) return IG_OK;
    IG_TRY(ig_file_writer_create(c->allocator, path, sizeof h + body_bytes(&h), &w.writer));
    const ig_status status = save(c, &h, &w);
    ig_file_writer_destroy(w.writer);
    return status;
}

/* ---- loading ---- */

static ig_status check_head(const file_head *h, const char *path, uint64_t identity,
                            uint64_t row_bytes, uint64_t bytes) {
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return IG_FAIL(IG_ERR_FORMAT, "%s: is not a prefix cache", path);
    if (h->head_sum != head_sum(h))
        return IG_FAIL(IG_ERR_FORMAT, "%s: corrupt header: checksum mismatch", path);
    if (h->identity != identity || h->row_bytes != row_bytes)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "%s: is the prefix cache of another model, KV cache type or device", path);
    const uint64_t most = bytes / sizeof(file_node); /* so that sums do not overflow */
    if (h->n_salts > h->n_nodes || h->n_nodes > most || h->n_nodes > INT32_MAX ||
        h->n_rows > h->n_nodes * IG_PAGE_TOKENS ||
        (row_bytes > 0 && h->n_rows > bytes / row_bytes) || bytes - sizeof *h != body_bytes(h))
        return IG_FAIL(IG_ERR_FORMAT, "%s: has %llu bytes, which its header does not describe",
                       path, (unsigned long long)bytes);
    return IG_OK;
}

/* A file in memory. */
typedef struct loading {
    ig_prefix_cache *cache;
    const char *path, *salts, *nodes, *rows;
    file_head head;
    uint64_t rows_left;
    ig_prefix_node **made; /* [n_nodes] */
} loading;

static ig_status load_part(void *user, char *bytes, uint64_t n_bytes) {
    loading *l = user;
    memcpy(bytes, l->rows, n_bytes);
    l->rows += n_bytes;
    return IG_OK;
}

static ig_status check_node(const loading *l, uint64_t i, const file_node *f) {
    const int64_t n_tokens = l->cache->session->config.vocabulary, salt = -1 - (int64_t)f->parent;
    bool good = f->parent >= 0 ? (uint64_t)f->parent < i : salt < (int64_t)l->head.n_salts;
    good = good && f->n_tokens >= 1 && f->n_tokens <= IG_PAGE_TOKENS &&
           (uint64_t)f->n_tokens <= l->rows_left;
    good = good && (f->parent < 0 || l->made[f->parent]->n_tokens == IG_PAGE_TOKENS);
    for (int32_t k = 0; good && k < f->n_tokens; k++)
        good = f->tokens[k] >= 0 && f->tokens[k] < n_tokens;
    if (good) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s: node %llu has parent %d and %d tokens: corrupt", l->path,
                   (unsigned long long)i, f->parent, f->n_tokens);
}

/* *out_full: there was no page for it. */
static ig_status load_node(loading *l, uint64_t i, bool *out_full) {
    ig_pages *pages = &l->cache->session->pages;
    ig_salt_digest salt = {""};
    file_node f;
    memcpy(&f, l->nodes + i * sizeof f, sizeof f);
    IG_TRY(check_node(l, i, &f));
    const int32_t page = ig_pages_take(pages);
    *out_full = page < 0;
    if (page < 0) return IG_OK;
    if (f.parent < 0)
        memcpy(salt.text, l->salts + (size_t)(-1 - f.parent) * IG_SALT_DIGEST_BYTES,
               IG_SALT_DIGEST_BYTES);
    ig_status status = ig_session_visit_page(l->cache->session, page, f.n_tokens, load_part, l);
    if (status == IG_OK) {
        l->made[i] = ig_prefix_cache_restore(l->cache, f.parent < 0 ? NULL : l->made[f.parent],
                                             &salt, f.tokens, f.n_tokens, page);
        if (!l->made[i]) status = IG_FAIL(IG_ERR_MEMORY, "%s: no memory for a node", l->path);
    }
    if (status != IG_OK) ig_pages_drop(pages, page);
    l->rows_left -= (uint64_t)f.n_tokens;
    return status;
}

static ig_status load_nodes(loading *l, int64_t *out_pages) {
    ig_status status = IG_OK;
    bool full = false;
    l->made = ig_alloc(l->cache->allocator, (size_t)l->head.n_nodes, sizeof(ig_prefix_node *));
    if (!l->made && l->head.n_nodes > 0)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %llu nodes", l->path,
                       (unsigned long long)l->head.n_nodes);
    *out_pages = 0;
    for (uint64_t i = 0; status == IG_OK && i < l->head.n_nodes && !full; i++) {
        status = load_node(l, i, &full);
        *out_pages += status == IG_OK && !full;
    }
    ig_free(l->cache->allocator, l->made);
    return status;
}

static ig_status load(ig_prefix_cache *c, const char *path, uint64_t identity,
                      const ig_file_map *map, int64_t *out_pages) {
    loading l = {.cache = c, .path = path};
    if (map->size < sizeof l.head) return IG_FAIL(IG_ERR_FORMAT, "%s: is not a prefix cache", path);
    memcpy(&l.head, map->bytes, sizeof l.head);
    IG_TRY(check_head(&l.head, path, identity, ig_session_row_bytes(c->session), map->size));
    l.salts = (const char *)map->bytes + sizeof l.head;
    if (XXH3_64bits(l.salts, (size_t)(map->size - sizeof l.head)) != l.head.body_sum)
        return IG_FAIL(IG_ERR_FORMAT, "%s: corrupt: checksum mismatch", path);
    l.nodes = l.salts + l.head.n_salts * IG_SALT_DIGEST_BYTES;
    l.rows = l.nodes + l.head.n_nodes * sizeof(file_node);
    l.rows_left = l.head.n_rows;
    return load_nodes(&l, out_pages);
}

ig_status ig_prefix_file_load(ig_prefix_cache *c, const char *path, uint64_t identity,
                              int64_t *out_pages) {
    ig_file_map map = {0};
    IG_TRY(ig_file_map_open(path, &map));
    const ig_status status = load(c, path, identity, &map, out_pages);
    ig_file_map_close(&map);
    if (status == IG_ERR_FORMAT) ig_prefix_cache_clear(c);
    return status;
}
