#include "format/recipe.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/blocks.h"

static const ig_recipe recipes[] = {
    {"Q4_0", IG_Q4_0, 2, IG_PURE},      {"Q4_1", IG_Q4_1, 3, IG_PURE},
    {"Q5_0", IG_Q5_0, 8, IG_PURE},      {"Q5_1", IG_Q5_1, 9, IG_PURE},
    {"Q8_0", IG_Q8_0, 7, IG_PURE},      {"Q4_K_S", IG_Q4_K, 14, IG_SMALL},
    {"Q4_K_M", IG_Q4_K, 15, IG_MEDIUM}, {"Q5_K_M", IG_Q5_K, 17, IG_MEDIUM},
    {"Q6_K", IG_Q6_K, 18, IG_PURE},     {"F16", IG_F16, 1, IG_PURE},
    {"BF16", IG_BF16, 32, IG_PURE},     {"F32", IG_F32, 0, IG_PURE},
};
enum { N_RECIPES = sizeof recipes / sizeof *recipes };

const ig_recipe *ig_recipe_at(size_t i) { return i < N_RECIPES ? &recipes[i] : NULL; }

const ig_recipe *ig_recipe_find(const char *name) {
    for (size_t i = 0; i < N_RECIPES; i++)
        if (strcasecmp(recipes[i].name, name) == 0) return &recipes[i];
    return NULL;
}

static bool has(const char *name, const char *piece) { return strstr(name, piece) != NULL; }

static bool ends(const char *name, const char *tail) {
    const size_t n = strlen(name), n_tail = strlen(tail);
    return n >= n_tail && strcmp(name + n - n_tail, tail) == 0;
}

/* Small tensors that decide much stay as they are: norms, biases, routers, learnt positions. */
static bool stays(const char *name, ig_desc desc) {
    static const char *const kept[] = {"ffn_gate_inp.weight", "_norm.weight"};
    static const char *const kept_whole[] = {"position_embd.weight", "token_types.weight"};
    if (desc.shape.rank < 2 || !ends(name, "weight")) return true;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (has(name, kept[i])) return true;
    for (size_t i = 0; i < sizeof kept_whole / sizeof *kept_whole; i++)
        if (strcmp(name, kept_whole[i]) == 0) return true;
    return false;
}

/* The first and last eighth of the layers, and of the others every third. */
static bool layer_matters(int64_t layer, int64_t n_layers) {
    return layer < n_layers / 8 || layer >= 7 * n_layers / 8 || (layer - n_layers / 8) % 3 == 2;
}

static ig_dtype mixed(const ig_recipe *r, const ig_recipe_model *m, const char *name) {
    int layer = 0;
    const bool is_v = has(name, "attn_v.weight"), is_down = has(name, "ffn_down");
    const bool is_output =
        strcmp(name, "output.weight") == 0 || (m->tied && strcmp(name, "token_embd.weight") == 0);
    if (is_output) return r->dtype == IG_Q8_0 ? IG_Q8_0 : IG_Q6_K;
    if (r->mixture == IG_PURE || sscanf(name, "blk.%9d.", &layer) != 1) return r->dtype;

    if (m->n_experts == 8 && (is_v || has(name, "attn_k.weight"))) return IG_Q8_0;
    if (m->n_experts == 8 && has(name, "attn_output.weight") && r->dtype == IG_Q4_K) return IG_Q5_K;
    if (r->mixture == IG_MEDIUM) {
        if (has(name, "attn_qkv.weight")) return r->dtype == IG_Q4_K ? IG_Q5_K : IG_Q6_K;
        if ((is_v || is_down) && layer_matters(layer, m->n_layers)) return IG_Q6_K;
    }
    if (r->mixture == IG_SMALL && is_v && layer < 4) return IG_Q5_K;
    if (r->mixture == IG_SMALL && is_down && layer < m->n_layers / 8) return IG_Q5_K;
    return r->dtype;
}

/* Rows that are no whole blocks of 256 may be whole blocks of 32. */
static ig_dtype fitting(ig_dtype dtype, ig_desc desc, const char **why) {
    static const struct {
        ig_dtype from, to;
    } smaller[] = {{IG_Q4_K, IG_Q5_0}, {IG_Q5_K, IG_Q5_1}, {IG_Q6_K, IG_Q8_0}};
    const int64_t columns = desc.shape.dim[desc.shape.rank - 1];
    if (columns % ig_dtype_block(dtype) == 0) return dtype;
    *why = "its rows are no whole blocks";
    for (size_t i = 0; i < sizeof smaller / sizeof *smaller; i++)
        if (smaller[i].from == dtype) dtype = smaller[i].to;
    return columns % ig_dtype_block(dtype) == 0 ? dtype : IG_F16;
}

ig_dtype ig_recipe_type(const ig_recipe *recipe, const ig_recipe_model *model, const char *name,
                        ig_desc desc, const char **why) {
    *why = NULL;
    if (stays(name, desc)) return ig_dtype_block(desc.dtype) == 1 ? desc.dtype : IG_F32;
    const bool plain = ig_dtype_block(recipe->dtype) == 1;
    return fitting(plain ? recipe->dtype : mixed(recipe, model, name), desc, why);
}
