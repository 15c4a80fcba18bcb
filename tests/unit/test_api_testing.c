/* ingot/testing.h and ingot/conformance.h as a program uses them. */
#include "check.h"

#include <stdio.h>

#include "directory.h"
#include "ingot/conformance.h"
#include "ingot/testing.h"

static void a_synthetic_model_runs(void **state) {
    char path[PATH_BYTES];
    ig_ctx *ctx = NULL;
    ig_adapter *adapter = NULL;
    ig_string bytes = {0};
    must(ig_synthetic_model_write("qwen3", IG_F32, directory_path(state, "a.gguf", path)));
    must(ig_ctx_create(NULL, &ctx));
    must(ig_adapter_open(ctx, path, NULL, &adapter));
    assert_string_equal(ig_adapter_architecture(adapter), "qwen3");
    ig_adapter_destroy(adapter);
    ig_ctx_destroy(ctx);

    must(ig_synthetic_model_create("qwen3", IG_F32, &bytes));
    assert_memory_equal(bytes.bytes, "GGUF", 4);
    FILE *f = fopen(path, "rb");
    fseek(f, 0, SEEK_END);
    assert_int_equal(ftell(f), bytes.n_bytes);
    fclose(f);
    ig_string_deinit(&bytes);
}

static void an_unknown_model_is_an_error_that_lists_the_known_ones(void **state) {
    (void)state;
    ig_string bytes = {0};
    assert_string_equal(ig_synthetic_model_name(0), "llama");
    assert_null(ig_synthetic_model_name(1000));
    refused(ig_synthetic_model_create("parrot", IG_F32, &bytes), IG_ERR_ARGUMENT,
            "'parrot': must be one of llama, ");
    refused(ig_synthetic_model_create(NULL, IG_F32, &bytes), IG_ERR_ARGUMENT, "NULL");
    refused(ig_synthetic_model_write("llama", IG_F32, "/nowhere/at/all"), IG_ERR_IO, "/nowhere");
    assert_null(bytes.bytes);
}

static void a_plugin_passes_the_cases_of_an_op(void **state) {
    (void)state;
    ig_conformance *result = NULL;
    const ig_conformance_options options = {.op = "add"};
    must(ig_conformance_run_plugin(EXAMPLE_PLUGIN, &options, &result));
    const ig_conformance_count all = ig_conformance_total(result);
    const ig_conformance_count add = ig_conformance_at(result, IG_OP_ADD, IG_F32);
    assert_true(all.passed > 0 && all.failed == 0 && add.passed > 0);
    assert_string_equal(ig_conformance_complaint(result), "");
    assert_true(*ig_conformance_name(result));
    assert_non_null(ig_conformance_version(result));
    assert_int_equal(ig_conformance_at(result, IG_OP_COUNT, IG_F32).passed, 0);
    assert_int_equal(ig_conformance_at(result, IG_OP_ADD, (ig_dtype)-1).passed, 0);
    ig_conformance_destroy(result);
    ig_conformance_destroy(NULL);
}

static void what_is_no_plugin_is_an_error(void **state) {
    (void)state;
    ig_conformance *result = NULL;
    refused(ig_conformance_run_plugin("/nowhere.so", NULL, &result), IG_ERR_DEVICE, "nowhere.so");
    refused(ig_conformance_run_plugin(NULL, NULL, &result), IG_ERR_ARGUMENT, "NULL");
    refused(ig_conformance_run(NULL, NULL, &result), IG_ERR_ARGUMENT, "NULL");
    assert_null(result);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(a_synthetic_model_runs),
        cmocka_unit_test(an_unknown_model_is_an_error_that_lists_the_known_ones),
        cmocka_unit_test(a_plugin_passes_the_cases_of_an_op),
        cmocka_unit_test(what_is_no_plugin_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
