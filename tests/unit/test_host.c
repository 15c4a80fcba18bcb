/*
 * What the host does for backends: which one "auto" takes, how far a compile is, and who may
 * register an override.
 *
 * The backends here are ref with other manners.
 */
#include "backend/ref/ref.h"
#include "runtime/ctx.h"
#include "unit/check.h"

static bool is_there(const ig_host *host) {
    (void)host;
    return true;
}

static bool is_not_there(const ig_host *host) {
    (void)host;
    (void)IG_FAIL(IG_ERR_DEVICE, "the driver is asleep");
    return false;
}

static bool is_silently_not_there(const ig_host *host) {
    (void)host;
    return false;
}

static ig_backend named(const char *name, bool (*is_available)(const ig_host *host)) {
    ig_backend backend = ig_ref_backend;
    backend.name = name;
    backend.is_available = is_available;
    return backend;
}

/* ---- choosing ---- */

static void auto_is_the_first_backend_that_is_available(void **state) {
    const ig_ctx *ctx = *state;
    const ig_backend first = named("first", is_not_there), second = named("second", is_there);
    const ig_backend third = named("third", NULL);
    const ig_backend *const all[] = {&first, &second, &third};
    ig_device *device = NULL;
    must(ig_device_open_from((ig_backend_list){all, 3}, &ctx->host.table, &ig_heap, "auto",
                             &device));
    assert_string_equal(device->name, "second:0");
    ig_device_close(device);
    must(ig_device_open_from((ig_backend_list){all, 3}, &ctx->host.table, &ig_heap, "third",
                             &device));
    assert_string_equal(device->name, "third:0");
    ig_device_close(device);
}

static void a_backend_that_is_not_available_says_so_in_its_own_words(void **state) {
    const ig_ctx *ctx = *state;
    const ig_backend loud = named("loud", is_not_there);
    const ig_backend silent = named("silent", is_silently_not_there);
    const ig_backend *const all[] = {&silent, &loud, &silent};
    const ig_backend_list list = {all, 3};
    ig_device *device = NULL;
    (void)IG_FAIL(IG_ERR_IO, "something else, long ago");
    refused(ig_device_open_from(list, &ctx->host.table, &ig_heap, "loud", &device), IG_ERR_DEVICE,
            "device loud: the driver is asleep");
    refused(ig_device_open_from(list, &ctx->host.table, &ig_heap, "silent", &device), IG_ERR_DEVICE,
            "device silent: silent is not available");
    refused(ig_device_open_from(list, &ctx->host.table, &ig_heap, "auto", &device), IG_ERR_DEVICE,
            "device auto: silent is not available");
    assert_null(device);
}

/* ---- compiling ---- */

typedef struct watcher {
    uint64_t done, total;
    int calls;
    bool cancel; /* once the compile is at half */
} watcher;

static void watch(void *user, ig_progress_event event, uint64_t done, uint64_t total) {
    watcher *w = user;
    assert_int_equal(event, IG_PROGRESS_COMPILE);
    w->done = done;
    w->total = total;
    w->calls++;
}

static bool cancels(void *user) {
    const watcher *w = user;
    return w->cancel && w->done == 500; /* of a thousand */
}

/* Compiles in ten parts, and stops when told to. */
static ig_status compile_slowly(ig_backend_device *device, const ig_step *steps, uint32_t count,
                                ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    for (uint64_t done = 1; done <= 10; done++)
        if (!device->host->progress(progress, done, 10))
            return IG_FAIL(IG_ERR_CANCELLED, "slow: stopped at %llu", (unsigned long long)done);
    return ig_ref_backend.compile(device, steps, count, saved, progress, out);
}

static void a_compile_says_how_far_it_is_and_can_be_stopped(void **state) {
    (void)state;
    watcher w = {0};
    ig_ctx *ctx = NULL;
    const ig_ctx_options options = {
        .device = "ref", .progress = watch, .cancel = cancels, .user = &w};
    must(ig_ctx_create(&options, &ctx));
    ig_backend slow = named("slow", NULL);
    slow.compile = compile_slowly;
    ctx->devices.planner.devices[0]->backend = &slow;
    ctx->devices.planner.devices[0]->info.flags |= IG_CAN_COMPILE;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    HOLDS(ig_neg(x), -1, -2);
    assert_int_equal(w.calls, 11); /* the last says that all is there */
    assert_int_equal(w.done, w.total);
    assert_int_equal(w.total, 1000);
    HOLDS(ig_neg(x), -1, -2); /* it is compiled */
    assert_int_equal(w.calls, 11);

    w = (watcher){.cancel = true};
    ig_tensor *y = ig_relu(x);
    refused(ig_eval(&y, 1), IG_ERR_CANCELLED, "slow: stopped at 5");
    assert_int_equal(w.calls, 5);
    w.cancel = false;
    HOLDS(ig_relu(x), 1, 2);
    assert_true(ctx->host.table.progress(NULL, 1, 2)); /* without a callback */
    ig_tensor_release(x);
    ctx->devices.planner.devices[0]->backend = &ig_ref_backend;
    ig_ctx_destroy(ctx);
}

/* ---- overrides ---- */

static ig_status prepare(ig_backend_device *device, const ig_step *steps, uint32_t count) {
    assert_true(count > 0 && ig_step_known(steps));
    return device->host->register_override(device, IG_TAG_NORM, ig_ref_backend.compile);
}

static void overrides_are_registered_while_a_plan_is_prepared(void **state) {
    (void)state;
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.device = "ref"}, &ctx));
    ig_device *device = ctx->devices.planner.devices[0];
    ig_backend eager = named("eager", NULL);
    eager.prepare = prepare;
    device->backend = &eager;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    HOLDS(ig_neg(x), -1, -2);
    assert_ptr_equal(device->overrides[IG_TAG_NORM], ig_ref_backend.compile);
    assert_null(device->overrides[IG_TAG_FFN]);

    ig_backend_device stranger = {&ctx->host.table};
    refused(ctx->host.table.register_override(&stranger, IG_TAG_NORM, ig_ref_backend.compile),
            IG_ERR_STATE, "not open yet");
    ig_tensor_release(x);
    device->backend = &ig_ref_backend;
    ig_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_CTX(auto_is_the_first_backend_that_is_available),
        TEST_WITH_CTX(a_backend_that_is_not_available_says_so_in_its_own_words),
        cmocka_unit_test(a_compile_says_how_far_it_is_and_can_be_stopped),
        cmocka_unit_test(overrides_are_registered_while_a_plan_is_prepared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
