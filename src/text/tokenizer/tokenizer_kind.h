/*
 * tokenizer_kind.h - the interface of a tokenizer kind.
 *
 * A kind is a row of functions: train, tokenize, write and read JSON. All kinds share the table of
 * pieces (the bytes of each id), which is enough to detokenize. A kind's own struct begins with
 * ig_tokenizer. tokenizer.c lists the kinds that are trained, vocab.c those of model files.
 */
#ifndef IG_TEXT_TOKENIZER_TOKENIZER_KIND_H
#define IG_TEXT_TOKENIZER_TOKENIZER_KIND_H

#include <jansson.h>

#include "base/text_out.h"
#include "text/tokenizer/special_tokens.h"
#include "text/tokenizer/vocab.h"

/* Text without special tokens. */
typedef struct ig_fragment {
    const char *bytes;
    size_t n_bytes;   /* at least 1 */
    bool begins_text; /* follows the start of the text or a special token */
} ig_fragment;

typedef struct ig_tokenizer_kind {
    const char *name;
    size_t struct_bytes;
    ig_status (*encode)(const ig_tokenizer *t, ig_fragment fragment, ig_tokens *out);
    void (*deinit)(ig_tokenizer *t); /* frees the kind's own memory; or NULL */

    /* Kinds that are trained. */
    ig_status (*learn)(ig_tokenizer *t, const ig_tokenizer_training *options);
    size_t (*cut)(const ig_tokenizer *t, const char *text, size_t n_bytes);
    const char *key;                                    /* JSON key of its array; NULL: none */
    void (*write)(const ig_tokenizer *t, ig_text *out); /* writes the elements of that array */
    ig_status (*parse)(ig_tokenizer *t, const char *source, const json_t *array);

    /* Kinds of model files: fills an empty tokenizer. */
    ig_status (*load)(ig_tokenizer *t, const ig_vocab *vocab);
} ig_tokenizer_kind;

struct ig_tokenizer {
    const ig_allocator *allocator;
    const ig_tokenizer_kind *kind;
    int32_t vocabulary;
    uint32_t *starts; /* [vocabulary + 1]: the bytes of id i are starts[i] to starts[i + 1] */
    char *pieces;
    size_t room_starts, room_pieces;
    size_t longest_piece; /* in bytes */

    /* Model files only. */
    uint8_t *kinds; /* [vocabulary] ig_token_kind; NULL: trained, all normal */
    ig_specials specials;
    int32_t special_ids[IG_SPECIAL_COUNT];
    int32_t message_end; /* the id of <|end|> and the like; below 0: none */
    bool add_bos, add_eos, space_prefix;
};

/* Creates an empty tokenizer of a kind. */
IG_MUST_CHECK ig_status ig_tokenizer_make(const ig_allocator *a, const ig_tokenizer_kind *kind,
                                          ig_tokenizer **out);

/* Appends an id with these bytes. */
IG_MUST_CHECK ig_status ig_pieces_add(ig_tokenizer *t, const char *bytes, size_t n_bytes);

static inline ig_token_kind ig_token_kind_of(const ig_tokenizer *t, int32_t id) {
    return t->kinds ? (ig_token_kind)t->kinds[id] : IG_TOKEN_NORMAL;
}

/* Whether a token of this name ends the model's turn. */
bool ig_token_name_ends(ig_string_view name);

/* Makes room for `more` ids after the existing ones. */
IG_MUST_CHECK ig_status ig_tokens_reserve(ig_tokens *ids, size_t more);

extern const ig_tokenizer_kind ig_tokenizer_byte, ig_tokenizer_char, ig_tokenizer_bpe;
extern const ig_tokenizer_kind ig_tokenizer_llama, ig_tokenizer_gpt2, ig_tokenizer_bert;

#endif
