/*
 * merge.h - BPE merges by a heap of candidate pairs, O(n log n).
 *
 * A text starts as parts: characters or bytes. The neighbors with the lowest rank merge first,
 * leftmost first, until no pair of neighbors has a merge.
 */
#ifndef IG_TEXT_TOKENIZER_MERGE_H
#define IG_TEXT_TOKENIZER_MERGE_H

#include "text/tokenizer/tokenizer.h"

typedef struct ig_merge_part {
    uint32_t start, n_bytes; /* in the text; 0 bytes: merged into its left neighbor */
    int32_t id;              /* the tokenizer's id for it; below 0: none */
    int32_t before, after;   /* indices of the neighbors; below 0: none */
} ig_merge_part;

/* The merge of two neighbors. */
typedef struct ig_merge_pair {
    uint32_t rank;
    int32_t id; /* below 0: they do not merge */
} ig_merge_pair;

typedef struct ig_merge_entry {
    uint32_t rank;
    int32_t left, id;
    uint32_t n_bytes; /* length of both; an entry whose parts grew since is stale */
} ig_merge_entry;

/* The parts of a text and the heap; reused from word to word. */
typedef struct ig_merge {
    const ig_allocator *allocator;
    const char *text;
    ig_merge_part *parts; /* filled by ig_merge_add() in order */
    size_t n_parts, room_parts;
    ig_merge_entry *heap;
    size_t n_heap, room_heap;

    ig_merge_pair (*look)(const void *user, const char *text, ig_merge_part left,
                          ig_merge_part right);
    const void *user;
} ig_merge;

void ig_merge_deinit(ig_merge *m);

/* Starts over with no parts and room for `n_parts`. */
IG_MUST_CHECK ig_status ig_merge_reset(ig_merge *m, const char *text, size_t n_parts);
void ig_merge_add(ig_merge *m, uint32_t n_bytes, int32_t id); /* appends a part */

/* Runs all merges. The result is the list from parts[0] along `after`. */
void ig_merge_run(ig_merge *m);

#endif
