/*
 * convert.h - a folder as model hubs have it (config.json, tokenizer.json,
 * safetensors) to one GGUF file.
 *
 *     convert.c            the folder
 *     convert_keys.c       what its config gives
 *     convert_names.c      names of tensors, and how their elements are reordered
 *     convert_tokenizer.c  the vocabulary
 *
 * Nothing in the folder is run, and nothing outside of it is read.
 */
#ifndef IG_MODEL_CONVERT_H
#define IG_MODEL_CONVERT_H

#include "format/gguf/gguf_stream.h"
#include "format/quantize/recipe.h"

typedef struct ig_conversion ig_conversion;

typedef struct ig_convert_options {
    const char *pre; /* name of the pre-tokenizer; NULL: the one whose patterns the folder has */
    /* What a person should know: tensors left out, say.  NULL: nobody asks. */
    void (*say)(void *user, const char *text);
    void *user;
} ig_convert_options;

/* Reads all but the tensors' bytes, which are mapped until the close. */
IG_MUST_CHECK ig_status ig_conversion_open(const ig_allocator *a, const char *dir,
                                           const ig_convert_options *options, ig_conversion **out);
void ig_conversion_close(ig_conversion *conversion);

const char *ig_conversion_arch(const ig_conversion *conversion);
size_t ig_conversion_count(const ig_conversion *conversion); /* tensors that will be written */

/* Writes the file.  `results` has room for ig_conversion_count(). */
IG_MUST_CHECK ig_status ig_conversion_write(ig_conversion *conversion, const char *path,
                                            const ig_recipe *recipe,
                                            const ig_produce_options *options,
                                            ig_produced *results);

/* Tensor i as it was written; after ig_conversion_write(). */
const ig_product *ig_conversion_product(const ig_conversion *conversion, size_t i);

#endif
