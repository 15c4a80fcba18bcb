/*
 * unicode.h - lower case, and letters without accents.
 *
 * The normalization of BERT: decompose each character (NFD), drop its marks (category Mn),
 * lower-case the rest. PCRE2 decides which characters are marks.
 */
#ifndef IG_TEXT_TOKENIZER_UNICODE_H
#define IG_TEXT_TOKENIZER_UNICODE_H

#include "base/alloc.h"

/* ---- The tables ---- */

typedef struct ig_unicode_case {
    uint32_t first, last, step;
    int32_t distance;
} ig_unicode_case;
extern const ig_unicode_case ig_unicode_cases[]; /* ascending; step 0 at the end */

typedef struct ig_unicode_bases {
    const char *base; /* usually one character */
    const char *from; /* characters that decompose to it plus marks */
} ig_unicode_bases;
extern const ig_unicode_bases ig_unicode_with_marks[]; /* a NULL base at the end */

typedef struct ig_unicode_row {
    uint32_t first;
    const char *to; /* the equivalents of `first` and its successors */
} ig_unicode_row;
extern const ig_unicode_row ig_unicode_compatible[]; /* NULL at the end */

/* ---- Characters ---- */

bool ig_unicode_is_space(uint32_t point);  /* White_Space */
uint32_t ig_unicode_small(uint32_t point); /* the lower case, or itself */
uint32_t ig_unicode_large(uint32_t point); /* the upper case, or itself */

/* Decompositions, indexed for binary search. */
typedef struct ig_unicode_decomposition {
    uint32_t point, base[3]; /* unused ones are 0 */
} ig_unicode_decomposition;

typedef struct ig_unicode_decompositions {
    ig_unicode_decomposition *rows; /* ascending */
    size_t count, room;
} ig_unicode_decompositions;

IG_MUST_CHECK ig_status ig_unicode_decompositions_init(const ig_allocator *a,
                                                       ig_unicode_decompositions *out);

/* Writes a character without its marks; returns the number of code points. */
size_t ig_unicode_bare(const ig_unicode_decompositions *d, uint32_t point, uint32_t out[3]);

#endif
