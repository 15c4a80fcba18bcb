/* vocab.h - the tokenizer that a model file holds. */
#ifndef IG_MODEL_VOCAB_H
#define IG_MODEL_VOCAB_H

#include "format/gguf/gguf.h"
#include "text/tokenizer/vocab.h"

/* Makes the tokenizer of a GGUF file.  `source`, the file's name, is for messages; `pre` is taken
 * instead of the file's own, unless NULL.  Arrays that do not fit together, and ids beyond the
 * vocabulary, are errors.  The caller owns the tokenizer; the file may be closed. */
IG_MUST_CHECK ig_status ig_vocab_from_gguf(const ig_allocator *a, const char *source,
                                           const ig_gguf *gguf, const char *pre,
                                           ig_tokenizer **out);

/* The same from a file by its path, .gguf or .oam; the weights are not read. */
IG_MUST_CHECK ig_status ig_vocab_open(const ig_allocator *a, const char *path, const char *pre,
                                      ig_tokenizer **out);

#endif
