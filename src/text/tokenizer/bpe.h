/*
 * bpe.h - the list of merges, learnt or read.
 *
 * Ids 0 to 255 are the bytes; merge i makes id 256 + i of two ids before it.
 */
#ifndef IG_TEXT_BPE_H
#define IG_TEXT_BPE_H

#include "text/tokenizer/tokenizer.h"

enum { IG_BPE_BYTES = 256, IG_BPE_MERGES_MAX = IG_TOKENIZER_IDS_MAX - IG_BPE_BYTES };

typedef struct ig_bpe_merge {
    uint16_t left, right;
} ig_bpe_merge;

/* Two ids as one number, to look them up by; smaller lefts first, then smaller rights. */
static inline uint32_t ig_bpe_key(ig_bpe_merge pair) {
    return (uint32_t)pair.left << 16 | pair.right;
}

/* Where in a table of 2^(32 - shift) slots the search for a key begins. */
static inline uint32_t ig_bpe_slot(uint32_t key, int shift) { return (key * 0x9E3779B1u) >> shift; }

/*
 * Finds up to options->merges merges, the pair that occurs oftenest in the data
 * first.  `*out` has room for so many; the caller frees it.
 */
IG_MUST_CHECK ig_status ig_bpe_learn(const ig_allocator *a, const ig_tokenizer_options *options,
                                     ig_bpe_merge **out, size_t *out_count);

#endif
