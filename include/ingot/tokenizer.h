/*
 * tokenizer.h - text to tokens and back.
 *
 *     ig_tokenizer *tokenizer;
 *     ig_tokenizer_open("model.gguf", NULL, &tokenizer)
 *     ig_tokens tokens = {0};
 *     ig_tokenize(tokenizer, text, n_bytes, IG_TOKENIZE_ADD_SPECIAL, &tokens)
 *     n_bytes = ig_detokenize(tokenizer, tokens.at, tokens.count, 0, out, room)
 *     ig_tokens_deinit(&tokens)
 *     ig_tokenizer_destroy(tokenizer)
 *
 * A tokenizer is immutable: any number of threads may use it.  Every byte string can
 * be tokenized.  byte, bpe and gpt2 give all bytes back, llama those of UTF-8, char
 * the characters that it was trained on.
 */
#ifndef INGOT_TOKENIZER_H
#define INGOT_TOKENIZER_H

#include "ingot/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_tokenizer ig_tokenizer;

typedef struct ig_tokenizer_options {
    const char *pre_tokenizer;     /* the pattern that splits text, by name; NULL: the file's */
    const ig_allocator *allocator; /* borrowed, outlives the tokenizer; NULL: malloc's */
} ig_tokenizer_options;

/* Reads the tokenizer of a model: a .gguf or .oam file, a Hugging Face model folder, or a
 * tokenizer.json.  Weights are not read.  NULL options: all defaults.  The caller
 * owns the tokenizer.  A file without a tokenizer is IG_ERR_FORMAT, an unknown pre-tokenizer
 * IG_ERR_ARGUMENT with the list of the known ones. */
IG_API IG_MUST_CHECK ig_status ig_tokenizer_open(const char *path,
                                                 const ig_tokenizer_options *options,
                                                 ig_tokenizer **out);
/* NULL is a no-op.  Does not free the tokenizer that an adapter lends. */
IG_API void ig_tokenizer_destroy(ig_tokenizer *tokenizer);

/* The algorithm, static: "llama" (SentencePiece), "gpt2" (byte-level BPE) or "bert" (WordPiece) of
 * model files; "byte", "char" or "bpe" of models that were trained here. */
IG_API const char *ig_tokenizer_name(const ig_tokenizer *tokenizer);
IG_API int32_t ig_tokenizer_vocab_size(const ig_tokenizer *tokenizer); /* ids are below this */

/* The bytes of a token, borrowed from the tokenizer: of a control token its name, of an id outside
 * the vocabulary U+FFFD. */
IG_API ig_string_view ig_tokenizer_piece(const ig_tokenizer *tokenizer, int32_t id);

typedef enum ig_special {
    IG_SPECIAL_BOS, /* of bert: [CLS] */
    IG_SPECIAL_EOS, /* of bert: [SEP] */
    IG_SPECIAL_EOT, /* ends a turn of a chat */
    IG_SPECIAL_UNKNOWN,
    IG_SPECIAL_PADDING,
    IG_SPECIAL_MASK,
    IG_SPECIAL_COUNT,
} ig_special;

/* The id of a special token; below 0: the vocabulary has none. */
IG_API int32_t ig_tokenizer_special(const ig_tokenizer *tokenizer, ig_special which);
/* Whether an id is a control token, which detokenizing leaves out. */
IG_API bool ig_tokenizer_is_control(const ig_tokenizer *tokenizer, int32_t id);
/* Whether an id ends generation: of the text, of a turn, or of a message. */
IG_API bool ig_tokenizer_is_eog(const ig_tokenizer *tokenizer, int32_t id);

/* ---- tokenize ---- */

/* A list of tokens that grows.  {0} is empty, with malloc's memory; the owner deinits it. */
typedef struct ig_tokens {
    const ig_allocator *allocator; /* borrowed; NULL: malloc's */
    int32_t *at;
    size_t count, room;
} ig_tokens;

/* Appends a token.  IG_ERR_MEMORY: the list is as before. */
IG_API IG_MUST_CHECK ig_status ig_tokens_add(ig_tokens *tokens, int32_t id);
/* Frees the tokens, and leaves an empty list with the same allocator. */
IG_API void ig_tokens_deinit(ig_tokens *tokens);

enum {
    IG_TOKENIZE_ADD_SPECIAL = 1 << 0,   /* add BOS and EOS where the model's file says so */
    IG_TOKENIZE_PARSE_SPECIAL = 1 << 1, /* names of control tokens in the text are these tokens */
    IG_TOKENIZE_CONTINUES = 1 << 2,     /* text precedes this one: llama adds no space */
    IG_TOKENIZE_NO_EOS = 1 << 3,        /* add no EOS: more text follows */
    IG_TOKENIZE_PROMPT = IG_TOKENIZE_ADD_SPECIAL | IG_TOKENIZE_PARSE_SPECIAL | IG_TOKENIZE_NO_EOS,
};

/* Appends the tokens of a text to `out`; `flags` are IG_TOKENIZE_*.  Without PARSE_SPECIAL names of
 * control tokens are plain text, so untrusted text cannot contain any; user-defined tokens are
 * always found.  On failure, which is IG_ERR_MEMORY alone, `out` is as before. */
IG_API IG_MUST_CHECK ig_status ig_tokenize(const ig_tokenizer *tokenizer, const char *text,
                                           size_t n_bytes, unsigned flags, ig_tokens *out);

/* ---- detokenize ---- */

enum {
    IG_DETOKENIZE_SPECIAL = 1 << 0, /* control tokens as their names */
    IG_DETOKENIZE_START = 1 << 1,   /* the text begins here: drop the space that llama adds */
};

/* Writes the bytes of tokens, at most `room` and without a 0 at the end, and returns how many there
 * are in all; `flags` are IG_DETOKENIZE_*.  Cannot fail; `out` may be NULL where room is 0. */
IG_API size_t ig_detokenize(const ig_tokenizer *tokenizer, const int32_t *ids, size_t n_ids,
                            unsigned flags, char *out, size_t room);

/* Detokenizes a stream of tokens into complete UTF-8 characters. */
typedef struct ig_detokenizer ig_detokenizer;

/* Allocates all the memory that it needs.  The caller owns the detokenizer; the tokenizer must
 * outlive it. */
IG_API IG_MUST_CHECK ig_status ig_detokenizer_create(const ig_tokenizer *tokenizer, unsigned flags,
                                                     ig_detokenizer **out);
IG_API void ig_detokenizer_destroy(ig_detokenizer *detokenizer); /* NULL is a no-op */
/* The characters that this token completes, maybe none; borrowed until the next call.  Bytes that
 * are not UTF-8 become U+FFFD. */
IG_API ig_string_view ig_detokenizer_next(ig_detokenizer *detokenizer, int32_t id);
/* Ends the text: U+FFFD for a character that is still incomplete; borrowed likewise. */
IG_API ig_string_view ig_detokenizer_end(ig_detokenizer *detokenizer);

#ifdef __cplusplus
}
#endif
#endif
