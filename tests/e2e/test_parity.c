/*
 * ingot parity: devices agree within the tolerance that is declared, and where they
 * do not, the exit code says so.
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
    if (!json_is_number(value)) fail_msg("%s is no number", key);
    return json_number_value(value);
}

/* A driver of Vulkan may be there or not. */
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
        assert_int_equal(number(pair, "greedy"), strcmp(arch, "bert") == 0 ? 0 : 12);
        assert_int_equal(number(pair, "greedy_same"), number(pair, "greedy"));
    }
}

/* Sanitizers look at how it is done, which is the same for all that are read from files. */
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
        const bool four = vulkan && i == 0; /* a driver in software takes long */
        const char *devices = four ? "cpu,ref,simnpu,vulkan" : "cpu,ref,simnpu";
        json_t *root =
            run(ARGS("parity", "--arch", arch, "--devices", devices, "-n", "12", "--json"), 0);
        check_pairs(arch, root, four ? 6 : 3);
        assert_string_equal(json_string_value(json_object_get(root, "model")), arch);
        const json_t *steps =
            json_object_get(json_object_get(root, "device_placement"), "simnpu:0");
        assert_true(json_integer_value(steps) > 0); /* it did not all go elsewhere */
        const json_t *first = json_array_get(json_object_get(root, "runs"), 0);
        assert_true(number(json_object_get(first, "latent_stats"), "std") > 0);
        json_decref(root);
    }
}

static void a_model_of_quantised_weights_has_a_wider_tolerance(void **state) {
    char path[PATH_BYTES];
    if (model_save("llama", IG_Q4_K, directory_path(state, "m.gguf", path)) != IG_OK)
        fail_msg("%s", ig_error_text());
    json_t *root = run(ARGS("parity", "-m", path, "--devices", "ref,cpu", "--json"), 0);
    const json_t *pair = json_array_get(json_object_get(root, "pairs"), 0);
    assert_true(number(pair, "tolerance") > 0.01);
    assert_true(number(pair, "error") > 1e-4); /* which float weights would not be allowed */
    json_decref(root);
}

static void beyond_the_tolerance_is_exit_code_1(void **state) {
    (void)state;
    static const struct {
        const char *devices, *tolerance;
    } rows[] = {{"ref,cpu", "1e-12"}, {"ref,null", "0.5"}, {"null,ref", "0.5"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *root = run(ARGS("parity", "--arch", "llama", "--devices", rows[i].devices, "--json",
                                "--tolerance", rows[i].tolerance),
                           1);
        assert_true(json_is_false(json_object_get(root, "ok")));
        const json_t *pair = json_array_get(json_object_get(root, "pairs"), 0);
        assert_true(json_is_false(json_object_get(pair, "ok")));
        if (i > 0) assert_true(number(pair, "cosine") == 0); /* with nothing but zeros */
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
        {"parrot", "cpu,ref", 3, "there is no architecture parrot; there are: llm gpt"},
        {"llm", "cpu", 2, "two at least are needed"},
        {"llm", "cpu,,ref", 2, "names with commas between"},
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
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture_is_the_same_on_all_devices),
        IN_DIRECTORY(a_model_of_quantised_weights_has_a_wider_tolerance),
        cmocka_unit_test(beyond_the_tolerance_is_exit_code_1),
        cmocka_unit_test(the_same_weights_come_in_every_run),
        cmocka_unit_test(one_device_is_compared_with_the_oracle),
        cmocka_unit_test(the_table_has_a_row_for_each_device_and_each_pair),
        cmocka_unit_test(what_cannot_be_compared_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
