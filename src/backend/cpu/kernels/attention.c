/*
 * softmax(scale q k^T) v for q [b, t, h, d], k [b, s, g, d], v [b, s, g, e], and
 * its gradients.  Head j of q reads head j / (h / g) of k and v.  A causal row i
 * sees the keys up to i + s - t; one that sees none gives zeros, and its
 * log-sum-exp is -infinity.
 *
 *             key 0      64     128      Blocks of ROWS rows meet blocks of KEYS keys, and
 *     row 0   +-------+                  all work is small GEMMs (gemm_f32.h) on
 *             | score |                  the block's scores.  A strip of rows leaves out
 *       64    +-------+-------+          the keys that its last row does not see; the
 *             | score | score |          others that a row does not see weigh 0.
 *      128    +-------+-------+
 *
 * Rows walk their keys from key 0 on, and carry the largest score so far, the sum
 * of exponentials and the weighted values along ("online softmax", Milakov and
 * Gimelshein).  What a row computes depends on its own keys alone, not on how many
 * rows there are beside it.
 *
 * The gradients work out the shares p = exp(score - lse) again:
 *     dscore = p (dout . v - dout . out)
 *     dq = scale sum dscore k      dk = scale sum dscore q      dv = sum p dout
 * Where there are many heads, a unit is one of k and v with all rows that read it.
 * Else a unit computes either dq of a block of rows or dk and dv of a block of
 * keys, so that no two units add to the same place.
 *
 * q, k and v may be stored in 16 bits: they become floats a block at a time.
 */
#include "backend/cpu/gemm/gemm_f32.h"
#include "backend/cpu/simd/vec_math.h"
#include "backend/cpu/sum_row.h"

enum { KEYS = 64, ROWS = 64 }; /* in a block */
enum { D_BLOCK = 128 };        /* of the width of rows, that is packed or widened at once */
enum { MANY_HEADS = 16 };
static_assert(KEYS % VF_LANES == 0, "a block is whole vectors");

/* Strides of [batch, row, head, width]; widths are packed. */
typedef struct layout {
    int64_t batch, row, head;
} layout;

enum { Q, K, V, OUT, LSE, DOUT, INPUTS }; /* forward has the first three */

typedef struct params {
    int64_t b, t, s, h, g, d, e;
    layout at[INPUTS];
    ig_dtype dtype; /* of q, k and v; all else is F32 */
    float scale;
    bool causal, has_lse;
    bool whole_heads; /* are the units of the gradient */
} params;

static layout layout_of(const ig_operand *o) {
    return (layout){o->stride[0], o->stride[1], o->stride[2]};
}

static bool setup(const ig_step *step, ig_cpu_setup *out, params *p) {
    ig_attrs_attention a;
    ig_step_attrs(step, &a, sizeof a);
    p->dtype = step->in[Q].desc.dtype;
    if (!is_float_dtype(p->dtype) || !operands_are(step, V + 1, IG_F32)) return false;
    for (uint32_t i = 0; i < step->n_in; i++) {
        if (i <= V && step->in[i].desc.dtype != p->dtype) return false;
        if (step->in[i].desc.shape.rank != (i == LSE ? 3 : 4)) return false;
        if (i != LSE && !rows_are_packed(&step->in[i])) return false;
        p->at[i] = layout_of(&step->in[i]);
    }
    const int64_t *q = step->in[Q].desc.shape.dim, *v = step->in[V].desc.shape.dim;
    p->b = q[0], p->t = q[1], p->h = q[2], p->d = q[3];
    p->s = v[1], p->g = v[2], p->e = v[3];
    p->scale = a.scale == 0 ? (float)(1 / sqrt((double)p->d)) : a.scale;
    p->causal = a.causal;
    out->cost = sat_mul(p->s, p->d + p->e);
    return true;
}

static int64_t key_blocks(const params *p) { return (p->s + KEYS - 1) / KEYS; }
static int64_t row_blocks(const params *p) { return (p->t + ROWS - 1) / ROWS; }

static bool forward_setup(const ig_step *step, ig_cpu_setup *out) {
    params p = {.has_lse = step->n_out > 1};
    if (!setup(step, out, &p)) return false;
    out->units = p.b * p.h * row_blocks(&p);
    out->cost = sat_mul(out->cost, ROWS);
    return keep_params(out, &p, sizeof p);
}

static bool grad_setup(const ig_step *step, ig_cpu_setup *out) {
    params p = {.has_lse = true};
    if (!setup(step, out, &p)) return false;
    p.whole_heads = p.b * p.g >= MANY_HEADS;
    out->units = p.b * p.g;
    if (!p.whole_heads) out->units = out->units * key_blocks(&p) + p.b * p.h * row_blocks(&p);
    out->cost = sat_mul(out->cost, 3 * (int64_t)ROWS);
    return keep_params(out, &p, sizeof p);
}

/* ---- blocks ---- */

/* Rows of one head that meet keys. */
typedef struct block {
    int64_t batch, head, group;
    int64_t row, rows; /* the first, and how many; at most ROWS */
    int64_t key, keys; /* at most KEYS; those that the last row sees */
} block;

/* How many of the block's keys its row i sees. */
static int64_t seen(const params *p, const block *b, int64_t i) {
    if (!p->causal) return b->keys;
    const int64_t n = b->row + i + 1 + p->s - p->t - b->key;
    return n < 0 ? 0 : min_i64(n, b->keys);
}

static block block_of(const params *p, int64_t batch, int64_t head, int64_t row_block) {
    block b = {.batch = batch, .head = head, .group = head / (p->h / p->g)};
    b.row = row_block * ROWS;
    b.rows = min_i64(p->t - b.row, ROWS);
    return b;
}

/* The block goes on to keys from `key` on; false: its rows see none of them. */
static bool take_keys(const params *p, block *b, int64_t key) {
    b->key = key;
    b->keys = key < p->s ? min_i64(p->s - key, KEYS) : 0;
    b->keys = seen(p, b, b->rows - 1);
    return b->keys > 0;
}

/* Rows that lie `stride` elements apart. */
typedef struct side {
    const char *at;
    int64_t stride;
    ig_dtype dtype;
} side;

/* From element `first` of operand k on. */
static side rows_from(const ig_cpu_launch *l, int k, int64_t first) {
    const params *p = l->params;
    const ig_dtype dtype = k <= V ? p->dtype : IG_F32;
    return (side){l->at[k] + first * dtype_bytes(dtype), p->at[k].row, dtype};
}

/* The rows of an operand that belong to the block, */
static side rows_at(const ig_cpu_launch *l, int k, const block *b) {
    const layout *at = &((const params *)l->params)->at[k];
    return rows_from(l, k, b->batch * at->batch + b->row * at->row + b->head * at->head);
}

/* and the keys of its k or v. */
static side keys_at(const ig_cpu_launch *l, int k, const block *b) {
    const layout *at = &((const params *)l->params)->at[k];
    return rows_from(l, k, b->batch * at->batch + b->key * at->row + b->group * at->head);
}

/* Columns [first, first + n) of `count` rows from row `row` on, as floats: where they lie, or in
 * `room`, [count][D_BLOCK]. */
typedef struct floats {
    const float *at;
    int64_t stride;
} floats;

static floats floats_of(const side *x, int64_t row, int64_t count, int64_t first, int64_t n,
                        float *room) {
    const int64_t bytes = dtype_bytes(x->dtype);
    const char *at = x->at + (row * x->stride + first) * bytes;
    if (x->dtype == IG_F32) return (floats){(const float *)at, x->stride};
    for (int64_t i = 0; i < count; i++)
        widen_any(at + i * x->stride * bytes, 1, n, room + i * D_BLOCK, x->dtype);
    return (floats){room, D_BLOCK};
}

/* How many columns are taken at once. */
static int64_t d_block_of(const side *x, int64_t width) {
    return x->dtype == IG_F32 ? width : D_BLOCK;
}

/* ---- products ---- */

/* A strip goes through the columns, whole vectors of them. */
static void strip_times(const tile *t, int64_t columns) {
    const int vectors = tile_vectors(t->rows);
    lines none = {0};
    for (int64_t j = 0; j < columns; j += vectors * VF_LANES) {
        tile part = *t;
        part.next = &none;
        part.b += j;
        part.y += j;
        run_tiles(&part, min_i64(columns - j, vectors * VF_LANES), vectors);
    }
}

/* The same where columns may end within a vector: these are packed first. */
static void strip_times_rows(const tile *t, int64_t columns) {
    _Alignas(64) float last[KEYS * VF_LANES];
    const int64_t whole = columns / VF_LANES * VF_LANES;
    strip_times(t, whole);
    if (whole == columns || t->k == 0) return;
    const matrix from = {(const char *)(t->b + whole), t->b_k, 1, IG_F32};
    pack_panels(&from, t->k, columns - whole, VF_LANES, last, 0);
    tile part = *t;
    part.b = last;
    part.b_k = VF_LANES;
    part.y += whole;
    lines none = {0};
    part.next = &none;
    run_tiles(&part, columns - whole, 1);
}

/* The height of strips of n rows: equal, so that none is too low to keep the machine busy. */
static int64_t strip_height(int64_t n) {
    const int64_t strips = (n + VF_TILE_ROWS - 1) / VF_TILE_ROWS;
    return (n + strips - 1) / strips;
}

/* score [rows, KEYS] = x . key, for rows x of the block and the keys that each strip sees */
static void dots(const params *p, const block *b, const side *x, const side *key, int64_t width,
                 float *score) {
    _Alignas(64) float panel[D_BLOCK * KEYS], strip[VF_TILE_ROWS * D_BLOCK];
    const int64_t key_bytes = dtype_bytes(key->dtype);
    const int64_t height = strip_height(b->rows);
    for (int64_t k = 0; k < width || k == 0; k += D_BLOCK) {
        const matrix from = {key->at + k * key_bytes, 1, key->stride, key->dtype};
        tile t = {.a_k = 1, .b = panel, .b_k = KEYS, .y_row = KEYS};
        t.k = min_i64(width - k, D_BLOCK);
        t.first = k == 0;
        pack_columns(&from, t.k, b->keys, KEYS, panel);
        for (int64_t i = 0; i < b->rows; i += height) {
            t.rows = min_i64(b->rows - i, height);
            const floats a = floats_of(x, i, t.rows, k, t.k, strip);
            t.a = a.at;
            t.a_row = a.stride;
            t.y = score + i * KEYS;
            const int64_t keys = seen(p, b, i + t.rows - 1);
            strip_times(&t, (keys + VF_LANES - 1) / VF_LANES * VF_LANES);
        }
    }
}

/* y [rows, width] = y + weight [rows, KEYS] times the rows at `key`; or without y, for the first */
static void add_keys(const params *p, const block *b, const float *weight, const side *key,
                     int64_t width, float *y, int64_t y_row, bool first) {
    _Alignas(64) float room[KEYS * D_BLOCK];
    const int64_t height = strip_height(b->rows), d_block = d_block_of(key, width);
    tile t = {.a_row = KEYS, .a_k = 1, .y_row = y_row, .first = first};
    for (int64_t c = 0; c < width; c += d_block) {
        const int64_t n = min_i64(width - c, d_block);
        const floats from = floats_of(key, 0, b->keys, c, n, room);
        t.b = from.at;
        t.b_k = from.stride;
        for (int64_t i = 0; i < b->rows; i += height) {
            t.rows = min_i64(b->rows - i, height);
            t.k = seen(p, b, i + t.rows - 1);
            t.a = weight + i * KEYS;
            t.y = y + i * y_row + c;
            strip_times_rows(&t, n);
        }
    }
}

/* y [keys, width] = y + weight [rows, KEYS], transposed, times the rows at x */
static void add_rows(const params *p, const block *b, const float *weight, const side *x,
                     int64_t width, float *y, int64_t y_row) {
    _Alignas(64) float room[ROWS * D_BLOCK];
    const int64_t height = strip_height(b->keys), d_block = d_block_of(x, width);
    tile t = {.a_row = 1, .a_k = KEYS, .y_row = y_row};
    for (int64_t c = 0; c < width; c += d_block) {
        const int64_t n = min_i64(width - c, d_block);
        const floats from = floats_of(x, 0, b->rows, c, n, room);
        t.b_k = from.stride;
        for (int64_t i = 0; i < b->keys; i += height) {
            int64_t first = 0; /* row that sees one of the strip's keys */
            while (seen(p, b, first) <= i) first++;
            t.rows = min_i64(b->keys - i, height);
            t.k = b->rows - first;
            t.a = weight + first * KEYS + i;
            t.b = from.at + first * from.stride;
            t.y = y + i * y_row + c;
            strip_times_rows(&t, n);
        }
    }
}

static void clear_rows(float *y, int64_t y_row, int64_t rows, int64_t width) {
    for (int64_t i = 0; i < rows; i++) memset(y + i * y_row, 0, (size_t)width * sizeof *y);
}

static void scale_row(float *y, float by, int64_t width) {
    for (int64_t i = 0; i < width; i++) y[i] *= by;
}

/* ---- forward ---- */

/* Of each row: so far, and what the sums before are worth now. */
typedef struct state {
    _Alignas(64) float largest[ROWS], sum[ROWS], keep[ROWS];
} state;

/* Scales a row's scores and finds how much its largest grows. */
static void take_largest(state *s, int64_t row, float *score, int64_t n, float scale) {
    vf best = vf_set(s->largest[row]);
    for (int64_t j = 0; j < n; j += VF_LANES) {
        const int64_t m = min_i64(n - j, VF_LANES);
        const vf x = vf_mul(vf_load(score + j), vf_set(scale));
        vf_store(score + j, x);
        best = vf_larger(best, vf_part(x, best, m));
    }
    const float before = s->largest[row];
    s->largest[row] = vf_largest(best);
    s->keep[row] = n > 0 ? before - s->largest[row] : 0;
}

/* Scores become exp(score - largest), and 0 where the row does not see the key. */
static void take_exps(state *s, int64_t row, float *score, int64_t n) {
    vf sum = vf_set(0);
    for (int64_t j = 0; j < KEYS; j += VF_LANES) {
        const int64_t m = min_i64(n - j, VF_LANES);
        vf e = vf_set(0);
        if (m > 0) e = vf_part(vf_exp(vf_sub(vf_load(score + j), vf_set(s->largest[row]))), e, m);
        vf_store(score + j, e);
        sum = vf_add(sum, e);
    }
    s->sum[row] = s->sum[row] * s->keep[row] + vf_sum(sum);
}

/* Scores become shares of what the sums will be; out is brought to the same measure. */
static void take_in(const params *p, const block *b, state *s, float *score, float *out) {
    for (int64_t i = 0; i < b->rows; i++)
        take_largest(s, i, score + i * KEYS, seen(p, b, i), p->scale);
    for (int64_t i = 0; i < ROWS; i += VF_LANES)
        vf_store(s->keep + i, vf_exp(vf_load(s->keep + i)));
    for (int64_t i = 0; i < b->rows; i++) {
        take_exps(s, i, score + i * KEYS, seen(p, b, i));
        if (b->key > 0) scale_row(out + i * p->h * p->e, s->keep[i], p->e);
    }
}

/* out /= sum; lse = largest + log(sum) */
static void normalize_rows(const params *p, const block *b, const state *s, float *out,
                           float *lse) {
    for (int64_t i = 0; i < b->rows; i++) {
        const block first = {.row = b->row, .rows = b->rows, .keys = min_i64(p->s, KEYS)};
        const bool any = seen(p, &first, i) > 0;
        if (any)
            scale_row(out + i * p->h * p->e, 1 / s->sum[i], p->e);
        else
            clear_rows(out + i * p->h * p->e, 0, 1, p->e);
        if (lse) lse[i * p->h] = any ? s->largest[i] + float_log(s->sum[i]) : -INFINITY;
    }
}

static void attend(const ig_cpu_launch *l, int64_t unit) {
    const params *p = l->params;
    _Alignas(64) float score[ROWS * KEYS];
    state s = {.sum = {0}};
    block b =
        block_of(p, unit / row_blocks(p) / p->h, unit / row_blocks(p) % p->h, unit % row_blocks(p));
    const int64_t at = (b.batch * p->t + b.row) * p->h + b.head;
    float *out = (float *)l->at[3] + at * p->e;
    for (int i = 0; i < ROWS; i++) s.largest[i] = -INFINITY;
    for (int64_t key = 0; take_keys(p, &b, key); key += KEYS) {
        const side q = rows_at(l, Q, &b), k = keys_at(l, K, &b), v = keys_at(l, V, &b);
        dots(p, &b, &q, &k, p->d, score);
        take_in(p, &b, &s, score, out);
        add_keys(p, &b, score, &v, p->e, out, p->h * p->e, key == 0);
    }
    normalize_rows(p, &b, &s, out, p->has_lse ? (float *)l->at[4] + at : NULL);
}

static void attention(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; unit++) attend(l, unit);
}

/* ---- gradients ---- */

/* Scores become shares, and dout . v becomes dscore times scale. */
static void take_shares(const params *p, float *share, float *dscore, int64_t n, float lse,
                        float own) {
    const vf scale = vf_set(p->scale);
    for (int64_t j = 0; j < KEYS; j += VF_LANES) {
        const int64_t m = min_i64(n - j, VF_LANES);
        vf x = vf_set(0), slope = vf_set(0);
        if (m > 0) {
            x = vf_exp(vf_sub(vf_mul(vf_load(share + j), scale), vf_set(lse)));
            x = vf_part(x, vf_set(0), m);
            slope = vf_part(vf_sub(vf_load(dscore + j), vf_set(own)), slope, m);
        }
        vf_store(share + j, x);
        vf_store(dscore + j, vf_mul(scale, vf_mul(x, slope)));
    }
}

typedef struct pair {
    const float *x, *y;
} pair;

IG_INLINE vf product_term(int64_t i, int64_t n, const void *of) {
    const pair *p = of;
    return vf_mul(vf_load_first(p->x + i, n), vf_load_first(p->y + i, n));
}

/* What the block's rows give: to dq, or to dk and dv, or both. */
enum { OF_ROWS = 1, OF_KEYS = 2 };

static void add_grads(const ig_cpu_launch *l, const block *b, int of) {
    const params *p = l->params;
    _Alignas(64) float share[ROWS * KEYS], dscore[ROWS * KEYS];
    const side q = rows_at(l, Q, b), k = keys_at(l, K, b), v = keys_at(l, V, b);
    const side dout_rows = rows_at(l, DOUT, b);
    const float *dout = (const float *)dout_rows.at, *out = (const float *)rows_at(l, OUT, b).at;
    const float *lse = (const float *)rows_at(l, LSE, b).at;
    const layout *at = p->at;
    dots(p, b, &q, &k, p->d, share);
    dots(p, b, &dout_rows, &v, p->e, dscore);
    for (int64_t i = 0; i < b->rows; i++) {
        const pair own = {dout + i * at[DOUT].row, out + i * at[OUT].row};
        take_shares(p, share + i * KEYS, dscore + i * KEYS, seen(p, b, i), lse[i * at[LSE].row],
                    (float)sum_terms(p->e, product_term, &own));
    }
    if (of & OF_ROWS) {
        float *dq = (float *)l->at[INPUTS];
        dq += ((b->batch * p->t + b->row) * p->h + b->head) * p->d;
        add_keys(p, b, dscore, &k, p->d, dq, p->h * p->d, b->key == 0);
    }
    if (of & OF_KEYS) {
        const int64_t to = (b->batch * p->s + b->key) * p->g + b->group;
        add_rows(p, b, dscore, &q, p->d, (float *)l->at[INPUTS + 1] + to * p->d, p->g * p->d);
        add_rows(p, b, share, &dout_rows, p->e, (float *)l->at[INPUTS + 2] + to * p->e,
                 p->g * p->e);
    }
}

/* dq of rows that see no key. */
static void clear_rest(const ig_cpu_launch *l, block b) {
    const params *p = l->params;
    if (take_keys(p, &b, 0)) return;
    float *dq = (float *)l->at[INPUTS] + ((b.batch * p->t + b.row) * p->h + b.head) * p->d;
    clear_rows(dq, p->h * p->d, b.rows, p->d);
}

static void grad_of_rows(const ig_cpu_launch *l, int64_t unit) {
    const params *p = l->params;
    const int64_t row_block = unit / p->h % row_blocks(p);
    block b = block_of(p, unit / p->h / row_blocks(p), unit % p->h, row_block);
    clear_rest(l, b);
    for (int64_t key = 0; take_keys(p, &b, key); key += KEYS) add_grads(l, &b, OF_ROWS);
}

/* One block of keys with all rows that see it, head by head. */
static void grad_of_keys(const ig_cpu_launch *l, int64_t batch, int64_t group, int64_t key,
                         int of) {
    const params *p = l->params;
    const int64_t at = (batch * p->s + key) * p->g + group, heads = p->h / p->g;
    const int64_t keys = min_i64(p->s - key, KEYS);
    clear_rows((float *)l->at[INPUTS + 1] + at * p->d, p->g * p->d, keys, p->d);
    clear_rows((float *)l->at[INPUTS + 2] + at * p->e, p->g * p->e, keys, p->e);
    for (int64_t head = group * heads; head < (group + 1) * heads; head++)
        for (int64_t row_block = 0; row_block < row_blocks(p); row_block++) {
            block b = block_of(p, batch, head, row_block);
            if (key == 0 && (of & OF_ROWS)) clear_rest(l, b);
            if (take_keys(p, &b, key)) add_grads(l, &b, of);
        }
}

static void grad_of_head(const ig_cpu_launch *l, int64_t unit) {
    const params *p = l->params;
    for (int64_t key = 0; key < p->s || key == 0; key += KEYS)
        grad_of_keys(l, unit / p->g, unit % p->g, key, OF_ROWS | OF_KEYS);
}

static void attention_grad(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const int64_t blocks = key_blocks(p), of_keys = p->b * p->g * blocks;
    for (int64_t unit = begin; unit < end; unit++) {
        if (p->whole_heads)
            grad_of_head(l, unit);
        else if (unit < of_keys)
            grad_of_keys(l, unit / p->g / blocks, unit % p->g, unit / p->g % blocks * KEYS,
                         OF_KEYS);
        else
            grad_of_rows(l, unit - of_keys);
    }
}

const ig_cpu_entry IG_CPU_LIST(attention)[] = {
    {IG_OP_ATTENTION, IG_F32, BY_UNIT, forward_setup, attention},
    {IG_OP_ATTENTION, IG_F16, BY_UNIT, forward_setup, attention},
    {IG_OP_ATTENTION, IG_BF16, BY_UNIT, forward_setup, attention},
    {IG_OP_ATTENTION_GRAD, IG_F32, BY_UNIT, grad_setup, attention_grad},
    {IG_OP_ATTENTION_GRAD, IG_F16, BY_UNIT, grad_setup, attention_grad},
    {IG_OP_ATTENTION_GRAD, IG_BF16, BY_UNIT, grad_setup, attention_grad},
    {0},
};
