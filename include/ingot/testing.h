/*
 * testing.h - synthetic models, to test programs without downloading anything.
 *
 * One small GGUF model of every architecture that is loaded from files, with random
 * weights that are always the same: embedding 256, feed-forward 512, 320 tokens,
 * context 128, 2 layers.
 */
#ifndef INGOT_TESTING_H
#define INGOT_TESTING_H

#include "ingot/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The names of the models: "llama", "qwen3", "bert", ...; NULL: there are no more.  Static. */
IG_API const char *ig_synthetic_model_name(size_t i);

/* Appends the model's file to `out`.  Matrices have the dtype; norms, biases and positions are F32.
 * The same arguments give the same bytes.  An unknown name is IG_ERR_ARGUMENT with the list. */
IG_API IG_MUST_CHECK ig_status ig_synthetic_model_create(const char *name, ig_dtype dtype,
                                                         ig_string *out);

/* Writes the model to a file, which is replaced atomically. */
IG_API IG_MUST_CHECK ig_status ig_synthetic_model_write(const char *name, ig_dtype dtype,
                                                        const char *path);

#ifdef __cplusplus
}
#endif
#endif
