/*
 * The paged KV cache, with pages of 64 positions, in the real type or quantized: storing rows, and
 * attention.
 */
#include <math.h>

#include "backend/ref/real.h"
#include "backend/ref/ref_convert.h"
#include "backend/ref/weights.h"

/* Element i of pages in the real type or in a storage dtype. */
static double page_element(ig_ref_weights *pages, int64_t i) {
    return pages->view->dtype == IG_REF_DTYPE ? get(pages->view, i) : ig_ref_weight(pages, i);
}

/* The row of [p 64] that has position `at` of a sequence; -1: no page. */
static int64_t paged_row(const ig_ref_launch *l, int64_t sequence, int64_t at) {
    const ig_ref_view *table = &l->in[3];
    const int64_t sequences = table->shape.dim[0], pages = table->shape.dim[1];
    if (sequence < 0 || sequence >= sequences || at / IG_PAGE_TOKENS >= pages) return -1;
    const int64_t page = get_index(table, sequence * pages + at / IG_PAGE_TOKENS);
    if (page < 0 || page >= l->in[1].shape.dim[0]) return -1;
    return page * IG_PAGE_TOKENS + at % IG_PAGE_TOKENS;
}

/* One head of one token. */
typedef struct query {
    const ig_ref_launch *l;
    ig_ref_weights k, v;
    int64_t number;      /* index in [r, h] */
    int64_t sequence;    /* the token's */
    int64_t first, last; /* visible positions */
    int64_t group;
} query;

/* The token's position and those before it, limited by the sliding window and by the first missing
 * page. */
static query query_of(const ig_ref_launch *l, int64_t number) {
    const int64_t h = l->in[0].shape.dim[1], g = l->in[2].shape.dim[2], row = number / h;
    const int64_t window = l->attrs.paged.window;
    query r = {.l = l, .number = number, .group = number % h / (h / g)};
    r.k = ig_ref_weights_of(&l->in[1]);
    r.v = ig_ref_weights_of(&l->in[2]);
    r.sequence = get_index(&l->in[4], row);
    r.last = get_index(&l->in[5], row);
    r.first = window > 0 && r.last >= window ? r.last - window + 1 : 0;
    for (int64_t at = r.first; at <= r.last; at++)
        if (paged_row(l, r.sequence, at) < 0) r.last = at - 1;
    return r;
}

static double score(query *r, int64_t at) {
    const ig_ref_launch *l = r->l;
    const ig_attrs_paged a = l->attrs.paged;
    const int64_t d = l->in[0].shape.dim[2], g = l->in[1].shape.dim[2];
    const int64_t key = (paged_row(l, r->sequence, at) * g + r->group) * d;
    double sum = 0;
    for (int64_t c = 0; c < d; c++)
        sum += get(&l->in[0], r->number * d + c) * page_element(&r->k, key + c);
    sum *= a.scale == 0 ? 1 / sqrt((double)d) : (double)a.scale;
    return a.softcap == 0 ? sum : (double)a.softcap * tanh(sum / (double)a.softcap);
}

/* Over all scores, and the head's sink if there is one. */
static double log_sum_exp(query *r) {
    const ig_ref_launch *l = r->l;
    const int64_t h = l->in[0].shape.dim[1];
    const double none = -(double)INFINITY;
    const double sink = l->n_in > 6 ? get(&l->in[6], r->number % h) : none;
    double largest = sink, sum = 0;
    for (int64_t at = r->first; at <= r->last; at++) largest = fmax(largest, score(r, at));
    for (int64_t at = r->first; at <= r->last; at++) sum += exp(score(r, at) - largest);
    if (l->n_in > 6) sum += exp(sink - largest);
    return largest + log(sum);
}

/* The weighted sum of values, several columns at a time, so that each score is computed fewer
 * times. */
static void attend(query *r) {
    enum { COLUMNS = 64 };
    const ig_ref_launch *l = r->l;
    const int64_t e = l->in[2].shape.dim[3], g = l->in[2].shape.dim[2];
    const double lse = log_sum_exp(r);
    for (int64_t c0 = 0; c0 < e; c0 += COLUMNS) {
        const int64_t n = e - c0 < COLUMNS ? e - c0 : COLUMNS;
        double sum[COLUMNS] = {0};
        for (int64_t at = r->first; at <= r->last; at++) {
            const int64_t value = (paged_row(l, r->sequence, at) * g + r->group) * e + c0;
            const double share = exp(score(r, at) - lse);
            for (int64_t c = 0; c < n; c++) sum[c] += share * page_element(&r->v, value + c);
        }
        for (int64_t c = 0; c < n; c++) put(&l->out[0], r->number * e + c0 + c, sum[c]);
    }
}

static void attention_paged(const ig_ref_launch *l) {
    const int64_t heads = l->in[0].shape.dim[0] * l->in[0].shape.dim[1];
    for (int64_t number = 0; number < heads; number++) {
        query r = query_of(l, number);
        attend(&r);
    }
}

/* dst, rows, index: row index[i] becomes rows[i] */
static void store_rows(const ig_ref_launch *l) {
    const int64_t n = l->out[0].shape.dim[0], r = l->in[1].shape.dim[0];
    const int64_t width = r > 0 ? ig_shape_count(l->in[1].shape) / r : 0;
    for (int64_t i = 0; i < r; i++) {
        const int64_t to = get_index(&l->in[2], i);
        for (int64_t c = 0; c < width && to >= 0 && to < n; c++)
            ig_ref_put_any(&l->out[0], to * width + c, get(&l->in[1], i * width + c));
    }
}

static void store_blocks(const ig_ref_launch *l) {
    const ig_ref_view *dst = &l->out[0];
    const int64_t n = dst->shape.dim[0], r = l->in[1].shape.dim[0];
    const int64_t width = r > 0 ? ig_shape_count(l->in[1].shape) / r : 0;
    for (int64_t i = 0; i < r; i++) {
        const int64_t to = get_index(&l->in[2], i);
        for (int64_t c = 0; c < width && to >= 0 && to < n; c += IG_BLOCK) {
            float x[IG_BLOCK];
            for (int j = 0; j < IG_BLOCK; j++) x[j] = (float)get(&l->in[1], i * width + c + j);
            const int64_t place = ig_ref_place(dst, to * width + c);
            ig_blocks_quantize_q8_0(x, dst->at + ig_bytes_of(IG_Q8_0, place), IG_BLOCK);
        }
    }
}

static void store(const ig_ref_launch *l) {
    if (l->out[0].dtype == IG_Q8_0)
        store_blocks(l);
    else
        store_rows(l);
}

const ig_ref_entry IG_REF_LIST(paged)[] = {
    {IG_OP_ATTENTION_PAGED, IG_REF_DTYPE, "rrriii", "r", attention_paged},
    {IG_OP_ATTENTION_PAGED, IG_REF_DTYPE, "rwwiii", "r", attention_paged},
    {IG_OP_ATTENTION_PAGED, IG_REF_DTYPE, "rrwiii", "r", attention_paged},
    {IG_OP_ATTENTION_PAGED, IG_REF_DTYPE, "rwriii", "r", attention_paged},
    {IG_OP_ATTENTION_PAGED, IG_REF_DTYPE, "rrriiir", "r", attention_paged},
    {IG_OP_ATTENTION_PAGED, IG_REF_DTYPE, "rwwiiir", "r", attention_paged},
    {IG_OP_ATTENTION_PAGED, IG_REF_DTYPE, "rrwiiir", "r", attention_paged},
    {IG_OP_ATTENTION_PAGED, IG_REF_DTYPE, "rwriiir", "r", attention_paged},
    {IG_OP_STORE_ROWS, IG_REF_DTYPE, "rri", "r", store},
    {IG_OP_STORE_ROWS, IG_REF_DTYPE, "wri", "w", store},
    {0},
};
