/*
 * A compiling device: simnpu generates the same text as the CPU, its programs are cached, and
 * damage to them does not change the text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "directory.h"
#include "program.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static program_result run(const char *cache, const char *const *args) {
    char env[PATH_BYTES + 32];
    snprintf(env, sizeof env, "INGOT_CACHE_DIR=%s", cache);
    return program_run(INGOT_PROGRAM, args, &(program_options){.env = ARGS(env)});
}

static json_t *json_of(const char *cache, const char *const *args) {
    program_result r = run(cache, args);
    json_error_t error;
    if (r.code != 0) fail_msg("%s", r.err);
    json_t *root = json_loads(r.out, 0, &error);
    if (!root) fail_msg("%s: %s", error.text, r.out);
    program_free(&r);
    return root;
}

/* Trains a small model of the architecture for some steps. */
static void make_model(void **state, const char *arch, char path[PATH_BYTES]) {
    char data[PATH_BYTES];
    directory_path(state, "text.txt", data);
    FILE *f = fopen(data, "w");
    for (int i = 0; i < 200; i++) fprintf(f, "line %d of a small text\n", i % 17);
    fclose(f);
    directory_path(state, arch, path);
    program_result r =
        run(*state, ARGS("train", "-q", "--arch", arch, "-d", data, "--d-model", "32", "--layers",
                         "2", "--heads", "2", "-c", "64", "-n", "30", "-o", path));
    if (r.code != 0) fail_msg("%s", r.err);
    program_free(&r);
}

static json_t *generate(void **state, const char *model, const char *device) {
    return json_of(*state, ARGS("generate", "-m", model, "--device", device, "-p", "line 3 of",
                                "-n", "20", "--temp", "0", "--json"));
}

static int64_t cached(const json_t *r, const char *key) {
    return json_integer_value(json_object_get(json_object_get(r, "compile_cache"), key));
}

static void clean(void **state) {
    char command[2 * PATH_BYTES];
    snprintf(command, sizeof command, "cd %s && rm -rf programs plugins digests",
             (const char *)*state);
    assert_int_equal(system(command), 0);
}

static void every_architecture_says_the_same_on_cpu_ref_and_simnpu(void **state) {
    static const char *const archs[] = {"llm", "gpt", "tinyllm"};
    for (size_t i = 0; i < 3; i++) {
        char model[PATH_BYTES];
        make_model(state, archs[i], model);
        json_t *cpu = generate(state, model, "cpu"), *ref = generate(state, model, "ref");
        json_t *npu = generate(state, model, "npu");
        assert_true(json_equal(json_object_get(cpu, "tokens"), json_object_get(ref, "tokens")));
        assert_true(json_equal(json_object_get(cpu, "tokens"), json_object_get(npu, "tokens")));
        assert_string_equal(json_string_value(json_object_get(npu, "backend")), "simnpu:0");
        assert_true(json_integer_value(json_object_get(npu, "moved_bytes")) > 0);
        json_decref(npu);
        json_decref(ref);
        json_decref(cpu);
    }
    clean(state);
}

/* A prompt is split into ubatches for which the device has programs: embeddings and norms, which
 * it supports, never run elsewhere. */
static void rows_are_cut_as_batch_sizes_say(void **state) {
    static const char *const lists[] = {"1,8,64", "8,32", "24,1,3,3"};
    char model[PATH_BYTES];
    make_model(state, "llm", model);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        json_t *r = json_of(*state, ARGS("generate", "-m", model, "--device", "npu", "-p",
                                         "line 3 of a small text, and of another", "-n", "3",
                                         "--temp", "0", "--json", "--batch-sizes", lists[i]));
        const json_t *fallback;
        size_t k;
        json_array_foreach(json_object_get(r, "fallbacks"), k, fallback) {
            const char *why = json_string_value(json_object_get(fallback, "reason"));
            if (strstr(why, "embedding") || strstr(why, "norm") || strstr(why, "matmul"))
                fail_msg("%s: %s", lists[i], why);
        }
        assert_true(k > 0); /* KV caches always run elsewhere */
        json_decref(r);
    }
    /* Few batch sizes far apart: prefill does not run row by row. */
    json_t *far = json_of(*state, ARGS("generate", "-m", model, "--device", "npu", "-p",
                                       "line 3 of a small text, and of another", "-n", "1",
                                       "--temp", "0", "--json", "--batch-sizes", "1,64"));
    const json_t *counters = json_object_get(far, "counters");
    assert_true(json_integer_value(json_object_get(counters, "replays")) < 4);
    json_decref(far);
    clean(state);
}

/* The parts that are equal in every run: modules, devices and attempts. */
static void the_timeline_is_the_same_cold_warm_and_cached(void **state) {
    char model[PATH_BYTES];
    make_model(state, "llm", model);
    json_t *cold = generate(state, model, "simnpu"), *again = generate(state, model, "simnpu");
    assert_true(cached(cold, "misses") > 0);
    assert_int_equal(cached(again, "misses"), 0);
    assert_true(cached(again, "hits") > 0);
    assert_true(json_equal(json_object_get(cold, "backend_timeline"),
                           json_object_get(again, "backend_timeline")));
    json_decref(again);
    json_decref(cold);
    clean(state);
}

static void random_bytes_in_every_entry_change_nothing_but_the_count(void **state) {
    char model[PATH_BYTES], command[4 * PATH_BYTES];
    make_model(state, "llm", model);
    json_t *before = generate(state, model, "simnpu");
    snprintf(command, sizeof command,
             "for f in %s/programs/*; do printf XXXXXXXX | dd of=$f bs=1 seek=700 conv=notrunc "
             "2>/dev/null; done",
             (const char *)*state);
    assert_int_equal(system(command), 0);
    json_t *after = generate(state, model, "simnpu");
    assert_true(cached(after, "damaged") > 0);
    assert_int_equal(cached(after, "misses"), cached(before, "misses")); /* all of them */
    assert_true(json_equal(json_object_get(before, "text"), json_object_get(after, "text")));
    json_decref(after);
    json_decref(before);
    json_t *verified = json_of(*state, ARGS("cache", "verify", "--json"));
    assert_int_equal(json_integer_value(json_object_get(verified, "damaged")), 0);
    json_decref(verified);
    clean(state);
}

static void the_cache_can_be_listed_explained_and_cleared(void **state) {
    char model[PATH_BYTES];
    make_model(state, "llm", model);
    json_decref(generate(state, model, "simnpu"));
    json_t *stats = json_of(*state, ARGS("cache", "stats", "--json"));
    const json_int_t entries = json_integer_value(json_object_get(stats, "entries"));
    assert_true(entries > 1);
    json_decref(stats);
    json_t *list = json_of(*state, ARGS("cache", "ls", "--json"));
    const json_t *row = json_array_get(json_object_get(list, "entries"), 0);
    assert_int_equal(json_array_size(json_object_get(list, "entries")), entries);
    assert_string_equal(json_string_value(json_object_get(row, "backend")), "simnpu");
    json_decref(list);
    json_t *why = json_of(*state, ARGS("cache", "why", "--json"));
    assert_true(json_array_size(json_object_get(why, "differ")) > 0);
    json_decref(why);
    json_t *cleared = json_of(*state, ARGS("cache", "clear", "--json"));
    assert_int_equal(json_integer_value(json_object_get(cleared, "removed")), entries);
    json_decref(cleared);
    clean(state);
}

/* The fields of reference/report.md, for successful and failed runs. */
static void a_report_is_written_also_when_strict_ends_the_run(void **state) {
    static const char *const fields[] = {"run_id",
                                         "task",
                                         "model",
                                         "backend",
                                         "job_id",
                                         "trace_id",
                                         "worker_id",
                                         "enqueued_at_ms",
                                         "queue_wait_ms",
                                         "execution_mode",
                                         "timings",
                                         "memory",
                                         "backend_timeline",
                                         "config_resolved",
                                         "artifacts",
                                         "error",
                                         "latent_stats",
                                         "cache_hits",
                                         "device_placement",
                                         "batch_size",
                                         "batch_group_id",
                                         "stream_events",
                                         "schema_version"};
    char model[PATH_BYTES], path[PATH_BYTES];
    make_model(state, "llm", model);
    directory_path(state, "report.json", path);
    for (int strict = 0; strict < 2; strict++) {
        program_result r =
            run(*state, ARGS("generate", "-m", model, "--device", "simnpu", "-q", "-n", "4", "-p",
                             "line", "--report", path, strict ? "--strict" : "--json"));
        assert_int_equal(r.code, strict ? 5 : 0);
        program_free(&r);
        json_error_t error;
        json_t *report = json_load_file(path, 0, &error);
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
            if (!json_object_get(report, fields[i])) fail_msg("%s is missing", fields[i]);
        const json_t *failure = json_object_get(report, "error");
        if (!strict) {
            assert_true(json_is_null(failure));
        } else {
            assert_string_equal(json_string_value(json_object_get(failure, "name")),
                                "BackendUnavailable");
            assert_non_null(strstr(json_string_value(json_object_get(failure, "message")),
                                   "strict: simnpu:0 has no kernel for rope"));
        }
        json_decref(report);
    }
    clean(state);
}

static void plugins_pass_the_conformance_cases_or_say_which_fail(void **state) {
    static const char *const sound[] = {SIMNPU_PLUGIN, EXAMPLE_PLUGIN};
    for (size_t i = 0; i < 2; i++) {
        json_t *r = json_of(*state, ARGS("plugin", "check", sound[i], "--json"));
        assert_true(json_is_true(json_object_get(r, "ok")));
        assert_true(json_integer_value(json_object_get(r, "passed")) > 10);
        assert_int_equal(json_integer_value(json_object_get(r, "failed")), 0);
        json_decref(r);
    }
    program_result bad = run(*state, ARGS("plugin", "check", TEST_PLUGIN_DIR "/older.so"));
    assert_int_equal(bad.code, 5);
    assert_non_null(strstr(bad.err, "it is for ABI 0, older than this one's"));
    program_free(&bad);
    bad = run(*state, ARGS("plugin", "check", TEST_PLUGIN_DIR "/sound.so")); /* takes nothing */
    assert_int_equal(bad.code, 1);
    assert_non_null(strstr(bad.err, "the backend accepted no case"));
    program_free(&bad);
    bad = run(*state, ARGS("plugin", "check", SIMNPU_PLUGIN, "--op", "nothing"));
    assert_int_equal(bad.code, 2);
    assert_non_null(strstr(bad.err, "--op 'nothing': there is no such op"));
    program_free(&bad);
    bad = run(*state, ARGS("plugin", "check", SIMNPU_PLUGIN, "--op", "custom"));
    assert_int_equal(bad.code, 2);
    assert_non_null(strstr(bad.err, "--op 'custom': no conformance case runs this op"));
    program_free(&bad);
    bad = run(*state, ARGS("plugin", "check", SIMNPU_PLUGIN, "--op", "softmax"));
    assert_int_equal(bad.code, 0); /* missing dtypes that only other ops test are not an error */
    program_free(&bad);
    static const char lies[] = TEST_PLUGIN_DIR "/lies.so";
    bad = run(*state, ARGS("plugin", "check", lies, "--op", "add"));
    assert_int_equal(bad.code, 1);
    program_free(&bad);
    bad = run(*state, ARGS("plugin", "check", TEST_PLUGIN_DIR "/dies.so"));
    assert_int_equal(bad.code, 5);
    assert_non_null(strstr(bad.err, "it died of signal 6 (Aborted)"));
    program_free(&bad);
    clean(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(every_architecture_says_the_same_on_cpu_ref_and_simnpu),
        IN_DIRECTORY(rows_are_cut_as_batch_sizes_say),
        IN_DIRECTORY(the_timeline_is_the_same_cold_warm_and_cached),
        IN_DIRECTORY(random_bytes_in_every_entry_change_nothing_but_the_count),
        IN_DIRECTORY(the_cache_can_be_listed_explained_and_cleared),
        IN_DIRECTORY(a_report_is_written_also_when_strict_ends_the_run),
        IN_DIRECTORY(plugins_pass_the_conformance_cases_or_say_which_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
