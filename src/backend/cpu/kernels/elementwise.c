/*
 * Elementwise ops: out[i] = f(in[0][i], in[1][i]).
 *
 * Each op is a function of vectors; two templates walk the operands. Packed or broadcast runs are
 * loaded directly, others are gathered lane by lane, so that the arithmetic is the same for all.
 */
#include "backend/cpu/simd/vec_activation.h"
#include "backend/cpu/strided.h"

typedef struct params {
    strided_loop loop;
    float scale, shift; /* of IG_OP_SCALE */
} params;

typedef vf unary_fn(vf x);
typedef vf binary_fn(vf a, vf b);

/* Approximate cost of an element, in multiply-adds. */
enum { CHEAP = 1, COSTLY = 16 };

static bool setup(const ig_step *step, ig_cpu_setup *out, int64_t cost, ig_dtype dtype) {
    params p = {.scale = 1};
    if (!operands_are(step, 0, dtype) || !strided_loop_over_step(step, &p.loop)) return false;
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

static bool is_of_form(const ig_step *step, ig_gelu_form form) {
    ig_attrs_gelu attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    return attrs.form == (uint32_t)form;
}

/* ---- the templates ---- */

IG_INLINE void unary_run(float *y, const float *x, int64_t stride, int64_t n, unary_fn *f) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(y + i, f(vf_take(x + i * stride, stride, VF_LANES)));
    if (i < n) vf_store_part(y + i, f(vf_take(x + i * stride, stride, n - i)), n - i);
}

IG_INLINE void unary(const ig_cpu_launch *l, int64_t begin, int64_t end, unary_fn *f) {
    const strided_loop *g = &((const params *)l->params)->loop;
    const int64_t stride = g->stride[0][g->rank - 1];
    strided_run r;
    for (strided_run_first(g, 2, begin, end, &r); r.n > 0; strided_run_next(g, 2, &r)) {
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
    const strided_loop *g = &((const params *)l->params)->loop;
    const int64_t sa = g->stride[0][g->rank - 1], sb = g->stride[1][g->rank - 1];
    strided_run r;
    for (strided_run_first(g, 3, begin, end, &r); r.n > 0; strided_run_next(g, 3, &r)) {
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

IG_INLINE vf add_of(vf a, vf b) { return vf_add(a, b); }
IG_INLINE vf sub_of(vf a, vf b) { return vf_sub(a, b); }
IG_INLINE vf mul_of(vf a, vf b) { return vf_mul(a, b); }
IG_INLINE vf div_of(vf a, vf b) { return vf_div(a, b); }
IG_INLINE vf neg_of(vf x) { return vf_neg(x); }
IG_INLINE vf exp_of(vf x) { return vf_exp(x); }
IG_INLINE vf log_of(vf x) { return vf_log(x); }
IG_INLINE vf sqrt_of(vf x) { return vf_sqrt(x); }
IG_INLINE vf tanh_of(vf x) { return vf_tanh(x); }
IG_INLINE vf sigmoid_of(vf x) { return vf_sigmoid(x); }
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
    const vf bend = vf_mul(vf_mul(near, slope), vf_mul(s, vf_sub(vf_set(1), s)));
    return vf_mul(dy, vf_add(s, bend));
}

/* ---- the kernels ---- */

/* A kernel per function: exp_f32() and so on. */
#define KERNEL(name, template)                                                   \
    static void name##_f32(const ig_cpu_launch *l, int64_t begin, int64_t end) { \
        template(l, begin, end, name##_of);                                      \
    }
/* The setup of a GELU form: gelu_erf_setup(). */
#define SETUP(name, cost, form)                                        \
    static bool name##_setup(const ig_step *step, ig_cpu_setup *out) { \
        return is_of_form(step, IG_GELU_##form) && cost(step, out);    \
    }
#define IG_FN1(ID, name, cost, low, high, epsilons) KERNEL(name, unary)
#define IG_FN1_OF(ID, form, name, cost, low, high, epsilons) \
    KERNEL(name, unary) SETUP(name, cost, form)
#define IG_FN2(ID, name, cost, epsilons)            KERNEL(name, binary)
#define IG_SLOPE(ID, name, cost, epsilons)          KERNEL(name, binary)
#define IG_SLOPE_OF(ID, form, name, cost, epsilons) KERNEL(name, binary) SETUP(name, cost, form)
#include "ingot/function.def"

/* scale x + shift, rounded after the product and after the sum. */
static void scale_f32(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const strided_loop *g = &p->loop;
    const vf scale = vf_set(p->scale), shift = vf_set(p->shift);
    const int64_t stride = g->stride[0][g->rank - 1];
    strided_run r;
    for (strided_run_first(g, 2, begin, end, &r); r.n > 0; strided_run_next(g, 2, &r)) {
        const float *x = (const float *)l->at[0] + r.at[0];
        float *y = (float *)l->at[1] + r.at[1];
        for (int64_t i = 0; i < r.n; i += VF_LANES) {
            const int64_t n = min_i64(r.n - i, VF_LANES);
            const vf scaled = vf_mul(vf_take(x + i * stride, stride, n), scale);
            vf_store_first(y + i, vf_add(scaled, shift), n);
        }
    }
}

static void equal_i32(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const strided_loop *g = &((const params *)l->params)->loop;
    const int64_t sa = g->stride[0][g->rank - 1], sb = g->stride[1][g->rank - 1];
    strided_run r;
    for (strided_run_first(g, 3, begin, end, &r); r.n > 0; strided_run_next(g, 3, &r)) {
        const int32_t *a = (const int32_t *)l->at[0] + r.at[0];
        const int32_t *b = (const int32_t *)l->at[1] + r.at[1];
        int32_t *y = (int32_t *)l->at[2] + r.at[2];
        for (int64_t i = 0; i < r.n; i++) y[i] = a[i * sa] == b[i * sb];
    }
}

const ig_cpu_entry IG_CPU_LIST(elementwise)[] = {
#define ROW(ID, name, setup)                                 {IG_OP_##ID, IG_F32, BY_ELEMENT, setup, name##_f32},
#define IG_FN1(ID, name, cost, low, high, epsilons)          ROW(ID, name, cost)
#define IG_FN1_OF(ID, form, name, cost, low, high, epsilons) ROW(ID, name, name##_setup)
#define IG_FN2(ID, name, cost, epsilons)                     ROW(ID, name, cost)
#define IG_SLOPE(ID, name, cost, epsilons)                   ROW(ID, name, cost)
#define IG_SLOPE_OF(ID, form, name, cost, epsilons)          ROW(ID, name, name##_setup)
#include "ingot/function.def"
    {IG_OP_EQUAL, IG_I32, BY_ELEMENT, cheap_i32, equal_i32},
    {IG_OP_SCALE, IG_F32, BY_ELEMENT, cheap, scale_f32},
    {0},
};
