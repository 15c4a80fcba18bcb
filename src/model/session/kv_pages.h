/*
 * kv_pages.h - maps positions of sequences to pages of the KV cache.
 *
 *     table [sequences, pages of each]      sequence 1, position 70 -> table[1][70 / 64], row 70 %
 * 64
 *
 * Pages are allocated as sequences grow and freed as they shrink. Several sequences may share a
 * page as long as none writes to it.
 */
#ifndef IG_MODEL_SESSION_KV_PAGES_H
#define IG_MODEL_SESSION_KV_PAGES_H

#include "base/alloc.h"
#include "ingot/op.h"

typedef struct ig_pages {
    int32_t n_sequences, per_sequence, n_pages, n_free;
    int32_t *table;  /* lent: read by the kernels; -1: no page */
    int32_t *refs;   /* [n_pages]: sequences that use the page */
    int32_t *free;   /* [n_pages], n_free of them */
    int64_t *length; /* [n_sequences]: positions in use */
} ig_pages;

/* `table` has room for n_sequences x per_sequence entries. */
IG_MUST_CHECK ig_status ig_pages_init(ig_pages *pages, const ig_allocator *a, int32_t *table,
                                      int32_t n_sequences, int32_t per_sequence, int32_t n_pages);
void ig_pages_deinit(ig_pages *pages, const ig_allocator *a);

/*
 * The row in [pages 64] for the next position of a sequence, which grows by one. If its page was
 * shared, the sequence gets a copy: `copy_from` is the page to copy, else -1.
 */
IG_MUST_CHECK ig_status ig_pages_append(ig_pages *pages, int32_t sequence, int32_t *out_row,
                                        int32_t *copy_from);

void ig_pages_truncate(ig_pages *pages, int32_t sequence, int64_t length);
void ig_pages_share(ig_pages *pages, int32_t from, int32_t to); /* `to` must be empty */

/* A page that is held stays as it is, also without sequences, until it is dropped as often. */
void ig_pages_hold(ig_pages *pages, int32_t page);
void ig_pages_drop(ig_pages *pages, int32_t page);
/* A free page, held once; -1: there is none. */
int32_t ig_pages_take(ig_pages *pages);
/* Appends the first `count` positions of a held page to a sequence that ends with a complete page.
 */
void ig_pages_attach(ig_pages *pages, int32_t sequence, int32_t page, int64_t count);
/* Free pages that `count` more positions of a sequence take. */
int32_t ig_pages_needed(const ig_pages *pages, int32_t sequence, int64_t count);

#endif
