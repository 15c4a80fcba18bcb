/* synthetic_vocab.h - the vocabularies of the small models: MODEL_TOKENS tokens each. */
#ifndef IG_MODEL_SYNTHETIC_SYNTHETIC_VOCAB_H
#define IG_MODEL_SYNTHETIC_SYNTHETIC_VOCAB_H

#include "format/gguf/gguf.h"

enum { MODEL_TOKENS = 320 };

/* With scores and byte fallback: <unk> <s> </s>, 256 bytes, pieces. */
void vocab_spm(ig_gguf_writer *w);

/* 256 bytes, merges, and at the end <|im_start|> <|im_end|> <|endoftext|>; `pre` is the
 * pre-tokenizer's name in GGUF. */
void vocab_bpe(ig_gguf_writer *w, const char *pre);

/* [PAD] [UNK] [CLS] [SEP] [MASK], letters at the beginning of a word, letters inside a word,
 * words. */
void vocab_wordpiece(ig_gguf_writer *w);

#endif
