#include "hub.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/f16.h"
#include "base/quant_blocks.h"
#include "check.h"

/* ---- Tensors ---- */

typedef struct row {
    const char *name; /* with %d: of each layer */
    int64_t dim[2];   /* 0: a vector */
} row;

enum { D = HUB_D_MODEL, Q = HUB_HEADS * HUB_HEAD_DIM, KV = HUB_KV_HEADS * HUB_HEAD_DIM };
enum { FF = HUB_D_FF, V = HUB_VOCABULARY };

#define LAYER "model.layers.%d."
#define DECODER                                                                           \
    {"model.embed_tokens.weight", {V, D}}, {"model.norm.weight", {D}},                    \
        {LAYER "input_layernorm.weight", {D}}, {LAYER "self_attn.o_proj.weight", {D, Q}}, \
        {LAYER "post_attention_layernorm.weight", {D}}, {                                 \
        LAYER "mlp.down_proj.weight", { D, FF }                                           \
    }
#define SPLIT                                                                                  \
    {LAYER "self_attn.q_proj.weight", {Q, D}}, {LAYER "self_attn.k_proj.weight", {KV, D}},     \
        {LAYER "self_attn.v_proj.weight", {KV, D}}, {LAYER "mlp.gate_proj.weight", {FF, D}}, { \
        LAYER "mlp.up_proj.weight", { FF, D }                                                  \
    }
#define HEAD_NORMS                                        \
    {LAYER "self_attn.q_norm.weight", {HUB_HEAD_DIM}}, {  \
        LAYER "self_attn.k_norm.weight", { HUB_HEAD_DIM } \
    }

static const row llama[] = {DECODER, SPLIT, {"lm_head.weight", {V, D}}, {0}};
static const row qwen3[] = {DECODER, SPLIT, HEAD_NORMS, {0}}; /* tied */
static const row gemma3[] = {DECODER,
                             SPLIT,
                             HEAD_NORMS,
                             {LAYER "pre_feedforward_layernorm.weight", {D}},
                             {LAYER "post_feedforward_layernorm.weight", {D}},
                             {0}};
static const row phi3[] = {DECODER,
                           {LAYER "self_attn.qkv_proj.weight", {Q + 2 * KV, D}},
                           {LAYER "mlp.gate_up_proj.weight", {2 * FF, D}},
                           {"lm_head.weight", {V, D}},
                           {0}};
static const row gpt2[] = {
    {"transformer.wte.weight", {V, D}},
    {"transformer.wpe.weight", {HUB_CTX_LEN, D}},
    {"transformer.ln_f.weight", {D}},
    {"transformer.ln_f.bias", {D}},
    {"transformer.h.%d.ln_1.weight", {D}},
    {"transformer.h.%d.ln_1.bias", {D}},
    {"transformer.h.%d.attn.c_attn.weight", {D, 3 * D}},
    {"transformer.h.%d.attn.c_attn.bias", {3 * D}},
    {"transformer.h.%d.attn.c_proj.weight", {D, D}},
    {"transformer.h.%d.attn.c_proj.bias", {D}},
    {"transformer.h.%d.ln_2.weight", {D}},
    {"transformer.h.%d.ln_2.bias", {D}},
    {"transformer.h.%d.mlp.c_fc.weight", {D, FF}},
    {"transformer.h.%d.mlp.c_fc.bias", {FF}},
    {"transformer.h.%d.mlp.c_proj.weight", {FF, D}},
    {"transformer.h.%d.mlp.c_proj.bias", {D}},
    {0},
};
static const row bert[] = {
    {"embeddings.word_embeddings.weight", {V, D}},
    {"embeddings.position_embeddings.weight", {HUB_CTX_LEN, D}},
    {"embeddings.token_type_embeddings.weight", {2, D}},
    {"embeddings.LayerNorm.weight", {D}},
    {"embeddings.LayerNorm.bias", {D}},
    {"encoder.layer.%d.attention.self.query.weight", {D, D}},
    {"encoder.layer.%d.attention.self.query.bias", {D}},
    {"encoder.layer.%d.attention.self.key.weight", {D, D}},
    {"encoder.layer.%d.attention.self.key.bias", {D}},
    {"encoder.layer.%d.attention.self.value.weight", {D, D}},
    {"encoder.layer.%d.attention.self.value.bias", {D}},
    {"encoder.layer.%d.attention.output.dense.weight", {D, D}},
    {"encoder.layer.%d.attention.output.dense.bias", {D}},
    {"encoder.layer.%d.attention.output.LayerNorm.weight", {D}},
    {"encoder.layer.%d.attention.output.LayerNorm.bias", {D}},
    {"encoder.layer.%d.intermediate.dense.weight", {FF, D}},
    {"encoder.layer.%d.intermediate.dense.bias", {FF}},
    {"encoder.layer.%d.output.dense.weight", {D, FF}},
    {"encoder.layer.%d.output.dense.bias", {D}},
    {"encoder.layer.%d.output.LayerNorm.weight", {D}},
    {"encoder.layer.%d.output.LayerNorm.bias", {D}},
    {"pooler.dense.weight", {D, D}},
    {"pooler.dense.bias", {D}},
    {0},
};

/* ---- Texts ---- */

#define SIZES(more)                                                         \
    "\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4," \
    "\"intermediate_size\":96,\"max_position_embeddings\":160,\"vocab_size\":40," more "}"
#define DECODES "\"num_key_value_heads\":2,\"head_dim\":16,\"rms_norm_eps\":1e-5"

static const char bpe[] =
    "{\"added_tokens\":[{\"id\":4,\"content\":\"<|end|>\",\"special\":true}],"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"aba\":3},"
    "\"merges\":[\"a b\",[\"ab\",\"a\"]]}}";
static const char words[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"[PAD]\",\"special\":true},"
    "{\"id\":1,\"content\":\"[UNK]\",\"special\":true},{\"id\":2,\"content\":\"[CLS]\","
    "\"special\":true},{\"id\":3,\"content\":\"[SEP]\",\"special\":true}],"
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true},"
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{\"[PAD]\":0,"
    "\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,\"the\":4,\"cat\":5,\"##s\":6,\"sat\":7}}}";

static const struct {
    const char *name, *config;
    const row *rows;
    const char *tokenizer;
} models[] = {
    {"llama", "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_act\":\"silu\"," SIZES(DECODES),
     llama, bpe},
    {"mistral",
     "{\"architectures\":[\"MistralForCausalLM\"],\"hidden_act\":\"silu\"," SIZES(
         DECODES ",\"sliding_window\":16"),
     llama, bpe},
    {"qwen3",
     "{\"architectures\":[\"Qwen3ForCausalLM\"],\"hidden_act\":\"silu\"," SIZES(
         DECODES ",\"tie_word_embeddings\":true"),
     qwen3, bpe},
    {"gemma3",
     "{\"architectures\":[\"Gemma3ForCausalLM\"],"
     "\"hidden_activation\":\"gelu_pytorch_tanh\"," SIZES(
         DECODES ",\"query_pre_attn_scalar\":16,\"sliding_window\":16,"
                 "\"layer_types\":[\"sliding_attention\",\"full_attention\"]"),
     gemma3, bpe},
    {"phi3", "{\"architectures\":[\"Phi3ForCausalLM\"],\"hidden_act\":\"silu\"," SIZES(DECODES),
     phi3, bpe},
    {"gpt2",
     "{\"architectures\":[\"GPT2LMHeadModel\"],\"activation_function\":\"gelu_new\","
     "\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"n_positions\":160,\"n_inner\":96}",
     gpt2, bpe},
    {"bert",
     "{\"architectures\":[\"BertModel\"],\"hidden_act\":\"gelu\"," SIZES(
         "\"layer_norm_eps\":1e-12"),
     bert, words},
};
enum { N_MODELS = sizeof models / sizeof models[0] };

const char *hub_name(size_t i) { return i < N_MODELS ? models[i].name : NULL; }

/* ---- Making ---- */

static void store(ig_dtype dtype, void *data, int64_t i, float x) {
    if (dtype == IG_F32)
        ((float *)data)[i] = x;
    else
        ((uint16_t *)data)[i] = dtype == IG_F16 ? ig_f32_to_f16(x) : ig_f32_to_bf16(x);
}

/* Norms are near 1, all others near 0. */
static void add_tensor(hub_model *m, const row *r, int layer, ig_dtype dtype) {
    assert_true(m->n_tensors < HUB_MAX_TENSORS);
    ig_named_tensor *t = &m->tensors[m->n_tensors++];
    char *name = malloc(128);
    snprintf(name, 128, r->name, layer); /* NOLINT: a format of the table above */
    t->name = name;
    t->desc = (ig_desc){dtype, r->dim[1] ? IG_SHAPE(r->dim[0], r->dim[1]) : IG_SHAPE(r->dim[0])};
    const int64_t count = ig_shape_count(t->desc.shape);
    const bool is_norm = r->dim[1] == 0 && strstr(name, "weight");
    void *data = malloc((size_t)count * 4);
    uint64_t state = 17 * m->n_tensors;
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const float x = (float)(state >> 40) / (float)(1 << 24) - 0.5f;
        store(dtype, data, i, is_norm ? 1 + x / 4 : x / 2);
    }
    t->data = data;
}

static void count_release(void *user) { ((hub_model *)user)->n_released++; }

hub_model *hub_model_create(const char *name, ig_dtype dtype) {
    size_t i = 0;
    while (i < N_MODELS && strcmp(models[i].name, name) != 0) i++;
    assert_true(i < N_MODELS);
    hub_model *m = calloc(1, sizeof *m);
    snprintf(m->config, sizeof m->config, "%s", models[i].config);
    m->tokenizer = models[i].tokenizer;
    for (const row *r = models[i].rows; r->name; r++)
        for (int layer = 0; layer < (strstr(r->name, "%d") ? HUB_LAYERS : 1); layer++)
            add_tensor(m, r, layer, dtype);
    m->source = (ig_model_source){.config = m->config,
                                  .tokenizer = m->tokenizer,
                                  .tensors = m->tensors,
                                  .n_tensors = m->n_tensors,
                                  .release = count_release,
                                  .user = m};
    return m;
}

void hub_model_destroy(hub_model *m) {
    for (size_t i = 0; i < m->n_tensors; i++) {
        free((void *)(uintptr_t)m->tensors[i].name);
        free((void *)(uintptr_t)m->tensors[i].data);
    }
    free(m);
}

ig_named_tensor *hub_model_find(hub_model *m, const char *name) {
    for (size_t i = 0; i < m->n_tensors; i++)
        if (strcmp(m->tensors[i].name, name) == 0) return &m->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* ---- A folder ---- */

static void save(const char *dir, const char *name, const void *bytes, size_t n_bytes,
                 const char *mode) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *out = fopen(path, mode);
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n_bytes, out), n_bytes);
    assert_int_equal(fclose(out), 0);
}

static const char *type_name(ig_dtype dtype) {
    return dtype == IG_F32 ? "F32" : dtype == IG_F16 ? "F16" : "BF16";
}

void hub_model_save(const hub_model *m, const char *dir) {
    enum { HEADER_BYTES = 16384 };
    static const char name[] = "model.safetensors";
    char header[HEADER_BYTES] = "{";
    size_t at = 1;
    uint64_t end = 0;
    for (size_t i = 0; i < m->n_tensors; i++) {
        const ig_named_tensor *t = &m->tensors[i];
        char shape[64];
        const ig_shape s = t->desc.shape;
        if (s.rank == 2)
            snprintf(shape, sizeof shape, "%lld,%lld", (long long)s.dim[0], (long long)s.dim[1]);
        else
            snprintf(shape, sizeof shape, "%lld", (long long)s.dim[0]);
        const uint64_t bytes = (uint64_t)ig_bytes_of(t->desc.dtype, ig_shape_count(s));
        at += (size_t)snprintf(header + at, sizeof header - at,
                               "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":"
                               "[%llu,%llu]}",
                               i ? "," : "", t->name, type_name(t->desc.dtype), shape,
                               (unsigned long long)end, (unsigned long long)(end + bytes));
        end += bytes;
    }
    at += (size_t)snprintf(header + at, sizeof header - at, "}");
    assert_true(at < HEADER_BYTES);
    const uint64_t length = at;
    save(dir, name, &length, sizeof length, "wb");
    save(dir, name, header, at, "ab");
    for (size_t i = 0; i < m->n_tensors; i++) {
        const ig_desc desc = m->tensors[i].desc;
        save(dir, name, m->tensors[i].data,
             (size_t)ig_bytes_of(desc.dtype, ig_shape_count(desc.shape)), "ab");
    }
    save(dir, "config.json", m->config, strlen(m->config), "wb");
    save(dir, "tokenizer.json", m->tokenizer, strlen(m->tokenizer), "wb");
}
