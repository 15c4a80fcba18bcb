/*
 * Optimizers against the same formulas in double, and what happens around a step.
 *
 * The model here is one or two vectors w, and the loss is sum(w c): its gradient
 * is c, whatever w is, so a test chooses the gradients of every step.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ingot/ingot.h"
#include "nn/optimizer.h"

enum { N = 5, STEPS = 1000 };

/* A thousand updates round w in f32, by 6e-8 of it each; where every update is the same they may
 * all go one way. */
static const double tolerance = 6e-5;
static const double exact = 1e-6; /* of a few operations in f32 */

static const float start[N] = {1, -0.5f, 0.25f, 2, -1.5f};

typedef struct fixture {
    ig_ctx *ctx;
    ig_module *net;
    ig_tensor *w, *c; /* the parameter, and what its gradient will be */
    ig_optimizer *opt;
} fixture;

static void must(ig_status status) {
    if (status != IG_OK) fail_msg("%s: %s", ig_status_text(status), ig_error_text());
}

static void refused(ig_status got, ig_status want, const char *words) {
    assert_int_equal(got, want);
    if (!strstr(ig_error_text(), words)) fail_msg("\"%s\" lacks \"%s\"", ig_error_text(), words);
}

static int setup(void **state) {
    static fixture f;
    const ig_desc desc = {IG_F32, IG_SHAPE(N)};
    f = (fixture){0};
    must(ig_ctx_create(NULL, &f.ctx));
    must(ig_module_create(f.ctx, NULL, NULL, &f.net));
    must(ig_module_add_param(f.net, "w", desc, &f.w));
    must(ig_tensor_write(f.w, start, sizeof start));
    must(ig_tensor_create(f.ctx, desc, &f.c));
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    ig_optimizer_destroy(f->opt);
    ig_tensor_release(f->c);
    ig_module_destroy(f->net);
    ig_ctx_destroy(f->ctx);
    return 0;
}

static ig_tensor *loss_of(ig_tensor *w, ig_tensor *c) {
    return ig_sum(ig_mul(w, c), NULL, 0, IG_DROP_DIM);
}

/* Adds c to the gradient of w. */
static void flow(fixture *f, const float c[N]) {
    must(ig_tensor_write(f->c, c, N * sizeof *c));
    must(ig_backward(loss_of(f->w, f->c)));
}

static void step_with(fixture *f, const float c[N]) {
    flow(f, c);
    must(ig_optimizer_step(f->opt));
    ig_optimizer_zero_grad(f->opt);
}

static void check_values(ig_tensor *tensor, const double want[N], double allowed) {
    float got[N];
    must(ig_tensor_read(tensor, got, sizeof got));
    for (int i = 0; i < N; i++)
        if (!(fabs(got[i] - want[i]) <= allowed * (1 + fabs(want[i]))))
            fail_msg("[%d] is %.9g, not %.9g", i, (double)got[i], want[i]);
}

/* Gradients that change their sign and size from step to step, each in its own rhythm. */
static void wave(int step, float out[N]) {
    for (int i = 0; i < N; i++) out[i] = (float)(sin(0.1 * step * (i + 1) + i) + 0.1 * (i - 2));
}

/* ---- AdamW ---- */

/* With a gradient that never changes, mean and variance, once corrected, are g and g^2 at every
 * step: w_t = w_0 - t rate g / (|g| + eps). */
static void adamw_with_one_gradient_walks_straight(void **state) {
    fixture *f = *state;
    static const float g[N] = {1, -2, 0.5f, 1e-3f, -10};
    const double rate = 1e-3;
    double want[N];
    must(ig_adamw_create(f->net, &(ig_adamw_options){.lr = rate, .weight_decay = -1}, &f->opt));
    for (int t = 1; t <= STEPS; t++) step_with(f, g);
    for (int i = 0; i < N; i++)
        want[i] = start[i] - STEPS * rate * g[i] / (fabs((double)g[i]) + 1e-8);
    check_values(f->w, want, tolerance);
}

static void adamw_agrees_with_double_over_a_thousand_steps(void **state) {
    fixture *f = *state;
    const double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.01;
    double w[N], m[N] = {0}, v[N] = {0};
    for (int i = 0; i < N; i++) w[i] = start[i];
    must(ig_adamw_create(f->net, NULL, &f->opt));
    for (int t = 1; t <= STEPS; t++) {
        float g[N];
        wave(t, g);
        step_with(f, g);
        for (int i = 0; i < N; i++) {
            m[i] = beta1 * m[i] + (1 - beta1) * g[i];
            v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
            const double mean = m[i] / (1 - pow(beta1, t)), variance = v[i] / (1 - pow(beta2, t));
            w[i] -= rate * decay * w[i] + rate * mean / (sqrt(variance) + eps);
        }
    }
    check_values(f->w, w, tolerance);
    check_values(ig_optimizer_state(f->opt, 0, 0), m, tolerance);
    check_values(ig_optimizer_state(f->opt, 0, 1), v, tolerance);
    assert_int_equal(ig_optimizer_steps(f->opt), STEPS);
}

/* ---- SGD ---- */

/* b = momentum b + g' with g' = g + decay w;  w -= rate (nesterov ? g' + momentum b : b) */
static void check_sgd(fixture *f, ig_sgd_options o) {
    double w[N], b[N] = {0};
    for (int i = 0; i < N; i++) w[i] = start[i];
    must(ig_sgd_create(f->net, &o, &f->opt));
    assert_int_equal(ig_optimizer_state_count(f->opt), o.momentum > 0);
    for (int t = 1; t <= STEPS; t++) {
        float g[N];
        wave(t, g);
        step_with(f, g);
        for (int i = 0; i < N; i++) {
            const double slope = g[i] + o.weight_decay * w[i];
            b[i] = o.momentum * b[i] + slope;
            w[i] -= o.lr * (o.nesterov ? slope + o.momentum * b[i] : b[i]);
        }
    }
    check_values(f->w, w, tolerance);
    if (o.momentum > 0) check_values(ig_optimizer_state(f->opt, 0, 0), b, tolerance);
}

static void sgd_agrees_with_double(void **state) {
    check_sgd(*state, (ig_sgd_options){.lr = 1e-2, .weight_decay = 0.1});
}

static void sgd_with_momentum_agrees_with_double(void **state) {
    check_sgd(*state, (ig_sgd_options){.lr = 1e-3, .momentum = 0.9});
}

static void sgd_with_nesterov_agrees_with_double(void **state) {
    check_sgd(*state, (ig_sgd_options){
                          .lr = 1e-3, .momentum = 0.8, .weight_decay = 0.05, .nesterov = true});
}

/* With one gradient the momentum is g (1 - u^t) / (1 - u), a geometric series. */
static void momentum_is_a_geometric_series(void **state) {
    fixture *f = *state;
    static const float g[N] = {1, -2, 0.5f, 1e-3f, -10};
    const double u = 0.9, rate = 1e-4, t = 100;
    double momentum[N], w[N];
    must(ig_sgd_create(f->net, &(ig_sgd_options){.lr = rate, .momentum = u}, &f->opt));
    for (int i = 0; i < t; i++) step_with(f, g);
    for (int i = 0; i < N; i++) {
        momentum[i] = g[i] * (1 - pow(u, t)) / (1 - u);
        w[i] = start[i] - rate * g[i] / (1 - u) * (t - u * (1 - pow(u, t)) / (1 - u));
    }
    check_values(ig_optimizer_state(f->opt, 0, 0), momentum, tolerance);
    check_values(f->w, w, tolerance);
}

/* ---- Around a step ---- */

static const float ones[N] = {1, 1, 1, 1, 1};

static void a_rate_set_between_steps_holds_from_the_next_one(void **state) {
    fixture *f = *state;
    double want[N], sum = 0;
    must(ig_sgd_create(f->net, NULL, &f->opt));
    assert_float_equal(ig_optimizer_lr(f->opt), 1e-2, 0);
    for (int t = 0; t < 20; t++) { /* warm up, then decay, as schedules do */
        const double rate = t < 5 ? 0.01 * (t + 1) : 0.05 * (1 + cos(M_PI * t / 20)) / 2;
        ig_optimizer_set_lr(f->opt, rate);
        assert_float_equal(ig_optimizer_lr(f->opt), rate, 0);
        step_with(f, ones);
        sum += rate;
    }
    for (int i = 0; i < N; i++) want[i] = start[i] - sum;
    check_values(f->w, want, exact);
}

static void gradients_add_up_until_they_are_zeroed(void **state) {
    fixture *f = *state;
    static const float more[N] = {1, 2, 3, 4, 5};
    must(ig_sgd_create(f->net, &(ig_sgd_options){.lr = 1}, &f->opt));
    assert_null(ig_tensor_grad(f->w));
    flow(f, ones);
    flow(f, more);
    check_values(ig_tensor_grad(f->w), (const double[N]){2, 3, 4, 5, 6}, exact);
    ig_optimizer_zero_grad(f->opt);
    assert_null(ig_tensor_grad(f->w));
    flow(f, more);
    check_values(ig_tensor_grad(f->w), (const double[N]){1, 2, 3, 4, 5}, exact);
    must(ig_optimizer_step(f->opt)); /* does not zero them */
    flow(f, ones);
    check_values(ig_tensor_grad(f->w), (const double[N]){2, 3, 4, 5, 6}, exact);
}

static void micro_steps_make_one_large_step(void **state) {
    fixture *f = *state;
    float whole[N], part[N];
    double want[N];
    must(ig_sgd_create(f->net, &(ig_sgd_options){.lr = 0.1}, &f->opt));
    for (int i = 0; i < N; i++) want[i] = start[i];
    for (int t = 0; t < 8; t++) {
        for (int micro = 0; micro < 4; micro++) {
            wave(t * 4 + micro, whole);
            for (int i = 0; i < N; i++) part[i] = whole[i] / 4;
            flow(f, part);
            for (int i = 0; i < N; i++) want[i] -= 0.1 * part[i];
        }
        must(ig_optimizer_step(f->opt));
        ig_optimizer_zero_grad(f->opt);
    }
    check_values(f->w, want, exact);
    assert_int_equal(ig_optimizer_steps(f->opt), 8);
    assert_int_equal(ig_ctx_step_count(f->ctx), 8);
}

static void a_parameter_without_a_gradient_stays_as_it_is(void **state) {
    fixture *f = *state;
    double want[N];
    ig_tensor *idle;
    must(ig_module_add_param(f->net, "idle", (ig_desc){IG_F32, IG_SHAPE(N)}, &idle));
    must(ig_tensor_write(idle, start, sizeof start));
    must(ig_adamw_create(f->net, &(ig_adamw_options){.lr = 0.1, .weight_decay = 0.5}, &f->opt));
    step_with(f, ones);
    must(ig_optimizer_step(f->opt)); /* no gradient anywhere */
    for (int i = 0; i < N; i++) want[i] = start[i];
    check_values(idle, want, 0);
    for (int i = 0; i < N; i++) want[i] = start[i] * (1 - 0.1 * 0.5) - 0.1;
    check_values(f->w, want, exact);
}

static void clip_scales_all_gradients_by_their_joint_norm(void **state) {
    fixture *f = *state;
    double norm;
    ig_tensor *other;
    must(ig_module_add_param(f->net, "other", (ig_desc){IG_F32, IG_SHAPE(N)}, &other));
    must(ig_sgd_create(f->net, NULL, &f->opt));
    must(ig_tensor_item(ig_optimizer_clip_grad_norm(f->opt, 1), &norm));
    assert_float_equal(norm, 0, 0); /* there is no gradient yet */

    flow(f, (const float[N]){3, 0, 0, 0, 0});
    must(ig_tensor_write(f->c, (const float[N]){0, 0, 4, 0, 0}, sizeof start));
    must(ig_backward(loss_of(other, f->c)));
    must(ig_tensor_item(ig_optimizer_clip_grad_norm(f->opt, 10), &norm)); /* below the limit */
    assert_float_equal(norm, 5, exact);
    check_values(ig_tensor_grad(f->w), (const double[N]){3, 0, 0, 0, 0}, exact);
    must(ig_tensor_item(ig_optimizer_clip_grad_norm(f->opt, 1), &norm));
    assert_float_equal(norm, 5, exact);
    check_values(ig_tensor_grad(f->w), (const double[N]){0.6, 0, 0, 0, 0}, exact);
    check_values(ig_tensor_grad(other), (const double[N]){0, 0, 0.8, 0, 0}, exact);
    assert_int_equal(ig_tensor_item(ig_optimizer_clip_grad_norm(f->opt, -1), &norm),
                     IG_ERR_ARGUMENT);
    assert_non_null(strstr(ig_error_text(), "clip: the maximum norm -1 must be positive"));
    ig_optimizer_clip_grad_norm(f->opt, NAN); /* its result is not read */
    assert_int_not_equal(ig_optimizer_step(f->opt), IG_OK);
}

static void a_step_that_fails_does_not_count(void **state) {
    fixture *f = *state;
    double want[N];
    must(ig_adamw_create(f->net, NULL, &f->opt));
    step_with(f, ones);
    ig_tensor *misfit = ig_add(f->w, ig_full(f->ctx, (ig_desc){IG_F32, IG_SHAPE(N + 1)}, 0));
    (void)misfit; /* not read, so the step has to report it */
    refused(ig_optimizer_step(f->opt), IG_ERR_SHAPE, "add: [5] x [6]");
    assert_int_equal(ig_optimizer_steps(f->opt), 1);
    step_with(f, ones); /* and goes on */
    assert_int_equal(ig_optimizer_steps(f->opt), 2);
    for (int i = 0; i < N; i++) want[i] = (start[i] * (1 - 1e-5) - 1e-3) * (1 - 1e-5) - 1e-3;
    check_values(f->w, want, exact);
}

static void a_module_that_grew_needs_a_new_optimizer(void **state) {
    fixture *f = *state;
    ig_tensor *late;
    must(ig_adamw_create(f->net, NULL, &f->opt));
    must(ig_module_add_param(f->net, "late", (ig_desc){IG_F32, IG_SHAPE(N)}, &late));
    refused(ig_optimizer_step(f->opt), IG_ERR_STATE, "made for 1 parameters");
}

static void options_out_of_range_are_named(void **state) {
    fixture *f = *state;
    ig_module *empty;
    refused(ig_adamw_create(f->net, &(ig_adamw_options){.lr = -1}, &f->opt), IG_ERR_ARGUMENT,
            "adamw: rate is -1");
    refused(ig_adamw_create(f->net, &(ig_adamw_options){.beta1 = 1}, &f->opt), IG_ERR_ARGUMENT,
            "adamw: beta1 is 1");
    refused(ig_adamw_create(f->net, &(ig_adamw_options){.beta2 = 1 - 1e-12}, &f->opt),
            IG_ERR_ARGUMENT, "beta2"); /* is 1 as a float */
    refused(ig_adamw_create(f->net, &(ig_adamw_options){.eps = NAN}, &f->opt), IG_ERR_ARGUMENT,
            "adamw: eps is");
    refused(ig_sgd_create(f->net, &(ig_sgd_options){.weight_decay = INFINITY}, &f->opt),
            IG_ERR_ARGUMENT, "sgd: decay is inf");
    refused(ig_sgd_create(f->net, &(ig_sgd_options){.nesterov = true}, &f->opt), IG_ERR_ARGUMENT,
            "momentum");
    assert_null(f->opt);
    must(ig_module_create(f->ctx, NULL, NULL, &empty));
    refused(ig_sgd_create(empty, NULL, &f->opt), IG_ERR_ARGUMENT, "no parameters");
    ig_module_destroy(empty);
}

/* ---- What checkpoints see ---- */

static void state_and_hyper_parameters_can_be_taken_out_and_put_back(void **state) {
    fixture *f = *state;
    must(ig_adamw_create(f->net, &(ig_adamw_options){.lr = 0.5, .weight_decay = -1}, &f->opt));
    assert_string_equal(ig_optimizer_kind(f->opt), "adamw");
    assert_ptr_equal(ig_optimizer_module(f->opt), f->net);
    assert_int_equal(ig_optimizer_param_count(f->opt), 1);
    assert_int_equal(ig_optimizer_state_count(f->opt), 2);
    assert_string_equal(ig_optimizer_state_name(f->opt, 0), "mean");
    assert_string_equal(ig_optimizer_state_name(f->opt, 1), "variance");
    assert_null(ig_optimizer_state_name(f->opt, 2));
    assert_null(ig_optimizer_state(f->opt, 1, 0));

    static const char *const names[] = {"rate", "beta1", "beta2", "eps", "decay"};
    static const double values[] = {0.5, 0.9, 0.999, 1e-8, 0};
    assert_int_equal(ig_optimizer_hparam_count(f->opt), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(ig_optimizer_hparam_name(f->opt, i), names[i]);
        assert_float_equal(ig_optimizer_hparam(f->opt, i), values[i], 0);
    }
    const double other[] = {0.25, 0.8, 0.9, 1e-6, 0.1}, bad[] = {0.125, 0.8, 1.5, 1e-6, 0.1};
    must(ig_optimizer_set_hparams(f->opt, other));
    refused(ig_optimizer_set_hparams(f->opt, bad), IG_ERR_ARGUMENT, "beta2 is 1.5");
    for (size_t i = 0; i < 5; i++) assert_float_equal(ig_optimizer_hparam(f->opt, i), other[i], 0);
    assert_float_equal(ig_optimizer_lr(f->opt), 0.25, 0);
    must(ig_optimizer_set_steps(f->opt, 41));
    step_with(f, ones);
    assert_int_equal(ig_optimizer_steps(f->opt), 42);
    refused(ig_optimizer_set_steps(f->opt, -1), IG_ERR_ARGUMENT, "-1");
}

static void sgd_does_not_change_between_momentum_and_none(void **state) {
    fixture *f = *state;
    must(ig_sgd_create(f->net, NULL, &f->opt));
    assert_string_equal(ig_optimizer_kind(f->opt), "sgd");
    refused(ig_optimizer_check_hparams(f->opt, (const double[]){0.1, 0.9, 0, 0}), IG_ERR_ARGUMENT,
            "momentum is 0 and cannot change to 0.9");
    ig_optimizer_destroy(f->opt);
    f->opt = NULL;
    must(ig_sgd_create(f->net, &(ig_sgd_options){.momentum = 0.9}, &f->opt));
    must(ig_optimizer_check_hparams(f->opt, (const double[]){0.1, 0.8, 0, 1}));
    assert_string_equal(ig_optimizer_state_name(f->opt, 0), "momentum");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(adamw_with_one_gradient_walks_straight),
        TEST(adamw_agrees_with_double_over_a_thousand_steps),
        TEST(sgd_agrees_with_double),
        TEST(sgd_with_momentum_agrees_with_double),
        TEST(sgd_with_nesterov_agrees_with_double),
        TEST(momentum_is_a_geometric_series),
        TEST(a_rate_set_between_steps_holds_from_the_next_one),
        TEST(gradients_add_up_until_they_are_zeroed),
        TEST(micro_steps_make_one_large_step),
        TEST(a_parameter_without_a_gradient_stays_as_it_is),
        TEST(clip_scales_all_gradients_by_their_joint_norm),
        TEST(a_step_that_fails_does_not_count),
        TEST(a_module_that_grew_needs_a_new_optimizer),
        TEST(options_out_of_range_are_named),
        TEST(state_and_hyper_parameters_can_be_taken_out_and_put_back),
        TEST(sgd_does_not_change_between_momentum_and_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
