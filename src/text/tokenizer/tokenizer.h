/*
 * tokenizer.h - the internals of ingot/tokenizer.h: training, spans, JSON.
 *
 * Trained from data (ig_tokenizer_train):
 *
 *     byte   256 ids, one per byte
 *     char   one id per character of the data, and one for all others
 *     bpe    256 bytes, then one id per learned merge
 *
 * Loaded from a model file (ig_tokenizer_from_vocab in vocab.h):
 *
 *     llama  SentencePiece: pieces with scores, byte fallback
 *     gpt2   byte-level BPE within the words of a pre-tokenizer
 *     bert   WordPiece: the longest pieces of normalized words
 */
#ifndef IG_TEXT_TOKENIZER_TOKENIZER_H
#define IG_TEXT_TOKENIZER_TOKENIZER_H

#include "base/alloc.h"
#include "ingot/tokenizer.h"

enum {
    IG_TOKENIZER_IDS_MAX = 65536,    /* of a trained tokenizer; model files may have more */
    IG_TOKENIZER_DATA_MAX = 1 << 30, /* training data, in bytes; give a part of larger data */
    IG_TOKENIZER_JSON_MAX = 4 << 20, /* of a JSON description, in bytes */
    IG_TOKENIZER_DEFAULT_MERGES = 4096,
};

typedef struct ig_tokenizer_training {
    const ig_string_view *data; /* such as files: words do not continue from one into the next. Read
                                   while training, not kept. byte needs none */
    size_t n_data;
    int32_t merges; /* bpe: number of merges; fewer if no pair occurs twice */

    /* Called with the number of merges so far; false: stop with IG_ERR_CANCELLED. NULL: no
     * callback. */
    bool (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
} ig_tokenizer_training;

/* Trains a tokenizer of the kind `name`. The allocator must outlive it. */
IG_MUST_CHECK ig_status ig_tokenizer_train(const ig_allocator *a, const char *name,
                                           const ig_tokenizer_training *training,
                                           ig_tokenizer **out);

/* A span of a text; special tokens are parsed only in `special` spans. */
typedef struct ig_text_span {
    const char *bytes;
    size_t n_bytes;
    bool special;
} ig_text_span;

/* ig_tokenize() for a text in spans. Ids are those of the joined text, so pieces may cross spans,
 * but no special token comes from a span that is not `special`. */
IG_MUST_CHECK ig_status ig_tokenize_spans(const ig_tokenizer *tokenizer, const ig_text_span *spans,
                                          size_t n_spans, unsigned flags, ig_tokens *out);

/*
 * The longest prefix that tokenizes alone as it does within the text, whatever follows. 0: none
 * found.
 */
size_t ig_tokenizer_cut(const ig_tokenizer *tokenizer, const char *text, size_t n_bytes);

/* ---- As a text, for a checkpoint's config ---- */

/*
 * Writes a JSON object like snprintf; returns its length without the final 0.
 *
 *     {"kind":"byte"}
 *     {"kind":"char","symbols":[10,32,97]}      code points; 0x110000 + byte if invalid
 *     {"kind":"bpe","merges":[[116,104],[256,101]]}      "th", "the"
 *
 * A tokenizer of a model file has no JSON form: 0 bytes.
 */
size_t ig_tokenizer_json(const ig_tokenizer *tokenizer, char *out, size_t room);

/* Parses ig_tokenizer_json()'s output; `source`, such as a file name, is for messages. */
IG_MUST_CHECK ig_status ig_tokenizer_parse(const ig_allocator *a, const char *source,
                                           const char *json, size_t n_bytes, ig_tokenizer **out);

#endif
