/*
 * opened.h - what the ways of a few rows through packed groups share.
 */
#ifndef IG_BACKEND_CPU_OPENED_H
#define IG_BACKEND_CPU_OPENED_H

#include "backend/cpu/qgemm/dot_q8.h"
#include "backend/cpu/simd/vec_amx.h"

/* Some rows of activations, `stride` blocks apart. */
typedef struct rounded_rows {
    const rounded *x;
    int64_t stride, count;
} rounded_rows;

IG_INLINE int halves_of(const ig_dtype type) { return kind_halves(panel_types[type].kind); }

/* Lines of a step each need no opening.  Where several rows go through a block at once they are
 * read, and those to come fetched, between the dots: all before them would be time of its own. */
IG_INLINE bool reads_lines(const ig_dtype type) {
    return HAS_TILES && packed_types[type].form == EIGHTS;
}

typedef enum cache { FIRST_CACHE, SECOND_CACHE } cache;

/* To the second cache most often: the first can wait for a few lines only at a time. */
IG_INLINE void fetch(const uint8_t *p, const int bytes, const cache to) {
    IG_UNROLL
    for (int i = 0; i < bytes; i += LINE)
        if (to == FIRST_CACHE)
            __builtin_prefetch(p + i, 0, 3);
        else
            __builtin_prefetch(p + i, 0, 2);
}

/* Or gcc keeps both what was opened and what it was opened from, and has no registers left. */
IG_INLINE void hide_opened(vi *w) {
    IG_UNROLL
    for (int j = 0; j < STEPS; j++) vi_hide(&w[j]);
}

#endif
