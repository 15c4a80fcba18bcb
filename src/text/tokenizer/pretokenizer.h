/*
 * pretokenizer.h - splits text into the words that merges do not cross.
 *
 * Every byte-level vocabulary was trained on text split by one or several patterns and needs the
 * same split. Files name the patterns (tokenizer.ggml.pre); one table has them as published. Each
 * pattern splits the words of the one before it: a match is a word, and so is the text between two
 * matches.
 */
#ifndef IG_TEXT_TOKENIZER_PRETOKENIZER_H
#define IG_TEXT_TOKENIZER_PRETOKENIZER_H

#include "base/alloc.h"

enum { IG_PRE_PATTERNS = 6 }; /* patterns per row */

/* A pre-tokenizer. */
typedef struct ig_pre {
    const char *name;                      /* as files spell it */
    const char *aliases;                   /* separated by spaces; or NULL */
    const char *patterns[IG_PRE_PATTERNS]; /* unused ones are NULL */
    bool ignores_merges;                   /* a word that is a vocabulary entry needs no merges */
    bool adds_bos;                         /* unless the file says otherwise */
} ig_pre;

extern const ig_pre ig_pre_rows[]; /* ends with a NULL name */

/* The patterns of tokenizer.json's ByteLevel, and of Digits with individual_digits. */
extern const char ig_pre_byte_level[], ig_pre_single_digits[];

const ig_pre *ig_pre_find(const char *name); /* NULL: unknown */
/* Fails with `code`: the name is unknown; the message lists the known ones. */
IG_MUST_CHECK ig_status ig_pre_unknown(ig_status code, const char *source, const char *name);

/* The name for tokenizer.ggml.pre of a tokenizer.json with these patterns, in order. NULL: not in
 * the table. */
const char *ig_pre_name_of(const char *const *patterns, size_t n_patterns, bool ignores_merges);

/* ---- Patterns ready to be used; any number of threads may ---- */

typedef struct ig_pretokenizer ig_pretokenizer;

IG_MUST_CHECK ig_status ig_pretokenizer_create(const ig_allocator *a, const ig_pre *pre,
                                               ig_pretokenizer **out);
void ig_pretokenizer_destroy(ig_pretokenizer *p); /* NULL is fine */

/* Receives a word. `matched`: the last pattern matched it; otherwise it lies between two matches.
 */
typedef ig_status ig_pre_word(void *user, const char *bytes, size_t n_bytes, bool matched);

/* Calls `word` for each word of a text, in order. Invalid UTF-8 bytes are words of their own.
 * Stops when word() returns anything but IG_OK. */
IG_MUST_CHECK ig_status ig_pretokenizer_split(const ig_pretokenizer *p, const char *text,
                                              size_t n_bytes, ig_pre_word *word, void *user);

#endif
