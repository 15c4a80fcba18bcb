/*
 * vocab.h - a tokenizer's tables, independent of the file format.
 *
 * src/model fills it from a file and src/text builds a tokenizer from it.
 */
#ifndef IG_TEXT_TOKENIZER_VOCAB_H
#define IG_TEXT_TOKENIZER_VOCAB_H

#include "text/tokenizer/tokenizer.h"

typedef enum ig_token_kind { /* numbered as in GGUF */
                             IG_TOKEN_NORMAL = 1,
                             IG_TOKEN_UNKNOWN,
                             IG_TOKEN_CONTROL,
                             IG_TOKEN_USER,
                             IG_TOKEN_UNUSED,
                             IG_TOKEN_BYTE,
} ig_token_kind;

/* All pointers are lent and not used after the tokenizer is created. */
typedef struct ig_vocab {
    const char *source; /* file name, for messages */
    const char *model;  /* "llama" (SPM), "gpt2" (bytes and merges), "bert" (WordPiece) */
    const char *pre;    /* name of the pre-tokenizer; NULL: "default" */

    size_t n_tokens;
    const ig_string_view *tokens;
    const float *scores;  /* or NULL */
    const int32_t *kinds; /* ig_token_kind, or NULL: all normal */

    size_t n_merges;
    const ig_string_view *merges; /* "left right", lowest rank first */

    int32_t bos, eos, eot, unknown, separator, padding, mask; /* below 0: none */
    bool add_bos, add_eos, add_space_prefix, remove_extra_spaces;
    bool keep_case, keep_accents; /* of bert */
    bool specials_strip_right;    /* phi-3: a special token swallows the white space after it */
} ig_vocab;

/* Whether a "gpt2" pre-tokenizer adds BOS, if the file does not say. */
bool ig_vocab_adds_bos(const char *pre);

/* Inconsistent tables and an unknown `pre` are errors that name `source`. */
IG_MUST_CHECK ig_status ig_tokenizer_from_vocab(const ig_allocator *a, const ig_vocab *vocab,
                                                ig_tokenizer **out);

#endif
