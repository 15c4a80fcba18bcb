/*
 * lookup.h - which id stands for these bytes, by hash.
 *
 * Says nothing of bytes that no id stands for.  Of several ids with the same bytes
 * the first that was added is meant.
 */
#ifndef IG_TEXT_LOOKUP_H
#define IG_TEXT_LOOKUP_H

#include "text/tokenizer/tokenizer_kind.h"

typedef struct ig_lookup {
    uint32_t *slots; /* [mask + 1], 1 + id or 0; at most half of them are taken */
    uint32_t mask;
    size_t longest; /* bytes of the longest that was added */
} ig_lookup;

/* Room for `count` pieces; the memory is of the tokenizer's allocator. */
IG_MUST_CHECK ig_status ig_lookup_init(const ig_tokenizer *t, size_t count, ig_lookup *out);
void ig_lookup_deinit(const ig_tokenizer *t, ig_lookup *lookup); /* a zeroed one is fine */

void ig_lookup_add(ig_lookup *lookup, const ig_tokenizer *t, int32_t id);

/* Below 0: none. */
int32_t ig_lookup_find(const ig_lookup *lookup, const ig_tokenizer *t, const char *bytes,
                       size_t n_bytes);

#endif
