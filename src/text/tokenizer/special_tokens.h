/*
 * specials.h - tokens that are found in a text by their names.
 *
 * Control tokens ("<|im_end|>") and those that a model's makers defined are looked
 * for before anything else.  Of several that begin at the same place, the longest
 * is meant.  The names lie in order, so the candidates for one more byte are a
 * stretch of those before: a search narrows the stretch byte by byte.
 */
#ifndef IG_TEXT_SPECIALS_H
#define IG_TEXT_SPECIALS_H

#include "text/tokenizer/tokenizer.h"

typedef struct ig_special_name {
    const char *bytes; /* lent */
    size_t n_bytes;
    int32_t id;
    bool control;      /* found only where control tokens may be */
    bool strips_right; /* white space behind it belongs to it */
} ig_special_name;

typedef struct ig_specials {
    ig_special_name *names; /* [count], in the order of their bytes */
    size_t count;
    bool any_begins_with[256];
} ig_specials;

/* Sorts `names`, which it then owns. */
void ig_specials_init(ig_special_name *names, size_t count, ig_specials *out);

/* The longest name that the text begins with; NULL: none.  `n_control` is how many of the bytes
 * a control token may take. */
const ig_special_name *ig_specials_match(const ig_specials *s, const char *text, size_t n_bytes,
                                         size_t n_control);

#endif
