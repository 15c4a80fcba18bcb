#include "engine/prefix_cache.h"

#include <string.h>

#include "base/alloc.h"
#include "engine/prefix_tree.h"

typedef ig_prefix_node node;

static bool make_tables(ig_prefix_cache *c) {
    c->buckets = ig_alloc(c->allocator, c->n_buckets, sizeof(node *));
    c->evicted = ig_alloc(c->allocator, c->n_buckets, sizeof *c->evicted);
    c->first_pages = ig_alloc(c->allocator, c->n_buckets, sizeof *c->first_pages);
    c->is_cached = ig_alloc(c->allocator, (size_t)c->session->pages.n_pages, 1);
    return c->buckets && c->evicted && c->first_pages && c->is_cached;
}

static void free_tables(ig_prefix_cache *c) {
    ig_free(c->allocator, c->buckets);
    ig_free(c->allocator, c->evicted);
    ig_free(c->allocator, c->first_pages);
    ig_free(c->allocator, c->is_cached);
}

ig_status ig_prefix_cache_create(ig_session *session, const ig_allocator *a,
                                 ig_prefix_cache **out) {
    ig_prefix_cache *c = ig_alloc(a, 1, sizeof *c);
    if (!c) return IG_FAIL(IG_ERR_MEMORY, "prefix cache");
    *c = (ig_prefix_cache){.session = session, .allocator = a, .n_buckets = 64};
    while (c->n_buckets < (size_t)session->pages.n_pages) c->n_buckets *= 2;
    if (!make_tables(c)) {
        free_tables(c);
        ig_free(a, c);
        return IG_FAIL(IG_ERR_MEMORY, "prefix cache: a table of %d pages", session->pages.n_pages);
    }
    *out = c;
    return IG_OK;
}

/* ---- the hash table ---- */

ig_salt_digest ig_salt_digest_of(const void *salt, size_t n_bytes) {
    ig_salt_digest digest;
    ig_sha256(salt, n_bytes, digest.text);
    return digest;
}

static XXH128_hash_t hash_of_salt(const ig_salt_digest *salt) {
    return XXH3_128bits(salt->text, IG_SALT_DIGEST_BYTES);
}

/* Of a complete page. */
static XXH128_hash_t hash_of_page(const node *parent, const int32_t *tokens) {
    struct {
        XXH128_hash_t before;
        int32_t tokens[IG_PAGE_TOKENS];
    } text = {.before = parent->hash};
    memcpy(text.tokens, tokens, sizeof text.tokens);
    return XXH3_128bits(&text, sizeof text);
}

static node **bucket_of(const ig_prefix_cache *c, XXH128_hash_t hash) {
    return &c->buckets[hash.low64 & (c->n_buckets - 1)];
}

static void enter(const ig_prefix_cache *c, node *n) {
    node **bucket = bucket_of(c, n->hash);
    n->in_bucket = *bucket;
    *bucket = n;
}

static void leave(const ig_prefix_cache *c, const node *n) {
    node **at = bucket_of(c, n->hash);
    while (*at && *at != n) at = &(*at)->in_bucket;
    if (*at) *at = n->in_bucket;
}

static bool is_complete(const node *n) { return n->n_tokens == IG_PAGE_TOKENS; }

/* The child that continues with a complete page of these tokens. */
static node *find_page(const ig_prefix_cache *c, const node *parent, const int32_t *tokens) {
    const XXH128_hash_t hash = hash_of_page(parent, tokens);
    for (node *n = *bucket_of(c, hash); n; n = n->in_bucket)
        if (n->parent == parent && XXH128_isEqual(n->hash, hash) &&
            memcmp(n->tokens, tokens, sizeof n->tokens) == 0)
            return n;
    return NULL;
}

static node *find_root(const ig_prefix_cache *c, const ig_salt_digest *salt) {
    const XXH128_hash_t hash = hash_of_salt(salt);
    for (node *n = *bucket_of(c, hash); n; n = n->in_bucket)
        if (n->page < 0 && memcmp(n->salt.text, salt->text, IG_SALT_DIGEST_BYTES) == 0) return n;
    return NULL;
}

/* ---- what was there ---- */

static uint64_t *evicted_at(const ig_prefix_cache *c, XXH128_hash_t hash) {
    return &c->evicted[hash.low64 & (c->n_buckets - 1)];
}

static uint64_t *first_page_at(const ig_prefix_cache *c, const int32_t *tokens,
                               uint64_t *out_hash) {
    *out_hash = XXH3_64bits(tokens, IG_PAGE_TOKENS * sizeof *tokens);
    return &c->first_pages[*out_hash & (c->n_buckets - 1)];
}

static void note_cached(const ig_prefix_cache *c, const node *n) {
    uint64_t hash;
    if (n->parent->page >= 0 || !is_complete(n)) return;
    uint64_t *at = first_page_at(c, n->tokens, &hash);
    *at = hash;
}

static bool was_evicted(const ig_prefix_cache *c, const node *at, const int32_t *tokens) {
    const XXH128_hash_t hash = hash_of_page(at, tokens);
    return *evicted_at(c, hash) == hash.high64;
}

static bool has_other_salt(const ig_prefix_cache *c, const int32_t *tokens) {
    uint64_t hash;
    const uint64_t *at = first_page_at(c, tokens, &hash);
    return *at == hash;
}

/* ---- the tree and the order of use ---- */

static void unlink_order(ig_prefix_cache *c, node *n) {
    *(n->newer ? &n->newer->older : &c->newest) = n->older;
    *(n->older ? &n->older->newer : &c->oldest) = n->newer;
}

static void push_newest(ig_prefix_cache *c, node *n) {
    n->newer = NULL;
    n->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = n;
    c->newest = n;
}

static void push_oldest(ig_prefix_cache *c, node *n) {
    n->older = NULL;
    n->newer = c->oldest;
    *(c->oldest ? &c->oldest->older : &c->newest) = n;
    c->oldest = n;
}

/* Marks a path as used.  Parents come after their children, so the oldest node is a leaf. */
static void touch(ig_prefix_cache *c, node *n) {
    for (; n && n->page >= 0; n = n->parent) {
        unlink_order(c, n);
        push_newest(c, n);
    }
}

static void add_child(node *parent, node *n) {
    n->parent = parent;
    n->next = parent->child;
    if (n->next) n->next->previous = n;
    parent->child = n;
}

static void hold(const ig_prefix_cache *c, int32_t page) {
    ig_pages_hold(&c->session->pages, page);
    c->is_cached[page] = 1;
}

static void let_go(const ig_prefix_cache *c, int32_t page) {
    c->is_cached[page] = 0;
    ig_pages_drop(&c->session->pages, page);
}

static void drop_root(const ig_prefix_cache *c, node *root) {
    leave(c, root);
    ig_free(c->allocator, root);
}

/* Removes a leaf, and its root if that was the last page of the tree. */
static void drop(ig_prefix_cache *c, node *n) {
    node *parent = n->parent;
    if (n->previous)
        n->previous->next = n->next;
    else
        parent->child = n->next;
    if (n->next) n->next->previous = n->previous;
    if (is_complete(n)) {
        leave(c, n);
        *evicted_at(c, n->hash) = n->hash.high64;
    }
    unlink_order(c, n);
    let_go(c, n->page);
    ig_free(c->allocator, n);
    if (parent->page < 0 && !parent->child) drop_root(c, parent);
}

void ig_prefix_cache_clear(ig_prefix_cache *c) {
    while (c->oldest) {
        drop(c, c->oldest);
        c->n_evicted++;
    }
}

void ig_prefix_cache_destroy(ig_prefix_cache *c) {
    if (!c) return;
    ig_prefix_cache_clear(c);
    free_tables(c);
    ig_free(c->allocator, c);
}

static node *make_root(ig_prefix_cache *c, const ig_salt_digest *salt) {
    node *n = ig_alloc(c->allocator, 1, sizeof *n);
    if (!n) return NULL;
    n->page = -1;
    n->hash = hash_of_salt(salt);
    n->salt = *salt;
    enter(c, n);
    return n;
}

/* ---- lookups ---- */

static int32_t common(const node *n, const int32_t *tokens, int64_t count) {
    int32_t i = 0;
    while (i < n->n_tokens && i < count && n->tokens[i] == tokens[i]) i++;
    return i;
}

/* The child that has most tokens in common. */
static node *find_nearest(const node *parent, const int32_t *tokens, int64_t count,
                          int32_t *out_common) {
    node *best = NULL;
    *out_common = 0;
    for (node *n = parent->child; n; n = n->next) {
        const int32_t same = common(n, tokens, count);
        if (best && same <= *out_common) continue;
        best = n;
        *out_common = same;
    }
    return best;
}

/* Why the next tokens [count] after `at` are not cached, or not all.  `near` (or NULL) has the
 * first `same` of them. */
static ig_prefix_miss explain(const ig_prefix_cache *c, const node *at, const node *near,
                              int32_t same, const int32_t *tokens, int64_t count) {
    const bool has_page = count >= IG_PAGE_TOKENS;
    if (same >= count) return (ig_prefix_miss){.reason = IG_PREFIX_ALL_FOUND};
    if (has_page && at && was_evicted(c, at, tokens))
        return (ig_prefix_miss){.reason = IG_PREFIX_EVICTED};
    if (near && same < near->n_tokens && (same > 0 || at->page >= 0))
        return (ig_prefix_miss){IG_PREFIX_DIFFERS, 0, tokens[same], near->tokens[same]};
    if (same > 0 || (at && at->page >= 0)) return (ig_prefix_miss){.reason = IG_PREFIX_ENDS};
    if (has_page && has_other_salt(c, tokens))
        return (ig_prefix_miss){.reason = IG_PREFIX_OTHER_SALT};
    return (ig_prefix_miss){.reason = IG_PREFIX_NEW};
}

int64_t ig_prefix_cache_attach(ig_prefix_cache *c, ig_prefix prefix, int32_t sequence,
                               ig_prefix_miss *out) {
    const node empty = {.page = -1, .hash = hash_of_salt(prefix.salt)};
    const node *at = find_root(c, prefix.salt);
    node *last = NULL;
    int64_t done = 0;
    if (!at) at = &empty;
    while (prefix.count - done >= IG_PAGE_TOKENS) {
        node *next = find_page(c, at, prefix.tokens + done);
        if (!next) break;
        ig_session_attach(c->session, sequence, next->page, next->tokens, IG_PAGE_TOKENS);
        done += IG_PAGE_TOKENS;
        at = last = next;
    }
    int32_t same = 0;
    node *near = find_nearest(at, prefix.tokens + done, prefix.count - done, &same);
    *out = explain(c, at, near, same, prefix.tokens + done, prefix.count - done);
    if (same > 0) ig_session_attach(c->session, sequence, near->page, near->tokens, same);
    touch(c, same > 0 ? near : last);
    out->position = done + same;
    return done + same;
}

/* ---- adding ---- */

/* Enters a node that has become complete. */
static void complete(const ig_prefix_cache *c, node *n) {
    if (!is_complete(n)) return;
    n->hash = hash_of_page(n->parent, n->tokens);
    enter(c, n);
    note_cached(c, n);
}

static node *make_node(ig_prefix_cache *c, node *parent, const int32_t *tokens, int32_t count,
                       int32_t page) {
    node *n = ig_alloc(c->allocator, 1, sizeof *n);
    if (!n) return NULL;
    n->page = page;
    n->n_tokens = count;
    memcpy(n->tokens, tokens, (size_t)count * sizeof *tokens);
    hold(c, page);
    add_child(parent, n);
    push_newest(c, n);
    complete(c, n);
    return n;
}

/* The child for these tokens: the one that has them, a shorter one that they continue, or a new
 * one. */
static node *add_page(ig_prefix_cache *c, node *parent, const int32_t *tokens, int32_t count,
                      int32_t page) {
    int32_t same = 0;
    node *found = count == IG_PAGE_TOKENS ? find_page(c, parent, tokens) : NULL;
    if (found) return found;
    found = find_nearest(parent, tokens, count, &same);
    if (found && same == count) return found;
    if (!found || same < found->n_tokens || is_complete(found))
        return make_node(c, parent, tokens, count, page);
    if (found->page != page) {
        let_go(c, found->page);
        hold(c, page);
    }
    found->page = page;
    found->n_tokens = count;
    memcpy(found->tokens, tokens, (size_t)count * sizeof *tokens);
    complete(c, found);
    return found;
}

void ig_prefix_cache_add(ig_prefix_cache *c, ig_prefix prefix, int32_t sequence, bool also_last) {
    node *root = find_root(c, prefix.salt), *at;
    if (!root) root = make_root(c, prefix.salt);
    at = root;
    for (int64_t done = 0; at && done < prefix.count; done += IG_PAGE_TOKENS) {
        const int64_t left = prefix.count - done;
        const int32_t n = left < IG_PAGE_TOKENS ? (int32_t)left : IG_PAGE_TOKENS;
        if (n < IG_PAGE_TOKENS && !also_last) break;
        const int32_t page = ig_session_page(c->session, sequence, done / IG_PAGE_TOKENS);
        node *next = add_page(c, at, prefix.tokens + done, n, page);
        if (next) at = next;
        if (!next) break;
    }
    if (at) touch(c, at);
    if (root && !root->child) drop_root(c, root);
}

node *ig_prefix_cache_restore(ig_prefix_cache *c, node *parent, const ig_salt_digest *salt,
                              const int32_t *tokens, int32_t n_tokens, int32_t page) {
    node *root = parent ? NULL : find_root(c, salt), *n = NULL;
    if (!parent) parent = root = root ? root : make_root(c, salt);
    if (parent) n = make_node(c, parent, tokens, n_tokens, page);
    if (n) {
        unlink_order(c, n);
        push_oldest(c, n);
        ig_pages_drop(&c->session->pages, page); /* the node holds it now */
    }
    if (root && !root->child) drop_root(c, root);
    return n;
}

/* ---- eviction ---- */

static bool is_idle(const ig_prefix_cache *c, const node *n) {
    return c->session->pages.refs[n->page] == 1;
}

int32_t ig_prefix_cache_evict(ig_prefix_cache *c, int32_t n_pages) {
    int32_t freed = 0;
    for (node *n = c->oldest, *newer; n && freed < n_pages; n = newer) {
        newer = n->newer;
        if (n->child || !is_idle(c, n)) continue;
        drop(c, n);
        freed++;
    }
    c->n_evicted += (uint64_t)freed;
    return freed;
}

int32_t ig_prefix_cache_forget(ig_prefix_cache *c, ig_prefix prefix) {
    node *at = find_root(c, prefix.salt);
    int64_t done = 0;
    int32_t freed = 0, same = 0;
    while (at && prefix.count - done >= IG_PAGE_TOKENS) {
        node *next = find_page(c, at, prefix.tokens + done);
        if (!next) break;
        done += IG_PAGE_TOKENS;
        at = next;
    }
    if (!at) return 0;
    node *last = find_nearest(at, prefix.tokens + done, prefix.count - done, &same);
    if (last && same > 0 && same == last->n_tokens) at = last;
    while (at && at->page >= 0 && !at->child && is_idle(c, at)) {
        node *parent = at->parent;
        const bool is_last = parent->page < 0; /* dropped with the node if it was its only one */
        drop(c, at);
        freed++;
        at = is_last ? NULL : parent;
    }
    c->n_evicted += (uint64_t)freed;
    return freed;
}

int32_t ig_prefix_cache_idle_pages(const ig_prefix_cache *c) {
    const ig_pages *pages = &c->session->pages;
    int32_t count = 0; /* after every step: no walk of the tree */
    for (int32_t i = 0; i < pages->n_pages; i++) count += c->is_cached[i] & (pages->refs[i] == 1);
    return count;
}

uint64_t ig_prefix_cache_evicted(const ig_prefix_cache *c) { return c->n_evicted; }
