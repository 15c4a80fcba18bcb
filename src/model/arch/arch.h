/*
 * arch.h - what an architecture is.
 *
 * One file in model/arch and one row in model/factory.c.  Its forward pass is
 * written once, in ops, for rows of tokens; the rows say whether attention looks
 * at the rows beside it (training) or into a cache of pages (generation).  Its
 * weights are made by itself and trained, or come in a model file.
 */
#ifndef IG_MODEL_ARCH_H
#define IG_MODEL_ARCH_H

#include "ingot/nn.h"
#include "ingot/ops.h"

/* Resolved: nothing is zero but where that is said. */
typedef struct ig_lm_config {
    int64_t d_model, n_layers, n_heads, n_kv_heads, d_ff, ctx_len, vocabulary;
    int64_t key_width, value_width; /* of a head; 0: d_model / n_heads */
} ig_lm_config;

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

/* Tokens to be put through the model. */
typedef struct ig_rows {
    ig_tensor *ids;       /* [batch, rows], i32 */
    ig_tensor *positions; /* [rows], i32: where in its text each row stands */
    ig_dtype compute;     /* what queries, keys and values are rounded to, in training */
    int64_t ctx_len;      /* the longest text there may be; 0: the model's own */

    /* For generation, batch is 1 and keys and values go to pages; else all NULL. */
    const ig_kv_layer *layers;
    ig_tensor *page_table, *row_seq, *row_pos; /* as attention_paged has them */
    ig_tensor *store_at; /* [rows], i32: the row of [pages 64] to keep it in */
    ig_status *status;   /* the first failure of storing */

    /* Rows whose hidden states are asked for.  From the queries of the last layer on, nobody needs
     * the others, and they are left out; NULL: all are asked for. */
    ig_tensor *asked;                 /* [asked], i32: their numbers, */
    ig_tensor *asked_seq, *asked_pos; /* and row_seq and row_pos of them alone */
    int64_t last_layer;
} ig_rows;

typedef struct ig_weight_row ig_weight_row;
typedef struct ig_keys ig_keys;
typedef struct ig_hyper ig_hyper;

typedef struct ig_arch {
    const char *name, *description;
    ig_lm_config defaults; /* the vocabulary is the tokenizer's */
    bool has_cache;        /* it looks back: generation keeps keys and values */

    /* ---- One that is trained; else NULL ---- */
    /* Why the sizes do not fit; IG_OK if they do. */
    ig_status (*check)(const ig_lm_config *config);
    /* Makes the layers below `root`.  What `out` gets is freed with destroy(). */
    ig_status (*create)(ig_ctx *ctx, const ig_lm_config *config, ig_module *root, void **out);
    void (*destroy)(ig_ctx *ctx, void *model);

    /* ---- One that is read from a file (lm.h); else NULL ---- */
    const ig_weight_row *const *weights; /* tables of what the file has; NULL at the end */
    const char *const *own_keys; /* that other files must not have (lm_keys.c); NULL at the end */
    bool pairs;                  /* rotary pairs are neighbours; else they are of two halves */
    bool layer_norm;             /* norms take the mean off; else they are of root mean squares */
    bool parallel; /* the feed-forward part sees what attention sees, not what it adds */
    /* What is its own among the file's keys; those that all have were read before. */
    ig_status (*read)(const ig_keys *keys, ig_hyper *hyper);

    /* ---- The forward pass: `model` is what create() made, or an ig_lm ---- */
    /* [batch, rows asked for, d_model] behind the last layer and its norm; then [..., vocabulary].
     */
    ig_tensor *(*hidden)(void *model, const ig_rows *rows);
    ig_tensor *(*head)(void *model, ig_tensor *hidden); /* NULL: it makes no text */
} ig_arch;

/* What is added to in a layer, x [b, t, d]: in the last one, only the rows that are asked for. */
ig_tensor *ig_rows_asked(const ig_rows *rows, int64_t layer, ig_tensor *x);

/* Causal attention of q [b, t, h, d] to k and v [b, t, g, d], or to the pages that hold all of the
 * text so far; returns [b, t, h d], of rows as ig_rows_asked() does. */
ig_tensor *ig_rows_attend(const ig_rows *rows, int64_t layer, ig_tensor *q, ig_tensor *k,
                          ig_tensor *v);

/* The same, with a scale of its own (0: 1 / sqrt(d)), no further back than `window` positions, the
 * row's own included (0: to the begin), scores within `cap`, by tanh (0: as they are), and a sink
 * for each head [h] (NULL: none). */
typedef struct ig_attend_options {
    float scale;
    int64_t window;
    float cap;
    ig_tensor *sinks;
} ig_attend_options;
ig_tensor *ig_rows_attend_with(const ig_rows *rows, int64_t layer, ig_tensor *q, ig_tensor *k,
                               ig_tensor *v, ig_attend_options options);

/* x [b, t, n h] -> [b, t, h, n] */
ig_tensor *ig_rows_split_heads(ig_tensor *x, int64_t heads);

/* For create(): makes a layer and adds it to `parent`, which owns it. */
IG_MUST_CHECK ig_status ig_arch_linear(ig_module *parent, const char *name, int64_t n_in,
                                       int64_t n_out, bool bias, ig_module **out);
IG_MUST_CHECK ig_status ig_arch_embedding(ig_module *parent, const char *name, int64_t count,
                                          int64_t width, double std, ig_module **out);
IG_MUST_CHECK ig_status ig_arch_rms_norm(ig_module *parent, const char *name, int64_t width,
                                         ig_module **out);
IG_MUST_CHECK ig_status ig_arch_layer_norm(ig_module *parent, const char *name, int64_t width,
                                           ig_module **out);
/* A module that only holds others: "layers", or "3" in it. */
IG_MUST_CHECK ig_status ig_arch_group(ig_module *parent, const char *name, ig_module **out);
IG_MUST_CHECK ig_status ig_arch_layer_group(ig_module *layers, int64_t number, ig_module **out);
/* Draws the weight anew, with this deviation. */
IG_MUST_CHECK ig_status ig_arch_redraw(ig_module *linear, double std);

/* d_model is divisible by the heads, and the heads by those of k and v. */
IG_MUST_CHECK ig_status ig_arch_check_heads(const char *arch, const ig_lm_config *config);

/* ---- factory.c ---- */
typedef enum ig_arch_kind { IG_ARCH_TRAINED, IG_ARCH_OF_FILES } ig_arch_kind;
/* By a name as people write it; NULL: the error lists the known ones. */
const ig_arch *ig_arch_find(const char *name, ig_arch_kind kind);

#endif
