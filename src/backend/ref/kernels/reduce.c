/*
 * Reductions over any set of axes. An empty sum is 0, an empty mean NaN, an empty max -infinity;
 * NaN propagates through sum, mean and max.
 */
#include <math.h>

#include "backend/ref/real.h"

/* Elements per result element; `axes` as in ig_attrs_reduce. */
static int64_t reduced_count(const ig_ref_view *x, uint32_t axes) {
    int64_t n = 1;
    for (int d = 0; d < x->shape.rank; d++)
        if (axes >> d & 1) n *= x->shape.dim[d];
    return n;
}

/* The index of the r-th element that is reduced to element o of the result. */
static int64_t element_of(const ig_ref_view *x, uint32_t axes, int64_t o, int64_t r) {
    int64_t element = 0, weight = 1;
    for (int d = x->shape.rank - 1; d >= 0; d--) {
        const int64_t extent = x->shape.dim[d];
        int64_t *count = axes >> d & 1 ? &r : &o;
        element += *count % extent * weight;
        *count /= extent;
        weight *= extent;
    }
    return element;
}

/* NaN is larger than every number. */
static bool larger(double a, double b) { return a > b || (isnan(a) && !isnan(b)); }

static double sum_of(const ig_ref_view *x, uint32_t axes, int64_t o) {
    const int64_t n = reduced_count(x, axes);
    double sum = 0;
    for (int64_t r = 0; r < n; r++) sum += get(x, element_of(x, axes, o, r));
    return sum;
}

static double mean_of(const ig_ref_view *x, uint32_t axes, int64_t o) {
    return sum_of(x, axes, o) / (double)reduced_count(x, axes);
}

static double max_of(const ig_ref_view *x, uint32_t axes, int64_t o) {
    const int64_t n = reduced_count(x, axes);
    double best = -(double)INFINITY;
    for (int64_t r = 0; r < n; r++) {
        const double e = get(x, element_of(x, axes, o, r));
        if (larger(e, best)) best = e;
    }
    return best;
}

typedef double reduce_fn(const ig_ref_view *x, uint32_t axes, int64_t o);

static void reduce(const ig_ref_launch *l, reduce_fn *f) {
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t o = 0; o < n; o++) put(&l->out[0], o, f(&l->in[0], l->attrs.reduce.axes, o));
}

static void sum(const ig_ref_launch *l) { reduce(l, sum_of); }
static void mean(const ig_ref_launch *l) { reduce(l, mean_of); }
static void max(const ig_ref_launch *l) { reduce(l, max_of); }

static void argmax(const ig_ref_launch *l) {
    const ig_ref_view *x = &l->in[0], *y = &l->out[0];
    const uint32_t axes = 1u << l->attrs.axis.axis;
    const int64_t outputs = ig_shape_count(y->shape), n = reduced_count(x, axes);
    for (int64_t o = 0; o < outputs; o++) {
        int64_t best = 0;
        for (int64_t r = 1; r < n; r++)
            if (larger(get(x, element_of(x, axes, o, r)), get(x, element_of(x, axes, o, best))))
                best = r;
        ((int32_t *)y->at)[ig_ref_place(y, o)] = (int32_t)best;
    }
}

static void mse(const ig_ref_launch *l) {
    const int64_t n = ig_shape_count(l->in[0].shape);
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        const double difference = get(&l->in[0], i) - get(&l->in[1], i);
        total += difference * difference;
    }
    put(&l->out[0], 0, total / (double)n);
}

static void global_norm(const ig_ref_launch *l) {
    double total = 0;
    for (uint32_t k = 0; k < l->n_in; k++) {
        const int64_t n = ig_shape_count(l->in[k].shape);
        for (int64_t i = 0; i < n; i++) total += get(&l->in[k], i) * get(&l->in[k], i);
    }
    put(&l->out[0], 0, sqrt(total));
}

const ig_ref_entry IG_REF_LIST(reduce)[] = {
    {IG_OP_SUM, IG_REF_DTYPE, "r", "r", sum},
    {IG_OP_MEAN, IG_REF_DTYPE, "r", "r", mean},
    {IG_OP_MAX, IG_REF_DTYPE, "r", "r", max},
    {IG_OP_ARGMAX, IG_REF_DTYPE, "r", "i", argmax},
    {IG_OP_MSE, IG_REF_DTYPE, "rr", "r", mse},
    {IG_OP_GLOBAL_NORM, IG_REF_DTYPE, "r", "r", global_norm},
    {0},
};
