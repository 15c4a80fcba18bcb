/* draft_ngram.h - draft tokens by n-gram lookup in the sequence itself (prompt lookup decoding). */
#ifndef IG_MODEL_DRAFT_NGRAM_H
#define IG_MODEL_DRAFT_NGRAM_H

#include <stdbool.h>
#include <stdint.h>

enum { IG_DRAFT_DEFAULT = 7 };

/* The sequence ends with tokens[count - 1], then `last`. Finds the most recent earlier occurrence
 * of its last `ngram` tokens; the draft is the `most` tokens that followed it. Returns false if
 * there is none or the sequence is too short. */
bool ig_draft_ngram(const int32_t *tokens, int64_t count, int32_t last, int64_t ngram, int32_t *out,
                    int64_t most);

#endif
