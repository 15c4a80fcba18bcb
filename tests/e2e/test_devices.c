/*
 * Devices and plugins as the program lists them.
 */
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
#include <jansson.h>

#include "directory.h"
#include "model/synthetic/synthetic_models.h"
#include "program.h"

static program_result run(const char *const *env, const char *const *args) {
    return program_run(INGOT_PROGRAM, args, &(program_options){.env = env});
}

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static json_t *devices_of(const char *const *env) {
    program_result r = run(env, ARGS("devices", "--json"));
    json_error_t error;
    assert_int_equal(r.code, 0);
    json_t *root = json_loads(r.out, 0, &error);
    if (!root) fail_msg("%s: %s", error.text, r.out);
    program_free(&r);
    return root;
}

static const json_t *find(const json_t *root, const char *name) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(root, "devices"), i,
                       row) if (strcmp(json_string_value(json_object_get(row, "name")), name) ==
                                0) return row;
    return NULL;
}

static void every_device_has_run_a_kernel(void **state) {
    (void)state;
    json_t *root = devices_of(ARGS("INGOT_PLUGIN_PATH="));
    for (int i = 0; i < 2; i++) {
        const json_t *row = find(root, i ? "cpu:0" : "ref:0");
        const json_t *kernel = json_object_get(row, "kernel");
        assert_true(json_is_true(json_object_get(row, "available")));
        assert_true(json_is_true(json_object_get(kernel, "ok")));
        assert_string_equal(json_string_value(json_object_get(kernel, "op")), "add");
        assert_true(json_array_size(json_object_get(row, "dtypes")) > 4);
    }
    const json_t *null = find(root, "null:0"), *kernel = json_object_get(null, "kernel");
    assert_int_equal(json_array_size(json_object_get(null, "dtypes")), 0); /* it has no kernels */
    assert_string_equal(json_string_value(json_object_get(null, "description")),
                        "computes nothing");
    assert_true(json_is_false(json_object_get(kernel, "ok")));
    assert_string_equal(json_string_value(json_object_get(kernel, "reason")),
                        "add gave 0; expected 1");
    json_decref(root);
}

static void what_is_not_there_is_listed_with_the_reason(void **state) {
    (void)state;
    json_t *root = devices_of(ARGS("INGOT_PLUGIN_PATH=" TEST_PLUGIN_DIR, "INGOT_PLUGIN_SECONDS=1"));
    static const struct {
        const char *name, *why;
    } rows[] = {
        {"older.so", "it is for ABI 0, older than this one's, which is 1"},
        {"absent", "the driver of absent is not installed"},
        {"crashes.so", "it died of signal 6 (Aborted) in a child process"},
        {"hangs.so", "it took longer than 1 s to load"},
        {"taken.so", "the name cpu is taken by what is built in"},
        {"exits.so", "it exited in the child process that loaded it"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const json_t *row = find(root, rows[i].name);
        if (!row) fail_msg("%s is not listed", rows[i].name);
        assert_true(json_is_false(json_object_get(row, "available")));
        assert_string_equal(json_string_value(json_object_get(row, "reason")), rows[i].why);
    }
    assert_non_null(find(root, "cpu:0"));
    const json_t *dies = json_object_get(find(root, "dies:0"), "kernel");
    assert_string_equal(json_string_value(json_object_get(dies, "reason")),
                        "it died of signal 6 (Aborted) in a child process");
    const json_t *lies = json_object_get(find(root, "lies:0"), "kernel");
    assert_true(json_is_false(json_object_get(lies, "ok")));
    assert_string_equal(json_string_value(json_object_get(lies, "reason")),
                        "add gave 0; expected 1");
    assert_non_null(find(root, "larger:0")); /* additional members are ignored */
    json_decref(root);
}

/* Wrong results are refused before anything runs, unless the device is named and the flag allows
 * it. */
static void a_device_that_computes_wrong_numbers_is_refused(void **state) {
    char model[PATH_BYTES];
    static const char *const devices[] = {"null", "lies"};
    const char *const *env = ARGS("INGOT_PLUGIN_PATH=" TEST_PLUGIN_DIR "/lies.so");
    if (model_save("llama", IG_F32, directory_path(state, "m.gguf", model)) != IG_OK)
        fail_msg("%s", ig_error_text());
    for (size_t i = 0; i < 2; i++) {
        char words[128];
        snprintf(words, sizeof words, "device %s:0: self-test failed: add gave 0", devices[i]);
        program_result r =
            run(env, ARGS("generate", "-m", model, "-p", "the", "-n", "2", "--device", devices[i]));
        if (r.code != 5 || !strstr(r.err, words)) fail_msg("%d: %s", r.code, r.err);
        assert_string_equal(r.out, "");
        program_free(&r);
        r = run(env, ARGS("generate", "-m", model, "-p", "the", "-n", "2", "--device", devices[i],
                          "--unsafe-device"));
        if (r.code == 5) fail_msg("%s", r.err);
        program_free(&r);
        r = run(env, ARGS("plan", "--device", devices[i]));
        if (r.code != 5 || !strstr(r.err, words)) fail_msg("%d: %s", r.code, r.err);
        program_free(&r);
    }
}

/* An option that the device never reads is refused with the device's name. */
static void compile_options_that_nothing_would_use_are_refused(void **state) {
    (void)state;
    const char *const *env = ARGS("INGOT_PLUGIN_PATH=" SIMNPU_PLUGIN);
    program_result r = run(env, ARGS("info", "--device", "cpu", "--precision", "fp16"));
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "device cpu:0 does not support --precision fp16"));
    program_free(&r);
    r = run(env, ARGS("info", "--device", "cpu", "--optimization-level", "3"));
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "device cpu:0 does not support --optimization-level"));
    program_free(&r);
    r = run(env,
            ARGS("info", "--device", "simnpu", "--precision", "fp16", "--optimization-level", "1"));
    if (r.code != 0) fail_msg("%s", r.err);
    program_free(&r);
    r = run(env, ARGS("archs", "--precision", "fp16"));
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--precision fp16: 'ingot archs' does not compile anything"));
    program_free(&r);
    r = run(env, ARGS("archs", "--optimization-level", "2"));
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "--optimization-level 2: 'ingot archs' does not compile"));
    program_free(&r);
}

/* The missing device may come from a plugin that could not be used. */
static void a_name_that_is_missed_comes_with_why_plugins_were_left_out(void **state) {
    (void)state;
    program_result r = program_run(
        INGOT_PROGRAM, (const char *const[]){"info", "--device", "newest", NULL},
        &(program_options){
            .env = (const char *const[]){"INGOT_PLUGIN_PATH=" TEST_PLUGIN_DIR "/newer.so", NULL}});
    assert_int_equal(r.code, 5);
    if (!strstr(r.err, "device newest: no such device; known: auto cpu") ||
        !strstr(r.err, "; newer.so is not loaded: it is for ABI 2, newer than this one's"))
        fail_msg("%s", r.err);
    program_free(&r);
}

static void a_wrong_name_lists_what_there_is_and_is_exit_code_5(void **state) {
    (void)state;
    program_result r = run(ARGS("INGOT_PLUGIN_PATH="), ARGS("demo", "--device", "vulcan"));
    assert_int_equal(r.code, 5);
    assert_non_null(strstr(r.err, "device vulcan: no such device; known: auto cpu vulkan ref"));
    program_free(&r);
    r = run(ARGS("INGOT_DEVICE=npu"), ARGS("archs"));
    assert_int_equal(r.code, 0); /* it computes nothing */
    program_free(&r);
}

static void a_plugin_in_the_current_folder_is_not_loaded(void **state) {
    char path[PATH_BYTES], command[3 * PATH_BYTES];
    snprintf(command, sizeof command, "cp %s %s/", EXAMPLE_PLUGIN, (const char *)*state);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command,
             "cd %s && INGOT_PLUGIN_PATH=backend_plugin.so:. %s devices --json > out.json",
             (const char *)*state, INGOT_PROGRAM);
    assert_int_equal(system(command), 0);
    json_error_t error;
    json_t *root = json_load_file(directory_path(state, "out.json", path), 0, &error);
    assert_null(find(root, "plain:0"));
    const json_t *row = find(root, "backend_plugin.so");
    assert_string_equal(json_string_value(json_object_get(row, "reason")),
                        "backend_plugin.so is not an absolute path");
    json_decref(root);
}

/* The marker of a passed plugin exists, and a plugin that changed is tried again. */
static void a_plugin_is_tried_once(void **state) {
    char cache[PATH_BYTES], plugin[PATH_BYTES], command[4 * PATH_BYTES];
    snprintf(cache, sizeof cache, "INGOT_CACHE_DIR=%s/cache", (const char *)*state);
    directory_path(state, "plain.so", plugin);
    for (int i = 0; i < 3; i++) {
        if (i != 1) {
            snprintf(command, sizeof command, "cp %s %s", EXAMPLE_PLUGIN, plugin);
            assert_int_equal(system(command), 0);
        }
        char path[2 * PATH_BYTES];
        snprintf(path, sizeof path, "INGOT_PLUGIN_PATH=%s", plugin);
        json_t *root = devices_of(ARGS(cache, path));
        assert_non_null(find(root, "plain:0"));
        json_decref(root);
        snprintf(command, sizeof command, "test $(ls %s/cache/plugins | wc -l) = %d",
                 (const char *)*state, i == 2 ? 3 : 2); /* simnpu is listed, too */
        assert_int_equal(system(command), 0);
    }
    snprintf(command, sizeof command, "rm -r %s/cache", (const char *)*state);
    assert_int_equal(system(command), 0);
}

static void a_plugin_may_call_the_program_that_loads_it(void **state) {
    (void)state;
    json_t *root = devices_of(ARGS("INGOT_PLUGIN_PATH=" TEST_PLUGIN_DIR "/calls/calls.so"));
    const json_t *row = find(root, "calls");
    assert_non_null(row);
    assert_string_equal(json_string_value(json_object_get(row, "reason")),
                        "calls: llm, shapes do not fit");
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(a_device_that_computes_wrong_numbers_is_refused),
        cmocka_unit_test(compile_options_that_nothing_would_use_are_refused),
        cmocka_unit_test(every_device_has_run_a_kernel),
        cmocka_unit_test(what_is_not_there_is_listed_with_the_reason),
        cmocka_unit_test(a_name_that_is_missed_comes_with_why_plugins_were_left_out),
        cmocka_unit_test(a_wrong_name_lists_what_there_is_and_is_exit_code_5),
        IN_DIRECTORY(a_plugin_in_the_current_folder_is_not_loaded),
        IN_DIRECTORY(a_plugin_is_tried_once),
        cmocka_unit_test(a_plugin_may_call_the_program_that_loads_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
