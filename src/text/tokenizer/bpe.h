/*
 * bpe.h - the list of merges, learned or loaded.
 *
 * Ids 0 to 255 are bytes; merge i creates id 256 + i from two earlier ids.
 */
#ifndef IG_TEXT_TOKENIZER_BPE_H
#define IG_TEXT_TOKENIZER_BPE_H

#include "text/tokenizer/tokenizer.h"

enum { IG_BPE_BYTES = 256, IG_BPE_MERGES_MAX = IG_TOKENIZER_IDS_MAX - IG_BPE_BYTES };

typedef struct ig_bpe_merge {
    uint16_t left, right;
} ig_bpe_merge;

/* A pair as a key; sorts by left id, then by right id. */
static inline uint32_t ig_bpe_key(ig_bpe_merge pair) {
    return (uint32_t)pair.left << 16 | pair.right;
}

/* The first slot to probe in a table of 2^(32 - shift). */
static inline uint32_t ig_bpe_slot(uint32_t key, int shift) { return (key * 0x9E3779B1u) >> shift; }

/*
 * Learns up to options->merges merges, most frequent pair first. `*out` has room for
 * options->merges; the caller frees it.
 */
IG_MUST_CHECK ig_status ig_bpe_learn(const ig_allocator *a, const ig_tokenizer_training *options,
                                     ig_bpe_merge **out, size_t *out_count);

#endif
