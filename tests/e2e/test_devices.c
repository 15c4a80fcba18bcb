/*
 * Devices and plugins as the program shows them.
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
    const json_t *kernel = json_object_get(find(root, "null:0"), "kernel"); /* computes nothing */
    assert_true(json_is_false(json_object_get(kernel, "ok")));
    assert_string_equal(json_string_value(json_object_get(kernel, "reason")),
                        "add gave 0 where 1 is right");
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
        {"crashes.so", "it died of signal 6 (Aborted) when it was tried"},
        {"hangs.so", "it took longer than 1 s to load"},
        {"taken.so", "the name cpu is taken by what is built in"},
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
                        "it died of signal 6 (Aborted) when it was tried");
    assert_non_null(find(root, "larger:0")); /* what it has more is not looked at */
    json_decref(root);
}

/* The device that is missed may be one of a plugin that could not be used. */
static void a_name_that_is_missed_comes_with_why_plugins_were_left_out(void **state) {
    (void)state;
    program_result r = program_run(
        INGOT_PROGRAM, (const char *const[]){"info", "--device", "newest", NULL},
        &(program_options){
            .env = (const char *const[]){"INGOT_PLUGIN_PATH=" TEST_PLUGIN_DIR "/newer.so", NULL}});
    assert_int_equal(r.code, 5);
    if (!strstr(r.err, "device newest: there is none; there are: auto cpu") ||
        !strstr(r.err, "; newer.so is not loaded: it is for ABI 2, newer than this one's"))
        fail_msg("%s", r.err);
    program_free(&r);
}

static void a_wrong_name_lists_what_there_is_and_is_exit_code_5(void **state) {
    (void)state;
    program_result r = run(ARGS("INGOT_PLUGIN_PATH="), ARGS("demo", "--device", "vulcan"));
    assert_int_equal(r.code, 5);
    assert_non_null(strstr(r.err, "device vulcan: there is none; there are: auto cpu ref"));
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

/* The file that says that a plugin has passed is there, and a plugin that changed is tried anew. */
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
                 (const char *)*state, i == 2 ? 3 : 2); /* simnpu is there, too */
        assert_int_equal(system(command), 0);
    }
    snprintf(command, sizeof command, "rm -r %s/cache", (const char *)*state);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_device_has_run_a_kernel),
        cmocka_unit_test(what_is_not_there_is_listed_with_the_reason),
        cmocka_unit_test(a_name_that_is_missed_comes_with_why_plugins_were_left_out),
        cmocka_unit_test(a_wrong_name_lists_what_there_is_and_is_exit_code_5),
        IN_DIRECTORY(a_plugin_in_the_current_folder_is_not_loaded),
        IN_DIRECTORY(a_plugin_is_tried_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
