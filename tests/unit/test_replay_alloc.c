/*
 * Memory and replays: a replayed step allocates nothing, a million of them hold
 * the process as large as a thousand did, and when memory ends anywhere in
 * recording, planning, diverging or capturing, nothing is broken or lost.
 */
#include <stdio.h>
#include <unistd.h>

#include "cli/bench/workload.h"
#include "unit/meter.h"
#include "unit/nets.h"

static ig_ctx *metered(meter *m, ig_mode mode, int threads) {
    ig_ctx *ctx = NULL;
    const ig_ctx_options options = {
        .threads = threads, .seed = 3, .allocator = {meter_alloc, meter_free, m}};
    must(ig_ctx_create(&options, &ctx));
    must(ig_mode_set(ctx, mode));
    return ctx;
}

/* ---- none ---- */

static void char_mlp_steps(ig_workload *w, int count) {
    for (int i = 0; i < count; i++) {
        double loss;
        ig_optimizer_set_lr(w->optimizer, 0.001 + 0.0001 * (i % 10));
        must(ig_workload_next_batch(w));
        must(ig_workload_step(w, &loss));
    }
}

static void replays_of_char_mlp_allocate_nothing(void **state) {
    (void)state;
    for (ig_mode mode = IG_MODE_COMPILED; mode <= IG_MODE_AUTO; mode++) {
        enum { STEPS = 10000 };
        meter m = {0};
        ig_workload *w = NULL;
        ig_ctx *ctx = metered(&m, mode, 1 + (int)mode % 2);
        must(ig_workload_create(&ig_workload_char_mlp, ctx, (ig_workload_sizes){.batch = 4}, &w));
        char_mlp_steps(w, 10);
        const meter before = m;
        const uint64_t tensors = ig_report_counters(ctx).tensors;
        char_mlp_steps(w, STEPS);
        assert_int_equal(m.asked, before.asked);
        assert_int_equal(m.held, before.held);
        assert_int_equal(ig_report_counters(ctx).tensors, tensors);
        ig_workload_destroy(w);
        ig_ctx_destroy(ctx);
        assert_int_equal(m.held, 0);
    }
}

/* Cuts, other kinds of steps in between, and a result that is handed on. */
static void mixed_steps(small_net *n, ig_tensor **h, int count) {
    trail t = {0};
    for (int i = 0; i < count; i++) {
        t.count = 0;
        small_step(n, 0.01, &t);
        ig_no_grad_begin(n->ctx);
        ig_tensor *next = ig_tanh(ig_add(ig_matmul(n->x, n->w[0]), *h));
        ig_tensor_release(*h);
        *h = ig_tensor_retain(next);
        trail_put_tensor(&t, ig_matmul(next, n->w[1]));
        ig_tensor *sum = sum_all(next);
        ig_no_grad_end(n->ctx);
        must(ig_ctx_step_end(n->ctx));
        trail_put_item(&t, sum);
    }
    trail_free(&t);
}

static void replays_of_mixed_steps_allocate_nothing(void **state) {
    (void)state;
    meter m = {0};
    ig_ctx *ctx = metered(&m, IG_MODE_COMPILED, 1);
    small_net n = small_make(ctx);
    ig_tensor *h = ramp(ctx, IG_SHAPE(SMALL_ROWS, SMALL_INNER), 0, 0.01);
    mixed_steps(&n, &h, 20);
    const meter before = m;
    const uint64_t tensors = ig_report_counters(ctx).tensors;
    mixed_steps(&n, &h, 2000);
    /* x is drawn through a buffer of its own in every step */
    assert_int_equal(m.asked - before.asked, 2000);
    assert_int_equal(m.held, before.held);
    assert_int_equal(ig_report_counters(ctx).tensors, tensors);
    ig_tensor_release(h);
    small_unmake(&n);
    ig_ctx_destroy(ctx);
    assert_int_equal(m.held, 0);
}

static ig_status captured_step(void *arg) {
    small_net *n = arg;
    small_zero_grad(n);
    ig_tensor *loss = small_loss(n);
    IG_TRY(ig_backward(loss));
    small_update(n, 0.01);
    return ig_ctx_step_end(n->ctx);
}

static void replays_of_a_capture_allocate_nothing(void **state) {
    (void)state;
    meter m = {0};
    ig_captured *c = NULL;
    ig_ctx *ctx = metered(&m, IG_MODE_DYNAMIC, 2);
    small_net n = small_make(ctx);
    must(ig_capture(ctx, captured_step, &n, &c));
    const uint64_t asked = m.asked;
    for (int i = 0; i < 10000; i++) must(ig_captured_replay(c));
    assert_int_equal(m.asked, asked);
    ig_captured_destroy(c);
    small_unmake(&n);
    ig_ctx_destroy(ctx);
    assert_int_equal(m.held, 0);
}

/* ---- flat ---- */

static long resident_pages(void) {
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return resident;
}

static void the_process_stays_as_large_as_it_was(void **state) {
    (void)state;
    enum { EARLY = 5000, SLACK_PAGES = 64 }; /* less than two bytes a step; sanitizers take some */
    const char *wanted = getenv("INGOT_TEST_REPLAYS");
    const long replays = wanted ? atol(wanted) : 200000;
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.threads = 1, .seed = 3}, &ctx));
    must(ig_mode_set(ctx, IG_MODE_COMPILED));
    ig_tensor *x = ramp(ctx, IG_SHAPE(2, 3), 0, 0.1), *w = parameter(ctx, IG_SHAPE(3, 2), "w");
    long early = 0;
    for (long i = 0; i < replays; i++) {
        ig_tensor *loss = sum_all(ig_tanh(ig_matmul(x, w)));
        ig_tensor_zero_grad(w);
        must(ig_backward(loss));
        must(ig_accumulate(w, ig_scale(ig_tensor_grad(w), 1e-6, 0)));
        must(ig_ctx_step_end(ctx));
        if (i % 1000 == 0) (void)item(loss);
        if (i == EARLY) early = resident_pages();
    }
    const long late = resident_pages();
    if (late > early + SLACK_PAGES) fail_msg("%ld pages, then %ld", early, late);
    assert_int_equal(ig_report_counters(ctx).replays, replays - 1);
    ig_tensor_release(x);
    ig_tensor_release(w);
    ig_ctx_destroy(ctx);
}

/* ---- when there is none ---- */

/* A run with everything in it: recordings, replays, cuts, divergence, a retained result, another
 * kind of step, a capture.  Every number that it sees is added up in order. */
typedef struct run {
    ig_ctx *ctx;
    ig_tensor *w[2], *x, *held;
    ig_captured *captured;
    uint32_t rate, square;
    double sum;
} run;

static ig_status see(run *r, ig_tensor *t) {
    double x;
    IG_TRY(ig_tensor_item(t, &x));
    r->sum = r->sum * 1.0001 + x;
    return IG_OK;
}

static ig_tensor *forward(run *r, double factor) {
    ig_tensor *h = ig_scale(ig_tanh(ig_matmul(r->x, r->w[0])), factor, 0), *y = NULL;
    ig_custom(r->ctx, r->square, &h, 1, &y);
    return ig_matmul(ig_dropout(y, 0.2), r->w[1]);
}

static ig_status update(run *r) {
    for (int i = 0; i < 2; i++)
        IG_TRY(ig_sgd(r->w[i], ig_tensor_grad(r->w[i]), NULL, (ig_attrs_sgd){.lr_slot = r->rate}));
    return ig_ctx_step_end(r->ctx);
}

static ig_status step(run *r, int i) {
    ig_tensor_zero_grad(r->w[0]);
    ig_tensor_zero_grad(r->w[1]);
    ig_tensor *y = forward(r, i == 4 ? 0.5 : 1), *loss = sum_all(ig_mul(y, y));
    if (i == 3) IG_TRY(see(r, loss));
    IG_TRY(ig_backward(loss));
    if (i == 5) IG_TRY(see(r, ig_mean(y, NULL, 0, IG_DROP_DIM)));
    if (i == 6) {
        ig_tensor_release(r->held);
        r->held = ig_tensor_retain(y);
    }
    ig_slot_set_real(r->ctx, r->rate, 0.01 * i);
    IG_TRY(update(r));
    return see(r, loss);
}

static ig_status evaluate(run *r) {
    ig_no_grad_begin(r->ctx);
    ig_tensor *y = forward(r, 1), *sum = sum_all(ig_softmax(y, -1));
    ig_status status = see(r, sum);
    if (status == IG_OK && r->held) status = see(r, sum_all(ig_sub(y, r->held)));
    ig_no_grad_end(r->ctx);
    const ig_status ended = ig_ctx_step_end(r->ctx);
    return status != IG_OK ? status : ended;
}

static ig_status captured_part(void *arg) {
    run *r = arg;
    ig_tensor_zero_grad(r->w[0]);
    ig_tensor_zero_grad(r->w[1]);
    IG_TRY(ig_backward(sum_all(forward(r, 2))));
    return update(r);
}

static ig_status infer_same(void *user, const ig_desc *in, uint32_t n_in, ig_desc *out) {
    (void)user, (void)n_in;
    *out = in[0];
    return IG_OK;
}

static ig_status run_same(void *user, const ig_custom_operand *in, uint32_t n_in,
                          const ig_custom_operand *out) {
    (void)user, (void)n_in;
    memcpy(out[0].bytes, in[0].bytes, (size_t)ig_shape_count(in[0].desc.shape) * sizeof(float));
    return IG_OK;
}

static ig_status grad_same(void *user, ig_tensor *const *in, uint32_t n_in, ig_tensor *const *out,
                           ig_tensor *const *dout, ig_tensor **din) {
    (void)user, (void)in, (void)n_in, (void)out;
    din[0] = dout[0];
    return IG_OK;
}

static ig_status make(run *r) {
    static const ig_custom_op same = {
        .name = "same", .n_out = 1, .infer = infer_same, .run = run_same, .grad = grad_same};
    const ig_shape shapes[] = {IG_SHAPE(4, 6), IG_SHAPE(6, 3), IG_SHAPE(5, 4)};
    ig_tensor **const all[] = {&r->w[0], &r->w[1], &r->x};
    for (int i = 0; i < 3; i++) {
        IG_TRY(ig_tensor_create(r->ctx, (ig_desc){IG_F32, shapes[i]}, all[i]));
        IG_TRY(ig_tensor_fill_uniform(*all[i], -1, 1));
        if (i < 2) IG_TRY(ig_tensor_require_grad(*all[i]));
    }
    IG_TRY(ig_slot_create(r->ctx, &r->rate));
    IG_TRY(ig_custom_register(r->ctx, &same, &r->square));
    return ig_mode_set(r->ctx, IG_MODE_COMPILED);
}

static ig_status work(run *r) {
    for (int i = 1; i <= 7; i++) {
        IG_TRY(step(r, i));
        IG_TRY(evaluate(r));
    }
    IG_TRY(ig_capture(r->ctx, captured_part, r, &r->captured));
    for (int i = 0; i < 3; i++) IG_TRY(ig_captured_replay(r->captured));
    return step(r, 8);
}

/* After a failure memory is there again, and the same context goes on. */
static void go_on(run *r) {
    must(ig_ctx_step_end(r->ctx));
    ig_tensor_release(r->held); /* its step may have failed */
    r->held = NULL;
    for (int i = 1; i <= 3; i++) {
        must(step(r, i));
        must(evaluate(r));
    }
    if (r->captured) must(ig_captured_replay(r->captured));
}

static ig_status run_all(meter *m, bool resume, double *out) {
    run r = {0};
    const ig_ctx_options options = {
        .threads = 1, .seed = 1, .allocator = {meter_alloc, meter_free, m}};
    IG_TRY(ig_ctx_create(&options, &r.ctx));
    ig_status status = make(&r);
    if (status == IG_OK) {
        status = work(&r);
        if (status != IG_OK && resume) {
            m->fail_at = 0;
            const ig_status left = ig_ctx_step_end(r.ctx); /* reports what has not been told yet */
            assert_true(left == IG_OK || left == IG_ERR_MEMORY);
            go_on(&r);
        }
    }
    *out = r.sum;
    ig_tensor *const all[] = {r.w[0], r.w[1], r.x, r.held};
    for (int i = 0; i < 4; i++) ig_tensor_release(all[i]);
    ig_captured_destroy(r.captured);
    ig_ctx_destroy(r.ctx);
    return status;
}

static void fail_each(bool fail_on, bool resume) {
    meter calm = {0};
    double want = 0, got = 0;
    must(run_all(&calm, false, &want));
    assert_int_equal(calm.held, 0);
    int lived = 0;
    for (uint64_t n = 1; n <= calm.asked; n++) {
        meter m = {.fail_at = n, .fail_on = fail_on};
        const ig_status status = run_all(&m, resume, &got);
        assert_true(m.failed);
        if (m.held != 0) fail_msg("allocation %d fails: %d are not freed", (int)n, (int)m.held);
        if (status != IG_OK && status != IG_ERR_MEMORY)
            fail_msg("allocation %d fails: %s: %s", (int)n, ig_status_text(status),
                     ig_error_text());
        if (status == IG_OK && got != want)
            fail_msg("allocation %d fails: %.17g, not %.17g", (int)n, got, want);
        lived += status == IG_OK;
    }
    if (!fail_on) assert_true(lived > 20); /* recording and planning can be done without */
}

static void a_run_in_which_any_allocation_fails_is_right_or_says_so(void **state) {
    (void)state;
    fail_each(false, false);
}

static void a_run_in_which_memory_ends_is_right_or_says_so(void **state) {
    (void)state;
    fail_each(true, false);
}

static void a_context_goes_on_when_there_is_memory_again(void **state) {
    (void)state;
    fail_each(false, true);
    fail_each(true, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replays_of_char_mlp_allocate_nothing),
        cmocka_unit_test(replays_of_mixed_steps_allocate_nothing),
        cmocka_unit_test(replays_of_a_capture_allocate_nothing),
        cmocka_unit_test(the_process_stays_as_large_as_it_was),
        cmocka_unit_test(a_run_in_which_any_allocation_fails_is_right_or_says_so),
        cmocka_unit_test(a_run_in_which_memory_ends_is_right_or_says_so),
        cmocka_unit_test(a_context_goes_on_when_there_is_memory_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
