/*
 * Normalization along the last dimension n, and its gradient by x.  Both norms are
 *     y = w xhat + b,   xhat = (x - mean) r
 * where rms_norm has mean 0 and r = 1 / sqrt(mean(x^2) + eps), and layer_norm has
 * the row's mean and r = 1 / sqrt(variance + eps), the variance divided by n.
 * With g = w dy the gradient is
 *     dx = r (g - xhat mean(g xhat) - mean(g))        without the last term for rms_norm
 */
#include "backend/cpu/sum_row.h"

typedef struct params {
    strided_index x, dy; /* their rows */
    int64_t n;
    float eps;
    bool has_w, has_b;
} params;

/* x [..., n], dy like it for the gradients; then, from input `first` on, vectors [n] */
static bool setup(const ig_step *step, ig_cpu_setup *out, uint32_t first) {
    ig_attrs_norm attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    params p = {.eps = attrs.eps, .n = last_dim(&step->in[0])};
    if (!operands_are(step, 0, IG_F32)) return false;
    for (uint32_t i = 0; i < step->n_in; i++)
        if (!rows_are_packed(&step->in[i])) return false;
    p.x = strided_index_make(&step->in[0], 1);
    if (first == 2) p.dy = strided_index_make(&step->in[1], 1);
    p.has_w = step->n_in > first;
    p.has_b = step->n_in > first + 1;
    out->cost = sat_mul(p.n, 4);
    return keep_params(out, &p, sizeof p);
}

static bool norm_setup(const ig_step *step, ig_cpu_setup *out) { return setup(step, out, 1); }
static bool grad_setup(const ig_step *step, ig_cpu_setup *out) { return setup(step, out, 2); }

/* A row and its statistics. */
typedef struct row {
    const float *x, *dy, *w, *b; /* w and b may be NULL */
    float mean, r;
} row;

typedef enum center { AROUND_ZERO, AROUND_MEAN } center;

/* Terms of the row sums. */
IG_INLINE vf element(int64_t i, int64_t n, const void *of) {
    return vf_load_first(((const row *)of)->x + i, n);
}

IG_INLINE vf centered(const row *r, int64_t i, int64_t n) {
    return vf_sub(vf_load_first(r->x + i, n), vf_set(r->mean));
}

IG_INLINE vf centered_square(int64_t i, int64_t n, const void *of) {
    const vf x = centered(of, i, n);
    return vf_mul(x, x);
}

/* g = w dy */
IG_INLINE vf inner_grad(int64_t i, int64_t n, const void *of) {
    const row *r = of;
    const vf dy = vf_load_first(r->dy + i, n);
    return r->w ? vf_mul(vf_load_first(r->w + i, n), dy) : dy;
}

/* g (x - mean) */
IG_INLINE vf inner_product(int64_t i, int64_t n, const void *of) {
    return vf_mul(inner_grad(i, n, of), centered(of, i, n));
}

/* The mean and r of a row. */
IG_INLINE void measure(row *r, const params *p, const center c) {
    const double n = (double)p->n;
    r->mean = c == AROUND_MEAN ? (float)(sum_terms(p->n, element, r) / n) : 0;
    const double variance = sum_terms(p->n, centered_square, r) / n;
    r->r = (float)(1 / sqrt(variance + (double)p->eps));
}

IG_INLINE void norm(const ig_cpu_launch *l, int64_t begin, int64_t end, const center c) {
    const params *p = l->params;
    const int64_t n = p->n;
    float *y = (float *)l->at[1 + p->has_w + p->has_b];
    row r = {.w = p->has_w ? (const float *)l->at[1] : NULL,
             .b = p->has_b ? (const float *)l->at[2] : NULL};
    for (int64_t i = begin; i < end && n > 0; i++) {
        r.x = (const float *)l->at[0] + strided_offset(&p->x, i);
        measure(&r, p, c);
        for (int64_t j = 0; j < n; j += VF_LANES) {
            const int64_t m = min_i64(n - j, VF_LANES);
            vf x = vf_mul(centered(&r, j, m), vf_set(r.r));
            if (r.w) x = vf_mul(x, vf_load_first(r.w + j, m));
            if (r.b) x = vf_add(x, vf_load_first(r.b + j, m));
            vf_store_first(y + i * n + j, x, m);
        }
    }
}

/* x, dy, w or none -> dx */
IG_INLINE void norm_grad(const ig_cpu_launch *l, int64_t begin, int64_t end, const center c) {
    const params *p = l->params;
    const int64_t n = p->n;
    float *dx = (float *)l->at[2 + p->has_w];
    row r = {.w = p->has_w ? (const float *)l->at[2] : NULL};
    for (int64_t i = begin; i < end && n > 0; i++) {
        r.x = (const float *)l->at[0] + strided_offset(&p->x, i);
        r.dy = (const float *)l->at[1] + strided_offset(&p->dy, i);
        measure(&r, p, c);
        const double rr = (double)r.r * (double)r.r;
        const vf slope = vf_set((float)(sum_terms(n, inner_product, &r) / (double)n * rr));
        const vf mean =
            vf_set(c == AROUND_MEAN ? (float)(sum_terms(n, inner_grad, &r) / (double)n) : 0);
        for (int64_t j = 0; j < n; j += VF_LANES) {
            const int64_t m = min_i64(n - j, VF_LANES);
            const vf along = vf_mul(centered(&r, j, m), slope); /* xhat mean(g xhat) */
            const vf g = vf_sub(inner_grad(j, m, &r), along);
            vf_store_first(dx + i * n + j, vf_mul(vf_set(r.r), vf_sub(g, mean)), m);
        }
    }
}

static void rms_norm(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    norm(l, begin, end, AROUND_ZERO);
}
static void layer_norm(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    norm(l, begin, end, AROUND_MEAN);
}
static void rms_norm_grad(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    norm_grad(l, begin, end, AROUND_ZERO);
}
static void layer_norm_grad(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    norm_grad(l, begin, end, AROUND_MEAN);
}

const ig_cpu_entry IG_CPU_LIST(norm)[] = {
    {IG_OP_RMS_NORM, IG_F32, BY_ROW, norm_setup, rms_norm},
    {IG_OP_RMS_NORM_GRAD, IG_F32, BY_ROW, grad_setup, rms_norm_grad},
    {IG_OP_LAYER_NORM, IG_F32, BY_ROW, norm_setup, layer_norm},
    {IG_OP_LAYER_NORM_GRAD, IG_F32, BY_ROW, grad_setup, layer_norm_grad},
    {0},
};
