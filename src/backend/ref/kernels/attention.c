/*
 * softmax(scale q k^T) v for q [b, t, h, d], k [b, s, g, d], v [b, s, g, e], and its gradients.
 * Head j of q reads KV head j / (h / g). A causal query i attends to keys up to i + s - t; one
 * without visible keys gives zeros, and a log-sum-exp of -infinity. Nothing is cached: scores are
 * recomputed wherever they are needed. q, k and v may be F16 or BF16.
 */
#include <math.h>

#include "backend/ref/real.h"
#include "backend/ref/ref_convert.h"

typedef struct sizes {
    int64_t b, t, s, h, g, d, e;
    double scale;
    bool causal;
} sizes;

static sizes sizes_of(const ig_ref_launch *l) {
    const int64_t *q = l->in[0].shape.dim, *v = l->in[2].shape.dim;
    const ig_attrs_attention a = l->attrs.attention;
    const double scale = a.scale == 0 ? 1 / sqrt((double)q[3]) : (double)a.scale;
    return (sizes){q[0], q[1], v[1], q[2], v[2], q[3], v[3], scale, a.causal};
}

/* A query row (one token, one head) and the KV head that it reads. */
typedef struct query {
    int64_t batch, row, head, group;
    int64_t number; /* index in [b, t, h] */
    int64_t keys;   /* visible keys */
} query;

static query query_of(const sizes *z, int64_t number) {
    query r = {.number = number, .head = number % z->h, .row = number / z->h % z->t};
    r.batch = number / z->h / z->t;
    r.group = r.head / (z->h / z->g);
    r.keys = z->s;
    if (z->causal && r.row + 1 + z->s - z->t < z->s) r.keys = r.row + 1 + z->s - z->t;
    if (r.keys < 0) r.keys = 0;
    return r;
}

/* The offset of element 0 of key or value `key`, in a tensor [b, s, g, width]. */
static int64_t key_at(const sizes *z, const query *r, int64_t key, int64_t width) {
    return ((r->batch * z->s + key) * z->g + r->group) * width;
}

static double score(const ig_ref_launch *l, const sizes *z, const query *r, int64_t key) {
    const int64_t at = key_at(z, r, key, z->d);
    double sum = 0;
    for (int64_t c = 0; c < z->d; c++)
        sum += ig_ref_get_any(&l->in[0], r->number * z->d + c) * ig_ref_get_any(&l->in[1], at + c);
    return sum * z->scale;
}

static double log_sum_exp(const ig_ref_launch *l, const sizes *z, const query *r) {
    double largest = -(double)INFINITY, sum = 0;
    if (r->keys == 0) return largest;
    for (int64_t key = 0; key < r->keys; key++) largest = fmax(largest, score(l, z, r, key));
    for (int64_t key = 0; key < r->keys; key++) sum += exp(score(l, z, r, key) - largest);
    return largest + log(sum);
}

static void attention(const ig_ref_launch *l) {
    const sizes z = sizes_of(l);
    for (int64_t number = 0; number < z.b * z.t * z.h; number++) {
        const query r = query_of(&z, number);
        const double lse = log_sum_exp(l, &z, &r);
        for (int64_t c = 0; c < z.e; c++) {
            double sum = 0;
            for (int64_t key = 0; key < r.keys; key++)
                sum += exp(score(l, &z, &r, key) - lse) *
                       ig_ref_get_any(&l->in[2], key_at(&z, &r, key, z.e) + c);
            put(&l->out[0], number * z.e + c, sum);
        }
        if (l->n_out > 1) put(&l->out[1], number, lse);
    }
}

/* Inputs of the gradient: q, k, v, out, log-sum-exp, dout. */
enum { Q, K, V, OUT, LSE, DOUT };

/* p = exp(score - lse), as in the forward pass. */
static double share(const ig_ref_launch *l, const sizes *z, const query *r, int64_t key) {
    return exp(score(l, z, r, key) - get(&l->in[LSE], r->number));
}

/* dscore = p (dout . v - dout . out) */
static double dscore(const ig_ref_launch *l, const sizes *z, const query *r, int64_t key) {
    const int64_t at = key_at(z, r, key, z->e);
    double dot = 0;
    for (int64_t c = 0; c < z->e; c++) {
        const int64_t o = r->number * z->e + c;
        dot += get(&l->in[DOUT], o) * (ig_ref_get_any(&l->in[V], at + c) - get(&l->in[OUT], o));
    }
    return share(l, z, r, key) * dot;
}

/* dq = scale dscore k, summed over the keys */
static void query_grad(const ig_ref_launch *l, const sizes *z) {
    for (int64_t i = 0; i < z->b * z->t * z->h * z->d; i++) {
        const query r = query_of(z, i / z->d);
        double sum = 0;
        for (int64_t key = 0; key < r.keys; key++)
            sum += dscore(l, z, &r, key) *
                   ig_ref_get_any(&l->in[K], key_at(z, &r, key, z->d) + i % z->d);
        put(&l->out[0], i, sum * z->scale);
    }
}

/*
 * The gradient of k or v at row (batch, key, group), column c: a sum over all queries that see the
 * key.
 *     dk = scale dscore q            dv = p dout
 */
static double key_grad(const ig_ref_launch *l, const sizes *z, int64_t row, int64_t c, bool of_v) {
    const int64_t group = row % z->g, key = row / z->g % z->s, batch = row / z->g / z->s;
    double sum = 0;
    for (int64_t i = 0; i < z->t * z->h; i++) {
        const query r = query_of(z, batch * z->t * z->h + i);
        if (r.group != group || key >= r.keys) continue;
        if (of_v)
            sum += share(l, z, &r, key) * get(&l->in[DOUT], r.number * z->e + c);
        else
            sum +=
                dscore(l, z, &r, key) * ig_ref_get_any(&l->in[Q], r.number * z->d + c) * z->scale;
    }
    return sum;
}

static void attention_grad(const ig_ref_launch *l) {
    const sizes z = sizes_of(l);
    query_grad(l, &z);
    for (int64_t row = 0; row < z.b * z.s * z.g; row++) {
        for (int64_t c = 0; c < z.d; c++)
            put(&l->out[1], row * z.d + c, key_grad(l, &z, row, c, false));
        for (int64_t c = 0; c < z.e; c++)
            put(&l->out[2], row * z.e + c, key_grad(l, &z, row, c, true));
    }
}

const ig_ref_entry IG_REF_LIST(attention)[] = {
    {IG_OP_ATTENTION, IG_REF_DTYPE, "hhh", "rr", attention},
    {IG_OP_ATTENTION_GRAD, IG_REF_DTYPE, "hhhrrr", "rrr", attention_grad},
    {0},
};
