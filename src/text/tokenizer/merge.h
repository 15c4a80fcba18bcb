/*
 * merge.h - pieces out of parts, the best pair first.
 *
 * A text starts as a row of parts, characters or bytes.  Of all neighbours that
 * together are something, those of the lowest rank become one part, of equals
 * those furthest left, until no two neighbours are anything.  The pairs wait in a
 * heap, so a text of n parts takes n log n steps, whatever it is.
 */
#ifndef IG_TEXT_MERGE_H
#define IG_TEXT_MERGE_H

#include "text/tokenizer/tokenizer.h"

typedef struct ig_merge_part {
    uint32_t start, n_bytes; /* in the text; 0 bytes: it was merged into another */
    int32_t id;              /* the kind's name for it; below 0: it has none */
    int32_t before, after;   /* the neighbours; below 0: none */
} ig_merge_part;

/* What two neighbours become. */
typedef struct ig_merge_pair {
    uint32_t rank;
    int32_t id; /* below 0: nothing */
} ig_merge_pair;

typedef struct ig_merge_entry {
    uint32_t rank;
    int32_t left, id;
    uint32_t n_bytes; /* of both; parts that grew since are another pair */
} ig_merge_entry;

/* A text's parts, and the room for merging; reused from word to word. */
typedef struct ig_merge {
    const ig_allocator *allocator;
    const char *text;
    ig_merge_part *parts; /* filled in by the caller in order: start, n_bytes and id */
    size_t n_parts, room_parts;
    ig_merge_entry *heap;
    size_t n_heap, room_heap;

    ig_merge_pair (*look)(const void *user, const char *text, ig_merge_part left,
                          ig_merge_part right);
    const void *user;
} ig_merge;

void ig_merge_deinit(ig_merge *m);

/* Makes room for so many parts, of which there are none yet. */
IG_MUST_CHECK ig_status ig_merge_reset(ig_merge *m, const char *text, size_t n_parts);
void ig_merge_add(ig_merge *m, uint32_t n_bytes, int32_t id); /* the next part */

/* Merges; what is left is parts[0], and from each on its `after`. */
void ig_merge_run(ig_merge *m);

#endif
