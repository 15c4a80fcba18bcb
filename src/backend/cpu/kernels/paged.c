/*
 * A cache of keys and values in pages of 64 positions, as floats or stored in fewer
 * bits: rows go into it, and attention reads it.
 *
 * A row walks the pages of its sequence, always from the first that it sees, and
 * carries the largest score so far, the sum of exponentials and the weighted values
 * along ("online softmax", Milakov and Gimelshein).  What it computes depends on its
 * own keys alone, not on how many rows there are beside it.  The heads that read one
 * head of keys walk together, so that each page is decoded once for all of them.
 */
#include "backend/cpu/decode.h"
#include "backend/cpu/sums.h"
#include "backend/cpu/vec_math.h"

enum {
    KEYS = IG_PAGE_ROWS,
    SOME = 16,         /* keys that are decoded at a time */
    MOST_HEADS = 16,   /* that walk together */
    MOST_WIDTH = 1024, /* of a head that is stored in fewer bits */
};
static_assert(KEYS % VF_LANES == 0 && KEYS % SOME == 0, "a page is whole vectors");

/* ---- attention ---- */

enum { Q, K, V, TABLE, SEQUENCE, POSITION, OUT };

/* Rows of keys or values: [p, 64, g, width]. */
typedef struct pages {
    int64_t width;
    int64_t row_bytes, step_bytes; /* of one head's row; from a position to the next */
    ig_dtype dtype;
} pages;

typedef struct params {
    int64_t h, g, n_pages, sequences, table_width;
    pages k, v;
    float scale, softcap;
    int64_t window;
} params;

static bool pages_make(const ig_operand *o, pages *out) {
    const int64_t *dim = o->desc.shape.dim;
    const ig_dtype dtype = o->desc.dtype;
    *out = (pages){dim[3], ig_bytes_of(dtype, dim[3]), ig_bytes_of(dtype, dim[2] * dim[3]), dtype};
    return ig_operand_is_packed(o) && decoder_of(dtype) &&
           (dtype == IG_F32 || dim[3] <= MOST_WIDTH);
}

static bool paged_setup(const ig_step *step, ig_cpu_setup *out) {
    ig_attrs_paged a;
    ig_step_attrs(step, &a, sizeof a);
    params p;
    if (!ig_operand_is_packed(&step->in[Q])) return false;
    if (!pages_make(&step->in[K], &p.k) || !pages_make(&step->in[V], &p.v)) return false;
    for (uint32_t i = TABLE; i < step->n_in; i++)
        if (step->in[i].desc.dtype != IG_I32 || !ig_operand_is_packed(&step->in[i])) return false;
    const int64_t *q = step->in[Q].desc.shape.dim, *v = step->in[V].desc.shape.dim;
    p.h = q[1], p.g = v[2], p.n_pages = v[0];
    p.sequences = step->in[TABLE].desc.shape.dim[0];
    p.table_width = step->in[TABLE].desc.shape.dim[1];
    p.scale = a.scale == 0 ? (float)(1 / sqrt((double)q[2])) : a.scale;
    p.softcap = a.softcap;
    p.window = a.window;
    out->units = q[0] * p.g;
    out->cost = product(product(p.table_width, KEYS), p.k.width + p.v.width);
    return keep_params(out, &p, sizeof p);
}

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

/* The heads of a row that read the same head of keys. */
typedef struct walk {
    const float *q;
    float *out;
    int64_t heads;
    float score[MOST_HEADS][KEYS];
    float keep[MOST_HEADS]; /* what the sums so far are worth after this page */
    float largest[MOST_HEADS], sum[MOST_HEADS];
    float room[SOME * MOST_WIDTH];
} walk;

/* n <= SOME rows of keys or values as floats, `*stride` apart. */
static const float *as_floats(const pages *p, const char *at, int64_t n, float *room,
                              int64_t *stride) {
    if (p->dtype == IG_F32) {
        *stride = p->step_bytes / (int64_t)sizeof(float);
        return (const float *)at;
    }
    for (int64_t j = 0; j < n; j++)
        decoder_of(p->dtype)(at + j * p->step_bytes, room + j * p->width, p->width);
    *stride = p->width;
    return room;
}

IG_INLINE vf plain_term(int64_t i, int64_t n, const void *of) {
    return vf_load_first((const float *)of + i, n);
}

/* Takes in n scores of a head: they become exp(score - largest). */
static void take_in(const params *p, walk *w, int64_t head, int64_t n) {
    float *score = w->score[head];
    for (int64_t j = 0; j < n; j += VF_LANES) {
        const int64_t m = smaller(n - j, VF_LANES);
        vf x = vf_mul(vf_load_first(score + j, m), vf_set(p->scale));
        if (p->softcap != 0) x = vf_mul(vf_tanh(vf_div(x, vf_set(p->softcap))), vf_set(p->softcap));
        vf_store_first(score + j, x, m);
    }
    const float largest = largest_of(score, n), before = w->largest[head];
    if (!(largest <= before)) w->largest[head] = largest;
    for (int64_t j = 0; j < n; j += VF_LANES) {
        const int64_t m = smaller(n - j, VF_LANES);
        const vf x = vf_sub(vf_load_first(score + j, m), vf_set(w->largest[head]));
        vf_store_first(score + j, vf_exp(x), m);
    }
    w->keep[head] = float_exp(before - w->largest[head]);
    w->sum[head] = w->sum[head] * w->keep[head] + sum_block(0, n, plain_term, score);
}

/* n keys of a page, from those at k and v on. */
static void add_page(const params *p, walk *w, const char *k, const char *v, int64_t n) {
    int64_t stride;
    for (int64_t j = 0; j < n; j += SOME) {
        const int64_t some = smaller(n - j, SOME);
        const float *rows = as_floats(&p->k, k + j * p->k.step_bytes, some, w->room, &stride);
        for (int64_t i = 0; i < w->heads; i++)
            dots(w->q + i * p->k.width, rows, stride, some, p->k.width, w->score[i] + j);
    }
    for (int64_t i = 0; i < w->heads; i++) take_in(p, w, i, n);
    for (int64_t j = 0; j < n; j += SOME) {
        const int64_t some = smaller(n - j, SOME);
        const float *rows = as_floats(&p->v, v + j * p->v.step_bytes, some, w->room, &stride);
        for (int64_t i = 0; i < w->heads; i++)
            add_rows(w->out + i * p->v.width, j == 0 ? w->keep[i] : 1, w->score[i] + j, rows,
                     stride, some, p->v.width);
    }
}

/* All pages of positions [first, end) of a sequence, for one head of keys. */
static void walk_pages(const ig_cpu_launch *l, walk *w, int64_t sequence, int64_t group,
                       int64_t first, int64_t end) {
    const params *p = l->params;
    const int32_t *table = (const int32_t *)l->at[TABLE] + sequence * p->table_width;
    for (int64_t at = first; at < end;) {
        const int64_t page = at / KEYS, skip = at % KEYS, n = smaller(end - at, KEYS - skip);
        if (page >= p->table_width || table[page] < 0 || table[page] >= p->n_pages) return;
        const int64_t row = table[page] * (int64_t)KEYS + skip;
        add_page(p, w, l->at[K] + row * p->k.step_bytes + group * p->k.row_bytes,
                 l->at[V] + row * p->v.step_bytes + group * p->v.row_bytes, n);
        at += n;
    }
}

/* Some heads of one row. */
static void attend(const ig_cpu_launch *l, walk *w, int64_t row, int64_t group) {
    const params *p = l->params;
    const int64_t sequence = ((const int32_t *)l->at[SEQUENCE])[row], e = p->v.width;
    const int64_t end = (int64_t)((const int32_t *)l->at[POSITION])[row] + 1;
    const int64_t first = p->window > 0 && end > p->window ? end - p->window : 0;
    memset(w->out, 0, (size_t)(w->heads * e) * sizeof *w->out);
    for (int64_t i = 0; i < w->heads; i++) w->largest[i] = -INFINITY, w->sum[i] = 0;
    if (sequence >= 0 && sequence < p->sequences) walk_pages(l, w, sequence, group, first, end);
    for (int64_t i = 0; i < w->heads; i++)
        for (int64_t c = 0; c < e && w->largest[i] != -INFINITY; c++)
            w->out[i * e + c] *= 1 / w->sum[i];
}

/* A unit is a row and a head of keys. */
static void attention_paged(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    walk w;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t row = unit / p->g, group = unit % p->g, heads = p->h / p->g;
        for (int64_t head = 0; head < heads; head += MOST_HEADS) {
            const int64_t number = row * p->h + group * heads + head;
            w.heads = smaller(heads - head, MOST_HEADS);
            w.q = (const float *)l->at[Q] + number * p->k.width;
            w.out = (float *)l->at[OUT] + number * p->v.width;
            attend(l, &w, row, group);
        }
    }
}

/* ---- storing: row index[i] of dst becomes rows[i] ---- */

typedef void store_fn(const float *x, char *dst, int64_t n);

static void store_f32(const float *x, char *dst, int64_t n) {
    memcpy(dst, x, (size_t)n * sizeof *x);
}

static void store_f16(const float *x, char *dst, int64_t n) {
    uint16_t *h = (uint16_t *)dst;
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) vf_store_f16(h + i, vf_load(x + i));
    for (; i < n; i++) h[i] = ig_f32_to_f16(x[i]);
}

static void store_bf16(const float *x, char *dst, int64_t n) {
    uint16_t *h = (uint16_t *)dst;
    for (int64_t i = 0; i < n; i++) h[i] = ig_f32_to_bf16(x[i]);
}

/* As ig_blocks_encode_q8_0, in loops that become vectors.  Adding the float below a half rounds
 * to nearest, ties away from 0, when the rest is cut off. */
static void store_q8_0(const float *x, char *dst, int64_t n) {
    for (; n > 0; n -= IG_BLOCK, x += IG_BLOCK, dst += sizeof(ig_block_q8_0)) {
        ig_block_q8_0 *b = (ig_block_q8_0 *)dst;
        int32_t largest = 0;
        for (int i = 0; i < IG_BLOCK; i++) {
            const int32_t bits = (int32_t)(ig_bits_of_float(x[i]) & 0x7fffffff);
            largest = bits > largest ? bits : largest;
        }
        const bool finite = largest < 0x7f800000;
        const float d = finite ? ig_float_of_bits((uint32_t)largest) / 127 : NAN;
        const float inverse = d > 0 ? 1 / d : 0;
        int8_t q[IG_BLOCK] = {0};
        for (int i = 0; finite && i < IG_BLOCK; i++) {
            const float scaled = x[i] * inverse;
            q[i] = (int8_t)(int32_t)(scaled + copysignf(0x1.fffffep-2f, scaled));
        }
        b->d = ig_f32_to_f16(d);
        memcpy(b->q, q, sizeof q);
    }
}

static store_fn *store_of(ig_dtype dtype) {
    switch (dtype) {
    case IG_F32: return store_f32;
    case IG_F16: return store_f16;
    case IG_BF16: return store_bf16;
    case IG_Q8_0: return store_q8_0;
    default: return NULL;
    }
}

typedef struct store_params {
    int64_t n, r, width, row_bytes;
    store_fn *store;
} store_params;

static bool store_setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *dst = &step->in[0], *rows = &step->in[1];
    store_params p = {.n = dst->desc.shape.dim[0], .r = rows->desc.shape.dim[0]};
    p.store = store_of(dst->desc.dtype);
    if (!p.store || rows->desc.dtype != IG_F32 || step->in[2].desc.dtype != IG_I32) return false;
    for (uint32_t i = 0; i < step->n_in; i++)
        if (!ig_operand_is_packed(&step->in[i])) return false;
    if (p.r > 0) p.width = ig_shape_count(rows->desc.shape) / p.r;
    p.row_bytes = ig_bytes_of(dst->desc.dtype, p.width);
    out->units = 1; /* two rows may have one place, and the later one stays */
    out->cost = product(p.r, p.width);
    return keep_params(out, &p, sizeof p);
}

static void store_rows(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const store_params *p = l->params;
    const int32_t *index = (const int32_t *)l->at[2];
    for (int64_t i = 0; begin < end && i < p->r; i++)
        if (index[i] >= 0 && index[i] < p->n)
            p->store((const float *)l->at[1] + i * p->width, l->at[3] + index[i] * p->row_bytes,
                     p->width);
}

const ig_cpu_entry IG_CPU_LIST(paged)[] = {
    {IG_OP_ATTENTION_PAGED, IG_F32, BY_UNIT, paged_setup, attention_paged},
    {IG_OP_STORE_ROWS, IG_F32, BY_UNIT, store_setup, store_rows},
    {IG_OP_STORE_ROWS, IG_F16, BY_UNIT, store_setup, store_rows},
    {IG_OP_STORE_ROWS, IG_BF16, BY_UNIT, store_setup, store_rows},
    {IG_OP_STORE_ROWS, IG_Q8_0, BY_UNIT, store_setup, store_rows},
    {0},
};
