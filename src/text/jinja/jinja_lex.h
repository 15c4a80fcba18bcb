/*
 * jinja_lex.h - a template's bytes as tokens: text, and what stands between {{ and
 * }} or {% and %}.
 *
 * White space is settled here, as Jinja does with trim_blocks and lstrip_blocks: the
 * end of line behind a block goes, and so do the spaces before one that begins its
 * line; a minus takes all white space on its side, and a plus keeps it.
 */
#ifndef IG_TEXT_JINJA_JINJA_LEX_H
#define IG_TEXT_JINJA_JINJA_LEX_H

#include "text/jinja/jinja_arena.h"

typedef enum jinja_token_kind {
    JINJA_END,
    JINJA_TEXT,
    JINJA_BLOCK,     /* {% */
    JINJA_BLOCK_END, /* %} */
    JINJA_PRINT,     /* {{ */
    JINJA_PRINT_END, /* }} */
    JINJA_NAME,
    JINJA_STRING, /* its value, without quotes */
    JINJA_INTEGER,
    JINJA_REAL,
    JINJA_SIGN, /* of one or two characters */
} jinja_token_kind;

typedef struct jinja_token {
    jinja_token_kind kind;
    int line; /* from 1 on */
    const char *bytes;
    size_t n_bytes;
    int64_t integer;
    double real;
    int sign; /* JINJA_SIGN_OF its characters */
} jinja_token;

#define JINJA_SIGN_OF(first, second) ((first) | (second) << 8)

typedef struct jinja_tokens {
    jinja_token *at; /* the last is JINJA_END */
    size_t count, room;
} jinja_tokens;

/* The tokens refer to the text; strings with escapes are in the arena.  The caller frees `at` with
 * the arena's allocator, even on failure. */
IG_MUST_CHECK ig_status jinja_lex(jinja_arena *arena, const char *text, size_t n_bytes,
                                  jinja_tokens *out);

#endif
