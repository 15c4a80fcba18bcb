/*
 * tokenizer.h - text <-> the numbers a model learns from.
 *
 *     byte   256 ids, one for each byte
 *     char   an id for each character that occurs in the data, and one for all others
 *     bpe    256 bytes, then an id for each pair of ids that was worth one of its own
 *
 * Any bytes can be encoded.  byte and bpe give all of them back; char those whose
 * characters were in the data it was made from, bytes that are no UTF-8 included.
 * A tokenizer does not change once it is made: any number of threads may use it.
 */
#ifndef IG_TEXT_TOKENIZER_H
#define IG_TEXT_TOKENIZER_H

#include "base/alloc.h"

typedef struct ig_tokenizer ig_tokenizer;

enum {
    IG_TOKENIZER_IDS_MAX = 65536,
    IG_TOKENIZER_PIECE_BYTES = 256,  /* that one id stands for, at most */
    IG_TOKENIZER_DATA_MAX = 1 << 30, /* bytes to learn from; of more, give a part */
    IG_TOKENIZER_JSON_MAX = 4 << 20, /* bytes of a description */
    IG_TOKENIZER_DEFAULT_MERGES = 4096,
};

/* A part of the data, a file say.  No word of one part goes on in the next. */
typedef struct ig_tokenizer_data {
    const char *bytes;
    size_t n_bytes;
} ig_tokenizer_data;

typedef struct ig_tokenizer_options {
    const ig_tokenizer_data *data; /* read while creating, not kept; byte needs none */
    size_t n_data;
    int32_t merges; /* bpe: ids beyond the bytes, fewer if no pair occurs twice any more */

    /* How many merges of all are found; false: it ends with IG_ERR_CANCELLED.  NULL: nobody asks.
     */
    bool (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
} ig_tokenizer_options;

/* Makes one of the kind that `name` says.  The allocator must outlive it. */
IG_MUST_CHECK ig_status ig_tokenizer_create(const ig_allocator *a, const char *name,
                                            const ig_tokenizer_options *options,
                                            ig_tokenizer **out);
void ig_tokenizer_destroy(ig_tokenizer *tokenizer);

const char *ig_tokenizer_name(const ig_tokenizer *tokenizer);   /* "byte", "char", "bpe" */
int32_t ig_tokenizer_vocabulary(const ig_tokenizer *tokenizer); /* ids are 0 to this less one */

/* The bytes that an id stands for, lent; U+FFFD for one that is none. */
ig_tokenizer_data ig_tokenizer_piece(const ig_tokenizer *tokenizer, int32_t id);

/* Writes the ids of a text and returns how many they are: never more than the text has bytes, and
 * `out` must have room for so many. */
size_t ig_tokenizer_encode(const ig_tokenizer *tokenizer, const char *text, size_t n_bytes,
                           int32_t *out);

/*
 * Where a long text may be cut: the longest part, from its begin on, that has the
 * same ids alone as in the whole, whatever follows.  0: no such place was found.
 */
size_t ig_tokenizer_cut(const ig_tokenizer *tokenizer, const char *text, size_t n_bytes);

/* Writes the bytes of ids, as many as there is room for, and returns how many they are in all.
 * No 0 follows them. */
size_t ig_tokenizer_decode(const ig_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                           char *out, size_t room);

/* ---- Decoding while ids are still coming: text for people, always whole UTF-8 ---- */

enum { IG_DECODER_TEXT_BYTES = 3 * (IG_TOKENIZER_PIECE_BYTES + 3) };

/* {.tokenizer = t} is a fresh one. */
typedef struct ig_decoder {
    const ig_tokenizer *tokenizer;
    char held[4]; /* the begin of a character that is not whole yet */
    size_t n_held;
} ig_decoder;

/* Writes the characters that are whole now and returns their bytes, maybe 0.  Bytes that can be no
 * character become U+FFFD. */
size_t ig_decoder_next(ig_decoder *decoder, int32_t id, char out[IG_DECODER_TEXT_BYTES]);
/* No id follows: what is held will not become whole. */
size_t ig_decoder_end(ig_decoder *decoder, char out[IG_DECODER_TEXT_BYTES]);

/* ---- As a text, for a checkpoint's config ---- */

/*
 * A JSON object, as snprintf writes: returns the bytes it takes, without the final 0.
 *
 *     {"kind":"byte"}
 *     {"kind":"char","symbols":[10,32,97]}      code points; 0x110000 + byte for one that is none
 *     {"kind":"bpe","merges":[[116,104],[256,101]]}      "th", "the"
 */
size_t ig_tokenizer_json(const ig_tokenizer *tokenizer, char *out, size_t room);

/* Reads one back; `source`, a file's name say, is for messages. */
IG_MUST_CHECK ig_status ig_tokenizer_parse(const ig_allocator *a, const char *source,
                                           const char *json, size_t n_bytes, ig_tokenizer **out);

#endif
