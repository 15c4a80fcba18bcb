/*
 * The compile cache as seen by processes: compiled once for all of them, valid after being copied
 * elsewhere, missed for every changed input and for no other reason, and complete whenever a
 * process is killed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "directory.h"
#include "model/synthetic/synthetic_models.h"
#include "program.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A folder with two models, one trained one step more than the other. */
typedef struct fixture {
    char directory[256], model[PATH_BYTES], other[PATH_BYTES];
} fixture;

static char *in_folder(const fixture *f, const char *name, char out[PATH_BYTES]) {
    snprintf(out, PATH_BYTES, "%s/%s", f->directory, name);
    return out;
}

static void shell(const char *format, ...) {
    char command[8 * PATH_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (system(command) != 0) fail_msg("%s", command);
}

static program_result run_with(const char *cache, const char *more_env, const char *const *args) {
    char env[PATH_BYTES + 32];
    snprintf(env, sizeof env, "INGOT_CACHE_DIR=%s", cache);
    return program_run(INGOT_PROGRAM, args,
                       &(program_options){.env = ARGS(env, more_env ? more_env : "UNUSED=")});
}

static json_t *json_with(const char *cache, const char *more_env, const char *const *args) {
    program_result r = run_with(cache, more_env, args);
    json_error_t error;
    if (r.code != 0) fail_msg("%d: %s", r.code, r.err);
    json_t *root = json_loads(r.out, JSON_ALLOW_NUL, &error);
    if (!root) fail_msg("%s: %s", error.text, r.out);
    program_free(&r);
    return root;
}

static int make_models(void **state) {
    fixture *f = calloc(1, sizeof *f);
    const char *base = getenv("TMPDIR");
    snprintf(f->directory, sizeof f->directory, "%s/ingot-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(f->directory)) return -1;
    *state = f;
    char text[PATH_BYTES];
    shell("for i in $(seq 300); do echo \"line $((i % 17)) of a small text\"; done > %s",
          in_folder(f, "text", text));
    in_folder(f, "model.oam", f->model);
    in_folder(f, "other.oam", f->other);
    const char *const paths[] = {f->model, f->other}, *const steps[] = {"30", "31"};
    for (int i = 0; i < 2; i++) {
        program_result r =
            run_with(f->directory, NULL,
                     ARGS("train", "-q", "--arch", "llm", "-d", text, "--d-model", "32", "--layers",
                          "2", "--heads", "2", "-c", "64", "-n", steps[i], "-o", paths[i]));
        if (r.code != 0) fail_msg("%s", r.err);
        program_free(&r);
    }
    return 0;
}

static int remove_models(void **state) {
    fixture *f = *state;
    shell("rm -rf %s", f->directory);
    free(f);
    return 0;
}

#define GENERATE(model)                                                                         \
    "generate", "-m", model, "--device", "simnpu", "-p", "line 3 of", "-n", "6", "--temp", "0", \
        "--json"

static int64_t cached(const json_t *r, const char *key) {
    return json_integer_value(json_object_get(json_object_get(r, "compile_cache"), key));
}

/* Creates an empty cache for a test. */
static const char *fresh(const fixture *f, const char *name, char out[PATH_BYTES]) {
    shell("rm -rf %s", in_folder(f, name, out));
    return out;
}

/* ---- hits ---- */

/* Index of the first event of this name in the report; -1: none. */
static int event_at(const json_t *report, const char *name) {
    size_t i;
    const json_t *event;
    json_array_foreach(json_object_get(report, "stream_events"), i,
                       event) if (strcmp(json_string_value(json_object_get(event, "event")),
                                         name) == 0) return (int)i;
    return -1;
}

static void a_second_start_compiles_nothing_and_says_the_same(void **state) {
    const fixture *f = *state;
    char cache[PATH_BYTES];
    fresh(f, "cache", cache);
    json_t *cold = json_with(cache, NULL, ARGS(GENERATE(f->model)));
    json_t *again = json_with(cache, NULL, ARGS(GENERATE(f->model)));
    assert_true(cached(cold, "misses") > 0);
    assert_int_equal(cached(again, "hits"), cached(cold, "misses"));
    assert_int_equal(cached(again, "misses"), 0);
    const json_t *how = json_object_get(again, "compile_cache");
    assert_true(json_real_value(json_object_get(how, "compile_ms")) == 0);
    static const char *const same[] = {"tokens", "backend_timeline"};
    for (int i = 0; i < 2; i++)
        assert_true(json_equal(json_object_get(cold, same[i]), json_object_get(again, same[i])));
    assert_true(0 <= event_at(cold, "compile"));
    assert_true(event_at(cold, "compile") < event_at(cold, "cache_store"));
    assert_true(event_at(cold, "cache_store") < event_at(cold, "decode"));
    assert_true(0 <= event_at(again, "cache_hit"));
    assert_true(event_at(again, "cache_hit") < event_at(again, "decode"));
    assert_int_equal(event_at(again, "compile"), -1);
    json_t *stats = json_with(cache, NULL, ARGS("cache", "stats", "--json"));
    assert_int_equal(json_integer_value(json_object_get(stats, "hits")), cached(again, "hits"));
    assert_int_equal(json_integer_value(json_object_get(stats, "misses")), cached(cold, "misses"));
    assert_true(json_real_value(json_object_get(stats, "hit_rate")) == 0.5);
    json_decref(stats);
    json_decref(again);
    json_decref(cold);
}

static void neither_home_nor_host_nor_folder_is_part_of_a_key(void **state) {
    const fixture *f = *state;
    char cache[PATH_BYTES], moved[PATH_BYTES];
    fresh(f, "cache", cache);
    fresh(f, "moved", moved);
    json_decref(json_with(cache, NULL, ARGS(GENERATE(f->model))));
    shell("cp -r %s %s && cp %s %s/elsewhere.oam", cache, moved, f->model, f->directory);
    char model[PATH_BYTES];
    static const char *const env[] = {"HOME=/nowhere", "HOSTNAME=another", "LANG=de_DE.UTF-8"};
    for (size_t i = 0; i < 3; i++) {
        json_t *r = json_with(moved, env[i], ARGS(GENERATE(in_folder(f, "elsewhere.oam", model))));
        assert_true(cached(r, "hits") > 0);
        assert_int_equal(cached(r, "misses"), 0);
        json_decref(r);
    }
}

/* ---- misses ---- */

/* Asserts that `cache why` names the input for the most recently used entry. */
static void assert_named(const char *cache, const char *name) {
    json_t *why = json_with(cache, NULL, ARGS("cache", "why", "--json"));
    const json_t *differ = json_object_get(why, "differ");
    bool named = false;
    size_t i;
    const json_t *item;
    json_array_foreach(differ, i, item) named |= strcmp(json_string_value(item), name) == 0;
    if (!named || json_array_size(differ) != 1)
        fail_msg("%s: %s", name, json_dumps(differ, JSON_COMPACT));
    json_decref(why);
}

static void every_input_that_changed_is_a_miss_that_why_names(void **state) {
    const fixture *f = *state;
    static const struct {
        const char *name, *flag, *value, *plugin;
        bool other_model;
    } rows[] = {
        {"weights", "--precision", "f32", NULL, true},
        {"precision", "--precision", "int8", NULL, false},
        {"optimization_level", "--optimization-level", "3", NULL, false},
        {"batch_sizes", "--batch-sizes", "1,2,4,8,16,32,64", NULL, false},
        {"version", "--precision", "f32", "version", false},
        {"architecture", "--precision", "f32", "architecture", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char cache[PATH_BYTES], plugin[2 * PATH_BYTES] = "UNUSED=";
        fresh(f, "cache", cache);
        const bool plain = strcmp(rows[i].flag, "--precision") == 0;
        json_decref(plain ? json_with(cache, NULL, ARGS(GENERATE(f->model), "--precision", "f32"))
                          : json_with(cache, NULL, ARGS(GENERATE(f->model))));
        if (rows[i].plugin)
            snprintf(plugin, sizeof plugin, "INGOT_PLUGIN_PATH=%s/simnpu/%s.so", TEST_PLUGIN_DIR,
                     rows[i].plugin);
        json_t *r = json_with(
            cache, plugin,
            ARGS(GENERATE(rows[i].other_model ? f->other : f->model), rows[i].flag, rows[i].value));
        if (cached(r, "hits") != 0) fail_msg("%s: a hit", rows[i].name);
        assert_true(cached(r, "misses") > 0);
        json_decref(r);
        assert_named(cache, rows[i].name);
    }
}

/* Creates a llama GGUF file with matrices of this type. */
static const char *make_llama(const fixture *f, ig_dtype type, char path[PATH_BYTES]) {
    char name[32];
    snprintf(name, sizeof name, "%s.gguf", ig_dtype_name(type));
    if (model_save("llama", type, in_folder(f, name, path)) != IG_OK)
        fail_msg("%s", ig_error_text());
    return path;
}

static void one_bit_of_a_weight_is_a_miss_that_why_names(void **state) {
    const fixture *f = *state;
    char cache[PATH_BYTES], model[PATH_BYTES];
    fresh(f, "cache", cache);
    make_llama(f, IG_F32, model);
    json_decref(json_with(cache, NULL, ARGS(GENERATE(model))));
    FILE *file = fopen(model, "r+b"); /* the last bytes belong to the last matrix */
    fseek(file, -4096, SEEK_END);
    const int byte = fgetc(file);
    fseek(file, -4096, SEEK_END);
    fputc(byte ^ 1, file);
    fclose(file);
    json_t *r = json_with(cache, NULL, ARGS(GENERATE(model)));
    assert_true(cached(r, "misses") > 0);
    assert_true(cached(r, "hits") > 0); /* the other layers are unchanged */
    json_decref(r);
    json_t *list = json_with(cache, NULL, ARGS("cache", "ls", "--json"));
    size_t i, named = 0;
    const json_t *row;
    json_array_foreach(json_object_get(list, "entries"), i, row) {
        json_t *why = json_with(
            cache, NULL,
            ARGS("cache", "why", json_string_value(json_object_get(row, "key")), "--json"));
        const json_t *differ = json_object_get(why, "differ");
        named += json_array_size(differ) == 1 &&
                 strcmp(json_string_value(json_array_get(differ, 0)), "weights") == 0;
        json_decref(why);
    }
    assert_true(named >= 2); /* before and after, each the other's nearest */
    json_decref(list);
}

/* Each dtype that the device supports, prefill and decode: most of the model runs there, and
 * another dtype gives another program. */
static void models_of_every_type_that_it_reads_run_on_the_npu(void **state) {
    const fixture *f = *state;
    static const ig_dtype types[] = {IG_F32, IG_BF16, IG_Q8_0};
    char cache[PATH_BYTES], model[PATH_BYTES];
    fresh(f, "cache", cache);
    for (size_t t = 0; t < 3; t++) {
        make_llama(f, types[t], model);
        json_t *r = json_with(cache, NULL, ARGS(GENERATE(model)));
        assert_int_equal(cached(r, "hits"), 0);
        size_t i, there = 0;
        const json_t *entry;
        json_array_foreach(json_object_get(r, "backend_timeline"), i, entry) {
            const json_t *first = json_array_get(json_object_get(entry, "attempts"), 0);
            there += strcmp(json_string_value(json_object_get(entry, "device")), "simnpu:0") == 0 &&
                     json_is_true(json_object_get(first, "selected"));
        }
        if (there < 6) fail_msg("%s: %zu segments", ig_dtype_name(types[t]), there);
        if (t == 0) {
            json_t *cpu = json_with(cache, NULL,
                                    ARGS("generate", "-m", model, "--device", "cpu", "-p",
                                         "line 3 of", "-n", "6", "--temp", "0", "--json"));
            assert_true(json_equal(json_object_get(r, "tokens"), json_object_get(cpu, "tokens")));
            json_decref(cpu);
        } else {
            json_t *why = json_with(cache, NULL, ARGS("cache", "why", "--json"));
            char *differ = json_dumps(json_object_get(why, "differ"), JSON_COMPACT);
            assert_string_equal(differ, "[\"weight_bytes\",\"dtypes\",\"weights\"]");
            free(differ);
            json_decref(why);
        }
        json_decref(r);
    }
}

#define ON_CPU(model)                                                                        \
    "generate", "-m", model, "--device", "cpu", "-p", "line 3 of", "-n", "6", "--temp", "0", \
        "--json"

static int64_t weights(const json_t *r, const char *key) {
    return json_integer_value(json_object_get(json_object_get(r, "weight_cache"), key));
}

static void a_full_cache_disk_is_reported(void **state) {
    const fixture *f = *state;
    char cache[PATH_BYTES], model[PATH_BYTES];
    struct rlimit before, small;
    fresh(f, "cache", cache);
    make_llama(f, IG_Q4_0, model);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 4000;
    setrlimit(RLIMIT_FSIZE, &small);
    program_result said = run_with(cache, NULL,
                                   ARGS("generate", "-m", model, "--device", "cpu", "-p", "line",
                                        "-n", "2", "--temp", "0", "--cache-weights"));
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(said.code, 0);
    const char *warning = strstr(said.err, ".weights");
    assert_non_null(warning);
    assert_null(strstr(warning + 1, ".weights")); /* once */
    program_free(&said);
}

static void packed_weights_are_cached_on_request(void **state) {
    const fixture *f = *state;
    char cache[PATH_BYTES], model[PATH_BYTES];
    fresh(f, "cache", cache);
    make_llama(f, IG_Q4_0, model);
    json_t *plain = json_with(cache, NULL, ARGS(ON_CPU(model)));
    assert_int_equal(weights(plain, "stored"), 0);
    program_result said = run_with(cache, NULL, ARGS(ON_CPU(model), "--cache-weights"));
    assert_non_null(strstr(said.err, "of weights stored in the cache"));
    json_t *first = json_loads(said.out, JSON_ALLOW_NUL, NULL);
    program_free(&said);
    assert_true(weights(first, "stored") > 0);
    assert_true(weights(first, "stored_bytes") > 0);
    said = run_with(cache, NULL, ARGS(ON_CPU(model), "--cache-weights"));
    assert_non_null(strstr(said.err, "of weights from the cache"));
    json_t *second = json_loads(said.out, JSON_ALLOW_NUL, NULL);
    program_free(&said);
    assert_int_equal(weights(second, "stored"), 0);
    assert_int_equal(weights(second, "hits"), weights(first, "stored"));
    assert_int_equal(weights(second, "hit_bytes"), weights(first, "stored_bytes"));
    json_t *stats = json_with(cache, NULL, ARGS("cache", "stats", "--json"));
    const json_t *found = json_object_get(stats, "weights");
    assert_int_equal(json_integer_value(json_object_get(found, "hits")), weights(first, "stored"));
    assert_int_equal(json_integer_value(json_object_get(found, "misses")),
                     weights(first, "stored"));
    json_decref(stats);
    json_t *why = json_with(cache, NULL, ARGS("cache", "why", "--json"));
    const json_t *inputs = json_object_get(why, "inputs");
    assert_true(json_string_length(json_object_get(inputs, "shapes")) > 0);
    assert_null(json_object_get(inputs, "backend")); /* backends share layouts */
    json_decref(why);
    shell("for f in %s/programs/*.weights; do printf XXXXXXXX | dd of=$f bs=1 seek=900 "
          "conv=notrunc 2>/dev/null; done",
          cache);
    json_t *damaged = json_with(cache, NULL, ARGS(ON_CPU(model), "--cache-weights"));
    assert_int_equal(cached(damaged, "damaged"), weights(first, "stored"));
    const json_t *const all[] = {first, second, damaged};
    for (size_t i = 0; i < 3; i++)
        assert_true(
            json_equal(json_object_get(all[i], "tokens"), json_object_get(plain, "tokens")));
    json_decref(damaged);
    json_decref(second);
    json_decref(first);
    json_decref(plain);
}

/* Another user who may write there might have left something: the folder is neither read nor added
 * to, and the program warns. */
static void a_folder_that_others_may_write_to_is_not_used(void **state) {
    const fixture *f = *state;
    char cache[PATH_BYTES], model[PATH_BYTES];
    fresh(f, "cache", cache);
    make_llama(f, IG_Q4_0, model);
    json_decref(json_with(cache, NULL, ARGS(ON_CPU(model), "--cache-weights")));
    shell("chmod 777 %s/programs", cache);
    program_result said = run_with(cache, NULL, ARGS(ON_CPU(model), "--cache-weights"));
    assert_non_null(strstr(said.err, "programs: others may write to it (chmod go-w)"));
    json_t *root = json_loads(said.out, JSON_ALLOW_NUL, NULL);
    assert_int_equal(weights(root, "hits") + weights(root, "stored"), 0);
    json_decref(root);
    program_free(&said);
    shell("chmod 700 %s/programs", cache);
}

/* The second run verifies the entries again, since they were too new to be trusted; the third does
 * not. Both notice a file that changes after that. */
static void what_was_found_sound_is_not_read_again_until_it_changes(void **state) {
    const fixture *f = *state;
    char cache[PATH_BYTES], model[PATH_BYTES];
    fresh(f, "cache", cache);
    make_llama(f, IG_Q4_0, model);
    json_decref(json_with(cache, NULL, ARGS(ON_CPU(model), "--cache-weights")));
    sleep(3);
    json_decref(json_with(cache, NULL, ARGS(ON_CPU(model), "--cache-weights")));
    shell("test $(ls %s/digests | wc -l) -gt 2", cache);
    json_t *v = json_with(cache, NULL, ARGS("cache", "verify", "--json"));
    const json_t *files = json_object_get(v, "digests");
    assert_true(json_integer_value(json_object_get(files, "sound")) > 2);
    assert_int_equal(json_integer_value(json_object_get(files, "wrong")), 0);
    json_decref(v);
    json_t *before = json_with(cache, NULL, ARGS(ON_CPU(model), "--cache-weights"));
    shell("for f in %s/programs/*.weights; do printf XXXXXXXX | dd of=$f bs=1 seek=900 "
          "conv=notrunc 2>/dev/null; done",
          cache);
    json_t *after = json_with(cache, NULL, ARGS(ON_CPU(model), "--cache-weights"));
    assert_int_equal(cached(after, "damaged"), weights(before, "hits"));
    assert_true(json_equal(json_object_get(after, "tokens"), json_object_get(before, "tokens")));
    json_decref(after);
    json_decref(before);
}

static void nothing_is_cached_or_used_with_the_cache_off(void **state) {
    const fixture *f = *state;
    char cache[PATH_BYTES];
    fresh(f, "cache", cache);
    json_decref(json_with(cache, NULL, ARGS(GENERATE(f->model), "--no-cache")));
    shell("test ! -e %s/programs", cache);
    json_decref(json_with(cache, NULL, ARGS(GENERATE(f->model))));
    json_t *r = json_with(cache, NULL, ARGS(GENERATE(f->model), "--no-cache"));
    assert_int_equal(cached(r, "hits"), 0);
    json_decref(r);
    shell("chmod 0777 %s/programs", cache); /* anybody could have put something there */
    r = json_with(cache, NULL, ARGS(GENERATE(f->model)));
    assert_int_equal(cached(r, "hits"), 0);
    json_decref(r);
}

/* ---- many at once, and those that are killed ---- */

static void eight_at_once_compile_once(void **state) {
    enum { COUNT = 8 };
    const fixture *f = *state;
    char cache[PATH_BYTES], alone[PATH_BYTES], env[PATH_BYTES + 32];
    fresh(f, "cache", cache);
    json_t *one = json_with(fresh(f, "alone", alone), NULL, ARGS(GENERATE(f->model)));
    const int64_t needed = cached(one, "misses");
    pid_t children[COUNT];
    int files[COUNT];
    snprintf(env, sizeof env, "INGOT_CACHE_DIR=%s", cache);
    for (int i = 0; i < COUNT; i++) {
        char path[PATH_BYTES], name[32];
        snprintf(name, sizeof name, "out-%d", i);
        files[i] = open(in_folder(f, name, path), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        children[i] = program_start(INGOT_PROGRAM, ARGS(GENERATE(f->model), "-q"),
                                    &(program_options){.env = ARGS(env), .out_fd = files[i]});
    }
    int64_t misses = 0, hits = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(program_wait(children[i]), 0);
        lseek(files[i], 0, SEEK_SET);
        char *text = program_read_all(files[i], NULL);
        json_t *r = json_loads(text, JSON_ALLOW_NUL, NULL);
        assert_true(json_equal(json_object_get(r, "tokens"), json_object_get(one, "tokens")));
        misses += cached(r, "misses");
        hits += cached(r, "hits");
        json_decref(r);
        free(text);
        close(files[i]);
    }
    assert_int_equal(misses, needed);
    assert_int_equal(hits, (COUNT - 1) * needed);
    json_t *verified = json_with(cache, NULL, ARGS("cache", "verify", "--json"));
    assert_int_equal(json_integer_value(json_object_get(verified, "damaged")), 0);
    json_decref(verified);
    json_decref(one);
}

static void killed_at_any_moment_nothing_is_damaged_and_nothing_is_left(void **state) {
    enum { TRIES = 24 };
    const fixture *f = *state;
    char cache[PATH_BYTES], env[PATH_BYTES + 32];
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    fresh(f, "cache", cache);
    snprintf(env, sizeof env, "INGOT_CACHE_DIR=%s", cache);
    for (int i = 0; i < TRIES; i++) {
        const pid_t child = program_start(
            INGOT_PROGRAM, ARGS(GENERATE(f->model), "-q"),
            &(program_options){.env = ARGS(env), .out_fd = nowhere, .err_fd = nowhere});
        usleep(10000 + (useconds_t)i * 7000);
        kill(child, SIGKILL);
        (void)program_wait(child);
        json_t *v = json_with(cache, NULL, ARGS("cache", "verify", "--json"));
        assert_int_equal(json_integer_value(json_object_get(v, "damaged")), 0);
        json_decref(v);
        if (i % 4 == 3) shell("rm -f %s/programs/*.npu", cache); /* so that there is work */
    }
    close(nowhere);
    shell("rm -f %s/programs/*.npu", cache);
    json_decref(json_with(cache, NULL, ARGS(GENERATE(f->model))));
    shell("test -z \"$(ls %s/programs | grep -v -e '[.]npu$' -e '^lock$' -e '^counts$')\"", cache);
}

/* ---- what is seen ---- */

/* Counts "compile: 45% ..." lines and asserts that they never decrease. */
static int count_percents(const char *text) {
    int count = 0, last = 0;
    for (const char *at = text; (at = strstr(at, "compile")); at++) {
        const char *percent = strchr(at, '%');
        if (!percent) break;
        const char *number = percent;
        while (number > at && number[-1] >= '0' && number[-1] <= '9') number--;
        const int now = atoi(number);
        if (now < last && last != 100) fail_msg("%d%% after %d%%", now, last);
        last = now;
        count++;
    }
    return count;
}

static void progress_is_shown_and_the_second_run_says_where_programs_came_from(void **state) {
    const fixture *f = *state;
    char cache[PATH_BYTES];
    fresh(f, "cache", cache);
    program_result r = run_with(cache, NULL, ARGS(GENERATE(f->model)));
    assert_true(count_percents(r.err) >= 2);
    assert_non_null(strstr(r.err, "compile: 100%"));
    assert_null(strstr(r.err, "from the cache"));
    program_free(&r);
    r = run_with(cache, NULL, ARGS(GENERATE(f->model)));
    assert_null(strstr(r.err, "compile: 100%"));
    assert_non_null(strstr(r.err, "programs from the cache: "));
    program_free(&r);
    r = run_with(cache, NULL, ARGS(GENERATE(f->model), "-q"));
    assert_string_equal(r.err, "");
    program_free(&r);
}

static void on_a_terminal_there_is_a_bar(void **state) {
    const fixture *f = *state;
    char cache[PATH_BYTES], env[PATH_BYTES + 32];
    fresh(f, "cache", cache);
    snprintf(env, sizeof env, "INGOT_CACHE_DIR=%s", cache);
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) skip();
    const int end = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (end < 0) skip();
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    const pid_t child = program_start(INGOT_PROGRAM, ARGS(GENERATE(f->model), "--color", "never"),
                                      &(program_options){.env = ARGS(env, "TERM=xterm", "LC_ALL=C"),
                                                         .out_fd = nowhere,
                                                         .err_fd = end});
    close(end);
    char text[1 << 16] = "";
    size_t used = 0;
    for (ssize_t got; used < sizeof text - 1; used += (size_t)got)
        if ((got = read(terminal, text + used, sizeof text - 1 - used)) <= 0) break;
    assert_int_equal(program_wait(child), 0);
    close(nowhere);
    close(terminal);
    if (!strstr(text, "\r\033[Kcompile  ###") || !strstr(text, "100%")) fail_msg("%s", text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_start_compiles_nothing_and_says_the_same),
        cmocka_unit_test(neither_home_nor_host_nor_folder_is_part_of_a_key),
        cmocka_unit_test(every_input_that_changed_is_a_miss_that_why_names),
        cmocka_unit_test(one_bit_of_a_weight_is_a_miss_that_why_names),
        cmocka_unit_test(models_of_every_type_that_it_reads_run_on_the_npu),
        cmocka_unit_test(a_full_cache_disk_is_reported),
        cmocka_unit_test(packed_weights_are_cached_on_request),
        cmocka_unit_test(a_folder_that_others_may_write_to_is_not_used),
        cmocka_unit_test(what_was_found_sound_is_not_read_again_until_it_changes),
        cmocka_unit_test(nothing_is_cached_or_used_with_the_cache_off),
        cmocka_unit_test(eight_at_once_compile_once),
        cmocka_unit_test(killed_at_any_moment_nothing_is_damaged_and_nothing_is_left),
        cmocka_unit_test(progress_is_shown_and_the_second_run_says_where_programs_came_from),
        cmocka_unit_test(on_a_terminal_there_is_a_bar),
    };
    return cmocka_run_group_tests(tests, make_models, remove_models);
}
