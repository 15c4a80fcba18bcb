/*
 * Devices that fail, from outside: whatever a plugin does, the answer is the CPU's
 * and the report says what went wrong in the plugin's own words, or the program
 * ends with exit code 5 and names it.
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

/* A model, what the CPU says to it, and a cache that stays empty. */
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

/* An attempt somewhere in the timeline with this level and just these words, but for the place in
 * the source behind them. */
static bool is_told(const json_t *report, const char *device, const char *level,
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

/* What fails, how the report tells it, and whether another device has to go on. */
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

static void whatever_fails_the_answer_is_right_and_the_reason_is_told(void **state) {
    const fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        program_result r = generate(f, "far", row->fails, row->flag, "INGOT_PLUGIN_SECONDS=1");
        if (r.code != 0) fail_msg("%s: %d: %s", row->fails, r.code, r.err);
        json_t *report = json_of(&r);
        if (!json_equal(json_object_get(report, "tokens"), json_object_get(f->right, "tokens")))
            fail_msg("%s: other tokens", row->fails);
        if (!is_told(report, "far:0", row->level, row->words))
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

/* Keys and values stay with the device: what goes there for a token is a few numbers. */
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
    r = generate(f, "simnpu", "", "-q", NULL); /* what it kept is good for everybody */
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

/* Where overrides are registered, programs are cut by tag: the timeline names each piece, so the
 * builders of the architectures must have said what their ops are part of. */
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

/* Its weights and moments are the device's, and it fails in the midst of updating them. */
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
        cmocka_unit_test(whatever_fails_the_answer_is_right_and_the_reason_is_told),
        cmocka_unit_test(strict_ends_with_exit_code_5_and_the_plugins_name),
        cmocka_unit_test(absurd_answers_end_with_exit_code_5_and_the_plugins_name),
        cmocka_unit_test(weights_and_caches_go_to_a_device_once),
        cmocka_unit_test(a_plugin_in_a_process_of_its_own_computes_the_same),
        cmocka_unit_test(models_from_files_name_their_attention_and_ffn),
        cmocka_unit_test(training_goes_on_elsewhere_from_where_the_device_failed),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
