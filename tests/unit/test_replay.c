/*
 * What reaches into a replayed step from outside: reads, writes, slots, results
 * that are kept, errors, cancelling, views of one memory, ops of the program's
 * own, batches.  Each program runs in all modes and must see the same numbers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "unit/nets.h"

enum { TIMES = 9 }; /* a step is recorded once and replayed so often, and some */

static ig_ctx *open_in(ig_mode mode) {
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.seed = 11, .threads = 1}, &ctx));
    must(ig_mode_set(ctx, mode));
    return ctx;
}

static uint64_t replays_of(const ig_ctx *ctx) { return ig_report_counters(ctx).replays; }

/* ---- reads ---- */

static void read_everywhere(ig_ctx *ctx, trail *t) {
    small_net n = small_make(ctx);
    for (int i = 0; i < TIMES; i++) {
        small_next_batch(&n);
        small_zero_grad(&n);
        ig_tensor *h = ig_tanh(ig_matmul(n.x, n.w[0]));
        trail_put_tensor(t, h);
        trail_put_tensor(t, n.w[0]);
        ig_tensor *turned = ig_transpose(h, 0, 1);
        trail_put_tensor(t, turned);
        trail_put_tensor(t, h); /* once more */
        ig_tensor *loss = ig_cross_entropy(ig_matmul(ig_rms_norm(h, n.w[2], 1e-5f), n.w[1]), n.y);
        must(ig_backward(loss));
        trail_put_item(t, loss);
        trail_put_tensor(t, ig_tensor_grad(n.w[1]));
        small_update(&n, 0.05);
        trail_put_tensor(t, n.w[1]);
        trail_put_tensor(t, n.mean[1]);
        trail_put_tensor(t, n.x);
        must(ig_ctx_step_end(ctx));
        trail_put_tensor(t, n.w[1]);
        trail_put_tensor(t, ig_tensor_grad(n.w[0]));
        trail_put_tensor(t, h);
    }
    small_unmake(&n);
}

static void everything_can_be_read_in_the_middle(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(read_everywhere);
    trail t = {0};
    const ig_counters c = play((setting){IG_MODE_COMPILED, NULL, 1}, read_everywhere, &t);
    assert_int_equal(c.records, 1);
    assert_int_equal(c.replays, TIMES - 1);
    trail_free(&t);
}

/* What is looked at changes from step to step. */
static void read_now_and_then(ig_ctx *ctx, trail *t) {
    small_net n = small_make(ctx);
    for (int i = 0; i < 4 * TIMES; i++) {
        small_next_batch(&n);
        small_zero_grad(&n);
        ig_tensor *h = ig_tanh(ig_matmul(n.x, n.w[0]));
        if (i % 9 == 3) trail_put_tensor(t, h);
        ig_tensor *logits = ig_matmul(ig_rms_norm(h, n.w[2], 1e-5f), n.w[1]);
        ig_tensor *loss = ig_cross_entropy(logits, n.y);
        if (i % 9 == 5) trail_put_item(t, loss);
        must(ig_backward(loss));
        if (i % 9 == 7) trail_put_tensor(t, ig_tensor_grad(n.w[0]));
        small_update(&n, 0.05);
        if (i % 9 == 8) trail_put_tensor(t, n.w[2]);
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, loss);
    }
    small_unmake(&n);
}

static void reads_may_come_and_go(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(read_now_and_then);
}

/* After a read behind the backward, the values before it are gone from the arena. */
static void look_back_after_a_read(ig_ctx *ctx, trail *t) {
    small_net n = small_make(ctx);
    for (int i = 0; i < TIMES; i++) {
        small_next_batch(&n);
        small_zero_grad(&n);
        ig_tensor *h = ig_tanh(ig_matmul(n.x, n.w[0]));
        ig_tensor *logits = ig_matmul(ig_rms_norm(ig_dropout(h, 0.3), n.w[2], 1e-5f), n.w[1]);
        ig_tensor *loss = ig_cross_entropy(logits, n.y);
        must(ig_backward(loss));
        trail_put_item(t, loss);
        if (i == 3) trail_put_tensor(t, logits); /* it was never looked at before */
        if (i == 5) trail_put_tensor(t, ig_softmax(h, -1));
        if (i == 7) trail_put_item(t, ig_mse(h, ig_tanh(h)));
        small_update(&n, 0.05);
        must(ig_ctx_step_end(ctx));
    }
    small_put(&n, t);
    small_unmake(&n);
}

static void values_from_before_a_read_can_be_used_after_it(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(look_back_after_a_read);
}

static void a_scalar_may_be_read_after_the_step_for_the_first_time_late(void **state) {
    (void)state;
    double seen[2];
    for (ig_mode mode = IG_MODE_DYNAMIC; mode <= IG_MODE_COMPILED; mode++) {
        ig_ctx *ctx = open_in(mode);
        small_net n = small_make(ctx);
        ig_tensor *loss = NULL;
        for (int i = 0; i < TIMES; i++) {
            small_next_batch(&n);
            loss = small_loss(&n);
            must(ig_ctx_step_end(ctx));
        }
        seen[mode] = item(loss);
        small_unmake(&n);
        ig_ctx_destroy(ctx);
    }
    assert_true(seen[0] == seen[1]);
}

/* Runs the small net forward; its logits are what may be kept or not. */
static ig_tensor *forward_step(small_net *n, ig_tensor **out_sum) {
    small_next_batch(n);
    ig_tensor *logits = small_logits(n, n->x, 0.3);
    *out_sum = sum_all(ig_mul(logits, logits));
    must(ig_ctx_step_end(n->ctx));
    return logits;
}

static void a_large_result_that_was_never_looked_at_is_refused_once_and_then_kept(void **state) {
    (void)state;
    ig_ctx *ctx = open_in(IG_MODE_COMPILED);
    small_net n = small_make(ctx);
    float all[SMALL_ROWS * SMALL_OUT];
    ig_tensor *sum, *logits = NULL;
    for (int i = 0; i < 3; i++) logits = forward_step(&n, &sum);
    ig_tensor *kept = ig_tensor_retain(sum);
    const double want = item(sum);
    refused(ig_tensor_read(logits, all, sizeof all), IG_ERR_STATE, "did not keep this result");
    assert_true(item(sum) == want); /* what was kept is there still, */
    for (int i = 0; i < 3; i++) {
        logits = forward_step(&n, &sum);
        must(ig_tensor_read(logits, all, sizeof all));
        float squares = 0;
        for (size_t j = 0; j < sizeof all / sizeof all[0]; j++) squares += all[j] * all[j];
        assert_true((double)squares > 0.99 * item(sum) && (double)squares < 1.01 * item(sum));
    }
    assert_true(item(kept) == want); /* and after more steps */
    assert_int_equal(replays_of(ctx), 5);
    ig_tensor_release(kept);
    small_unmake(&n);
    ig_ctx_destroy(ctx);
}

static void a_large_result_that_was_read_after_the_first_step_is_kept(void **state) {
    (void)state;
    ig_ctx *ctx = open_in(IG_MODE_COMPILED);
    small_net n = small_make(ctx);
    float all[SMALL_ROWS * SMALL_OUT];
    ig_tensor *sum;
    for (int i = 0; i < 4; i++) {
        ig_tensor *logits = forward_step(&n, &sum);
        if (i != 2) must(ig_tensor_read(logits, all, sizeof all));
    }
    assert_int_equal(replays_of(ctx), 3);
    small_unmake(&n);
    ig_ctx_destroy(ctx);
}

/* ---- results that outlive their step ---- */

static void carry_a_state(ig_ctx *ctx, trail *t) {
    small_net n = small_make(ctx);
    ig_tensor *h = ramp(ctx, IG_SHAPE(SMALL_ROWS, SMALL_INNER), 0, 0.01), *older = NULL;
    for (int i = 0; i < 3 * TIMES; i++) {
        small_next_batch(&n);
        small_zero_grad(&n);
        ig_tensor *next = ig_tanh(ig_add(ig_matmul(n.x, n.w[0]), h));
        ig_tensor *row = ig_slice(next, 0, 1, 3); /* a view that is held longer than its base */
        must(ig_backward(ig_cross_entropy(ig_matmul(next, n.w[1]), n.y)));
        must(ig_ctx_step_end(ctx));
        ig_tensor_release(older);
        older = h;
        h = ig_tensor_retain(next);
        if (i % 5 == 4) {
            ig_tensor *kept = ig_tensor_retain(row);
            trail_put_item(t, sum_all(ig_mul(older, h)));
            must(ig_ctx_step_end(ctx));
            trail_put_tensor(t, kept);
            ig_tensor_release(kept);
        }
    }
    trail_put_tensor(t, h);
    trail_put_tensor(t, older);
    ig_tensor_release(h);
    ig_tensor_release(older);
    small_unmake(&n);
}

static void a_result_that_is_retained_comes_back_as_an_input(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(carry_a_state);
}

/* Now and then a result is held, before its step ends. */
static void hold_now_and_then(ig_ctx *ctx, trail *t) {
    small_net n = small_make(ctx);
    ig_tensor *held[3 * TIMES] = {0};
    for (int i = 0; i < 3 * TIMES; i++) {
        small_next_batch(&n);
        small_zero_grad(&n);
        ig_tensor *h = ig_tanh(ig_matmul(n.x, n.w[0]));
        if (i % 7 == 5) held[i] = ig_tensor_retain(h);
        ig_tensor *loss = ig_cross_entropy(ig_matmul(h, n.w[1]), n.y);
        if (i % 7 == 6) trail_put_item(t, loss);
        if (i % 7 == 6) held[i] = ig_tensor_retain(h); /* behind a read */
        must(ig_backward(loss));
        must(ig_ctx_step_end(ctx));
        if (i % 7 == 4) held[i] = ig_tensor_retain(loss);
    }
    for (int i = 0; i < 3 * TIMES; i++)
        if (held[i]) trail_put_tensor(t, held[i]);
    for (int i = 0; i < 3 * TIMES; i++) ig_tensor_release(held[i]);
    small_unmake(&n);
}

static void results_may_be_retained_now_and_then(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(hold_now_and_then);
}

/* A result is held before it shows which of two recorded steps this is. */
static void hold_before_the_steps_part(ig_ctx *ctx, trail *t) {
    small_net n = small_make(ctx);
    ig_tensor *held = NULL;
    for (int i = 0; i < 3 * TIMES; i++) {
        small_next_batch(&n);
        ig_tensor *h = ig_tanh(ig_matmul(n.x, n.w[0])), *old = held;
        held = i % 3 ? ig_tensor_retain(h) : NULL; /* the third kind does not hold it */
        ig_tensor *y = ig_matmul(i % 2 ? ig_neg(h) : ig_exp(h), n.w[1]);
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, sum_all(n.w[1]));
        must(ig_ctx_step_end(ctx));
        (void)y;
        if (held) trail_put_tensor(t, held);
        if (old) trail_put_tensor(t, old);
        ig_tensor_release(old);
    }
    ig_tensor_release(held);
    small_unmake(&n);
}

static void a_result_may_be_held_before_the_recorded_steps_part(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(hold_before_the_steps_part);
}

/* In a scope a result lives on after its step, though it is not retained. */
static void use_after_the_step(ig_ctx *ctx, trail *t) {
    small_net n = small_make(ctx);
    for (int i = 0; i < TIMES; i++) {
        ig_scope_begin(ctx);
        small_next_batch(&n);
        ig_no_grad_begin(ctx);
        ig_tensor *h = ig_tanh(ig_matmul(n.x, n.w[0])), *logits = ig_matmul(h, n.w[1]);
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, sum_all(ig_mul(logits, logits)));
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, sum_all(h)); /* two steps later */
        must(ig_ctx_step_end(ctx));
        ig_no_grad_end(ctx);
        ig_scope_end(ctx);
    }
    small_unmake(&n);
}

static void in_a_scope_a_result_may_be_used_in_later_steps(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(use_after_the_step);
}

static void release_what_is_not_ours(ig_ctx *ctx, trail *t) {
    ig_tensor *x = ramp(ctx, IG_SHAPE(2, 3), 1, 1);
    for (int i = 0; i < TIMES; i++) {
        ig_tensor *y = ig_neg(x);
        ig_tensor_release(y); /* the scope's reference is not the caller's */
        ig_tensor_release(y);
        ig_tensor *z = ig_exp(ig_scale(y, 0.1, 0));
        ig_tensor_release(z);
        must(ig_ctx_step_end(ctx));
        ig_tensor_release(z);
        trail_put_tensor(t, z);
    }
    ig_tensor_release(x);
}

static void a_release_too_many_takes_nothing_from_the_scope(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(release_what_is_not_ours);
}

/* ---- writes and slots ---- */

static void write_in_the_middle(ig_ctx *ctx, trail *t) {
    small_net n = small_make(ctx);
    for (int i = 0; i < 3 * TIMES; i++) {
        small_next_batch(&n);
        small_zero_grad(&n);
        ig_tensor *loss = small_loss(&n);
        must(ig_backward(loss));
        if (i % 9 == 4) small_next_batch(&n); /* the loss has seen the old one */
        if (i % 9 == 6) must(ig_tensor_fill_uniform(n.w[1], -1, 1));
        if (i % 9 == 8) must(ig_tensor_fill_uniform(n.mean[0], -1, 1)); /* not met yet */
        small_update(&n, 0.05);
        if (i % 9 == 2) must(ig_tensor_fill_uniform(n.w[0], -1, 1));
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, loss);
    }
    small_put(&n, t);
    small_unmake(&n);
}

static void a_tensor_may_be_written_in_the_middle_of_a_step(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(write_in_the_middle);
}

static void a_parameter_written_between_forward_and_backward_is_refused(void **state) {
    (void)state;
    for (ig_mode mode = IG_MODE_DYNAMIC; mode <= IG_MODE_AUTO; mode++) {
        ig_ctx *ctx = open_in(mode);
        small_net n = small_make(ctx);
        trail t = {0};
        for (int i = 0; i < 6; i++) small_step(&n, 0.05, &t);
        ig_tensor *loss = small_loss(&n);
        must(ig_tensor_fill_uniform(n.w[1], -1, 1));
        refused(ig_backward(loss), IG_ERR_STATE, "w1 was written to");
        must(ig_ctx_step_end(ctx));
        for (int i = 0; i < 3; i++) small_step(&n, 0.05, &t);
        trail_free(&t);
        small_unmake(&n);
        ig_ctx_destroy(ctx);
    }
}

static void change_slots(ig_ctx *ctx, trail *t) {
    small_net n = small_make(ctx);
    const ig_attrs_sgd sgd = {.lr_slot = n.rate};
    for (int i = 0; i < 3 * TIMES; i++) {
        small_next_batch(&n);
        small_zero_grad(&n);
        ig_tensor *loss = small_loss(&n);
        must(ig_backward(loss));
        ig_slot_set_real(ctx, n.rate, 0.01 * (1 + i % 4));
        for (int k = 0; k < SMALL_PARAMS; k++) {
            must(ig_sgd(n.w[k], ig_tensor_grad(n.w[k]), NULL, sgd));
            if (i % 9 == 7)
                ig_slot_set_real(ctx, n.rate, 0.02 * (1 + k)); /* for those that follow */
        }
        if (i % 9 == 5) ig_slot_set_real(ctx, n.rate, 7);
        if (i % 9 == 6) ig_ctx_set_step_count(ctx, ig_ctx_step_count(ctx) + 100);
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, loss);
        if (i % 9 == 3) ig_ctx_set_step_count(ctx, 1000 + (uint64_t)i);
    }
    small_put(&n, t);
    small_unmake(&n);
}

static void slots_and_the_step_count_may_change_in_the_middle(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(change_slots);
}

/* ---- errors ---- */

static void stumble(ig_ctx *ctx, trail *t) {
    small_net n = small_make(ctx);
    for (int i = 0; i < 3 * TIMES; i++) {
        small_next_batch(&n);
        small_zero_grad(&n);
        ig_tensor *loss = small_loss(&n);
        if (i % 9 == 5) {
            loss = ig_add(loss, sum_all(ig_matmul(n.x, n.x))); /* [5,6] x [5,6] */
            refused(ig_backward(loss), IG_ERR_SHAPE, "matmul: [5,6] x [5,6]");
            must(ig_ctx_step_end(ctx));
            continue;
        }
        if (i % 9 == 7) { /* a failure whose result is not used is reported all the same */
            (void)ig_matmul(n.x, n.x);
            refused(ig_backward(loss), IG_ERR_SHAPE, "matmul: [5,6] x [5,6]");
            must(ig_ctx_step_end(ctx));
            continue;
        }
        if (i % 9 == 3) { /* and so is one that never becomes an op */
            (void)ig_dropout(loss, 2);
            refused(ig_backward(loss), IG_ERR_ARGUMENT, "dropout: p is 2");
            must(ig_ctx_step_end(ctx));
            continue;
        }
        must(ig_backward(loss));
        if (i % 9 == 8) refused(ig_clip(loss, loss, 1), IG_ERR_ARGUMENT, "cannot be overwritten");
        small_update(&n, 0.05);
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, loss);
    }
    small_put(&n, t);
    small_unmake(&n);
}

static void an_error_in_the_middle_is_reported_and_the_next_step_goes_well(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(stumble);
}

/* A custom op that fails on request. */
typedef struct fuse {
    bool blown;
    int runs;
    int64_t rows; /* of its result; 0: as many as it is given */
} fuse;

static ig_status infer_fuse(void *user, const ig_desc *in, uint32_t n_in, ig_desc *out) {
    const fuse *f = user;
    (void)n_in;
    *out = in[0];
    if (f->rows) out->shape.dim[0] = f->rows;
    return IG_OK;
}

static ig_status run_fuse(void *user, const ig_custom_operand *in, uint32_t n_in,
                          const ig_custom_operand *out) {
    fuse *f = user;
    (void)n_in;
    f->runs++;
    if (f->blown) return IG_FAIL(IG_ERR_DEVICE, "fuse: blown");
    const int64_t from = ig_shape_count(in[0].desc.shape), to = ig_shape_count(out[0].desc.shape);
    for (int64_t i = 0; i < to; i++)
        ((float *)out[0].bytes)[i] = ((const float *)in[0].bytes)[i % from] + 1;
    return IG_OK;
}

static ig_tensor *through(ig_ctx *ctx, uint32_t id, ig_tensor *x) {
    ig_tensor *y = NULL;
    ig_custom(ctx, id, &x, 1, &y);
    return y;
}

static uint32_t register_fuse(ig_ctx *ctx, fuse *f) {
    uint32_t id = 0;
    const ig_custom_op op = {
        .name = "fuse", .n_out = 1, .infer = infer_fuse, .run = run_fuse, .user = f};
    must(ig_custom_register(ctx, &op, &id));
    return id;
}

static void a_replay_that_fails_says_so_and_its_results_cannot_be_read(void **state) {
    (void)state;
    for (int read_in_the_middle = 0; read_in_the_middle < 2; read_in_the_middle++) {
        ig_ctx *ctx = open_in(IG_MODE_COMPILED);
        fuse f = {0};
        const uint32_t id = register_fuse(ctx, &f);
        ig_tensor *x = ramp(ctx, IG_SHAPE(2, 3), 0, 1), *w = ramp(ctx, IG_SHAPE(2, 3), 0, 0);
        for (int i = 0; i < 8; i++) {
            f.blown = i == 4;
            ig_tensor *sum = sum_all(through(ctx, id, x));
            double got = -1;
            ig_status status = read_in_the_middle ? ig_tensor_item(sum, &got) : IG_OK;
            if (f.blown && read_in_the_middle) refused(status, IG_ERR_DEVICE, "fuse: blown");
            if (status == IG_OK) must(ig_accumulate(w, ig_broadcast(sum, IG_SHAPE(2, 3))));
            status = ig_ctx_step_end(ctx);
            if (f.blown && !read_in_the_middle) refused(status, IG_ERR_DEVICE, "fuse: blown");
            if (f.blown)
                assert_int_not_equal(ig_tensor_item(sum, &got), IG_OK);
            else
                assert_true(item(sum) == 15 + 6);
        }
        HOLDS(w, 147, 147, 147, 147, 147, 147); /* seven times 21 */
        ig_tensor_release(w);
        ig_tensor_release(x);
        ig_ctx_destroy(ctx);
    }
}

static void eval_in_the_middle_reports_what_fails(void **state) {
    (void)state;
    ig_ctx *ctx = open_in(IG_MODE_COMPILED);
    fuse f = {0};
    const uint32_t id = register_fuse(ctx, &f);
    ig_tensor *x = ramp(ctx, IG_SHAPE(2, 3), 0, 1);
    for (int i = 0; i < 6; i++) {
        f.blown = i == 4;
        ig_tensor *y = through(ctx, id, ig_neg(x));
        const ig_status status = ig_eval(&y, 1);
        assert_int_equal(f.runs, i + 1); /* it has run now */
        assert_int_equal(status, i == 4 ? IG_ERR_DEVICE : IG_OK);
        must(ig_ctx_step_end(ctx));
    }
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

static bool cancel(void *user) { return *(bool *)user; }

static void a_replay_can_be_cancelled_and_the_context_goes_on(void **state) {
    (void)state;
    bool stop = false;
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.seed = 1, .cancel = cancel, .user = &stop}, &ctx));
    must(ig_mode_set(ctx, IG_MODE_COMPILED));
    ig_tensor *x = ramp(ctx, IG_SHAPE(2, 3), 0, 1), *w = ramp(ctx, IG_SHAPE(2, 3), 0, 0);
    double sum_of = 0;
    for (int i = 0; i < 12; i++) {
        ig_tensor *y = ig_scale(x, 2, 1), *sum = sum_all(y);
        stop = i == 4 || i == 5;
        if (stop) refused(ig_tensor_item(sum, &sum_of), IG_ERR_CANCELLED, "cancelled");
        stop = false;
        if (i != 5) assert_true(item(sum) == 36); /* asked again, it is computed */
        must(ig_accumulate(w, ig_scale(y, 1, 0)));
        stop = i == 8;
        if (stop)
            refused(ig_ctx_step_end(ctx), IG_ERR_CANCELLED, "cancelled");
        else
            must(ig_ctx_step_end(ctx));
        stop = false;
        if (i == 8) assert_int_not_equal(ig_tensor_item(sum_all(y), &sum_of), IG_OK);
        if (i == 8) must(ig_ctx_step_end(ctx));
    }
    HOLDS(w, 11, 33, 55, 77, 99, 121); /* all but the cancelled one */
    ig_tensor_release(x);
    ig_tensor_release(w);
    ig_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_can_be_read_in_the_middle),
        cmocka_unit_test(reads_may_come_and_go),
        cmocka_unit_test(values_from_before_a_read_can_be_used_after_it),
        cmocka_unit_test(a_scalar_may_be_read_after_the_step_for_the_first_time_late),
        cmocka_unit_test(a_large_result_that_was_never_looked_at_is_refused_once_and_then_kept),
        cmocka_unit_test(a_large_result_that_was_read_after_the_first_step_is_kept),
        cmocka_unit_test(a_result_that_is_retained_comes_back_as_an_input),
        cmocka_unit_test(results_may_be_retained_now_and_then),
        cmocka_unit_test(a_result_may_be_held_before_the_recorded_steps_part),
        cmocka_unit_test(in_a_scope_a_result_may_be_used_in_later_steps),
        cmocka_unit_test(a_release_too_many_takes_nothing_from_the_scope),
        cmocka_unit_test(a_tensor_may_be_written_in_the_middle_of_a_step),
        cmocka_unit_test(a_parameter_written_between_forward_and_backward_is_refused),
        cmocka_unit_test(slots_and_the_step_count_may_change_in_the_middle),
        cmocka_unit_test(an_error_in_the_middle_is_reported_and_the_next_step_goes_well),
        cmocka_unit_test(a_replay_that_fails_says_so_and_its_results_cannot_be_read),
        cmocka_unit_test(eval_in_the_middle_reports_what_fails),
        cmocka_unit_test(a_replay_can_be_cancelled_and_the_context_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
