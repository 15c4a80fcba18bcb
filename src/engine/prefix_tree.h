/*
 * prefix_tree.h - the internals of the prefix cache, for prefix_cache.c and prefix_file.c.
 *
 * Every node is newer than its children: a walk from the newest meets parents first.
 */
#ifndef IG_ENGINE_PREFIX_TREE_H
#define IG_ENGINE_PREFIX_TREE_H

#include <xxhash.h>

#include "engine/prefix_cache.h"

enum { IG_SALT_DIGEST_BYTES = IG_SHA256_TEXT_BYTES - 1 };

typedef struct ig_prefix_node {
    struct ig_prefix_node *parent, *child, *next, *previous; /* siblings: a list */
    struct ig_prefix_node *in_bucket;     /* the next in the hash table's chain */
    struct ig_prefix_node *newer, *older; /* least recently used order; not of roots */
    XXH128_hash_t hash;                   /* of the salt and all tokens to the end of this page */
    int32_t page;                         /* -1: a root */
    int32_t n_tokens;
    int32_t number; /* in the file that is being written; -1: none yet */
    union {
        int32_t tokens[IG_PAGE_TOKENS];
        ig_salt_digest salt; /* of a root */
    };
} ig_prefix_node;

struct ig_prefix_cache {
    ig_session *session; /* borrowed */
    const ig_allocator *allocator;
    ig_prefix_node **buckets; /* of roots and complete pages, by hash */
    size_t n_buckets;
    ig_prefix_node *newest, *oldest;
    uint64_t n_evicted;
    uint8_t *is_cached; /* [pages] */
    /* What was there, one per bucket, for the reason of a miss alone: the hash of an evicted page,
     * and that of the tokens of a first page. */
    uint64_t *evicted, *first_pages;
};

/* Adds a node with a page that the cache takes over, as the oldest.  `parent`: a complete node, or
 * NULL for a first page of the tree with this salt.  NULL: out of memory. */
ig_prefix_node *ig_prefix_cache_restore(ig_prefix_cache *cache, ig_prefix_node *parent,
                                        const ig_salt_digest *salt, const int32_t *tokens,
                                        int32_t n_tokens, int32_t page);

#endif
