/* gguf_model.h - the internals of an ig_model: a GGUF file, or one in memory, and its parsed
 * contents. */
#ifndef IG_MODEL_GGUF_GGUF_MODEL_H
#define IG_MODEL_GGUF_GGUF_MODEL_H

#include <stdatomic.h>

#include "ingot/model.h"
#include "ingot/packing.h"
#include "model/convert/convert_memory.h"
#include "model/gguf/decoder.h"
#include "text/tokenizer/tokenizer.h"

struct ig_model {
    atomic_uint refs;
    ig_allocator memory; /* not of a context: the model may outlive them */
    char *path;
    ig_gguf *file;
    ig_memory_file in_memory; /* of a model without a file; `file` is its */
    void (*release)(void *user);
    void *user;
    const ig_arch *arch;
    ig_hparams hyper;
    ig_tokenizer *tokenizer;
    ig_packing
        *packing; /* packed weights, shared by all contexts; NULL: weights are used as stored */
};

/* Whether the file can be run, judging by the header; `source` is for messages. */
IG_MUST_CHECK ig_status ig_model_check(const ig_allocator *a, const char *source, ig_gguf *file);
int64_t ig_model_param_count(const ig_model *model);
ig_keys ig_model_keys(const ig_model *model); /* lent */

#endif
