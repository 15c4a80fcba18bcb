/*
 * Architectures from plugins, as an author uses them: compiled with a plain `cc -shared`, trained
 * by name, and their files run by generate and chat; broken plugins are refused with the reason.
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

#include "checks.h"
#include "program.h"

enum { PATH_BYTES = 512, STEPS = 12 };

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)
#define SIZES                                                                                     \
    "--d-model", "32", "--layers", "2", "--heads", "4", "--ctx", "32", "--batch", "2", "--steps", \
        "12", "--eval-every", "0", "-q"

/* A folder for each test, with a text file; the test runs there. */
typedef struct place {
    char dir[32], before[PATH_BYTES];
} place;

static int enter(void **state) {
    place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    strcpy(p->dir, "/tmp/ingot-arch-XXXXXX");
    assert_non_null(getcwd(p->before, sizeof p->before));
    assert_non_null(mkdtemp(p->dir));
    assert_int_equal(chdir(p->dir), 0);
    FILE *file = fopen("data.txt", "we");
    assert_non_null(file);
    for (int i = 0; i < 300; i++) fprintf(file, "the mill %d turns the stone %d\n", i % 7, i % 5);
    fclose(file);
    *state = p;
    return 0;
}

static int leave(void **state) {
    place *p = *state;
    assert_int_equal(chdir(p->before), 0);
    program_result gone = program_run("/bin/rm", (const char *const[]){"-rf", p->dir, NULL}, NULL);
    program_free(&gone);
    free(p);
    return 0;
}

static void must_run(program_result result) {
    if (result.code != 0) fail_msg("exit %d: %s", result.code, result.err);
    program_free(&result);
}

/* The command of docs/adding-a-model.md, without Ingot's build system. */
static void build(const char *name) {
    char source[PATH_BYTES], plugin[PATH_BYTES];
    snprintf(source, sizeof source, "%s/examples/%s.c", PROJECT_DIR, name);
    snprintf(plugin, sizeof plugin, "./%s.so", name);
    static const char include[] = "-I" PROJECT_DIR "/include";
    must_run(program_run(
        TEST_CC, (const char *const[]){"-shared", "-fPIC", include, source, "-o", plugin, NULL},
        NULL));
}

/* Reads the losses of a log, one per step. */
static void read_losses(const char *path, double *losses) {
    char line[1024];
    FILE *file = fopen(path, "re");
    int n = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        json_t *root = json_loads(line, 0, NULL);
        const json_t *loss = json_object_get(root, "loss");
        if (json_is_number(loss) && json_object_get(root, "step") && n < STEPS)
            losses[n++] = json_number_value(loss);
        json_decref(root);
    }
    fclose(file);
    assert_int_equal(n, STEPS);
}

static void losses_of_llm(double *losses) {
    must_run(RUN("train", "-d", "data.txt", SIZES, "-o", "llm.oam", "--log", "llm.log"));
    read_losses("llm.log", losses);
}

static char *generated(const char *model, const char *plugin) {
    program_result r =
        plugin ? RUN("generate", "--plugin", plugin, "-m", model, "-p", "the ", "-n", "12",
                     "--temp", "0", "-q")
               : RUN("generate", "-m", model, "-p", "the ", "-n", "12", "--temp", "0", "-q");
    if (r.code != 0) fail_msg("exit %d: %s", r.code, r.err);
    char *text = strdup(r.out);
    program_free(&r);
    return text;
}

/* Trains by the plugin's name and runs the file like one of llm. */
static void check_plugin(const char *name, const char *route) {
    char plugin[64], model[64], log[64];
    double want[STEPS], got[STEPS];
    snprintf(plugin, sizeof plugin, "./%s.so", name);
    snprintf(model, sizeof model, "%s.oam", name);
    snprintf(log, sizeof log, "%s.log", name);
    build(name);
    losses_of_llm(want);
    must_run(RUN("train", "--plugin", plugin, "--arch", name, "--route", route, "-d", "data.txt",
                 SIZES, "--log", log));
    read_losses(log, got);
    assert_memory_equal(want, got, sizeof want);
    char *a = generated("llm.oam", NULL), *b = generated(model, plugin);
    assert_string_equal(a, b);
    free(a);
    free(b);
    const program_options from_file = {.in_fd = fileno(fopen("data.txt", "re"))};
    program_result chat =
        program_run(INGOT_PROGRAM,
                    (const char *const[]){"chat", "--plugin", plugin, "--arch", name, "-m", model,
                                          "-n", "3", "--temp", "0", "-q", "--json", NULL},
                    &from_file);
    if (chat.code != 0) fail_msg("chat: exit %d: %s", chat.code, chat.err);
    assert_non_null(strstr(chat.out, "ingot.chat.v1"));
    program_free(&chat);
    must_run(RUN("train", "--plugin", plugin, "--resume", model, "-d", "data.txt", "--steps", "14",
                 "-q"));
}

static void a_plugin_of_modules_trains_and_generates_as_llm_does(void **state) {
    (void)state;
    check_plugin("my_model", "easy");
}

static void a_plugin_of_dispatches_trains_and_generates_as_llm_does(void **state) {
    (void)state;
    check_plugin("production_llm", "production");
}

static void a_file_of_an_unknown_architecture_names_the_option(void **state) {
    (void)state;
    build("my_model");
    must_run(
        RUN("train", "--plugin", "./my_model.so", "--arch", "my_model", "-d", "data.txt", SIZES));
    check_error(RUN("generate", "-m", "my_model.oam", "-p", "a"), 3,
                "unknown architecture my_model; known: llm gpt tinyllm; if a plugin "
                "defines my_model, load that with --plugin FILE");
    check_error(RUN("generate", "--plugin", "./my_model.so", "--arch", "gpt", "-m", "my_model.oam",
                    "-p", "a"),
                2, "--arch gpt: my_model.oam holds the architecture my_model");
    check_error(RUN("generate", "--plugin", "./my_model.so", "--arch", "parrot", "-m",
                    "my_model.oam", "-p", "a"),
                2, "--arch parrot: unknown architecture; expected one of: llm gpt tinyllm llama");
    program_result archs = RUN("archs", "--plugin", "./my_model.so");
    assert_int_equal(archs.code, 0);
    assert_non_null(strstr(archs.out, "my_model"));
    assert_non_null(strstr(archs.out, "plugin"));
    program_free(&archs);
}

static void routes_that_a_model_does_not_have_are_refused(void **state) {
    (void)state;
    build("my_model");
    build("production_llm");
    check_error(RUN("train", "--plugin", "./my_model.so", "--arch", "my_model", "--route",
                    "production", "-d", "data.txt", SIZES),
                2, "my_model: has no production route");
    check_error(RUN("train", "--plugin", "./production_llm.so", "--arch", "production_llm",
                    "--route", "replay", "-d", "data.txt", SIZES),
                2, "--route replay: production_llm is defined by dispatches");
    check_error(RUN("train", "--route", "production", "--trace", "t.json", "-d", "data.txt", SIZES),
                2, "the production route has none; use --route replay");
    check_error(RUN("train", "--route", "easy", "--mode", "compiled", "-d", "data.txt", SIZES), 2,
                "easy is dynamic, replay is compiled");
    check_error(RUN("train", "--route", "production", "--accumulate", "2", "-d", "data.txt", SIZES),
                2, "does not accumulate gradients");
    check_error(RUN("train", "--route", "production", "--dtype", "bf16", "-d", "data.txt", SIZES),
                2, "computes in F32");
}

/* The report lists where dispatches ran and why, as for every other plan. */
static void the_report_has_the_timeline_of_batches(void **state) {
    (void)state;
    must_run(RUN("train", "--route", "production", "-d", "data.txt", SIZES, "--val-split", "0",
                 "--report", "report.json"));
    json_t *root = json_load_file("report.json", 0, NULL);
    const json_t *timeline = json_object_get(root, "backend_timeline");
    assert_true(json_array_size(timeline) >= 4); /* forward, backward, clip, update */
    const json_t *counters = json_object_get(root, "counters");
    assert_true(json_integer_value(json_object_get(counters, "submits")) >= 4 * STEPS);
    json_decref(root);
}

/* A plugin may crash, exit or hang while it loads: the program reports why it is not used. */
static void broken_plugins_are_refused_with_the_reason(void **state) {
    (void)state;
    static const struct {
        const char *name, *words;
    } rows[] = {
        {"no_entry", "does not export ig_arch_entry()"},
        {"empty", "has no architecture"},
        {"endless", "has more than 64 architectures"},
        {"newer_abi", "its table is for ABI 2, newer than this one's"},
        {"half", "half has no head()"},
        {"exits", "it exited in the child process that loaded it"},
        {"crashes", "it died of signal 6"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s/archs/%s.so", TEST_PLUGIN_DIR, rows[i].name);
        check_error(RUN("train", "--plugin", path, "--arch", "sound", "-d", "data.txt", SIZES), 3,
                    rows[i].words);
        check_error(RUN("archs", "--plugin", path), 3, rows[i].words);
    }
    check_error(RUN("train", "--plugin", "./nothing.so", "-d", "data.txt", SIZES), 6,
                "--plugin ./nothing.so: No such file or directory");
    assert_int_equal(chmod("data.txt", 0644), 0);
    check_error(RUN("train", "--plugin", "./data.txt", "-d", "data.txt", SIZES), 3, "data.txt");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
    const struct CMUnitTest tests[] = {
        TEST(a_plugin_of_modules_trains_and_generates_as_llm_does),
        TEST(a_plugin_of_dispatches_trains_and_generates_as_llm_does),
        TEST(a_file_of_an_unknown_architecture_names_the_option),
        TEST(routes_that_a_model_does_not_have_are_refused),
        TEST(the_report_has_the_timeline_of_batches),
        TEST(broken_plugins_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
