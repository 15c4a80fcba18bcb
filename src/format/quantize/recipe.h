/*
 * recipe.h - which type each tensor of a quantised model gets.
 *
 * Most matrices get the type that the recipe is called by.  The mixtures give the
 * ones that matter most (attn_v and ffn_down of some layers, the output) a better
 * one, the same as other tools do, so that a Q4_K_M is what people expect of it.
 */
#ifndef IG_FORMAT_RECIPE_H
#define IG_FORMAT_RECIPE_H

#include "ingot/tensor.h"

typedef struct ig_recipe {
    const char *name;   /* "Q4_K_M" */
    ig_dtype dtype;     /* of most matrices */
    uint32_t file_type; /* its number in general.file_type */
} ig_recipe;

extern const char *const ig_recipe_names[]; /* NULL at the end */
const ig_recipe *ig_recipe_at(size_t i);    /* NULL: there are no more */
/* In letters of either size, by an alias ("Q4_K") or a number ("15") as llama-quantize takes them;
 * NULL: none. */
const ig_recipe *ig_recipe_find(const char *name);

/* What a recipe asks of a model. */
typedef struct ig_recipe_model {
    int64_t n_layers;
    bool tied; /* the embedding is the output, too */
    int64_t n_experts;
    int64_t heads_share; /* so many have the same keys and values; 0: not known */
} ig_recipe_model;

/* The type for a tensor of this name and desc.  `*why` becomes a reason in words where the type is
 * another because the rows are no whole blocks, else NULL. */
ig_dtype ig_recipe_type(const ig_recipe *recipe, const ig_recipe_model *model, const char *name,
                        ig_desc desc, const char **why);

#endif
