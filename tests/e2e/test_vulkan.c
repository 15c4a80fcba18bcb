/*
 * Training on a Vulkan device gives the CPU's losses, step by step, and checkpoints that either
 * device can resume. Skipped without a driver.
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
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "program.h"

enum { STEPS = 50, RESUMED = 60 };

/* Another order of summation, over fifty steps. */
static const double tolerance = 1e-4;

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)

static void must(program_result r) {
    if (r.code != 0) fail_msg("exit %d: %s", r.code, r.err);
    program_free(&r);
}

/* Creates a folder with a training text. */
static void enter(char *dir) {
    program_result devices = RUN("devices");
    const bool there = devices.code == 0 && strstr(devices.out, "vulkan:0");
    program_free(&devices);
    if (!there) {
        printf("vulkan: skipped: there is no device\n");
        skip();
    }
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    FILE *file = fopen("data.txt", "we");
    program_result text = RUN("stories", "--bytes", "20K");
    assert_non_null(file);
    assert_int_equal(text.code, 0);
    assert_true(fputs(text.out, file) >= 0);
    assert_int_equal(fclose(file), 0);
    program_free(&text);
}

static void leave(const char *dir) {
    static const char *const files[] = {"report.json",
                                        "data.txt",
                                        "cpu.oam",
                                        "vulkan.oam",
                                        "cpu.log",
                                        "vulkan.log",
                                        "ingot-demo/loss.svg",
                                        "ingot-demo/text.oam"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) (void)unlink(files[i]);
    (void)rmdir("ingot-demo");
    assert_int_equal(chdir("/"), 0);
    (void)rmdir(dir);
}

/* Reads the losses of a log from step `first` on; returns their count. */
static int losses_of(const char *path, int first, double *out) {
    FILE *file = fopen(path, "re");
    char line[1024];
    int n = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        json_t *root = json_loads(line, 0, NULL);
        const json_t *loss = json_object_get(root, "loss");
        const int step = (int)json_integer_value(json_object_get(root, "step"));
        if (loss && step >= first && n < STEPS) out[n++] = json_real_value(loss);
        json_decref(root);
    }
    fclose(file);
    return n;
}

static void expect_equal_logs(int first, int count) {
    double cpu[STEPS], vulkan[STEPS];
    assert_int_equal(losses_of("cpu.log", first, cpu), count);
    assert_int_equal(losses_of("vulkan.log", first, vulkan), count);
    for (int i = 0; i < count; i++)
        if (!(fabs(cpu[i] - vulkan[i]) <= tolerance))
            fail_msg("step %d: %.9g on cpu, %.9g on vulkan", first + i, cpu[i], vulkan[i]);
}

#define TRAIN(device, log, out, ...)                                                            \
    RUN("train", "-d", "data.txt", "--device", device, "--log", log, "-o", out, "--eval-every", \
        "0", "--save-every", "0", "-q", __VA_ARGS__)

/* Asserts that no step ran on another device. */
static void train_alike(const char *arch, const char *dtype) {
    char dir[] = "/tmp/ingot-vulkan-XXXXXX";
    enter(dir);
    must(TRAIN("cpu", "cpu.log", "cpu.oam", "--arch", arch, "--dtype", dtype, "-n", "50",
               "--d-model", "16", "--layers", "1", "--heads", "2", "-c", "12", "-b", "2"));
    must(TRAIN("vulkan", "vulkan.log", "vulkan.oam", "--strict", "--arch", arch, "--dtype", dtype,
               "-n", "50", "--d-model", "16", "--layers", "1", "--heads", "2", "-c", "12", "-b",
               "2"));
    expect_equal_logs(1, STEPS);
    leave(dir);
}

static void gpt_trains_as_on_the_cpu(void **state) {
    (void)state;
    train_alike("gpt", "f32");
}

static void llm_trains_as_on_the_cpu(void **state) {
    (void)state;
    train_alike("llm", "f32");
}

static void gpt_trains_in_fp16_as_on_the_cpu(void **state) {
    (void)state;
    train_alike("gpt", "bf16");
}

static void char_mlp_trains_as_on_the_cpu(void **state) {
    (void)state;
    char dir[] = "/tmp/ingot-vulkan-XXXXXX";
    double last[2];
    enter(dir);
    for (int i = 0; i < 2; i++) {
        program_result r =
            RUN("demo", "--steps", "50", "--json", "-q", "--device", i == 0 ? "cpu" : "vulkan");
        if (r.code != 0) fail_msg("exit %d: %s", r.code, r.err);
        json_t *root = json_loads(r.out, 0, NULL);
        last[i] = json_real_value(json_object_get(json_object_get(root, "loss"), "last"));
        assert_true(last[i] > 0);
        json_decref(root);
        program_free(&r);
    }
    if (!(fabs(last[0] - last[1]) <= tolerance))
        fail_msg("last loss: %.9g on cpu, %.9g on vulkan", last[0], last[1]);
    leave(dir);
}

/* Each device resumes what the other one has saved. */
static void checkpoints_are_for_any_device(void **state) {
    (void)state;
    char dir[] = "/tmp/ingot-vulkan-XXXXXX";
    enter(dir);
    must(TRAIN("vulkan", "vulkan.log", "vulkan.oam", "--arch", "tinyllm", "-n", "50", "--d-model",
               "16", "--layers", "1", "-c", "12", "-b", "2"));
    must(TRAIN("cpu", "cpu.log", "cpu.oam", "--resume", "vulkan.oam", "-n", "60"));
    must(TRAIN("vulkan", "vulkan.log", "vulkan.oam", "--resume", "vulkan.oam", "-n", "60"));
    expect_equal_logs(STEPS + 1, RESUMED - STEPS);
    leave(dir);
}

/* A number in the report of the last run. */
static int64_t reported(const char *object, const char *name) {
    json_t *report = json_load_file("report.json", 0, NULL);
    const json_t *number = json_object_get(json_object_get(report, object), name);
    assert_true(json_is_integer(number));
    const int64_t value = json_integer_value(number);
    json_decref(report);
    return value;
}

/* The KV cache grows with each token; the first recording serves all of them. */
static void a_longer_text_records_nothing_more(void **state) {
    (void)state;
    static const char *const lengths[] = {"8", "24"};
    char dir[] = "/tmp/ingot-vulkan-XXXXXX";
    int64_t recordings[2], submits[2];
    enter(dir);
    for (int i = 0; i < 2; i++) {
        must(RUN("generate", "-p", "One day", "-n", lengths[i], "--temp", "0", "--ignore-eos",
                 "--device", "vulkan", "-q", "--report", "report.json"));
        recordings[i] = reported("counters", "device_recordings");
        submits[i] = reported("counters", "device_submits");
    }
    assert_int_equal(recordings[1], recordings[0]);
    assert_true(submits[1] >= submits[0] + 16);
    leave(dir);
}

/* Pipelines compiled for one process are cached for the next one. */
static void pipelines_are_kept_for_the_next_process(void **state) {
    (void)state;
    enum { MAKES, FINDS, RUNS };
    char dir[] = "/tmp/ingot-vulkan-XXXXXX";
    static const char *const env[] = {"INGOT_CACHE_DIR=cache", NULL};
    static const char *const args[] = {"demo",   "--steps",  "5",           "-q", "--device",
                                       "vulkan", "--report", "report.json", NULL};
    int64_t hits[RUNS], misses[RUNS], stored[RUNS];
    enter(dir);
    for (int i = 0; i < RUNS; i++) {
        must(program_run(INGOT_PROGRAM, args, &(program_options){.env = env}));
        hits[i] = reported("compile_cache", "hits");
        misses[i] = reported("compile_cache", "misses");
        stored[i] = reported("compile_cache", "stored");
    }
    assert_true(misses[MAKES] > 0 && stored[MAKES] == misses[MAKES]);
    assert_true(hits[FINDS] > 0 && misses[FINDS] == 0 && stored[FINDS] == 0);
    must(program_run(INGOT_PROGRAM, (const char *const[]){"cache", "verify", NULL},
                     &(program_options){.env = env}));
    must(program_run(INGOT_PROGRAM, (const char *const[]){"cache", "clear", NULL},
                     &(program_options){.env = env}));
    assert_int_equal(system("rm -rf cache"), 0); // NOLINT(cert-env33-c): in a folder of our own
    leave(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(char_mlp_trains_as_on_the_cpu),
        cmocka_unit_test(gpt_trains_as_on_the_cpu),
        cmocka_unit_test(llm_trains_as_on_the_cpu),
        cmocka_unit_test(gpt_trains_in_fp16_as_on_the_cpu),
        cmocka_unit_test(checkpoints_are_for_any_device),
        cmocka_unit_test(a_longer_text_records_nothing_more),
        cmocka_unit_test(pipelines_are_kept_for_the_next_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
