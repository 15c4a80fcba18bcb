/* ingot/gguf.h, and what model.h and device.h say of files and builds, as a program uses them. */
#include "check.h"

#include <stdio.h>

#include "directory.h"
#include "ingot/device.h"
#include "model/synthetic/synthetic_models.h"

static void write_text(void **state, const char *name, const char *text, char path[PATH_BYTES]) {
    FILE *f = fopen(directory_path(state, name, path), "wb");
    fputs(text, f);
    fclose(f);
}

static void keys_and_tensors_are_read(void **state) {
    char path[PATH_BYTES];
    ig_gguf *file = NULL;
    ig_string_view arch;
    int64_t layers = 0, untouched = 7;
    double epsilon = 0;
    must(model_save("llama", IG_F16, directory_path(state, "a.gguf", path)));
    must(ig_gguf_open(path, NULL, &file));
    assert_int_equal(ig_gguf_version(file), 3);
    assert_int_equal(ig_gguf_n_parts(file), 1);
    assert_string_equal(ig_gguf_part_name(file, 0), path);
    assert_true(ig_gguf_file_bytes(file) > 100000);

    assert_true(ig_gguf_string(file, "general.architecture", &arch));
    assert_int_equal(arch.n_bytes, 5);
    assert_memory_equal(arch.bytes, "llama", 5);
    assert_true(ig_gguf_int(file, "llama.block_count", &layers));
    assert_int_equal(layers, 2);
    assert_true(ig_gguf_real(file, "llama.attention.layer_norm_rms_epsilon", &epsilon));
    assert_true(epsilon > 0 && epsilon < 1e-3);
    assert_false(ig_gguf_int(file, "llama.none", &untouched));
    assert_false(ig_gguf_int(file, "general.architecture", &untouched));
    assert_int_equal(untouched, 7);

    const ig_gguf_value *tokens = ig_gguf_find(file, "tokenizer.ggml.tokens");
    assert_non_null(tokens);
    assert_int_equal(tokens->count, 320);
    assert_string_equal(ig_gguf_type_name(tokens->elements), "string");
    const ig_gguf_value *scores = ig_gguf_find(file, "tokenizer.ggml.scores");
    assert_true(ig_gguf_real_at(scores, 319) == ig_gguf_real_at(scores, 319));

    const ig_gguf_tensor *t = ig_gguf_find_tensor(file, "output.weight");
    assert_non_null(t);
    assert_int_equal(t->desc.dtype, IG_F16);
    assert_int_equal(t->desc.shape.dim[0], 320);
    assert_int_equal(t->n_bytes, 320 * 256 * 2);
    ig_gguf_close(file);
}

/* Indices and keys come from programs in any language: a wrong one is an answer, not a crash. */
static void what_is_not_there_is_null_or_zero(void **state) {
    char path[PATH_BYTES];
    ig_gguf *file = NULL;
    must(model_save("llama", IG_F32, directory_path(state, "a.gguf", path)));
    must(ig_gguf_open(path, &(ig_gguf_options){.no_mmap = true}, &file));
    assert_null(ig_gguf_value_at(file, ig_gguf_n_values(file)));
    assert_null(ig_gguf_tensor_at(file, ig_gguf_n_tensors(file)));
    assert_null(ig_gguf_part_name(file, 1));
    assert_null(ig_gguf_find(file, "none"));
    assert_null(ig_gguf_find_tensor(file, ""));
    const ig_gguf_value *scores = ig_gguf_find(file, "tokenizer.ggml.scores");
    assert_true(ig_gguf_real_at(scores, scores->count) == 0);
    assert_int_equal(ig_gguf_int_at(ig_gguf_find(file, "tokenizer.ggml.tokens"), 0), 0);
    assert_string_equal(ig_gguf_type_name((ig_gguf_type)99), "unknown");
    ig_gguf_close(file);
    ig_gguf_close(NULL);
}

static bool stop(void *user, uint64_t done, uint64_t total) {
    assert_true(done <= total);
    ++*(int *)user;
    return false;
}

static void what_cannot_be_opened_is_an_error_that_names_it(void **state) {
    char path[PATH_BYTES];
    int calls = 0;
    ig_gguf *file = NULL;
    refused(ig_gguf_open(NULL, NULL, &file), IG_ERR_ARGUMENT, "NULL");
    refused(ig_gguf_open(directory_path(state, "none.gguf", path), NULL, &file), IG_ERR_IO,
            "none.gguf");
    write_text(state, "cut.gguf", "GGUF\3", path);
    refused(ig_gguf_open(path, NULL, &file), IG_ERR_FORMAT, "cut.gguf");
    must(model_save("llama", IG_F32, directory_path(state, "a.gguf", path)));
    const ig_gguf_options options = {.no_mmap = true, .progress = stop, .user = &calls};
    refused(ig_gguf_open(path, &options, &file), IG_ERR_CANCELLED, "a.gguf");
    assert_int_equal(calls, 1);
    assert_null(file);
}

static void a_file_is_known_by_its_first_bytes(void **state) {
    char path[PATH_BYTES];
    assert_int_equal(ig_file_kind_of(*state), IG_FILE_FOLDER);
    assert_int_equal(ig_file_kind_of(directory_path(state, "none", path)), IG_FILE_OTHER);
    assert_int_equal(ig_file_kind_of(NULL), IG_FILE_OTHER);
    write_text(state, "a.oam", "GGUF....", path);
    assert_int_equal(ig_file_kind_of(path), IG_FILE_GGUF);
    write_text(state, "b.gguf", "OAM\x1a....", path);
    assert_int_equal(ig_file_kind_of(path), IG_FILE_OAM);
    write_text(state, "c.gguf", "GGU", path);
    assert_int_equal(ig_file_kind_of(path), IG_FILE_OTHER);
}

/* Either kind of model, by one call, for inference. */
static void any_model_file_opens(void **state) {
    char gguf[PATH_BYTES], oam[PATH_BYTES];
    ig_ctx *ctx = NULL;
    ig_adapter *made = NULL, *adapter = NULL;
    const ig_model_config config = {.d_model = 8, .n_layers = 1, .n_heads = 1, .ctx_len = 8};
    must(ig_ctx_create(NULL, &ctx));
    must(ig_adapter_create(ctx, "llm", &config, &made));
    must(ig_adapter_save(made, directory_path(state, "a.oam", oam), NULL));
    ig_adapter_destroy(made);
    must(model_save("qwen2", IG_F32, directory_path(state, "a.gguf", gguf)));

    must(ig_adapter_open(ctx, gguf, NULL, &adapter));
    assert_string_equal(ig_adapter_architecture(adapter), "qwen2");
    ig_adapter_destroy(adapter);
    must(ig_adapter_open(ctx, oam, NULL, &adapter));
    assert_string_equal(ig_adapter_architecture(adapter), "llm");
    const int32_t tokens[9] = {0};
    refused(ig_adapter_train(adapter, tokens, 1, 8, NULL, NULL), IG_ERR_STATE, "is frozen");
    ig_adapter_destroy(adapter);

    adapter = NULL;
    const ig_model_options options = {.no_mmap = true};
    must(ig_adapter_open(ctx, gguf, &options, &adapter));
    ig_adapter_destroy(adapter);
    adapter = NULL;
    refused(ig_adapter_open(ctx, oam, &options, &adapter), IG_ERR_ARGUMENT, "a.oam: no_mmap");
    refused(ig_adapter_open(ctx, NULL, NULL, &adapter), IG_ERR_ARGUMENT, "NULL");
    refused(ig_adapter_open(ctx, "none.oam", NULL, &adapter), IG_ERR_IO, "none.oam");
    assert_null(adapter);
    ig_ctx_destroy(ctx);
}

static void sampling_options_are_checked_without_a_model(void **state) {
    (void)state;
    const ig_logit_bias bias = {.token = 10};
    must(ig_sampling_check(NULL, 10));
    refused(ig_sampling_check(&(ig_sampling){.mirostat = 1}, 10), IG_ERR_ARGUMENT, "mirostat");
    refused(ig_sampling_check(&(ig_sampling){.biases = &bias, .n_biases = 1}, 10), IG_ERR_ARGUMENT,
            "token 10, not below 10");
}

static void a_build_lists_its_backends_and_instruction_sets(void **state) {
    (void)state;
    size_t n = 0, cpu = 0;
    for (const char *name; (name = ig_backend_name(n)) != NULL; n++) {
        assert_non_null(ig_backend_version(n));
        cpu += strcmp(name, "cpu") == 0 && *ig_backend_version(n);
    }
    assert_int_equal(cpu, 1);
    assert_null(ig_backend_version(n));
    assert_string_equal(ig_isa_name(0), "scalar");
    assert_null(ig_isa_name(99));
}

static void events_have_names(void **state) {
    (void)state;
    assert_string_equal(ig_progress_name(IG_PROGRESS_LOAD), "load");
    assert_string_equal(ig_progress_name(IG_PROGRESS_WEIGHTS_STORED), "weights stored");
    assert_string_equal(ig_progress_name((ig_progress_event)99), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(keys_and_tensors_are_read),
        IN_DIRECTORY(what_is_not_there_is_null_or_zero),
        IN_DIRECTORY(what_cannot_be_opened_is_an_error_that_names_it),
        IN_DIRECTORY(a_file_is_known_by_its_first_bytes),
        IN_DIRECTORY(any_model_file_opens),
        cmocka_unit_test(sampling_options_are_checked_without_a_model),
        cmocka_unit_test(a_build_lists_its_backends_and_instruction_sets),
        cmocka_unit_test(events_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
