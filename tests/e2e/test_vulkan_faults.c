/*
 * Runs on a Vulkan driver that fails in different ways: what the report says, where the run
 * continues, and its exit code if it cannot. The layer of tests/vulkan_faults wraps a working
 * driver. Skipped without one.
 */
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

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)

static char folder[] = "/tmp/ingot-faults-XXXXXX";

static int enter(void **state) {
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave(void **state) {
    (void)state;
    static const char *const files[] = {"report.json", "data.txt", "v.oam", "ingot-demo/loss.svg",
                                        "ingot-demo/text.oam"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) (void)unlink(files[i]);
    (void)rmdir("ingot-demo");
    return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

/* Runs with the fault; "none": the layer without effect. */
static program_result run_with(const char *fault, const char *const *args) {
    char text[64];
    snprintf(text, sizeof text, "INGOT_VULKAN_FAULT=%s", fault);
    const char *const env[] = {"VK_ADD_LAYER_PATH=" TEST_PLUGIN_DIR "/vulkan",
                               "VK_INSTANCE_LAYERS=VK_LAYER_INGOT_faults", text, NULL};
    return program_run(INGOT_PROGRAM, args, &(program_options){.env = env});
}

static void skip_without_device(void) {
    program_result r = RUN("devices");
    const bool there = r.code == 0 && strstr(r.out, "vulkan:0");
    program_free(&r);
    if (there) return;
    printf("vulkan: skipped: there is no device\n");
    skip();
}

/* Trains char-mlp for a few steps; returns the report, which the caller frees. */
static json_t *demo(const char *fault, bool strict, int code, const char *words) {
    const char *const args[] = {"demo",     "--steps",     "5",
                                "-q",       "--device",    "vulkan",
                                "--report", "report.json", strict ? "--strict" : NULL,
                                NULL};
    program_result r = run_with(fault, args);
    if (r.code != code || !strstr(r.err, words))
        fail_msg("%s: exit %d, not %d: %s", fault, r.code, code, r.err);
    program_free(&r);
    json_t *report = json_load_file("report.json", 0, NULL);
    assert_non_null(report);
    return report;
}

/* Counts timeline entries of this device and level that were selected, or failed for a reason with
 * these words. */
static int count_of(const json_t *report, const char *device, const char *level,
                    const char *words) {
    int count = 0;
    size_t i, k;
    const json_t *entry, *attempt;
    json_array_foreach(json_object_get(report, "backend_timeline"), i, entry) {
        if (strcmp(json_string_value(json_object_get(entry, "device")), device) != 0) continue;
        json_array_foreach(json_object_get(entry, "attempts"), k, attempt) {
            const char *name = json_string_value(json_object_get(attempt, "level"));
            const char *reason = json_string_value(json_object_get(attempt, "reason"));
            if (strcmp(name, level) != 0) continue;
            count += words ? strstr(reason, words) != NULL
                           : json_is_true(json_object_get(attempt, "selected"));
        }
    }
    return count;
}

static void all_is_well(const char *after) {
    json_t *report = demo("none", true, 0, "");
    if (count_of(report, "vulkan:0", "compile", NULL) == 0)
        fail_msg("after %s: not compiled", after);
    assert_int_equal(json_array_size(json_object_get(report, "fallbacks")), 0);
    json_decref(report);
}

static void a_chain_that_is_rejected_runs_step_by_step(void **state) {
    (void)state;
    skip_without_device();
    json_t *report = demo("written", false, 0, "");
    assert_true(count_of(report, "vulkan:0", "compile", "chain of") > 0);
    assert_true(count_of(report, "vulkan:0", "eager", NULL) > 0);
    assert_int_equal(json_array_size(json_object_get(report, "fallbacks")), 0); /* same device */
    json_decref(report);
    json_decref(demo("written", true, 5, "chain of"));
    all_is_well("written");
}

/* Tagged steps run on the kernels registered for their tag. */
static void a_tagged_chain_that_is_rejected_goes_to_its_override(void **state) {
    (void)state;
    skip_without_device();
    program_result text = RUN("stories", "--bytes", "20K");
    FILE *file = fopen("data.txt", "we");
    assert_non_null(file);
    assert_true(fputs(text.out, file) >= 0);
    assert_int_equal(fclose(file), 0);
    program_free(&text);
    const char *const args[] = {"train",       "-d", "data.txt",     "--arch", "gpt",
                                "--d-model",   "16", "--layers",     "1",      "--heads",
                                "2",           "-c", "12",           "-b",     "2",
                                "-n",          "4",  "--device",     "vulkan", "-o",
                                "v.oam",       "-q", "--eval-every", "0",      "--report",
                                "report.json", NULL};
    program_result r = run_with("written", args);
    if (r.code != 0) fail_msg("exit %d: %s", r.code, r.err);
    program_free(&r);
    json_t *report = json_load_file("report.json", 0, NULL);
    assert_true(count_of(report, "vulkan:0", "compile", "chain of") > 0);
    assert_true(count_of(report, "vulkan:0", "kernel_override", NULL) > 0);
    json_decref(report);
}

static void what_the_driver_rejects_on_all_levels_runs_elsewhere(void **state) {
    (void)state;
    skip_without_device();
    json_t *report = demo("shaders", false, 0, "");
    assert_true(count_of(report, "vulkan:0", "compile", "rejects the shader") > 0);
    assert_true(count_of(report, "vulkan:0", "kernel_override", "rejects the shader") > 0);
    assert_true(count_of(report, "vulkan:0", "eager", "rejects the shader") > 0);
    assert_true(count_of(report, "cpu:0", "eager", NULL) > 0);
    const json_t *fallback = json_array_get(json_object_get(report, "fallbacks"), 0);
    assert_non_null(strstr(json_string_value(json_object_get(fallback, "reason")), "rejects"));
    json_decref(report);
    json_decref(demo("shaders", true, 5, "rejects the shader"));
    all_is_well("shaders");
}

/* Lost during its first run: no state is lost with it. */
static void a_device_that_is_lost_at_once_leaves_the_run_to_another(void **state) {
    (void)state;
    skip_without_device();
    static const char *const faults[] = {"lost=1", "lost=1,without=cached",
                                         "lost=1,without=timelineSemaphore"};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        json_t *report = demo(faults[i], false, 0, "");
        assert_true(count_of(report, "vulkan:0", "compile", "the device was lost") > 0);
        assert_true(count_of(report, "cpu:0", "eager", NULL) > 0);
        json_decref(report);
    }
    json_decref(demo("lost=1", true, 5, "the device was lost"));
    all_is_well("lost=1");
}

/* Lost later, with the state that it has trained: ops that can run again do so elsewhere, and the
 * first that cannot ends the run. */
static void a_device_that_is_lost_in_the_middle_ends_the_run(void **state) {
    (void)state;
    skip_without_device();
    json_t *report = demo("lost=100", false, 5, "the device was lost");
    assert_true(count_of(report, "vulkan:0", "compile", "the device was lost") > 0);
    const json_t *error = json_object_get(report, "error");
    assert_non_null(strstr(json_string_value(json_object_get(error, "message")),
                           "resume from the last checkpoint"));
    json_decref(report);
    all_is_well("lost=100");
}

static void too_little_memory_says_how_much_is_left(void **state) {
    (void)state;
    skip_without_device();
    json_t *report = demo("memory=12600000", false, 4, "out of device memory");
    const json_t *error = json_object_get(report, "error");
    assert_non_null(strstr(json_string_value(json_object_get(error, "message")), "left"));
    json_decref(report);
    all_is_well("memory");
}

static void a_driver_that_does_not_start_is_no_device(void **state) {
    (void)state;
    skip_without_device();
    json_decref(demo("instance", false, 5, "no driver"));
    json_decref(demo("enumerate", false, 5, "its driver fails"));
    json_decref(demo("device", false, 5, "does not open"));
    json_decref(demo("without=anything", false, 5, "has no Vulkan 1.1"));
    all_is_well("instance");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_that_is_rejected_runs_step_by_step),
        cmocka_unit_test(a_tagged_chain_that_is_rejected_goes_to_its_override),
        cmocka_unit_test(what_the_driver_rejects_on_all_levels_runs_elsewhere),
        cmocka_unit_test(a_device_that_is_lost_at_once_leaves_the_run_to_another),
        cmocka_unit_test(a_device_that_is_lost_in_the_middle_ends_the_run),
        cmocka_unit_test(too_little_memory_says_how_much_is_left),
        cmocka_unit_test(a_driver_that_does_not_start_is_no_device),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
