/* gguf_vocab.h - the tokenizer of a GGUF file. */
#ifndef IG_MODEL_GGUF_GGUF_VOCAB_H
#define IG_MODEL_GGUF_GGUF_VOCAB_H

#include "format/gguf/gguf.h"
#include "text/tokenizer/vocab.h"

/* Creates the tokenizer of a GGUF file. `source`, the file name, is for messages; `pre` overrides
 * the file's pre-tokenizer, unless NULL. Inconsistent arrays and out-of-range ids are errors. The
 * caller owns the tokenizer; the file may be closed. */
IG_MUST_CHECK ig_status ig_vocab_from_gguf(const ig_allocator *a, const char *source,
                                           const ig_gguf *gguf, const char *pre,
                                           ig_tokenizer **out);

#endif
