/*
 * ingot parity: devices agree within the declared tolerance; otherwise the exit code is nonzero.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "directory.h"
#include "ingot/model.h"
#include "model/synthetic/synthetic_models.h"
#include "program.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static json_t *run(const char *const *args, int code) {
    program_result r = program_run(INGOT_PROGRAM, args, NULL);
    if (r.code != code) fail_msg("%s %s: exit %d: %s", args[1], args[2], r.code, r.err);
    json_error_t error;
    json_t *root = json_loads(r.out, 0, &error);
    if (!root) fail_msg("%s: %s", error.text, r.out);
    program_free(&r);
    return root;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("%s is not a number", key);
    return json_number_value(value);
}

/* Whether a Vulkan driver is installed. */
static bool has_vulkan(void) {
    json_t *root = run(ARGS("devices", "--json"), 0);
    size_t i;
    json_t *row;
    bool vulkan = false;
    json_array_foreach(json_object_get(root, "devices"), i, row) {
        const char *name = json_string_value(json_object_get(row, "name"));
        vulkan |= strcmp(name, "vulkan:0") == 0 && json_is_true(json_object_get(row, "available"));
    }
    json_decref(root);
    return vulkan;
}

static void check_pairs(const char *arch, const json_t *root, size_t n_pairs) {
    const json_t *pairs = json_object_get(root, "pairs");
    size_t i;
    json_t *pair;
    assert_true(json_is_true(json_object_get(root, "ok")));
    assert_int_equal(json_array_size(pairs), n_pairs);
    json_array_foreach(pairs, i, pair) {
        if (!(number(pair, "error") <= number(pair, "tolerance"))) fail_msg("%s: error", arch);
        if (!(number(pair, "hidden") <= number(pair, "tolerance"))) fail_msg("%s: hidden", arch);
        assert_true(number(pair, "cosine") > 0.999999);
        assert_int_equal(number(pair, "n_tokens"), strcmp(arch, "bert") == 0 ? 0 : 12);
        assert_int_equal(number(pair, "n_same_tokens"), number(pair, "n_tokens"));
    }
}

/* Sanitizers need one architecture only: the code is the same for all that are read from files. */
#if defined(__SANITIZE_ADDRESS__)
enum { EVERY = 3 };
#else
enum { EVERY = 1 };
#endif

static void every_architecture_is_the_same_on_all_devices(void **state) {
    (void)state;
    const bool vulkan = has_vulkan();
    size_t n = 0;
    while (ig_arch_name(n)) n++;
    for (size_t i = 0; i < n; i += EVERY) {
        const char *arch = ig_arch_name(i);
        const bool four = vulkan && i == 0; /* software drivers are slow */
        const char *devices = four ? "cpu,ref,simnpu,vulkan" : "cpu,ref,simnpu";
        json_t *root =
            run(ARGS("parity", "--arch", arch, "--devices", devices, "-n", "12", "--json"), 0);
        check_pairs(arch, root, four ? 6 : 3);
        assert_string_equal(json_string_value(json_object_get(root, "model")), arch);
        const json_t *steps =
            json_object_get(json_object_get(root, "device_placement"), "simnpu:0");
        assert_true(json_integer_value(steps) > 0); /* not everything fell back */
        const json_t *first = json_array_get(json_object_get(root, "runs"), 0);
        assert_true(number(json_object_get(first, "latent_stats"), "std") > 0);
        json_decref(root);
    }
}

static void a_cache_of_bf16_is_the_same_on_all_devices(void **state) {
    (void)state;
    const char *devices = has_vulkan() ? "cpu,ref,simnpu,vulkan" : "cpu,ref,simnpu";
    json_t *root = run(ARGS("parity", "--arch", "llama", "--kv", "bf16", "--devices", devices, "-n",
                            "12", "--json"),
                       0);
    check_pairs("llama", root, has_vulkan() ? 6 : 3);
    json_decref(root);
}

static void a_model_of_quantized_weights_has_a_wider_tolerance(void **state) {
    char path[PATH_BYTES];
    if (model_save("llama", IG_Q4_K, directory_path(state, "m.gguf", path)) != IG_OK)
        fail_msg("%s", ig_error_text());
    json_t *root = run(ARGS("parity", "-m", path, "--devices", "ref,cpu", "--json"), 0);
    const json_t *pair = json_array_get(json_object_get(root, "pairs"), 0);
    assert_true(number(pair, "tolerance") > 0.01);
    assert_string_equal(json_string_value(json_object_get(pair, "tolerance_from")),
                        "q4_k: activations in int8");
    assert_true(number(pair, "error") > 1e-4); /* too much for float weights */
    json_decref(root);
}

/* A quantized activation may route to another expert: the median over the tokens decides, and one
 * tolerance holds for all quantized types. */
static void the_default_tolerances_hold_with_experts_and_blocks(void **state) {
    static const struct {
        const char *name;
        ig_dtype type;
    } rows[] = {{"llama", IG_Q4_K}, {"qwen3moe", IG_Q4_0}, {"qwen3moe", IG_Q4_K}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char path[PATH_BYTES];
        if (model_save(rows[i].name, rows[i].type, directory_path(state, "m.gguf", path)) != IG_OK)
            fail_msg("%s", ig_error_text());
        json_t *root =
            run(ARGS("parity", "-m", path, "--devices", "ref,cpu", "-n", "8", "--json"), 0);
        const json_t *pair = json_array_get(json_object_get(root, "pairs"), 0);
        const char *from = json_string_value(json_object_get(pair, "tolerance_from"));
        assert_int_equal(strstr(from, "median") != NULL, strcmp(rows[i].name, "qwen3moe") == 0);
        json_decref(root);
    }
}

/* Every dtype that weights can have has a row of its own, and devices are within it. */
static void every_dtype_of_weights_has_a_tolerance_of_its_own(void **state) {
    static const ig_dtype dtypes[] = {IG_F32,  IG_F16,    IG_BF16,   IG_Q4_0, IG_Q4_1, IG_Q5_0,
                                      IG_Q5_1, IG_Q8_0,   IG_Q2_K,   IG_Q3_K, IG_Q4_K, IG_Q5_K,
                                      IG_Q6_K, IG_IQ4_NL, IG_IQ4_XS, IG_MXFP4};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i += EVERY) {
        char path[PATH_BYTES], wanted[32];
        snprintf(wanted, sizeof wanted, "%s: ", ig_dtype_name(dtypes[i]));
        if (model_save("llama", dtypes[i], directory_path(state, "m.gguf", path)) != IG_OK)
            fail_msg("%s", ig_error_text());
        json_t *root =
            run(ARGS("parity", "-m", path, "--devices", "ref,cpu", "-n", "4", "--json"), 0);
        const json_t *pair = json_array_get(json_object_get(root, "pairs"), 0);
        const char *from = json_string_value(json_object_get(pair, "tolerance_from"));
        if (strncmp(from, wanted, strlen(wanted)) != 0) fail_msg("%s%s", wanted, from);
        assert_true(number(pair, "tolerance") == (dtypes[i] >= IG_Q4_0 ? 0.1 : 1e-4));
        json_decref(root);
    }
}

static void beyond_the_tolerance_is_exit_code_1(void **state) {
    (void)state;
    static const struct {
        const char *devices, *tolerance;
    } rows[] = {{"ref,cpu", "1e-12"}, {"ref,null", "0.5"}, {"null,ref", "0.5"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *root = run(ARGS("parity", "--arch", "llama", "--devices", rows[i].devices, "--json",
                                "--tolerance", rows[i].tolerance, "--unsafe-device"),
                           1);
        assert_true(json_is_false(json_object_get(root, "ok")));
        const json_t *pair = json_array_get(json_object_get(root, "pairs"), 0);
        assert_true(json_is_false(json_object_get(pair, "ok")));
        if (i > 0) assert_true(number(pair, "cosine") == 0); /* only zeros */
        assert_non_null(
            json_string_value(json_object_get(json_object_get(root, "error"), "message")));
        json_decref(root);
    }
}

static void the_same_weights_come_in_every_run(void **state) {
    (void)state;
    json_t *a = run(ARGS("parity", "--arch", "gpt", "--json"), 0);
    json_t *b = run(ARGS("parity", "--arch", "gpt", "--json"), 0);
    assert_true(json_equal(json_object_get(a, "runs"), json_object_get(b, "runs")));
    assert_true(json_equal(json_object_get(a, "pairs"), json_object_get(b, "pairs")));
    json_decref(b);
    json_decref(a);
}

static void one_device_is_compared_with_the_oracle(void **state) {
    (void)state;
    json_t *root = run(ARGS("parity", "--arch", "gpt", "--device", "simnpu", "--json"), 0);
    const json_t *pair = json_array_get(json_object_get(root, "pairs"), 0);
    const json_t *devices = json_object_get(pair, "devices");
    assert_string_equal(json_string_value(json_array_get(devices, 0)), "ref");
    assert_string_equal(json_string_value(json_array_get(devices, 1)), "simnpu");
    json_decref(root);
}

static void the_table_has_a_row_for_each_device_and_each_pair(void **state) {
    (void)state;
    program_result r = program_run(
        INGOT_PROGRAM, ARGS("parity", "--arch", "llm", "--devices", "cpu,ref,simnpu"), NULL);
    int lines = 0;
    assert_int_equal(r.code, 0);
    for (const char *at = r.out; *at; at++) lines += *at == '\n';
    assert_int_equal(lines, 2 + 1 + 3 + 1 + 1 + 3);
    assert_non_null(strstr(r.out, "within tolerance"));
    program_free(&r);
}

static void what_cannot_be_compared_is_said(void **state) {
    (void)state;
    static const struct {
        const char *arch, *devices;
        int code;
        const char *words;
    } rows[] = {
        {"parrot", "cpu,ref", 2, "--arch parrot: unknown architecture; expected one of: llm gpt"},
        {"llm", "cpu", 2, "at least two are needed"},
        {"llm", "cpu,,ref", 2, "comma-separated names"},
        {"llm", "cpu,npu:7", 5, "npu:7"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        program_result r =
            program_run(INGOT_PROGRAM,
                        ARGS("parity", "--arch", rows[i].arch, "--devices", rows[i].devices), NULL);
        assert_int_equal(r.code, rows[i].code);
        if (!strstr(r.err, rows[i].words)) fail_msg("%s", r.err);
        program_free(&r);
    }
    program_result r =
        program_run(INGOT_PROGRAM,
                    ARGS("parity", "--arch", "llama", "--devices", "cpu,ref", "-n", "120"), NULL);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--n-predict: 19 and 120 tokens, but the context is 128"));
    program_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture_is_the_same_on_all_devices),
        cmocka_unit_test(a_cache_of_bf16_is_the_same_on_all_devices),
        IN_DIRECTORY(a_model_of_quantized_weights_has_a_wider_tolerance),
        IN_DIRECTORY(the_default_tolerances_hold_with_experts_and_blocks),
        IN_DIRECTORY(every_dtype_of_weights_has_a_tolerance_of_its_own),
        cmocka_unit_test(beyond_the_tolerance_is_exit_code_1),
        cmocka_unit_test(the_same_weights_come_in_every_run),
        cmocka_unit_test(one_device_is_compared_with_the_oracle),
        cmocka_unit_test(the_table_has_a_row_for_each_device_and_each_pair),
        cmocka_unit_test(what_cannot_be_compared_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
