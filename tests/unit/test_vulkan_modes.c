/*
 * What a Vulkan device is asked to do in each way of running, by its own counters: a submission for
 * each op in Dynamic mode, one for each flush of a batch, one for each replay of a
 * recorded step, and nothing recorded twice.  And the same numbers in all of them.
 * Skipped without a device.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "ingot/batch.h"
#include "unit/nets.h"

typedef struct counts {
    int64_t submits, dispatches, barriers, recordings;
} counts;

static counts counts_of(const ig_ctx *ctx) {
    static char text[1 << 20];
    assert_true(ig_report_json(ctx, text, sizeof text) < sizeof text);
    json_t *root = json_loads(text, 0, NULL);
    json_t *all = json_object_get(root, "counters");
    counts c;
    assert_int_equal(json_unpack(all, "{s:I, s:I, s:I, s:I}", "device_submits", &c.submits,
                                 "device_dispatches", &c.dispatches, "device_barriers", &c.barriers,
                                 "device_recordings", &c.recordings),
                     0);
    json_decref(root);
    return c;
}

static counts since(const ig_ctx *ctx, counts before) {
    const counts now = counts_of(ctx);
    return (counts){now.submits - before.submits, now.dispatches - before.dispatches,
                    now.barriers - before.barriers, now.recordings - before.recordings};
}

static ig_ctx *open_vulkan(ig_mode mode) {
    ig_ctx *ctx = NULL;
    if (ig_ctx_create(&(ig_ctx_options){.device = "vulkan", .threads = 2, .seed = 3}, &ctx) !=
        IG_OK) {
        printf("vulkan: skipped: %s\n", ig_error_text());
        skip();
    }
    must(ig_mode_set(ctx, mode));
    return ctx;
}

static void dynamic_is_a_submit_for_each_op(void **state) {
    (void)state;
    enum { OPS = 10 };
    ig_ctx *ctx = open_vulkan(IG_MODE_DYNAMIC);
    ig_tensor *x = ramp(ctx, IG_SHAPE(4, 8), -1, 0.05);
    float out[32];
    must(ig_tensor_read(ig_neg(x), out, sizeof out)); /* the input is there now */
    const counts before = counts_of(ctx);
    ig_tensor *y = x;
    for (int i = 0; i < OPS; i++) y = ig_tanh(y);
    must(ig_eval(&y, 1));
    const counts c = since(ctx, before);
    assert_int_equal(c.submits, OPS);
    assert_int_equal(c.dispatches, OPS);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

/* Each dispatch needs the one before. */
static void a_batch_is_a_submit_for_each_flush(void **state) {
    (void)state;
    enum { DISPATCHES = 30, FLUSHES = 3, N = 8 };
    ig_ctx *ctx = open_vulkan(IG_MODE_DYNAMIC);
    ig_tensor *at[2] = {ramp(ctx, IG_SHAPE(N), 1, 1), ramp(ctx, IG_SHAPE(N), 0, 0)};
    ig_batch *batch = NULL;
    float out[N];
    must(ig_batch_create(ctx, &batch));
    for (int flush = 0; flush < FLUSHES; flush++) {
        const counts before = counts_of(ctx);
        must(ig_batch_begin(batch));
        for (int i = 0; i < DISPATCHES; i++)
            must(ig_dispatch(batch, i % 2 ? "silu" : "rms_norm",
                             i % 2 ? NULL : &(ig_attrs_norm){.eps = 1e-5}, &at[i % 2], 1,
                             &at[(i + 1) % 2], 1));
        must(ig_batch_flush(batch));
        const counts c = since(ctx, before);
        assert_int_equal(c.submits, 1);
        assert_int_equal(c.dispatches, DISPATCHES);
        assert_int_equal(c.barriers, DISPATCHES - 1);
        assert_int_equal(c.recordings, flush == 0);
    }
    must(ig_tensor_read(at[0], out, sizeof out));
    ig_batch_destroy(batch);
    for (int i = 0; i < 2; i++) ig_tensor_release(at[i]);
    ig_ctx_destroy(ctx);
}

/* Inputs, rates and step counts change from step to step, and each loss is read. */
static void a_replay_is_one_submit_and_records_nothing(void **state) {
    (void)state;
    enum { WARM = 6, STEPS = 12 };
    ig_ctx *ctx = open_vulkan(IG_MODE_COMPILED);
    small_net n = small_make(ctx);
    trail t = {0};
    for (int i = 0; i < WARM; i++) small_step(&n, 0.05, &t);
    const counts before = counts_of(ctx);
    for (int i = 0; i < STEPS; i++) small_step(&n, 0.05 / (i + 1), &t);
    const counts c = since(ctx, before);
    assert_int_equal(c.submits, STEPS); /* the losses, too, come without one of their own */
    assert_int_equal(c.recordings, 0);
    assert_true(c.dispatches % STEPS == 0 && c.dispatches > STEPS);
    assert_true(c.barriers % STEPS == 0 && c.barriers < c.dispatches);
    small_unmake(&n);
    trail_free(&t);
    ig_ctx_destroy(ctx);
}

/* Chains are one dispatch in a recording and many without, and products take activations and sums
 * along; the bits are the same. */
static void modes_agree_over(program *train, const char *net) {
    trail want = {0}, got = {0};
    ig_ctx_destroy(open_vulkan(IG_MODE_DYNAMIC));
    (void)play((setting){IG_MODE_DYNAMIC, "vulkan", 1}, train, &want);
    (void)play((setting){IG_MODE_COMPILED, "vulkan", 2}, train, &got);
    trail_must_equal(&got, &want, net);
    trail_free(&want);
    trail_free(&got);
}

static void modes_are_bit_exact(void **state) {
    (void)state;
    modes_agree_over(train_char_mlp, "char-mlp");
}

static void modes_agree_with_every_op_and_with_momentum(void **state) {
    (void)state;
    if (getenv("INGOT_VULKAN_FAULT")) skip(); /* it takes long, and was run without */
    modes_agree_over(train_every_op, "every op");
    modes_agree_over(train_by_sgd, "sgd");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dynamic_is_a_submit_for_each_op),
        cmocka_unit_test(a_batch_is_a_submit_for_each_flush),
        cmocka_unit_test(a_replay_is_one_submit_and_records_nothing),
        cmocka_unit_test(modes_are_bit_exact),
        cmocka_unit_test(modes_agree_with_every_op_and_with_momentum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
