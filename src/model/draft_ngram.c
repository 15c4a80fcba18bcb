#include "model/draft_ngram.h"

#include <string.h>

/* The most recent earlier position of the last n-gram; -1: none. */
static int64_t find(const int32_t *tokens, int64_t count, int32_t last, int64_t ngram) {
    const int64_t others = ngram - 1; /* the n-gram without `last` */
    for (int64_t at = count - ngram; ngram > 0 && at >= 0; at--)
        if (tokens[at + others] == last &&
            memcmp(tokens + at, tokens + count - others, (size_t)others * sizeof *tokens) == 0)
            return at;
    return -1;
}

bool ig_draft_ngram(const int32_t *tokens, int64_t count, int32_t last, int64_t ngram, int32_t *out,
                    int64_t most) {
    const int64_t at = find(tokens, count, last, ngram);
    for (int64_t i = 0; at >= 0 && i < most; i++) {
        const int64_t from = at + ngram + i; /* past the end the draft repeats itself */
        out[i] = from < count ? tokens[from] : from == count ? last : out[from - count - 1];
    }
    return at >= 0;
}
