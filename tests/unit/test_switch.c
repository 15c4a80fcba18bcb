/*
 * Another device in the middle of the work: the numbers go on, and the old memory
 * comes back.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ingot/batch.h"
#include "ingot/device.h"
#include "ingot/session.h"
#include "model/synthetic/synthetic_models.h"
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

/* One step of training: w goes toward the identity. */
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

static void training_continues_with_the_same_optimizer(void **state) {
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

static void a_batch_is_planned_again(void **state) {
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
    must(ig_ctx_step_end(ctx));
    refused(ig_switch_device(ctx, "vulcan"), IG_ERR_DEVICE, "device vulcan: no such device");
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

/* ---- a session, with keys and values in pages ---- */

/* Memory that is alive, of the host and of devices that take theirs from it. */
typedef struct ledger {
    uint64_t bytes;
} ledger;

static void *ledger_alloc(void *user, size_t bytes, size_t alignment) {
    (void)alignment; /* a cache line serves all */
    uint64_t *p = ig_heap.alloc(ig_heap.user, bytes + 64, 64);
    if (!p) return NULL;
    __atomic_fetch_add(&((ledger *)user)->bytes, bytes, __ATOMIC_RELAXED);
    *p = bytes;
    return (char *)p + 64;
}

static void ledger_free(void *user, void *p) {
    uint64_t *begin = (uint64_t *)(void *)((char *)p - 64);
    __atomic_fetch_sub(&((ledger *)user)->bytes, *begin, __ATOMIC_RELAXED);
    ig_heap.free(ig_heap.user, begin);
}

enum { PROMPT = 70, PIECE = 3, PIECES = 7, TOKENS = 320 }; /* the prompt ends in the second page */

typedef struct chat {
    ledger ledger;
    bool strict;
    ig_ctx *ctx;
    ig_adapter *adapter;
    ig_session *session;
} chat;

static void generation_begin(chat *t, const char *device, const char *path) {
    const ig_ctx_options options = {.device = device,
                                    .plugins = plugins,
                                    .no_cache = true,
                                    .strict = t->strict,
                                    .allocator = {ledger_alloc, ledger_free, &t->ledger}};
    must(ig_ctx_create(&options, &t->ctx));
    must(ig_adapter_load(t->ctx, path, &t->adapter));
    must(ig_session_create(t->adapter,
                           &(ig_session_options){.cache_type_k = "f32", .cache_type_v = "f32"},
                           &t->session));
}

static void generation_end(chat *t) {
    ig_session_destroy(t->session);
    ig_adapter_destroy(t->adapter);
    ig_ctx_destroy(t->ctx);
    assert_int_equal(t->ledger.bytes, 0);
}

/* The next tokens of one text, which is always the same. */
static void feed(chat *t, int64_t count, float *logits) {
    int32_t tokens[PROMPT];
    const int64_t begin = ig_session_length(t->session, 0);
    for (int64_t i = 0; i < count; i++) tokens[i] = (int32_t)((begin + i) * 37 % TOKENS);
    must(ig_session_feed(t->session, 0, tokens, count, logits));
}

static double apart(const float *a, const float *b) {
    double squares = 0, difference = 0;
    for (int i = 0; i < TOKENS; i++) {
        squares += (double)a[i] * (double)a[i];
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    }
    return sqrt(difference / squares);
}

/* As `ingot parity` has it for float weights. */
static const double tolerance = 1e-4;

static void note(void *user, const ig_device_entry *entry) {
    if (strcmp(entry->name, "vulkan:0") == 0 && entry->available) *(bool *)user = true;
}

static void make_model(char path[]) {
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    must(model_save("llama", IG_F32, path));
}

static void a_session_goes_on_elsewhere_with_its_pages(void **state) {
    (void)state;
    static float want[PIECES][TOKENS], got[TOKENS];
    char path[] = "/tmp/ingot-switch-XXXXXX";
    bool vulkan = false;
    must(ig_devices_each(NULL, note, &vulkan));
    const char *const to[PIECES] = {
        "cpu", "ref", "simnpu", "far", "simnpu", "cpu", vulkan ? "vulkan" : "ref"};
    make_model(path);
    chat stays = {0}, moves = {0};
    generation_begin(&stays, "ref", path);
    feed(&stays, PROMPT, got);
    for (int i = 0; i < PIECES; i++) feed(&stays, PIECE, want[i]);
    generation_begin(&moves, "cpu", path);
    feed(&moves, PROMPT, got);
    for (int i = 0; i < PIECES; i++) {
        must(ig_switch_device(moves.ctx, to[i]));
        assert_memory_equal(ig_ctx_device(moves.ctx), to[i], strlen(to[i]));
        assert_int_equal(ig_session_length(moves.session, 0), PROMPT + PIECE * i);
        feed(&moves, PIECE, got);
        if (!(apart(want[i], got) <= tolerance))
            fail_msg("%s: %g apart", to[i], apart(want[i], got));
    }
    generation_end(&moves);
    generation_end(&stays);
    unlink(path);
}

/* Back where it was, a context holds what it held, and not a byte of the devices between. */
static void memory_of_the_devices_between_is_given_back(void **state) {
    (void)state;
    static const char *const between[] = {"far", "simnpu", "ref", "far"};
    float logits[TOKENS];
    char path[] = "/tmp/ingot-switch-XXXXXX";
    make_model(path);
    chat t = {0};
    generation_begin(&t, "cpu", path);
    feed(&t, PROMPT, logits);
    uint64_t settled = 0, allocated = 0;
    for (int round = 0; round < 3; round++) {
        must(ig_switch_device(t.ctx, "cpu"));
        feed(&t, PIECE, logits);
        const ig_memory_stats here = ig_report_memory(t.ctx);
        if (round == 1) settled = t.ledger.bytes, allocated = here.allocated_bytes;
        if (round == 2) {
            assert_int_equal(t.ledger.bytes, settled);
            assert_int_equal(here.allocated_bytes, allocated);
        }
        for (size_t i = 0; i < sizeof between / sizeof between[0]; i++) {
            must(ig_switch_device(t.ctx, between[i]));
            feed(&t, 1, logits);
            const ig_memory_stats there = ig_report_memory(t.ctx);
            assert_true(there.allocated_bytes >
                        0); /* it works in memory of its own, or the host's */
            assert_true(there.peak_bytes >= there.allocated_bytes);
        }
    }
    generation_end(&t);
    unlink(path);
}

/* Strict: simnpu cannot do all of it, which shows when the new plans are made. */
static void plans_that_cannot_be_made_leave_the_session_where_it_is(void **state) {
    (void)state;
    static float want[TOKENS], got[TOKENS];
    char path[] = "/tmp/ingot-switch-XXXXXX";
    make_model(path);
    chat stays = {.strict = true}, tries = {.strict = true};
    generation_begin(&stays, "cpu", path);
    generation_begin(&tries, "cpu", path);
    feed(&stays, PROMPT, want);
    feed(&tries, PROMPT, got);
    const uint64_t bytes = tries.ledger.bytes;
    const uint64_t allocated = ig_report_memory(tries.ctx).allocated_bytes;
    refused(ig_switch_device(tries.ctx, "simnpu"), IG_ERR_UNSUPPORTED, "strict: simnpu:0");
    assert_string_equal(ig_ctx_device(tries.ctx), "cpu:0");
    assert_int_equal(ig_report_memory(tries.ctx).allocated_bytes, allocated);
    assert_in_range(tries.ledger.bytes, 1, bytes + 4096); /* the registry has the plugin now */
    feed(&stays, PIECE, want);
    feed(&tries, PIECE, got);
    assert_memory_equal(got, want, sizeof got);
    generation_end(&tries);
    generation_end(&stays);
    unlink(path);
}

/* ---- a model in training ---- */

enum { BATCH = 2, CTX = 8, STEPS = 12 };

static void train_llm(bool switching, double losses[STEPS]) {
    static const char *const to[] = {"ref", "simnpu", "far", "cpu"};
    ig_ctx *ctx = ctx_on("cpu");
    ig_adapter *a = NULL;
    int32_t tokens[BATCH * (CTX + 1)];
    for (int i = 0; i < BATCH * (CTX + 1); i++) tokens[i] = i * 11 % 64;
    must(ig_mode_set(ctx, IG_MODE_AUTO));
    const ig_model_config config = {
        .d_model = 16, .n_layers = 2, .n_heads = 2, .d_ff = 32, .ctx_len = 16};
    must(ig_adapter_create(ctx, "llm", &config, &a));
    for (int i = 0; i < STEPS; i++) {
        if (switching && i % 3 == 0) must(ig_switch_device(ctx, to[i / 3]));
        must(ig_adapter_train(a, tokens, BATCH, CTX, &(ig_train_options){.lr = 1e-2}, &losses[i]));
        assert_int_equal(ig_adapter_steps(a), i + 1);
    }
    ig_adapter_destroy(a);
    ig_ctx_destroy(ctx);
}

static void a_model_learns_on_with_its_moments_and_step_count(void **state) {
    (void)state;
    double here[STEPS], there[STEPS];
    train_llm(false, here);
    train_llm(true, there);
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(there[i] - here[i]) <= tolerance * here[i]))
            fail_msg("step %d: %g, not %g", i, there[i], here[i]);
    assert_true(here[STEPS - 1] < 0.8 * here[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_continues_with_the_same_optimizer),
        cmocka_unit_test(captures_and_what_is_held_of_them_go_along),
        cmocka_unit_test(a_batch_is_planned_again),
        cmocka_unit_test(a_device_that_does_not_open_leaves_all_as_it_was),
        cmocka_unit_test(a_session_goes_on_elsewhere_with_its_pages),
        cmocka_unit_test(memory_of_the_devices_between_is_given_back),
        cmocka_unit_test(plans_that_cannot_be_made_leave_the_session_where_it_is),
        cmocka_unit_test(a_model_learns_on_with_its_moments_and_step_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
