/*
 * Failing devices: whatever a plugin does, the CPU computes the same answer and the report quotes
 * the plugin's error, or the program ends with exit code 5 and names the plugin.
 *
 * tests/plugins/far.c fails as FAR_FAILS says.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>
#include <unistd.h>

#include "directory.h"
#include "model/synthetic/synthetic_models.h"
#include "program.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

#define FAR_PLUGIN TEST_PLUGIN_DIR "/far/far.so"
static const char far_path[] = "INGOT_PLUGIN_PATH=" FAR_PLUGIN;

/* A model, the CPU's answer, and a cache that stays empty. */
typedef struct fixture {
    char directory[256], model[PATH_BYTES];
    json_t *right;
} fixture;

static program_result generate(const fixture *f, const char *device, const char *fails,
                               const char *flag, const char *more_env) {
    char how[64], cache[PATH_BYTES];
    snprintf(how, sizeof how, "FAR_FAILS=%s", fails);
    snprintf(cache, sizeof cache, "INGOT_CACHE_DIR=%s/cache", f->directory);
    return program_run(
        INGOT_PROGRAM,
        ARGS("generate", "-m", f->model, "--device", device, "-p", "hello there", "-n", "4",
             "--temp", "0", "--json", "-q", flag),
        &(program_options){.env = ARGS(how, cache, far_path, more_env ? more_env : "UNUSED=")});
}

static json_t *json_of(program_result *r) {
    json_error_t error;
    if (r->code != 0) fail_msg("%d: %s", r->code, r->err);
    json_t *root = json_loads(r->out, JSON_ALLOW_NUL, &error);
    if (!root) fail_msg("%s", error.text);
    program_free(r);
    return root;
}

static int make_model(void **state) {
    fixture *f = calloc(1, sizeof *f);
    const char *base = getenv("TMPDIR");
    snprintf(f->directory, sizeof f->directory, "%s/ingot-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(f->directory)) return -1;
    snprintf(f->model, sizeof f->model, "%s/llama.gguf", f->directory);
    if (model_save("llama", IG_F32, f->model) != IG_OK) return -1;
    program_result r = generate(f, "cpu", "", "--no-cache", NULL);
    f->right = json_of(&r);
    *state = f;
    return 0;
}

static int remove_model(void **state) {
    fixture *f = *state;
    char command[512];
    snprintf(command, sizeof command, "rm -rf %s", f->directory);
    json_decref(f->right);
    free(f);
    return system(command);
}

/* Whether the timeline has an attempt with this level and exactly this text, apart from the source
 * location after it. */
static bool is_in_timeline(const json_t *report, const char *device, const char *level,
                           const char *words) {
    size_t i, k;
    const json_t *entry, *attempt;
    json_array_foreach(json_object_get(report, "backend_timeline"), i, entry) {
        if (strcmp(json_string_value(json_object_get(entry, "device")), device) != 0) continue;
        assert_int_equal(json_array_size(json_object_get(entry, "attempts")), 3);
        json_array_foreach(json_object_get(entry, "attempts"), k, attempt) {
            const char *reason = json_string_value(json_object_get(attempt, "reason"));
            if (strcmp(json_string_value(json_object_get(attempt, "level")), level) == 0 &&
                !json_is_true(json_object_get(attempt, "ok")) &&
                strncmp(reason, words, strlen(words)) == 0)
                return true;
        }
    }
    return false;
}

/* What fails, how the report describes it, and whether another device must take over. */
static const struct row {
    const char *fails, *flag, *level, *words;
    bool elsewhere;
} rows[] = {
    {"compile", "--no-cache", "compile", "far: ", false},
    {"override", "--no-cache", "kernel_override", "far: no override of ", false},
    {"submit", "--no-cache", "compile", "far: ", false},
    {"always", "--no-cache", "eager", "far: 1 steps caught fire", true},
    {"status", "--no-cache", "compile", "far:0: submit() gave status 4711", true},
    {"nothing", "--no-cache", "compile", "far:0: compile() made no program", true},
    {"number", "--no-cache", "compile", "far:0: compile() gave status 4711", true},
    {"crash", "--isolate-plugin", "compile",
     FAR_PLUGIN ": its process died of signal 11 (Segmentation fault)", true},
    {"hang", "--isolate-plugin", "compile", FAR_PLUGIN ": no answer within 1 s", true},
    {"later", "--no-cache", "compile", "far: ", true},
    {"costly", "--no-cache", "compile", "far: ", true},
    {"gone", "--isolate-plugin", "compile",
     FAR_PLUGIN ": its process died of signal 11 (Segmentation fault)", true},
};

static void whatever_fails_the_answer_is_right_and_the_reason_is_reported(void **state) {
    const fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        program_result r = generate(f, "far", row->fails, row->flag, "INGOT_PLUGIN_SECONDS=1");
        if (r.code != 0) fail_msg("%s: %d: %s", row->fails, r.code, r.err);
        json_t *report = json_of(&r);
        if (!json_equal(json_object_get(report, "tokens"), json_object_get(f->right, "tokens")))
            fail_msg("%s: other tokens", row->fails);
        if (!is_in_timeline(report, "far:0", row->level, row->words))
            fail_msg("%s: %s: %s is not told", row->fails, row->level, row->words);
        const json_t *fallbacks = json_object_get(report, "fallbacks");
        assert_int_equal(json_array_size(fallbacks) > 0, row->elsewhere);
        if (row->elsewhere) {
            const json_t *first = json_array_get(fallbacks, 0);
            assert_string_equal(json_string_value(json_object_get(first, "to")), "cpu:0");
            assert_true(json_is_integer(json_object_get(first, "bytes_moved")));
            assert_true(json_real_value(json_object_get(first, "ms_lost")) >= 0);
        }
        json_decref(report);
    }
}

static void strict_ends_with_exit_code_5_and_the_plugins_name(void **state) {
    const fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].flag, "--no-cache") != 0) continue; /* one flag at a time */
        program_result r = generate(f, "far", rows[i].fails, "--strict", NULL);
        if (r.code != 5 || !strstr(r.err, "far"))
            fail_msg("%s: %d: %s", rows[i].fails, r.code, r.err);
        program_free(&r);
    }
}

static void absurd_answers_end_with_exit_code_5_and_the_plugins_name(void **state) {
    const fixture *f = *state;
    static const char *const fails[] = {"count", "open", "alloc", "scratch", "prepare"};
    for (size_t i = 0; i < sizeof fails / sizeof fails[0]; i++) {
        program_result r = generate(f, "far", fails[i], "--no-cache", NULL);
        if (r.code != 5 || !strstr(r.err, "far")) fail_msg("%s: %d: %s", fails[i], r.code, r.err);
        program_free(&r);
    }
}

/* A device that runs out of memory gives exit code 4, and NaN from a device names it. */
static void memory_and_nan_of_a_device_name_it(void **state) {
    const fixture *f = *state;
    program_result r = generate(f, "far", "memory", "--no-cache", NULL);
    if (r.code != 4 || !strstr(r.err, "out of memory: far: no room for "))
        fail_msg("%d: %s", r.code, r.err);
    program_free(&r);
    r = generate(f, "far", "nan", "--no-cache", NULL);
    if (r.code != 1 || !strstr(r.err, "not finite on device far:0"))
        fail_msg("%d: %s", r.code, r.err);
    program_free(&r);
}

/* An .oam model, with the data that it was trained on beside it. */
static void train_model(fixture *f) {
    char text[PATH_BYTES];
    snprintf(text, sizeof text, "%s/text", f->directory);
    snprintf(f->model, sizeof f->model, "%s/llm.oam", f->directory);
    FILE *file = fopen(text, "w");
    for (int i = 0; file && i < 100; i++) fprintf(file, "line %d of a small text\n", i);
    assert_true(file && fclose(file) == 0);
    program_result r =
        program_run(INGOT_PROGRAM,
                    ARGS("train", "-q", "--arch", "llm", "-d", text, "--d-model", "16", "--layers",
                         "1", "--heads", "2", "-c", "16", "-b", "2", "-n", "2", "-o", f->model),
                    NULL);
    if (r.code != 0) fail_msg("%s", r.err);
    program_free(&r);
}

/* A device that lacks the dtypes of the weights, or memory for them, is refused before anything is
 * loaded: the timeline begins with it, and strict ends there. */
static void a_device_that_lacks_what_a_model_needs_is_left_before_loading(void **state) {
    const fixture *f = *state;
    fixture blocks = *f;
    snprintf(blocks.model, sizeof blocks.model, "%s/blocks.gguf", f->directory);
    if (model_save("llama", IG_Q4_0, blocks.model) != IG_OK) fail_msg("no model of blocks");
    fixture trained = *f;
    train_model(&trained);
    const struct {
        const fixture *f;
        const char *device, *name, *fails, *why;
    } lacks[] = {
        {f, "far", "far:0", "small", "far:0 has 1000 bytes of memory, and the weights take "},
        {&trained, "far", "far:0", "small",
         "far:0 has 1000 bytes of memory, and the weights take "},
        {&blocks, "simnpu", "simnpu:0", "", "simnpu:0 has no kernels for q4_0 weights"},
    };
    for (size_t i = 0; i < sizeof lacks / sizeof lacks[0]; i++) {
        program_result r =
            generate(lacks[i].f, lacks[i].device, lacks[i].fails, "--no-cache", NULL);
        json_t *report = json_of(&r);
        const json_t *first = json_array_get(json_object_get(report, "backend_timeline"), 0);
        assert_string_equal(json_string_value(json_object_get(first, "module")), "model");
        if (!is_in_timeline(report, lacks[i].name, "compile", lacks[i].why))
            fail_msg("%s: no such refusal", lacks[i].device);
        const json_t *places = json_object_get(report, "device_placement");
        assert_null(json_object_get(places, lacks[i].name));
        json_decref(report);
        r = generate(lacks[i].f, lacks[i].device, lacks[i].fails, "--strict", NULL);
        if (r.code != 5 || !strstr(r.err, lacks[i].why)) fail_msg("%d: %s", r.code, r.err);
        program_free(&r);
    }
}

/* Training from an .oam file, too. */
static void training_leaves_such_a_device_before_loading(void **state) {
    const fixture *f = *state;
    fixture trained = *f;
    char text[PATH_BYTES], out[PATH_BYTES];
    train_model(&trained);
    snprintf(text, sizeof text, "%s/text", f->directory);
    snprintf(out, sizeof out, "%s/out.oam", f->directory);
    static const char why[] = "far:0 has 1000 bytes of memory, and the weights take ";
    for (int strict = 0; strict < 2; strict++) {
        program_result r =
            program_run(INGOT_PROGRAM,
                        ARGS("train", "-q", "--json", "--resume", trained.model, "-d", text, "-n",
                             "3", "-o", out, "--device", "far", strict ? "--strict" : "--no-cache"),
                        &(program_options){.env = ARGS("FAR_FAILS=small", far_path)});
        if (strict) {
            if (r.code != 5 || !strstr(r.err, why)) fail_msg("%d: %s", r.code, r.err);
            program_free(&r);
            continue;
        }
        json_t *report = json_of(&r);
        assert_true(is_in_timeline(report, "far:0", "compile", why));
        assert_null(json_object_get(json_object_get(report, "device_placement"), "far:0"));
        json_decref(report);
    }
}

/* Trains for some steps, with an evaluation after each, on a device that is slow and asynchronous.
 */
static json_t *stages_of(const fixture *f, const char *steps) {
    char text[PATH_BYTES], out[PATH_BYTES];
    snprintf(text, sizeof text, "%s/text", f->directory);
    snprintf(out, sizeof out, "%s/stages.oam", f->directory);
    program_result r =
        program_run(INGOT_PROGRAM,
                    ARGS("train", "-q", "--json", "--arch", "llm", "-d", text, "--d-model", "16",
                         "--layers", "1", "--heads", "2", "-c", "16", "-b", "2", "-n", steps,
                         "--eval-every", "1", "-o", out, "--device", "far", "--no-cache"),
                    &(program_options){.env = ARGS("FAR_DELAY_US=10000", far_path)});
    json_t *report = json_of(&r), *timings = json_incref(json_object_get(report, "timings"));
    json_decref(report);
    return timings;
}

/* Stages of training on such a device are all in the report, and do not overlap. */
static void stages_of_training_are_in_the_report(void **state) {
    const fixture *f = *state;
    fixture trained = *f;
    train_model(&trained); /* for its text */
    static const char *const names[] = {"train_ms", "evaluate_ms", "save_ms"};
    json_t *timings = stages_of(f, "5");
    double sum = 0;
    for (size_t i = 0; i < 3; i++) {
        const double ms = json_number_value(json_object_get(timings, names[i]));
        if (!(ms > 0)) fail_msg("%s: %g", names[i], ms);
        sum += ms;
    }
    assert_true(sum <= json_number_value(json_object_get(timings, "total_ms")));
    json_decref(timings);
}

/* The log has the entries of the report's timeline, in the same order and wording. */
static void the_log_has_the_timeline_of_the_report(void **state) {
    const fixture *f = *state;
    static const char mark[] = "backend_timeline ";
    program_result r =
        program_run(INGOT_PROGRAM,
                    ARGS("generate", "-m", f->model, "--device", "far", "-p", "hello there", "-n",
                         "4", "--temp", "0", "--json", "-v", "--no-cache"),
                    &(program_options){.env = ARGS("FAR_FAILS=always", far_path)});
    json_error_t error;
    json_t *logged = json_array();
    for (const char *at = r.err; (at = strstr(at, mark)); at++) {
        const char *end = strchr(at, '\n');
        assert_non_null(end);
        const size_t skip = sizeof mark - 1;
        json_t *entry = json_loadb(at + skip, (size_t)(end - at) - skip, 0, &error);
        if (!entry) fail_msg("%s: %.400s", error.text, at);
        json_array_append_new(logged, entry);
    }
    json_t *report = json_of(&r);
    const json_t *timeline = json_object_get(report, "backend_timeline");
    assert_true(json_array_size(timeline) > 1);
    if (!json_equal(timeline, logged))
        fail_msg("%zu entries in the report, %zu in the log", json_array_size(timeline),
                 json_array_size(logged));
    json_decref(report);
    json_decref(logged);
}

/* KV caches stay on the device: a token transfers only a few numbers. */
static void weights_and_caches_go_to_a_device_once(void **state) {
    const fixture *f = *state;
    program_result r = generate(f, "far", "again", "--strict", NULL);
    json_t *report = json_of(&r);
    assert_true(json_equal(json_object_get(report, "tokens"), json_object_get(f->right, "tokens")));
    json_decref(report);
}

static void a_plugin_in_a_process_of_its_own_computes_the_same(void **state) {
    const fixture *f = *state;
    program_result r = generate(f, "far", "", "--isolate-plugin", NULL);
    json_t *report = json_of(&r);
    assert_true(json_equal(json_object_get(report, "tokens"), json_object_get(f->right, "tokens")));
    assert_int_equal(json_array_size(json_object_get(report, "fallbacks")), 0);
    json_decref(report);
    r = generate(f, "simnpu", "", "--isolate-plugin", NULL);
    report = json_of(&r);
    assert_true(json_equal(json_object_get(report, "tokens"), json_object_get(f->right, "tokens")));
    const json_t *cache = json_object_get(report, "compile_cache");
    assert_true(json_integer_value(json_object_get(cache, "stored")) > 0);
    json_decref(report);
    r = generate(f, "simnpu", "", "-q", NULL); /* its cached programs remain valid for all */
    report = json_of(&r);
    cache = json_object_get(report, "compile_cache");
    assert_int_equal(json_integer_value(json_object_get(cache, "misses")), 0);
    json_decref(report);
}

/* ---- tags ---- */

static bool is_named(const json_t *report, const char *name) {
    size_t i;
    const json_t *entry;
    json_array_foreach(json_object_get(report, "backend_timeline"), i, entry) {
        const char *module = json_string_value(json_object_get(entry, "module"));
        if (strncmp(module, name, strlen(name)) == 0) return true;
    }
    return false;
}

/* If overrides are registered, programs are split by tag: the timeline names each piece, so the
 * builders of the architectures must have tagged their ops. */
static void models_from_files_name_their_attention_and_ffn(void **state) {
    static const char *const archs[] = {"llama", "qwen2",  "qwen3", "qwen3moe",
                                        "phi3",  "gemma3", "gpt2"};
    fixture f = *(const fixture *)*state;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        snprintf(f.model, sizeof f.model, "%s/%s.gguf", f.directory, archs[i]);
        assert_int_equal(model_save(archs[i], IG_F32, f.model), IG_OK);
        program_result r = generate(&f, "far", "override", "--no-cache", NULL);
        json_t *report = json_of(&r);
        if (!is_named(report, "attention (") || !is_named(report, "ffn ("))
            fail_msg("%s: parts are not named", archs[i]);
        json_decref(report);
    }
}

/* ---- training ---- */

static const double train_tolerance = 1e-4; /* two devices, a dozen steps of f32 */

static program_result train(const fixture *f, const char *fails, const char *flag) {
    char how[64], text[PATH_BYTES], cache[PATH_BYTES], out[PATH_BYTES];
    snprintf(how, sizeof how, "FAR_FAILS=%s", fails);
    snprintf(text, sizeof text, "%s/text.txt", f->directory);
    snprintf(cache, sizeof cache, "INGOT_CACHE_DIR=%s/cache", f->directory);
    snprintf(out, sizeof out, "%s/far.oam", f->directory);
    (void)unlink(out);
    return program_run(INGOT_PROGRAM,
                       ARGS("train", "-d", text, "--arch", "gpt", "--d-model", "16", "--layers",
                            "1", "--heads", "2", "-c", "12", "-b", "2", "-n", "12", "--device",
                            "far", "-o", out, "--json", "--eval-every", "0", flag),
                       &(program_options){.env = ARGS(how, cache, far_path)});
}

static double last_loss(const json_t *report) {
    return json_real_value(json_object_get(json_object_get(report, "loss"), "last"));
}

/* Weights and moments are on the device, which fails during their update. */
static void training_goes_on_elsewhere_from_where_the_device_failed(void **state) {
    const fixture *f = *state;
    char text[PATH_BYTES];
    snprintf(text, sizeof text, "%s/text.txt", f->directory);
    program_result stories = program_run(INGOT_PROGRAM, ARGS("stories", "--bytes", "20K"), NULL);
    FILE *file = fopen(text, "we");
    assert_true(file && fputs(stories.out, file) >= 0 && fclose(file) == 0);
    program_free(&stories);
    program_result r = train(f, "", "-q");
    json_t *report = json_of(&r);
    const double right = last_loss(report);
    json_decref(report);
    static const char *const late[][2] = {{"later", "-q"}, {"gone", "--isolate-plugin"}};
    for (size_t i = 0; i < 2; i++) {
        r = train(f, late[i][0], late[i][1]);
        report = json_of(&r);
        if (fabs(last_loss(report) - right) > train_tolerance)
            fail_msg("%s: %g, not %g", late[i][0], last_loss(report), right);
        assert_true(json_array_size(json_object_get(report, "fallbacks")) > 0);
        json_decref(report);
    }
    r = train(f, "costly", "-q");
    if (r.code != 5 || !strstr(r.err, "far:0: ") || !strstr(r.err, "the last checkpoint"))
        fail_msg("%d: %s", r.code, r.err);
    program_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_fails_the_answer_is_right_and_the_reason_is_reported),
        cmocka_unit_test(strict_ends_with_exit_code_5_and_the_plugins_name),
        cmocka_unit_test(a_device_that_lacks_what_a_model_needs_is_left_before_loading),
        cmocka_unit_test(memory_and_nan_of_a_device_name_it),
        cmocka_unit_test(training_leaves_such_a_device_before_loading),
        cmocka_unit_test(stages_of_training_are_in_the_report),
        cmocka_unit_test(the_log_has_the_timeline_of_the_report),
        cmocka_unit_test(absurd_answers_end_with_exit_code_5_and_the_plugins_name),
        cmocka_unit_test(weights_and_caches_go_to_a_device_once),
        cmocka_unit_test(a_plugin_in_a_process_of_its_own_computes_the_same),
        cmocka_unit_test(models_from_files_name_their_attention_and_ffn),
        cmocka_unit_test(training_goes_on_elsewhere_from_where_the_device_failed),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
