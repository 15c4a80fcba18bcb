/*
 * pretokenizer.h - text into the words that no piece reaches beyond.
 *
 * Every byte-level vocabulary was learnt on text that a pattern, or a row of
 * patterns, had cut into words, and it must be cut the same way again.  Files name
 * the patterns (tokenizer.ggml.pre); one table has them as they were published.
 * Each pattern of a row cuts the words of the one before it: what it matches is a
 * word, and so is what lies between.
 */
#ifndef IG_TEXT_PRETOKENIZER_H
#define IG_TEXT_PRETOKENIZER_H

#include "base/alloc.h"

enum { IG_PRE_PATTERNS = 6 }; /* of a row, at most */

/* A row of the table. */
typedef struct ig_pre {
    const char *name;                      /* as files write it */
    const char *aliases;                   /* with a space between; or NULL */
    const char *patterns[IG_PRE_PATTERNS]; /* NULLs behind the last */
    bool ignores_merges; /* a word that is a piece is that piece, whatever its merges */
    bool adds_bos;       /* unless the file says otherwise */
} ig_pre;

extern const ig_pre ig_pre_rows[]; /* a NULL name at the end */

/* What a tokenizer.json calls ByteLevel, and Digits with individual_digits. */
extern const char ig_pre_byte_level[], ig_pre_single_digits[];

const ig_pre *ig_pre_find(const char *name); /* NULL: not known */
/* Fails with `code` for a name that is not known: says so, and lists those that are. */
IG_MUST_CHECK ig_status ig_pre_unknown(ig_status code, const char *source, const char *name);

/* The usual name of the patterns that a tokenizer.json has, in their order, to be written down as
 * tokenizer.ggml.pre; NULL: they are not in the table. */
const char *ig_pre_name_of(const char *const *patterns, size_t n_patterns, bool ignores_merges);

/* ---- Patterns ready to be used; any number of threads may ---- */

typedef struct ig_pretokenizer ig_pretokenizer;

IG_MUST_CHECK ig_status ig_pretokenizer_create(const ig_allocator *a, const ig_pre *pre,
                                               ig_pretokenizer **out);
void ig_pretokenizer_destroy(ig_pretokenizer *p); /* NULL is fine */

/* Takes a word; `matched`: by the last pattern, else it lies between matches. */
typedef ig_status ig_pre_word(void *user, const char *bytes, size_t n_bytes, bool matched);

/* Calls `word` for each word of a text, in order; together they are the text.  Bytes that are no
 * UTF-8 are words of their own.  Stops with what word() returns, if that is not IG_OK. */
IG_MUST_CHECK ig_status ig_pretokenizer_split(const ig_pretokenizer *p, const char *text,
                                              size_t n_bytes, ig_pre_word *word, void *user);

#endif
