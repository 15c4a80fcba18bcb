/*
 * kind.h - what a kind of tokenizer is made of.
 *
 * A kind is a row: how to learn from data, encode, be written and be read.  What
 * all have is a table of pieces, the bytes of each id, and that is enough to
 * decode.  A kind's own struct begins with ig_tokenizer; tokenizer.c lists the
 * rows that learn, vocab.c those that are made of a model file's tables.
 */
#ifndef IG_TEXT_KIND_H
#define IG_TEXT_KIND_H

#include <jansson.h>

#include "base/text_out.h"
#include "text/tokenizer/special_tokens.h"
#include "text/tokenizer/vocab.h"

/* Text without special tokens in it. */
typedef struct ig_fragment {
    const char *bytes;
    size_t n_bytes;   /* at least 1 */
    bool begins_text; /* nothing, or a special token, stands before it */
} ig_fragment;

typedef struct ig_tokenizer_kind {
    const char *name;
    size_t struct_bytes;
    ig_status (*encode)(const ig_tokenizer *t, ig_fragment fragment, ig_ids *out);
    void (*deinit)(ig_tokenizer *t); /* frees what the kind allocated; NULL: nothing */

    /* Of those that learn. */
    ig_status (*learn)(ig_tokenizer *t, const ig_tokenizer_options *options);
    size_t (*cut)(const ig_tokenizer *t, const char *text, size_t n_bytes);
    const char *key;                                    /* of its array in JSON; NULL: none */
    void (*write)(const ig_tokenizer *t, ig_text *out); /* the elements of that array */
    ig_status (*parse)(ig_tokenizer *t, const char *source, const json_t *array);

    /* Of those from a model file: fills one whose table of pieces is empty. */
    ig_status (*load)(ig_tokenizer *t, const ig_vocab *vocab);
} ig_tokenizer_kind;

struct ig_tokenizer {
    const ig_allocator *allocator;
    const ig_tokenizer_kind *kind;
    int32_t vocabulary;
    uint32_t *starts; /* [vocabulary + 1]: id i has the bytes from starts[i] to starts[i + 1] */
    char *pieces;
    size_t room_starts, room_pieces;
    size_t longest_piece; /* in bytes */

    /* Of a model file; without one there are none. */
    uint8_t *kinds; /* [vocabulary] ig_token_kind; NULL: it was learnt, all are normal */
    ig_specials specials;
    int32_t special_ids[IG_SPECIAL_COUNT];
    int32_t message_end; /* goes by a name that ends a turn elsewhere; below 0: there is none */
    bool add_bos, add_eos, space_prefix;
};

/* One of a kind, still without ids. */
IG_MUST_CHECK ig_status ig_tokenizer_make(const ig_allocator *a, const ig_tokenizer_kind *kind,
                                          ig_tokenizer **out);

/* Adds an id, the next one, that stands for these bytes. */
IG_MUST_CHECK ig_status ig_pieces_add(ig_tokenizer *t, const char *bytes, size_t n_bytes);

static inline ig_token_kind ig_token_kind_of(const ig_tokenizer *t, int32_t id) {
    return t->kinds ? (ig_token_kind)t->kinds[id] : IG_TOKEN_NORMAL;
}

/* Whether a token of this name ends what a model says. */
bool ig_token_name_ends(ig_tokenizer_data name);

/* Makes room for `more` ids behind those that are there. */
IG_MUST_CHECK ig_status ig_ids_reserve(ig_ids *ids, size_t more);

extern const ig_tokenizer_kind ig_tokenizer_byte, ig_tokenizer_char, ig_tokenizer_bpe;
extern const ig_tokenizer_kind ig_tokenizer_llama, ig_tokenizer_gpt2, ig_tokenizer_bert;

#endif
