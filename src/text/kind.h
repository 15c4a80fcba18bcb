/*
 * kind.h - what a kind of tokenizer is made of.
 *
 * A kind is a row: how to learn from data, encode, be written and be read.  What
 * all have is a table of pieces, the bytes of each id, and that is enough to
 * decode.  A kind's own struct begins with ig_tokenizer; tokenizer.c lists the
 * rows.
 */
#ifndef IG_TEXT_KIND_H
#define IG_TEXT_KIND_H

#include <jansson.h>

#include "base/text.h"
#include "text/tokenizer.h"

typedef struct ig_tokenizer_kind {
    const char *name;
    size_t struct_bytes;
    ig_status (*learn)(ig_tokenizer *t, const ig_tokenizer_options *options);
    size_t (*encode)(const ig_tokenizer *t, const char *text, size_t n_bytes, int32_t *out);
    size_t (*cut)(const ig_tokenizer *t, const char *text, size_t n_bytes);
    const char *key;                                    /* of its array in JSON; NULL: none */
    void (*write)(const ig_tokenizer *t, ig_text *out); /* the elements of that array */
    ig_status (*parse)(ig_tokenizer *t, const char *source, const json_t *array);
    void (*deinit)(ig_tokenizer *t); /* frees what the kind allocated; NULL: nothing */
} ig_tokenizer_kind;

struct ig_tokenizer {
    const ig_allocator *allocator;
    const ig_tokenizer_kind *kind;
    int32_t vocabulary;
    uint32_t *starts; /* [vocabulary + 1]: id i has the bytes from starts[i] to starts[i + 1] */
    char *pieces;
    size_t room_starts, room_pieces;
};

/* Adds an id, the next one, that stands for these bytes. */
IG_MUST_CHECK ig_status ig_pieces_add(ig_tokenizer *t, const char *bytes, size_t n_bytes);

extern const ig_tokenizer_kind ig_tokenizer_byte, ig_tokenizer_char, ig_tokenizer_bpe;

#endif
