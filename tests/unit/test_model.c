/*
 * Model files as strangers send them: cut off, flipped, of another shape than their
 * architecture.  A file is refused with a sentence, or it runs; it never crashes.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/gguf/gguf.h"
#include "ingot/session.h"
#include "model/synthetic/synthetic_models.h"

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != IG_OK) fail_msg("%s: %s", #call, ig_error_text()); \
    } while (0)

static char path[64];
static ig_ctx *ctx;

/* Of models whose heads are what is tested: nothing has to be found, packed or opened. */
static const ig_dtype usual = IG_F32;

static int set_up(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/ingot-model-%d.gguf", (int)getpid());
    return ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = 1}, &ctx) != IG_OK;
}

static int tear_down(void **state) {
    (void)state;
    ig_ctx_destroy(ctx);
    return unlink(path);
}

/* A model of a file, put through three tokens if it can be; what it says if it cannot. */
static ig_status try_file(void) {
    static float logits[1 << 16];
    const int32_t tokens[] = {3, 1, 4};
    ig_adapter *adapter = NULL;
    ig_session *session = NULL;
    ig_status status = ig_adapter_load(ctx, path, &adapter);
    if (status == IG_OK) status = ig_session_create(adapter, NULL, &session);
    if (status == IG_OK && ig_adapter_vocab_size(adapter) <= 1 << 16)
        status = ig_session_feed(session, 0, tokens, 3, logits);
    ig_session_destroy(session);
    ig_adapter_destroy(adapter);
    return status;
}

static void assert_refused(const char *words) {
    const ig_status status = try_file();
    assert_int_equal(status, strstr(words, "unknown architecture") ? IG_ERR_MODEL : IG_ERR_FORMAT);
    if (!strstr(ig_error_text(), words)) fail_msg("%s (wanted '%s')", ig_error_text(), words);
}

/* Where the tensors begin. */
static size_t head_bytes(void) {
    ig_gguf *file = NULL;
    OK(ig_gguf_open(path, NULL, &file));
    const char *first = ig_gguf_tensor_at(file, 0)->bytes;
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    uint64_t data = 0;
    for (size_t i = 0; i < ig_gguf_n_tensors(file); i++) {
        const ig_gguf_tensor *t = ig_gguf_tensor_at(file, i);
        const uint64_t end = (uint64_t)((const char *)t->bytes - first) + t->n_bytes;
        if (end > data) data = end;
    }
    ig_gguf_close(file);
    return (size_t)info.st_size - (size_t)data;
}

/* Bytes of the head in their turn, `step` apart, with one bit the other way round; returns how many
 * of these files were refused. */
static size_t flip_bits(size_t head, size_t step) {
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    size_t refused = 0;
    for (size_t at = 0; at < head; at += step) {
        uint8_t byte;
        assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
        const uint8_t flipped = byte ^ (uint8_t)(1u << at % 8);
        assert_int_equal(pwrite(fd, &flipped, 1, (off_t)at), 1);
        refused += try_file() != IG_OK;
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    }
    close(fd);
    return refused;
}

static void a_head_with_a_flipped_bit_is_refused_or_runs(void **state) {
    (void)state;
    OK(model_save("llama", IG_Q2_K, path));
    const size_t head = head_bytes();
    /* Most of it is text of tokens, where any bit is as good. */
    assert_true(flip_bits(head, 1) > head / 20);
    OK(try_file());
    for (size_t i = 0; model_name(i); i++) {
        const bool has_experts = strcmp(model_name(i), "qwen3moe") == 0;
        OK(model_save(model_name(i), has_experts ? IG_Q2_K : usual, path));
        assert_true(flip_bits(head_bytes(), 53) > 0);
    }
    OK(model_save("deepseek2", usual, path));
    assert_true(flip_bits(head_bytes(), 211) > 0);
}

static void a_file_that_is_cut_off_is_refused(void **state) {
    (void)state;
    OK(model_save("llama", IG_Q2_K, path));
    const size_t head = head_bytes();
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    const size_t size = (size_t)info.st_size;
    for (size_t cut = size - 64; cut > head; cut -= cut - head > 9999 ? 9999 : cut - head) {
        assert_int_equal(truncate(path, (off_t)cut), 0);
        assert_int_not_equal(try_file(), IG_OK);
    }
    for (size_t cut = head; cut > 0; cut -= cut > 3 ? 3 : cut) {
        assert_int_equal(truncate(path, (off_t)cut), 0);
        assert_int_not_equal(try_file(), IG_OK);
    }
}

/* Replaces bytes of the file by as many others, where they stand first. */
static void replace(const char *from, const char *to, size_t n) {
    FILE *file = fopen(path, "r+be");
    assert_non_null(file);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    char *all = malloc((size_t)info.st_size);
    assert_int_equal(fread(all, 1, (size_t)info.st_size, file), (size_t)info.st_size);
    char *at = memmem(all, (size_t)info.st_size, from, n);
    assert_non_null(at);
    assert_int_equal(fseek(file, at - all, SEEK_SET), 0);
    assert_int_equal(fwrite(to, 1, n, file), n);
    fclose(file);
    free(all);
}

static void what_does_not_fit_its_architecture_is_named(void **state) {
    (void)state;
    static const struct {
        const char *model, *from, *to;
        size_t n;
        const char *words;
    } cases[] = {
        {"llama", "\5\0\0\0\0\0\0\0llama", "\5\0\0\0\0\0\0\0lhama", 13,
         "unknown architecture lhama; known: llama internlm2 ernie4_5"},
        {"llama", "blk.1.ffn_up.weight", "blk.1.ffn_Up.weight", 19,
         "llama: tensor blk.1.ffn_up.weight is missing"},
        {"llama", "llama.feed_forward_length\4\0\0\0\0\2", "llama.feed_forward_length\4\0\0\0\0\3",
         31, "llama: tensor blk.0.ffn_gate.weight is [512,256]; [768,256] is needed"},
        {"llama", "llama.attention.head_count_kv\4\0\0\0\2",
         "llama.attention.head_count_kv\4\0\0\0\3", 34,
         "n_heads 8 is not a multiple of n_kv_heads 3 (GQA)"},
        {"llama", "llama.block_count\4\0\0\0\2", "llama.block_count\4\0\0\0\3", 22,
         "llama: tensor blk.2.attn_norm.weight is missing"},
        {"llama", "llama.block_count", "llama.block_coumt", 17, "key llama.block_count is missing"},
        {"qwen2", "blk.0.attn_k.bias", "blk.0.attn_K.bias", 17,
         "qwen2: tensor blk.0.attn_k.bias is missing"},
        {"qwen3", "blk.1.attn_q_norm.weight", "blk.1.attn_Q_norm.weight", 24,
         "qwen3: tensor blk.1.attn_q_norm.weight is missing"},
        {"qwen3moe", "expert_used_count\4\0\0\0\2", "expert_used_count\4\0\0\0\11", 22,
         "expert_used_count is 9; from 1 to 4"},
        {"gemma3", "attention.sliding_window", "attention.sliding_windaw", 24,
         "key gemma3.attention.sliding_window is missing"},
        {"phi3", "blk.0.attn_qkv.weight", "blk.0.attn_Qkv.weight", 21,
         "phi3: tensor blk.0.attn_q.weight is missing"},
        {"fused", "blk.1.attn_qkv.weight", "blk.1.attn_Qkv.weight", 21,
         "llama: tensor blk.1.attn_q.weight is missing"},
        {"stablelm", "blk.0.ffn_norm.bias", "blk.0.attn_qkv.bias", 19,
         "tensor blk.0.attn_qkv.bias is none of a layer without attn_qkv.weight"},
        {"phi2", "blk.1.ffn_down.bias", "blk.1.ffn_gate.bias", 19,
         "phi2: tensor blk.1.ffn_gate.bias is none that is known"},
        {"glm4", "blk.0.attn_q.bias", "blk.0.ffn_up.bias", 17,
         "glm4: tensor blk.0.ffn_up.bias is none that is known"},
        {"mixtral", "expert_used_count\4\0\0\0\2", "expert_used_count\4\0\0\0\11", 22,
         "expert_used_count is 9; from 1 to 4"},
        {"gpt-oss", "blk.3.attn_sinks.weight", "blk.3.attn_Sinks.weight", 23,
         "gpt-oss: tensor blk.3.attn_sinks.weight is missing"},
        {"gpt-oss", "attention.sliding_window", "attention.sliding_windaw", 24,
         "key gpt-oss.attention.sliding_window is missing"},
        {"dots1", "leading_dense_block_count\4\0\0\0\1", "leading_dense_block_count\4\0\0\0\2", 30,
         "dots1: tensor blk.1.ffn_gate.weight is missing"},
        {"deepseek", "leading_dense_block_count\4\0\0\0\1", "leading_dense_block_count\4\0\0\0\11",
         30, "leading_dense_block_count is 9; from 0 to 3"},
        {"deepseek2", "blk.1.attn_k_b.weight", "blk.1.attn_K_b.weight", 21,
         "deepseek2: tensor blk.1.attn_k_b.weight is missing"},
        {"deepseek2", "blk.2.attn_q_a.weight", "blk.2.attn_kv_b.weight", 21,
         "deepseek2: tensor blk.2.attn_q_a.weight is missing"},
        {"deepseek2", "attention.key_length_mla\4\0\0\0\140", "attention.key_length_mla\4\0\0\0\40",
         29, "RoPE covers all 32 dimensions of a key"},
        {"deepseek2", "expert_group_count\4\0\0\0\2", "expert_group_count\4\0\0\0\3", 23,
         "4 experts in 3 groups"},
        {"deepseek2", "expert_used_count\4\0\0\0\2", "expert_used_count\4\0\0\0\3", 22,
         "3 experts out of 1 groups of 2"},
        {"deepseek2", "expert_gating_func\4\0\0\0\2", "expert_gating_func\4\0\0\0\4", 23,
         "expert_gating_func is 4; from 1 to 2"},
        {"gpt2", "position_embd.weight", "position_Embd.weight", 20,
         "gpt2: tensor position_embd.weight is missing"},
        {"bert", "token_types.weight", "token_Types.weight", 18,
         "bert: tensor token_Types.weight is none that is known in 2 layers"},
        {"llama", "llama.block_count\4\0\0\0\2", "llama.block_count\4\0\0\0\1", 22,
         "llama: tensor blk.1.attn_norm.weight is none that is known in 1 layers"},
        {"llama", "tokenizer.ggml.bos_token_id\4\0\0\0\1\0",
         "tokenizer.ggml.bos_token_id\4\0\0\0\1\2", 33, "513, but there are 320 tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OK(model_save(cases[i].model, usual, path));
        replace(cases[i].from, cases[i].to, cases[i].n);
        assert_refused(cases[i].words);
    }
}

/* A model with a key that it has not by itself. */
static void save_with(const char *model, const char *key, const char *value) {
    model_bytes made;
    OK(model_make(model, IG_Q8_0, &made));
    OK(model_add(&made, key, value));
    OK(model_write(&made, path));
    free(made.bytes);
}

static void keys_that_would_change_the_answer_and_are_not_known_are_named(void **state) {
    (void)state;
    static const struct {
        const char *model, *key, *value, *words;
    } cases[] = {
        {"gemma3", "gemma3.final_logit_softcapping", "30.0", "final_logit_softcapping is 30"},
        {"gemma3", "gemma3.attn_logit_softcapping", "50.0", "attn_logit_softcapping is 50"},
        {"llama", "llama.logit_scale", "0.5", "logit_scale is 0.5"},
        {"llama", "llama.expert_count", "8", "key llama.expert_used_count is missing"},
        {"glm4", "glm4.rope.dimension_sections", "[8,4]", "positions in pictures are not known"},
        {"olmoe", "olmoe.expert_weights_norm", "true", "expert_weights_norm is not false"},
        {"granite", "granite.final_logit_softcapping", "30.0", "final_logit_softcapping is 30"},
        {"llama", "llama.attention.causal", "false", "attention.causal is not true"},
        {"llama", "llama.rope.scaling.type", "\"ntk\"", "rope.scaling.type is ntk"},
        {"llama", "llama.rope.scaling.type", "\"longrope\"",
         "key llama.rope.scaling.type is longrope, but tensors rope_factors_long.weight and "
         "rope_factors_short.weight are missing"},
        {"qwen2", "qwen2.use_parallel_residual", "true", "use_parallel_residual is not false"},
        {"qwen3moe", "qwen3moe.expert_weights_norm", "false", "expert_weights_norm is not true"},
        {"qwen3moe", "qwen3moe.expert_weights_scale", "2.5", "expert_weights_scale is 2.5"},
        {"qwen3moe", "qwen3moe.expert_gating_func", "2", "expert_gating_func is 2"},
        {"qwen3moe", "qwen3moe.expert_shared_count", "1", "expert_shared_count is 1"},
        {"phi3", "phi3.rope.scaling.yarn_log_multiplier", "0.1", "yarn_log_multiplier is 0.1"},
        {"deepseek", "deepseek.expert_weights_norm", "\"yes\"", "weights_norm is neither true nor"},
        {"deepseek2", "deepseek2.attention.sliding_window", "64",
         "sliding window of 64 is not supported"},
        {"deepseek2", "deepseek2.attention.temperature_scale", "0.1", "temperature_scale is 0.1"},
        {"glm4moe", "glm4moe.nextn_predict_layers", "3", "nextn_predict_layers is 3; from 0 to 2"},
        {"qwen3moe", "qwen3moe.nextn_predict_layers", "1", "nextn_predict_layers is 1"},
        {"gpt2", "gpt2.attention.max_alibi_bias", "8.0", "max_alibi_bias is 8"},
        {"gpt2", "gpt2.attention.key_length", "0", "key_length is 0; from 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        save_with(cases[i].model, cases[i].key, cases[i].value);
        assert_refused(cases[i].words);
    }
}

static void keys_that_say_what_is_usual_are_no_error(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"gemma3", "gemma3.final_logit_softcapping", "0.0"},
        {"gemma3", "gemma3.attention.sliding_window_pattern", "6"},
        {"llama", "llama.logit_scale", "1.0"},
        {"llama", "llama.attention.causal", "true"},
        {"llama", "llama.rope.scaling.type", "\"none\""},
        {"llama-tied", "llama.rope.scaling.type", "\"longrope\""}, /* has rope_freqs.weight */
        {"qwen3moe", "qwen3moe.expert_weights_norm", "true"},
        {"qwen3moe", "qwen3moe.expert_gating_func", "1"},
        {"qwen3", "qwen3.attention.scale", "0.125"},      /* 1 / sqrt(64) */
        {"glm4moe", "glm4moe.nextn_predict_layers", "1"}, /* the last layer is not the model's */
        {"glm4moe", "glm4moe.nextn_predict_layers", "0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        save_with(cases[i][0], cases[i][1], cases[i][2]);
        OK(try_file());
    }
}

/* Of 2 layers. */
static void a_key_may_hold_a_number_for_each_layer_if_they_are_alike(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"[32,16]",
         "key llama.attention.key_length is 32 in layer 0 and 16 in layer 1; layers that "
         "differ in it are not supported"},
        {"[32]", "key llama.attention.key_length has 1 numbers for 2 layers"},
        {"[32,32,32]", "key llama.attention.key_length has 3 numbers for 2 layers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        save_with("llama", "llama.attention.key_length", cases[i][0]);
        assert_refused(cases[i][1]);
    }
    save_with("llama", "llama.attention.key_length", "[32,32]");
    OK(try_file());
}

static void a_model_of_a_file_is_neither_trained_nor_saved(void **state) {
    (void)state;
    OK(model_save("llama", IG_F16, path));
    const int32_t tokens[8] = {0};
    ig_adapter *adapter = NULL;
    OK(ig_adapter_load(ctx, path, &adapter));
    assert_int_equal(ig_adapter_train(adapter, tokens, 1, 4, NULL, NULL), IG_ERR_ARGUMENT);
    assert_non_null(strstr(ig_error_text(), "read only"));
    assert_int_equal(ig_adapter_save(adapter, "/tmp/never.oam", NULL), IG_ERR_ARGUMENT);
    ig_adapter *other = NULL;
    assert_int_equal(ig_adapter_create(ctx, "llama", NULL, &other), IG_ERR_MODEL);
    assert_int_equal(ig_adapter_config(adapter).d_model, 256);
    assert_string_equal(ig_adapter_architecture(adapter), "llama");
    assert_true(ig_adapter_param_count(adapter) > 1000000);
    ig_adapter_destroy(adapter);
}

static void a_copied_and_a_mapped_file_give_the_same(void **state) {
    (void)state;
    OK(model_save("qwen2", IG_Q4_K, path));
    static float logits[2][320];
    for (int copy = 0; copy < 2; copy++) {
        const int32_t tokens[] = {3, 1, 4, 1, 5};
        ig_model *model = NULL;
        ig_adapter *adapter = NULL;
        ig_session *session = NULL;
        OK(ig_model_load(path, &(ig_model_options){.no_mmap = copy}, &model));
        OK(ig_adapter_from_model(ctx, model, &adapter));
        ig_model_release(model);
        OK(ig_session_create(adapter, NULL, &session));
        OK(ig_session_feed(session, 0, tokens, 5, logits[copy]));
        ig_session_destroy(session);
        ig_adapter_destroy(adapter);
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
}

static void an_embedding_has_length_one_and_is_the_texts_own(void **state) {
    (void)state;
    OK(model_save("bert", IG_F16, path));
    ig_adapter *adapter = NULL;
    ig_session *session = NULL;
    static float a[256], again[256], b[256];
    int64_t tokens = 0;
    char longer[1024];
    memset(longer, 'a', sizeof longer);
    for (size_t i = 1; i < sizeof longer; i += 2) longer[i] = ' ';
    OK(ig_adapter_load(ctx, path, &adapter));
    OK(ig_adapter_embed(adapter, "the cat", 7, IG_POOL_DEFAULT, a, &tokens));
    OK(ig_adapter_embed(adapter, "a dog runs", 10, IG_POOL_CLS, b, NULL));
    OK(ig_adapter_embed(adapter, "the cat", 7, IG_POOL_MEAN, again, NULL));
    assert_memory_equal(a, again, sizeof a); /* the file says mean */
    assert_memory_not_equal(a, b, sizeof a);
    double length = 0;
    for (int i = 0; i < 256; i++) length += (double)a[i] * (double)a[i];
    assert_true(length > 0.99999 && length < 1.00001);
    assert_true(tokens >= 3);
    assert_int_equal(ig_adapter_embed(adapter, longer, sizeof longer, IG_POOL_MEAN, a, NULL),
                     IG_ERR_ARGUMENT);
    assert_non_null(strstr(ig_error_text(), "the context is 128"));
    assert_int_equal(ig_session_create(adapter, NULL, &session), IG_ERR_ARGUMENT);
    ig_adapter_destroy(adapter);
}

/* ---- prompts from a stream ---- */

typedef struct stream {
    const char *const *prompts;
    char text[4][256];
    int at, answered;
} stream;

static bool next(void *user, const char **text, size_t *bytes) {
    stream *s = user;
    *text = s->prompts[s->at++];
    *bytes = *text ? strlen(*text) : 0;
    return *text != NULL;
}

static bool hear(void *user, const char *text, size_t bytes) {
    stream *s = user;
    strncat(s->text[s->answered], text, bytes);
    return true;
}

static bool answered(void *user, const ig_generated *made) {
    stream *s = user;
    assert_true(made->n_generated > 0);
    return ++s->answered < 4;
}

static void each_prompt_of_a_stream_is_answered_as_if_it_were_the_first(void **state) {
    (void)state;
    OK(model_save("llama-tied", IG_F16, path));
    ig_adapter *adapter = NULL;
    ig_session *session = NULL;
    OK(ig_adapter_load(ctx, path, &adapter));
    OK(ig_session_create(adapter, NULL, &session));
    for (int own = 0; own < 2; own++) {
        stream s = {.prompts = (const char *const[]){"one", "another", "one", NULL}};
        const ig_input_session input = {.next = next,
                                        .on_answer = answered,
                                        .user = &s,
                                        .generate = {.max_tokens = 12,
                                                     .sampling = {.temperature = -1},
                                                     .session = own ? NULL : session,
                                                     .emit = hear,
                                                     .user = &s}};
        OK(ig_input_session_run(adapter, &input));
        assert_int_equal(s.answered, 3);
        assert_string_equal(s.text[0], s.text[2]);
        assert_string_not_equal(s.text[0], s.text[1]);
    }
    ig_session_destroy(session);
    ig_adapter_destroy(adapter);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_with_a_flipped_bit_is_refused_or_runs),
        cmocka_unit_test(a_file_that_is_cut_off_is_refused),
        cmocka_unit_test(what_does_not_fit_its_architecture_is_named),
        cmocka_unit_test(keys_that_say_what_is_usual_are_no_error),
        cmocka_unit_test(keys_that_would_change_the_answer_and_are_not_known_are_named),
        cmocka_unit_test(a_key_may_hold_a_number_for_each_layer_if_they_are_alike),
        cmocka_unit_test(a_model_of_a_file_is_neither_trained_nor_saved),
        cmocka_unit_test(a_copied_and_a_mapped_file_give_the_same),
        cmocka_unit_test(an_embedding_has_length_one_and_is_the_texts_own),
        cmocka_unit_test(each_prompt_of_a_stream_is_answered_as_if_it_were_the_first),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
