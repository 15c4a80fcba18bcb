/*
 * A cache of keys and values in pages of 64 positions: rows are stored into it,
 * and attention reads it.
 *
 * A row walks the pages of its sequence, always from position 0 on, and carries
 * the largest score so far, the sum of exponentials and the weighted values along
 * ("online softmax", Milakov and Gimelshein).  What it computes depends on its own
 * keys alone, not on how many rows there are beside it.
 */
#include "backend/cpu/sums.h"
#include "backend/cpu/vec_math.h"

enum { KEYS = IG_PAGE_ROWS };
static_assert(KEYS % VF_LANES == 0, "a page is whole vectors");

/* ---- rows of numbers ---- */

/* y[j] = x . rows[j], each added up in lanes along the width. */
IG_INLINE void dot_some(const float *x, const float *rows, int64_t stride, int64_t width, float *y,
                        const int count) {
    vf sum[4];
    for (int j = 0; j < count; j++) sum[j] = vf_set(0);
    int64_t i = 0;
    for (; i + VF_LANES <= width; i += VF_LANES)
        for (int j = 0; j < count; j++)
            sum[j] = vf_fma(vf_load(x + i), vf_load(rows + j * stride + i), sum[j]);
    for (int j = 0; j < count && i < width; j++)
        sum[j] = vf_fma(vf_load_part(x + i, width - i),
                        vf_load_part(rows + j * stride + i, width - i), sum[j]);
    for (int j = 0; j < count; j++) y[j] = vf_sum(sum[j]);
}

static void dots(const float *x, const float *rows, int64_t stride, int64_t n, int64_t width,
                 float *y) {
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) dot_some(x, rows + j * stride, stride, width, y + j, 4);
    for (; j < n; j++) dot_some(x, rows + j * stride, stride, width, y + j, 1);
}

/* y = keep y + sum of weight[j] rows[j], one after the other */
static void add_rows(float *y, float keep, const float *weight, const float *rows, int64_t stride,
                     int64_t n, int64_t width) {
    for (int64_t i = 0; i < width; i += VF_LANES) {
        const int64_t m = smaller(width - i, VF_LANES);
        vf sum = vf_mul(vf_load_first(y + i, m), vf_set(keep));
        for (int64_t j = 0; j < n; j++)
            sum = vf_fma(vf_set(weight[j]), vf_load_first(rows + j * stride + i, m), sum);
        vf_store_first(y + i, sum, m);
    }
}

/* y = by y */
static void scale_by(float *y, float by, int64_t width) {
    for (int64_t i = 0; i < width; i++) y[i] *= by;
}

typedef struct state {
    float largest, sum;
} state;

IG_INLINE vf plain_term(int64_t i, int64_t n, const void *of) {
    return vf_load_first((const float *)of + i, n);
}

/* Takes in n keys: score[j] becomes exp(score[j] - largest); returns what the sums so far are worth
 * now. */
static float take_in(state *s, float *score, int64_t n, float scale) {
    for (int64_t j = 0; j < n; j++) score[j] *= scale;
    const float largest = largest_of(score, n), before = s->largest;
    if (!(largest <= before)) s->largest = largest;
    for (int64_t j = 0; j < n; j += VF_LANES) {
        const int64_t m = smaller(n - j, VF_LANES);
        const vf x = vf_sub(vf_load_first(score + j, m), vf_set(s->largest));
        vf_store_first(score + j, vf_exp(x), m);
    }
    const float keep = float_exp(before - s->largest);
    s->sum = s->sum * keep + sum_block(0, n, plain_term, score);
    return keep;
}

/* ---- attention ---- */

enum { Q, K, V, TABLE, SEQUENCE, POSITION, OUT };

typedef struct paged_params {
    int64_t h, g, d, e, pages, sequences, table_width;
    float scale;
} paged_params;

static bool paged_setup(const ig_step *step, ig_cpu_setup *out) {
    ig_attrs_attention a;
    ig_step_attrs(step, &a, sizeof a);
    for (uint32_t i = 0; i < step->n_in; i++) {
        const ig_dtype dtype = i < TABLE ? IG_F32 : IG_I32;
        if (step->in[i].desc.dtype != dtype || !ig_operand_is_packed(&step->in[i])) return false;
    }
    const int64_t *q = step->in[Q].desc.shape.dim, *v = step->in[V].desc.shape.dim;
    const int64_t *table = step->in[TABLE].desc.shape.dim;
    paged_params p = {q[1], v[2], q[2], v[3], v[0], table[0], table[1], a.scale};
    if (p.scale == 0) p.scale = (float)(1 / sqrt((double)p.d));
    out->cost = product(product(p.table_width, IG_PAGE_ROWS), p.d + p.e);
    return keep_params(out, &p, sizeof p);
}

/* One head of one row: page by page, always from position 0 on. */
static void attend_paged(const ig_cpu_launch *l, int64_t unit) {
    const paged_params *p = l->params;
    const int64_t row = unit / p->h, group = unit % p->h / (p->h / p->g);
    const int64_t sequence = ((const int32_t *)l->at[SEQUENCE])[row];
    const int64_t keys = (int64_t)((const int32_t *)l->at[POSITION])[row] + 1;
    const float *q = (const float *)l->at[Q] + unit * p->d;
    float *out = (float *)l->at[OUT] + unit * p->e, score[KEYS];
    state s = {-INFINITY, 0};
    bool any = false;
    for (int64_t i = 0; i < p->e; i++) out[i] = 0;
    if (sequence < 0 || sequence >= p->sequences) return;
    for (int64_t page = 0; page < p->table_width && page * KEYS < keys; page++) {
        const int64_t in = ((const int32_t *)l->at[TABLE])[sequence * p->table_width + page];
        const int64_t n = smaller(keys - page * KEYS, KEYS), first = (in * KEYS * p->g + group);
        if (in < 0 || in >= p->pages) break;
        dots(q, (const float *)l->at[K] + first * p->d, p->g * p->d, n, p->d, score);
        const float keep = take_in(&s, score, n, p->scale);
        add_rows(out, keep, score, (const float *)l->at[V] + first * p->e, p->g * p->e, n, p->e);
        any = true;
    }
    if (any) scale_by(out, 1 / s.sum, p->e);
}

static void attention_paged(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; unit++) attend_paged(l, unit);
}

/* ---- storing ---- */

/* dst, rows, index: row index[i] becomes rows[i].  One unit: two rows may have one place, and the
 * later one stays. */
typedef struct store_params {
    int64_t n, r, width;
} store_params;

static bool store_setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *rows = &step->in[1];
    if (step->in[0].desc.dtype != IG_F32 || rows->desc.dtype != IG_F32 ||
        step->in[2].desc.dtype != IG_I32)
        return false;
    if (!ig_operand_is_packed(&step->in[0]) || !ig_operand_is_packed(rows) ||
        !ig_operand_is_packed(&step->in[2]))
        return false;
    store_params p = {step->out[0].desc.shape.dim[0], rows->desc.shape.dim[0], 0};
    if (p.r > 0) p.width = ig_shape_count(rows->desc.shape) / p.r;
    out->units = 1;
    out->cost = product(p.r, p.width);
    return keep_params(out, &p, sizeof p);
}

static void store_rows(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const store_params *p = l->params;
    const int32_t *index = (const int32_t *)l->at[2];
    for (int64_t i = 0; begin < end && i < p->r; i++)
        if (index[i] >= 0 && index[i] < p->n)
            memcpy((float *)l->at[3] + index[i] * p->width, (const float *)l->at[1] + i * p->width,
                   (size_t)p->width * sizeof(float));
}

const ig_cpu_entry IG_CPU_LIST(paged)[] = {
    {IG_OP_ATTENTION_PAGED, IG_F32, BY_ROW, paged_setup, attention_paged},
    {IG_OP_STORE_ROWS, IG_F32, BY_UNIT, store_setup, store_rows},
    {0},
};
