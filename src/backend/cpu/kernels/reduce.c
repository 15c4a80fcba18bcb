/*
 * Reductions: sum, mean and max over any axes, argmax along one, and mse and global_norm over
 * everything.
 *
 * The accumulation order depends on the shape and the axes only, not on strides:
 *
 *   the last dimension is reduced   lanes are adjacent terms of one result; terms that are
 *                                   not packed are gathered (sum_row.h has the order)
 *   the last dimension is kept      lanes are adjacent results, each adding its terms one by
 *                                   one; few results of many terms by splits (sum_batch.h)
 *
 * Over no elements, the sum is 0, the mean NaN and the maximum -infinity. With a NaN among the
 * elements, sum, mean and maximum are NaN.
 */
#include <math.h>

#include "backend/cpu/sum_batch.h"
#include "backend/cpu/sum_row.h"

typedef struct params {
    strided_index kept, terms; /* of the input: the results, and the terms of each */
    int64_t n_terms, n_kept;
    batch_split split; /* of the terms */
} params;

/* The operand with only the dimensions in `axes`. */
static strided_index places_along(const ig_operand *o, uint32_t axes) {
    ig_operand some = *o;
    some.desc.shape.rank = 0;
    for (int d = 0; d < o->desc.shape.rank; d++) {
        if (!(axes >> d & 1)) continue;
        some.desc.shape.dim[some.desc.shape.rank] = o->desc.shape.dim[d];
        some.stride[some.desc.shape.rank++] = o->stride[d];
    }
    return strided_index_make(&some, 0);
}

static int64_t count_along(const ig_operand *o, uint32_t axes) {
    int64_t n = 1;
    for (int d = 0; d < o->desc.shape.rank; d++)
        if (axes >> d & 1) n *= o->desc.shape.dim[d];
    return n;
}

/* Whether the last dimension of more than one element is among the axes. */
static bool reduces_rows(const ig_operand *o, uint32_t axes) {
    int d = o->desc.shape.rank - 1;
    while (d >= 0 && o->desc.shape.dim[d] == 1) d--;
    return d < 0 || axes >> d & 1;
}

static bool setup(const ig_step *step, ig_cpu_setup *out, uint32_t axes) {
    const ig_operand *x = &step->in[0];
    const params p = {.kept = places_along(x, ~axes),
                      .terms = places_along(x, axes),
                      .n_terms = count_along(x, axes),
                      .n_kept = count_along(x, ~axes),
                      .split = batch_split_of(count_along(x, axes))};
    out->cost = p.n_terms;
    return keep_params(out, &p, sizeof p);
}

static uint32_t axes_of(const ig_step *step) {
    ig_attrs_reduce attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    return attrs.axes;
}

static bool rows_setup(const ig_step *step, ig_cpu_setup *out) {
    const uint32_t axes = axes_of(step);
    return operands_are(step, 0, IG_F32) && reduces_rows(&step->in[0], axes) &&
           setup(step, out, axes);
}

/* Many adjacent results are computed together, so that complete cache lines are read: a unit
 * counts as less work than it is. */
static bool columns_setup(const ig_step *step, ig_cpu_setup *out) {
    if (!operands_are(step, 0, IG_F32) || !setup(step, out, axes_of(step))) return false;
    out->cost = min_i64(out->cost / 8, 256);
    return true;
}

static bool argmax_setup(const ig_step *step, ig_cpu_setup *out) {
    ig_attrs_axis attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    if (attrs.axis < 0 || attrs.axis >= step->in[0].desc.shape.rank) return false;
    return step->out[0].desc.dtype == IG_I32 && setup(step, out, 1u << attrs.axis);
}

/* ---- one result at a time ---- */

IG_INLINE vf plain_term(int64_t i, int64_t n, const void *of) {
    return vf_load_first((const float *)of + i, n);
}

/* The first term of result i; without terms, there may be no input. */
static const float *terms_of(const ig_cpu_launch *l, int64_t i) {
    const params *p = l->params;
    return (const float *)l->at[0] + (p->n_terms > 0 ? strided_offset(&p->kept, i) : 0);
}

static double sum_of(const params *p, const float *x) {
    float room[SUM_BLOCK];
    double total = 0;
    for (int64_t i = 0; i < p->n_terms; i += SUM_BLOCK) {
        const int64_t n = min_i64(p->n_terms - i, SUM_BLOCK);
        total += (double)sum_block(0, n, plain_term, strided_gather(&p->terms, x, i, n, room));
    }
    return total;
}

static void sum_rows(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    float *y = (float *)l->at[1];
    for (int64_t i = begin; i < end; i++) y[i] = (float)sum_of(p, terms_of(l, i));
}

static void mean_rows(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    float *y = (float *)l->at[1];
    for (int64_t i = begin; i < end; i++)
        y[i] = (float)(sum_of(p, terms_of(l, i)) / (double)p->n_terms);
}

static bool larger(float a, float b) { return a > b || (a != a && b == b); }

/* The first maximum. */
typedef struct best {
    float value;
    int64_t at;
} best;

static best best_of(const params *p, const float *x) {
    float room[SUM_BLOCK];
    best b = {-INFINITY, 0};
    for (int64_t i = 0; i < p->n_terms; i += SUM_BLOCK) {
        const int64_t n = min_i64(p->n_terms - i, SUM_BLOCK);
        const float *block = strided_gather(&p->terms, x, i, n, room);
        const float value = largest_of(block, n);
        if (!larger(value, b.value)) continue;
        int64_t at = 0;
        while (block[at] != value && !(value != value && block[at] != block[at])) at++;
        b = (best){value, i + at};
    }
    return b;
}

static void max_rows(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    float *y = (float *)l->at[1];
    for (int64_t i = begin; i < end; i++) y[i] = best_of(p, terms_of(l, i)).value;
}

static void argmax(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    int32_t *y = (int32_t *)l->at[1];
    for (int64_t i = begin; i < end; i++) y[i] = (int32_t)best_of(p, terms_of(l, i)).at;
}

/* ---- neighboring results side by side ---- */

enum { COLUMN_VECTORS = 8, COLUMN_VALUES = COLUMN_VECTORS * VF_LANES, CHAIN = 16 };

typedef enum fold { SUM, MAX } fold;

/* Folds the terms at x + offset[0..count) into `part`; lanes are adjacent packed results that fill
 * all vectors. The terms are scattered, so the next ones are prefetched. */
IG_INLINE void fold_packed(vf part[COLUMN_VECTORS], const float *x, const int64_t *offset,
                           int64_t count, int64_t ahead, const fold kind) {
    for (int64_t t = 0; t < count; t++) {
        IG_UNROLL
        for (int v = 0; v < COLUMN_VECTORS; v++) {
            const float *at = x + offset[t] + v * VF_LANES;
            __builtin_prefetch(at + ahead);
            part[v] = kind == SUM ? vf_add(part[v], vf_load(at)) : vf_larger(part[v], vf_load(at));
        }
    }
}

/* The same for n results with a stride. */
IG_INLINE void fold_terms(vf part[COLUMN_VECTORS], const float *x, const int64_t *offset,
                          int64_t count, int64_t stride, int64_t n, const fold kind) {
    for (int64_t t = 0; t < count; t++)
        for (int v = 0; v < COLUMN_VECTORS; v++) {
            const int64_t left = n - v * VF_LANES;
            if (left <= 0) break;
            const vf term =
                vf_take(x + offset[t] + v * VF_LANES * stride, stride, min_i64(left, VF_LANES));
            part[v] = kind == SUM ? vf_add(part[v], term) : vf_larger(part[v], term);
        }
}

/* Kahan summation: `lost` is the rounding error of the last addition. It must stay finite, so that
 * an infinite sum stays infinite. */
IG_INLINE vf add_exactly(vf total, vf part, vf *lost) {
    const vf more = vf_sub(part, *lost), sum = vf_add(total, more);
    const vf difference = vf_sub(vf_sub(sum, total), more);
    *lost = vf_select(vf_equal(vf_sub(sum, sum), vf_set(0)), difference, vf_set(0));
    return sum;
}

/* n adjacent results, from the element at x on: terms [first, end). */
IG_INLINE void fold_columns(const params *p, int64_t first, int64_t end, const float *x,
                            int64_t stride, int64_t n, float *y, const fold kind) {
    const vf start = vf_set(kind == SUM ? 0 : -INFINITY);
    vf total[COLUMN_VECTORS], lost[COLUMN_VECTORS], part[COLUMN_VECTORS];
    for (int v = 0; v < COLUMN_VECTORS; v++) {
        total[v] = start;
        lost[v] = vf_set(0);
    }
    for (int64_t t = first; t < end; t += CHAIN) {
        const int64_t count = min_i64(end - t, CHAIN);
        int64_t offset[CHAIN];
        for (int64_t i = 0; i < count; i++) offset[i] = strided_offset(&p->terms, t + i);
        for (int v = 0; v < COLUMN_VECTORS; v++) part[v] = start;
        if (stride == 1 && n == COLUMN_VALUES)
            fold_packed(part, x, offset, count, CHAIN * p->terms.stride[p->terms.rank - 1], kind);
        else
            fold_terms(part, x, offset, count, stride, n, kind);
        for (int v = 0; v < COLUMN_VECTORS; v++)
            total[v] = kind == SUM ? add_exactly(total[v], part[v], &lost[v])
                                   : vf_larger(total[v], part[v]);
    }
    for (int v = 0; v < COLUMN_VECTORS && v * VF_LANES < n; v++)
        vf_store_first(y + v * VF_LANES, total[v], min_i64(n - v * VF_LANES, VF_LANES));
}

/* Writes results [begin, end), reduced over terms [first, last), to y. */
IG_INLINE void columns_of(const ig_cpu_launch *l, int64_t begin, int64_t end, int64_t first,
                          int64_t last, float *y, const fold kind) {
    const params *p = l->params;
    const int inner = p->kept.rank - 1;
    for (int64_t i = begin; i < end;) {
        const int64_t along = i % p->kept.dim[inner];
        const int64_t n = min_i64(min_i64(p->kept.dim[inner] - along, end - i), COLUMN_VALUES);
        fold_columns(p, first, last, terms_of(l, i), p->kept.stride[inner], n, y + i, kind);
        i += n;
    }
}

IG_INLINE void columns(const ig_cpu_launch *l, int64_t begin, int64_t end, const fold kind) {
    const params *p = l->params;
    columns_of(l, begin, end, 0, p->n_terms, (float *)l->at[1], kind);
}

static void sum_columns(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    columns(l, begin, end, SUM);
}

static void max_columns(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    columns(l, begin, end, MAX);
}

static void mean_columns(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const float n = (float)((const params *)l->params)->n_terms;
    float *y = (float *)l->at[1];
    columns(l, begin, end, SUM);
    for (int64_t i = begin; i < end; i++) y[i] /= n;
}

static void sum_splits(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    for (int64_t s = begin; s < end; s++) {
        const int64_t first = s * p->split.size;
        columns_of(l, 0, p->n_kept, first, min_i64(first + p->split.size, p->n_terms),
                   (float *)l->scratch + s * p->n_kept, SUM);
    }
}

/* Few results of many terms: partial sums of each split come first. */
static bool split_setup(const ig_step *step, ig_cpu_setup *out) {
    enum { FEW = 256 };
    if (!columns_setup(step, out)) return false;
    const params *p = (const params *)out->params;
    if (reduces_rows(&step->in[0], axes_of(step)) || p->split.count == 1 || p->n_kept > FEW)
        return false;
    out->cost = p->split.count;
    out->scratch_bytes = (uint64_t)(p->split.count * p->n_kept) * sizeof(float);
    out->prologue = sum_splits;
    out->prologue_units = p->split.count;
    out->prologue_cost = SPLIT_COST;
    return true;
}

static void add_splits(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    batch_split_add((const float *)l->scratch + begin, p->split.count, p->n_kept, end - begin,
                    (float *)l->at[1] + begin);
}

static void mean_of_splits(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const float n = (float)((const params *)l->params)->n_terms;
    float *y = (float *)l->at[1];
    add_splits(l, begin, end);
    for (int64_t i = begin; i < end; i++) y[i] /= n;
}

/* ---- over everything ---- */

typedef struct pair {
    const float *got, *want;
} pair;

IG_INLINE vf squared_difference(int64_t i, int64_t n, const void *of) {
    const pair *p = of;
    const vf d = vf_sub(vf_load_first(p->got + i, n), vf_load_first(p->want + i, n));
    return vf_mul(d, d);
}

IG_INLINE vf square(int64_t i, int64_t n, const void *of) {
    const vf x = vf_load_first((const float *)of + i, n);
    return vf_mul(x, x);
}

/* The sum of squares of a block; accumulated in double if it exceeds the range of F32. */
static double sum_of_squares(const float *x, int64_t n) {
    const float sum = sum_block(0, n, square, x);
    double total = 0;
    if (isfinite(sum)) return (double)sum;
    for (int64_t i = 0; i < n; i++) total += (double)x[i] * (double)x[i];
    return total;
}

/* The same for differences. */
static double sum_of_squared_differences(const pair *p, int64_t n) {
    const float sum = sum_block(0, n, squared_difference, p);
    double total = 0;
    if (isfinite(sum)) return (double)sum;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)p->got[i] - (double)p->want[i];
        total += d * d;
    }
    return total;
}

static bool total_setup(const ig_step *step, ig_cpu_setup *out) {
    if (!operands_are(step, 0, IG_F32)) return false;
    for (uint32_t i = 0; i < step->n_in; i++) out->cost += ig_shape_count(step->in[i].desc.shape);
    return keep_params(out, &step->n_in, sizeof step->n_in);
}

static void mse(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    (void)begin, (void)end; /* there is one result */
    const strided_index got = strided_index_make(&l->operand[0], 0),
                        want = strided_index_make(&l->operand[1], 0);
    const int64_t count = ig_shape_count(l->operand[0].desc.shape);
    float room[2][SUM_BLOCK];
    double total = 0;
    for (int64_t i = 0; i < count; i += SUM_BLOCK) {
        const int64_t n = min_i64(count - i, SUM_BLOCK);
        const pair p = {strided_gather(&got, (const float *)l->at[0], i, n, room[0]),
                        strided_gather(&want, (const float *)l->at[1], i, n, room[1])};
        total += sum_of_squared_differences(&p, n);
    }
    *(float *)l->at[2] = (float)(total / (double)count);
}

static void global_norm(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    (void)begin, (void)end;
    const uint32_t inputs = *(const uint32_t *)l->params;
    float room[SUM_BLOCK];
    double total = 0;
    for (uint32_t k = 0; k < inputs; k++) {
        const strided_index x = strided_index_make(&l->operand[k], 0);
        const int64_t count = ig_shape_count(l->operand[k].desc.shape);
        for (int64_t i = 0; i < count; i += SUM_BLOCK) {
            const int64_t n = min_i64(count - i, SUM_BLOCK);
            const float *block = strided_gather(&x, (const float *)l->at[k], i, n, room);
            total += sum_of_squares(block, n);
        }
    }
    *(float *)l->at[inputs] = (float)sqrt(total);
}

const ig_cpu_entry IG_CPU_LIST(reduce)[] = {
    {IG_OP_SUM, IG_F32, BY_ELEMENT, rows_setup, sum_rows},
    {IG_OP_SUM, IG_F32, BY_ELEMENT, split_setup, add_splits},
    {IG_OP_SUM, IG_F32, BY_ELEMENT, columns_setup, sum_columns},
    {IG_OP_MEAN, IG_F32, BY_ELEMENT, rows_setup, mean_rows},
    {IG_OP_MEAN, IG_F32, BY_ELEMENT, split_setup, mean_of_splits},
    {IG_OP_MEAN, IG_F32, BY_ELEMENT, columns_setup, mean_columns},
    {IG_OP_MAX, IG_F32, BY_ELEMENT, rows_setup, max_rows},
    {IG_OP_MAX, IG_F32, BY_ELEMENT, columns_setup, max_columns},
    {IG_OP_ARGMAX, IG_F32, BY_ELEMENT, argmax_setup, argmax},
    {IG_OP_MSE, IG_F32, BY_ELEMENT, total_setup, mse},
    {IG_OP_GLOBAL_NORM, IG_F32, BY_ELEMENT, total_setup, global_norm},
    {0},
};
