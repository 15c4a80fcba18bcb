/*
 * Another device in the middle of the work: the numbers go on, and the old memory
 * comes back.
 */
#include "ingot/batch.h"
#include "unit/check.h"

static const char plugins[] = TEST_PLUGIN_DIR "/far/far.so:" SIMNPU_PLUGIN;

static ig_ctx *ctx_on(const char *device) {
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.device = device, .plugins = plugins, .no_cache = true},
                       &ctx));
    return ctx;
}

static const char *const devices[] = {"ref", "far", "cpu", "far", "simnpu", "ref"};
enum { DEVICES = sizeof devices / sizeof devices[0], WIDTH = 8 };

/* One step of training: w goes towards the identity. */
static double train(ig_ctx *ctx, ig_module *net, ig_optimizer *optimizer, ig_tensor *x) {
    ig_tensor *loss = ig_mse(ig_module_call(net, x), x);
    must(ig_backward(loss));
    must(ig_optimizer_step(optimizer));
    ig_optimizer_zero_grad(optimizer);
    (void)ctx;
    return item(loss);
}

/* Losses of 24 steps, on one device or, every four steps, on another. */
static void losses(bool switching, double out[4 * DEVICES]) {
    ig_ctx *ctx = ctx_on("ref");
    ig_module *net = NULL;
    ig_optimizer *optimizer = NULL;
    ig_tensor *x = NULL;
    must(ig_mode_set(ctx, IG_MODE_COMPILED));
    must(ig_linear_create(ctx, WIDTH, WIDTH, NULL, &net));
    must(ig_adamw_create(net, NULL, &optimizer));
    must(ig_tensor_create(ctx, (ig_desc){IG_F32, IG_SHAPE(WIDTH, WIDTH)}, &x));
    must(ig_tensor_fill_normal(x, 0, 1));
    for (int i = 0; i < 4 * DEVICES; i++) {
        if (switching && i % 4 == 0) must(ig_switch_device(ctx, devices[i / 4]));
        out[i] = train(ctx, net, optimizer, x);
    }
    ig_tensor_release(x);
    ig_optimizer_destroy(optimizer);
    ig_module_destroy(net);
    ig_ctx_destroy(ctx);
}

static void training_goes_on_with_the_same_optimiser(void **state) {
    (void)state;
    double here[4 * DEVICES], there[4 * DEVICES];
    losses(false, here);
    losses(true, there);
    for (int i = 0; i < 4 * DEVICES; i++)
        if (!(there[i] - here[i] < 1e-5 && here[i] - there[i] < 1e-5)) /* kernels round otherwise */
            fail_msg("step %d: %g, not %g", i, there[i], here[i]);
    assert_true(here[4 * DEVICES - 1] < here[0]);
}

typedef struct counter {
    ig_tensor *w, *x, *y;
} counter;

static ig_status count(void *arg) {
    counter *c = arg;
    IG_TRY(ig_accumulate(c->w, c->x));
    ig_tensor_release(c->y);
    c->y = ig_tensor_retain(ig_scale(c->w, 2, 0));
    return ig_eval(&c->y, 1);
}

static void captures_and_what_is_held_of_them_go_along(void **state) {
    (void)state;
    ig_ctx *ctx = ctx_on("cpu");
    counter c = {.w = FLOATS(ctx, IG_SHAPE(2), 0, 10), .x = FLOATS(ctx, IG_SHAPE(2), 1, 1)};
    ig_captured *program = NULL;
    must(ig_capture(ctx, count, &c, &program));
    for (int i = 0; i < DEVICES; i++) {
        const float n = (float)i + 1;
        HOLDS(c.y, 2 * n, 2 * n + 20);
        must(ig_switch_device(ctx, devices[i]));
        HOLDS(c.y, 2 * n, 2 * n + 20); /* as before */
        must(ig_captured_replay(program));
    }
    HOLDS(c.w, DEVICES + 1, DEVICES + 11);
    ig_tensor_release(c.y);
    ig_captured_destroy(program);
    ig_tensor_release(c.w);
    ig_tensor_release(c.x);
    ig_ctx_destroy(ctx);
}

static void a_batch_is_planned_anew(void **state) {
    (void)state;
    ig_ctx *ctx = ctx_on("cpu");
    ig_batch *batch = NULL;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2), *y = FLOATS(ctx, IG_SHAPE(2), 0, 0);
    must(ig_batch_create(ctx, &batch));
    for (int i = 0; i < DEVICES; i++) {
        must(ig_batch_begin(batch));
        must(ig_dispatch(batch, "neg", NULL, &x, 1, &y, 1));
        must(ig_batch_flush(batch));
        HOLDS(y, -1, -2);
        must(ig_switch_device(ctx, devices[i]));
    }
    ig_batch_destroy(batch);
    ig_tensor_release(x);
    ig_tensor_release(y);
    ig_ctx_destroy(ctx);
}

static void a_device_that_does_not_open_leaves_all_as_it_was(void **state) {
    (void)state;
    ig_ctx *ctx = ctx_on("far");
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    must(ig_accumulate(w, w));
    must(ig_step_end(ctx));
    refused(ig_switch_device(ctx, "vulcan"), IG_ERR_DEVICE, "device vulcan: there is none");
    assert_string_equal(ig_ctx_device(ctx), "far:0");
    HOLDS(w, 2, 4);
    const uint64_t before = ig_report_memory(ctx).allocated_bytes;
    assert_true(before > 0);
    must(ig_switch_device(ctx, "cpu"));
    assert_string_equal(ig_ctx_device(ctx), "cpu:0");
    HOLDS(w, 2, 4);
    ig_tensor *y = ig_neg(w);
    refused(ig_switch_device(ctx, "ref"), IG_ERR_STATE, "in the middle of a step");
    HOLDS(y, -2, -4);
    ig_tensor_release(w);
    ig_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_goes_on_with_the_same_optimiser),
        cmocka_unit_test(captures_and_what_is_held_of_them_go_along),
        cmocka_unit_test(a_batch_is_planned_anew),
        cmocka_unit_test(a_device_that_does_not_open_leaves_all_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
