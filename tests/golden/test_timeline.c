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

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(the_timeline_is_the_same_cold_warm_and_cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
