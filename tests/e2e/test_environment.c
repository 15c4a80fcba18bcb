/*
 * Options that are not given come from the environment and the user's config; given options win.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "directory.h"
#include "program.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void put_config(void **state, const char *bytes, size_t n_bytes) {
    char path[PATH_BYTES];
    directory_path(state, "ingot", path);
    mkdir(path, 0700);
    directory_path(state, "ingot/config.json", path);
    unlink(path);
    if (!bytes) return;
    FILE *file = fopen(path, "w");
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
}

/* Runs with the folder as the location of configs and caches. */
static program_result run_at(void **state, const char *program, const char *const *args,
                             const char *a, const char *b) {
    char config[2 * PATH_BYTES], cache[2 * PATH_BYTES];
    snprintf(config, sizeof config, "XDG_CONFIG_HOME=%s", (const char *)*state);
    snprintf(cache, sizeof cache, "XDG_CACHE_HOME=%s/cache", (const char *)*state);
    const char *env[] = {config,
                         cache,
                         "INGOT_CACHE_DIR=",
                         "RM_CACHE_DIR=",
                         a ? a : "INGOT_DEVICE=",
                         b ? b : "RM_DEVICE=",
                         NULL};
    return program_run(program, args, &(program_options){.env = env});
}

static program_result run_example(void **state, const char *name, const char *a, const char *b) {
    char program[PATH_BYTES];
    snprintf(program, sizeof program, "%s/%s", EXAMPLE_DIR, name);
    return run_at(state, program, ARGS(NULL), a, b);
}

static program_result run_program(void **state, const char *const *args) {
    return run_at(state, INGOT_PROGRAM, args, NULL, NULL);
}

static void clean(void **state) {
    char command[2 * PATH_BYTES];
    snprintf(command, sizeof command, "rm -rf %s/*", (const char *)*state);
    assert_int_equal(system(command), 0);
}

static void argument_beats_environment_beats_config_beats_default(void **state) {
    static const char on_ref[] = "{\"device\": \"ref\"}", on_npu[] = "{\"device\": \"npu\"}";
    static const struct {
        const char *config, *a, *b; /* NULL: none */
        const char *program, *says;
    } rows[] = {
        {NULL, NULL, NULL, "basic_usage", "on cpu:0\n"},
        {on_ref, NULL, NULL, "basic_usage", "on ref:0\n"},
        {on_npu, NULL, NULL, "basic_usage", "on simnpu:0\n"},
        {on_npu, NULL, "RM_DEVICE=ref", "basic_usage", "on ref:0\n"},
        {on_npu, "INGOT_DEVICE=ref", NULL, "basic_usage", "on ref:0\n"},
        {NULL, "INGOT_DEVICE=ref", "RM_DEVICE=simnpu", "basic_usage", "on ref:0\n"},
        {NULL, NULL, "RM_DEVICE=npu:0", "basic_usage", "on simnpu:0\n"},
        {on_ref, "INGOT_DEVICE=auto", NULL, "basic_usage", "on cpu:0\n"},
        {on_ref, "INGOT_DEVICE=cpu", "RM_DEVICE=ref", "npu_compilation", "\"simnpu:0\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put_config(state, rows[i].config, rows[i].config ? strlen(rows[i].config) : 0);
        program_result r = run_example(state, rows[i].program, rows[i].a, rows[i].b);
        if (r.code != 0 || !strstr(r.out, rows[i].says))
            fail_msg("row %zu: exit %d: %s%s", i, r.code, r.out, r.err);
        program_free(&r);
    }
    clean(state);
}

static void a_wrong_name_in_the_environment_lists_what_there_is(void **state) {
    program_result r = run_example(state, "basic_usage", "INGOT_DEVICE=gpu:9", NULL);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "gpu:9"));
    program_free(&r);
    r = run_example(state, "basic_usage", NULL, "RM_DEVICE=abacus");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "device abacus: no such device; known: auto cpu vulkan ref"));
    program_free(&r);
    clean(state);
}

static bool is_there(void **state, const char *name) {
    char path[PATH_BYTES];
    return access(directory_path(state, name, path), F_OK) == 0;
}

static void the_cache_is_where_the_environment_says(void **state) {
    static const struct {
        const char *a, *b, *config; /* "@" is the folder */
        const char *place;
    } rows[] = {
        {NULL, NULL, NULL, "cache/ingot/programs"},
        {NULL, NULL, "{\"cache_dir\": \"@/conf\"}", "conf/programs"},
        {NULL, "RM_CACHE_DIR=@/rm", "{\"cache_dir\": \"@/neither\"}", "rm/programs"},
        {"INGOT_CACHE_DIR=@/own", NULL, "{\"cache_dir\": \"@/neither\"}", "own/programs"},
        {"INGOT_CACHE_DIR=@/both", "RM_CACHE_DIR=@/neither", NULL, "both/programs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char set[3][2 * PATH_BYTES];
        const char *const said[] = {rows[i].a, rows[i].b, rows[i].config};
        for (int k = 0; k < 3; k++) {
            const char *at = said[k] ? strchr(said[k], '@') : NULL;
            if (at)
                snprintf(set[k], sizeof set[k], "%.*s%s%s", (int)(at - said[k]), said[k],
                         (const char *)*state, at + 1);
        }
        put_config(state, rows[i].config ? set[2] : NULL, rows[i].config ? strlen(set[2]) : 0);
        program_result r = run_example(state, "npu_compilation", rows[i].a ? set[0] : NULL,
                                       rows[i].b ? set[1] : NULL);
        if (r.code != 0) fail_msg("%s", r.err);
        if (!is_there(state, rows[i].place)) fail_msg("row %zu: no %s", i, rows[i].place);
        assert_false(is_there(state, "neither"));
        program_free(&r);
        clean(state);
    }
}

/* Every key at once, for a program that sets the device and the precision itself. */
static void options_not_given_come_from_the_config(void **state) {
    char config[4 * PATH_BYTES], place[2 * PATH_BYTES];
    snprintf(config, sizeof config,
             "{\"device\": \"ref\", \"cache_dir\": \"%s/conf\", \"strict\": true,\n"
             " \"verbose\": true, \"compile_options\": {\"optimization_level\": 3,\n"
             " \"precision\": \"int8\", \"batch_sizes\": [8, 64]}}",
             (const char *)*state);
    put_config(state, config, strlen(config));
    snprintf(place, sizeof place, "\"cache_dir\":\"%s/conf/programs\"", (const char *)*state);
    const char *const says[] = {"\"device\":\"simnpu:0\"", "\"strict\":true", place,
                                "{\"optimization_level\":\"3\",\"precision\":\"bf16\","
                                "\"batch_sizes\":\"8,64\"}"};
    program_result r = run_example(state, "npu_compilation", NULL, NULL);
    if (r.code != 0) fail_msg("%s", r.err);
    for (size_t i = 0; i < sizeof says / sizeof says[0]; i++)
        if (!strstr(r.out, says[i])) fail_msg("no %s in %s", says[i], r.out);
    assert_non_null(strstr(r.err, "ingot: device npu is simnpu:0")); /* verbose */
    assert_true(is_there(state, "conf/programs"));
    program_free(&r);
    r = run_program(state, ARGS("cache", "stats", "--json"));
    if (r.code != 0 || !strstr(r.out, "/conf/programs")) fail_msg("%s%s", r.out, r.err);
    program_free(&r);
    clean(state);
}

static void a_wrong_config_is_an_error_with_file_and_line(void **state) {
#define TEXT(text) text, sizeof text - 1
    static const struct {
        const char *bytes;
        size_t n_bytes;
        const char *words;
    } rows[] = {
        {TEXT("{\n  \"device\": 3\n}"), "ingot/config.json:2: device: is not a string"},
        {TEXT("{\n\n  \"devise\": \"cpu\"}"),
         "ingot/config.json:3: devise: known keys: \"device\""},
        {TEXT("{\n  \"plugins\": [\"here.so\"]}"),
         "config.json:2: plugins: entry 1 is not an absolute"},
        {TEXT("{\n  \"device\": \"cpu\",\n  oops}"),
         "config.json: it is not JSON: expected a key (line 3, "},
        {TEXT("{\"device\": \"cpu\", \"device\": \"ref\"}"), "(line 1, "},
        {TEXT("[]"), "config.json:1: is not a JSON object"},
        {TEXT(""), "(line 1, "},
        {TEXT("\0\xff\xfe"), "(line 1, "},
        {TEXT("{\"device\": \"abacus\"}"), "device abacus: no such device"},
        {TEXT("{\"device\": \"\"}"), "config.json:1: device: is not a string"},
        {TEXT("{\n \"cache_dir\": \"here\"}"), "config.json:2: cache_dir: is not an absolute path"},
        {TEXT("{\"strict\": 1}"), "config.json:1: strict: is not true or false"},
        {TEXT("{\"verbose\": \"yes\"}"), "config.json:1: verbose: is not true"},
        {TEXT("{\"plugins\": \"/a.so\"}"), "config.json:1: plugins: is not a list"},
        {TEXT("{\"compile_options\": 3}"), "config.json:1: compile_options: is not an object"},
        {TEXT("{\"compile_options\":\n {\"level\": 3}}"),
         "config.json:2: level: known keys: \"optimization_level\""},
        {TEXT("{\"compile_options\": {\"optimization_level\": 4}}"),
         "optimization_level: is not a number from 1 to 3"},
        {TEXT("{\"compile_options\": {\"batch_sizes\": [1, \"2\"]}}"),
         "batch_sizes: is not a list of positive integers"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put_config(state, rows[i].bytes, rows[i].n_bytes);
        program_result r = run_example(state, "basic_usage", NULL, NULL);
        if (r.code != 1 || !strstr(r.err, rows[i].words))
            fail_msg("row %zu: exit %d: %s", i, r.code, r.err);
        program_free(&r);
    }
    char *longer = malloc(1 << 17);
    memset(longer, ' ', 1 << 17);
    put_config(state, longer, 1 << 17);
    free(longer);
    program_result r = run_example(state, "basic_usage", NULL, NULL);
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "is longer than 65536 bytes"));
    program_free(&r);
    clean(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(argument_beats_environment_beats_config_beats_default),
        IN_DIRECTORY(a_wrong_name_in_the_environment_lists_what_there_is),
        IN_DIRECTORY(the_cache_is_where_the_environment_says),
        IN_DIRECTORY(options_not_given_come_from_the_config),
        IN_DIRECTORY(a_wrong_config_is_an_error_with_file_and_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
