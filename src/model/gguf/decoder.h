/*
 * decoder.h - the decoder-only language models of GGUF files.
 *
 * An architecture lists its weights with their shapes and the keys it reads; this does the rest.
 * Hyperparameters are read and weights located once, when the file is opened, without a context. An
 * ig_lm is the weights in one context: tensors on the mapped file.
 */
#ifndef IG_MODEL_GGUF_DECODER_H
#define IG_MODEL_GGUF_DECODER_H

#include "format/gguf/gguf.h"
#include "model/arch/arch.h"

/* ---- What a file says of its model ---- */

enum {
    IG_POOLING_NONE,
    IG_POOLING_MEAN,
    IG_POOLING_CLS,
    IG_POOLING_LAST
}; /* numbered as in files */

struct ig_hparams {
    ig_lm_config size;
    int64_t n_experts, n_experts_used, d_ff_expert;
    int64_t d_ff_shared_expert;      /* 0: no shared expert */
    int64_t n_dense_layers;          /* leading layers without experts */
    int64_t n_groups, n_groups_used; /* expert groups; 0: no groups */
    bool no_norm_topk;               /* expert weights are not renormalized to sum to 1 */
    bool sigmoid_gating;             /* router scores by sigmoid instead of softmax */
    float routed_scaling;            /* 0: no scaling */
    int64_t n_mtp_layers;            /* trailing multi-token prediction layers, which are not run */
    int64_t q_lora_rank;             /* rank of the query projection; 0: full rank */
    int64_t kv_lora_rank; /* rank of the KV projection (MLA), whose head widths are then */
    int64_t qk_head_dim, v_head_dim;
    bool mla_absorbed; /* the cache holds the latent, once for all heads, instead of keys and values
                        */
    int64_t sliding_window;   /* 0: full attention */
    int64_t full_attn_period; /* every n-th layer has full attention; 0: none */
    int64_t pooling;          /* IG_POOLING_*, or an unknown value */
    bool layer_norm,
        parallel_residual; /* defaults of the architecture, unless the file overrides them */
    float norm_eps;
    float attention_scale;                              /* 0: 1 / sqrt(head) */
    float embedding_scale, residual_scale, logit_scale; /* 0: no scaling */
    float attn_softcap, final_softcap;                  /* softcap by tanh; 0: off */
    ig_rope_options rope,
        rope_swa; /* of all layers, or separately for sliding-window layers; without factors */
    int64_t nope_period;        /* every n-th layer has no RoPE; 0: none */
    bool swa_rope_unscaled;     /* RoPE scaling does not apply to sliding-window layers */
    bool qk_norm_after_rope;    /* QK norm comes after RoPE */
    int64_t orig_ctx_len;       /* original training context length; 0: not given */
    float yarn_scale;           /* YaRN's context extension factor; 0: no YaRN */
    float yarn_fast, yarn_slow; /* YaRN: rotations in the original context above and below which a
                                   pair is kept or fully scaled */
    float mscale;               /* RoPE output scale (YaRN attention factor); 0: off */
};

/* ---- Keys ---- */

struct ig_keys {
    const ig_gguf *file;
    const char *source; /* file name, for messages */
    const char *arch;   /* prefix of its keys */
    /* The name of a tensor for messages, in `out` or elsewhere.  NULL: as in the file. */
    const char *(*shown)(const void *user, const char *name, char *out, size_t room);
    const void *user;
};

/* Reads "llama." + name as an integer or real in range. A missing key is an error that names it,
 * or leaves `out` unchanged if optional. */
typedef enum ig_need { IG_REQUIRED, IG_OPTIONAL } ig_need;
IG_MUST_CHECK ig_status ig_key_int(const ig_keys *keys, const char *name, ig_need need, int64_t low,
                                   int64_t high, int64_t *out);
IG_MUST_CHECK ig_status ig_key_real(const ig_keys *keys, const char *name, ig_need need, float low,
                                    float high, float *out);

/* The same for an optional boolean. */
IG_MUST_CHECK ig_status ig_key_bool(const ig_keys *keys, const char *name, bool *out);

/* Hyperparameters of all architectures. */
IG_MUST_CHECK ig_status ig_hparams_read(const ig_keys *keys, const ig_arch *arch, ig_hparams *out);

/* For read(): the MoE keys. */
#define IG_EXPERT_KEYS                                                                         \
    "expert_gating_func", "expert_weights_scale", "expert_shared_count", "expert_group_count", \
        "expert_group_used_count", "leading_dense_block_count", "nextn_predict_layers"
IG_MUST_CHECK ig_status ig_hparams_read_experts(const ig_keys *keys, ig_hparams *h);

/* For read(): the period of full-attention layers and the RoPE base of the sliding-window layers.
 */
IG_MUST_CHECK ig_status ig_hparams_read_windows(const ig_keys *keys, ig_hparams *h);

/* ---- Weights ---- */

typedef struct ig_lm_layer {
    ig_tensor *attn_norm, *attn_norm_bias;
    ig_tensor *q, *k, *v, *qkv, *o; /* [out, in], like all matrices */
    ig_tensor *q_bias, *k_bias, *v_bias, *qkv_bias, *o_bias;
    ig_tensor *q_norm, *k_norm;
    ig_tensor *sinks; /* attention sinks [heads] */
    ig_tensor *q_a, *q_a_norm, *q_b, *kv_a, *kv_a_norm, *kv_b, *k_b, *v_b; /* mla.c */
    ig_tensor *attn_post_norm, *attn_post_norm_bias;
    ig_tensor *ffn_norm, *ffn_norm_bias;
    ig_tensor *gate, *up, *down, *gate_bias, *up_bias, *down_bias;
    ig_tensor *router, *gate_experts, *up_experts, *down_experts; /* [experts, out, in] */
    ig_tensor *router_score_bias; /* added for expert selection only, not for the weights */
    ig_tensor *router_bias, *gate_experts_bias, *up_experts_bias, *down_experts_bias;
    ig_tensor *shared_router, *gate_shared, *up_shared, *down_shared;
    ig_tensor *ffn_post_norm, *ffn_post_norm_bias;
} ig_lm_layer;

typedef struct ig_lm {
    const ig_hparams *hparams;
    ig_tensor *embed, *positions, *types, *embed_norm, *embed_norm_bias;
    ig_tensor *norm, *norm_bias, *output, *output_bias;
    ig_tensor *rope_factors, *rope_long, *rope_short;
    ig_tensor
        *head_numbers; /* [heads], i32: 0, 1, 2 ...; NULL if the architecture does not need them */
    ig_lm_layer layers[];
} ig_lm;

/* The extent of a weight's dimension, by hyperparameter. */
typedef enum ig_extent {
    IG_NO_MORE, /* end of the dimensions */
    IG_BY_VOCABULARY,
    IG_BY_MODEL,
    IG_BY_HEADS,       /* q: all heads */
    IG_BY_KEYS,        /* k: all heads */
    IG_BY_VALUES,      /* v: all heads */
    IG_BY_HEAD_VALUES, /* attention output: n_heads values */
    IG_BY_QKV,         /* fused q, k and v */
    IG_BY_HEAD,        /* head_dim */
    IG_BY_EACH_HEAD,   /* n_heads */
    IG_BY_FF,
    IG_BY_TWO_FF,
    IG_BY_EXPERTS,
    IG_BY_EXPERT_FF,
    IG_BY_SHARED_FF,
    IG_BY_CONTEXT,
    IG_BY_TYPES,      /* token types: BERT's two segments */
    IG_BY_ROPE_PAIRS, /* RoPE pairs */
    IG_BY_Q_LORA,
    IG_BY_KV_LORA,
    IG_BY_MLA_ROW,    /* kv_lora_rank plus the RoPE part of a key */
    IG_BY_MLA_HEADS,  /* q of all heads, */
    IG_BY_MLA_ROPE,   /* non-RoPE keys and values of all heads, */
    IG_BY_MLA_VALUES, /* values of all heads, */
    IG_BY_QK_NOPE,    /* the non-RoPE part of a key, */
    IG_BY_MLA_VALUE,  /* and a value head */
    IG_EXTENTS
} ig_extent;

struct ig_weight_row {
    const char *name; /* as in the file; a layer's name follows "blk.N." */
    size_t to;        /* offset of the tensor in ig_lm or ig_lm_layer */
    ig_extent dim[3]; /* outermost first */
    enum {
        IG_ONCE = 0,
        IG_EACH_LAYER = 1,
        IG_OPTIONAL_WEIGHT = 2,
        IG_SPLIT_QKV = 4,       /* only layers with separate q, k and v, */
        IG_FUSED_QKV = 8,       /* only layers with attn_qkv.weight; */
        IG_DENSE = 16,          /* only models without experts, */
        IG_MOE = 32,            /* only models with experts, */
        IG_SHARED_EXPERT = 64,  /* only models with a shared expert; */
        IG_LOW_QUERY = 128,     /* only models with q_lora_rank, */
        IG_FULL_QUERY = 256,    /* only models without; */
        IG_MLA_ABSORBED = 512,  /* only models that cache the latent, */
        IG_MLA_EXPANDED = 1024, /* only models that expand it */
        IG_OF_EXPERTS = IG_EACH_LAYER | IG_MOE,
        IG_OF_SHARED = IG_OF_EXPERTS | IG_SHARED_EXPERT,
    } flags;
};

/* Shared tables; each ends with a row without a name. */
extern const ig_weight_row ig_weights_ends[];       /* embedding, final norm, output */
extern const ig_weight_row ig_weights_attention[];  /* norm; q, k, v or fused; output */
extern const ig_weight_row ig_weights_head_norms[]; /* QK norm per head */
extern const ig_weight_row ig_weights_row_norms[];  /* QK norm over all heads */
extern const ig_weight_row ig_weights_post_norms[]; /* norms after attention and FFN */
extern const ig_weight_row ig_weights_gated[];      /* norm, gate, up, down */
extern const ig_weight_row ig_weights_gated_late[]; /* the same, with another name of the norm */
extern const ig_weight_row ig_weights_bare[];       /* attention and FFN without pre-norms */
extern const ig_weight_row ig_weights_gate_up[];    /* the same, gate and up fused */
extern const ig_weight_row ig_weights_plain[];      /* norm, up, down (not gated) */
extern const ig_weight_row
    ig_weights_experts[];                    /* router, gate, up, down; also the shared expert's */
extern const ig_weight_row ig_weights_mla[]; /* norm; low-rank q, k and v */
extern const ig_weight_row ig_weights_router_bias[];  /* optional router score bias */
extern const ig_weight_row ig_weights_biases[];       /* attention biases, optional; */
extern const ig_weight_row ig_weights_gated_biases[]; /* biases of gated FFNs; */
extern const ig_weight_row ig_weights_plain_biases[]; /* biases of other FFNs */
extern const ig_weight_row ig_weights_norm_biases[];  /* biases of the norms */
extern const ig_weight_row
    ig_weights_rope[]; /* frequency factors, also for long and short contexts */

/* offsetof, for tables. */
#define IG_LM(member)    offsetof(ig_lm, member)
#define IG_LAYER(member) offsetof(ig_lm_layer, member)

/* Checks that all required weights exist with the right shapes, and no unknown ones. The error
 * names architecture and tensor. */
IG_MUST_CHECK ig_status ig_weights_check(const ig_keys *keys, const ig_arch *arch,
                                         const ig_hparams *hyper);

/* The weights in a context. `retain` and `release` are called with `owner` for each tensor on the
 * mapped file, which must stay mapped as long as one exists. */
typedef struct ig_weights_owner {
    void (*retain)(void *owner);
    void (*release)(void *owner);
    void *owner;
} ig_weights_owner;
IG_MUST_CHECK ig_status ig_lm_create(ig_ctx *ctx, const ig_keys *keys, const ig_arch *arch,
                                     const ig_hparams *hyper, ig_weights_owner owner, ig_lm **out);
void ig_lm_destroy(ig_ctx *ctx, const ig_arch *arch, ig_lm *lm);

/* ---- Parts of forward passes ---- */

/* x [..., in] times the transposed weight [out, in], plus the bias unless NULL. */
ig_tensor *ig_lm_linear(ig_tensor *x, ig_tensor *weight, ig_tensor *bias);

/* Q, K and V of a layer by head, [b, t, h, d]; from one fused weight or three. */
typedef struct ig_lm_qkv {
    ig_tensor *q, *k, *v;
} ig_lm_qkv;
ig_lm_qkv ig_lm_project(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x);

/* RoPE with the frequency factors of this context length. */
ig_tensor *ig_lm_rope(const ig_lm *m, const ig_ubatch *rows, const ig_rope_options *rope,
                      ig_tensor *x);

/* MLA of layer i on x, already normalized, before the output projection (mla.c). */
ig_tensor *ig_lm_attend_mla(const ig_lm *m, int64_t i, const ig_ubatch *rows, ig_tensor *x);

/* The complete decoder: hidden states after the final norm. A layer has pre- and post-norms if it
 * has weights for them. */
typedef ig_tensor *ig_lm_feed_forward(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x);
ig_tensor *ig_lm_forward(const ig_lm *m, const ig_ubatch *rows, ig_lm_feed_forward *feed_forward);

/* hidden() of most architectures. FFNs are down(act(gate(x)) * up(x)) with SiLU or GELU, or MoE;
 * clamped as in gpt-oss; or down(gelu(up(x))). */
ig_tensor *ig_lm_forward_swiglu(void *model, const ig_ubatch *rows);
ig_tensor *ig_lm_forward_geglu(void *model, const ig_ubatch *rows);
ig_tensor *ig_lm_forward_clamped_swiglu(void *model, const ig_ubatch *rows);
ig_tensor *ig_lm_forward_gelu(void *model, const ig_ubatch *rows);

/* Hidden states to logits, by the output matrix or the tied embedding. */
ig_tensor *ig_lm_head(void *model, ig_tensor *hidden);

#endif
