#include "engine/prefix_cache.h"

#include <string.h>

#include <xxhash.h>

#include "base/alloc.h"

typedef struct node {
    struct node *parent, *child, *next, *previous; /* siblings: a list */
    struct node *in_bucket;                        /* the next in the hash table's chain */
    struct node *newer, *older;                    /* least recently used order; not of roots */
    XXH128_hash_t hash; /* of the salt and all tokens to the end of this page */
    int32_t page;       /* -1: a root */
    int32_t n_tokens;
    int32_t tokens[IG_PAGE_TOKENS];
    size_t salt_bytes; /* of a root */
    char salt[];
} node;

struct ig_prefix_cache {
    ig_session *session; /* borrowed */
    const ig_allocator *allocator;
    node **buckets; /* of roots and complete pages, by hash */
    size_t n_buckets;
    node *newest, *oldest;
    uint64_t n_evicted;
};

ig_status ig_prefix_cache_create(ig_session *session, const ig_allocator *a,
                                 ig_prefix_cache **out) {
    ig_prefix_cache *c = ig_alloc(a, 1, sizeof *c);
    if (!c) return IG_FAIL(IG_ERR_MEMORY, "prefix cache");
    *c = (ig_prefix_cache){.session = session, .allocator = a, .n_buckets = 64};
    while (c->n_buckets < (size_t)session->pages.n_pages) c->n_buckets *= 2;
    c->buckets = ig_alloc(a, c->n_buckets, sizeof(node *));
    if (!c->buckets) {
        ig_free(a, c);
        return IG_FAIL(IG_ERR_MEMORY, "prefix cache: a table of %d pages", session->pages.n_pages);
    }
    *out = c;
    return IG_OK;
}

/* ---- the hash table ---- */

static XXH128_hash_t hash_of_salt(ig_prefix prefix) {
    return XXH3_128bits(prefix.salt, prefix.salt_bytes);
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

static node *find_root(const ig_prefix_cache *c, ig_prefix prefix) {
    const XXH128_hash_t hash = hash_of_salt(prefix);
    for (node *n = *bucket_of(c, hash); n; n = n->in_bucket)
        if (n->page < 0 && n->salt_bytes == prefix.salt_bytes &&
            (prefix.salt_bytes == 0 || memcmp(n->salt, prefix.salt, prefix.salt_bytes) == 0))
            return n;
    return NULL;
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

/* Removes a leaf, and its root if that was the last page of the tree. */
static void drop(ig_prefix_cache *c, node *n) {
    node *parent = n->parent;
    if (n->previous)
        n->previous->next = n->next;
    else
        parent->child = n->next;
    if (n->next) n->next->previous = n->previous;
    if (is_complete(n)) leave(c, n);
    unlink_order(c, n);
    ig_pages_drop(&c->session->pages, n->page);
    ig_free(c->allocator, n);
    if (parent->page >= 0 || parent->child) return;
    leave(c, parent);
    ig_free(c->allocator, parent);
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
    ig_free(c->allocator, c->buckets);
    ig_free(c->allocator, c);
}

static node *make_root(ig_prefix_cache *c, ig_prefix prefix) {
    node *n = ig_alloc(c->allocator, 1, sizeof *n + prefix.salt_bytes);
    if (!n) return NULL;
    n->page = -1;
    n->hash = hash_of_salt(prefix);
    n->salt_bytes = prefix.salt_bytes;
    if (prefix.salt_bytes > 0) memcpy(n->salt, prefix.salt, prefix.salt_bytes);
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

int64_t ig_prefix_cache_attach(ig_prefix_cache *c, ig_prefix prefix, int32_t sequence,
                               ig_prefix_miss *out) {
    node *at = find_root(c, prefix);
    int64_t done = 0;
    *out = (ig_prefix_miss){.token = -1};
    if (!at) return 0;
    while (prefix.count - done >= IG_PAGE_TOKENS) {
        node *next = find_page(c, at, prefix.tokens + done);
        if (!next) break;
        ig_session_attach(c->session, sequence, next->page, next->tokens, IG_PAGE_TOKENS);
        done += IG_PAGE_TOKENS;
        at = next;
    }
    int32_t same = 0;
    node *near = find_nearest(at, prefix.tokens + done, prefix.count - done, &same);
    if (same > 0) {
        ig_session_attach(c->session, sequence, near->page, near->tokens, same);
        done += same;
    }
    if (near && same < near->n_tokens && done < prefix.count)
        *out = (ig_prefix_miss){done, prefix.tokens[done], near->tokens[same]};
    touch(c, same > 0 ? near : at);
    return done;
}

/* ---- adding ---- */

static node *make_node(ig_prefix_cache *c, node *parent, const int32_t *tokens, int32_t count,
                       int32_t page) {
    node *n = ig_alloc(c->allocator, 1, sizeof *n);
    if (!n) return NULL;
    n->page = page;
    n->n_tokens = count;
    memcpy(n->tokens, tokens, (size_t)count * sizeof *tokens);
    ig_pages_hold(&c->session->pages, page);
    add_child(parent, n);
    push_newest(c, n);
    if (!is_complete(n)) return n;
    n->hash = hash_of_page(parent, tokens);
    enter(c, n);
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
    ig_pages_hold(&c->session->pages, page);
    ig_pages_drop(&c->session->pages, found->page);
    found->page = page;
    found->n_tokens = count;
    memcpy(found->tokens, tokens, (size_t)count * sizeof *tokens);
    if (!is_complete(found)) return found;
    found->hash = hash_of_page(parent, tokens);
    enter(c, found);
    return found;
}

void ig_prefix_cache_add(ig_prefix_cache *c, ig_prefix prefix, int32_t sequence, bool also_last) {
    node *root = find_root(c, prefix), *at = root;
    if (!at) at = root = make_root(c, prefix);
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
    if (!root || root->child) return;
    leave(c, root);
    ig_free(c->allocator, root);
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

int32_t ig_prefix_cache_idle_pages(const ig_prefix_cache *c) {
    int32_t count = 0;
    for (const node *n = c->oldest; n; n = n->newer) count += is_idle(c, n);
    return count;
}

uint64_t ig_prefix_cache_evicted(const ig_prefix_cache *c) { return c->n_evicted; }
