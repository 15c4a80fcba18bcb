/*
 * Sums, products and activations: out[i] = f(in[0][i], in[1][i]).
 *
 * Each op is a function of vectors; two templates walk the operands.  Runs that
 * are packed, or repeat one element, are loaded as they lie; others are gathered
 * lane by lane, so that the arithmetic is the same for all.
 */
#include "backend/cpu/simd/vec_activation.h"
#include "backend/cpu/strided.h"

typedef struct params {
    loop loop;
    float scale, shift; /* of IG_OP_SCALE */
} params;

typedef vf unary_fn(vf x);
typedef vf binary_fn(vf a, vf b);

/* About what an element costs, in multiply-adds. */
enum { CHEAP = 1, COSTLY = 16 };

static bool setup(const ig_step *step, ig_cpu_setup *out, int64_t cost, ig_dtype dtype) {
    params p = {.scale = 1};
    if (!operands_are(step, 0, dtype) || !loop_over_step(step, &p.loop)) return false;
    if (step->op == IG_OP_SCALE) {
        ig_attrs_scale attrs;
        ig_step_attrs(step, &attrs, sizeof attrs);
        p.scale = (float)attrs.scale;
        p.shift = (float)attrs.shift;
    }
    out->cost = cost;
    return keep_params(out, &p, sizeof p);
}

static bool cheap(const ig_step *step, ig_cpu_setup *out) {
    return setup(step, out, CHEAP, IG_F32);
}
static bool costly(const ig_step *step, ig_cpu_setup *out) {
    return setup(step, out, COSTLY, IG_F32);
}
static bool cheap_i32(const ig_step *step, ig_cpu_setup *out) {
    return setup(step, out, CHEAP, IG_I32);
}

static bool gelu_setup(const ig_step *step, ig_cpu_setup *out, ig_gelu_form form) {
    ig_attrs_gelu attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    return attrs.form == (uint32_t)form && costly(step, out);
}

static bool gelu_by_erf(const ig_step *step, ig_cpu_setup *out) {
    return gelu_setup(step, out, IG_GELU_ERF);
}
static bool gelu_by_tanh(const ig_step *step, ig_cpu_setup *out) {
    return gelu_setup(step, out, IG_GELU_TANH);
}

/* ---- the templates ---- */

IG_INLINE void unary_run(float *y, const float *x, int64_t stride, int64_t n, unary_fn *f) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(y + i, f(vf_take(x + i * stride, stride, VF_LANES)));
    if (i < n) vf_store_part(y + i, f(vf_take(x + i * stride, stride, n - i)), n - i);
}

IG_INLINE void unary(const ig_cpu_launch *l, int64_t begin, int64_t end, unary_fn *f) {
    const loop *g = &((const params *)l->params)->loop;
    const int64_t stride = g->stride[0][g->rank - 1];
    run r;
    for (loop_first(g, 2, begin, end, &r); r.n > 0; loop_next(g, 2, &r)) {
        const float *x = (const float *)l->at[0] + r.at[0];
        float *y = (float *)l->at[1] + r.at[1];
        if (stride == 1)
            unary_run(y, x, 1, r.n, f);
        else
            unary_run(y, x, stride, r.n, f);
    }
}

IG_INLINE void binary_run(float *y, const float *a, int64_t a_stride, const float *b,
                          int64_t b_stride, int64_t n, binary_fn *f) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(y + i, f(vf_take(a + i * a_stride, a_stride, VF_LANES),
                          vf_take(b + i * b_stride, b_stride, VF_LANES)));
    if (i < n)
        vf_store_part(y + i,
                      f(vf_take(a + i * a_stride, a_stride, n - i),
                        vf_take(b + i * b_stride, b_stride, n - i)),
                      n - i);
}

IG_INLINE void binary(const ig_cpu_launch *l, int64_t begin, int64_t end, binary_fn *f) {
    const loop *g = &((const params *)l->params)->loop;
    const int64_t sa = g->stride[0][g->rank - 1], sb = g->stride[1][g->rank - 1];
    run r;
    for (loop_first(g, 3, begin, end, &r); r.n > 0; loop_next(g, 3, &r)) {
        const float *a = (const float *)l->at[0] + r.at[0];
        const float *b = (const float *)l->at[1] + r.at[1];
        float *y = (float *)l->at[2] + r.at[2];
        if (sa == 1 && sb == 1)
            binary_run(y, a, 1, b, 1, r.n, f);
        else if (sa == 1 && sb == 0)
            binary_run(y, a, 1, b, 0, r.n, f);
        else if (sa == 0 && sb == 1)
            binary_run(y, a, 0, b, 1, r.n, f);
        else
            binary_run(y, a, sa, b, sb, r.n, f);
    }
}

/* ---- the functions ---- */

IG_INLINE vf positive_of(vf x) { return vf_select(vf_less(vf_set(0), x), vf_set(1), vf_set(0)); }
IG_INLINE vf equal_of(vf a, vf b) { return vf_select(vf_equal(a, b), vf_set(1), vf_set(0)); }

/* dx = dy s (1 + x (1 - s)), s = sigmoid(x) */
IG_INLINE vf silu_grad_of(vf x, vf dy) {
    const vf s = vf_sigmoid(x), one = vf_set(1);
    return vf_mul(dy, vf_mul(s, vf_fma(x, vf_sub(one, s), one)));
}

/* dx = dy (below(x) + x density(x)); beyond 20 the density is 0, even of infinity. */
IG_INLINE vf gelu_erf_grad_of(vf x, vf dy) {
    const vf bell = vf_bell(x), density = vf_mul(bell, vf_set(0.398942280401433f));
    return vf_mul(dy, vf_fma(vf_clamp(x, -20, 20), density, vf_normal_below(x, bell)));
}

/* dx = dy (s + x s (1 - s) 2u'), s = sigmoid(2u), 2u' = c1 + 3 c3 x^2 */
IG_INLINE vf gelu_tanh_grad_of(vf x, vf dy) {
    const vf s = vf_sigmoid(gelu_inner(x)), near = vf_clamp(x, -20, 20);
    const vf slope = vf_fma(vf_mul(near, near), vf_set(3 * GELU_C3), vf_set(GELU_C1));
    const vf turn = vf_mul(vf_mul(near, slope), vf_mul(s, vf_sub(vf_set(1), s)));
    return vf_mul(dy, vf_add(s, turn));
}

/* ---- the kernels ---- */

/* A kernel of each function: exp_f32() and so on. */
#define KERNEL(name, template, function)                                         \
    static void name##_f32(const ig_cpu_launch *l, int64_t begin, int64_t end) { \
        template(l, begin, end, function);                                       \
    }

KERNEL(add, binary, vf_add)
KERNEL(sub, binary, vf_sub)
KERNEL(mul, binary, vf_mul)
KERNEL(div, binary, vf_div)
KERNEL(equal, binary, equal_of)
KERNEL(neg, unary, vf_neg)
KERNEL(exp, unary, vf_exp)
KERNEL(log, unary, vf_log)
KERNEL(sqrt, unary, vf_sqrt)
KERNEL(tanh, unary, vf_tanh)
KERNEL(sigmoid, unary, vf_sigmoid)
KERNEL(relu, unary, relu_of)
KERNEL(gelu_erf, unary, gelu_erf_of)
KERNEL(gelu_tanh, unary, gelu_tanh_of)
KERNEL(silu, unary, silu_of)
KERNEL(softplus, unary, vf_softplus)
KERNEL(positive, unary, positive_of)
KERNEL(gelu_erf_grad, binary, gelu_erf_grad_of)
KERNEL(gelu_tanh_grad, binary, gelu_tanh_grad_of)
KERNEL(silu_grad, binary, silu_grad_of)

/* scale x + shift, rounded as a product and then a sum would be. */
static void scale_f32(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const loop *g = &p->loop;
    const vf scale = vf_set(p->scale), shift = vf_set(p->shift);
    const int64_t stride = g->stride[0][g->rank - 1];
    run r;
    for (loop_first(g, 2, begin, end, &r); r.n > 0; loop_next(g, 2, &r)) {
        const float *x = (const float *)l->at[0] + r.at[0];
        float *y = (float *)l->at[1] + r.at[1];
        for (int64_t i = 0; i < r.n; i += VF_LANES) {
            const int64_t n = smaller(r.n - i, VF_LANES);
            const vf scaled = vf_mul(vf_take(x + i * stride, stride, n), scale);
            vf_store_first(y + i, vf_add(scaled, shift), n);
        }
    }
}

static void equal_i32(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const loop *g = &((const params *)l->params)->loop;
    const int64_t sa = g->stride[0][g->rank - 1], sb = g->stride[1][g->rank - 1];
    run r;
    for (loop_first(g, 3, begin, end, &r); r.n > 0; loop_next(g, 3, &r)) {
        const int32_t *a = (const int32_t *)l->at[0] + r.at[0];
        const int32_t *b = (const int32_t *)l->at[1] + r.at[1];
        int32_t *y = (int32_t *)l->at[2] + r.at[2];
        for (int64_t i = 0; i < r.n; i++) y[i] = a[i * sa] == b[i * sb];
    }
}

const ig_cpu_entry IG_CPU_LIST(elementwise)[] = {
    {IG_OP_ADD, IG_F32, BY_ELEMENT, cheap, add_f32},
    {IG_OP_SUB, IG_F32, BY_ELEMENT, cheap, sub_f32},
    {IG_OP_MUL, IG_F32, BY_ELEMENT, cheap, mul_f32},
    {IG_OP_DIV, IG_F32, BY_ELEMENT, cheap, div_f32},
    {IG_OP_EQUAL, IG_F32, BY_ELEMENT, cheap, equal_f32},
    {IG_OP_EQUAL, IG_I32, BY_ELEMENT, cheap_i32, equal_i32},
    {IG_OP_SCALE, IG_F32, BY_ELEMENT, cheap, scale_f32},
    {IG_OP_NEG, IG_F32, BY_ELEMENT, cheap, neg_f32},
    {IG_OP_EXP, IG_F32, BY_ELEMENT, costly, exp_f32},
    {IG_OP_LOG, IG_F32, BY_ELEMENT, costly, log_f32},
    {IG_OP_SQRT, IG_F32, BY_ELEMENT, cheap, sqrt_f32},
    {IG_OP_TANH, IG_F32, BY_ELEMENT, costly, tanh_f32},
    {IG_OP_SIGMOID, IG_F32, BY_ELEMENT, costly, sigmoid_f32},
    {IG_OP_RELU, IG_F32, BY_ELEMENT, cheap, relu_f32},
    {IG_OP_GELU, IG_F32, BY_ELEMENT, gelu_by_erf, gelu_erf_f32},
    {IG_OP_GELU, IG_F32, BY_ELEMENT, gelu_by_tanh, gelu_tanh_f32},
    {IG_OP_SILU, IG_F32, BY_ELEMENT, costly, silu_f32},
    {IG_OP_SOFTPLUS, IG_F32, BY_ELEMENT, costly, softplus_f32},
    {IG_OP_POSITIVE, IG_F32, BY_ELEMENT, cheap, positive_f32},
    {IG_OP_GELU_GRAD, IG_F32, BY_ELEMENT, gelu_by_erf, gelu_erf_grad_f32},
    {IG_OP_GELU_GRAD, IG_F32, BY_ELEMENT, gelu_by_tanh, gelu_tanh_grad_f32},
    {IG_OP_SILU_GRAD, IG_F32, BY_ELEMENT, costly, silu_grad_f32},
    {0},
};
