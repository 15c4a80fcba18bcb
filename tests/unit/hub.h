/*
 * hub.h - small models as a model hub has them, for tests: a config, named tensors with random
 * numbers and a tokenizer, in memory and as a folder.
 */
#ifndef IG_TESTS_UNIT_HUB_H
#define IG_TESTS_UNIT_HUB_H

#include "ingot/model.h"

enum {
    HUB_D_MODEL = 64,
    HUB_LAYERS = 2,
    HUB_HEADS = 4,
    HUB_KV_HEADS = 2,
    HUB_HEAD_DIM = 16,
    HUB_D_FF = 96,
    HUB_VOCABULARY = 40,
    HUB_CTX_LEN = 160,
    HUB_MAX_TENSORS = 64,
};

/* A model; owns its texts and tensors. */
typedef struct hub_model {
    char config[1024];
    const char *tokenizer;
    ig_named_tensor tensors[HUB_MAX_TENSORS];
    size_t n_tensors;
    int n_released; /* calls of `source`.release */
    ig_model_source source;
} hub_model;

/* "llama", "mistral", "qwen3", "gemma3", "phi3", "gpt2", "bert"; NULL: there are no more. */
const char *hub_name(size_t i);
/* All tensors have the dtype, F32, F16 or BF16.  The same arguments give the same model. */
hub_model *hub_model_create(const char *name, ig_dtype dtype);
void hub_model_destroy(hub_model *model);
/* The tensor of that name; fails the test if there is none. */
ig_named_tensor *hub_model_find(hub_model *model, const char *name);
/* Writes config.json, tokenizer.json and model.safetensors to the folder. */
void hub_model_save(const hub_model *model, const char *dir);

#endif
