/*
 * tokenizer.h - text <-> the numbers a model learns from.
 *
 * Learnt from data (ig_tokenizer_create):
 *
 *     byte   256 ids, one for each byte
 *     char   an id for each character that occurs in the data, and one for all others
 *     bpe    256 bytes, then an id for each pair of ids that was worth one of its own
 *
 * Read from a model file's tables (ig_tokenizer_from_vocab in vocab.h):
 *
 *     llama  SentencePiece: pieces with scores, bytes for what has no piece
 *     gpt2   bytes and merges inside the words that a pattern finds
 *     bert   WordPiece: the longest pieces of words without capitals and accents
 *
 * Any bytes can be encoded.  byte, bpe and gpt2 give all of them back, llama those of
 * UTF-8; char those whose characters were in the data it was made from, bytes that
 * are no UTF-8 included.  A tokenizer does not change once it is made: any number of
 * threads may use it.
 */
#ifndef IG_TEXT_TOKENIZER_H
#define IG_TEXT_TOKENIZER_H

#include "base/alloc.h"

typedef struct ig_tokenizer ig_tokenizer;

enum {
    IG_TOKENIZER_IDS_MAX = 65536,    /* of one that is learnt; a model file may have more */
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

const char *ig_tokenizer_name(const ig_tokenizer *tokenizer);   /* "byte", "llama", ... */
int32_t ig_tokenizer_vocabulary(const ig_tokenizer *tokenizer); /* ids are 0 to this less one */

/* The bytes that an id stands for, lent: of a control token its name; U+FFFD for one that is no
 * id. */
ig_tokenizer_data ig_tokenizer_piece(const ig_tokenizer *tokenizer, int32_t id);

/* ---- Tokens that are no text ---- */

typedef enum ig_special {
    IG_SPECIAL_BOS, /* stands before a text; of bert: [CLS] */
    IG_SPECIAL_EOS, /* stands behind a text; of bert: [SEP] */
    IG_SPECIAL_EOT, /* ends a turn of a chat */
    IG_SPECIAL_UNKNOWN,
    IG_SPECIAL_PADDING,
    IG_SPECIAL_MASK,
    IG_SPECIAL_COUNT,
} ig_special;

int32_t ig_tokenizer_special(const ig_tokenizer *tokenizer, ig_special which); /* below 0: none */

/* Whether an id is a control token: decoding leaves it out. */
bool ig_tokenizer_is_control(const ig_tokenizer *tokenizer, int32_t id);
/* Whether a model that says this id has said all: the end of the text, of a turn, of a message. */
bool ig_tokenizer_is_end(const ig_tokenizer *tokenizer, int32_t id);

/* ---- Text to ids ---- */

/* A list that grows; {.allocator = a} is an empty one. */
typedef struct ig_ids {
    const ig_allocator *allocator;
    int32_t *at;
    size_t count, room;
} ig_ids;

IG_MUST_CHECK ig_status ig_ids_add(ig_ids *ids, int32_t id);
void ig_ids_deinit(ig_ids *ids); /* a zeroed one is fine */

enum {
    IG_ENCODE_ADD_SPECIAL = 1 << 0,   /* BOS and EOS, where the model's file asks for them */
    IG_ENCODE_PARSE_SPECIAL = 1 << 1, /* names of control tokens in the text are these tokens */
    IG_ENCODE_CONTINUES = 1 << 2,     /* text stands before it: llama puts no space there */
    IG_ENCODE_GOES_ON = 1 << 3,       /* more will stand behind it: no EOS */
};

/* Appends the ids of a text to `out`.  Without PARSE_SPECIAL the names of control tokens are plain
 * text; user-defined tokens are always found.  On failure `out` holds what it held. */
IG_MUST_CHECK ig_status ig_tokenizer_encode(const ig_tokenizer *tokenizer, const char *text,
                                            size_t n_bytes, unsigned flags, ig_ids *out);

/* A part of a text; only in those that are `special` names of control tokens are tokens. */
typedef struct ig_text_span {
    const char *bytes;
    size_t n_bytes;
    bool special;
} ig_text_span;

/* The same for a text of several parts: ids as of the whole text, so pieces may reach over from
 * one part into the next, but no control token comes from a part that may have none. */
IG_MUST_CHECK ig_status ig_tokenizer_encode_spans(const ig_tokenizer *tokenizer,
                                                  const ig_text_span *spans, size_t n_spans,
                                                  unsigned flags, ig_ids *out);

/*
 * Where a long text may be cut: the longest part, from its begin on, that has the
 * same ids alone as in the whole, whatever follows.  0: no such place was found.
 */
size_t ig_tokenizer_cut(const ig_tokenizer *tokenizer, const char *text, size_t n_bytes);

/* ---- Ids to text ---- */

enum {
    IG_DECODE_SPECIAL = 1 << 0, /* control tokens by their names, too */
    IG_DECODE_START = 1 << 1,   /* a text begins here: without the space that encoding puts there */
};

/* Writes the bytes of ids, as many as there is room for, and returns how many they are in all.
 * No 0 follows them. */
size_t ig_tokenizer_decode(const ig_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                           unsigned flags, char *out, size_t room);

/* While ids are still coming: text for people, always whole UTF-8. */
typedef struct ig_decoder {
    const ig_tokenizer *tokenizer;
    unsigned flags;
    char held[4]; /* the begin of a character that is not whole yet */
    size_t n_held;
    char *bytes; /* what was held and the newest piece */
    char *text;  /* what they become: three times as long at most */
} ig_decoder;

/* All the memory it will need; the tokenizer is lent.  Flags as above. */
IG_MUST_CHECK ig_status ig_decoder_init(const ig_tokenizer *tokenizer, unsigned flags,
                                        ig_decoder *out);
void ig_decoder_deinit(ig_decoder *decoder); /* a zeroed one is fine */

/* The characters that are whole now, maybe none, lent until the next call.  Bytes that can be no
 * character become U+FFFD. */
ig_tokenizer_data ig_decoder_next(ig_decoder *decoder, int32_t id);
/* No id follows: what is held will not become whole. */
ig_tokenizer_data ig_decoder_end(ig_decoder *decoder);

/* ---- As a text, for a checkpoint's config ---- */

/*
 * A JSON object, as snprintf writes: returns the bytes it takes, without the final 0.
 *
 *     {"kind":"byte"}
 *     {"kind":"char","symbols":[10,32,97]}      code points; 0x110000 + byte for one that is none
 *     {"kind":"bpe","merges":[[116,104],[256,101]]}      "th", "the"
 *
 * One that was read from a model file's tables has none: 0 bytes.
 */
size_t ig_tokenizer_json(const ig_tokenizer *tokenizer, char *out, size_t room);

/* Reads one back; `source`, a file's name say, is for messages. */
IG_MUST_CHECK ig_status ig_tokenizer_parse(const ig_allocator *a, const char *source,
                                           const char *json, size_t n_bytes, ig_tokenizer **out);

#endif
