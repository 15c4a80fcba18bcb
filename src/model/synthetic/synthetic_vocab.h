/* vocab.h - the vocabularies of the small models: each MODEL_TOKENS tokens. */
#ifndef IG_TESTS_MODELS_VOCAB_H
#define IG_TESTS_MODELS_VOCAB_H

#include "format/gguf/gguf.h"

enum { MODEL_TOKENS = 320 };

/* Scores and byte fallback: <unk> <s> </s>, 256 bytes, pieces. */
void vocab_spm(ig_gguf_writer *w);

/* 256 bytes, merges, and at the end <|im_start|> <|im_end|> <|endoftext|>; `pre` as the file names
 * it. */
void vocab_bpe(ig_gguf_writer *w, const char *pre);

/* [PAD] [UNK] [CLS] [SEP] [MASK], letters that begin a word and letters that go on, words. */
void vocab_wordpiece(ig_gguf_writer *w);

#endif
