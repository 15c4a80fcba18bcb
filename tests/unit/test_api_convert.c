/* ingot/convert.h as a program uses it. */
#include "check.h"

#include <unistd.h>

#include "directory.h"
#include "ingot/convert.h"
#include "ingot/testing.h"

typedef struct watcher {
    uint64_t done, total;
    int notes, calls, stop_at;
} watcher;

static void note(void *user, const char *text) {
    assert_true(*text);
    ((watcher *)user)->notes++;
}

static bool progress(void *user, const char *tensor, uint64_t done, uint64_t total) {
    watcher *w = user;
    assert_true(*tensor && done >= w->done && done <= total);
    w->done = done;
    w->total = total;
    return ++w->calls != w->stop_at;
}

static void a_model_is_quantized_with_progress(void **state) {
    char from[PATH_BYTES], to[PATH_BYTES];
    ig_conversion_result *result = NULL;
    watcher w = {0};
    must(ig_synthetic_model_write("llama", IG_F32, directory_path(state, "a.gguf", from)));
    const ig_convert_options options = {
        .type = "q8_0", .threads = 2, .note = note, .progress = progress, .user = &w};
    must(ig_quantize_model(from, directory_path(state, "b.gguf", to), &options, &result));
    assert_string_equal(ig_conversion_result_arch(result), "llama");
    assert_string_equal(ig_conversion_result_type(result), "Q8_0");
    assert_true(w.calls > 0 && w.done > 0 && w.done <= w.total);
    const size_t count = ig_conversion_result_count(result);
    size_t quantized = 0;
    for (size_t i = 0; i < count; i++) {
        const ig_converted_tensor t = ig_conversion_result_tensor(result, i);
        assert_int_equal(t.from, IG_F32);
        quantized += t.desc.dtype == IG_Q8_0 && t.error > 0 && t.error < 1e-3 * t.square;
    }
    assert_true(quantized > 10);
    assert_null(ig_conversion_result_tensor(result, count).name);
    assert_true(ig_conversion_result_bytes_before(result) > 0);
    ig_conversion_result_destroy(result);
    ig_conversion_result_destroy(NULL);

    ig_gguf *file = NULL;
    must(ig_gguf_open(to, NULL, &file));
    assert_int_equal(ig_gguf_n_tensors(file), count);
    assert_int_equal(ig_gguf_find_tensor(file, "output.weight")->desc.dtype, IG_Q8_0);
    ig_gguf_close(file);
}

static void a_checkpoint_becomes_gguf(void **state) {
    char from[PATH_BYTES], to[PATH_BYTES];
    ig_ctx *ctx = NULL;
    ig_adapter *adapter = NULL;
    const ig_model_config config = {.d_model = 32, .n_layers = 1, .n_heads = 1, .ctx_len = 32};
    must(ig_ctx_create(NULL, &ctx));
    must(ig_adapter_create(ctx, "llm", &config, &adapter));
    must(ig_adapter_save(adapter, directory_path(state, "a.oam", from), NULL));
    ig_adapter_destroy(adapter);
    must(ig_convert(from, directory_path(state, "b.gguf", to), NULL, NULL));
    must(ig_adapter_open(ctx, to, NULL, &adapter));
    assert_string_equal(ig_adapter_architecture(adapter), "llama");
    ig_adapter_destroy(adapter);
    ig_ctx_destroy(ctx);
}

static void what_fails_leaves_no_file(void **state) {
    char from[PATH_BYTES], to[PATH_BYTES];
    watcher w = {.stop_at = 1};
    ig_conversion_result *result = NULL;
    must(ig_synthetic_model_write("llama", IG_F32, directory_path(state, "a.gguf", from)));
    directory_path(state, "b.gguf", to);
    const ig_convert_options stops = {.type = "Q4_0", .progress = progress, .user = &w};
    refused(ig_quantize_model(from, to, &stops, &result), IG_ERR_CANCELLED, "");
    refused(ig_quantize_model(from, to, &(ig_convert_options){.type = "Q9"}, &result),
            IG_ERR_ARGUMENT, "'Q9': unknown weight type");
    refused(ig_quantize_model("none.gguf", to, NULL, &result), IG_ERR_IO, "none.gguf");
    refused(ig_quantize_model(NULL, to, NULL, &result), IG_ERR_ARGUMENT, "NULL");
    refused(ig_convert(*state, to, NULL, &result), IG_ERR_IO, "config.json");
    assert_null(result);
    assert_int_equal(access(to, F_OK), -1);
    assert_int_equal(directory_count(state), 1);
}

static void types_have_names_and_aliases(void **state) {
    (void)state;
    assert_string_equal(ig_weight_type_name(0), "Q2_K");
    assert_null(ig_weight_type_name(99));
    assert_string_equal(ig_weight_type_resolve("q4_k"), "Q4_K_M");
    assert_null(ig_weight_type_resolve("Q9"));
    assert_null(ig_weight_type_resolve(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(a_model_is_quantized_with_progress),
        IN_DIRECTORY(a_checkpoint_becomes_gguf),
        IN_DIRECTORY(what_fails_leaves_no_file),
        cmocka_unit_test(types_have_names_and_aliases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
