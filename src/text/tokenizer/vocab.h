/*
 * vocab.h - a tokenizer's tables as a model file has them.
 *
 * What src/model fills in from a file and src/text makes a tokenizer of: the two
 * folders do not know each other's formats.
 */
#ifndef IG_TEXT_VOCAB_H
#define IG_TEXT_VOCAB_H

#include "text/tokenizer/tokenizer.h"

typedef enum ig_token_kind { /* as GGUF numbers them */
                             IG_TOKEN_NORMAL = 1,
                             IG_TOKEN_UNKNOWN,
                             IG_TOKEN_CONTROL,
                             IG_TOKEN_USER,
                             IG_TOKEN_UNUSED,
                             IG_TOKEN_BYTE,
} ig_token_kind;

/* Everything is lent; nothing of it is needed once the tokenizer is made. */
typedef struct ig_vocab {
    const char *source; /* the file's name, for messages */
    const char *model;  /* "llama" (SPM), "gpt2" (bytes and merges), "bert" (WordPiece) */
    const char *pre;    /* which pattern splits the text first; NULL: "default" */

    size_t n_tokens;
    const ig_tokenizer_data *tokens;
    const float *scores;  /* or NULL */
    const int32_t *kinds; /* ig_token_kind, or NULL: all normal */

    size_t n_merges;
    const ig_tokenizer_data *merges; /* "left right", best first */

    int32_t bos, eos, eot, unknown, separator, padding, mask; /* below 0: none */
    bool add_bos, add_eos, add_space_prefix, remove_extra_spaces;
    bool keep_case, keep_accents; /* of bert */
    bool specials_strip_right;    /* phi-3: white space behind a special token belongs to it */
} ig_vocab;

/* What a "gpt2" file's pre says of BOS, where the file itself says nothing. */
bool ig_vocab_adds_bos(const char *pre);

/* Tables that do not fit together, or a pre that is not known, are errors that name `source`. */
IG_MUST_CHECK ig_status ig_tokenizer_from_vocab(const ig_allocator *a, const ig_vocab *vocab,
                                                ig_tokenizer **out);

#endif
