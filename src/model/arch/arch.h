/*
 * arch.h - the interface of an architecture.
 *
 * An architecture is one file in model/arch and one row in model/arch/arch.def. Its forward pass is
 * written once, in ops, for a micro-batch of tokens; the ubatch says whether attention reads the
 * keys of the same batch (training) or the paged KV cache (generation). Its weights are created and
 * trained, or loaded from a model file.
 */
#ifndef IG_MODEL_ARCH_ARCH_H
#define IG_MODEL_ARCH_ARCH_H

#include "ingot/arch.h"

static inline int64_t ig_lm_key_width(const ig_lm_config *c) {
    return c->key_width ? c->key_width : c->d_model / c->n_heads;
}
static inline int64_t ig_lm_value_width(const ig_lm_config *c) {
    return c->value_width ? c->value_width : c->d_model / c->n_heads;
}

/* Keys and values of one layer: [pages, 64, kv heads, head width]. */
typedef struct ig_kv_layer {
    ig_tensor *k, *v;
} ig_kv_layer;

/* A micro-batch: tokens for a forward pass. */
struct ig_ubatch {
    ig_tensor *ids;       /* [batch, rows], i32 */
    ig_tensor *positions; /* [rows], i32: each token's position in its sequence */
    ig_dtype compute;     /* training: the dtype that queries, keys and values are rounded to */
    int64_t ctx_len;      /* maximum context length; 0: the model's */

    /* Generation: batch is 1, and keys and values go to the pages. Training: all NULL. */
    const ig_kv_layer *layers;
    ig_tensor *page_table, *token_seq, *token_pos; /* as in attention_paged */
    ig_tensor *store_at;                           /* [rows], i32: each token's row in [pages 64] */

    /* Tokens whose hidden states are needed. From the queries of the last layer on, the model
     * drops the other rows; NULL: all are outputs. */
    ig_tensor *outputs;                 /* [n_outputs], i32: token indices, */
    ig_tensor *output_seq, *output_pos; /* and their token_seq and token_pos */
    int64_t last_layer;

    /* Of encoders, whose batch is 1: */
    ig_tensor *token_types;      /* [1, rows], i32; NULL: all 0 */
    const int64_t *text_lengths; /* [n_texts]: the rows are texts, one after the other */
    int64_t n_texts;             /* 0: one text */
    /* [n_layers]: where the forward pass leaves the hidden states of the embedding and of each
     * layer but the last, [batch, rows, d_model].  NULL: they are not wanted. */
    ig_tensor **states;
};

typedef struct ig_weight_row ig_weight_row;
typedef struct ig_keys ig_keys;
typedef struct ig_hparams ig_hparams;

typedef struct ig_arch {
    const char *name, *description;
    ig_lm_config defaults; /* the vocabulary is the tokenizer's */
    bool has_cache;        /* causal: generation keeps a KV cache */

    /* ---- One that is trained; else NULL ---- */
    /* Checks the sizes; fails with the reason. */
    ig_status (*check)(const ig_lm_config *config);
    /* Creates the layers below `root`. `*out` is freed with destroy(). */
    ig_status (*create)(ig_ctx *ctx, const ig_lm_config *config, ig_module *root, void **out);
    void (*destroy)(ig_ctx *ctx, void *model);

    /* ---- One that is read from a file (gguf/decoder.h); else NULL ---- */
    const ig_weight_row *const *weights; /* the tables of weights in the file; NULL-terminated */
    const char *const *own_keys;         /* keys of this architecture only, refused in other files
                                            (hparams.c); NULL-terminated */
    bool rope_interleaved;               /* interleaved RoPE pairs; else NeoX */
    bool layer_norm;                     /* LayerNorm; else RMSNorm */
    bool parallel_residual; /* the feed-forward reads attention's input, not its output */
    /* Reads the architecture's own keys; the common ones were read before. */
    ig_status (*read)(const ig_keys *keys, ig_hparams *hyper);

    const ig_production *production; /* its hand-written training step; NULL: none */

    /* ---- The forward pass: `model` is what create() made, or an ig_lm.  Both are NULL where
     * production is all there is ---- */
    /* Hidden states [batch, n_outputs, d_model] after the last layer and the final norm; then
     * logits [..., vocabulary]. */
    ig_tensor *(*hidden)(void *model, const ig_ubatch *rows);
    ig_tensor *(*head)(void *model, ig_tensor *hidden); /* NULL: an encoder, cannot generate */
} ig_arch;

/* ig_ubatch_attend() with options: a scale (0: 1 / sqrt(d)), a sliding window in positions, the
 * query's own included (0: off), a softcap of the scores (0: off), and a sink per head [h] (NULL:
 * none). */
typedef struct ig_attend_options {
    float scale;
    int64_t window;
    float cap;
    ig_tensor *sinks;
} ig_attend_options;
ig_tensor *ig_ubatch_attend_with(const ig_ubatch *rows, int64_t layer, ig_tensor *q, ig_tensor *k,
                                 ig_tensor *v, ig_attend_options options);

/* ---- factory.c ---- */
typedef enum ig_arch_kind { IG_ARCH_TRAINED, IG_ARCH_OF_FILES } ig_arch_kind;
/* Finds an architecture by name, built-in or registered with `ctx` (NULL: built-in only). Spelling
 * is lenient: ig_arch_same_name(). NULL: the error lists the known names. */
const ig_arch *ig_arch_find(const ig_ctx *ctx, const char *name, ig_arch_kind kind);
/* Whether two spellings mean one name: "OaTinyLlm", "tiny-llm" and "tinyllm". */
bool ig_arch_same_name(const char *written, const char *name);

/* ---- registered.c ---- */
/* The i-th architecture registered with the context; NULL after the last. */
const ig_arch *ig_arch_registered_at(const ig_ctx *ctx, size_t i);

#endif
