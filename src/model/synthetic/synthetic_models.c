/*
 * A model is a row of sizes and a set of features; its tensors are the rows of one table that match
 * its architecture and features.
 */
#include "model/synthetic/synthetic_models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/random.h"
#include "format/gguf/gguf.h"
#include "format/quantize/quantize.h"
#include "model/synthetic/synthetic_vocab.h"

enum {
    EMBEDDING = 256,
    FEED_FORWARD = 512,
    HEADS = 8,
    KV_HEADS = 2,
    EXPERTS = MODEL_EXPERTS,
    EXPERTS_USED = 2,
    EXPERT_FEED_FORWARD = 256,
    TOKEN_TYPES = 2,
    WINDOW = 16,
    QUERY_RANK = 256, /* MLA ranks */
    LATENT_RANK = 256,
    UNTURNED = 64,
    MAX_TENSORS = 128,
    KEY_BYTES = 96,
    PATH_BYTES = 512,
};

/* ---- Sizes ---- */

typedef enum size_name {
    NONE,
    EMBD,  /* d_model */
    VOCAB, /* vocabulary size */
    FF,    /* feed-forward hidden size */
    FF2,   /* fused gate and up */
    Q,
    KV,
    QKV,       /* n_heads times head_dim */
    HEAD,      /* head_dim */
    ROTATIONS, /* half of head_dim */
    POSITIONS, /* context length */
    TYPES,     /* token types */
    N_EXPERTS,
    EXPERT_FF,
    N_HEADS,
    LOW_Q,   /* q_lora_rank */
    LOW_KV,  /* kv_lora_rank */
    LOW_ROW, /* kv_lora_rank + rotary dimensions */
    LATENT_Q,
    LATENT_KV,
    STILL, /* head dimensions without RoPE */
    N_SIZES,
} size_name;

typedef struct model {
    const char *name, *arch, *pre; /* `pre`: of a BPE vocabulary; "": SPM; NULL: WordPiece */
    int layers, head_size, kv_heads;
    double rope_base;
    bool rms; /* RMSNorm and RoPE */
    unsigned features;
} model;

/* Features that select tensors and keys. */
enum {
    OUTPUT = 1 << 0, /* not tied to the embedding */
    ROPE_FREQS = 1 << 1,
    SEPARATE = 1 << 2, /* split q, k, v */
    TOGETHER = 1 << 3, /* fused QKV */
    QKV_BIAS = 1 << 4, /* of q, k and v */
    QK_NORM = 1 << 5,
    GATED = 1 << 6,       /* feed-forward with gate, up and down */
    GATE_UP = 1 << 7,     /* fused gate and up */
    EXPERT = 1 << 8,      /* MoE */
    POST_NORM = 1 << 9,   /* gemma's post-norms */
    PRE_NORM = 1 << 10,   /* pre-norms and the final norm */
    BIASES = 1 << 11,     /* everywhere: gpt2 and bert */
    LEARNT = 1 << 12,     /* learned positions */
    BERT = 1 << 13,       /* token types, post-norm */
    PLAIN = 1 << 14,      /* ungated feed-forward: up, down */
    KEY_LENGTH = 1 << 15, /* writes head_dim as a key */
    NORM_BIAS = 1 << 16,  /* LayerNorm with biases */
    ONE_NORM = 1 << 17,   /* parallel residual with one norm */
    ROW_NORM = 1 << 18,   /* QK norm over all heads at once */
    LARGE = 1 << 19,      /* experts have the feed-forward hidden size */
    SHARED = 1 << 20,     /* shared expert */
    SHARED_GATE = 1 << 21,
    OUTPUT_BIAS = 1 << 22,
    PARTLY = 1 << 23,        /* partial RoPE: half of a head */
    EXPERT_BIASES = 1 << 24, /* of experts and router */
    SINKS = 1 << 25,
    WINDOWED = 1 << 26,    /* some layers have a sliding window */
    LATE_NORM = 1 << 27,   /* the pre-FFN norm has another name */
    STRETCHED = 1 << 28,   /* YaRN */
    DENSE_FIRST = 1 << 29, /* the first layer is dense */
    LATENT = 1 << 30,      /* MLA */
};

static const model models[] = {
    {"llama", "llama", "", 2, 32, KV_HEADS, 10000, true, OUTPUT | SEPARATE | GATED | PRE_NORM},
    {"llama-tied", "llama", "llama-bpe", 2, 32, KV_HEADS, 500000, true,
     ROPE_FREQS | SEPARATE | GATED | PRE_NORM},
    {"mistral", "llama", "", 2, 64, KV_HEADS, 1000000, true,
     OUTPUT | SEPARATE | GATED | PRE_NORM | KEY_LENGTH},
    {"qwen2", "qwen2", "qwen2", 2, 32, KV_HEADS, 1000000, true,
     SEPARATE | QKV_BIAS | GATED | PRE_NORM},
    {"qwen3", "qwen3", "qwen2", 2, 64, KV_HEADS, 1000000, true,
     SEPARATE | QK_NORM | GATED | PRE_NORM | KEY_LENGTH},
    {"qwen3moe", "qwen3moe", "qwen2", 2, 32, KV_HEADS, 1000000, true,
     OUTPUT | SEPARATE | QK_NORM | EXPERT | PRE_NORM | KEY_LENGTH},
    {"gemma3", "gemma3", "", 6, 64, KV_HEADS, 1000000, true,
     SEPARATE | QK_NORM | GATED | PRE_NORM | POST_NORM | KEY_LENGTH},
    {"phi3", "phi3", "", 2, 32, HEADS, 10000, true, OUTPUT | TOGETHER | GATE_UP | PRE_NORM},
    {"gpt2", "gpt2", "gpt-2", 2, 32, HEADS, 0, false,
     TOGETHER | PLAIN | PRE_NORM | NORM_BIAS | BIASES | LEARNT},
    {"bert", "bert", NULL, 2, 32, HEADS, 0, false,
     SEPARATE | QKV_BIAS | PLAIN | BIASES | LEARNT | BERT},
    {"mixtral", "llama", "", 2, 32, KV_HEADS, 1000000, true,
     OUTPUT | SEPARATE | EXPERT | LARGE | PRE_NORM},
    {"fused", "llama", "", 2, 32, KV_HEADS, 10000, true, OUTPUT | TOGETHER | GATED | PRE_NORM},
    {"internlm2", "internlm2", "", 2, 32, KV_HEADS, 1000000, true,
     OUTPUT | SEPARATE | GATED | PRE_NORM},
    {"smollm3", "smollm3", "llama-bpe", 4, 32, KV_HEADS, 5000000, true,
     SEPARATE | GATED | PRE_NORM},
    {"granite", "granite", "gpt-2", 2, 32, KV_HEADS, 10000, true, SEPARATE | GATED | PRE_NORM},
    {"granitemoe", "granitemoe", "gpt-2", 2, 32, KV_HEADS, 10000, true,
     SEPARATE | EXPERT | LARGE | SHARED | PRE_NORM},
    {"qwen2moe", "qwen2moe", "qwen2", 2, 32, KV_HEADS, 1000000, true,
     OUTPUT | SEPARATE | QKV_BIAS | EXPERT | SHARED | SHARED_GATE | PRE_NORM},
    {"gemma", "gemma", "", 2, 64, 1, 10000, true, SEPARATE | GATED | PRE_NORM | KEY_LENGTH},
    {"gemma2", "gemma2", "", 4, 64, KV_HEADS, 10000, true,
     SEPARATE | GATED | PRE_NORM | POST_NORM | KEY_LENGTH},
    {"olmo2", "olmo2", "gpt-2", 2, 32, HEADS, 500000, true,
     OUTPUT | SEPARATE | ROW_NORM | GATED | POST_NORM},
    {"olmoe", "olmoe", "gpt-2", 2, 32, HEADS, 10000, true,
     OUTPUT | SEPARATE | ROW_NORM | EXPERT | LARGE | PRE_NORM},
    {"phi2", "phi2", "gpt-2", 2, 32, HEADS, 10000, false,
     OUTPUT | OUTPUT_BIAS | TOGETHER | PLAIN | PRE_NORM | NORM_BIAS | ONE_NORM | BIASES | PARTLY},
    {"stablelm", "stablelm", "gpt-2", 2, 32, HEADS, 10000, false,
     OUTPUT | SEPARATE | QKV_BIAS | GATED | PRE_NORM | NORM_BIAS | PARTLY},
    {"command-r", "command-r", "gpt-2", 2, 32, HEADS, 8000000, false,
     SEPARATE | GATED | PRE_NORM | ONE_NORM},
    {"cohere2", "cohere2", "gpt-2", 4, 32, KV_HEADS, 50000, false,
     SEPARATE | GATED | PRE_NORM | ONE_NORM | WINDOWED},
    {"ernie4_5", "ernie4_5", "", 2, 32, KV_HEADS, 500000, true, SEPARATE | GATED | PRE_NORM},
    {"exaone", "exaone", "gpt-2", 2, 32, KV_HEADS, 500000, true,
     ROPE_FREQS | SEPARATE | GATED | PRE_NORM},
    {"arcee", "arcee", "llama-bpe", 2, 32, KV_HEADS, 10000, true, SEPARATE | PLAIN | PRE_NORM},
    {"minicpm", "minicpm", "", 2, 32, KV_HEADS, 10000, true, SEPARATE | GATED | PRE_NORM},
    {"glm4", "glm4", "gpt-2", 2, 32, KV_HEADS, 10000, true,
     OUTPUT | SEPARATE | QKV_BIAS | GATE_UP | PRE_NORM | POST_NORM | PARTLY},
    {"orion", "orion", "", 2, 32, HEADS, 10000, false,
     OUTPUT | SEPARATE | GATED | PRE_NORM | NORM_BIAS},
    {"nemotron", "nemotron", "gpt-2", 2, 32, KV_HEADS, 10000, false,
     OUTPUT | SEPARATE | PLAIN | PRE_NORM | NORM_BIAS | PARTLY},
    {"falcon", "falcon", "gpt-2", 2, 32, 1, 10000, false,
     TOGETHER | PLAIN | PRE_NORM | NORM_BIAS | ONE_NORM},
    {"gptneox", "gptneox", "gpt-2", 2, 32, HEADS, 10000, false,
     OUTPUT | TOGETHER | PLAIN | PRE_NORM | NORM_BIAS | BIASES | PARTLY},
    {"starcoder2", "starcoder2", "gpt-2", 2, 32, KV_HEADS, 100000, false,
     SEPARATE | QKV_BIAS | PLAIN | PRE_NORM | NORM_BIAS | BIASES},
    {"gpt-oss", "gpt-oss", "gpt-4o", 4, 64, KV_HEADS, 150000, true,
     OUTPUT | SEPARATE | QKV_BIAS | EXPERT | PRE_NORM | KEY_LENGTH | EXPERT_BIASES | SINKS |
         WINDOWED | LATE_NORM | STRETCHED},
    {"deepseek", "deepseek", "gpt-2", 3, 32, HEADS, 10000, true,
     OUTPUT | SEPARATE | EXPERT | SHARED | PRE_NORM | DENSE_FIRST},
    {"deepseek2", "deepseek2", "gpt-2", 3, 32, 1, 10000, true,
     OUTPUT | EXPERT | SHARED | PRE_NORM | DENSE_FIRST | LATENT},
    {"deepseek2-made", "deepseek2", "gpt-2", 2, 32, HEADS, 10000, true,
     OUTPUT | EXPERT | SHARED | PRE_NORM | DENSE_FIRST | LATENT | STRETCHED},
    {"dots1", "dots1", "gpt-2", 3, 32, HEADS, 10000, true,
     OUTPUT | SEPARATE | QK_NORM | EXPERT | SHARED | PRE_NORM | DENSE_FIRST},
    {"bailingmoe2", "bailingmoe2", "gpt-2", 3, 32, KV_HEADS, 600000, true,
     OUTPUT | TOGETHER | QK_NORM | EXPERT | SHARED | PRE_NORM | DENSE_FIRST | PARTLY},
    {"glm4moe", "glm4moe", "gpt-2", 3, 32, KV_HEADS, 1000000, true,
     OUTPUT | SEPARATE | QKV_BIAS | QK_NORM | EXPERT | SHARED | PRE_NORM | LATE_NORM | PARTLY |
         DENSE_FIRST},
    {"olmo3", "olmo2", "gpt-2", 4, 32, HEADS, 500000, true,
     OUTPUT | SEPARATE | ROW_NORM | GATED | POST_NORM | WINDOWED | STRETCHED},
    {"exaone4", "exaone4", "gpt-2", 2, 32, KV_HEADS, 1000000, true,
     ROPE_FREQS | SEPARATE | QK_NORM | GATED | POST_NORM},
    {"seed_oss", "seed_oss", "gpt-2", 2, 64, KV_HEADS, 10000000, true,
     OUTPUT | SEPARATE | QKV_BIAS | GATED | PRE_NORM | LATE_NORM | KEY_LENGTH},
    {"hunyuan-dense", "hunyuan-dense", "gpt-2", 2, 64, KV_HEADS, 10000, true,
     SEPARATE | QK_NORM | GATED | PRE_NORM | KEY_LENGTH},
    {"hunyuan-moe", "hunyuan-moe", "gpt-2", 2, 32, KV_HEADS, 10000, true,
     SEPARATE | QK_NORM | EXPERT | LARGE | SHARED | PRE_NORM},
};
enum { N_MODELS = sizeof models / sizeof *models, N_KINDS = 10 };

const char *model_name(size_t i) { return i < N_KINDS ? models[i].name : NULL; }
const char *model_relative(size_t i) {
    return i < N_MODELS - N_KINDS ? models[N_KINDS + i].name : NULL;
}

bool model_is_known(const char *name) {
    for (int i = 0; i < N_MODELS; i++)
        if (strcmp(models[i].name, name) == 0) return true;
    return false;
}

static void sizes_of(const model *m, int64_t out[N_SIZES]) {
    const int64_t q = (int64_t)HEADS * m->head_size, kv = (int64_t)m->kv_heads * m->head_size;
    const int64_t sizes[N_SIZES] = {
        [EMBD] = EMBEDDING,
        [VOCAB] = MODEL_TOKENS,
        [FF] = FEED_FORWARD,
        [FF2] = 2 * FEED_FORWARD,
        [Q] = q,
        [KV] = kv,
        [QKV] = q + 2 * kv,
        [HEAD] = m->head_size,
        [ROTATIONS] = m->head_size / 2,
        [POSITIONS] = MODEL_CONTEXT,
        [TYPES] = TOKEN_TYPES,
        [N_EXPERTS] = EXPERTS,
        [N_HEADS] = HEADS,
        [LOW_Q] = QUERY_RANK,
        [LOW_KV] = LATENT_RANK,
        [LOW_ROW] = LATENT_RANK + m->head_size,
        [LATENT_Q] = (int64_t)HEADS * (UNTURNED + m->head_size),
        [LATENT_KV] = (int64_t)HEADS * (UNTURNED + m->head_size),
        [STILL] = UNTURNED,
        [EXPERT_FF] = EXPERT_FEED_FORWARD,
    };
    memcpy(out, sizes, sizeof sizes);
}

/* ---- Tensors ---- */

typedef enum tensor_kind {
    MATRIX, /* of the requested dtype, random with mean 0 and variance 1 / columns */
    TABLE,  /* the same, always F32 */
    GAIN,   /* near 1 */
    BIAS,   /* small */
    SINK,   /* of the size of attention scores */
    REACH,  /* larger than the clamp limit */
} tensor_kind;

typedef struct tensor_row {
    unsigned features; /* the model has all of these, */
    unsigned unless;   /* and none of these */
    const char *name;  /* "blk." stands for every layer */
    tensor_kind kind;
    size_name shape[3]; /* outermost first */
} tensor_row;

static const tensor_row rows[] = {
    {0, 0, "token_embd.weight", MATRIX, {VOCAB, EMBD}},
    {BERT, 0, "token_types.weight", TABLE, {TYPES, EMBD}},
    {LEARNT, 0, "position_embd.weight", TABLE, {POSITIONS, EMBD}},
    {BERT, 0, "token_embd_norm.weight", GAIN, {EMBD}},
    {BERT, 0, "token_embd_norm.bias", BIAS, {EMBD}},
    {ROPE_FREQS, 0, "rope_freqs.weight", GAIN, {ROTATIONS}},
    {PRE_NORM, 0, "blk.attn_norm.weight", GAIN, {EMBD}},
    {NORM_BIAS, 0, "blk.attn_norm.bias", BIAS, {EMBD}},
    {SEPARATE, 0, "blk.attn_q.weight", MATRIX, {Q, EMBD}},
    {SEPARATE, 0, "blk.attn_k.weight", MATRIX, {KV, EMBD}},
    {SEPARATE, 0, "blk.attn_v.weight", MATRIX, {KV, EMBD}},
    {QKV_BIAS, 0, "blk.attn_q.bias", BIAS, {Q}},
    {QKV_BIAS, 0, "blk.attn_k.bias", BIAS, {KV}},
    {QKV_BIAS, 0, "blk.attn_v.bias", BIAS, {KV}},
    {TOGETHER, 0, "blk.attn_qkv.weight", MATRIX, {QKV, EMBD}},
    {TOGETHER | BIASES, 0, "blk.attn_qkv.bias", BIAS, {QKV}},
    {LATENT, 0, "blk.attn_q_a.weight", MATRIX, {LOW_Q, EMBD}},
    {LATENT, 0, "blk.attn_q_a_norm.weight", GAIN, {LOW_Q}},
    {LATENT, 0, "blk.attn_q_b.weight", MATRIX, {LATENT_Q, LOW_Q}},
    {LATENT, 0, "blk.attn_kv_a_mqa.weight", MATRIX, {LOW_ROW, EMBD}},
    {LATENT, 0, "blk.attn_kv_a_norm.weight", GAIN, {LOW_KV}},
    {LATENT | STRETCHED, 0, "blk.attn_kv_b.weight", MATRIX, {LATENT_KV, LOW_KV}},
    {LATENT, STRETCHED, "blk.attn_k_b.weight", TABLE, {N_HEADS, LOW_KV, STILL}},
    {LATENT, STRETCHED, "blk.attn_v_b.weight", MATRIX, {N_HEADS, HEAD, LOW_KV}},
    {QK_NORM, 0, "blk.attn_q_norm.weight", GAIN, {HEAD}},
    {QK_NORM, 0, "blk.attn_k_norm.weight", GAIN, {HEAD}},
    {ROW_NORM, 0, "blk.attn_q_norm.weight", GAIN, {Q}},
    {ROW_NORM, 0, "blk.attn_k_norm.weight", GAIN, {KV}},
    {0, 0, "blk.attn_output.weight", MATRIX, {EMBD, Q}},
    {BIASES, 0, "blk.attn_output.bias", BIAS, {EMBD}},
    {SINKS, 0, "blk.attn_output.bias", BIAS, {EMBD}},
    {SINKS, 0, "blk.attn_sinks.weight", SINK, {N_HEADS}},
    {BERT, 0, "blk.attn_output_norm.weight", GAIN, {EMBD}},
    {BERT, 0, "blk.attn_output_norm.bias", BIAS, {EMBD}},
    {POST_NORM, 0, "blk.post_attention_norm.weight", GAIN, {EMBD}},
    {LATE_NORM, 0, "blk.post_attention_norm.weight", GAIN, {EMBD}},
    {PRE_NORM, ONE_NORM | LATE_NORM, "blk.ffn_norm.weight", GAIN, {EMBD}},
    {NORM_BIAS, ONE_NORM, "blk.ffn_norm.bias", BIAS, {EMBD}},
    {GATED, 0, "blk.ffn_gate.weight", MATRIX, {FF, EMBD}},
    {GATED, 0, "blk.ffn_up.weight", MATRIX, {FF, EMBD}},
    {GATE_UP, 0, "blk.ffn_up.weight", MATRIX, {FF2, EMBD}},
    {PLAIN, 0, "blk.ffn_up.weight", MATRIX, {FF, EMBD}},
    {BIASES, 0, "blk.ffn_up.bias", BIAS, {FF}},
    {0, EXPERT, "blk.ffn_down.weight", MATRIX, {EMBD, FF}},
    {BIASES, 0, "blk.ffn_down.bias", BIAS, {EMBD}},
    {EXPERT, 0, "blk.ffn_gate_inp.weight", TABLE, {N_EXPERTS, EMBD}},
    {EXPERT, LARGE, "blk.ffn_gate_exps.weight", MATRIX, {N_EXPERTS, EXPERT_FF, EMBD}},
    {EXPERT, LARGE, "blk.ffn_up_exps.weight", MATRIX, {N_EXPERTS, EXPERT_FF, EMBD}},
    {EXPERT, LARGE, "blk.ffn_down_exps.weight", MATRIX, {N_EXPERTS, EMBD, EXPERT_FF}},
    {LARGE, 0, "blk.ffn_gate_exps.weight", MATRIX, {N_EXPERTS, FF, EMBD}},
    {LARGE, 0, "blk.ffn_up_exps.weight", MATRIX, {N_EXPERTS, FF, EMBD}},
    {LARGE, 0, "blk.ffn_down_exps.weight", MATRIX, {N_EXPERTS, EMBD, FF}},
    {EXPERT_BIASES, 0, "blk.ffn_gate_inp.bias", BIAS, {N_EXPERTS}},
    {EXPERT_BIASES, 0, "blk.ffn_gate_exps.bias", REACH, {N_EXPERTS, EXPERT_FF}},
    {EXPERT_BIASES, 0, "blk.ffn_up_exps.bias", REACH, {N_EXPERTS, EXPERT_FF}},
    {EXPERT_BIASES, 0, "blk.ffn_down_exps.bias", BIAS, {N_EXPERTS, EMBD}},
    {DENSE_FIRST | EXPERT | LATENT, 0, "blk.exp_probs_b.bias", BIAS, {N_EXPERTS}},
    {DENSE_FIRST | EXPERT | QK_NORM, 0, "blk.exp_probs_b.bias", BIAS, {N_EXPERTS}},
    {SHARED_GATE, 0, "blk.ffn_gate_inp_shexp.weight", TABLE, {EMBD}},
    {SHARED, 0, "blk.ffn_gate_shexp.weight", MATRIX, {EXPERT_FF, EMBD}},
    {SHARED, 0, "blk.ffn_up_shexp.weight", MATRIX, {EXPERT_FF, EMBD}},
    {SHARED, 0, "blk.ffn_down_shexp.weight", MATRIX, {EMBD, EXPERT_FF}},
    {POST_NORM, 0, "blk.post_ffw_norm.weight", GAIN, {EMBD}},
    {BERT, 0, "blk.layer_output_norm.weight", GAIN, {EMBD}},
    {BERT, 0, "blk.layer_output_norm.bias", BIAS, {EMBD}},
    {PRE_NORM, 0, "output_norm.weight", GAIN, {EMBD}},
    {POST_NORM, PRE_NORM, "output_norm.weight", GAIN, {EMBD}},
    {NORM_BIAS, 0, "output_norm.bias", BIAS, {EMBD}},
    {OUTPUT, 0, "output.weight", MATRIX, {VOCAB, EMBD}},
    {OUTPUT_BIAS, 0, "output.bias", BIAS, {VOCAB}},
};

typedef struct tensor {
    char name[64];
    tensor_kind kind;
    ig_desc desc;
} tensor;

static tensor make_tensor(const tensor_row *row, const int64_t sizes[N_SIZES], int layer,
                          ig_dtype type) {
    tensor t = {.kind = row->kind, .desc = {row->kind == MATRIX ? type : IG_F32, {0}}};
    const bool in_layer = strncmp(row->name, "blk.", 4) == 0;
    if (in_layer)
        snprintf(t.name, sizeof t.name, "blk.%d.%s", layer, row->name + 4);
    else
        snprintf(t.name, sizeof t.name, "%s", row->name);
    for (int d = 0; d < 3 && row->shape[d] != NONE; d++)
        t.desc.shape.dim[t.desc.shape.rank++] = sizes[row->shape[d]];
    return t;
}

static unsigned features_of(const model *m, int layer) {
    const unsigned of_experts = EXPERT | LARGE | SHARED | SHARED_GATE;
    return m->features & DENSE_FIRST && layer == 0 ? (m->features & ~of_experts) | GATED
                                                   : m->features;
}

/* Lists all tensors of a model, layer by layer. */
static int list_tensors(const model *m, ig_dtype type, tensor out[MAX_TENSORS]) {
    int64_t sizes[N_SIZES];
    sizes_of(m, sizes);
    int count = 0;
    const size_t n_rows = sizeof rows / sizeof *rows;
    for (size_t r = 0; r < n_rows;) {
        const bool in_layer = strncmp(rows[r].name, "blk.", 4) == 0;
        size_t end = r + 1;
        while (in_layer && strncmp(rows[end].name, "blk.", 4) == 0) end++;
        for (int layer = 0; layer < (in_layer ? m->layers : 1); layer++)
            for (size_t i = r; i < end; i++)
                if ((rows[i].features & ~features_of(m, layer)) == 0 &&
                    (rows[i].unless & features_of(m, layer)) == 0)
                    out[count++] = make_tensor(&rows[i], sizes, layer, type);
        r = end;
    }
    return count;
}

/* Pseudo-random element i of tensor `ordinal`, in [-1, 1]. */
static float draw(int ordinal, uint64_t i) {
    const uint32_t seed[2] = {20261, 115};
    return (float)(ig_random_bits(seed, 0, (uint32_t)ordinal, i) >> 8) * 0x1p-23f - 1;
}

/* Uniform in [-1, 1]: variance 1/3. */
static void fill(const tensor *t, int ordinal, float *out) {
    const int64_t n = ig_shape_count(t->desc.shape);
    const int64_t columns = t->desc.shape.dim[t->desc.shape.rank - 1];
    static const float spreads[] = {[GAIN] = 0.1f, [BIAS] = 0.1f, [SINK] = 3, [REACH] = 10};
    const bool drawn = t->kind == MATRIX || t->kind == TABLE;
    const float spread = drawn ? sqrtf(3 / (float)columns) : spreads[t->kind];
    const float middle = t->kind == GAIN ? 1 : 0;
    for (int64_t i = 0; i < n; i++) out[i] = middle + spread * draw(ordinal, (uint64_t)i);
}

/* ---- Keys ---- */

typedef struct keys {
    ig_gguf_writer *w;
    const char *arch;
    char name[KEY_BYTES];
} keys;

static const char *key(keys *k, const char *name) {
    snprintf(k->name, sizeof k->name, "%s.%s", k->arch, name);
    return k->name;
}

static void put_sizes(keys *k, const model *m) {
    ig_gguf_writer_u32(k->w, key(k, "context_length"), MODEL_CONTEXT);
    ig_gguf_writer_u32(k->w, key(k, "embedding_length"), EMBEDDING);
    ig_gguf_writer_u32(k->w, key(k, "block_count"), (uint32_t)m->layers);
    ig_gguf_writer_u32(k->w, key(k, "feed_forward_length"), FEED_FORWARD);
    ig_gguf_writer_u32(k->w, key(k, "attention.head_count"), HEADS);
    if (!(m->features & BERT))
        ig_gguf_writer_u32(k->w, key(k, "attention.head_count_kv"), (uint32_t)m->kv_heads);
    if (m->features & KEY_LENGTH) {
        ig_gguf_writer_u32(k->w, key(k, "attention.key_length"), (uint32_t)m->head_size);
        ig_gguf_writer_u32(k->w, key(k, "attention.value_length"), (uint32_t)m->head_size);
    }
    ig_gguf_writer_f32(
        k->w, key(k, m->rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"),
        1e-5f);
    if (m->rope_base > 0) {
        ig_gguf_writer_u32(k->w, key(k, "rope.dimension_count"),
                           (uint32_t)m->head_size / (m->features & PARTLY ? 2 : 1));
        ig_gguf_writer_f32(k->w, key(k, "rope.freq_base"), (float)m->rope_base);
    }
}

static void put_experts(keys *k, const model *m) {
    if (!(m->features & EXPERT)) return;
    ig_gguf_writer_u32(k->w, key(k, "expert_count"), EXPERTS);
    ig_gguf_writer_u32(k->w, key(k, "expert_used_count"), EXPERTS_USED);
    if (!(m->features & LARGE))
        ig_gguf_writer_u32(k->w, key(k, "expert_feed_forward_length"), EXPERT_FEED_FORWARD);
    else if (m->features & QK_NORM)
        ig_gguf_writer_u32(k->w, key(k, "expert_feed_forward_length"), FEED_FORWARD);
    if (m->features & DENSE_FIRST) {
        ig_gguf_writer_u32(k->w, key(k, "leading_dense_block_count"), 1);
        ig_gguf_writer_u32(k->w, key(k, "expert_shared_count"), 1);
        ig_gguf_writer_f32(k->w, key(k, "expert_weights_scale"), 1.5f);
    } else if (m->features & SHARED) {
        ig_gguf_writer_u32(k->w, key(k, "expert_shared_feed_forward_length"), EXPERT_FEED_FORWARD);
    }
    if (m->features & DENSE_FIRST && m->features & (LATENT | QK_NORM)) {
        ig_gguf_writer_u32(k->w, key(k, "expert_gating_func"), 2);
        ig_gguf_writer_bool(k->w, key(k, "expert_weights_norm"), true);
    }
}

/* MLA keys: of a file with expanded keys and values (YaRN), or for absorbed MLA. */
static void put_latent(keys *k, const model *m) {
    const bool made = m->features & STRETCHED;
    const uint32_t key_width = UNTURNED + (uint32_t)m->head_size;
    const uint32_t row = LATENT_RANK + (uint32_t)m->head_size;
    if (!(m->features & LATENT)) return;
    ig_gguf_writer_u32(k->w, key(k, "attention.q_lora_rank"), QUERY_RANK);
    ig_gguf_writer_u32(k->w, key(k, "attention.kv_lora_rank"), LATENT_RANK);
    ig_gguf_writer_u32(k->w, key(k, "attention.key_length"), made ? key_width : row);
    ig_gguf_writer_u32(k->w, key(k, "attention.value_length"),
                       made ? (uint32_t)m->head_size : LATENT_RANK);
    if (made) {
        ig_gguf_writer_f32(k->w, key(k, "rope.scaling.yarn_log_multiplier"), 0.0707f);
        return;
    }
    ig_gguf_writer_u32(k->w, key(k, "attention.key_length_mla"), key_width);
    ig_gguf_writer_u32(k->w, key(k, "attention.value_length_mla"), (uint32_t)m->head_size);
    ig_gguf_writer_u32(k->w, key(k, "expert_group_count"), 2);
    ig_gguf_writer_u32(k->w, key(k, "expert_group_used_count"), 1);
}

/* Scales and softcaps of single architectures, far enough from 1 to change the output. */
static const struct {
    const char *arch, *name;
    float value;
} own_numbers[] = {
    {"granite", "logit_scale", 4},           {"granite", "embedding_scale", 3},
    {"granite", "residual_scale", 0.5f},     {"granite", "attention.scale", 0.125f},
    {"granitemoe", "logit_scale", 4},        {"granitemoe", "embedding_scale", 3},
    {"granitemoe", "residual_scale", 0.5f},  {"granitemoe", "attention.scale", 0.125f},
    {"gemma2", "attn_logit_softcapping", 2}, {"gemma2", "final_logit_softcapping", 3},
    {"command-r", "logit_scale", 0.25f},     {"cohere2", "logit_scale", 0.25f},
};

static void put_special(keys *k, const model *m) {
    const unsigned both = PRE_NORM | POST_NORM;
    if (strcmp(m->arch, "llama") == 0) ig_gguf_writer_u32(k->w, key(k, "vocab_size"), MODEL_TOKENS);
    put_experts(k, m);
    put_latent(k, m);
    for (size_t i = 0; i < sizeof own_numbers / sizeof *own_numbers; i++)
        if (strcmp(m->arch, own_numbers[i].arch) == 0)
            ig_gguf_writer_f32(k->w, key(k, own_numbers[i].name), own_numbers[i].value);
    if (strcmp(m->arch, "gptneox") == 0)
        ig_gguf_writer_bool(k->w, key(k, "use_parallel_residual"), true);
    if (((m->features & both) == both && !(m->features & GATE_UP)) || m->features & WINDOWED)
        ig_gguf_writer_u32(k->w, key(k, "attention.sliding_window"), WINDOW);
    if (strcmp(m->arch, "phi3") == 0)
        ig_gguf_writer_u32(k->w, key(k, "rope.scaling.original_context_length"), MODEL_CONTEXT);
    if (m->features & STRETCHED) {
        ig_gguf_writer_text(k->w, key(k, "rope.scaling.type"), "yarn");
        ig_gguf_writer_f32(k->w, key(k, "rope.scaling.factor"), 32);
        ig_gguf_writer_u32(k->w, key(k, "rope.scaling.original_context_length"), MODEL_CONTEXT);
    }
    if (m->features & BERT) {
        ig_gguf_writer_bool(k->w, key(k, "attention.causal"), false);
        ig_gguf_writer_u32(k->w, key(k, "pooling_type"), 1);
    }
}

static void put_keys(ig_gguf_writer *w, const model *m) {
    keys k = {.w = w, .arch = m->arch};
    ig_gguf_writer_text(w, "general.architecture", m->arch);
    ig_gguf_writer_text(w, "general.name", "small"); /* loaders treat some names specially */
    put_sizes(&k, m);
    put_special(&k, m);
    if (!m->pre)
        vocab_wordpiece(w);
    else if (*m->pre)
        vocab_bpe(w, m->pre);
    else
        vocab_spm(w);
}

/* ---- The whole ---- */

static ig_status put_data(const ig_gguf_writer *w, const tensor *tensors, int count,
                          uint8_t *file) {
    for (int i = 0; i < count; i++) {
        const int64_t n = ig_shape_count(tensors[i].desc.shape);
        float *numbers = malloc((size_t)n * sizeof *numbers);
        if (!numbers) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory", tensors[i].name);
        fill(&tensors[i], i, numbers);
        ig_quantize(tensors[i].desc.dtype, numbers, file + ig_gguf_writer_place(w, (size_t)i), n);
        free(numbers);
    }
    return IG_OK;
}

static ig_status encode(ig_gguf_writer *w, const model *m, ig_dtype type, model_bytes *out) {
    tensor tensors[MAX_TENSORS];
    const int count = list_tensors(m, type, tensors);
    put_keys(w, m);
    for (int i = 0; i < count; i++) ig_gguf_writer_tensor(w, tensors[i].name, tensors[i].desc);
    IG_TRY(ig_gguf_writer_finish(w));

    uint64_t head_bytes;
    const void *head = ig_gguf_writer_head(w, &head_bytes);
    const size_t size = (size_t)ig_gguf_writer_file_bytes(w);
    uint8_t *file = calloc(1, size);
    if (!file) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu bytes", m->name, size);
    memcpy(file, head, (size_t)head_bytes);
    const ig_status status = put_data(w, tensors, count, file);
    if (status == IG_OK)
        *out = (model_bytes){file, size};
    else
        free(file);
    return status;
}

ig_status model_make(const char *name, ig_dtype type, model_bytes *out) {
    for (int i = 0; i < N_MODELS; i++) {
        if (strcmp(models[i].name, name) != 0) continue;
        ig_gguf_writer *w = NULL;
        IG_TRY(ig_gguf_writer_create(&ig_heap, name, &w));
        const ig_status status = encode(w, &models[i], type, out);
        ig_gguf_writer_destroy(w);
        return status;
    }
    return IG_FAIL(IG_ERR_ARGUMENT, "%s: no such model", name);
}

/* Overwrites a value. A key is encoded as length, bytes and value type, followed by the value. */
static ig_status set_number(model_bytes *file, const char *key, uint32_t type, const void *value) {
    const uint64_t length = strlen(key);
    uint8_t head[sizeof length + KEY_BYTES + sizeof type];
    memcpy(head, &length, sizeof length);
    memcpy(head + sizeof length, key, (size_t)length);
    memcpy(head + sizeof length + length, &type, sizeof type);
    const size_t head_bytes = sizeof length + (size_t)length + sizeof type;
    uint8_t *at = memmem(file->bytes, file->size, head, head_bytes);
    if (!at) return IG_FAIL(IG_ERR_ARGUMENT, "no key %s of that type", key);
    memcpy(at + head_bytes, value, sizeof(uint32_t));
    return IG_OK;
}

ig_status model_set_u32(model_bytes *file, const char *key, uint32_t value) {
    return set_number(file, key, IG_GGUF_U32, &value);
}

ig_status model_set_f32(model_bytes *file, const char *key, float value) {
    return set_number(file, key, IG_GGUF_F32, &value);
}

/* Appends bytes. */
static void append(uint8_t *out, size_t *used, const void *bytes, size_t n) {
    memcpy(out + *used, bytes, n);
    *used += n;
}

static void append_text(uint8_t *out, size_t *used, const char *text, size_t length) {
    const uint64_t n = length;
    append(out, used, &n, sizeof n);
    append(out, used, text, length);
}

/* Appends an array of integers: [1,2]. */
static void append_array(uint8_t *out, size_t *used, const char *value) {
    const uint32_t types[] = {IG_GGUF_ARRAY, IG_GGUF_U32};
    uint64_t count = 1;
    for (const char *c = value; *c; c++) count += *c == ',';
    append(out, used, types, sizeof types);
    append(out, used, &count, sizeof count);
    for (char *end; count-- > 0; value = end) {
        const uint32_t number = (uint32_t)strtoul(value + 1, &end, 10); /* after '[' or ',' */
        append(out, used, &number, sizeof number);
    }
}

/* Appends a value in JSON spelling: true, false, 12, 1.5 or "text". */
static void append_value(uint8_t *out, size_t *used, const char *value) {
    const bool is_bool = strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    const uint32_t type = *value == '"'        ? IG_GGUF_STRING
                          : is_bool            ? IG_GGUF_BOOL
                          : strchr(value, '.') ? IG_GGUF_F32
                                               : IG_GGUF_U32;
    const uint32_t whole = (uint32_t)strtoul(value, NULL, 10);
    const float real = strtof(value, NULL);
    append(out, used, &type, sizeof type);
    if (type == IG_GGUF_STRING)
        append_text(out, used, value + 1, strlen(value) - 2);
    else if (type == IG_GGUF_BOOL)
        append(out, used, value[0] == 't' ? "\1" : "\0", 1);
    else
        append(out, used, type == IG_GGUF_F32 ? (const void *)&real : &whole, sizeof whole);
}

/* Inserts after the two counts, with a padding string that keeps the alignment of what follows. */
ig_status model_add(model_bytes *file, const char *key, const char *value) {
    enum { COUNTS = 24, KEYS_AT = 16, ALIGNMENT = 32, ROOM = 512 };
    static const char blank[ALIGNMENT] = "                               ";
    uint8_t added[ROOM];
    char filler[KEY_BYTES];
    size_t used = 0;
    append_text(added, &used, key, strlen(key));
    if (*value == '[')
        append_array(added, &used, value);
    else
        append_value(added, &used, value);
    snprintf(filler, sizeof filler, "filler.%s", key);
    const uint32_t text = IG_GGUF_STRING;
    append_text(added, &used, filler, strlen(filler));
    append(added, &used, &text, sizeof text);
    append_text(added, &used, blank,
                (2 * ALIGNMENT - (used + sizeof(uint64_t)) % ALIGNMENT) % ALIGNMENT);

    uint8_t *bytes = malloc(file->size + used);
    if (!bytes) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory", key);
    uint64_t count;
    memcpy(bytes, file->bytes, COUNTS);
    memcpy(bytes + COUNTS, added, used);
    memcpy(bytes + COUNTS + used, (const uint8_t *)file->bytes + COUNTS, file->size - COUNTS);
    memcpy(&count, bytes + KEYS_AT, sizeof count);
    count += 2;
    memcpy(bytes + KEYS_AT, &count, sizeof count);
    free(file->bytes);
    *file = (model_bytes){bytes, file->size + used};
    return IG_OK;
}

ig_status model_write(const model_bytes *file, const char *path) {
    ig_file_writer *to = NULL;
    ig_status status = ig_file_writer_create(&ig_heap, path, file->size, &to);
    if (status == IG_OK) status = ig_file_writer_write(to, 0, file->bytes, file->size);
    if (status == IG_OK) status = ig_file_writer_commit(to);
    ig_file_writer_destroy(to);
    return status;
}

/* ---- For all tests of a run ---- */

/* Stores the model; a failure is ignored: the next user creates it again. */
static void keep(const model_bytes *made, const char *kept) {
    char mine[PATH_BYTES + 16];
    snprintf(mine, sizeof mine, "%s.%d", kept, (int)getpid()); /* others may write it, too */
    if (model_write(made, mine) != IG_OK || rename(mine, kept) != 0) unlink(mine);
}

static ig_status make_and_write(const char *name, ig_dtype type, const char *kept,
                                const char *path) {
    model_bytes made;
    IG_TRY(model_make(name, type, &made));
    if (kept) keep(&made, kept);
    const ig_status status = model_write(&made, path);
    free(made.bytes);
    return status;
}

ig_status model_save(const char *name, ig_dtype type, const char *path) {
    const char *folder = getenv("INGOT_TEST_MODELS");
    if (!folder) return make_and_write(name, type, NULL, path);

    char kept[PATH_BYTES];
    ig_file_map map;
    const int length =
        snprintf(kept, sizeof kept, "%s/%s.%s.gguf", folder, name, ig_dtype_name(type));
    if (length >= (int)sizeof kept) return make_and_write(name, type, NULL, path);
    if (access(kept, R_OK) != 0) return make_and_write(name, type, kept, path);
    IG_TRY(ig_file_map_read(kept, (ig_file_watch){0}, &map));
    const ig_status status = model_write(&(model_bytes){(void *)map.bytes, (size_t)map.size}, path);
    ig_file_map_close(&map);
    return status;
}
