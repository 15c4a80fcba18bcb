/*
 * The vector functions of the CPU backend against the C library's in double.
 *
 * Each is reached through the kernel of its op, as it was compiled for every
 * instruction set that this machine has.  Arguments are floats of all sizes,
 * taken at even distances through all bit patterns.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"

/* 2^32 bit patterns, so far apart: some 400000 arguments.  A prime, so that all mantissas come. */
enum { PATTERN_STEP = 10007, ROW = 1024 };

/* A polynomial good to a tenth of an ulp, then three or four roundings. */
static const double ulps_allowed = 2;
/* What is made of exp and a quotient loses a few ulps, the left tail of gelu a few more. */
static const double relative_allowed = 1e-6;
/* A product with a subnormal factor has fewer digits than the relative error asks for. */
static const double tiny = 0x1p-120;
/* Sines and cosines: a few ulps of 1. */
static const double angle_allowed = 3e-7;

static ig_operand packed(ig_dtype dtype, ig_shape shape) {
    ig_operand o = {.desc = {dtype, shape}, .dynamic_dim = -1, .alias = -1};
    int64_t stride = 1;
    for (int d = shape.rank - 1; d >= 0; d--) {
        o.stride[d] = stride;
        stride *= shape.dim[d];
    }
    return o;
}

/* Runs one step, whole, by the kernel that this set has for it. */
static void run_step(ig_isa isa, const ig_step *step, void *const *at) {
    for (const ig_cpu_entry *const *list = ig_isa_lists(isa); *list; list++)
        for (const ig_cpu_entry *e = *list; e->run; e++) {
            ig_cpu_setup setup = {0};
            if (e->op != step->op || e->dtype != step->in[0].desc.dtype) continue;
            if (!e->setup(step, &setup)) continue;
            const ig_cpu_launch launch = {
                .run = e->run, .at = (char *const *)at, .params = setup.params};
            const ig_shape shape = step->out[0].desc.shape;
            const int64_t n = ig_shape_count(shape);
            e->run(&launch, 0, e->split == BY_ROW ? n / shape.dim[shape.rank - 1] : n);
            return;
        }
    fail_msg("%s: no kernel for %s", ig_cpu_isa_name(isa), ig_op_name(step->op));
}

typedef struct function {
    const char *name;
    uint32_t op;
    ig_gelu_form form;
    double (*want)(double x);
    float from, to; /* of the arguments that its error is measured for */
} function;

/* y[i] = f(x[i * stride]) */
static void apply(ig_isa isa, const function *f, const float *x, int64_t stride, float *y,
                  int64_t n) {
    const ig_attrs_gelu attrs = {(uint32_t)f->form};
    ig_operand in = packed(IG_F32, IG_SHAPE(n)), out = in;
    in.stride[0] = stride;
    const ig_step step = {.size = sizeof step,
                          .op = f->op,
                          .attrs = &attrs,
                          .attrs_bytes = ig_op_find(f->op)->attrs_bytes,
                          .n_in = 1,
                          .n_out = 1,
                          .in = &in,
                          .out = &out};
    run_step(isa, &step, (void *[]){(void *)x, y});
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double silu(double x) { return x * sigmoid(x); }
static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }
static double gelu_erf(double x) { return x * erfc(-x * M_SQRT1_2) / 2; }
static double gelu_tanh(double x) {
    return x * sigmoid(2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

/* The last two lose digits where they are next to nothing: the exponent of their tail does not fit
 * a float.  There they are below 1e-12 and 1e-9. */
static const function functions[] = {
    {"exp", IG_OP_EXP, 0, exp, -INFINITY, INFINITY},
    {"log", IG_OP_LOG, 0, log, 0, INFINITY},
    {"sqrt", IG_OP_SQRT, 0, sqrt, 0, INFINITY},
    {"tanh", IG_OP_TANH, 0, tanh, -INFINITY, INFINITY},
    {"sigmoid", IG_OP_SIGMOID, 0, sigmoid, -INFINITY, INFINITY},
    {"softplus", IG_OP_SOFTPLUS, 0, softplus, -INFINITY, INFINITY},
    {"silu", IG_OP_SILU, 0, silu, -80, INFINITY},
    {"gelu, by erf", IG_OP_GELU, IG_GELU_ERF, gelu_erf, -8, INFINITY},
    {"gelu, by tanh", IG_OP_GELU, IG_GELU_TANH, gelu_tanh, -3, INFINITY},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0], EXACT = 3 }; /* the first have ulps */

/* ulps of `want`, as a float */
static double ulps_between(float got, double want) {
    const float near = (float)want;
    if ((double)got == (double)near) return 0;
    int exponent;
    frexp(fabs(want), &exponent);
    return fabs((double)got - want) / ldexp(1, exponent > -125 ? exponent - 24 : -149);
}

static void check_value(ig_isa isa, const function *f, float x, float got) {
    const double want = f->want((double)x);
    if (isnan(x) != isnan(got))
        fail_msg("%s: %s of %g is %g", ig_cpu_isa_name(isa), f->name, (double)x, (double)got);
    if (isnan(x) || (float)want == got) return;
    const bool fits = f - functions < EXACT
                          ? ulps_between(got, want) <= ulps_allowed
                          : fabs((double)got - want) <= relative_allowed * fabs(want) + tiny;
    if (!fits)
        fail_msg("%s: %s of %.9g is %.9g, not %.9g (%.2f ulp)", ig_cpu_isa_name(isa), f->name,
                 (double)x, (double)got, want, ulps_between(got, want));
}

/* The next arguments within the function's range, from bit pattern *bits on; fewer at the end. */
static int64_t arguments(const function *f, uint64_t *bits, float *x) {
    int64_t n = 0;
    for (; *bits <= UINT32_MAX && n < ROW; *bits += PATTERN_STEP) {
        const uint32_t pattern = (uint32_t)*bits;
        memcpy(&x[n], &pattern, sizeof x[n]);
        if (isnan(x[n]) || (x[n] >= f->from && x[n] <= f->to)) n++;
    }
    return n;
}

static void functions_are_as_exact_as_they_claim(void **state) {
    (void)state;
    float x[ROW], y[ROW];
    for (ig_isa isa = 0; isa < IG_ISA_COUNT; isa++)
        for (const function *f = functions; f < functions + FUNCTIONS; f++) {
            uint64_t bits = 0;
            for (int64_t n; ig_isa_available(isa) && (n = arguments(f, &bits, x)) > 0;) {
                apply(isa, f, x, 1, y, n);
                for (int64_t i = 0; i < n; i++) check_value(isa, f, x[i], y[i]);
            }
        }
}

static void huge_and_infinite_arguments_give_limits(void **state) {
    (void)state;
    static const struct {
        int function;
        float x, want;
    } cases[] = {
        {0, INFINITY, INFINITY},
        {0, -INFINITY, 0},
        {0, 3e38f, INFINITY},
        {0, -3e38f, 0},
        {1, 0, -INFINITY},
        {1, -0.0f, -INFINITY},
        {1, -1, NAN},
        {1, -INFINITY, NAN},
        {1, INFINITY, INFINITY},
        {1, 1, 0},
        {2, -1, NAN},
        {3, INFINITY, 1},
        {3, -INFINITY, -1},
        {3, -3e38f, -1},
        {4, INFINITY, 1},
        {4, -INFINITY, 0},
        {5, INFINITY, INFINITY},
        {5, -INFINITY, 0},
        {5, 3e38f, 3e38f},
        {6, 3e38f, 3e38f},
        {6, -3e38f, 0},
        {7, 3e38f, 3e38f},
        {7, -3e38f, 0},
        {8, 3e38f, 3e38f},
        {8, -3e38f, 0},
        {7, INFINITY, INFINITY},
        {8, INFINITY, INFINITY},
    };
    for (ig_isa isa = 0; isa < IG_ISA_COUNT; isa++)
        for (size_t i = 0; ig_isa_available(isa) && i < sizeof cases / sizeof cases[0]; i++) {
            float y = -7;
            apply(isa, &functions[cases[i].function], &cases[i].x, 1, &y, 1);
            if (y != cases[i].want && !(isnan(y) && isnan(cases[i].want)))
                fail_msg("%s: %s of %g is %g", ig_cpu_isa_name(isa),
                         functions[cases[i].function].name, (double)cases[i].x, (double)y);
        }
}

/* Alone, at the end of a row of any length, and gathered from afar. */
static void a_value_does_not_depend_on_where_it_stands(void **state) {
    (void)state;
    enum { LONGEST = 40, STRIDE = 3 };
    float x[LONGEST], apart[LONGEST * STRIDE] = {0}, alone, y[LONGEST];
    for (int i = 0; i < LONGEST; i++) apart[i * STRIDE] = x[i] = 0.37f * (float)i - 6.1f;
    for (ig_isa isa = 0; isa < IG_ISA_COUNT; isa++)
        for (int f = 0; ig_isa_available(isa) && f < FUNCTIONS; f++)
            for (int64_t n = 1; n <= LONGEST; n++) {
                apply(isa, &functions[f], &x[n - 1], 1, &alone, 1);
                apply(isa, &functions[f], x, 1, y, n);
                assert_memory_equal(&y[n - 1], &alone, sizeof alone);
                apply(isa, &functions[f], apart, STRIDE, y, n);
                assert_memory_equal(&y[n - 1], &alone, sizeof alone);
            }
}

/* Turning (1, 0) gives (cos, sin). */
static void angles_are_exact_at_position_one_million(void **state) {
    (void)state;
    enum { TOKENS = 100, PAIRS = 64 };
    static float x[TOKENS][2 * PAIRS], y[TOKENS][2 * PAIRS];
    int32_t positions[TOKENS];
    for (int t = 0; t < TOKENS; t++) {
        positions[t] = t < 50 ? t : 1000000 - 137 * (t - 50);
        for (int i = 0; i < PAIRS; i++) x[t][2 * i] = 1;
    }

    const ig_attrs_rope attrs = {.freq_base = 10000, .type = IG_ROPE_INTERLEAVED};
    const ig_operand out = packed(IG_F32, IG_SHAPE(TOKENS, 1, 2 * PAIRS));
    const ig_operand in[] = {out, packed(IG_I32, IG_SHAPE(TOKENS))};
    const ig_step step = {.size = sizeof step,
                          .op = IG_OP_ROPE,
                          .attrs = &attrs,
                          .attrs_bytes = sizeof attrs,
                          .n_in = 2,
                          .n_out = 1,
                          .in = in,
                          .out = &out};
    for (ig_isa isa = 0; isa < IG_ISA_COUNT; isa++) {
        if (!ig_isa_available(isa)) continue;
        run_step(isa, &step, (void *[]){x, positions, y});
        for (int t = 0; t < TOKENS; t++)
            for (int i = 0; i < PAIRS; i++) {
                const double angle = positions[t] * pow(10000, -(double)i / PAIRS);
                assert_true(fabs((double)y[t][2 * i] - cos(angle)) < angle_allowed);
                assert_true(fabs((double)y[t][2 * i + 1] - sin(angle)) < angle_allowed);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_as_exact_as_they_claim),
        cmocka_unit_test(huge_and_infinite_arguments_give_limits),
        cmocka_unit_test(a_value_does_not_depend_on_where_it_stands),
        cmocka_unit_test(angles_are_exact_at_position_one_million),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
