/*
 * recipe.h - the type of each tensor in a quantized model.
 *
 * Most matrices get the type the recipe is named after. The mixes give the most sensitive matrices
 * (attn_v and ffn_down of some layers, the output) a larger type, with the same rules as llama.cpp,
 * so that a Q4_K_M is what users expect.
 */
#ifndef IG_FORMAT_QUANTIZE_RECIPE_H
#define IG_FORMAT_QUANTIZE_RECIPE_H

#include "ingot/tensor.h"

typedef struct ig_recipe {
    const char *name;   /* "Q4_K_M" */
    ig_dtype dtype;     /* of most matrices */
    uint32_t file_type; /* value of general.file_type */
} ig_recipe;

extern const char *const ig_recipe_names[]; /* ends with NULL */
const ig_recipe *ig_recipe_at(size_t i);    /* NULL: past the end */
/* Case-insensitive; also by an alias ("Q4_K") or a number ("15") of llama-quantize. NULL: unknown.
 */
const ig_recipe *ig_recipe_find(const char *name);

/* Properties of a model that the rules depend on. */
typedef struct ig_recipe_model {
    int64_t n_layers;
    bool tied; /* the embedding is also the output matrix */
    int64_t n_experts;
    int64_t heads_share; /* query heads per KV head (GQA); 0: unknown */
} ig_recipe_model;

/* The type for a tensor. If the row length is not a multiple of the block size, another type is
 * chosen and `*why` is the reason; otherwise `*why` is NULL. */
ig_dtype ig_recipe_type(const ig_recipe *recipe, const ig_recipe_model *model, const char *name,
                        ig_desc desc, const char **why);

#endif
