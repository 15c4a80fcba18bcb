/*
 * token_lookup.h - hash table from bytes to token ids.
 *
 * Of several ids with equal bytes, the first one added wins.
 */
#ifndef IG_TEXT_TOKENIZER_TOKEN_LOOKUP_H
#define IG_TEXT_TOKENIZER_TOKEN_LOOKUP_H

#include "text/tokenizer/tokenizer_kind.h"

typedef struct ig_lookup {
    uint32_t *slots; /* [mask + 1], 1 + id or 0; at most half full */
    uint32_t mask;
    size_t longest; /* length of the longest piece */
} ig_lookup;

/* Room for `count` pieces, from the tokenizer's allocator. */
IG_MUST_CHECK ig_status ig_lookup_init(const ig_tokenizer *t, size_t count, ig_lookup *out);
void ig_lookup_deinit(const ig_tokenizer *t, ig_lookup *lookup); /* a zeroed one is fine */

void ig_lookup_add(ig_lookup *lookup, const ig_tokenizer *t, int32_t id);

/* Below 0: not found. */
int32_t ig_lookup_find(const ig_lookup *lookup, const ig_tokenizer *t, const char *bytes,
                       size_t n_bytes);

#endif
