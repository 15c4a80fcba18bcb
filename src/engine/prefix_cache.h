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

#include "base/sha256.h"
#include "model/session/session.h"

typedef struct ig_prefix_cache ig_prefix_cache;

/* The session is borrowed.  The caller owns the cache. */
IG_MUST_CHECK ig_status ig_prefix_cache_create(ig_session *session, const ig_allocator *a,
                                               ig_prefix_cache **out);
void ig_prefix_cache_destroy(ig_prefix_cache *cache); /* NULL is a no-op */
void ig_prefix_cache_clear(ig_prefix_cache *cache);   /* drops all pages */

/* SHA-256 as text.  A salt itself is not kept: it may be a key. */
typedef struct ig_salt_digest {
    char text[IG_SHA256_TEXT_BYTES];
} ig_salt_digest;
ig_salt_digest ig_salt_digest_of(const void *salt, size_t n_bytes);

/* Tokens of one tree. */
typedef struct ig_prefix {
    const ig_salt_digest *salt;
    const int32_t *tokens;
    int64_t count;
} ig_prefix;

/* Why a lookup found no more than it did. */
typedef enum ig_prefix_reason {
    IG_PREFIX_ALL_FOUND,
    IG_PREFIX_NEW,        /* nothing cached begins like this */
    IG_PREFIX_ENDS,       /* the cached text ends here */
    IG_PREFIX_DIFFERS,    /* the nearest cached text continues with another token */
    IG_PREFIX_EVICTED,    /* the next page was cached once */
    IG_PREFIX_OTHER_SALT, /* the first page was cached with another salt */
} ig_prefix_reason;

typedef struct ig_prefix_miss {
    ig_prefix_reason reason;
    int64_t position;      /* of the first token that was not found */
    int32_t token, cached; /* DIFFERS: that token, and the cached one */
} ig_prefix_miss;

/* Attaches the longest cached prefix to an empty sequence and returns its length. */
int64_t ig_prefix_cache_attach(ig_prefix_cache *cache, ig_prefix prefix, int32_t sequence,
                               ig_prefix_miss *out);

/* Adds the pages of a sequence, whose first tokens are the prefix: those that are complete, or all.
 * Without memory for a node it adds fewer. */
void ig_prefix_cache_add(ig_prefix_cache *cache, ig_prefix prefix, int32_t sequence,
                         bool also_last);

/* Drops the pages of a prefix that no other text and no sequence uses; returns how many. */
int32_t ig_prefix_cache_forget(ig_prefix_cache *cache, ig_prefix prefix);

/* Frees `n_pages` pages, or fewer if sequences use the others; returns how many. */
int32_t ig_prefix_cache_evict(ig_prefix_cache *cache, int32_t n_pages);

/* Pages that only the cache holds. */
int32_t ig_prefix_cache_idle_pages(const ig_prefix_cache *cache);
uint64_t ig_prefix_cache_evicted(const ig_prefix_cache *cache); /* pages, so far */

/* ---- prefix_file.c: the cache on disk ---- */

/* Hashes what keys and values of a token depend on: the model, the KV cache types, and the device,
 * by running a few tokens in sequence 0, which must be empty. */
IG_MUST_CHECK ig_status ig_prefix_file_identify(ig_session *session, uint64_t *out);

/* Replaces the file atomically, with the most recently used pages that fit into `most_bytes`.  An
 * empty cache leaves the file alone. */
IG_MUST_CHECK ig_status ig_prefix_file_save(ig_prefix_cache *cache, const char *path,
                                            uint64_t identity, uint64_t most_bytes);

/* Adds the pages of a file to an empty cache while pages are free.  A file of another identity is
 * IG_ERR_ARGUMENT, a corrupt one IG_ERR_FORMAT, and then nothing is added.  Without
 * memory for a node it adds fewer and is IG_ERR_MEMORY. */
IG_MUST_CHECK ig_status ig_prefix_file_load(ig_prefix_cache *cache, const char *path,
                                            uint64_t identity, int64_t *out_pages);

#endif
