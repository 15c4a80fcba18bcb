/*
 * convert.h - Hugging Face model folders to GGUF, and quantization.
 *
 *     ig_convert("Qwen3-0.6B", "qwen3.gguf", &(ig_convert_options){.type = "Q4_K_M"}, NULL)
 *     ig_quantize_model("model-f16.gguf", "model.gguf", &(ig_convert_options){.type = "Q8_0"},
 * NULL)
 *
 * The file is replaced completely or not at all.  Nothing in a folder is executed, and
 * nothing outside of it is read.  Memory stays small whatever the model's size.
 */
#ifndef INGOT_CONVERT_H
#define INGOT_CONVERT_H

#include "ingot/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The types of weights: "F16", "Q4_K_M", ...; NULL: there are no more.  Static. */
IG_API const char *ig_weight_type_name(size_t i);
/* The canonical name of a type, in upper or lower case, by an alias ("Q4_K") or by llama-quantize's
 * number; static.  NULL: there is no such type. */
IG_API const char *ig_weight_type_resolve(const char *name);

typedef struct ig_convert_options {
    const char *type;          /* of the weights; NULL: "F16" */
    const char *pre_tokenizer; /* of ig_convert(): its name; NULL: recognized by its patterns */
    int threads;               /* 0: as many as the process may use */
    /* Called with notes for the user, such as tensors that get another type.  NULL: no callback. */
    void (*note)(void *user, const char *text);
    /* Called with the tensor that is written and the bytes so far; false ends it with
     * IG_ERR_CANCELLED.  NULL: no callback. */
    bool (*progress)(void *user, const char *tensor, uint64_t done, uint64_t total);
    void *user; /* of these two */
    /* Called with the name of the temporary file once this process owns it, and with NULL when it
     * is gone, for programs that clean up in a signal handler.  NULL: no callback. */
    void (*writing)(const char *temporary);
    const ig_allocator *allocator; /* borrowed, outlives the result; NULL: malloc's */
} ig_convert_options;

/* A tensor that was written. */
typedef struct ig_converted_tensor {
    const char *name; /* borrowed from the result */
    ig_dtype from;    /* of ig_quantize_model(); of ig_convert() F32 */
    ig_desc desc;     /* in the file */
    uint64_t n_bytes;
    double square; /* sum of the squares of its elements */
    double error;  /* sum of the squared quantization errors; both 0 if bytes were copied */
} ig_converted_tensor;

typedef struct ig_conversion_result ig_conversion_result;

/* Converts a folder (config.json, tokenizer.json, .safetensors) or a checkpoint to one GGUF file.
 * NULL options: all defaults.  `result` (or NULL) is the caller's to destroy.  IG_ERR_FORMAT: a
 * file is invalid, or the architecture or a key of config.json is not supported. */
IG_API IG_MUST_CHECK ig_status ig_convert(const char *from, const char *to,
                                          const ig_convert_options *options,
                                          ig_conversion_result **result);

/* Writes a GGUF model, which may be split, as one GGUF file with weights of another type.  The rest
 * is as for ig_convert(). */
IG_API IG_MUST_CHECK ig_status ig_quantize_model(const char *from, const char *to,
                                                 const ig_convert_options *options,
                                                 ig_conversion_result **result);
IG_API void ig_conversion_result_destroy(ig_conversion_result *result); /* NULL is a no-op */

/* What was written; strings are borrowed from the result.  Tensors are in the order of the file;
 * one beyond the last is all zeros. */
IG_API const char *ig_conversion_result_arch(const ig_conversion_result *result);
IG_API const char *ig_conversion_result_type(const ig_conversion_result *result);
IG_API uint64_t ig_conversion_result_bytes_before(const ig_conversion_result *result);
IG_API size_t ig_conversion_result_count(const ig_conversion_result *result);
IG_API ig_converted_tensor ig_conversion_result_tensor(const ig_conversion_result *result,
                                                       size_t i);

#ifdef __cplusplus
}
#endif
#endif
