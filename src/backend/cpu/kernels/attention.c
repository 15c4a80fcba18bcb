/*
 * softmax(scale q k^T) v for q [b, t, h, d], k [b, s, g, d], v [b, s, g, e], and
 * its gradients.  Head j of q reads head j / (h / g) of k and v.  A causal row i
 * sees the keys up to i + s - t; one that sees none gives zeros, and its
 * log-sum-exp is -infinity.
 *
 * A row walks its keys in blocks of KEYS, always from key 0 on, and carries the
 * largest score so far, the sum of exponentials and the weighted values along
 * ("online softmax", Milakov and Gimelshein).  What it computes depends on its own
 * keys alone, not on how many rows there are beside it.
 *
 * The gradients work out the shares p = exp(score - lse) again.  A unit computes
 * either dq for a block of rows or dk and dv for a block of keys, so that no two
 * units add to the same place:
 *     dscore = p (dout . v - dout . out)
 *     dq = scale sum dscore k      dk = scale sum dscore q      dv = sum p dout
 */
#include "backend/cpu/sums.h"
#include "backend/cpu/vec_math.h"

enum { KEYS = 64, ROWS = 64 }; /* in a block */
static_assert(KEYS % VF_LANES == 0, "a block is whole vectors");

/* Strides of [batch, row, head, width]; widths are packed. */
typedef struct layout {
    int64_t batch, row, head;
} layout;

enum { Q, K, V, OUT, LSE, DOUT, INPUTS }; /* forward has the first three */

typedef struct params {
    int64_t b, t, s, h, g, d, e;
    layout at[INPUTS];
    float scale;
    bool causal, has_lse;
} params;

static layout layout_of(const ig_operand *o) {
    return (layout){o->stride[0], o->stride[1], o->stride[2]};
}

static bool setup(const ig_step *step, ig_cpu_setup *out, params *p) {
    ig_attrs_attention a;
    ig_step_attrs(step, &a, sizeof a);
    if (!operands_are(step, 0, IG_F32)) return false;
    for (uint32_t i = 0; i < step->n_in; i++) {
        if (step->in[i].desc.shape.rank != (i == LSE ? 3 : 4)) return false;
        if (i != LSE && !rows_are_packed(&step->in[i])) return false;
        p->at[i] = layout_of(&step->in[i]);
    }
    const int64_t *q = step->in[Q].desc.shape.dim, *v = step->in[V].desc.shape.dim;
    p->b = q[0], p->t = q[1], p->h = q[2], p->d = q[3];
    p->s = v[1], p->g = v[2], p->e = v[3];
    p->scale = a.scale == 0 ? (float)(1 / sqrt((double)p->d)) : a.scale;
    p->causal = a.causal;
    out->cost = product(p->s, p->d + p->e);
    return true;
}

static bool forward_setup(const ig_step *step, ig_cpu_setup *out) {
    params p = {.has_lse = step->n_out > 1};
    return setup(step, out, &p) && keep_params(out, &p, sizeof p);
}

/* dk and dv of b g blocks of keys, then dq of b h blocks of rows. */
static int64_t key_blocks(const params *p) { return (p->s + KEYS - 1) / KEYS; }
static int64_t row_blocks(const params *p) { return (p->t + ROWS - 1) / ROWS; }

static bool grad_setup(const ig_step *step, ig_cpu_setup *out) {
    params p = {.has_lse = true};
    if (!setup(step, out, &p)) return false;
    out->units = p.b * p.g * key_blocks(&p) + p.b * p.h * row_blocks(&p);
    out->cost = product(out->cost, 3 * (int64_t)ROWS);
    return keep_params(out, &p, sizeof p);
}

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

/* ---- forward ---- */

/* A row of q, and the head of k and v that it reads. */
typedef struct query {
    int64_t batch, row, head, group;
    int64_t keys; /* so many of s it sees */
} query;

static query query_of(const params *p, int64_t batch, int64_t row, int64_t head) {
    query r = {batch, row, head, head / (p->h / p->g), p->s};
    if (p->causal) r.keys = smaller(p->s, row + 1 + p->s - p->t);
    if (r.keys < 0) r.keys = 0;
    return r;
}

/* Where the row of an operand lies that belongs to the query, */
static const float *row_at(const ig_cpu_launch *l, int k, const query *r) {
    const layout *at = &((const params *)l->params)->at[k];
    return (const float *)l->at[k] + r->batch * at->batch + r->row * at->row + r->head * at->head;
}

/* and where `key` of its k or v lies. */
static const float *key_at(const ig_cpu_launch *l, int k, const query *r, int64_t key) {
    const layout *at = &((const params *)l->params)->at[k];
    return (const float *)l->at[k] + r->batch * at->batch + key * at->row + r->group * at->head;
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

static void attend(const ig_cpu_launch *l, const query *r, float *out, float *lse) {
    const params *p = l->params;
    const float *q = row_at(l, Q, r);
    float score[KEYS];
    state s = {-INFINITY, 0};
    for (int64_t i = 0; i < p->e; i++) out[i] = 0;
    for (int64_t key = 0; key < r->keys; key += KEYS) {
        const int64_t n = smaller(r->keys - key, KEYS);
        dots(q, key_at(l, K, r, key), p->at[K].row, n, p->d, score);
        const float keep = take_in(&s, score, n, p->scale);
        add_rows(out, keep, score, key_at(l, V, r, key), p->at[V].row, n, p->e);
    }
    if (r->keys > 0) scale_by(out, 1 / s.sum, p->e);
    if (lse) *lse = r->keys > 0 ? s.largest + float_log(s.sum) : -INFINITY;
}

static void attention(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    for (int64_t i = begin; i < end; i++) {
        const query r = query_of(p, i / p->h / p->t, i / p->h % p->t, i % p->h);
        attend(l, &r, (float *)l->at[3] + i * p->e, p->has_lse ? (float *)l->at[4] + i : NULL);
    }
}

/* ---- gradients ---- */

/* The row's shares of keys [key, key + n), and dscore times scale. */
static void shares(const ig_cpu_launch *l, const query *r, int64_t key, int64_t n, float *share,
                   float *dscore) {
    const params *p = l->params;
    const vf lse = vf_set(*row_at(l, LSE, r)), scale = vf_set(p->scale);
    const float *dout = row_at(l, DOUT, r);
    float own; /* dout . out */
    dots(dout, row_at(l, OUT, r), 0, 1, p->e, &own);
    dots(row_at(l, Q, r), key_at(l, K, r, key), p->at[K].row, n, p->d, share);
    dots(dout, key_at(l, V, r, key), p->at[V].row, n, p->e, dscore);
    for (int64_t j = 0; j < n; j += VF_LANES) {
        const int64_t m = smaller(n - j, VF_LANES);
        const vf score = vf_mul(vf_load_first(share + j, m), scale);
        const vf x = vf_exp(vf_sub(score, lse));
        const vf slope = vf_sub(vf_load_first(dscore + j, m), vf_set(own));
        vf_store_first(share + j, x, m);
        vf_store_first(dscore + j, vf_mul(scale, vf_mul(x, slope)), m);
    }
}

static void grad_of_rows(const ig_cpu_launch *l, int64_t unit) {
    const params *p = l->params;
    const int64_t head = unit % p->h, batch = unit / p->h / row_blocks(p);
    const int64_t first = unit / p->h % row_blocks(p) * ROWS, end = smaller(first + ROWS, p->t);
    float share[KEYS], dscore[KEYS];
    for (int64_t row = first; row < end; row++) {
        const query r = query_of(p, batch, row, head);
        float *dq = (float *)l->at[INPUTS] + ((batch * p->t + row) * p->h + head) * p->d;
        for (int64_t i = 0; i < p->d; i++) dq[i] = 0;
        for (int64_t key = 0; key < r.keys; key += KEYS) {
            const int64_t n = smaller(r.keys - key, KEYS);
            shares(l, &r, key, n, share, dscore);
            add_rows(dq, 1, dscore, key_at(l, K, &r, key), p->at[K].row, n, p->d);
        }
    }
}

/* Adds what one row of q gives to dk and dv of n keys from `key` on. */
static void add_key_grads(const ig_cpu_launch *l, const query *r, int64_t key, int64_t n, float *dk,
                          float *dv) {
    const params *p = l->params;
    float share[KEYS], dscore[KEYS];
    shares(l, r, key, n, share, dscore);
    for (int64_t j = 0; j < n; j++) {
        add_rows(dk + j * p->g * p->d, 1, dscore + j, row_at(l, Q, r), 0, 1, p->d);
        add_rows(dv + j * p->g * p->e, 1, share + j, row_at(l, DOUT, r), 0, 1, p->e);
    }
}

static void grad_of_keys(const ig_cpu_launch *l, int64_t unit) {
    const params *p = l->params;
    const int64_t group = unit % p->g, batch = unit / p->g / key_blocks(p);
    const int64_t first = unit / p->g % key_blocks(p) * KEYS, end = smaller(first + KEYS, p->s);
    const int64_t at = (batch * p->s + first) * p->g + group, heads = p->h / p->g;
    float *dk = (float *)l->at[INPUTS + 1] + at * p->d,
          *dv = (float *)l->at[INPUTS + 2] + at * p->e;
    for (int64_t j = 0; j < end - first; j++) {
        for (int64_t i = 0; i < p->d; i++) dk[j * p->g * p->d + i] = 0;
        for (int64_t i = 0; i < p->e; i++) dv[j * p->g * p->e + i] = 0;
    }
    for (int64_t head = group * heads; head < (group + 1) * heads; head++)
        for (int64_t row = 0; row < p->t; row++) {
            const query r = query_of(p, batch, row, head);
            const int64_t n = smaller(end, r.keys) - first;
            if (n > 0) add_key_grads(l, &r, first, n, dk, dv);
        }
}

static void attention_grad(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const int64_t of_keys = p->b * p->g * key_blocks(p);
    for (int64_t unit = begin; unit < end; unit++) {
        if (unit < of_keys)
            grad_of_keys(l, unit);
        else
            grad_of_rows(l, unit - of_keys);
    }
}

const ig_cpu_entry IG_CPU_LIST(attention)[] = {
    {IG_OP_ATTENTION, IG_F32, BY_ROW, forward_setup, attention},
    {IG_OP_ATTENTION_GRAD, IG_F32, BY_UNIT, grad_setup, attention_grad},
    {0},
};
