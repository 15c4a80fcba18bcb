/*
 * unicode.h - small letters, and letters without their accents.
 *
 * What BERT's vocabularies were learnt on: each character decomposed (NFD), its
 * marks (category Mn) dropped, and then made small.  Which characters are marks is
 * not asked here: PCRE2 knows.
 */
#ifndef IG_TEXT_UNICODE_H
#define IG_TEXT_UNICODE_H

#include "base/alloc.h"

/* ---- The tables ---- */

typedef struct ig_unicode_case {
    uint32_t first, last, step;
    int32_t distance;
} ig_unicode_case;
extern const ig_unicode_case ig_unicode_cases[]; /* ascending; step 0 at the end */

typedef struct ig_unicode_bases {
    const char *base; /* one character most often */
    const char *from; /* characters that are it and marks */
} ig_unicode_bases;
extern const ig_unicode_bases ig_unicode_with_marks[]; /* a NULL base at the end */

typedef struct ig_unicode_row {
    uint32_t first;
    const char *to; /* what `first`, and those that follow it, are the same as */
} ig_unicode_row;
extern const ig_unicode_row ig_unicode_compatible[]; /* NULL at the end */

/* ---- Characters ---- */

bool ig_unicode_is_space(uint32_t point);  /* White_Space */
uint32_t ig_unicode_small(uint32_t point); /* the small letter, or itself, */
uint32_t ig_unicode_large(uint32_t point); /* and the large one */

/* Bases found fast. */
typedef struct ig_unicode_decomposition {
    uint32_t point, base[3]; /* zeros behind the last */
} ig_unicode_decomposition;

typedef struct ig_unicode_decompositions {
    ig_unicode_decomposition *rows; /* ascending */
    size_t count, room;
} ig_unicode_decompositions;

IG_MUST_CHECK ig_status ig_unicode_decompositions_init(const ig_allocator *a,
                                                       ig_unicode_decompositions *out);

/* Writes what is left of a character without its marks; returns how many. */
size_t ig_unicode_bare(const ig_unicode_decompositions *d, uint32_t point, uint32_t out[3]);

#endif
