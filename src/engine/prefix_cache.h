/*
 * prefix_cache.h - pages of finished sequences, to be shared by prompts that begin alike.
 *
 * A radix tree.  Each node is a page of the session's KV cache, of which the first `n_tokens`
 * count: 64, or fewer in a leaf.  The path to it is the text before it.  Trees of different salts
 * share nothing.
 *
 *     salt ---- [The cat sat ... 64] ---- [on the mat ... 64] ---- [and 3]
 *                                   \---- [in the sun ... 40]
 *
 * A sequence that is attached to a path reads its pages.  Where it goes on within a page, the
 * session copies the page first, so even a part of a page is shared.
 *
 * Leaves that no sequence uses are evicted when pages are needed, least recently used first.
 */
#ifndef IG_ENGINE_PREFIX_CACHE_H
#define IG_ENGINE_PREFIX_CACHE_H

#include "model/session/session.h"

typedef struct ig_prefix_cache ig_prefix_cache;

/* The session is borrowed.  The caller owns the cache. */
IG_MUST_CHECK ig_status ig_prefix_cache_create(ig_session *session, const ig_allocator *a,
                                               ig_prefix_cache **out);
void ig_prefix_cache_destroy(ig_prefix_cache *cache); /* NULL is a no-op */
void ig_prefix_cache_clear(ig_prefix_cache *cache);   /* drops all pages */

/* Tokens of one tree. */
typedef struct ig_prefix {
    const void *salt;
    size_t salt_bytes;
    const int32_t *tokens;
    int64_t count;
} ig_prefix;

/* Where a lookup ended before the last token; token -1: nowhere, all were found or none is near. */
typedef struct ig_prefix_miss {
    int64_t position;
    int32_t token, cached; /* the first that differs */
} ig_prefix_miss;

/* Attaches the longest cached prefix to an empty sequence and returns its length. */
int64_t ig_prefix_cache_attach(ig_prefix_cache *cache, ig_prefix prefix, int32_t sequence,
                               ig_prefix_miss *out);

/* Adds the pages of a sequence, whose first tokens are the prefix: those that are complete, or all.
 * Without memory for a node it adds fewer. */
void ig_prefix_cache_add(ig_prefix_cache *cache, ig_prefix prefix, int32_t sequence,
                         bool also_last);

/* Frees `n_pages` pages, or fewer if sequences use the others; returns how many. */
int32_t ig_prefix_cache_evict(ig_prefix_cache *cache, int32_t n_pages);

/* Pages that only the cache holds. */
int32_t ig_prefix_cache_idle_pages(const ig_prefix_cache *cache);
uint64_t ig_prefix_cache_evicted(const ig_prefix_cache *cache); /* pages, so far */

#endif
