/*
 * A cache of keys and values in pages of 64 positions, as floats or stored in fewer
 * bits, and attention over it.  kernels/store.c puts rows into it.
 *
 * Positions are taken in spans of four pages, counted from 0.  Within a span a query,
 * which is one head of one row, walks from page to page and carries the largest score so
 * far, the sum of exponentials and the weighted values along ("online softmax", Milakov
 * and Gimelshein); what spans have found is then put together in their order:
 *
 *     pages    | 0 1 2 3 | 4 5 6 7 | 8 9 ...        state of a query and a span:
 *     spans    |    0    |    1    | 2                largest, sum, values[e]
 *
 * That order is the same whoever walks.  With few rows every span is a unit, so that one
 * long text keeps all threads busy; with many, a unit takes its rows through all spans.
 * What a query finds depends on its own keys alone, not on the rows beside it.  Rows of
 * one sequence and the heads that read one head of keys walk together: each page is read
 * and made floats once for all of them.
 */
#include "backend/cpu/sums.h"
#include "backend/cpu/vec_bytes.h"
#include "backend/cpu/vec_math.h"
#include "base/blocks.h"
#include "base/half.h"
#include "ingot/blocks.h"

enum {
    KEYS = IG_PAGE_ROWS,
    SPAN = 4 * KEYS,   /* positions */
    BATCH = 16,        /* keys or values that all heads have done with before the next */
    MOST_ROWS = 16,    /* that walk together, */
    MOST_HEADS = 64,   /* and heads, */
    QUERIES = 256,     /* and both */
    MOST_WIDTH = 1024, /* of a head */
    RUN = 512,         /* numbers that a unit should find side by side in memory */
    LINE = 64,         /* bytes */
    FEW_UNITS = 32,    /* so many would leave threads without work */
};

/* Queries and keys, or queries and vectors of values, whose sums are in registers together. */
enum {
    TILE_KEYS = VF_LANES < 4 ? VF_LANES : 4,
    TILE = VF_LANES / TILE_KEYS, /* queries */
    TILE_VECTORS = 4,
};
static_assert(KEYS % BATCH == 0 && BATCH % TILE_KEYS == 0, "a page is whole tiles");

/* ---- attention ---- */

/* Numbers [i, i + n) of a row that is stored as `dtype`, n <= VF_LANES, as base/blocks.c decodes
 * them.  A constant `dtype` folds the choice away. */
IG_INLINE vf load_stored(const char *row, int64_t i, int64_t n, const ig_dtype dtype) {
    if (dtype == IG_F32) return vf_load_first((const float *)row + i, n);
    if (dtype == IG_F16 && n == VF_LANES) return vf_load_f16((const uint16_t *)row + i);
    if (dtype == IG_Q8_0) {
        const ig_block_q8_0 *b = (const ig_block_q8_0 *)row + i / IG_BLOCK;
        return vf_mul(vf_set(ig_f16_to_f32(b->d)), vi_to_float(vi_load_i8(b->q + i % IG_BLOCK)));
    }
    float y[VF_LANES] = {0};
    const uint16_t *h = (const uint16_t *)row + i;
    for (int64_t c = 0; c < n; c++)
        y[c] = dtype == IG_F16 ? ig_f16_to_f32(h[c]) : ig_bf16_to_f32(h[c]);
    return vf_load(y);
}

/* Queries that read the same keys and values. */
typedef struct tile {
    const float *q[TILE];
    float *score[TILE], *values[TILE]; /* weights by then; and what is summed up */
    float keep[TILE];
    /* What the walk comes to next, a batch of rows; NULL: another tile has asked for it.  Memory
     * should be on its way meanwhile, asked for in small portions: too many at once get lost. */
    const char *next;
    int64_t next_step, next_bytes; /* from a row to the next, and of each */
} tile;

IG_INLINE void fetch(const tile *t, int64_t row) {
    for (int64_t i = 0; t->next && i < t->next_bytes; i += LINE)
        __builtin_prefetch(t->next + row * t->next_step + i);
}

/* Products of queries and TILE_KEYS rows of keys, numbers [i, i + n) of each. */
IG_INLINE void add_products(const tile *t, const char *rows, int64_t step_bytes, int64_t i,
                            int64_t n, vf sum[VF_LANES], const int queries, const ig_dtype dtype) {
    vf key[TILE_KEYS];
    IG_UNROLL for (int j = 0; j < TILE_KEYS; j++) key[j] =
        load_stored(rows + j * step_bytes, i, n, dtype);
    IG_UNROLL for (int k = 0; k < queries * TILE_KEYS; k++) sum[k] =
        vf_fma(vf_load_first(t->q[k / TILE_KEYS] + i, n), key[k % TILE_KEYS], sum[k]);
}

/* score[h][j] = q[h] . rows[j] of BATCH rows, each added up in lanes along the width. */
IG_INLINE void dots(const tile *t, const char *rows, int64_t step_bytes, int64_t width,
                    const int queries, const ig_dtype dtype) {
    for (int64_t j = 0; j < BATCH; j += TILE_KEYS, rows += TILE_KEYS * step_bytes) {
        vf sum[VF_LANES];
        float y[VF_LANES];
        int64_t i = 0;
        IG_UNROLL for (int k = 0; k < VF_LANES; k++) sum[k] = vf_set(0);
        for (int k = 0; k < TILE_KEYS; k++) fetch(t, j + k);
        for (; i + VF_LANES <= width; i += VF_LANES)
            add_products(t, rows, step_bytes, i, VF_LANES, sum, queries, dtype);
        if (i < width) add_products(t, rows, step_bytes, i, width - i, sum, queries, dtype);
        vf_store(y, vf_sum_each(sum));
        for (int h = 0; h < queries; h++)
            memcpy(t->score[h] + j, y + h * TILE_KEYS, TILE_KEYS * sizeof *y);
    }
}

/* values = keep values + sum of score[j] rows[j], one after the other, in columns from `at` on: so
 * many vectors, the last of which has n lanes. */
IG_INLINE void add_columns(const tile *t, int64_t at, const char *rows, int64_t step_bytes,
                           int64_t n_rows, int64_t n, const int queries, const int vectors,
                           const ig_dtype dtype) {
    vf sum[TILE * TILE_VECTORS], value[TILE_VECTORS];
    IG_UNROLL for (int k = 0; k < queries * vectors; k++) sum[k] =
        vf_mul(vf_load_first(t->values[k / vectors] + at + k % vectors * VF_LANES,
                             k % vectors < vectors - 1 ? VF_LANES : n),
               vf_set(t->keep[k / vectors]));
    for (int64_t j = 0; j < n_rows; j++, rows += step_bytes) {
        if (at == 0) fetch(t, j);
        IG_UNROLL for (int c = 0; c < vectors; c++) value[c] =
            load_stored(rows, at + c * VF_LANES, c < vectors - 1 ? VF_LANES : n, dtype);
        IG_UNROLL for (int k = 0; k < queries * vectors; k++) sum[k] =
            vf_fma(vf_set(t->score[k / vectors][j]), value[k % vectors], sum[k]);
    }
    IG_UNROLL for (int k = 0; k < queries * vectors; k++)
        vf_store_first(t->values[k / vectors] + at + k % vectors * VF_LANES, sum[k],
                       k % vectors < vectors - 1 ? VF_LANES : n);
}

IG_INLINE void add_rows(const tile *t, const char *rows, int64_t step_bytes, int64_t n_rows,
                        int64_t width, const int queries, const ig_dtype dtype) {
    enum { WIDE = TILE_VECTORS * VF_LANES };
    int64_t i = 0;
    for (; i + WIDE <= width; i += WIDE)
        add_columns(t, i, rows, step_bytes, n_rows, VF_LANES, queries, TILE_VECTORS, dtype);
    for (; i < width; i += VF_LANES)
        add_columns(t, i, rows, step_bytes, n_rows, smaller(width - i, VF_LANES), queries, 1,
                    dtype);
}

/* The two for each type that a cache may have; with a full tile, or one query. */
typedef void dots_fn(const tile *t, const char *rows, int64_t step_bytes, int64_t width);
typedef void add_rows_fn(const tile *t, const char *rows, int64_t step_bytes, int64_t n_rows,
                         int64_t width);

#define OF_TYPE(name, dtype)                                                                     \
    static void dots_tile_##name(const tile *t, const char *rows, int64_t step, int64_t width) { \
        dots(t, rows, step, width, TILE, dtype);                                                 \
    }                                                                                            \
    static void dots_one_##name(const tile *t, const char *rows, int64_t step, int64_t width) {  \
        dots(t, rows, step, width, 1, dtype);                                                    \
    }                                                                                            \
    static void add_tile_##name(const tile *t, const char *rows, int64_t step, int64_t n_rows,   \
                                int64_t width) {                                                 \
        add_rows(t, rows, step, n_rows, width, TILE, dtype);                                     \
    }                                                                                            \
    static void add_one_##name(const tile *t, const char *rows, int64_t step, int64_t n_rows,    \
                               int64_t width) {                                                  \
        add_rows(t, rows, step, n_rows, width, 1, dtype);                                        \
    }
OF_TYPE(f32, IG_F32)
OF_TYPE(f16, IG_F16)
OF_TYPE(bf16, IG_BF16)
OF_TYPE(q8_0, IG_Q8_0)

typedef struct stored {
    dots_fn *dots[2]; /* of one query, of a tile */
    add_rows_fn *add[2];
} stored;

/* False: a cache of that type is not known here. */
static bool stored_as(ig_dtype dtype, stored *out) {
    switch (dtype) {
    case IG_F32: *out = (stored){{dots_one_f32, dots_tile_f32}, {add_one_f32, add_tile_f32}}; break;
    case IG_F16: *out = (stored){{dots_one_f16, dots_tile_f16}, {add_one_f16, add_tile_f16}}; break;
    case IG_BF16:
        *out = (stored){{dots_one_bf16, dots_tile_bf16}, {add_one_bf16, add_tile_bf16}};
        break;
    case IG_Q8_0:
        *out = (stored){{dots_one_q8_0, dots_tile_q8_0}, {add_one_q8_0, add_tile_q8_0}};
        break;
    default: return false;
    }
    return true;
}

enum { Q, K, V, TABLE, SEQUENCE, POSITION, OUT };

/* Rows of keys or values: [p, 64, g, width]. */
typedef struct pages {
    int64_t width;
    int64_t row_bytes, step_bytes; /* of one head's row; from a position to the next */
    stored stored;
} pages;

typedef struct params {
    int64_t rows, h, g, n_pages, sequences, table_width;
    pages k, v;
    float scale, softcap;
    int64_t window;
    int64_t block, bundle; /* rows and heads of keys of a unit */
    int64_t spans, slots;  /* in all, and states that a query keeps at a time */
    bool by_span;          /* a unit takes its rows through one span, not through all */
} params;

/* The state of a query in scratch, [rows, slots, h]: a head, then values[e]. */
enum { LARGEST, SUM, STATE_HEAD = LINE / sizeof(float) };

static int64_t state_floats(const params *p) {
    return STATE_HEAD + (p->v.width + STATE_HEAD - 1) / STATE_HEAD * STATE_HEAD;
}

static float *state_at(const ig_cpu_launch *l, int64_t row, int64_t slot, int64_t head) {
    const params *p = l->params;
    return (float *)l->scratch + ((row * p->slots + slot) * p->h + head) * state_floats(p);
}

/* Rows of one sequence, and heads whose heads of keys lie side by side: they walk together. */
typedef struct walk {
    const ig_cpu_launch *l;
    int64_t sequence, row, rows;
    int64_t head, heads, group, groups;       /* of queries, and of keys and values */
    int64_t slot;                             /* where their states are kept */
    int64_t first[MOST_ROWS], end[MOST_ROWS]; /* the positions each row sees, */
    int64_t low[MOST_ROWS], high[MOST_ROWS];  /* and its keys of the page at hand */
    float keep[QUERIES];                      /* what sums so far are worth after this page */
    float score[QUERIES][KEYS];
} walk;

static float *state_of(const walk *w, int64_t row, int64_t head) {
    return state_at(w->l, w->row + row, w->slot, w->head + head);
}

/* Keys or values of a page, of all groups of a walk. */
typedef struct page_rows {
    const pages *pages;
    const char *at; /* NULL: there are none */
} page_rows;

/* The batch behind that from row j on, for one group: of the page, or of what comes then. */
static void set_next(tile *t, page_rows page, page_rows next, int64_t j, int64_t group) {
    const page_rows from = j + BATCH < KEYS ? page : next;
    const int64_t row = (j + BATCH) % KEYS;
    t->next_step = from.pages->step_bytes;
    t->next_bytes = from.pages->row_bytes;
    t->next = from.at ? from.at + row * t->next_step + group * t->next_bytes : NULL;
}

IG_INLINE vf plain_term(int64_t i, int64_t n, const void *of) {
    return vf_load_first((const float *)of + i, n);
}

/* Takes n scores into a state: they become exp(score - largest). */
static void take_in(const params *p, float *state, float *score, int64_t n, float *keep) {
    for (int64_t j = 0; j < n; j += VF_LANES) {
        const int64_t m = smaller(n - j, VF_LANES);
        vf x = vf_mul(vf_load_first(score + j, m), vf_set(p->scale));
        if (p->softcap != 0) x = vf_mul(vf_tanh(vf_div(x, vf_set(p->softcap))), vf_set(p->softcap));
        vf_store_first(score + j, x, m);
    }
    const float largest = largest_of(score, n), before = state[LARGEST];
    if (!(largest <= before)) state[LARGEST] = largest;
    for (int64_t j = 0; j < n; j += VF_LANES) {
        const int64_t m = smaller(n - j, VF_LANES);
        const vf x = vf_sub(vf_load_first(score + j, m), vf_set(state[LARGEST]));
        vf_store_first(score + j, vf_exp(x), m);
    }
    *keep = float_exp(before - state[LARGEST]);
    state[SUM] = state[SUM] * *keep + sum_block(0, n, plain_term, score);
}

/* Whether a row sees any of keys [j, j + BATCH) of the page at hand. */
static bool sees(const walk *w, int64_t row, int64_t j) {
    return w->low[row] < j + BATCH && w->high[row] > j;
}

static bool any_sees(const walk *w, int64_t j) {
    for (int64_t r = 0; r < w->rows; r++)
        if (sees(w, r, j)) return true;
    return false;
}

/* Adds head i of a row to a tile; its weights begin with key `low`. */
static void add_query(walk *w, tile *t, int at, int64_t row, int64_t i, int64_t low) {
    const params *p = w->l->params;
    const int64_t query = row * w->heads + i;
    t->q[at] = (const float *)w->l->at[Q] + ((w->row + row) * p->h + w->head + i) * p->k.width;
    t->score[at] = w->score[query] + low;
    t->values[at] = state_of(w, row, i) + STATE_HEAD;
    t->keep[at] = low == w->low[row] ? w->keep[query] : 1;
}

/* The heads of a walk that read its head of keys number `group`: from `*begin` on. */
static int64_t heads_of(const walk *w, int64_t group, int64_t *begin) {
    const params *p = w->l->params;
    const int64_t each = p->h / p->g, first = (w->group + group) * each - w->head;
    *begin = first > 0 ? first : 0;
    return smaller(first + each, w->heads);
}

/* Scores of keys from j on, BATCH of them, for all queries of a group, a tile at a time. */
static void score_group(walk *w, int64_t group, int64_t j, page_rows k, page_rows v) {
    const params *p = w->l->params;
    const char *rows = k.at + j * p->k.step_bytes + group * p->k.row_bytes;
    int64_t begin;
    const int64_t end = heads_of(w, group, &begin);
    tile t;
    int n = 0;
    set_next(&t, k, v, j, group);
    for (int64_t r = 0; r < w->rows; r++)
        for (int64_t i = begin; i < end && sees(w, r, j); i++) {
            add_query(w, &t, n++, r, i, j);
            if (n < TILE) continue;
            p->k.stored.dots[1](&t, rows, p->k.step_bytes, p->k.width);
            t.next = NULL;
            n = 0;
        }
    for (int at = 0; at < n; at++) { /* what is no full tile, one by one */
        t.q[0] = t.q[at], t.score[0] = t.score[at];
        p->k.stored.dots[0](&t, rows, p->k.step_bytes, p->k.width);
        t.next = NULL;
    }
}

static void score_keys(walk *w, page_rows k, page_rows v) {
    for (int64_t j = 0; j < KEYS; j += BATCH)
        for (int64_t group = 0; group < w->groups && any_sees(w, j); group++)
            score_group(w, group, j, k, v);
}

/* Values from j on, BATCH of them, for the heads of a row that read a group. */
static void add_group(walk *w, int64_t row, int64_t group, int64_t j, page_rows v, page_rows next) {
    const params *p = w->l->params;
    const int64_t low = w->low[row] > j ? w->low[row] : j;
    const int64_t n = smaller(w->high[row], j + BATCH) - low, step = p->v.step_bytes;
    const char *rows = v.at + low * step + group * p->v.row_bytes;
    int64_t i;
    tile t;
    const int64_t end = heads_of(w, group, &i);
    set_next(&t, v, next, j, group);
    if (row > 0) t.next = NULL;
    while (i < end) {
        const bool full = i + TILE <= end;
        for (int at = 0; at < (full ? TILE : 1); at++) add_query(w, &t, at, row, i + at, low);
        p->v.stored.add[full](&t, rows, step, n, p->v.width);
        t.next = NULL;
        i += full ? TILE : 1;
    }
}

static void add_values(walk *w, page_rows v, page_rows next) {
    for (int64_t j = 0; j < KEYS; j += BATCH)
        for (int64_t group = 0; group < w->groups; group++)
            for (int64_t r = 0; r < w->rows; r++)
                if (sees(w, r, j)) add_group(w, r, group, j, v, next);
}

/* The page that holds a position, as a row of [p 64]; -1: it lies nowhere. */
static int64_t page_at(const ig_cpu_launch *l, int64_t sequence, int64_t position) {
    const params *p = l->params;
    const int64_t page = position / KEYS;
    if (page >= p->table_width) return -1;
    const int32_t number = ((const int32_t *)l->at[TABLE])[sequence * p->table_width + page];
    return number < 0 || number >= p->n_pages ? -1 : number * (int64_t)KEYS;
}

/* One page, which begins at position `at` and at this row of the cache; the next follows there. */
static void add_page(walk *w, int64_t at, int64_t row, int64_t next_row) {
    const params *p = w->l->params;
    const char *k = w->l->at[K] + w->group * p->k.row_bytes;
    const char *v = w->l->at[V] + w->group * p->v.row_bytes;
    const page_rows keys = {&p->k, k + row * p->k.step_bytes};
    const page_rows values = {&p->v, v + row * p->v.step_bytes};
    const page_rows next = {&p->k, next_row < 0 ? NULL : k + next_row * p->k.step_bytes};
    for (int64_t r = 0; r < w->rows; r++) {
        w->low[r] = w->first[r] > at ? w->first[r] - at : 0;
        w->high[r] = smaller(w->end[r] - at, KEYS);
    }
    score_keys(w, keys, values);
    for (int64_t r = 0; r < w->rows; r++)
        for (int64_t i = 0; i < w->heads && w->low[r] < w->high[r]; i++) {
            const int64_t query = r * w->heads + i;
            take_in(p, state_of(w, r, i), w->score[query] + w->low[r], w->high[r] - w->low[r],
                    &w->keep[query]);
        }
    add_values(w, values, next);
}

/* All pages of a span, up to the first that lies nowhere; states begin anew. */
static void walk_span(walk *w, int64_t span) {
    const params *p = w->l->params;
    int64_t low = INT64_MAX, high = 0;
    for (int64_t r = 0; r < w->rows; r++) {
        if (w->first[r] < low) low = w->first[r];
        if (w->end[r] > high) high = w->end[r];
        for (int64_t i = 0; i < w->heads; i++) {
            float *state = state_of(w, r, i);
            memset(state, 0, (size_t)(STATE_HEAD + p->v.width) * sizeof *state);
            state[LARGEST] = -INFINITY;
        }
    }
    if (low < span * SPAN) low = span * SPAN;
    high = smaller(high, (span + 1) * SPAN);
    if (low >= high) return;
    int64_t row = page_at(w->l, w->sequence, low);
    for (int64_t at = low / KEYS * KEYS; at < high && row >= 0; at += KEYS) {
        const int64_t next = page_at(w->l, w->sequence, at + KEYS);
        add_page(w, at, row, next);
        row = next;
    }
}

/* Puts what a later span has found to what those before have. */
static void fold(float *into, const float *from, int64_t e) {
    const float before = into[LARGEST];
    if (from[LARGEST] == -INFINITY) return;
    if (before == -INFINITY) {
        memcpy(into, from, (size_t)(STATE_HEAD + e) * sizeof *into);
        return;
    }
    if (!(from[LARGEST] <= before)) into[LARGEST] = from[LARGEST];
    const float keep = float_exp(before - into[LARGEST]);
    const float take = float_exp(from[LARGEST] - into[LARGEST]);
    into[SUM] = vf_first(vf_fma(vf_set(from[SUM]), vf_set(take), vf_set(into[SUM] * keep)));
    for (int64_t i = 0; i < e; i += VF_LANES) {
        const int64_t n = smaller(e - i, VF_LANES);
        const vf y = vf_mul(vf_load_first(into + STATE_HEAD + i, n), vf_set(keep));
        const vf x = vf_load_first(from + STATE_HEAD + i, n);
        vf_store_first(into + STATE_HEAD + i, vf_fma(x, vf_set(take), y), n);
    }
}

/* The row of `out`: values by the sum, 0 where nothing was seen. */
static void finish(const ig_cpu_launch *l, int64_t row, int64_t head, const float *state) {
    const params *p = l->params;
    const float share = state && state[LARGEST] != -INFINITY ? 1 / state[SUM] : 0;
    float *out = (float *)l->at[OUT] + (row * p->h + head) * p->v.width;
    for (int64_t c = 0; c < p->v.width; c++)
        out[c] = share == 0 ? 0 : state[STATE_HEAD + c] * share;
}

/* ---- who walks ---- */

typedef struct sight {
    int64_t sequence, first, end; /* -1: none; the positions that are seen */
} sight;

static sight sight_of(const ig_cpu_launch *l, int64_t row) {
    const params *p = l->params;
    const int64_t end = (int64_t)((const int32_t *)l->at[POSITION])[row] + 1;
    sight s = {.sequence = ((const int32_t *)l->at[SEQUENCE])[row], .end = end};
    if (s.sequence < 0 || s.sequence >= p->sequences) s.sequence = -1;
    if (p->window > 0 && end > p->window) s.first = end - p->window;
    s.end = smaller(end, p->table_width * KEYS);
    return s;
}

/* As far as pages are there without a gap. */
static int64_t reach(const ig_cpu_launch *l, const sight *s) {
    for (int64_t at = s->first; at < s->end; at = at / KEYS * KEYS + KEYS)
        if (page_at(l, s->sequence, at) < 0) return at;
    return s->end;
}

/* The rows from w->row on, before `end`, that are of its sequence.  A row of none is alone. */
static void gather(walk *w, int64_t end) {
    w->sequence = sight_of(w->l, w->row).sequence;
    for (w->rows = 0; w->row + w->rows < end; w->rows++) {
        const sight s = sight_of(w->l, w->row + w->rows);
        if (w->rows > 0 && (s.sequence != w->sequence || s.sequence < 0)) break;
        w->first[w->rows] = s.first;
        w->end[w->rows] = s.end;
    }
}

/* One span into its slot. */
static void walk_one(walk *w, int64_t span) {
    w->slot = span;
    if (w->sequence >= 0) walk_span(w, span);
}

/* All spans, each folded into the first slot. */
static void walk_all(walk *w) {
    const params *p = w->l->params;
    int64_t begin = p->spans, end = 0;
    for (int64_t r = 0; r < w->rows && w->sequence >= 0; r++) {
        const sight s = {w->sequence, w->first[r], w->end[r]};
        w->end[r] = reach(w->l, &s);
        if (w->first[r] >= w->end[r]) continue;
        begin = smaller(begin, w->first[r] / SPAN);
        if ((w->end[r] - 1) / SPAN >= end) end = (w->end[r] - 1) / SPAN + 1;
    }
    for (int64_t span = begin; span < end; span++) {
        w->slot = span > begin;
        walk_span(w, span);
        for (int64_t r = w->row; r < w->row + w->rows && span > begin; r++)
            for (int64_t head = w->head; head < w->head + w->heads; head++)
                fold(state_at(w->l, r, 0, head), state_at(w->l, r, 1, head), p->v.width);
    }
    for (int64_t r = w->row; r < w->row + w->rows; r++)
        for (int64_t head = w->head; head < w->head + w->heads; head++)
            finish(w->l, r, head, begin < end ? state_at(w->l, r, 0, head) : NULL);
}

/* The rows of a block for a bundle of heads of keys: through one span, or (-1) through all. */
static void walk_block(const ig_cpu_launch *l, int64_t block, int64_t bundle, int64_t span) {
    const params *p = l->params;
    const int64_t end = smaller((block + 1) * p->block, p->rows);
    walk w;
    w.l = l;
    w.group = bundle * p->bundle;
    w.groups = smaller(p->bundle, p->g - w.group);
    const int64_t head = w.group * (p->h / p->g), head_end = head + w.groups * (p->h / p->g);
    for (w.row = block * p->block; w.row < end; w.row += w.rows) {
        gather(&w, end);
        for (w.head = head; w.head < head_end; w.head += w.heads) {
            w.heads = smaller(head_end - w.head, MOST_HEADS);
            if (span < 0)
                walk_all(&w);
            else
                walk_one(&w, span);
        }
    }
}

static int64_t bundles(const params *p) { return (p->g + p->bundle - 1) / p->bundle; }

/* A unit is a block of rows and a bundle of heads of keys, */
static void attend_rows(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const int64_t n = bundles(l->params);
    for (int64_t unit = begin; unit < end; unit++) walk_block(l, unit / n, unit % n, -1);
}

/* the same and a span, */
static void attend_spans(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const int64_t n = bundles(p);
    for (int64_t unit = begin; unit < end; unit++)
        walk_block(l, unit / n / p->spans, unit % n, unit / n % p->spans);
}

/* and a query, whose spans have all been walked. */
static void fold_spans(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t row = unit / p->h, head = unit % p->h;
        const sight s = sight_of(l, row);
        const int64_t until = s.sequence < 0 ? 0 : reach(l, &s), span = s.first / SPAN;
        float *state = s.first < until ? state_at(l, row, span, head) : NULL;
        for (int64_t i = span + 1; state && i * SPAN < until; i++)
            fold(state, state_at(l, row, i, head), p->v.width);
        finish(l, row, head, state);
    }
}

static void attention_paged(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    if (p->by_span)
        fold_spans(l, begin, end);
    else
        attend_rows(l, begin, end);
}

/* ---- setting up ---- */

static bool pages_make(const ig_operand *o, pages *out) {
    const int64_t *dim = o->desc.shape.dim;
    const ig_dtype dtype = o->desc.dtype;
    *out = (pages){.width = dim[3],
                   .row_bytes = ig_bytes_of(dtype, dim[3]),
                   .step_bytes = ig_bytes_of(dtype, dim[2] * dim[3])};
    return ig_operand_is_packed(o) && stored_as(dtype, &out->stored) && dim[3] <= MOST_WIDTH;
}

/* Units are few or many by the shape alone. */
static void paged_split(params *p, ig_cpu_setup *out) {
    enum { BLOCK_QUERIES = 64 }; /* where rows are many: scores stay in the nearest cache */
    const int64_t each = p->h / p->g, key_cost = product(each, p->k.width + p->v.width);
    p->spans = (p->table_width * KEYS + SPAN - 1) / SPAN;
    p->bundle = 1;
    p->slots = 2;
    p->block = smaller(BLOCK_QUERIES / smaller(each, MOST_HEADS), MOST_ROWS);
    out->units = (p->rows + p->block - 1) / p->block * p->g;
    out->cost = product(product(p->table_width, KEYS), product(p->block, key_cost));
    if (out->units < FEW_UNITS && p->spans > 2) {
        const int64_t wider = p->k.width > p->v.width ? p->k.width : p->v.width;
        while (p->bundle < p->g && (p->bundle + 1) * wider <= RUN &&
               (p->bundle + 1) * each <= MOST_HEADS)
            p->bundle++;
        p->block = smaller(QUERIES / smaller(each * p->bundle, MOST_HEADS), MOST_ROWS);
        p->slots = p->spans;
        p->by_span = true;
        out->prepare = attend_spans;
        out->prepare_units = (p->rows + p->block - 1) / p->block * bundles(p) * p->spans;
        out->prepare_cost = product(product(SPAN, p->bundle), key_cost);
        out->units = p->rows * p->h;
        out->cost = product(p->spans, p->v.width);
    }
    out->scratch_bytes = (uint64_t)(p->rows * p->slots * p->h * state_floats(p)) * sizeof(float);
}

static bool paged_setup(const ig_step *step, ig_cpu_setup *out) {
    ig_attrs_paged a;
    ig_step_attrs(step, &a, sizeof a);
    params p = {0};
    if (!ig_operand_is_packed(&step->in[Q])) return false;
    if (!pages_make(&step->in[K], &p.k) || !pages_make(&step->in[V], &p.v)) return false;
    for (uint32_t i = TABLE; i < step->n_in; i++)
        if (step->in[i].desc.dtype != IG_I32 || !ig_operand_is_packed(&step->in[i])) return false;
    const int64_t *q = step->in[Q].desc.shape.dim, *v = step->in[V].desc.shape.dim;
    p.rows = q[0], p.h = q[1], p.g = v[2], p.n_pages = v[0];
    p.sequences = step->in[TABLE].desc.shape.dim[0];
    p.table_width = step->in[TABLE].desc.shape.dim[1];
    p.scale = a.scale == 0 ? (float)(1 / sqrt((double)q[2])) : a.scale;
    p.softcap = a.softcap;
    p.window = a.window;
    paged_split(&p, out);
    return keep_params(out, &p, sizeof p);
}

const ig_cpu_entry IG_CPU_LIST(paged)[] = {
    {IG_OP_ATTENTION_PAGED, IG_F32, BY_UNIT, paged_setup, attention_paged},
    {0},
};
