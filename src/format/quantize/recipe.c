#include "format/quantize/recipe.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/quant_blocks.h"

static const ig_recipe recipes[] = {
    {"Q2_K", IG_Q2_K, 10},      {"Q2_K_S", IG_Q2_K, 21},   {"Q3_K_S", IG_Q3_K, 11},
    {"Q3_K_M", IG_Q3_K, 12},    {"Q3_K_L", IG_Q3_K, 13},   {"Q4_0", IG_Q4_0, 2},
    {"Q4_1", IG_Q4_1, 3},       {"Q4_K_S", IG_Q4_K, 14},   {"Q4_K_M", IG_Q4_K, 15},
    {"IQ4_NL", IG_IQ4_NL, 25},  {"IQ4_XS", IG_IQ4_XS, 30}, {"MXFP4", IG_MXFP4, 38},
    {"MXFP4_MOE", IG_Q8_0, 38}, {"Q5_0", IG_Q5_0, 8},      {"Q5_1", IG_Q5_1, 9},
    {"Q5_K_S", IG_Q5_K, 16},    {"Q5_K_M", IG_Q5_K, 17},   {"Q6_K", IG_Q6_K, 18},
    {"Q8_0", IG_Q8_0, 7},       {"F16", IG_F16, 1},        {"BF16", IG_BF16, 32},
    {"F32", IG_F32, 0},
};
enum { N_RECIPES = sizeof recipes / sizeof *recipes };

/* The same names, for option tables. */
const char *const ig_recipe_names[] = {"Q2_K",      "Q2_K_S", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_0",
                                       "Q4_1",      "Q4_K_S", "Q4_K_M", "IQ4_NL", "IQ4_XS", "MXFP4",
                                       "MXFP4_MOE", "Q5_0",   "Q5_1",   "Q5_K_S", "Q5_K_M", "Q6_K",
                                       "Q8_0",      "F16",    "BF16",   "F32",    NULL};

const ig_recipe *ig_recipe_at(size_t i) { return i < N_RECIPES ? &recipes[i] : NULL; }

/* Aliases of llama-quantize. */
static const struct {
    const char *name, *means;
} aliases[] = {{"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}};

/* By llama-quantize's file type number; of two rows with the same number, the later one is its
 * own. */
static const ig_recipe *find_number(const char *text) {
    char *end;
    const unsigned long number = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end) return NULL;
    for (size_t i = N_RECIPES; i-- > 0;)
        if (recipes[i].file_type == number) return &recipes[i];
    return NULL;
}

const ig_recipe *ig_recipe_find(const char *name) {
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcasecmp(aliases[i].name, name) == 0) name = aliases[i].means;
    for (size_t i = 0; i < N_RECIPES; i++)
        if (strcasecmp(recipes[i].name, name) == 0) return &recipes[i];
    return find_number(name);
}

static bool has(const char *name, const char *piece) { return strstr(name, piece) != NULL; }

static bool ends(const char *name, const char *tail) {
    const size_t n = strlen(name), n_tail = strlen(tail);
    return n >= n_tail && strcmp(name + n - n_tail, tail) == 0;
}

/* Small tensors with a large effect keep their type: norms, biases, routers, learned positions. */
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

/* ---- Mixtures ---- */

/* Which layers or models a rule applies to. */
typedef enum condition {
    ALWAYS,
    FIRST_2_LAYERS,
    FIRST_4_LAYERS,
    FIRST_16TH,
    FIRST_8TH,
    SOME_LAYERS,   /* the first and last eighth, and every third of the others */
    HEADS_SHARE,   /* GQA with four or more query heads per KV head */
    EIGHT_EXPERTS, /* Mixtral and similar: attention is a small part of the weights */
    LARGE_LLAMA,   /* 80 layers with GQA: the shared KV weights have a large effect */
} condition;

typedef struct rule {
    const char *recipes; /* separated by spaces; NULL: all quantized recipes */
    const char *tensor;  /* substring of the tensor name */
    condition when;
    ig_dtype dtype;
} rule;

/* The first matching rule wins; without one, a matrix gets the recipe's own type. */
static const rule rules[] = {
    {NULL, "attn_v.weight", EIGHT_EXPERTS, IG_Q8_0},
    {NULL, "attn_k.weight", EIGHT_EXPERTS, IG_Q8_0},
    {"Q2_K Q3_K_S Q3_K_M Q4_K_S Q4_K_M IQ4_NL IQ4_XS", "attn_output.weight", EIGHT_EXPERTS,
     IG_Q5_K},
    {"Q3_K_L", "attn_output.weight", EIGHT_EXPERTS, IG_Q3_K},

    {"Q2_K Q2_K_S Q3_K_S Q3_K_M Q4_K_S", "attn_v.weight", LARGE_LLAMA, IG_Q5_K},
    {"Q2_K Q2_K_S", "attn_v.weight", HEADS_SHARE, IG_Q4_K},
    {"Q2_K", "attn_v.weight", ALWAYS, IG_Q3_K},
    {"Q3_K_M", "attn_v.weight", FIRST_2_LAYERS, IG_Q5_K},
    {"Q3_K_M", "attn_v.weight", ALWAYS, IG_Q4_K},
    {"Q3_K_L", "attn_v.weight", ALWAYS, IG_Q5_K},
    {"IQ4_NL IQ4_XS", "attn_v.weight", HEADS_SHARE, IG_Q5_K},
    {"Q4_K_S", "attn_v.weight", FIRST_4_LAYERS, IG_Q5_K},
    {"Q4_K_M Q5_K_M", "attn_v.weight", SOME_LAYERS, IG_Q6_K},
    {"Q4_K_M", "attn_v.weight", LARGE_LLAMA, IG_Q5_K},

    {"Q2_K", "ffn_down", ALWAYS, IG_Q3_K},
    {"Q2_K_S", "ffn_down", FIRST_8TH, IG_Q4_K},
    {"Q3_K_M", "ffn_down", FIRST_16TH, IG_Q5_K},
    {"Q3_K_M", "ffn_down", ALWAYS, IG_Q4_K},
    {"Q3_K_L", "ffn_down", ALWAYS, IG_Q5_K},
    {"Q4_K_S IQ4_NL IQ4_XS", "ffn_down", FIRST_8TH, IG_Q5_K},
    {"Q4_K_M Q5_K_M", "ffn_down", SOME_LAYERS, IG_Q6_K},

    {"Q2_K", "attn_output.weight", ALWAYS, IG_Q3_K},
    {"Q3_K_M", "attn_output.weight", ALWAYS, IG_Q4_K},
    {"Q3_K_L", "attn_output.weight", ALWAYS, IG_Q5_K},

    {"Q3_K_M Q3_K_L", "attn_qkv.weight", ALWAYS, IG_Q4_K},
    {"Q4_K_M", "attn_qkv.weight", ALWAYS, IG_Q5_K},
    {"Q5_K_M", "attn_qkv.weight", ALWAYS, IG_Q6_K},

    {"MXFP4_MOE", "_exps.weight", ALWAYS, IG_MXFP4},
};

static bool holds(condition when, const ig_recipe_model *m, int64_t layer) {
    const int64_t n = m->n_layers;
    switch (when) {
    case FIRST_2_LAYERS: return layer < 2;
    case FIRST_4_LAYERS: return layer < 4;
    case FIRST_16TH: return layer < n / 16;
    case FIRST_8TH: return layer < n / 8;
    case SOME_LAYERS: return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
    case HEADS_SHARE: return m->heads_share >= 4;
    case EIGHT_EXPERTS: return m->n_experts == 8;
    case LARGE_LLAMA: return n == 80 && m->heads_share > 1;
    case ALWAYS: break;
    }
    return true;
}

/* Whether `name` is in `names`, which are separated by spaces. */
static bool is_among(const char *names, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = names; *at;) {
        const size_t n = strcspn(at, " ");
        if (n == length && memcmp(at, name, n) == 0) return true;
        at += n + (at[n] == ' ');
    }
    return false;
}

static ig_dtype mixed(const ig_recipe *r, const ig_recipe_model *m, const char *name) {
    int layer = 0;
    const bool is_output =
        strcmp(name, "output.weight") == 0 || (m->tied && strcmp(name, "token_embd.weight") == 0);
    if (is_output) return r->dtype == IG_Q8_0 ? IG_Q8_0 : IG_Q6_K;
    if (sscanf(name, "blk.%9d.", &layer) != 1) return r->dtype;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if ((!rules[i].recipes || is_among(rules[i].recipes, r->name)) &&
            has(name, rules[i].tensor) && holds(rules[i].when, m, layer))
            return rules[i].dtype;
    return r->dtype;
}

/* Rows that are not a multiple of 256 may be a multiple of 32. */
static ig_dtype fitting(ig_dtype dtype, ig_desc desc, const char **why) {
    static const struct {
        ig_dtype from, to;
    } smaller[] = {{IG_Q2_K, IG_IQ4_NL}, {IG_Q3_K, IG_IQ4_NL}, {IG_IQ4_XS, IG_IQ4_NL},
                   {IG_Q4_K, IG_Q5_0},   {IG_Q5_K, IG_Q5_1},   {IG_Q6_K, IG_Q8_0}};
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
