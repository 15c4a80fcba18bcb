/*
 * MoE: routing, grouping by expert, grouped matmul and combining.
 *
 * The grouped matmul goes by columns: a unit takes a few columns through all experts, so each
 * expert's rows are read once. The accumulation order is that of gemm_f32_dequant.h, for any number
 * of rows per expert. Quantized weights are in matmul_quant.c.
 */
#include <math.h>

#include "backend/cpu/gemm/expert_groups.h"
#include "backend/cpu/gemm/gemm_f32_dequant.h"
#include "backend/cpu/simd/vec_math.h"
#include "backend/cpu/sum_row.h"

/* ---- route: logits [t, e] -> ids [t, k], weights [t, k] ---- */

typedef struct route_params {
    int64_t experts, count;
    bool norm_topk;
} route_params;

static bool route_setup(const ig_step *step, ig_cpu_setup *out) {
    ig_attrs_route a;
    ig_step_attrs(step, &a, sizeof a);
    if (!inputs_are_packed(step)) return false;
    const route_params p = {last_dim(&step->in[0]), a.top_k, a.norm_topk};
    out->cost = sat_mul(p.experts, 8 + p.count);
    return keep_params(out, &p, sizeof p);
}

static bool is_chosen(const int32_t *ids, int64_t count, int64_t expert) {
    for (int64_t j = 0; j < count; j++)
        if (ids[j] == expert) return true;
    return false;
}

/* The largest score not chosen yet; numbers before NaN, lower ids first. */
static int32_t next_expert(const float *x, int64_t experts, const int32_t *ids, int64_t count) {
    int32_t best = -1;
    for (int64_t i = 0; i < experts; i++) {
        if (best >= 0 && !(x[i] > x[best]) && !(isnan(x[best]) && !isnan(x[i]))) continue;
        if (!is_chosen(ids, count, i)) best = (int32_t)i;
    }
    return best;
}

/* exp(x[i] - largest), where x[-1] is the largest. */
typedef struct exponents {
    const float *x;
    float largest;
} exponents;

IG_INLINE vf exponent_term(int64_t i, int64_t n, const void *of) {
    const exponents *e = of;
    return vf_exp(vf_sub(vf_load_first(e->x + i, n), vf_set(e->largest)));
}

static void route_row(const route_params *p, const float *x, int32_t *ids, float *weights) {
    for (int64_t j = 0; j < p->count; j++) ids[j] = next_expert(x, p->experts, ids, j);
    const exponents all = {x, x[ids[0]]};
    float sum = 0;
    for (int64_t j = 0; j < p->count; j++) {
        weights[j] = float_exp(x[ids[j]] - all.largest);
        sum += weights[j];
    }
    if (!p->norm_topk) sum = (float)sum_terms(p->experts, exponent_term, &all);
    for (int64_t j = 0; j < p->count; j++) weights[j] /= sum;
}

static void route(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const route_params *p = l->params;
    for (int64_t row = begin; row < end; row++)
        route_row(p, (const float *)l->at[0] + row * p->experts,
                  (int32_t *)l->at[1] + row * p->count, (float *)l->at[2] + row * p->count);
}

/* ---- group_rows: ids [t, k] -> rows [s], places [t, k], offsets [e + 1] ---- */

typedef struct group_params {
    int64_t slots, each, experts;
} group_params;

static bool group_setup(const ig_step *step, ig_cpu_setup *out) {
    if (!inputs_are_packed(step)) return false;
    const group_params p = {ig_shape_count(step->in[0].desc.shape), last_dim(&step->in[0]),
                            last_dim(&step->out[2]) - 1};
    out->units = 1;
    out->cost = sat_mul(p.slots + p.experts, 2);
    return keep_params(out, &p, sizeof p);
}

/* Counts each expert's rows at offset i + 2, so that after the prefix sum, offset i + 1 is where
 * the next row of expert i goes, and after placing all rows, where those of i + 1 begin. */
static void group_rows(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const group_params *p = l->params;
    const int32_t *ids = (const int32_t *)l->at[0];
    int32_t *rows = (int32_t *)l->at[1], *to = (int32_t *)l->at[2], *offsets = (int32_t *)l->at[3];
    if (begin == end) return;
    memset(offsets, 0, (size_t)(p->experts + 1) * sizeof *offsets);
    for (int64_t i = 0; i < p->slots; i++)
        if (ids[i] >= 0 && ids[i] + 2 <= p->experts) offsets[ids[i] + 2]++;
    for (int64_t e = 2; e <= p->experts; e++) offsets[e] += offsets[e - 1];
    int32_t placed = 0;
    for (int64_t i = 0; i < p->slots; i++) {
        const bool known = ids[i] >= 0 && ids[i] < p->experts;
        to[i] = known ? offsets[ids[i] + 1]++ : -1;
        if (known) rows[to[i]] = (int32_t)(i / p->each);
        placed += known;
    }
    for (int64_t i = placed; i < p->slots; i++) rows[i] = -1;
}

/* ---- matmul_grouped: x [s, k], w [e, ...], offsets [e + 1] -> [s, n] ---- */

static bool grouped_nk_setup(const ig_step *step, ig_cpu_setup *out) {
    grouped p = grouped_of(step);
    if (!grouped_is_transposed(step) || !dequantizer_of(p.dtype) || !inputs_are_packed(step))
        return false;
    if (ig_dtype_block(p.dtype) > 1) return false; /* matmul_quant.c has those */
    p.n = step->in[1].desc.shape.dim[1];
    out->units = (p.n + DEQUANT_COLUMNS - 1) / DEQUANT_COLUMNS;
    out->cost = sat_mul(sat_mul(p.rows, p.k), DEQUANT_COLUMNS);
    return keep_params(out, &p, sizeof p);
}

/* Rows [begin, end) of one expert, a few columns from j on. */
typedef void rows_fn(const ig_cpu_launch *l, int64_t expert, int64_t begin, int64_t end, int64_t j);

static void multiply_nk(const ig_cpu_launch *l, int64_t expert, int64_t begin, int64_t end,
                        int64_t j) {
    const grouped *p = l->params;
    const int64_t row_bytes = ig_bytes_of(p->dtype, p->k);
    const float *x[DEQUANT_ROWS];
    for (int64_t i = begin; i < end; i += DEQUANT_ROWS) {
        const int64_t rows = min_i64(end - i, DEQUANT_ROWS);
        for (int64_t r = 0; r < rows; r++) x[r] = (const float *)l->at[0] + (i + r) * p->k;
        const float_block part = {.x = x,
                                  .dtype = p->dtype,
                                  .w = l->at[1] + (expert * p->n + j) * row_bytes,
                                  .w_row = row_bytes,
                                  .k = p->k,
                                  .y = (float *)l->at[3] + i * p->n + j,
                                  .y_row = p->n};
        gemm_f32_dequant(&part, rows, min_i64(p->n - j, DEQUANT_COLUMNS));
    }
}

/* Units of DEQUANT_COLUMNS columns, through all experts. */
IG_INLINE void through_experts(const ig_cpu_launch *l, int64_t begin, int64_t end,
                               rows_fn *multiply_rows) {
    const grouped *p = l->params;
    const int32_t *offsets = (const int32_t *)l->at[2];
    float *y = (float *)l->at[3];
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t j = unit * DEQUANT_COLUMNS, columns = min_i64(p->n - j, DEQUANT_COLUMNS);
        int64_t row = grouped_begin(p, offsets);
        clear_rows(y + j, p->n, row, columns);
        for (int64_t e = 0; e < p->experts; e++) {
            const int64_t next = grouped_end(p, offsets, e, row);
            multiply_rows(l, e, row, next, j);
            row = next;
        }
        clear_rows(y + row * p->n + j, p->n, p->rows - row, columns);
    }
}

static void grouped_f32_nk(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    through_experts(l, begin, end, multiply_nk);
}

/* w [e, k, n], F32: sums run along k, columns in lanes. */
enum { LANE_COLUMNS = 64 };

static bool grouped_kn_setup(const ig_step *step, ig_cpu_setup *out) {
    grouped p = grouped_of(step);
    if (grouped_is_transposed(step) || p.dtype != IG_F32 || !inputs_are_packed(step)) return false;
    p.n = step->in[1].desc.shape.dim[2];
    out->units = (p.n + LANE_COLUMNS - 1) / LANE_COLUMNS;
    out->cost = sat_mul(sat_mul(p.rows, p.k), LANE_COLUMNS);
    return keep_params(out, &p, sizeof p);
}

/* y[0..n) = sum of x[i x_stride] rows[i], over `count` rows */
static void add_up(float *y, int64_t n, const float *x, int64_t x_stride, const float *rows,
                   int64_t stride, int64_t count) {
    for (int64_t c = 0; c < n; c += VF_LANES) {
        const int64_t m = min_i64(n - c, VF_LANES);
        vf sum = vf_set(0);
        for (int64_t i = 0; i < count; i++)
            sum = vf_fma(vf_set(x[i * x_stride]), vf_load_first(rows + i * stride + c, m), sum);
        vf_store_first(y + c, sum, m);
    }
}

static void grouped_f32_kn(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const grouped *p = l->params;
    const int32_t *offsets = (const int32_t *)l->at[2];
    const float *x = (const float *)l->at[0], *w = (const float *)l->at[1];
    float *y = (float *)l->at[3];
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t j = unit * LANE_COLUMNS, columns = min_i64(p->n - j, LANE_COLUMNS);
        int64_t row = grouped_begin(p, offsets);
        clear_rows(y + j, p->n, row, columns);
        for (int64_t e = 0; e < p->experts; e++)
            for (const int64_t next = grouped_end(p, offsets, e, row); row < next; row++)
                add_up(y + row * p->n + j, columns, x + row * p->k, 1, w + e * p->k * p->n + j,
                       p->n, p->k);
        clear_rows(y + row * p->n + j, p->n, p->rows - row, columns);
    }
}

/* x [s, k], dy [s, n], offsets -> [e, n, k].  A unit is a row of the result for each expert. */
static bool grouped_grad_setup(const ig_step *step, ig_cpu_setup *out) {
    grouped p = grouped_of(step);
    if (!operands_are(step, 3, IG_F32) || p.dtype != IG_F32 || !inputs_are_packed(step))
        return false;
    p.n = last_dim(&step->in[1]);
    out->units = p.n;
    out->cost = sat_mul(p.rows, p.k);
    return keep_params(out, &p, sizeof p);
}

static void grouped_f32_grad(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const grouped *p = l->params;
    const int32_t *offsets = (const int32_t *)l->at[2];
    const float *x = (const float *)l->at[0], *dy = (const float *)l->at[1];
    float *dw = (float *)l->at[3];
    for (int64_t j = begin; j < end; j++) {
        int64_t row = grouped_begin(p, offsets);
        for (int64_t e = 0; e < p->experts; e++) {
            const int64_t next = grouped_end(p, offsets, e, row);
            add_up(dw + (e * p->n + j) * p->k, p->k, dy + row * p->n + j, p->n, x + row * p->k,
                   p->k, next - row);
            row = next;
        }
    }
}

/* ---- combine: y [s, n], places [t, k], weights [t, k] -> [t, n] ---- */

static bool combine_setup(const ig_step *step, ig_cpu_setup *out) {
    if (step->in[1].desc.dtype != IG_I32 || !inputs_are_packed(step)) return false;
    const grouped p = {.rows = step->in[0].desc.shape.dim[0],
                       .n = last_dim(&step->in[0]),
                       .k = last_dim(&step->in[1])};
    out->cost = sat_mul(p.n, p.k);
    return keep_params(out, &p, sizeof p);
}

static void combine(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const grouped *p = l->params;
    for (int64_t t = begin; t < end; t++) {
        const int32_t *from = (const int32_t *)l->at[1] + t * p->k;
        const float *weights = (const float *)l->at[2] + t * p->k;
        float *y = (float *)l->at[3] + t * p->n;
        for (int64_t c = 0; c < p->n; c += VF_LANES) {
            const int64_t m = min_i64(p->n - c, VF_LANES);
            vf sum = vf_set(0);
            for (int64_t j = 0; j < p->k; j++) {
                if (from[j] < 0 || from[j] >= p->rows) continue;
                const float *row = (const float *)l->at[0] + from[j] * p->n + c;
                sum = vf_fma(vf_set(weights[j]), vf_load_first(row, m), sum);
            }
            vf_store_first(y + c, sum, m);
        }
    }
}

const ig_cpu_entry IG_CPU_LIST(moe)[] = {
    {IG_OP_ROUTE, IG_F32, BY_ROW, route_setup, route},
    {IG_OP_GROUP_ROWS, IG_I32, BY_UNIT, group_setup, group_rows},
    {IG_OP_MATMUL_GROUPED, IG_F32, BY_UNIT, grouped_nk_setup, grouped_f32_nk},
    {IG_OP_MATMUL_GROUPED, IG_F32, BY_UNIT, grouped_kn_setup, grouped_f32_kn},
    {IG_OP_MATMUL_GROUPED_GRAD, IG_F32, BY_UNIT, grouped_grad_setup, grouped_f32_grad},
    {IG_OP_COMBINE, IG_F32, BY_ROW, combine_setup, combine},
    {0},
};
