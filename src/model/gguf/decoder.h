/*
 * lm.h - language models that come in GGUF files.
 *
 * An architecture lists the weights it needs, with the shapes they must have, and
 * the keys it reads; this does the rest.  Numbers of the file are read and all
 * weights looked for once, when the file is opened, without a context.  An ig_lm
 * is then the weights in one context: tensors that lie in the mapped file.
 */
#ifndef IG_MODEL_LM_H
#define IG_MODEL_LM_H

#include "format/gguf/gguf.h"
#include "model/arch/arch.h"

/* ---- What a file says of its model ---- */

enum { IG_POOLING_NONE, IG_POOLING_MEAN, IG_POOLING_CLS, IG_POOLING_LAST }; /* as files say it */

struct ig_hyper {
    ig_lm_config size;
    int64_t n_experts, n_experts_used, d_ff_expert;
    int64_t d_ff_shared;             /* of the expert that all rows go to; 0: there is none */
    int64_t n_dense;                 /* so many layers at the begin have no experts */
    int64_t n_groups, n_groups_used; /* experts are chosen from the best groups; 0: from all */
    bool raw_routes;     /* weights of experts are those of all, and do not sum up to 1 */
    bool sigmoid_routes; /* they are each by itself, not by softmax */
    float routes_scale;  /* 0: nothing is scaled */
    int64_t n_ahead;     /* layers behind the last, which guess further tokens and are left alone */
    int64_t query_rank;  /* numbers that queries are made of; 0: of the model's width */
    int64_t latent_rank; /* the same of keys and values, whose widths are then */
    int64_t latent_key, latent_value;
    bool keeps_latent; /* the cache has these numbers, once for all heads, not keys and values */
    int64_t window;    /* positions that a row of a windowed layer sees; 0: all */
    int64_t window_period;     /* each such layer sees all the same; 0: none does */
    int64_t pooling;           /* IG_POOLING_*, or one that is not known */
    bool layer_norm, parallel; /* as its architecture is, unless the file says otherwise */
    float norm_eps;
    float attention_scale;                              /* 0: 1 / sqrt(head) */
    float embedding_scale, residual_scale, logit_scale; /* 0: nothing is scaled */
    float score_cap, logit_cap;                         /* stays within, by tanh; 0: anywhere */
    ig_rope_options rope, rope_window; /* of all layers, or apart for windowed ones; no factors */
    int64_t unturned_period;           /* each such layer turns no heads; 0: all do */
    bool windows_unstretched;          /* their positions are as they are, other layers' are not */
    bool norms_turned;                 /* heads are normed behind their rotation */
    int64_t rope_ctx_len;              /* that the model was first trained with; 0: not said */
    float yarn; /* by so much the context was stretched, as YaRN does; 0: not so */
    float yarn_fast,
        yarn_slow;   /* turns in the first context above and below which pairs are whole */
    float rope_gain; /* turned heads are scaled by this; 0: by nothing */
};

/* ---- Keys ---- */

struct ig_keys {
    const ig_gguf *file;
    const char *source; /* the file's name, for messages */
    const char *arch;   /* begins the names of its keys */
};

/* "llama." + name, a whole number or real.  It must be in range; one that is missing is an error
 * that names it, or leaves `out` alone where it is optional. */
typedef enum ig_need { IG_REQUIRED, IG_OPTIONAL } ig_need;
IG_MUST_CHECK ig_status ig_key_int(const ig_keys *keys, const char *name, ig_need need, int64_t low,
                                   int64_t high, int64_t *out);
IG_MUST_CHECK ig_status ig_key_real(const ig_keys *keys, const char *name, ig_need need, float low,
                                    float high, float *out);

/* The same of true and false, which may lack. */
IG_MUST_CHECK ig_status ig_key_bool(const ig_keys *keys, const char *name, bool *out);

/* The sizes and numbers that all architectures have. */
IG_MUST_CHECK ig_status ig_hyper_read(const ig_keys *keys, const ig_arch *arch, ig_hyper *out);

/* For read(): the experts that IG_EXPERT_KEYS tell of. */
#define IG_EXPERT_KEYS                                                                         \
    "expert_gating_func", "expert_weights_scale", "expert_shared_count", "expert_group_count", \
        "expert_group_used_count", "leading_dense_block_count", "nextn_predict_layers"
IG_MUST_CHECK ig_status ig_hyper_read_experts(const ig_keys *keys, ig_hyper *h);

/* For read(): how often a layer sees all in spite of the window, and the pace of the others'
 * positions, where the file says so. */
IG_MUST_CHECK ig_status ig_hyper_read_windows(const ig_keys *keys, ig_hyper *h);

/* ---- Weights ---- */

typedef struct ig_lm_layer {
    ig_tensor *attn_norm, *attn_norm_bias;
    ig_tensor *q, *k, *v, *qkv, *o; /* [out, in], as all matrices */
    ig_tensor *q_bias, *k_bias, *v_bias, *qkv_bias, *o_bias;
    ig_tensor *q_norm, *k_norm;
    ig_tensor *sinks;                                                      /* [heads] */
    ig_tensor *q_a, *q_a_norm, *q_b, *kv_a, *kv_a_norm, *kv_b, *k_b, *v_b; /* lm_latent.c */
    ig_tensor *attn_post_norm, *attn_post_norm_bias;
    ig_tensor *ffn_norm, *ffn_norm_bias;
    ig_tensor *gate, *up, *down, *gate_bias, *up_bias, *down_bias;
    ig_tensor *router, *gate_experts, *up_experts, *down_experts; /* [experts, out, in] */
    ig_tensor *choice_bias; /* for choosing experts, not for weighing them */
    ig_tensor *router_bias, *gate_experts_bias, *up_experts_bias, *down_experts_bias;
    ig_tensor *shared_router, *gate_shared, *up_shared, *down_shared;
    ig_tensor *ffn_post_norm, *ffn_post_norm_bias;
} ig_lm_layer;

typedef struct ig_lm {
    const ig_hyper *hyper;
    ig_tensor *embed, *positions, *types, *embed_norm, *embed_norm_bias;
    ig_tensor *norm, *norm_bias, *output, *output_bias;
    ig_tensor *rope_factors, *rope_long, *rope_short;
    ig_tensor *head_numbers; /* [heads], i32: 0, 1, 2 ...; NULL where nobody asks for them */
    ig_lm_layer layers[];
} ig_lm;

/* How long a dimension of a weight must be, in words of the file's keys. */
typedef enum ig_extent {
    IG_NO_MORE, /* dimensions follow */
    IG_BY_VOCABULARY,
    IG_BY_MODEL,
    IG_BY_HEADS,       /* all heads' queries */
    IG_BY_KEYS,        /* all heads' keys */
    IG_BY_VALUES,      /* all heads' values */
    IG_BY_HEAD_VALUES, /* what attention gives: as many values as there are heads of queries */
    IG_BY_QKV,         /* queries, keys, values */
    IG_BY_HEAD,        /* one head's key */
    IG_BY_EACH_HEAD,   /* one number for each head of queries */
    IG_BY_FF,
    IG_BY_TWO_FF,
    IG_BY_EXPERTS,
    IG_BY_EXPERT_FF,
    IG_BY_SHARED_FF,
    IG_BY_CONTEXT,
    IG_BY_TYPES, /* of tokens: BERT's two sentences */
    IG_BY_TURNS, /* pairs that rope turns */
    IG_BY_QUERY_RANK,
    IG_BY_LATENT_RANK,
    IG_BY_LATENT_ROW,    /* that, and what turns of a key */
    IG_BY_LATENT_HEADS,  /* all heads' queries, */
    IG_BY_LATENT_PAIRS,  /* all heads' keys but for what turns, with values, */
    IG_BY_LATENT_VALUES, /* all heads' values, */
    IG_BY_LATENT_KEY,    /* one head's key but for what turns, */
    IG_BY_LATENT_VALUE,  /* and its value */
    IG_EXTENTS
} ig_extent;

struct ig_weight_row {
    const char *name; /* in the file; that of a layer's has "blk.N." before it */
    size_t to;        /* offset of the tensor in ig_lm, or in ig_lm_layer */
    ig_extent dim[3]; /* outermost first */
    enum {
        IG_ONCE = 0,
        IG_EACH_LAYER = 1,
        IG_MAY_LACK = 2,
        IG_APART = 4,        /* of layers whose q, k and v are apart, */
        IG_FUSED = 8,        /* of those that have them in one, attn_qkv.weight; */
        IG_DENSE = 16,       /* of models without experts, */
        IG_MIXED = 32,       /* of those with experts, */
        IG_SHARED = 64,      /* of those with one that all rows go to; */
        IG_LOW_QUERY = 128,  /* of those whose queries are made in two steps, */
        IG_FULL_QUERY = 256, /* of the others; */
        IG_KEPT = 512,       /* of those that keep what keys and values are made of, */
        IG_MADE = 1024,      /* of those that make them */
        IG_OF_EXPERTS = IG_EACH_LAYER | IG_MIXED,
        IG_OF_SHARED = IG_OF_EXPERTS | IG_SHARED,
    } flags;
};

/* What several architectures have; each table ends with a row without a name. */
extern const ig_weight_row ig_weights_ends[];         /* embedding, last norm, output */
extern const ig_weight_row ig_weights_attention[];    /* norm; q, k, v or all in one; output */
extern const ig_weight_row ig_weights_head_norms[];   /* of q and k, head by head */
extern const ig_weight_row ig_weights_row_norms[];    /* the same, all heads together */
extern const ig_weight_row ig_weights_post_norms[];   /* behind each part */
extern const ig_weight_row ig_weights_gated[];        /* norm, gate, up, down */
extern const ig_weight_row ig_weights_gated_late[];   /* the same, the norm by another name */
extern const ig_weight_row ig_weights_bare[];         /* both parts, without these norms */
extern const ig_weight_row ig_weights_gate_up[];      /* the same, gate and up in one */
extern const ig_weight_row ig_weights_plain[];        /* norm, up, down */
extern const ig_weight_row ig_weights_experts[];      /* router, gate, up, down; also one for all */
extern const ig_weight_row ig_weights_latent[];       /* norm; queries, keys and values of less */
extern const ig_weight_row ig_weights_choice[];       /* a bias for choosing experts; it may lack */
extern const ig_weight_row ig_weights_biases[];       /* of attention's matrices; they may lack, */
extern const ig_weight_row ig_weights_gated_biases[]; /* those of gated parts, */
extern const ig_weight_row ig_weights_plain_biases[]; /* and of others */
extern const ig_weight_row ig_weights_norm_biases[];  /* of the norms before and behind layers */
extern const ig_weight_row ig_weights_rope[]; /* factors, also for long and short contexts */

/* offsetof, for tables. */
#define IG_LM(member)    offsetof(ig_lm, member)
#define IG_LAYER(member) offsetof(ig_lm_layer, member)

/* Whether all weights are there, in their shapes, and no others; an error names architecture and
 * tensor. */
IG_MUST_CHECK ig_status ig_weights_check(const ig_keys *keys, const ig_arch *arch,
                                         const ig_hyper *hyper);

/* The weights in a context.  `retain` and `release` are called with `owner` for each tensor that
 * lies in the file: it must stay while one does. */
typedef struct ig_weights_owner {
    void (*retain)(void *owner);
    void (*release)(void *owner);
    void *owner;
} ig_weights_owner;
IG_MUST_CHECK ig_status ig_lm_create(ig_ctx *ctx, const ig_keys *keys, const ig_arch *arch,
                                     const ig_hyper *hyper, ig_weights_owner owner, ig_lm **out);
void ig_lm_destroy(ig_ctx *ctx, const ig_arch *arch, ig_lm *lm);

/* ---- Parts of forward passes ---- */

/* x [..., in] times the weight [out, in] turned, plus the bias unless it is NULL. */
ig_tensor *ig_lm_linear(ig_tensor *x, ig_tensor *weight, ig_tensor *bias);

/* Queries, keys and values of a layer in heads, [b, t, h, d]; from one fused weight or three. */
typedef struct ig_lm_qkv {
    ig_tensor *q, *k, *v;
} ig_lm_qkv;
ig_lm_qkv ig_lm_project(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x);

/* As the file says, with the factors that the context asks for. */
ig_tensor *ig_lm_turn(const ig_lm *m, const ig_rows *rows, const ig_rope_options *rope,
                      ig_tensor *x);

/* Attention of layer i to x, which is normed, before the output's matrix: keys and values of all
 * heads are made of a few numbers (lm_latent.c). */
ig_tensor *ig_lm_attend_latent(const ig_lm *m, int64_t i, const ig_rows *rows, ig_tensor *x);

/* The whole of a decoder: hidden states behind the last norm.  A layer has norms before and behind
 * its parts where it has weights for them. */
typedef ig_tensor *ig_lm_feed_forward(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x);
ig_tensor *ig_lm_decode(const ig_lm *m, const ig_rows *rows, ig_lm_feed_forward *feed_forward);

/* hidden() of most.  Feed-forward parts are down(act(gate(x)) * up(x)) with silu or gelu, by
 * experts where there are any; with both sides limited, as gpt-oss has it; or down(gelu(up(x))). */
ig_tensor *ig_lm_decode_swiglu(void *model, const ig_rows *rows);
ig_tensor *ig_lm_decode_geglu(void *model, const ig_rows *rows);
ig_tensor *ig_lm_decode_limited(void *model, const ig_rows *rows);
ig_tensor *ig_lm_decode_gelu(void *model, const ig_rows *rows);

/* Hidden states to logits: by the output weights, or by the embedding where there are none. */
ig_tensor *ig_lm_head(void *model, ig_tensor *hidden);

#endif
