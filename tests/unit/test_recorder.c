/*
 * What a recording may and may not do: several of them side by side, reads in the
 * middle and after the step, results that outlive it, refusal, scopes.  Whatever
 * happens, the numbers are those of Dynamic mode.
 */
#include <stdio.h>
#include <stdlib.h>

#include "unit/nets.h"

static ig_ctx *open_in(ig_mode mode) {
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.seed = 11, .threads = 1}, &ctx));
    must(ig_mode_set(ctx, mode));
    return ctx;
}

static void counted(const ig_ctx *ctx, uint64_t records, uint64_t replays) {
    const ig_counters c = ig_report_counters(ctx);
    if (c.records != records || c.replays != replays)
        fail_msg("%d recorded and %d replayed, not %d and %d", (int)c.records, (int)c.replays,
                 (int)records, (int)replays);
}

/* ---- side by side ---- */

enum { ROUNDS = 100, KINDS = 5 };

/* Two steps that only add gradients up (the first writes, the second adds), a step with the
 * update, an evaluation of more rows, and sampling that looks in the middle. */
static void alternate(ig_ctx *ctx, trail *t) {
    small_net n = small_make(ctx);
    ig_tensor *many = ramp(ctx, IG_SHAPE(9, SMALL_IN), -1, 0.03);
    for (int round = 0; round < ROUNDS; round++) {
        small_zero_grad(&n);
        for (int micro = 0; micro < 3; micro++) {
            small_next_batch(&n);
            ig_tensor *loss = small_loss(&n);
            must(ig_backward(loss));
            if (micro == 2) small_update(&n, 0.1 / (1 + round));
            must(ig_ctx_step_end(ctx));
            trail_put_item(t, loss);
        }
        ig_no_grad_begin(ctx);
        ig_tensor *logits = small_logits(&n, many, 0);
        must(ig_ctx_step_end(ctx));
        trail_put_tensor(t, logits);

        logits = small_logits(&n, n.x, 0);
        int32_t best[SMALL_ROWS];
        must(ig_tensor_read(ig_argmax(logits, -1), best, sizeof best));
        ig_tensor *next = ig_softmax(ig_scale(logits, 0.5, 0), -1);
        trail_put_tensor(t, next);
        ig_no_grad_end(ctx);
        must(ig_ctx_step_end(ctx));
        for (int i = 0; i < SMALL_ROWS; i++) trail_put(t, best[i]);
    }
    small_put(&n, t);
    ig_tensor_release(many);
    small_unmake(&n);
}

static void steps_of_five_kinds_alternate_with_five_recordings(void **state) {
    (void)state;
    static const uint64_t plain[] = {KINDS * ROUNDS, 0, 2}; /* Auto's first two are not recorded */
    trail want = {0};
    play((setting){IG_MODE_DYNAMIC, NULL, 1}, alternate, &want);
    for (ig_mode mode = IG_MODE_COMPILED; mode <= IG_MODE_AUTO; mode++) {
        trail got = {0};
        const ig_counters c = play((setting){mode, NULL, 2}, alternate, &got);
        trail_must_equal(&got, &want, "alternating");
        assert_int_equal(c.records, KINDS);
        assert_int_equal(c.replays, KINDS * ROUNDS - KINDS - plain[mode]);
        trail_free(&got);
    }
    trail_free(&want);
}

/* Steps over `rows` rows: each number is another recording. */
static void step_over(ig_ctx *ctx, ig_tensor *w, int64_t rows, trail *t) {
    ig_tensor *x = ramp(ctx, IG_SHAPE(rows, SMALL_IN), -1, 0.01);
    ig_tensor *y = ig_tanh(ig_matmul(x, w));
    trail_put_item(t, sum_all(ig_mul(y, y)));
    must(ig_ctx_step_end(ctx));
    ig_tensor_release(x);
}

static void of_more_than_sixteen_recordings_the_one_used_longest_ago_goes(void **state) {
    (void)state;
    enum { SHAPES = 20, TIMES = 6, MOST = 16 };
    ig_ctx *ctx = open_in(IG_MODE_COMPILED);
    trail t = {0};
    ig_tensor *w = parameter(ctx, IG_SHAPE(SMALL_IN, 3), "w");
    for (int64_t rows = 1; rows <= SHAPES; rows++)
        for (int i = 0; i < TIMES; i++) step_over(ctx, w, rows, &t);
    counted(ctx, SHAPES, SHAPES * (TIMES - 1));
    assert_int_equal(recordings_of(ctx).count, MOST);
    assert_false(recordings_of(ctx).refused);

    for (int64_t rows = SHAPES; rows > SHAPES - MOST; rows--) step_over(ctx, w, rows, &t);
    counted(ctx, SHAPES, SHAPES * (TIMES - 1) + MOST); /* all still there, the fifth used last */
    step_over(ctx, w, 1, &t);                          /* takes the place of the twentieth */
    counted(ctx, SHAPES + 1, SHAPES * (TIMES - 1) + MOST);
    step_over(ctx, w, 5, &t);
    counted(ctx, SHAPES + 1, SHAPES * (TIMES - 1) + MOST + 1);
    step_over(ctx, w, SHAPES, &t);
    counted(ctx, SHAPES + 2, SHAPES * (TIMES - 1) + MOST + 1);
    for (size_t i = 1; i < t.count; i++) /* equal shapes gave equal numbers */
        if (i % TIMES && i < SHAPES * TIMES) assert_true(t.numbers[i] == t.numbers[i - 1]);
    trail_free(&t);
    ig_tensor_release(w);
    ig_ctx_destroy(ctx);
}

static void other_shape_every_step(ig_ctx *ctx, trail *t) {
    ig_tensor *w = parameter(ctx, IG_SHAPE(SMALL_IN, 3), "w");
    for (int64_t rows = 1; rows <= 40; rows++) step_over(ctx, w, rows, t);
    ig_tensor_release(w);
}

static void eight_new_recordings_in_32_steps_end_recording_with_a_reason(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(other_shape_every_step);
    ig_ctx *ctx = open_in(IG_MODE_COMPILED);
    trail t = {0};
    other_shape_every_step(ctx, &t);
    const recordings r = recordings_of(ctx);
    counted(ctx, 8, 0);
    assert_true(r.refused);
    assert_string_equal(r.reason, "event 0: matmul [8,6]: no recording has it");
    assert_null(strstr(r.reason, "end of the step")); /* nothing ended early */

    must(ig_mode_set(ctx, IG_MODE_COMPILED)); /* and from here on it may be tried again */
    assert_false(recordings_of(ctx).refused);
    trail_free(&t);
    ig_ctx_destroy(ctx);
}

static void a_new_recording_now_and_then_is_never_refused(void **state) {
    (void)state;
    ig_ctx *ctx = open_in(IG_MODE_COMPILED);
    trail t = {0};
    ig_tensor *w = parameter(ctx, IG_SHAPE(SMALL_IN, 3), "w");
    for (int64_t rows = 1; rows <= 14; rows++) /* seven in 31 */
        for (int i = 0; i < 5; i++) step_over(ctx, w, rows, &t);
    counted(ctx, 14, 14 * 4);
    assert_false(recordings_of(ctx).refused);
    trail_free(&t);
    ig_tensor_release(w);
    ig_ctx_destroy(ctx);
}

/* ---- identity ---- */

static void come_and_go(ig_ctx *ctx, trail *t) {
    for (int life = 0; life < 4; life++) { /* handles are reused oldest first: all of them return */
        small_net n = small_make(ctx);
        for (int i = 0; i < 12; i++) small_step(&n, 0.05, t);
        small_put(&n, t);
        small_unmake(&n);
        for (int i = 0; i < 100; i++) ig_tensor_release(ramp(ctx, IG_SHAPE(3), 0, 1));
    }
}

static void parameters_that_lie_where_others_lay_are_others(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(come_and_go);
    trail t = {0};
    const ig_counters c = play((setting){IG_MODE_COMPILED, NULL, 1}, come_and_go, &t);
    assert_int_equal(c.records, 4);
    assert_int_equal(c.replays, 4 * 11);
    trail_free(&t);
}

static void a_tensor_of_another_context_is_refused_in_a_replay_too(void **state) {
    (void)state;
    ig_ctx *ctx = open_in(IG_MODE_COMPILED), *other = open_in(IG_MODE_COMPILED);
    ig_tensor *w = parameter(ctx, IG_SHAPE(2, 2), "w"), *x = ramp(ctx, IG_SHAPE(2, 2), 0, 1);
    ig_tensor *far_w = parameter(other, IG_SHAPE(2, 2), "w"); /* with the same number there */
    for (int i = 0; i < 3; i++) {
        (void)item(sum_all(ig_matmul(x, w)));
        must(ig_ctx_step_end(ctx));
    }
    ig_tensor *got = sum_all(ig_matmul(x, far_w));
    double sum;
    refused(ig_tensor_item(got, &sum), IG_ERR_ARGUMENT, "belongs to another context");
    must(ig_ctx_step_end(ctx));
    (void)item(sum_all(ig_matmul(x, w)));
    ig_tensor_release(x);
    ig_tensor_release(w);
    ig_tensor_release(far_w);
    ig_ctx_destroy(other);
    ig_ctx_destroy(ctx);
}

/* A tensor that updates write to becomes a parameter later. */
static void ask_for_a_gradient_later(ig_ctx *ctx, trail *t) {
    ig_tensor *v = ramp(ctx, IG_SHAPE(3, 4), 0.1, 0.2), *x = ramp(ctx, IG_SHAPE(2, 3), -1, 0.3);
    ig_tensor *w = parameter(ctx, IG_SHAPE(4, 2), "w");
    for (int i = 0; i < 8; i++) {
        if (i == 4) must(ig_tensor_require_grad(v));
        ig_tensor *loss = sum_all(ig_matmul(ig_tanh(ig_matmul(x, v)), w));
        ig_tensor_zero_grad(w);
        ig_tensor_zero_grad(v);
        must(ig_backward(loss));
        must(ig_accumulate(v, ig_scale(v, 0.1, 0)));
        assert_int_equal(ig_tensor_grad(v) != NULL, i >= 4);
        if (i >= 4) trail_put_tensor(t, ig_tensor_grad(v));
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, loss);
    }
    ig_tensor_release(v);
    ig_tensor_release(x);
    ig_tensor_release(w);
}

static void a_tensor_may_ask_for_its_gradient_between_replays(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(ask_for_a_gradient_later);
}

/* ---- small steps ---- */

static void steps_of_next_to_nothing(ig_ctx *ctx, trail *t) {
    ig_tensor *x = ramp(ctx, IG_SHAPE(3, 4), 1, 1), *none = ramp(ctx, IG_SHAPE(0, 4), 1, 1);
    for (int i = 0; i < 8; i++) {
        trail_put_tensor(t, ig_neg(x)); /* one op */
        must(ig_ctx_step_end(ctx));
        ig_tensor *y = ig_exp(ig_scale(x, 0.1, 0));
        must(ig_ctx_step_end(ctx));
        if (i % 2) trail_put(t, 1);
        ig_tensor *flat = ig_reshape(x, IG_SHAPE(2, 6)); /* only views */
        trail_put_tensor(t, ig_transpose(flat, 0, 1));
        must(ig_ctx_step_end(ctx));
        y = sum_all(ig_matmul(none, ig_transpose(x, 0, 1))); /* [0,4] x [4,3] */
        trail_put_item(t, y);
        must(ig_ctx_step_end(ctx));
        trail_put_tensor(t, ig_full(ctx, (ig_desc){IG_F32, IG_SHAPE(2, 3)}, i % 3));
        must(ig_ctx_step_end(ctx));
        must(ig_ctx_step_end(ctx)); /* nothing happened */
    }
    ig_tensor_release(x);
    ig_tensor_release(none);
}

static void steps_of_one_op_of_views_or_of_nothing_are_replayed_too(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(steps_of_next_to_nothing);
}

/* ---- scopes ---- */

static void scoped_steps(ig_ctx *ctx, trail *t) {
    small_net n = small_make(ctx);
    for (int i = 0; i < NET_STEPS; i++) {
        ig_scope_begin(ctx);
        small_step(&n, 0.05, t);
        ig_scope_end(ctx);
    }
    small_put(&n, t);
    small_unmake(&n);
}

static void steps_in_scopes_count_once(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(scoped_steps);
    static const uint64_t records[] = {0, 1, 1}, replays[] = {0, NET_STEPS - 1, NET_STEPS - 3};
    for (ig_mode mode = IG_MODE_DYNAMIC; mode <= IG_MODE_AUTO; mode++) {
        trail t = {0};
        const ig_counters c = play((setting){mode, NULL, 1}, scoped_steps, &t);
        assert_int_equal(c.steps, NET_STEPS);
        assert_int_equal(c.records, records[mode]);
        assert_int_equal(c.replays, replays[mode]);
        trail_free(&t);
    }
}

static void scopes_within_a_scope(ig_ctx *ctx, trail *t) {
    small_net n = small_make(ctx);
    ig_scope_begin(ctx);
    uint64_t tensors = 0, bytes = 0;
    for (int i = 0; i < 200; i++) {
        ig_scope_begin(ctx);
        small_step(&n, 0.05, t);
        ig_scope_end(ctx);
        const uint64_t now = ig_report_counters(ctx).tensors,
                       used = ig_report_memory(ctx).allocated_bytes;
        if (i == 20) tensors = now, bytes = used;
        if (i > 20) assert_int_equal(now, tensors);
        if (i > 20) assert_int_equal(used, bytes);
    }
    ig_scope_end(ctx);
    small_put(&n, t);
    small_unmake(&n);
}

static void a_loop_of_scopes_inside_a_scope_holds_its_memory(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(scopes_within_a_scope);
}

/* Without scopes inside, results stay until the end: all of them may be looked at there. */
static void steps_in_one_scope(ig_ctx *ctx, trail *t) {
    enum { STEPS = 12 };
    small_net n = small_make(ctx);
    ig_tensor *losses[STEPS], *logits[STEPS];
    ig_scope_begin(ctx);
    for (int i = 0; i < STEPS; i++) {
        small_next_batch(&n);
        small_zero_grad(&n);
        logits[i] = small_logits(&n, n.x, 0.3);
        losses[i] = ig_cross_entropy(logits[i], n.y);
        must(ig_backward(losses[i]));
        small_update(&n, 0.1);
        must(ig_ctx_step_end(ctx));
        trail_put_tensor(t, logits[i]);
    }
    for (int i = 0; i < STEPS; i++) {
        trail_put_item(t, losses[i]);
        trail_put_tensor(t, logits[i]);
    }
    ig_scope_end(ctx);
    small_unmake(&n);
}

static void results_of_all_steps_in_a_scope_stay_to_its_end(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(steps_in_one_scope);
}

/* Two networks and two optimizers: the first step ends while the second loss waits. */
static void two_optimizers(ig_ctx *ctx, trail *t) {
    ig_module *net[2];
    ig_optimizer *opt[2];
    ig_tensor *x = ramp(ctx, IG_SHAPE(5, 4), -1, 0.1), *z = ramp(ctx, IG_SHAPE(5, 3), 1, -0.1);
    for (int i = 0; i < 2; i++) {
        must(ig_linear_create(ctx, i ? 4 : 3, i ? 3 : 4, NULL, &net[i]));
        must(ig_adamw_create(net[i], &(ig_adamw_options){.lr = 0.05}, &opt[i]));
    }
    for (int i = 0; i < 20; i++) {
        ig_scope_begin(ctx);
        must(ig_tensor_fill_normal(z, 0, 1));
        ig_optimizer_zero_grad(opt[0]);
        ig_optimizer_zero_grad(opt[1]);
        ig_tensor *fake = ig_dropout(ig_module_call(net[0], z), 0.2);
        ig_tensor *loss0 = ig_mse(fake, x), *loss1 = ig_mse(ig_module_call(net[1], x), z);
        must(ig_backward(loss0));
        must(ig_optimizer_step(opt[0]));
        trail_put_item(t, loss0);
        must(ig_backward(loss1)); /* what it came from is there still */
        must(ig_optimizer_step(opt[1]));
        trail_put_item(t, loss1);
        ig_scope_end(ctx);
    }
    for (int i = 0; i < 2; i++) {
        trail_put_tensor(t, ig_module_param(net[i], 0).tensor);
        trail_put(t, (double)ig_optimizer_steps(opt[i]));
        ig_optimizer_destroy(opt[i]);
        ig_module_destroy(net[i]);
    }
    ig_tensor_release(x);
    ig_tensor_release(z);
}

static void two_optimizers_share_a_scope(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(two_optimizers);
    trail t = {0};
    const ig_counters c = play((setting){IG_MODE_COMPILED, NULL, 1}, two_optimizers, &t);
    assert_int_equal(c.steps, 40);
    assert_int_equal(c.records, 1);
    assert_int_equal(c.replays, 19);
    trail_free(&t);
}

/* The same forward step ends for good outside of a scope, but not inside of one. */
static void go_back_after_the_step(ig_ctx *ctx, trail *t) {
    small_net n = small_make(ctx);
    for (int i = 0; i < 12; i++) {
        if (i % 2) ig_scope_begin(ctx);
        small_next_batch(&n);
        ig_tensor *loss = small_loss(&n);
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, loss);
        if (i % 2) {
            small_zero_grad(&n);
            must(ig_backward(loss));
            small_update(&n, 0.1);
            must(ig_ctx_step_end(ctx));
            ig_scope_end(ctx);
        }
    }
    small_put(&n, t);
    small_unmake(&n);
}

static void inside_of_a_scope_a_step_s_loss_can_be_gone_back_through_later(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(go_back_after_the_step);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_five_kinds_alternate_with_five_recordings),
        cmocka_unit_test(of_more_than_sixteen_recordings_the_one_used_longest_ago_goes),
        cmocka_unit_test(eight_new_recordings_in_32_steps_end_recording_with_a_reason),
        cmocka_unit_test(a_new_recording_now_and_then_is_never_refused),
        cmocka_unit_test(parameters_that_lie_where_others_lay_are_others),
        cmocka_unit_test(a_tensor_of_another_context_is_refused_in_a_replay_too),
        cmocka_unit_test(a_tensor_may_ask_for_its_gradient_between_replays),
        cmocka_unit_test(steps_of_one_op_of_views_or_of_nothing_are_replayed_too),
        cmocka_unit_test(steps_in_scopes_count_once),
        cmocka_unit_test(a_loop_of_scopes_inside_a_scope_holds_its_memory),
        cmocka_unit_test(results_of_all_steps_in_a_scope_stay_to_its_end),
        cmocka_unit_test(two_optimizers_share_a_scope),
        cmocka_unit_test(inside_of_a_scope_a_step_s_loss_can_be_gone_back_through_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
