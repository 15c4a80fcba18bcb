/* A folder of a model hub to GGUF: what is kept, what is reordered, what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "directory.h"
#include "format/gguf/gguf.h"
#include "model/convert/convert.h"

enum { MAX_TENSORS = 32, HEADER_BYTES = 8192 };

/* ---- Folders ---- */

static void save(void **state, const char *name, const void *bytes, size_t n_bytes) {
    char path[PATH_BYTES];
    FILE *out = fopen(directory_path(state, name, path), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n_bytes, out), n_bytes);
    assert_int_equal(fclose(out), 0);
}

static void save_text(void **state, const char *name, const char *text) {
    save(state, name, text, strlen(text));
}

typedef struct tensor {
    const char *name;
    int64_t rows, columns; /* rows 0: a vector */
} tensor;

/* Element i of every tensor is i. */
static void save_tensors(void **state, const tensor *tensors, size_t count) {
    char header[HEADER_BYTES] = "{";
    size_t at = 1;
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        const tensor *t = &tensors[i];
        const int64_t n = (t->rows ? t->rows : 1) * t->columns;
        char shape[64];
        if (t->rows)
            snprintf(shape, sizeof shape, "%lld,%lld", (long long)t->rows, (long long)t->columns);
        else
            snprintf(shape, sizeof shape, "%lld", (long long)t->columns);
        at += (size_t)snprintf(header + at, sizeof header - at,
                               "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":"
                               "[%llu,%llu]}",
                               i ? "," : "", t->name, shape, (unsigned long long)end,
                               (unsigned long long)end + 4 * (uint64_t)n);
        end += 4 * (uint64_t)n;
    }
    at += (size_t)snprintf(header + at, sizeof header - at, "}");
    const uint64_t length = at;
    char *file = calloc(1, 8 + at + end);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, at);
    float *numbers = malloc(end);
    for (size_t i = 0, n = 0; i < count; i++)
        for (int64_t e = 0; e < (tensors[i].rows ? tensors[i].rows : 1) * tensors[i].columns; e++)
            numbers[n++] = (float)e;
    memcpy(file + 8 + at, numbers, end);
    save(state, "model.safetensors", file, 8 + at + end);
    free(numbers);
    free(file);
}

/* One layer, 2 heads of 4, 6 tokens. */
static const tensor llama[] = {
    {"model.embed_tokens.weight", 6, 8},
    {"model.norm.weight", 0, 8},
    {"lm_head.weight", 6, 8},
    {"model.layers.0.input_layernorm.weight", 0, 8},
    {"model.layers.0.self_attn.q_proj.weight", 8, 8},
    {"model.layers.0.self_attn.k_proj.weight", 4, 8},
    {"model.layers.0.self_attn.v_proj.weight", 4, 8},
    {"model.layers.0.self_attn.o_proj.weight", 8, 8},
    {"model.layers.0.post_attention_layernorm.weight", 0, 8},
    {"model.layers.0.mlp.gate_proj.weight", 16, 8},
    {"model.layers.0.mlp.up_proj.weight", 16, 8},
    {"model.layers.0.mlp.down_proj.weight", 8, 16},
};
enum { N_LLAMA = sizeof llama / sizeof *llama };

#define SIZES                                                                            \
    "\"hidden_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":2,"               \
    "\"num_key_value_heads\":1,\"intermediate_size\":16,\"max_position_embeddings\":64," \
    "\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-5"
#define CONFIG(model, more) "{\"architectures\":[\"" model "\"]," SIZES more "}"

/* A llama with these sizes instead. */
#define LLAMA(layers, kv_heads, ff, context)                                                 \
    "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":8,\"num_attention_heads\":2," \
    "\"num_hidden_layers\":" layers ",\"num_key_value_heads\":" kv_heads                     \
    ",\"intermediate_size\":" ff ",\"max_position_embeddings\":" context "}"

/* Five tokens of the six that the embedding has. */
static const char bpe[] =
    "{\"added_tokens\":[{\"id\":4,\"content\":\"<|end|>\",\"special\":true},"
    "{\"id\":9,\"content\":\"<|beyond|>\",\"special\":true}],"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"aba\":3},"
    "\"merges\":[\"a b\",[\"ab\",\"a\"]]}}";

static void save_llama(void **state) {
    save_text(state, "config.json", CONFIG("LlamaForCausalLM", ""));
    save_text(state, "tokenizer.json", bpe);
    save_tensors(state, llama, N_LLAMA);
}

/* ---- Conversion ---- */

static ig_status convert(void **state, const char *pre, const char *path) {
    ig_conversion *c = NULL;
    const ig_conversion_options options = {.pre = pre};
    IG_TRY(ig_conversion_open(&ig_heap, *state, &options, &c));
    ig_produced *results = calloc(ig_conversion_count(c), sizeof *results);
    const ig_produce_options how = {.threads = 1};
    const ig_status status = ig_conversion_write(c, path, ig_recipe_find("F32"), &how, results);
    free(results);
    ig_conversion_close(c);
    return status;
}

static ig_gguf *converted(void **state) {
    char path[PATH_BYTES];
    directory_path(state, "out.gguf", path);
    must(convert(state, NULL, path));
    ig_gguf *gguf = NULL;
    must(ig_gguf_open(path, NULL, &gguf));
    return gguf;
}

static int64_t int_of(const ig_gguf *gguf, const char *key) {
    int64_t x = -1;
    if (!ig_gguf_int(gguf, key, &x)) fail_msg("%s is missing", key);
    return x;
}

static void keys_tell_what_the_config_tells(void **state) {
    save_llama(state);
    ig_gguf *gguf = converted(state);
    static const struct {
        const char *key;
        int64_t value;
    } rows[] = {
        {"llama.context_length", 64},      {"llama.embedding_length", 8},
        {"llama.block_count", 1},          {"llama.feed_forward_length", 16},
        {"llama.attention.head_count", 2}, {"llama.attention.head_count_kv", 1},
        {"llama.attention.key_length", 4}, {"llama.rope.dimension_count", 4},
        {"llama.rope.freq_base", 10000},   {"llama.vocab_size", 6},
        {"general.file_type", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(int_of(gguf, rows[i].key), rows[i].value);
    assert_int_equal(ig_gguf_n_tensors(gguf), N_LLAMA);
    assert_non_null(ig_gguf_find_tensor(gguf, "blk.0.ffn_down.weight"));
    ig_gguf_close(gguf);
}

/* Rows 0 1 2 3 of a head become 0 2 1 3: NeoX pairs become interleaved ones. */
static void rows_of_q_and_k_are_reordered_for_llama_alone(void **state) {
    static const struct {
        const char *model;
        int64_t rows[8];
    } cases[] = {
        {CONFIG("LlamaForCausalLM", ""), {0, 2, 1, 3, 4, 6, 5, 7}},
        {CONFIG("MistralForCausalLM", ""), {0, 2, 1, 3, 4, 6, 5, 7}},
        {CONFIG("Qwen2ForCausalLM", ""), {0, 1, 2, 3, 4, 5, 6, 7}},
    };
    tensor biased[N_LLAMA + 3] = {{"model.layers.0.self_attn.q_proj.bias", 0, 8},
                                  {"model.layers.0.self_attn.k_proj.bias", 0, 4},
                                  {"model.layers.0.self_attn.v_proj.bias", 0, 4}};
    memcpy(biased + 3, llama, sizeof llama); /* a qwen2 has to have them */
    save_llama(state);
    save_tensors(state, biased, N_LLAMA + 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        save_text(state, "config.json", cases[i].model);
        ig_gguf *gguf = converted(state);
        const float *q = ig_gguf_find_tensor(gguf, "blk.0.attn_q.weight")->bytes;
        const float *k = ig_gguf_find_tensor(gguf, "blk.0.attn_k.weight")->bytes;
        const float *v = ig_gguf_find_tensor(gguf, "blk.0.attn_v.weight")->bytes;
        for (int64_t row = 0; row < 8; row++)
            assert_true(q[row * 8 + 3] == (float)(cases[i].rows[row] * 8 + 3));
        for (int64_t row = 0; row < 4; row++) {
            assert_true(k[row * 8] == (float)(cases[i].rows[row] * 8));
            assert_true(v[row * 8] == (float)(row * 8));
        }
        ig_gguf_close(gguf);
    }
}

static void tokens_merges_and_gaps_become_a_vocabulary(void **state) {
    save_llama(state);
    save_text(state, "tokenizer_config.json",
              "{\"eos_token\":{\"content\":\"<|end|>\"},\"add_bos_token\":false,"
              "\"chat_template\":[{\"name\":\"default\",\"template\":\"D\"},"
              "{\"name\":\"tool_use\",\"template\":\"T\"}]}");
    ig_gguf *gguf = converted(state);
    static const char *const texts[] = {"a", "b", "ab", "aba", "<|end|>", "[PAD5]"};
    static const int types[] = {1, 1, 1, 1, 3, 5};
    const ig_gguf_value *tokens = ig_gguf_find(gguf, "tokenizer.ggml.tokens");
    const ig_gguf_value *type = ig_gguf_find(gguf, "tokenizer.ggml.token_type");
    assert_int_equal(tokens->count, 6);
    for (uint64_t i = 0; i < 6; i++) {
        assert_int_equal(tokens->texts[i].n_bytes, strlen(texts[i]));
        assert_memory_equal(tokens->texts[i].bytes, texts[i], strlen(texts[i]));
        assert_int_equal(ig_gguf_int_at(type, i), types[i]);
    }
    const ig_gguf_value *merges = ig_gguf_find(gguf, "tokenizer.ggml.merges");
    assert_int_equal(merges->count, 2);
    assert_memory_equal(merges->texts[1].bytes, "ab a", 4);
    ig_string_view pre, template;
    assert_true(ig_gguf_string(gguf, "tokenizer.ggml.pre", &pre));
    assert_memory_equal(pre.bytes, "gpt-2", 5);
    assert_int_equal(int_of(gguf, "tokenizer.ggml.eos_token_id"), 4);
    assert_int_equal(int_of(gguf, "tokenizer.ggml.add_bos_token"), 0);
    assert_true(ig_gguf_string(gguf, "tokenizer.chat_template", &template));
    assert_memory_equal(template.bytes, "D", 1);
    assert_true(ig_gguf_string(gguf, "tokenizer.chat_template.tool_use", &template));
    ig_gguf_close(gguf);
}

static void rope_is_scaled_as_llama_3_says(void **state) {
    save_llama(state);
    save_text(state, "config.json",
              CONFIG("LlamaForCausalLM",
                     ",\"rope_theta\":100,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
                     "\"low_freq_factor\":1,\"high_freq_factor\":4,"
                     "\"original_max_position_embeddings\":32}"));
    ig_gguf *gguf = converted(state);
    const ig_gguf_tensor *t = ig_gguf_find_tensor(gguf, "rope_freqs.weight");
    assert_non_null(t);
    const float *factors = t->bytes;
    /* Wavelengths are 2 pi and 20 pi; below 8 nothing changes, above 32 the factor is whole. */
    assert_true(factors[0] == 1 && factors[1] == 8);
    ig_gguf_close(gguf);
}

/* ---- Every key of a config ---- */

static void a_mistral_keeps_its_sliding_window(void **state) {
    save_llama(state);
    save_text(state, "config.json", CONFIG("MistralForCausalLM", ",\"sliding_window\":16"));
    ig_gguf *gguf = converted(state);
    assert_int_equal(int_of(gguf, "llama.attention.sliding_window"), 16);
    ig_gguf_close(gguf);
    save_text(state, "config.json", CONFIG("MistralForCausalLM", ",\"sliding_window\":null"));
    gguf = converted(state);
    assert_null(ig_gguf_find(gguf, "llama.attention.sliding_window"));
    ig_gguf_close(gguf);
}

/* 1: the one layer sees all; 6, the default: it has the window. */
static void windows_of_a_gemma3_follow_its_layer_types(void **state) {
#define GEMMA3(more)                                                                        \
    "{\"architectures\":[\"Gemma3ForCausalLM\"],\"hidden_size\":8,\"num_hidden_layers\":1," \
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"intermediate_size\":16,"         \
    "\"max_position_embeddings\":64,\"sliding_window\":8,\"query_pre_attn_scalar\":4,"      \
    "\"hidden_activation\":\"gelu_pytorch_tanh\"" more "}"
    static const tensor norms[] = {{"model.layers.0.self_attn.q_norm.weight", 0, 4},
                                   {"model.layers.0.self_attn.k_norm.weight", 0, 4},
                                   {"model.layers.0.pre_feedforward_layernorm.weight", 0, 8},
                                   {"model.layers.0.post_feedforward_layernorm.weight", 0, 8}};
    static const struct {
        const char *config;
        int64_t period;
    } rows[] = {
        {GEMMA3(""), 6},
        {GEMMA3(",\"layer_types\":[\"sliding_attention\"]"), 6},
        {GEMMA3(",\"layer_types\":[\"full_attention\"]"), 1},
        {GEMMA3(",\"sliding_window_pattern\":1"), 1},
    };
    tensor all[N_LLAMA + 4];
    memcpy(all, llama, sizeof llama);
    memcpy(all + N_LLAMA, norms, sizeof norms);
    save_llama(state);
    save_tensors(state, all, N_LLAMA + 4);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        save_text(state, "config.json", rows[i].config);
        ig_gguf *gguf = converted(state);
        int64_t period = 6;
        (void)ig_gguf_int(gguf, "gemma3.attention.sliding_window_pattern", &period);
        assert_int_equal(period, rows[i].period);
        ig_gguf_close(gguf);
    }
}

/* Python writes it as an integer of 31 digits. */
static void a_huge_model_max_length_does_not_stop_it(void **state) {
    save_llama(state);
    save_text(state, "tokenizer_config.json",
              "{\"eos_token\":\"<|end|>\",\"model_max_length\":1000000000000000019884624838656}");
    ig_gguf *gguf = converted(state);
    assert_int_equal(int_of(gguf, "tokenizer.ggml.eos_token_id"), 4);
    ig_gguf_close(gguf);
}

static void keys_are_read_or_harmless_or_refused_by_name(void **state) {
    static const struct {
        const char *config, *words; /* NULL: converted */
    } rows[] = {
        {CONFIG("LlamaForCausalLM", ",\"attention_dropout\":0.1,\"torch_dtype\":\"bfloat16\","
                                    "\"pretraining_tp\":2,\"is_encoder_decoder\":false,"
                                    "\"pruned_heads\":{},\"use_cache\":true,\"vocab_size\":6,"
                                    "\"new_key\":null"),
         NULL},
        {CONFIG("LlamaForCausalLM", ",\"attention_multiplier\":0.5"),
         "config.json: attention_multiplier: unknown key of a LlamaForCausalLM"},
        {CONFIG("LlamaForCausalLM", ",\"query_pre_attn_scalar\":4"),
         "query_pre_attn_scalar: unknown key of a LlamaForCausalLM"},
        {CONFIG("LlamaForCausalLM", ",\"pruned_heads\":{\"0\":[1]}"), "pruned_heads: heads are"},
        {CONFIG("LlamaForCausalLM", ",\"partial_rotary_factor\":0.5"), "partial_rotary_factor: is"},
        {CONFIG("Qwen2ForCausalLM", ",\"sliding_window\":8,\"use_sliding_window\":true,"
                                    "\"num_hidden_layers_\":1"),
         "num_hidden_layers_: unknown key"},
        {CONFIG("LlamaForCausalLM", ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,"
                                    "\"beta_fast\":8}"),
         "rope_scaling: beta_fast is not converted with type linear"},
        {CONFIG("LlamaForCausalLM", ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,"
                                    "\"truncate\":false}"),
         "rope_scaling: truncate is not converted"},
        {CONFIG("MistralForCausalLM", ",\"sliding_window\":8,\"layer_types\":[\"full_attention\"]"),
         "layer_types: it contradicts sliding_window"},
        {CONFIG("Qwen3ForCausalLM", ",\"layer_types\":[\"sliding_attention\"]"),
         "layer_types: layers have a window, but sliding_window is not set"},
        {CONFIG("Qwen3ForCausalLM", ",\"layer_types\":[\"linear_attention\"]"),
         "layer_types: layer 0 is linear_attention; expected full_attention or"},
        {CONFIG("MistralForCausalLM", ",\"sliding_window\":\"8\""),
         "sliding_window: must be a number of tokens"},
    };
    char path[PATH_BYTES];
    save_llama(state);
    directory_path(state, "out.gguf", path);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        save_text(state, "config.json", rows[i].config);
        if (rows[i].words)
            refused(convert(state, NULL, path), IG_ERR_FORMAT, rows[i].words);
        else
            must(convert(state, NULL, path));
    }
}

/* ---- What is refused ---- */

static void configs_that_cannot_be_kept_are_refused(void **state) {
    static const struct {
        const char *config, *words;
    } rows[] = {
        {"{}", "a model without `architectures` cannot be converted"},
        {CONFIG("MambaForCausalLM", ""), "MambaForCausalLM cannot be converted"},
        {CONFIG("LlamaForCausalLM", ",\"hidden_size\":8"), "is not JSON: duplicate"},
        {CONFIG("LlamaForCausalLM", ",\"quantization_config\":{\"bits\":4}"),
         "quantization_config: the weights are quantized already"},
        {CONFIG("Gemma3ForCausalLM", ""), "hidden_act is silu, a gemma3 is converted only with"},
        {CONFIG("LlamaForCausalLM", ",\"rope_scaling\":{\"type\":\"dynamic\"}"),
         "rope_scaling type dynamic is not supported"},
        {CONFIG("LlamaForCausalLM", ",\"head_dim\":-1"), "head_dim: is not a valid head_dim"},
        {CONFIG("Qwen3MoeForCausalLM", ""), "num_experts: must be from 1 to 4096"},
        {CONFIG("Qwen3MoeForCausalLM", ",\"num_experts\":4,\"norm_topk_prob\":false"),
         "norm_topk_prob: weights of experts"},
        {"{\"architectures\":[\"LlamaForCausalLM\"],\"num_attention_heads\":2}", "hidden_size: it"},
        {"{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":8}",
         "num_attention_heads: must be from 1 to 65536"},
        {CONFIG("GPT2LMHeadModel", ",\"activation_function\":\"gelu_new\""),
         "hidden_act is silu, a gpt2"},
        {CONFIG(
             "Phi3ForCausalLM",
             ",\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1],\"short_factor\":[1]}"),
         "needs one factor per RoPE pair"},
    };
    char path[PATH_BYTES];
    save_llama(state);
    directory_path(state, "out.gguf", path);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        save_text(state, "config.json", rows[i].config);
        refused(convert(state, NULL, path), IG_ERR_FORMAT, rows[i].words);
    }
}

static void tensors_that_do_not_belong_are_refused_and_named(void **state) {
    static const struct {
        const char *config;
        tensor tensors[3];
        size_t count;
        const char *words;
    } rows[] = {
        {CONFIG("LlamaForCausalLM", ""),
         {{"model.layers.0.self_attn.q_gate.weight", 8, 8}},
         1,
         "model.layers.0.self_attn.q_gate.weight: is not a known tensor of LlamaForCausalLM"},
        {CONFIG("LlamaForCausalLM", ""),
         {{"model.layers.01.mlp.up_proj.weight", 8, 8}},
         1,
         "is not a known tensor of LlamaForCausalLM"},
        {CONFIG("LlamaForCausalLM", ""),
         {{"model.norm.weight", 0, 8}},
         1,
         "has no token embedding"},
        {CONFIG("LlamaForCausalLM", ""),
         {{"model.layers.0.self_attn.q_proj.weight", 7, 8}},
         1,
         "[7,8] is not made of 2 heads"},
        {CONFIG("Qwen3MoeForCausalLM", ",\"num_experts\":2"),
         {{"model.layers.0.mlp.experts.1.up_proj.weight", 4, 8}},
         1,
         "blk.0.ffn_up_exps.weight: expert 0 of 2 is missing"},
        {CONFIG("Qwen3MoeForCausalLM", ",\"num_experts\":2"),
         {{"model.layers.0.mlp.experts.2.up_proj.weight", 4, 8}},
         1,
         "is not a matrix of one of 2 experts"},
        {CONFIG("Qwen3MoeForCausalLM", ",\"num_experts\":2"),
         {{"model.layers.0.mlp.experts.0.up_proj.weight", 4, 8},
          {"model.layers.0.mlp.experts.1.up_proj.weight", 2, 8}},
         2,
         "its shape differs from that of the experts before it"},
    };
    char path[PATH_BYTES];
    save_llama(state);
    directory_path(state, "out.gguf", path);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        save_text(state, "config.json", rows[i].config);
        save_tensors(state, rows[i].tensors, rows[i].count);
        refused(convert(state, NULL, path), IG_ERR_FORMAT, rows[i].words);
    }
}

/* What was converted and no run would take. */
static void configs_that_do_not_fit_the_tensors_are_refused(void **state) {
    static const struct {
        const char *config, *words;
    } rows[] = {
        {LLAMA("2", "1", "16", "64"), "llama: tensor blk.1.attn_norm.weight is missing"},
        {LLAMA("1", "null", "16", "64"),
         "llama: tensor blk.0.attn_k.weight is [4,8]; [8,8] is needed"},
        {LLAMA("1", "1", "null", "64"),
         "llama: tensor blk.0.ffn_gate.weight is [16,8]; [32,8] is needed"},
        {LLAMA("1", "1", "16", "null"), "config.json: max_position_embeddings: is missing"},
        {LLAMA("1", "1", "16", "0"), "config.json: max_position_embeddings: is missing"},
        {LLAMA("1", "1", "16", "99999999"),
         "key llama.context_length is 99999999; from 1 to 16777216"},
    };
    char path[PATH_BYTES];
    save_llama(state);
    const size_t files = directory_count(state);
    directory_path(state, "out.gguf", path);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        save_text(state, "config.json", rows[i].config);
        refused(convert(state, NULL, path), IG_ERR_FORMAT, rows[i].words);
        assert_int_equal(directory_count(state), files);
    }
}

/* The tensor of this name is another one instead, or none. */
static void save_changed(void **state, const char *name, const tensor *instead) {
    tensor tensors[N_LLAMA];
    size_t count = 0;
    for (size_t i = 0; i < N_LLAMA; i++)
        if (strcmp(llama[i].name, name) != 0)
            tensors[count++] = llama[i];
        else if (instead)
            tensors[count++] = *instead;
    save_tensors(state, tensors, count);
}

static void tensors_that_no_run_would_take_are_refused_and_named(void **state) {
    static const char up[] = "model.layers.0.mlp.up_proj.weight";
    static const char norm[] = "model.layers.0.input_layernorm.weight";
    static const struct {
        const char *name;
        tensor instead;
        const char *words;
    } rows[] = {
        {up, {0}, "llama: tensor blk.0.ffn_up.weight is missing"},
        {norm, {0}, "llama: tensor blk.0.attn_norm.weight is missing"},
        {"model.norm.weight", {0}, "llama: tensor output_norm.weight is missing"},
        {up, {up, 8, 16}, "llama: tensor blk.0.ffn_up.weight is [8,16]; [16,8] is needed"},
        {norm, {norm, 0, 7}, "llama: tensor blk.0.attn_norm.weight is [7]; [8] is needed"},
        {"lm_head.weight", {"lm_head.weight", 5, 8}, "tensor output.weight is [5,8]; [6,8]"},
        {"lm_head.weight", {0}, "lm_head.weight is missing, and tie_word_embeddings does not say"},
    };
    char path[PATH_BYTES];
    save_llama(state);
    const size_t files = directory_count(state);
    directory_path(state, "out.gguf", path);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        save_changed(state, rows[i].name, rows[i].instead.name ? &rows[i].instead : NULL);
        refused(convert(state, NULL, path), IG_ERR_FORMAT, rows[i].words);
        assert_int_equal(directory_count(state), files);
    }
}

static void the_embedding_is_the_output_only_where_the_config_says_so(void **state) {
    static const tensor other_layer = {"model.layers.1.mlp.up_proj.weight", 16, 8};
    char path[PATH_BYTES];
    save_llama(state);
    directory_path(state, "out.gguf", path);
    save_changed(state, "lm_head.weight", NULL);
    save_text(state, "config.json", CONFIG("LlamaForCausalLM", ",\"tie_word_embeddings\":false"));
    refused(convert(state, NULL, path), IG_ERR_FORMAT, "lm_head.weight is missing");
    save_text(state, "config.json", CONFIG("LlamaForCausalLM", ",\"tie_word_embeddings\":true"));
    must(convert(state, NULL, path));
    save_changed(state, "lm_head.weight", &other_layer); /* beyond those that the config counts */
    refused(convert(state, NULL, path), IG_ERR_FORMAT,
            "tensor blk.1.ffn_up.weight is none that is known in 1 layers");
}

static void vocabularies_that_cannot_be_kept_are_refused(void **state) {
    static const struct {
        const char *tokenizer, *words;
    } rows[] = {
        {"{", "tokenizer.json: it is not JSON"},
        {"{\"model\":{\"type\":\"Unigram\"}}", "a model of type Unigram is not converted"},
        {"{\"model\":{\"type\":\"BPE\"}}", "has no model with a vocab"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0}}}", "two tokens have the id 0"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"x\"}}}", "a token has no id"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
         "its pre-tokenizer is not known (no pattern)"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x+y\"}},"
         "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
         "its pre-tokenizer is not known (x+y)"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},"
         "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}}",
         "a merge is not two pieces"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},"
         "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}",
         "a merge is not two pieces"},
        {"{\"added_tokens\":[{\"id\":1}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}",
         "an added token has no text or id"},
        {"{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":0},\"merges\":[]}}",
         "has byte_fallback, but not all byte tokens"},
        {"{\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":false},"
         "\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}",
         "is case-sensitive"},
    };
    char path[PATH_BYTES];
    save_llama(state);
    directory_path(state, "out.gguf", path);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        save_text(state, "tokenizer.json", rows[i].tokenizer);
        refused(convert(state, NULL, path), IG_ERR_FORMAT, rows[i].words);
        assert_int_equal(access(path, F_OK), -1);
    }
    save_text(state, "tokenizer.json", rows[5].tokenizer);
    must(convert(state, "qwen2", path)); /* --pre helps */
    refused(convert(state, "qwen9", path), IG_ERR_ARGUMENT, "'qwen9' is not known");
}

/* ---- No memory ---- */

typedef struct scarce {
    int left, alive;
} scarce;

static void *scarce_alloc(void *user, size_t bytes, size_t alignment) {
    scarce *s = user;
    if (s->left-- <= 0) return NULL;
    s->alive++;
    return ig_heap.alloc(ig_heap.user, bytes, alignment);
}

static void scarce_free(void *user, void *p) {
    ((scarce *)user)->alive--;
    ig_heap.free(ig_heap.user, p);
}

static void every_allocation_may_fail(void **state) {
    char path[PATH_BYTES];
    save_llama(state);
    directory_path(state, "out.gguf", path);
    scarce memory = {0};
    const ig_allocator a = {scarce_alloc, scarce_free, &memory};
    const ig_conversion_options options = {0};
    const ig_produce_options how = {.threads = 1};
    ig_produced results[MAX_TENSORS];
    ig_status status = IG_ERR_MEMORY;
    int n = 0;
    for (; status != IG_OK; n++) {
        ig_conversion *c = NULL;
        memory.left = n;
        status = ig_conversion_open(&a, *state, &options, &c);
        if (status == IG_OK)
            status = ig_conversion_write(c, path, ig_recipe_find("Q8_0"), &how, results);
        ig_conversion_close(c);
        assert_int_equal(memory.alive, 0);
        assert_true(status == IG_OK || status == IG_ERR_MEMORY);
        assert_true(n < 300);
    }
    assert_true(n > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(keys_tell_what_the_config_tells),
        IN_DIRECTORY(rows_of_q_and_k_are_reordered_for_llama_alone),
        IN_DIRECTORY(tokens_merges_and_gaps_become_a_vocabulary),
        IN_DIRECTORY(rope_is_scaled_as_llama_3_says),
        IN_DIRECTORY(a_mistral_keeps_its_sliding_window),
        IN_DIRECTORY(windows_of_a_gemma3_follow_its_layer_types),
        IN_DIRECTORY(a_huge_model_max_length_does_not_stop_it),
        IN_DIRECTORY(keys_are_read_or_harmless_or_refused_by_name),
        IN_DIRECTORY(configs_that_cannot_be_kept_are_refused),
        IN_DIRECTORY(tensors_that_do_not_belong_are_refused_and_named),
        IN_DIRECTORY(configs_that_do_not_fit_the_tensors_are_refused),
        IN_DIRECTORY(tensors_that_no_run_would_take_are_refused_and_named),
        IN_DIRECTORY(the_embedding_is_the_output_only_where_the_config_says_so),
        IN_DIRECTORY(vocabularies_that_cannot_be_kept_are_refused),
        IN_DIRECTORY(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
