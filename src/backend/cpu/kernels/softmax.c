/*
 * Along the last dimension: softmax, log_softmax, cross_entropy and its gradient.  Exponentials are
 * taken relative to the row maximum, so none overflows.  Rows are packed, with any stride between
 * them.
 */
#include "backend/cpu/simd/vec_math.h"
#include "backend/cpu/sum_row.h"

enum { EXP_COST = 16 };

typedef struct params {
    strided_index x;                /* rows of the input */
    strided_index targets, dlosses; /* of the losses: one for each row */
    int64_t n;
} params;

/* softmax and log_softmax: x -> y */
static bool rows_setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *x = &step->in[0];
    if (!operands_are(step, 0, IG_F32) || !rows_are_packed(x)) return false;
    const params p = {.x = strided_index_make(x, 1), .n = last_dim(x)};
    out->cost = sat_mul(p.n, EXP_COST);
    return keep_params(out, &p, sizeof p);
}

/* logits [..., n], targets [...], dlosses [...] for the gradient */
static bool loss_setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *x = &step->in[0], *targets = &step->in[1];
    if (!operands_are(step, 2, IG_F32) || !rows_are_packed(x)) return false;
    if (targets->desc.dtype != IG_I32) return false;
    params p = {
        .x = strided_index_make(x, 1), .targets = strided_index_make(targets, 0), .n = last_dim(x)};
    if (step->n_in > 2) p.dlosses = strided_index_make(&step->in[2], 0);
    out->cost = sat_mul(p.n, EXP_COST);
    return keep_params(out, &p, sizeof p);
}

/* A row: y = exp(x - max); y NULL: only the sum is needed. */
typedef struct row {
    const float *x;
    float *y;
    float largest;
} row;

IG_INLINE vf exp_term(int64_t i, int64_t n, const void *of) {
    const row *r = of;
    return vf_exp(vf_sub(vf_load_first(r->x + i, n), vf_set(r->largest)));
}

IG_INLINE vf stored_exp_term(int64_t i, int64_t n, const void *of) {
    const vf e = exp_term(i, n, of);
    vf_store_first(((const row *)of)->y + i, e, n);
    return e;
}

static void scale_row(float *y, int64_t n, float by) {
    const vf factor = vf_set(by);
    for (int64_t i = 0; i < n; i += VF_LANES) {
        const int64_t m = min_i64(n - i, VF_LANES);
        vf_store_first(y + i, vf_mul(vf_load_first(y + i, m), factor), m);
    }
}

/* largest_of() for a row of at most two vectors: loaded and compared once. */
IG_INLINE float largest_of_two(const float *x, int64_t n) {
    const int64_t m = min_i64(n, VF_LANES);
    const vf least = vf_set(-INFINITY), first = vf_part(vf_load_first(x, m), least, m);
    if (n <= VF_LANES) return vf_largest(first);
    const vf second = vf_load_first(x + VF_LANES, n - VF_LANES);
    return vf_largest(vf_larger(first, vf_part(second, least, n - VF_LANES)));
}

/* sum_terms() for such a row. */
IG_INLINE double sum_two(int64_t n, term_fn *term, const void *of) {
    const int64_t m = min_i64(n, VF_LANES);
    const vf first = vf_part(term(0, m, of), vf_set(0), m);
    if (n <= VF_LANES) return (double)vf_sum(first);
    const vf second = term(VF_LANES, n - VF_LANES, of);
    return (double)vf_sum(vf_add(first, vf_part(second, vf_set(0), n - VF_LANES)));
}

IG_INLINE bool is_short(int64_t n) { return n > 0 && n <= 2 * VF_LANES; }

static row row_of(const ig_cpu_launch *l, int64_t i, float *y) {
    const params *p = l->params;
    const float *x = (const float *)l->at[0] + strided_offset(&p->x, i);
    return (row){x, y, is_short(p->n) ? largest_of_two(x, p->n) : largest_of(x, p->n)};
}

static void softmax(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const int64_t n = ((const params *)l->params)->n;
    for (int64_t i = begin; i < end && n > 0; i++) {
        const row r = row_of(l, i, (float *)l->at[1] + i * n);
        scale_row(r.y, n, (float)(1 / sum_terms(n, stored_exp_term, &r)));
    }
}

static void log_softmax(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const int64_t n = ((const params *)l->params)->n;
    for (int64_t i = begin; i < end && n > 0; i++) {
        const row r = row_of(l, i, (float *)l->at[1] + i * n);
        const vf largest = vf_set(r.largest);
        const vf log = vf_set(float_log((float)sum_terms(n, exp_term, &r)));
        for (int64_t j = 0; j < n; j += VF_LANES) {
            const int64_t m = min_i64(n - j, VF_LANES);
            const vf x = vf_load_first(r.x + j, m);
            vf_store_first(r.y + j, vf_sub(vf_sub(x, largest), log), m);
        }
    }
}

/* The target of row i; -1: out of range. */
static int64_t target_of(const ig_cpu_launch *l, int64_t i) {
    const params *p = l->params;
    const int64_t target = ((const int32_t *)l->at[1])[strided_offset(&p->targets, i)];
    return target < p->n ? target : -1;
}

/* Rows that are interleaved: their dependency chains are independent. */
enum { TOGETHER = 16 };
static_assert(TOGETHER % VF_LANES == 0, "logarithms are taken in whole vectors");

/* Exponentials of rows [first, first + n) and their sums; stored where the row has a y. */
static void sum_exps(const ig_cpu_launch *l, int64_t first, int64_t n, float *y, row *rows,
                     double *sums) {
    const int64_t columns = ((const params *)l->params)->n;
    for (int64_t i = 0; i < n; i++)
        rows[i] = row_of(l, first + i, y ? y + (first + i) * columns : NULL);
    for (int64_t i = 0; i < n && is_short(columns); i++)
        sums[i] =
            y ? sum_two(columns, stored_exp_term, &rows[i]) : sum_two(columns, exp_term, &rows[i]);
    for (int64_t i = 0; i < n && !is_short(columns); i++)
        sums[i] = y ? sum_terms(columns, stored_exp_term, &rows[i])
                    : sum_terms(columns, exp_term, &rows[i]);
}

static void cross_entropy(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    float *loss = (float *)l->at[2];
    row rows[TOGETHER];
    double sums[TOGETHER];
    float log[TOGETHER] = {0};
    for (int64_t first = begin; first < end; first += TOGETHER) {
        const int64_t n = min_i64(end - first, TOGETHER);
        sum_exps(l, first, n, NULL, rows, sums);
        for (int64_t i = 0; i < n; i++) log[i] = (float)sums[i];
        for (int i = 0; i < TOGETHER; i += VF_LANES) vf_store(log + i, vf_log(vf_load(log + i)));
        for (int64_t i = 0; i < n; i++) {
            const int64_t target = target_of(l, first + i);
            loss[first + i] = target < 0 ? NAN : log[i] - (rows[i].x[target] - rows[i].largest);
        }
    }
}

/* dlogits = (softmax(logits) - [j == target]) dloss */
static void finish_grad(const params *p, const row *r, double sum, int64_t target, float dloss) {
    const double share = 1 / sum;
    if (target < 0) {
        scale_row(r->y, p->n, NAN);
        return;
    }
    const float at_target = (float)((double)r->y[target] * share - 1) * dloss;
    const vf by = vf_set((float)share), slope = vf_set(dloss);
    for (int64_t j = 0; j < p->n; j += VF_LANES) {
        const int64_t m = min_i64(p->n - j, VF_LANES);
        const vf softmax = vf_mul(vf_load_first(r->y + j, m), by);
        vf_store_first(r->y + j, vf_mul(softmax, slope), m);
    }
    r->y[target] = at_target;
}

static void cross_entropy_grad(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    row rows[TOGETHER];
    double sums[TOGETHER];
    for (int64_t first = begin; first < end && p->n > 0; first += TOGETHER) {
        const int64_t n = min_i64(end - first, TOGETHER);
        sum_exps(l, first, n, (float *)l->at[3], rows, sums);
        for (int64_t i = 0; i < n; i++) {
            const float *dlosses = (const float *)l->at[2];
            finish_grad(p, &rows[i], sums[i], target_of(l, first + i),
                        dlosses[strided_offset(&p->dlosses, first + i)]);
        }
    }
}

const ig_cpu_entry IG_CPU_LIST(softmax)[] = {
    {IG_OP_SOFTMAX, IG_F32, BY_ROW, rows_setup, softmax},
    {IG_OP_LOG_SOFTMAX, IG_F32, BY_ROW, rows_setup, log_softmax},
    {IG_OP_CROSS_ENTROPY, IG_F32, BY_ELEMENT, loss_setup, cross_entropy},
    {IG_OP_CROSS_ENTROPY_GRAD, IG_F32, BY_ROW, loss_setup, cross_entropy_grad},
    {0},
};
