/*
 * Gradients of every op that has them, through the public API: backward against
 * central differences in double, then the CPU in float against that.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/random.h"
#include "conformance/cases.h"
#include "graph/grad_rules.h"

/*
 * Of 1 + |gradient|.  A difference of 2e-6 in x leaves, of a loss of the order of
 * 10 that is good to 1e-15, about 1e-9; the error of the formula is far below.
 */
static const double default_step = 1e-6, tolerance = 1e-6;

/* In float, some dozen products in a row of the order of 1. */
static const double float_tolerance = 1e-4;

enum { MAX_ELEMENTS = 256 };

/* The device that is compared with the reference: that of INGOT_DEVICE, or the CPU. */
static const char *device_under_test(void) {
    const char *device = getenv("INGOT_DEVICE");
    return device && *device ? device : "cpu";
}

/* ---- the inputs of a case ---- */

typedef struct check {
    const grad_case *c;
    grad_inputs in;
    ig_tensor *weights; /* [MAX_ELEMENTS] */
    ig_dtype dtype;
    double x[GRAD_MAX_PARAMS][MAX_ELEMENTS];
} check;

typedef void case_fn(const grad_case *c);

/* Every case of an op that has a gradient; CONFORMANCE_OP: of this op alone. */
static void each_case(case_fn *fn) {
    const char *only = getenv("CONFORMANCE_OP");
    for (const case_table *const *t = case_tables; *t; t++)
        for (const grad_case *c = (*t)->grads; c && c < (*t)->grads + (*t)->n_grads; c++)
            if (ig_grad_flows(c->op) && (!only || strcmp(only, ig_op_name(c->op)) == 0)) fn(c);
}

static double draw(uint32_t param, int64_t i, double low, double high) {
    const uint32_t seed[2] = {param, 0x96ad};
    const double u = (ig_random_bits(seed, 0, 0, (uint64_t)i) + 0.5) / 4294967296.0;
    const bool around_zero = low == 0 && high == 0;
    const double x = around_zero ? -2 + 4 * u : low + (high - low) * u;
    return around_zero && fabs(x) < 0.1 ? x + 0.2 : x; /* relu has a corner at 0 */
}

static void put(check *k, int param) {
    const int64_t n = ig_shape_count(k->c->params[param].shape);
    float narrow[MAX_ELEMENTS];
    for (int64_t i = 0; i < n; i++) narrow[i] = (float)k->x[param][i];
    const bool wide = k->dtype == IG_F64;
    assert_int_equal(ig_tensor_write(k->in.p[param], wide ? (void *)k->x[param] : narrow,
                                     (size_t)n * (wide ? sizeof(double) : sizeof(float))),
                     IG_OK);
}

static void get(ig_tensor *t, double *out) {
    float narrow[MAX_ELEMENTS];
    const ig_desc desc = ig_tensor_desc(t);
    const size_t n = (size_t)ig_shape_count(desc.shape);
    const bool wide = desc.dtype == IG_F64;
    assert_int_equal(
        ig_tensor_read(t, wide ? (void *)out : narrow, n * (wide ? sizeof *out : sizeof *narrow)),
        IG_OK);
    for (size_t i = 0; i < n && !wide; i++) out[i] = (double)narrow[i];
}

static ig_status cube_infer(void *user, const ig_desc *in, uint32_t n_in, ig_desc *out) {
    (void)user, (void)n_in;
    out[0] = in[0];
    return IG_OK;
}

static ig_status cube_run(void *user, const ig_custom_operand *in, uint32_t n_in,
                          const ig_custom_operand *out) {
    (void)user, (void)n_in;
    const int64_t n = ig_shape_count(in[0].desc.shape);
    for (int64_t i = 0; i < n; i++) {
        const double *wide = in[0].bytes;
        const float *narrow = in[0].bytes;
        if (in[0].desc.dtype == IG_F64)
            ((double *)out[0].bytes)[i] = wide[i] * wide[i] * wide[i];
        else
            ((float *)out[0].bytes)[i] = narrow[i] * narrow[i] * narrow[i];
    }
    return IG_OK;
}

/* dx = 3 x^2 dy */
static ig_status cube_grad(void *user, ig_tensor *const *in, uint32_t n_in, ig_tensor *const *out,
                           ig_tensor *const *dout, ig_tensor **din) {
    (void)user, (void)n_in, (void)out;
    din[0] = ig_mul(dout[0], ig_scale(ig_mul(in[0], in[0]), 3, 0));
    return IG_OK;
}

/* Numbers from 0.5 to 1.5, in no order. */
static void make(const check *k, ig_shape shape, ig_tensor **out) {
    double wide[MAX_ELEMENTS];
    float narrow[MAX_ELEMENTS];
    for (int i = 0; i < MAX_ELEMENTS; i++) {
        wide[i] = 0.5 + i * 7 % 11 / 11.0;
        narrow[i] = (float)wide[i];
    }
    const void *src = k->dtype == IG_F64 ? (const void *)wide : narrow;
    assert_int_equal(ig_tensor_create_from(k->in.ctx, (ig_desc){k->dtype, shape}, src, out), IG_OK);
}

static void begin(check *k, const grad_case *c, const char *device, ig_dtype dtype) {
    const ig_custom_op cube = {"cube", 1, cube_infer, cube_run, cube_grad, NULL};
    *k = (check){.c = c, .dtype = dtype};
    assert_int_equal(
        ig_ctx_create(&(ig_ctx_options){.device = device, .threads = 2, .seed = 11}, &k->in.ctx),
        IG_OK);
    assert_int_equal(ig_custom_register(k->in.ctx, &cube, &k->in.custom), IG_OK);
    for (int p = 0; p < GRAD_MAX_PARAMS && c->params[p].used; p++) {
        const grad_param *spec = &c->params[p];
        const int64_t n = ig_shape_count(spec->shape);
        assert_true(n <= MAX_ELEMENTS);
        for (int64_t i = 0; i < n; i++) k->x[p][i] = draw((uint32_t)p, i, spec->low, spec->high);
        assert_int_equal(ig_tensor_create(k->in.ctx, (ig_desc){dtype, spec->shape}, &k->in.p[p]),
                         IG_OK);
        assert_int_equal(ig_tensor_require_grad(k->in.p[p]), IG_OK);
        put(k, p);
    }
    if (c->indexed)
        assert_int_equal(ig_tensor_create_from(k->in.ctx, (ig_desc){IG_I32, c->index_shape},
                                               c->index, &k->in.index),
                         IG_OK);
    make(k, IG_SHAPE(4), &k->in.fixed);
    make(k, IG_SHAPE(MAX_ELEMENTS), &k->weights);
}

static void end(check *k) {
    for (int p = 0; p < GRAD_MAX_PARAMS; p++) ig_tensor_release(k->in.p[p]);
    ig_tensor_release(k->in.index);
    ig_tensor_release(k->in.fixed);
    ig_tensor_release(k->weights);
    ig_ctx_destroy(k->in.ctx);
}

/* ---- the check ---- */

/* The sum of all elements, each times a number of its own, so that every slope counts. */
static ig_tensor *weighed(const check *k, ig_tensor *y) {
    const int64_t n = ig_shape_count(ig_tensor_desc(y).shape);
    assert_true(n <= MAX_ELEMENTS);
    ig_tensor *weights = ig_slice(k->weights, 0, 0, n);
    return ig_sum(ig_mul(ig_reshape(y, IG_SHAPE(n)), weights), NULL, 0, IG_DROP_DIM);
}

static void fail_case(const check *k, const char *words) {
    fail_msg("%s, %s: %s", ig_op_name(k->c->op), k->c->what, words);
}

/* Every call is step 0 again, so that dropout drops the same elements. */
static double loss_of(check *k) {
    double loss = 0;
    ig_no_grad_begin(k->in.ctx);
    ig_scope_begin(k->in.ctx);
    if (ig_tensor_item(weighed(k, k->c->build(&k->in)), &loss) != IG_OK)
        fail_case(k, ig_error_text());
    ig_scope_end(k->in.ctx);
    ig_no_grad_end(k->in.ctx);
    ig_ctx_set_step_count(k->in.ctx, 0);
    return loss;
}

static void backward(check *k) {
    ig_scope_begin(k->in.ctx);
    if (ig_backward(weighed(k, k->c->build(&k->in))) != IG_OK) fail_case(k, ig_error_text());
    ig_scope_end(k->in.ctx);
    ig_ctx_set_step_count(k->in.ctx, 0);
}

static double difference(check *k, int param, int64_t i) {
    const double x = k->x[param][i], step = k->c->step > 0 ? k->c->step : default_step;
    double loss[2];
    for (int side = 0; side < 2; side++) {
        k->x[param][i] = side ? x + step : x - step;
        put(k, param);
        loss[side] = loss_of(k);
    }
    k->x[param][i] = x;
    put(k, param);
    return (loss[1] - loss[0]) / (2 * step);
}

static void compare(const check *k, int param, int64_t i, double got, double want, double within) {
    char words[128];
    if (fabs(got - want) <= within * (1 + fabs(want))) return;
    snprintf(words, sizeof words, "parameter %d, element %d: %.9g, want %.9g", param, (int)i, got,
             want);
    fail_case(k, words);
}

static void compare_with_differences(const grad_case *c) {
    check k;
    double grad[MAX_ELEMENTS] = {0};
    begin(&k, c, "ref", IG_F64);
    backward(&k);
    for (int p = 0; p < GRAD_MAX_PARAMS && c->params[p].used; p++) {
        if (!ig_tensor_grad(k.in.p[p])) fail_case(&k, "a parameter has no gradient");
        get(ig_tensor_grad(k.in.p[p]), grad);
        const int64_t n = ig_shape_count(c->params[p].shape);
        for (int64_t i = 0; i < n; i++) compare(&k, p, i, grad[i], difference(&k, p, i), tolerance);
    }
    end(&k);
}

static void gradients_are_what_central_differences_give(void **state) {
    (void)state;
    each_case(compare_with_differences);
}

static void compare_with_reference(const grad_case *c) {
    check ref, device;
    double want[MAX_ELEMENTS] = {0}, got[MAX_ELEMENTS] = {0};
    begin(&ref, c, "ref", IG_F64);
    begin(&device, c, device_under_test(), IG_F32);
    backward(&ref);
    backward(&device);
    for (int p = 0; p < GRAD_MAX_PARAMS && c->params[p].used; p++) {
        get(ig_tensor_grad(ref.in.p[p]), want);
        get(ig_tensor_grad(device.in.p[p]), got);
        const int64_t n = ig_shape_count(c->params[p].shape);
        for (int64_t i = 0; i < n; i++) compare(&device, p, i, got[i], want[i], float_tolerance);
    }
    end(&ref);
    end(&device);
}

/* On whatever instruction set is asked for from outside. */
static void a_device_in_float_gives_the_gradients_of_the_reference_in_double(void **state) {
    (void)state;
    each_case(compare_with_reference);
}

static void a_second_backward_adds_to_the_gradient(void **state) {
    (void)state;
    check k;
    double once[MAX_ELEMENTS] = {0}, twice[MAX_ELEMENTS] = {0};
    begin(&k, cases_norm.grads, "ref", IG_F64);
    backward(&k);
    get(ig_tensor_grad(k.in.p[0]), once);
    backward(&k);
    get(ig_tensor_grad(k.in.p[0]), twice);
    const int64_t n = ig_shape_count(k.c->params[0].shape);
    for (int64_t i = 0; i < n; i++) compare(&k, 0, i, twice[i], 2 * once[i], tolerance);
    end(&k);
}

static void every_gradient_rule_has_a_case(void **state) {
    (void)state;
    static const char *const rules[IG_OP_COUNT] = {
#define IG_OP(ID, name, in_min, in_max, out_min, out_max, attrs, shape, grad, build, traits) #grad,
#include "ingot/op.def"
    };
    for (int op = 0; op < IG_OP_COUNT; op++) {
        bool covered = strcmp(rules[op], "none") == 0 || strcmp(rules[op], "refuse") == 0;
        for (const case_table *const *t = case_tables; *t; t++)
            for (size_t i = 0; i < (*t)->n_grads; i++) covered |= (int)(*t)->grads[i].op == op;
        if (!covered) fail_msg("%s has a gradient rule but no case", ig_op_name((uint32_t)op));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_rule_has_a_case),
        cmocka_unit_test(gradients_are_what_central_differences_give),
        cmocka_unit_test(a_device_in_float_gives_the_gradients_of_the_reference_in_double),
        cmocka_unit_test(a_second_backward_adds_to_the_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
