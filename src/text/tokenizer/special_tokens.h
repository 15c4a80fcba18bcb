/*
 * special_tokens.h - finds special tokens in a text.
 *
 * Control tokens ("<|im_end|>") and user-defined tokens are matched before anything else. The
 * longest match wins. The names are sorted, so each further byte narrows the range of candidates.
 */
#ifndef IG_TEXT_TOKENIZER_SPECIAL_TOKENS_H
#define IG_TEXT_TOKENIZER_SPECIAL_TOKENS_H

#include "text/tokenizer/tokenizer.h"

typedef struct ig_special_name {
    const char *bytes; /* lent */
    size_t n_bytes;
    int32_t id;
    bool control;      /* matched only where special tokens are allowed */
    bool strips_right; /* swallows the white space after it */
} ig_special_name;

typedef struct ig_specials {
    ig_special_name *names; /* [count], sorted by bytes */
    size_t count;
    bool any_begins_with[256];
} ig_specials;

/* Sorts `names` and takes ownership. */
void ig_specials_init(ig_special_name *names, size_t count, ig_specials *out);

/* The longest name that is a prefix of the text; NULL: none. A control token must lie within the
 * first `n_control` bytes. */
const ig_special_name *ig_specials_match(const ig_specials *s, const char *text, size_t n_bytes,
                                         size_t n_control);

#endif
