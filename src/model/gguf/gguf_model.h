/* model.h - the insides of an ig_model: a GGUF file and all that was read from it once. */
#ifndef IG_MODEL_MODEL_H
#define IG_MODEL_MODEL_H

#include <stdatomic.h>

#include "ingot/model.h"
#include "ingot/packing.h"
#include "model/gguf/decoder.h"
#include "text/tokenizer/tokenizer.h"

struct ig_model {
    atomic_uint refs;
    ig_allocator memory; /* no context's: the model may outlive them */
    char *path;
    ig_gguf *file;
    const ig_arch *arch;
    ig_hyper hyper;
    ig_tokenizer *tokenizer;
    ig_packing *packing; /* of its weights, in all contexts; NULL: they are read as they lie */
};

/* Whether the file begins as GGUF files do; one that cannot be read does not. */
bool ig_model_is_gguf(const char *path);
/* Whether a run would take the file, of which the head is enough; `source` is for messages. */
IG_MUST_CHECK ig_status ig_model_check(const ig_allocator *a, const char *source, ig_gguf *file);
int64_t ig_model_param_count(const ig_model *model);
ig_keys ig_model_keys(const ig_model *model); /* lent */

#endif
