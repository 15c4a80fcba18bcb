/*
 * convert.h - converts a Hugging Face model folder (config.json, tokenizer.json, safetensors) to
 * one GGUF file.
 *
 *     convert.c            the folder
 *     convert_config.c     the table of config keys, and sliding windows
 *     convert_keys.c       the GGUF keys of the config
 *     convert_names.c      tensor names, and how their elements are reordered
 *     convert_tokenizer.c  the vocabulary
 *     convert_memory.c     the same for a model in memory
 *
 * Nothing in the folder is executed, and nothing outside of it is read.
 */
#ifndef IG_MODEL_CONVERT_CONVERT_H
#define IG_MODEL_CONVERT_CONVERT_H

#include "format/gguf/gguf_stream.h"
#include "format/quantize/recipe.h"

typedef struct ig_conversion ig_conversion;

typedef struct ig_conversion_options {
    const char *pre; /* name of the pre-tokenizer; NULL: detected from its patterns */
    /* Called with notes for the user, such as tensors left out.  NULL: no callback. */
    void (*say)(void *user, const char *text);
    void *user;
} ig_conversion_options;

/* Reads everything but the tensors' bytes, which stay mapped until close. */
IG_MUST_CHECK ig_status ig_conversion_open(const ig_allocator *a, const char *dir,
                                           const ig_conversion_options *options,
                                           ig_conversion **out);
void ig_conversion_close(ig_conversion *conversion);

const char *ig_conversion_arch(const ig_conversion *conversion);
size_t ig_conversion_count(const ig_conversion *conversion); /* tensors that will be written */

/* Writes the file. `results` has ig_conversion_count() elements. */
IG_MUST_CHECK ig_status ig_conversion_write(ig_conversion *conversion, const char *path,
                                            const ig_recipe *recipe,
                                            const ig_produce_options *options,
                                            ig_produced *results);

/* Tensor i as it was written; after ig_conversion_write(). */
const ig_gguf_output *ig_conversion_output(const ig_conversion *conversion, size_t i);

#endif
