/*
 * served_model.h - one loaded model: its context, adapter, engine and chat template.
 */
#ifndef IG_SERVER_SERVED_MODEL_H
#define IG_SERVER_SERVED_MODEL_H

#include "server/models.h"

typedef struct ig_served_model {
    ig_served served; /* first: a pointer to it is one to the model */
    const ig_allocator *allocator;
    ig_ctx *ctx;
    ig_adapter *adapter;
    ig_chat_template *chat;
    char *chat_error, *chat_text;
    char quantization[24];
    ig_engine_stats warmup; /* what the engine had counted when it was ready */
    uint64_t bytes;         /* of memory: weights, tensors and KV cache */
} ig_served_model;

/* Loads a model with the options, of which the callbacks of the context are the caller's.  `id` and
 * `path` are borrowed as long as it exists.  The caller owns it. */
IG_MUST_CHECK ig_status ig_served_model_open(const ig_models_options *options, const char *id,
                                             const char *path, ig_served_model **out);
void ig_served_model_close(ig_served_model *model); /* NULL is a no-op */

/* Checks what a file says at its beginning, which takes no time: IG_ERR_IO, IG_ERR_FORMAT. */
IG_MUST_CHECK ig_status ig_served_model_check(const char *path, uint64_t *out_bytes,
                                              int64_t *out_created);

/* What the engine has counted since it was ready; what it does now. */
void ig_served_model_stats(const ig_served_model *model, ig_engine_stats *out);
/* Adds what is counted; other numbers of `sum` stay. */
void ig_engine_stats_add(ig_engine_stats *sum, const ig_engine_stats *x);

#endif
