/*
 * What a report says of a small model on the simulated NPU, word for word: when its
 * program is compiled, when it is there in the process, and when it comes from the
 * disk.  Where something has to run elsewhere, that as well.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>

#include "directory.h"
#include "ingot/ingot.h"

#define MUST(call)                                            \
    do {                                                      \
        if ((call) != IG_OK) fail_msg("%s", ig_error_text()); \
    } while (0)

typedef struct net {
    ig_tensor *x, *w, *y;
} net;

/* softmax(exp(silu(x w))): the exponential is the CPU's. */
static ig_status forward(void *arg) {
    net *n = arg;
    ig_tensor_release(n->y);
    n->y = ig_tensor_retain(ig_softmax(ig_exp(ig_silu(ig_matmul(n->x, n->w))), -1));
    return ig_eval(&n->y, 1);
}

/* The timeline of the one plan there is: nothing runs while it is written down. */
static json_t *timeline_of(const ig_ctx *ctx) {
    static char text[1 << 16];
    json_error_t error;
    assert_true(ig_report_json(ctx, text, sizeof text) < sizeof text);
    json_t *report = json_loads(text, 0, &error);
    if (!report) fail_msg("%s", error.text);
    json_t *timeline = json_incref(json_object_get(report, "backend_timeline"));
    json_decref(report);
    return timeline;
}

static json_t *run(ig_ctx *ctx, net *n) {
    ig_captured *program = NULL;
    MUST(ig_capture(ctx, forward, n, &program));
    MUST(ig_captured_replay(program));
    json_t *timeline = timeline_of(ctx);
    ig_tensor_release(n->y);
    n->y = NULL;
    ig_captured_destroy(program);
    return timeline;
}

static ig_ctx *open_ctx(const char *folder, net *n) {
    ig_ctx *ctx = NULL;
    float x[4 * 16], w[16 * 8];
    for (int i = 0; i < 64; i++) x[i] = (float)(i % 5) - 2;
    for (int i = 0; i < 128; i++) w[i] = (float)(i % 7) / 4;
    MUST(ig_ctx_create(
        &(ig_ctx_options){.device = "simnpu", .plugins = SIMNPU_PLUGIN, .cache_dir = folder},
        &ctx));
    MUST(ig_tensor_create_from(ctx, (ig_desc){IG_F32, IG_SHAPE(4, 16)}, x, &n->x));
    MUST(ig_tensor_create_from(ctx, (ig_desc){IG_F32, IG_SHAPE(16, 8)}, w, &n->w));
    MUST(ig_tensor_freeze(n->w));
    return ctx;
}

static void close_ctx(ig_ctx *ctx, net *n) {
    ig_tensor_release(n->x);
    ig_tensor_release(n->w);
    ig_ctx_destroy(ctx);
}

static void assert_golden(const json_t *golden, const json_t *timeline, const char *when) {
    if (json_equal(golden, timeline)) return;
    char *text = json_dumps(timeline, JSON_INDENT(2));
    fprintf(stderr, "%s\n", text);
    free(text);
    fail_msg("%s: another timeline than data/timeline.json", when);
}

static void the_timeline_is_the_same_cold_warm_and_cached(void **state) {
    json_error_t error;
    json_t *golden = json_load_file(TEST_DATA_DIR "/data/timeline.json", 0, &error);
    if (!golden) fail_msg("%s", error.text);
    net n = {0};
    ig_ctx *ctx = open_ctx(*state, &n);
    json_t *cold = run(ctx, &n), *warm = run(ctx, &n);
    assert_golden(golden, cold, "cold");
    assert_golden(golden, warm, "warm");
    close_ctx(ctx, &n);
    ctx = open_ctx(*state, &n);
    json_t *cached = run(ctx, &n);
    assert_golden(golden, cached, "cached");
    close_ctx(ctx, &n);
    json_decref(cached);
    json_decref(warm);
    json_decref(cold);
    json_decref(golden);
    char command[2 * PATH_BYTES];
    snprintf(command, sizeof command, "cd %s && rm -rf programs digests", (const char *)*state);
    assert_int_equal(system(command), 0);
}

/* x w with weights of a type that the device has no program for, which is not that of x. */
static ig_status multiply(void *arg) {
    net *n = arg;
    ig_tensor_release(n->y);
    n->y = ig_tensor_retain(ig_matmul(n->x, n->w));
    return ig_eval(&n->y, 1);
}

/* What can_run() refuses stands in the timeline, on the device that refused it, with the dtypes of
 * the step and the backend's own words. */
static void a_refusal_is_in_the_timeline_and_names_the_dtype_that_was_given(void **state) {
    net n = {0};
    ig_captured *program = NULL;
    static const char reason[] = "simnpu:0 has no kernel for matmul of f32 x f16: simnpu: input 1 "
                                 "is f16; it takes f32, and weights of bf16 or q8_0";
    const uint16_t ones[16 * 8] = {0x3c00};
    ig_ctx *ctx = open_ctx(*state, &n);
    ig_tensor_release(n.w);
    MUST(ig_tensor_create_from(ctx, (ig_desc){IG_F16, IG_SHAPE(16, 8)}, ones, &n.w));
    MUST(ig_tensor_freeze(n.w));
    MUST(ig_capture(ctx, multiply, &n, &program));
    MUST(ig_captured_replay(program));
    json_t *timeline = timeline_of(ctx);
    const json_t *entry = json_array_get(timeline, 0);
    assert_string_equal(json_string_value(json_object_get(entry, "module")), "matmul");
    assert_string_equal(json_string_value(json_object_get(entry, "device")), "simnpu:0");
    const json_t *attempt = json_array_get(json_object_get(entry, "attempts"), 0);
    assert_true(json_is_false(json_object_get(attempt, "selected")));
    assert_string_equal(json_string_value(json_object_get(attempt, "reason")), reason);
    json_decref(timeline);
    ig_tensor_release(n.y);
    ig_captured_destroy(program);
    close_ctx(ctx, &n);
    char command[2 * PATH_BYTES];
    snprintf(command, sizeof command, "cd %s && rm -rf programs digests", (const char *)*state);
    assert_int_equal(system(command), 0);
}

static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* The device takes its time after submit() has returned: a stage that ends with a synchronize has
 * all of it, and the next one none. */
static void a_stage_on_an_asynchronous_device_has_its_own_time(void **state) {
    enum { DELAY_US = 20000, REPLAYS = 4 };
    net n = {0};
    ig_captured *program = NULL;
    setenv("SIMNPU_DELAY_US", "20000", 1);
    ig_ctx *ctx = open_ctx(*state, &n);
    unsetenv("SIMNPU_DELAY_US");
    MUST(ig_capture(ctx, multiply, &n, &program));
    MUST(ig_captured_replay(program)); /* the first run is waited for */
    MUST(ig_ctx_synchronize(ctx));
    const uint64_t begin = now_us();
    for (int i = 0; i < REPLAYS; i++) MUST(ig_captured_replay(program));
    MUST(ig_ctx_synchronize(ctx));
    const uint64_t stage = now_us() - begin;
    if (stage < REPLAYS * DELAY_US) fail_msg("%llu us", (unsigned long long)stage);
    ig_tensor_release(n.y);
    ig_captured_destroy(program);
    close_ctx(ctx, &n);
    char command[2 * PATH_BYTES];
    snprintf(command, sizeof command, "cd %s && rm -rf programs digests", (const char *)*state);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(the_timeline_is_the_same_cold_warm_and_cached),
        IN_DIRECTORY(a_stage_on_an_asynchronous_device_has_its_own_time),
        IN_DIRECTORY(a_refusal_is_in_the_timeline_and_names_the_dtype_that_was_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
