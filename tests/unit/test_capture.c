/*
 * Capturing by hand: a replay does what the function would have done if it had
 * been called again, and costs no memory.  Where it cannot be done, words say so.
 */
#include "unit/nets.h"

enum { TIMES = 30 };

/* A training step with an optimizer, dropout and a result that is held. */
typedef struct job {
    ig_ctx *ctx;
    ig_module *net;
    ig_optimizer *opt;
    ig_tensor *x, *y;
    ig_tensor *loss, *turned; /* held */
    ig_status fails_with;
    int calls;
} job;

static void drop_results(job *j) {
    ig_tensor_release(j->loss);
    ig_tensor_release(j->turned);
    j->loss = j->turned = NULL;
}

static ig_status train(void *arg) {
    job *j = arg;
    j->calls++;
    drop_results(j);
    ig_optimizer_zero_grad(j->opt);
    ig_tensor *out = ig_dropout(ig_module_call(j->net, j->x), 0.25);
    ig_tensor *loss = ig_mse(out, j->y);
    j->loss = ig_tensor_retain(loss);
    j->turned = ig_tensor_retain(ig_transpose(out, 0, 1));
    IG_TRY(ig_backward(loss));
    (void)ig_optimizer_clip_grad_norm(j->opt, 0.5);
    if (j->fails_with != IG_OK) return IG_FAIL(j->fails_with, "train: told to fail");
    return ig_optimizer_step(j->opt);
}

static job make_job(ig_ctx *ctx) {
    job j = {.ctx = ctx};
    must(ig_linear_create(ctx, 6, 3, NULL, &j.net));
    must(ig_adamw_create(j.net, &(ig_adamw_options){.lr = 0.1}, &j.opt));
    j.x = ramp(ctx, IG_SHAPE(4, 6), -1, 0.1);
    j.y = ramp(ctx, IG_SHAPE(4, 3), 1, -0.1);
    return j;
}

static void unmake_job(job *j) {
    drop_results(j);
    ig_tensor_release(j->x);
    ig_tensor_release(j->y);
    ig_optimizer_destroy(j->opt);
    ig_module_destroy(j->net);
}

static void put_state(const job *j, trail *t) {
    trail_put_item(t, j->loss);
    trail_put_tensor(t, j->turned);
    trail_put(t, (double)ig_optimizer_steps(j->opt));
    trail_put(t, (double)ig_ctx_step_count(j->ctx));
    for (size_t i = 0; i < ig_module_param_count(j->net); i++) {
        ig_tensor *param = ig_module_param(j->net, i).tensor;
        trail_put_tensor(t, param);
        assert_non_null(ig_tensor_grad(param));
        trail_put_tensor(t, ig_tensor_grad(param));
    }
}

/* The loop, with the function called every time or captured once. */
static void loop(ig_ctx *ctx, trail *t, bool captured) {
    job j = make_job(ctx);
    ig_captured *c = NULL;
    for (int i = 0; i < TIMES; i++) {
        must(ig_tensor_fill_uniform(j.x, -1, 1));
        ig_optimizer_set_lr(j.opt, 0.1 / (1 + i % 7));
        if (!captured)
            must(train(&j));
        else if (!c)
            must(ig_capture(ctx, train, &j, &c));
        else
            must(ig_captured_replay(c));
        put_state(&j, t);
        if (i % 5 == 4) ig_optimizer_zero_grad(j.opt); /* train() does so too */
    }
    assert_int_equal(j.calls, captured ? 1 : TIMES);
    ig_captured_destroy(c);
    unmake_job(&j);
}

static void loop_plainly(ig_ctx *ctx, trail *t) { loop(ctx, t, false); }
static void loop_captured(ig_ctx *ctx, trail *t) { loop(ctx, t, true); }

static void replays_are_what_calls_would_be(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; threads++)
        for (ig_mode mode = IG_MODE_DYNAMIC; mode <= IG_MODE_AUTO; mode++) {
            trail want = {0}, got = {0};
            play((setting){IG_MODE_DYNAMIC, NULL, threads}, loop_plainly, &want);
            const ig_counters c = play((setting){mode, NULL, threads}, loop_captured, &got);
            trail_must_equal(&got, &want, "captured");
            assert_int_equal(c.records, 1);
            assert_int_equal(c.replays, TIMES - 1);
            assert_int_equal(c.steps, TIMES);
            trail_free(&want);
            trail_free(&got);
        }
}

/* ---- several steps, reads, wrapped inputs ---- */

typedef struct pair {
    job a, b;
    double seen;
} pair;

/* Two steps, and a look at something between them. */
static ig_status train_both(void *arg) {
    pair *p = arg;
    IG_TRY(train(&p->a));
    IG_TRY(ig_tensor_item(p->a.loss, &p->seen));
    return train(&p->b);
}

static void several_steps_can_be_captured_together(void **state) {
    ig_ctx *ctx = *state;
    pair p = {make_job(ctx), make_job(ctx), 0};
    ig_captured *c = NULL;
    must(ig_capture(ctx, train_both, &p, &c));
    assert_true(p.seen == item(p.a.loss));
    double before[2] = {item(p.a.loss), item(p.b.loss)};
    for (int i = 1; i < TIMES; i++) must(ig_captured_replay(c));
    assert_int_equal(ig_optimizer_steps(p.a.opt), TIMES);
    assert_int_equal(ig_optimizer_steps(p.b.opt), TIMES);
    assert_int_equal(ig_ctx_step_count(ctx), 2 * TIMES);
    assert_true(item(p.a.loss) < before[0] && item(p.b.loss) < before[1]);
    ig_captured_destroy(c);
    unmake_job(&p.a);
    unmake_job(&p.b);
}

typedef struct product {
    ig_tensor *a, *b, *sum; /* the sum is held */
} product;

static ig_status multiply(void *arg) {
    product *p = arg;
    p->sum = ig_tensor_retain(sum_all(ig_matmul(p->a, p->b)));
    return IG_OK;
}

static void wrapped_inputs_are_read_as_they_are(void **state) {
    ig_ctx *ctx = *state;
    float memory[4] = {1, 2, 3, 4};
    product p = {.b = FLOATS(ctx, IG_SHAPE(2, 2), 1, 0, 0, 1)};
    ig_captured *c = NULL;
    must(ig_tensor_wrap(ctx, (ig_desc){IG_F32, IG_SHAPE(2, 2)}, NULL, memory, NULL, NULL, &p.a));
    must(ig_capture(ctx, multiply, &p, &c));
    assert_true(item(p.sum) == 10);
    for (int i = 0; i < TIMES; i++) {
        memory[i % 4] += 5;
        must(ig_captured_replay(c));
        assert_true(item(p.sum) == 10 + 5 * (i + 1));
    }
    must(ig_tensor_write(p.b, (const float[]){2, 0, 0, 2}, 16));
    must(ig_captured_replay(c));
    assert_true(item(p.sum) == 2 * (10 + 5 * TIMES));
    ig_tensor_release(p.sum);
    ig_tensor_release(p.a);
    ig_tensor_release(p.b);
    ig_captured_destroy(c);
}

/* ---- nothing runs while it is written down ---- */

static uint64_t ops_alone(const ig_ctx *ctx) {
    const ig_counters c = ig_report_counters(ctx);
    return c.program_hits + c.program_misses;
}

static void what_is_captured_runs_as_one_plan_from_the_first_time_on(void **state) {
    ig_ctx *ctx = *state;
    job j = make_job(ctx);
    ig_captured *c = NULL;
    must(ig_capture(ctx, train, &j, &c));
    assert_int_equal(ops_alone(ctx), 0);
    assert_int_equal(ig_report_counters(ctx).submits, 1);
    assert_int_equal(ig_report_counters(ctx).replays, 0);
    ig_captured_destroy(c);
    unmake_job(&j);
}

/* Functions that look at their numbers, or change what they have used: each gives a sum of
 * x = (1, 2, 3, 4) and of what it makes of it. */
typedef struct meddler {
    ig_ctx *ctx;
    ig_tensor *x, *y, *sum; /* the sum is held */
    uint32_t rate;
} meddler;

static ig_status end_with(meddler *m, ig_tensor *sum) {
    ig_tensor_release(m->sum);
    m->sum = ig_tensor_retain(sum);
    return IG_OK;
}

static ig_status look_at_a_result(void *arg) {
    meddler *m = arg;
    double seen = 0;
    IG_TRY(ig_tensor_item(sum_all(m->x), &seen));
    assert_true(seen == 10);
    return end_with(m, ig_scale(sum_all(m->x), seen, 0));
}

static ig_status look_at_what_was_overwritten(void *arg) {
    meddler *m = arg;
    float seen[4];
    IG_TRY(ig_assign(m->y, ig_neg(m->x)));
    IG_TRY(ig_tensor_read(m->y, seen, sizeof seen));
    assert_true(seen[0] == -1 && seen[3] == -4);
    return end_with(m, sum_all(m->y));
}

static ig_status write_to_what_was_read(void *arg) {
    meddler *m = arg;
    ig_tensor *before = sum_all(m->y);
    IG_TRY(ig_tensor_write(m->y, (const float[]){5, 5, 5, 5}, 16));
    return end_with(m, before);
}

static ig_status change_a_slot_that_was_used(void *arg) {
    meddler *m = arg;
    for (int i = 1; i <= 2; i++) {
        ig_slot_set_real(m->ctx, m->rate, i);
        IG_TRY(ig_sgd(m->y, m->x, NULL, (ig_attrs_sgd){.lr_slot = m->rate}));
    }
    return end_with(m, sum_all(m->y)); /* y - x - 2 x */
}

static ig_status only_build(void *arg) {
    meddler *m = arg;
    IG_TRY(ig_assign(m->y, ig_neg(m->x)));
    return end_with(m, sum_all(m->y));
}

static void a_function_sees_what_it_would_have_computed(void **state) {
    ig_ctx *ctx = *state;
    static const struct {
        ig_status (*fn)(void *arg);
        double sum;
        bool at_once; /* ops run one by one */
    } all[] = {{look_at_a_result, 100, true},
               {look_at_what_was_overwritten, -10, true},
               {write_to_what_was_read, 4, true},
               {change_a_slot_that_was_used, 4 - 30, true},
               {only_build, -10, false}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        meddler m = {.ctx = ctx,
                     .x = FLOATS(ctx, IG_SHAPE(4), 1, 2, 3, 4),
                     .y = FLOATS(ctx, IG_SHAPE(4), 1, 1, 1, 1)};
        ig_captured *c = NULL;
        must(ig_slot_create(ctx, &m.rate));
        const uint64_t alone = ops_alone(ctx);
        must(ig_capture(ctx, all[i].fn, &m, &c));
        assert_true((ops_alone(ctx) > alone) == all[i].at_once);
        assert_true(item(m.sum) == all[i].sum);
        ig_captured_destroy(c);
        ig_tensor_release(m.sum);
        ig_tensor_release(m.x);
        ig_tensor_release(m.y);
    }
}

/* ---- who outlives whom ---- */

static void a_result_may_outlive_its_capture_and_a_capture_its_inputs(void **state) {
    ig_ctx *ctx = *state;
    product p = {FLOATS(ctx, IG_SHAPE(2, 2), 1, 2, 3, 4), FLOATS(ctx, IG_SHAPE(2, 2), 1, 1, 1, 1),
                 NULL};
    ig_captured *c = NULL;
    must(ig_capture(ctx, multiply, &p, &c));
    ig_tensor_release(p.a); /* the capture keeps what it reads */
    ig_tensor_release(p.b);
    for (int i = 0; i < 50; i++) ig_tensor_release(ramp(ctx, IG_SHAPE(2, 2), 9, 9));
    must(ig_captured_replay(c));
    assert_true(item(p.sum) == 20);
    ig_tensor *negative = ig_neg(p.sum); /* an input like all others */
    assert_true(item(negative) == -20);
    must(ig_ctx_step_end(ctx));
    ig_captured_destroy(c);
    for (int i = 0; i < 50; i++) ig_tensor_release(ramp(ctx, IG_SHAPE(8, 8), 9, 9));
    assert_true(item(p.sum) == 20);
    ig_tensor_release(p.sum);
    ig_captured_destroy(NULL);
}

static void results_without_a_reference_need_not_be_there(void **state) {
    ig_ctx *ctx = *state;
    job j = make_job(ctx);
    ig_captured *c = NULL;
    must(ig_capture(ctx, train, &j, &c));
    drop_results(&j);
    for (int i = 1; i < TIMES; i++) must(ig_captured_replay(c));
    assert_int_equal(ig_optimizer_steps(j.opt), TIMES);
    ig_captured_destroy(c);
    unmake_job(&j);
}

/* ---- what is refused ---- */

static ig_status nothing(void *arg) {
    (void)arg;
    return IG_OK;
}

static ig_status no_such_product(void *arg) {
    product *p = arg;
    (void)ig_matmul(p->a, p->a);
    return IG_OK;
}

typedef struct nested {
    ig_ctx *ctx;
    ig_captured *done; /* made before */
    product *product;
} nested;

/* Everything that needs the whole context to itself, after a step has ended inside. */
static ig_status capture_inside(void *arg) {
    nested *n = arg;
    ig_captured *inner = NULL;
    (void)ig_neg(n->product->a);
    must(ig_ctx_step_end(n->ctx));
    refused(ig_capture(n->ctx, multiply, n->product, &inner), IG_ERR_STATE, "in the middle");
    refused(ig_captured_replay(n->done), IG_ERR_STATE, "in the middle");
    refused(ig_mode_set(n->ctx, IG_MODE_COMPILED), IG_ERR_STATE, "in the middle");
    assert_null(inner);
    (void)ig_neg(n->product->b);
    return IG_OK;
}

static void captures_do_not_nest(void **state) {
    ig_ctx *ctx = *state;
    product p = {FLOATS(ctx, IG_SHAPE(2, 2), 1, 2, 3, 4), FLOATS(ctx, IG_SHAPE(2, 2), 1, 1, 1, 1),
                 NULL};
    nested n = {.ctx = ctx, .product = &p};
    ig_captured *c = NULL;
    must(ig_capture(ctx, multiply, &p, &n.done));
    must(ig_capture(ctx, capture_inside, &n, &c));
    must(ig_captured_replay(c));
    must(ig_captured_replay(n.done));
    assert_true(item(p.sum) == 20);
    ig_captured_destroy(c);
    ig_captured_destroy(n.done);
    ig_tensor_release(p.sum);
    ig_tensor_release(p.a);
    ig_tensor_release(p.b);
}

static void a_capture_in_the_middle_of_a_step_is_refused(void **state) {
    ig_ctx *ctx = *state;
    product p = {FLOATS(ctx, IG_SHAPE(2, 2), 1, 2, 3, 4), FLOATS(ctx, IG_SHAPE(2, 2), 1, 1, 1, 1),
                 NULL};
    ig_captured *c = NULL, *no = NULL;
    must(ig_capture(ctx, multiply, &p, &c));
    for (ig_mode mode = IG_MODE_DYNAMIC; mode <= IG_MODE_AUTO; mode++) {
        must(ig_mode_set(ctx, mode));
        for (int i = 0; i < 5; i++) {
            ig_tensor *y = ig_neg(p.a);
            refused(ig_capture(ctx, multiply, &p, &no), IG_ERR_STATE, "in the middle of a step");
            refused(ig_captured_replay(c), IG_ERR_STATE, "in the middle of a step");
            HOLDS(y, -1, -2, -3, -4);
            must(ig_ctx_step_end(ctx));
            must(ig_captured_replay(c));
        }
    }
    assert_null(no);
    ig_captured_destroy(c);
    ig_tensor_release(p.sum);
    ig_tensor_release(p.a);
    ig_tensor_release(p.b);
}

/* A step has ended, but a loss waits inside of the scope. */
static void a_capture_while_a_loss_waits_is_refused(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = parameter(ctx, IG_SHAPE(2, 2), "w");
    product p = {FLOATS(ctx, IG_SHAPE(2, 2), 1, 2, 3, 4), FLOATS(ctx, IG_SHAPE(2, 2), 1, 1, 1, 1),
                 NULL};
    ig_captured *c = NULL;
    must(ig_mode_set(ctx, IG_MODE_COMPILED));
    for (int i = 0; i < 4; i++) {
        ig_scope_begin(ctx);
        ig_tensor *loss = sum_all(ig_mul(w, p.a));
        must(ig_ctx_step_end(ctx));
        refused(ig_capture(ctx, multiply, &p, &c), IG_ERR_STATE, "in the middle of a step");
        ig_tensor_zero_grad(w);
        must(ig_backward(loss));
        must(ig_ctx_step_end(ctx));
        HOLDS(ig_tensor_grad(w), 1, 2, 3, 4);
        ig_scope_end(ctx);
    }
    ig_tensor_release(w);
    ig_tensor_release(p.a);
    ig_tensor_release(p.b);
}

static void a_function_that_fails_leaves_the_context_as_after_a_failed_step(void **state) {
    ig_ctx *ctx = *state;
    job j = make_job(ctx);
    product p = {j.x, j.y, NULL};
    ig_captured *c = NULL;
    must(train(&j));
    j.fails_with = IG_ERR_IO;
    refused(ig_capture(ctx, train, &j, &c), IG_ERR_IO, "told to fail");
    refused(ig_capture(ctx, no_such_product, &p, &c), IG_ERR_SHAPE, "matmul: [4,6] x [4,6]");
    refused(ig_capture(ctx, nothing, NULL, &c), IG_ERR_ARGUMENT, "computed nothing");
    refused(ig_capture(ctx, NULL, NULL, &c), IG_ERR_ARGUMENT, "NULL");
    assert_null(c);
    j.fails_with = IG_OK;
    double loss = 0;
    refused(ig_tensor_item(j.loss, &loss), IG_ERR_STATE, "an op that failed");
    assert_null(ig_tensor_grad(ig_module_param(j.net, 0).tensor)); /* zeroed, and not computed */
    assert_int_equal(ig_optimizer_steps(j.opt), 1);
    must(ig_capture(ctx, train, &j, &c));
    must(ig_captured_replay(c));
    assert_int_equal(ig_optimizer_steps(j.opt), 3);
    ig_captured_destroy(c);
    unmake_job(&j);
}

/* ---- beside Compiled mode ---- */

/* Steps of Compiled mode with a captured evaluation between them. */
static void train_and_evaluate(ig_ctx *ctx, trail *t, bool captured) {
    small_net n = small_make(ctx);
    job j = make_job(ctx);
    ig_captured *c = NULL;
    for (int i = 0; i < TIMES; i++) {
        small_step(&n, 0.05, t);
        ig_tensor *held = i % 3 == 0 ? ig_tensor_retain(small_logits(&n, n.x, 0)) : NULL;
        must(ig_ctx_step_end(ctx));
        must(ig_tensor_fill_uniform(j.x, -1, 1));
        if (!captured)
            must(train(&j));
        else if (!c)
            must(ig_capture(ctx, train, &j, &c));
        else
            must(ig_captured_replay(c));
        put_state(&j, t);
        if (held) trail_put_tensor(t, held);
        ig_tensor_release(held);
    }
    small_put(&n, t);
    ig_captured_destroy(c);
    unmake_job(&j);
    small_unmake(&n);
}

static void both_plainly(ig_ctx *ctx, trail *t) { train_and_evaluate(ctx, t, false); }
static void both_captured(ig_ctx *ctx, trail *t) { train_and_evaluate(ctx, t, true); }

static void captures_and_compiled_steps_live_side_by_side(void **state) {
    (void)state;
    trail want = {0}, got = {0};
    play((setting){IG_MODE_DYNAMIC, NULL, 1}, both_plainly, &want);
    const ig_counters c = play((setting){IG_MODE_COMPILED, NULL, 2}, both_captured, &got);
    trail_must_equal(&got, &want, "both");
    assert_int_equal(c.records, 3); /* the step, the logits, and what was captured */
    assert_int_equal(c.replays, 2 * (TIMES - 1) + TIMES / 3 - 1);
    trail_free(&want);
    trail_free(&got);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replays_are_what_calls_would_be),
        TEST_WITH_CTX(several_steps_can_be_captured_together),
        TEST_WITH_CTX(wrapped_inputs_are_read_as_they_are),
        TEST_WITH_CTX(what_is_captured_runs_as_one_plan_from_the_first_time_on),
        TEST_WITH_CTX(a_function_sees_what_it_would_have_computed),
        TEST_WITH_CTX(a_result_may_outlive_its_capture_and_a_capture_its_inputs),
        TEST_WITH_CTX(results_without_a_reference_need_not_be_there),
        TEST_WITH_CTX(captures_do_not_nest),
        TEST_WITH_CTX(a_capture_in_the_middle_of_a_step_is_refused),
        TEST_WITH_CTX(a_capture_while_a_loss_waits_is_refused),
        TEST_WITH_CTX(a_function_that_fails_leaves_the_context_as_after_a_failed_step),
        cmocka_unit_test(captures_and_compiled_steps_live_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
