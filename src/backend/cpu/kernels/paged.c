/*
 * Attention over a paged KV cache: pages of 64 tokens, F32, F16, BF16 or Q8_0.  kernels/store.c
 * writes the rows.
 *
 * Positions are taken in spans of four pages, counted from 0.  For a span a query, which is one
 * head of one token, computes all scores first, then their maximum and the sum of exponentials,
 * then the weighted values (decision 0028); spans are combined in their order ("online softmax",
 * Milakov and Gimelshein):
 *
 *     pages    | 0 1 2 3 | 4 5 6 7 | 8 9 ...        state of a query and a span:
 *     spans    |    0    |    1    | 2                largest, sum, values[e]
 *
 * The order does not depend on the threads.  With few tokens the spans that they see are shared out
 * evenly, whichever sequences they are of; with many, a unit takes its tokens through all spans.
 * The result of a query depends on its own keys alone, not on the tokens beside it.  Tokens of one
 * sequence and the heads that share a KV head walk together, four queries to a tile (paged_tile.h);
 * the Q8_0 keys of one token are transposed while others are multiplied (paged_kv_q8_m1.h).
 */
#include "backend/cpu/attention/paged_kv_q8_m1.h"
#include "backend/cpu/simd/vec_math.h"
#include "backend/cpu/sum_row.h"
#include "base/quant_blocks.h"

enum {
    KEYS = IG_PAGE_TOKENS,
    SPAN_PAGES = KV_SPAN / KEYS,
    MOST_ROWS = 16,    /* that walk together, */
    MOST_HEADS = 64,   /* and heads, */
    QUERIES = 64,      /* and both */
    MOST_WIDTH = 1024, /* of a head */
    FEW_UNITS = 32,    /* fewer would leave threads idle */
    SHARES = 64,       /* that the spans of a small batch are split into, at most */
    FEW_SPANS = 8,     /* of all rows; fewer are split by heads of keys */
    MANY_ROWS = 16,    /* are enough units: one takes all heads of a row that walks alone */
    FOLD_PREFETCH = 6, /* spans between asking for a state and folding it */
};
static_assert(KEYS % KV_BLOCK == 0, "a page is a multiple of a KV block");

enum { Q, K, V, TABLE, SEQUENCE, POSITION, SINKS };

/* Rows of keys or values: [p, 64, g, width]. */
typedef struct pages {
    int64_t width;
    int64_t row_bytes, step_bytes; /* of one head's row; from a position to the next */
    const stored *stored;
} pages;

typedef struct params {
    int64_t rows, h, g, n_pages, sequences, table_width;
    pages k, v;
    float scale, softcap;
    int64_t window;
    bool has_sinks;
    int64_t block;        /* rows that walk together, at most */
    int64_t spans, slots; /* in all, and states that a query keeps at a time */
    int64_t shares;       /* that spans are dealt into; 0: a unit takes its rows through all */
} params;

/* The state of a query in scratch, [rows, slots, h]: a head, then values[e].  A sum of 0: nothing
 * was seen. */
enum { LARGEST, SUM, STATE_HEAD = LINE / sizeof(float) };

static int64_t state_floats(const params *p) {
    return STATE_HEAD + (p->v.width + STATE_HEAD - 1) / STATE_HEAD * STATE_HEAD;
}

static float *state_at(const ig_cpu_launch *l, int64_t row, int64_t slot, int64_t head) {
    const params *p = l->params;
    return (float *)l->scratch + ((row * p->slots + slot) * p->h + head) * state_floats(p);
}

/* Keys or values of a span: where each page begins, for the first head of keys of a walk.  NULL:
 * there is none.  Behind them, what the walk comes to then. */
typedef struct side {
    const pages *pages;
    const char *page[SPAN_PAGES];
    int64_t begin; /* the first row that a walk reads */
    const struct side *then;
} side;

/* Rows of one sequence, and heads whose heads of keys lie side by side: they walk together. */
typedef struct walk {
    const ig_cpu_launch *l;
    int64_t sequence, row, rows;
    int64_t head, heads, group, groups;        /* of queries, and of keys and values */
    int64_t each;                              /* heads of queries that read one of keys */
    int64_t span, span_end;                    /* the spans that any row sees */
    int64_t slot;                              /* where their states are kept */
    int64_t first[MOST_ROWS], end[MOST_ROWS];  /* the positions each row sees, */
    int64_t low[MOST_ROWS], high[MOST_ROWS];   /* and its keys of the span at hand */
    bool found;                                /* `q` and `fixed` are set */
    const float *q[QUERIES];                   /* query row * heads + head */
    query_fixed24 fixed[QUERIES][MOST_BLOCKS]; /* in fixed point, for Q8_0 keys */
    float *values[QUERIES];                    /* where values are added up, */
    _Alignas(LINE) float score[QUERIES][KV_SPAN];
    _Alignas(LINE) float columns[MAX_TRANSPOSED * KV_BLOCK]; /* a KV block of keys, transposed */
    key_pipeline key_pipeline; /* of it, for the queries of one token */
} walk;

static float *state_of(const walk *w, int64_t row, int64_t head) {
    return state_at(w->l, w->row + row, w->slot, w->head + head);
}

/* Row j of a span. */
static const char *row_at(const side *s, int64_t j) {
    const char *page = s->page[j / KEYS];
    return page ? page + j % KEYS * s->pages->step_bytes : NULL;
}

/* Queries [first, first + n) of a walk, which see rows [low, high) of a span. */
typedef struct query_group {
    int64_t first, n, low, high;
} query_group;

/* Runs a query group on the KV block from row j on, a tile at a time. */
static void run_query_group(walk *w, tile *t, int64_t j, const query_group *c, tile_fn *const *fn) {
    for (int64_t i = 0; i < c->n; i += TILE) {
        t->low = c->low - j, t->high = c->high - j;
        t->q = w->q + c->first + i;
        t->fixed = w->fixed[c->first + i];
        t->values = w->values + c->first + i;
        t->score = w->score[c->first + i] + j;
        fn[min_i64(c->n - i, TILE) - 1](t);
        t->next = NULL;
    }
}

typedef enum extent { ALL, SEEN } extent; /* rows of a KV block that any query sees, or this one */

/* All queries of a group that see any of the KV block from j on; those that see the same rows
 * together. */
static void run_kv_group(walk *w, tile *t, int64_t group, int64_t j, extent how,
                         tile_fn *const *fn) {
    const int64_t each = w->each;
    query_group c = {0};
    for (int64_t r = 0; r < w->rows; r++) {
        int64_t low = w->low[r] > j ? w->low[r] : j, high = min_i64(w->high[r], j + KV_BLOCK);
        if (low >= high) continue;
        if (how == ALL) low = j + t->low, high = j + t->high;
        const int64_t first = r * w->heads + group * each;
        if (first != c.first + c.n || low != c.low || high != c.high) {
            run_query_group(w, t, j, &c, fn);
            c = (query_group){first, 0, low, high};
        }
        c.n += each;
    }
    run_query_group(w, t, j, &c, fn);
}

/* Scores or values of a group.  What many queries read is transposed or dequantized
 * once for all of them, unless it is so wide that a cache would not hold it. */
static void run_tiles(walk *w, tile *t, const stored *s, int64_t group, int64_t j, extent how) {
    const bool alone = w->rows * w->each <= TILE || t->width > MAX_TRANSPOSED;
    if (how == SEEN && (alone || !s->dequantize)) {
        run_kv_group(w, t, group, j, how, s->add);
    } else if (how == SEEN) {
        s->dequantize(t);
        t->rows = t->columns;
        t->step = f32_step(t) * (int64_t)sizeof(float);
        t->next = NULL;
        run_kv_group(w, t, group, j, how, s->add_f32_rows);
    } else if (alone && !s->fixed24) {
        run_kv_group(w, t, group, j, how, s->score);
    } else {
        s->transpose(t);
        t->next = NULL;
        run_kv_group(w, t, group, j, how, s->score_transposed);
    }
}

/* A KV head and the KV block from j on, with its share of the prefetch of the next. */
static tile tile_at(walk *w, const side *s, int64_t low, int64_t high, int64_t j, int64_t group) {
    const params *p = w->l->params;
    const bool is_last = j + KV_BLOCK >= high;
    const pages *next = is_last && s->then ? s->then->pages : s->pages;
    const char *rows = row_at(s, j), *next_rows = NULL;
    if (!is_last) next_rows = row_at(s, j + KV_BLOCK);
    if (is_last && s->then) next_rows = row_at(s->then, s->then->begin);
    tile t = {.step = s->pages->step_bytes,
              .width = s->pages->width,
              .columns = w->columns,
              .low = low > j ? low - j : 0,
              .high = min_i64(high - j, KV_BLOCK),
              .next_step = w->groups == p->g ? next->row_bytes : next->step_bytes,
              .next_bytes = next->row_bytes};
    if (rows) t.rows = rows + group * s->pages->row_bytes;
    if (next_rows) t.next = next_rows + group * KV_BLOCK * t.next_step;
    return t;
}

/* The same with the queries of one row. */
static tile own_tile_at(walk *w, const side *s, int64_t low, int64_t high, int64_t j,
                        int64_t group) {
    const int64_t first = group * w->each;
    tile t = tile_at(w, s, low, high, j, group);
    t.q = w->q + first;
    t.fixed = w->fixed[first];
    t.values = w->values + first;
    t.score = w->score[first] + j;
    return t;
}

/* One row's scores of keys in blocks: some are transposed while others are multiplied.
 */
static void score_single_row(walk *w, const side *s, int64_t low, int64_t high) {
    int64_t j = low / KV_BLOCK * KV_BLOCK, group = 0;
    tile t = own_tile_at(w, s, low, high, j, group);
    w->key_pipeline.begun = false;
    w->key_pipeline.at = 0;
    while (j < high) {
        const tile now = t;
        if (++group == w->groups) group = 0, j += KV_BLOCK;
        if (j < high) t = own_tile_at(w, s, low, high, j, group);
        score_pipelined(&w->key_pipeline, &now, j < high ? &t : NULL, w->each);
    }
}

/* Keys or values [low, high) of a span, a batch of all heads of keys at a time: memory is read in
 * the order it lies in. */
static void run_side(walk *w, const side *s, int64_t low, int64_t high, extent how) {
    if (how == ALL && w->rows == 1 && w->each <= TILE && s->pages->stored->fixed24) {
        score_single_row(w, s, low, high);
        return;
    }
    for (int64_t j = low / KV_BLOCK * KV_BLOCK; j < high; j += KV_BLOCK)
        for (int64_t group = 0; group < w->groups; group++) {
            tile t = tile_at(w, s, low, high, j, group);
            /* A page between what two rows see may lie nowhere. */
            if (t.rows) run_tiles(w, &t, s->pages->stored, group, j, how);
        }
}

typedef struct scores {
    float *at;
    float scale, largest;
} scores;

/* n scores by the scale, and within the cap if there is one. */
static void scale_scores(const params *p, float *score, int64_t n) {
    const vf scale = vf_set(p->scale), cap = vf_set(p->softcap);
    for (int64_t j = 0; j < n; j += VF_LANES) {
        const int64_t m = min_i64(n - j, VF_LANES);
        const vf x = vf_mul(vf_load_first(score + j, m), scale);
        vf_store_first(score + j, p->softcap == 0 ? x : vf_mul(vf_tanh(vf_div(x, cap)), cap), m);
    }
}

/* A NaN counts as less than all. */
static float largest_score(const float *score, int64_t n) {
    vf most[2] = {vf_set(-INFINITY), vf_set(-INFINITY)};
    int64_t j = 0;
    for (; j + 2 * VF_LANES <= n; j += 2 * VF_LANES)
        for (int c = 0; c < 2; c++) most[c] = vf_max(vf_load(score + j + c * VF_LANES), most[c]);
    for (; j < n; j += VF_LANES) {
        const int64_t m = min_i64(n - j, VF_LANES);
        most[0] = vf_max(vf_part(vf_load_first(score + j, m), most[0], m), most[0]);
    }
    return vf_max_lane(vf_max(most[0], most[1]));
}

IG_INLINE vf weight_term(int64_t i, int64_t n, const void *of) {
    const scores *s = of;
    const vf score = vf_load_first(s->at + i, n);
    const vf x = vf_exp_down(vf_sub(vf_mul(score, vf_set(s->scale)), vf_set(s->largest)));
    vf_store_first(s->at + i, x, n);
    return x;
}

/* n scores become exp(score - largest).  A NaN shows in the sum. */
static void weigh(const params *p, float *state, float *score, int64_t n) {
    scores s = {score, p->scale, 0};
    if (p->softcap != 0 || p->scale < 0) { /* else the largest stays the largest */
        scale_scores(p, score, n);
        s.scale = 1;
    }
    s.largest = largest_score(score, n) * s.scale;
    state[LARGEST] = s.largest;
    state[SUM] = (float)sum_terms(n, weight_term, &s);
}

/* What a query does not see of its first and last batch weighs nothing. */
static void clear_beside(float *score, int64_t low, int64_t high) {
    for (int64_t j = low / KV_BLOCK * KV_BLOCK; j < low; j++) score[j] = 0;
    for (int64_t j = high; j % KV_BLOCK != 0; j++) score[j] = 0;
}

/* The page that holds a position, as a row of [p 64]; -1: it lies nowhere. */
static int64_t page_at(const ig_cpu_launch *l, int64_t sequence, int64_t position) {
    const params *p = l->params;
    const int64_t page = position / KEYS;
    if (page >= p->table_width) return -1;
    const int32_t number = ((const int32_t *)l->at[TABLE])[sequence * p->table_width + page];
    return number < 0 || number >= p->n_pages ? -1 : number * (int64_t)KEYS;
}

typedef struct kv_range {
    int64_t sequence, first, end; /* -1: none; the positions that are seen */
} kv_range;

static kv_range kv_range_of(const ig_cpu_launch *l, int64_t row) {
    const params *p = l->params;
    const int64_t end = (int64_t)((const int32_t *)l->at[POSITION])[row] + 1;
    kv_range s = {.sequence = ((const int32_t *)l->at[SEQUENCE])[row], .end = end};
    if (s.sequence < 0 || s.sequence >= p->sequences) s.sequence = -1;
    if (p->window > 0 && end > p->window) s.first = end - p->window;
    s.end = min_i64(end, p->table_width * KEYS);
    return s;
}

/* The pages of a span of a sequence, of which a walk sees the rows from position `first` on. */
static void find_pages(const walk *w, int64_t sequence, int64_t first, int64_t span, side *k,
                       side *v) {
    const params *p = w->l->params;
    const char *keys = w->l->at[K] + w->group * p->k.row_bytes;
    const char *values = w->l->at[V] + w->group * p->v.row_bytes;
    const int64_t begin = first > span * KV_SPAN ? (first - span * KV_SPAN) / KV_BLOCK : 0;
    *k = (side){.pages = &p->k, .begin = begin * KV_BLOCK};
    *v = (side){.pages = &p->v, .begin = begin * KV_BLOCK};
    for (int64_t i = 0; i < SPAN_PAGES; i++) {
        const int64_t row = page_at(w->l, sequence, span * KV_SPAN + i * KEYS);
        if (row < 0) continue;
        k->page[i] = keys + row * p->k.step_bytes;
        v->page[i] = values + row * p->v.step_bytes;
    }
}

/* The keys that each row sees of a span, up to the first page that lies nowhere. */
static void find_ranges(walk *w, int64_t span, const side *k) {
    for (int64_t r = 0; r < w->rows; r++) {
        w->low[r] = w->first[r] > span * KV_SPAN ? w->first[r] - span * KV_SPAN : 0;
        const int64_t end = min_i64(w->end[r] - span * KV_SPAN, KV_SPAN);
        int64_t page = w->low[r] / KEYS;
        while (page * KEYS < end && k->page[page]) page++;
        w->high[r] = min_i64(end, page * KEYS);
    }
}

/* The queries of a walk, once its first key is found. */
static void find_queries(walk *w) {
    const params *p = w->l->params;
    for (int64_t i = 0; i < w->rows * w->heads && !w->found; i++) {
        const int64_t row = w->row + i / w->heads, head = w->head + i % w->heads;
        w->q[i] = (const float *)w->l->at[Q] + (row * p->h + head) * p->k.width;
        if (p->k.stored->fixed24) fixed24_row(w->q[i], p->k.width, w->fixed[i]);
    }
    w->found = true;
}

/* What a walk comes to after a span: the next one of its sequence, or the first of the next row,
 * whose heads this unit or the next one takes. */
static void find_next_pages(const walk *w, int64_t span, side *k, side *v) {
    const params *p = w->l->params;
    const int64_t row = w->row + w->rows;
    kv_range next = {.sequence = -1};
    if (span + 1 < w->span_end || w->groups < p->g) {
        next = (kv_range){.sequence = w->sequence, .first = (span + 1) * KV_SPAN};
    } else if (row < p->rows) {
        next = kv_range_of(w->l, row);
    }
    if (next.sequence >= 0)
        find_pages(w, next.sequence, next.first, next.first / KV_SPAN, k, v);
    else
        *k = *v = (side){.pages = &p->k};
}

/* Each query begins with nothing seen. */
static void begin_queries(walk *w) {
    const params *p = w->l->params;
    for (int64_t r = 0; r < w->rows; r++)
        for (int64_t i = 0; i < w->heads; i++) {
            float *state = state_of(w, r, i);
            memset(state, 0, (size_t)state_floats(p) * sizeof *state);
            w->values[r * w->heads + i] = state + STATE_HEAD;
        }
}

/* What the rows of a walk find in a span. */
static void walk_span(walk *w, int64_t span) {
    const params *p = w->l->params;
    side k, v, next_k, next_v;
    int64_t low = KV_SPAN, high = 0;
    begin_queries(w);
    find_pages(w, w->sequence, span * KV_SPAN, span, &k, &v);
    find_ranges(w, span, &k);
    for (int64_t r = 0; r < w->rows; r++) {
        if (w->low[r] >= w->high[r]) continue;
        low = min_i64(low, w->low[r]);
        if (w->high[r] > high) high = w->high[r];
    }
    if (low >= high) return;
    find_queries(w);
    find_next_pages(w, span, &next_k, &next_v);
    k.then = &v, v.then = &next_k;
    v.begin = low / KV_BLOCK * KV_BLOCK;
    run_side(w, &k, low, high, ALL);
    for (int64_t r = 0; r < w->rows; r++)
        for (int64_t i = 0; i < w->heads && w->low[r] < w->high[r]; i++) {
            float *score = w->score[r * w->heads + i];
            weigh(p, state_of(w, r, i), score + w->low[r], w->high[r] - w->low[r]);
            clear_beside(score, w->low[r], w->high[r]);
        }
    run_side(w, &v, low, high, SEEN);
}

/* Puts what a later span has found to what those before have. */
static void fold(float *into, const float *from, int64_t e) {
    const float before = into[LARGEST];
    if (from[SUM] == 0) return;
    if (into[SUM] == 0) {
        memcpy(into, from, (size_t)(STATE_HEAD + e) * sizeof *into);
        return;
    }
    if (from[LARGEST] > before) into[LARGEST] = from[LARGEST];
    const float keep = float_exp(before - into[LARGEST]);
    const float take = float_exp(from[LARGEST] - into[LARGEST]);
    into[SUM] = vf_first(vf_fma(vf_set(from[SUM]), vf_set(take), vf_set(into[SUM] * keep)));
    for (int64_t i = 0; i < e; i += VF_LANES) {
        const int64_t n = min_i64(e - i, VF_LANES);
        const vf y = vf_mul(vf_load_first(into + STATE_HEAD + i, n), vf_set(keep));
        const vf x = vf_load_first(from + STATE_HEAD + i, n);
        vf_store_first(into + STATE_HEAD + i, vf_fma(x, vf_set(take), y), n);
    }
}

/* What values are taken by: 1 by the sum, of which a sink is a part; 0 where nothing was seen. */
static float share_of(const ig_cpu_launch *l, int64_t head, const float *state) {
    const params *p = l->params;
    if (!state || state[SUM] == 0) return 0;
    if (!p->has_sinks) return 1 / state[SUM];
    const float sink = ((const float *)l->at[SINKS])[head];
    return 1 / (state[SUM] + float_exp(sink - state[LARGEST]));
}

/* The row of the result. */
static void store_output(const ig_cpu_launch *l, int64_t row, int64_t head, const float *state) {
    const params *p = l->params;
    const float share = share_of(l, head, state);
    float *out = (float *)l->at[SINKS + p->has_sinks] + (row * p->h + head) * p->v.width;
    for (int64_t c = 0; c < p->v.width; c++)
        out[c] = share == 0 ? 0 : state[STATE_HEAD + c] * share;
}

/* ---- who walks ---- */

/* As far as pages are there without a gap. */
static int64_t reach(const ig_cpu_launch *l, const kv_range *s) {
    for (int64_t at = s->first; at < s->end; at = at / KEYS * KEYS + KEYS)
        if (page_at(l, s->sequence, at) < 0) return at;
    return s->end;
}

/* The rows from w->row on that walk together: of its sequence, and in the same block of rows.  A
 * row of none is alone. */
static void gather(walk *w) {
    const params *p = w->l->params;
    const int64_t end = min_i64((w->row / p->block + 1) * p->block, p->rows);
    w->sequence = kv_range_of(w->l, w->row).sequence;
    w->span = p->spans;
    w->span_end = 0;
    for (w->rows = 0; w->row + w->rows < end; w->rows++) {
        const kv_range s = kv_range_of(w->l, w->row + w->rows);
        if (w->rows > 0 && (s.sequence != w->sequence || s.sequence < 0)) break;
        w->first[w->rows] = s.first;
        w->end[w->rows] = s.end;
        if (s.sequence < 0 || s.first >= s.end) continue;
        w->span = min_i64(w->span, s.first / KV_SPAN);
        if ((s.end - 1) / KV_SPAN >= w->span_end) w->span_end = (s.end - 1) / KV_SPAN + 1;
    }
}

/* The spans that the rows of a walk see. */
static int64_t spans_of(const walk *w) { return w->span < w->span_end ? w->span_end - w->span : 0; }

/* One span into its slot. */
static void walk_one(walk *w, int64_t span) {
    w->slot = span;
    walk_span(w, span);
}

/* All spans, each folded into the first slot. */
static void walk_all(walk *w) {
    const params *p = w->l->params;
    int64_t begin = p->spans, end = 0;
    for (int64_t r = 0; r < w->rows && w->sequence >= 0; r++) {
        const kv_range s = {w->sequence, w->first[r], w->end[r]};
        w->end[r] = reach(w->l, &s);
        if (w->first[r] >= w->end[r]) continue;
        begin = min_i64(begin, w->first[r] / KV_SPAN);
        if ((w->end[r] - 1) / KV_SPAN >= end) end = (w->end[r] - 1) / KV_SPAN + 1;
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
            store_output(w->l, r, head, begin < end ? state_at(w->l, r, 0, head) : NULL);
}

/* The rows of a walk for some heads of keys: through one span, or (-1) through all. */
static void walk_heads(walk *w, int64_t group, int64_t groups, int64_t span) {
    const params *p = w->l->params;
    const int64_t each = p->h / p->g, end = (group + groups) * each;
    w->group = group;
    w->groups = groups;
    for (w->head = group * each; w->head < end; w->head += w->heads) {
        w->heads = min_i64(end - w->head, MOST_HEADS);
        w->each = w->heads / w->groups;
        w->found = false;
        if (span < 0)
            walk_all(w);
        else
            walk_one(w, span);
    }
}

/* ---- small batches: a unit is a share of the spans that their rows see ---- */

/* The spans that all rows see. */
static int64_t all_spans(const ig_cpu_launch *l) {
    const params *p = l->params;
    int64_t all = 0;
    walk w;
    w.l = l;
    for (w.row = 0; w.row < p->rows; w.row += w.rows) {
        gather(&w);
        all += spans_of(&w);
    }
    return all;
}

/*
 * Items are counted through all rows that walk together, their spans, and bundles of heads of keys.
 * A bundle is all heads, so that memory is read in the order it lies in, or one where spans are
 * few.
 *
 *     rows      0      1           2 (none)     3, 4
 *     spans     0      0  1  2                  0  1        6 spans, 3 shares
 *     share     0 .... 0  1  1                  2  2
 */
static void attend_share(const ig_cpu_launch *l, int64_t share, int64_t all) {
    const params *p = l->params;
    const bool splits = all < FEW_SPANS || p->h > MOST_HEADS;
    const int64_t bundles = splits ? p->g : 1, groups = p->g / bundles;
    const int64_t begin = all * bundles * share / p->shares;
    const int64_t end = all * bundles * (share + 1) / p->shares;
    int64_t item = 0; /* the first of the walk */
    walk w;
    w.l = l;
    for (w.row = 0; w.row < p->rows && item < end; w.row += w.rows) {
        gather(&w);
        const int64_t next = item + spans_of(&w) * bundles;
        for (int64_t i = item > begin ? item : begin; i < min_i64(next, end); i++)
            walk_heads(&w, (i - item) % bundles * groups, groups, w.span + (i - item) / bundles);
        item = next;
    }
}

static void attend_shares(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const int64_t all = begin < end ? all_spans(l) : 0;
    for (int64_t share = begin; share < end; share++) attend_share(l, share, all);
}

/* Another thread has written what is folded, and its caches are far. */
static void prefetch_state(const ig_cpu_launch *l, int64_t row, int64_t slot, int64_t head) {
    const params *p = l->params;
    const float *state = state_at(l, row, slot < p->slots ? slot : 0, head);
    for (int64_t i = 0; i < state_floats(p); i += STATE_HEAD) __builtin_prefetch(state + i);
}

/* A unit is a query, whose spans have all been walked. */
static void fold_spans(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t row = unit / p->h, head = unit % p->h;
        const kv_range s = kv_range_of(l, row);
        const int64_t until = s.sequence < 0 ? 0 : reach(l, &s), span = s.first / KV_SPAN;
        float *state = s.first < until ? state_at(l, row, span, head) : NULL;
        for (int64_t i = span + 1; state && i * KV_SPAN < until; i++) {
            prefetch_state(l, row, i + FOLD_PREFETCH, head);
            fold(state, state_at(l, row, i, head), p->v.width);
        }
        store_output(l, row, head, state);
    }
}

/* ---- many rows ---- */

/* A unit is a row and a head of keys.  The first row of those that walk together takes them all,
 * and a row that walks alone among many takes all heads, for the order of memory. */
static void attend_rows(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    walk w;
    w.l = l;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t row = unit / p->g, group = unit % p->g;
        const int64_t sequence = kv_range_of(l, row).sequence;
        if (row % p->block != 0 && sequence >= 0 && kv_range_of(l, row - 1).sequence == sequence)
            continue;
        w.row = row;
        gather(&w);
        if (w.rows > 1 || p->rows < MANY_ROWS || p->h > MOST_HEADS)
            walk_heads(&w, group, 1, -1);
        else if (group == 0)
            walk_heads(&w, 0, p->g, -1);
    }
}

static void attention_paged(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    if (p->shares > 0)
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
    out->stored = stored_as(dtype, dim[3]);
    return ig_operand_is_packed(o) && out->stored && dim[3] <= MOST_WIDTH;
}

/* Units are few or many by the shape alone. */
static void paged_split(params *p, ig_cpu_setup *out) {
    const int64_t each = p->h / p->g, key_cost = sat_mul(each, p->k.width + p->v.width);
    p->spans = (p->table_width * KEYS + KV_SPAN - 1) / KV_SPAN;
    p->slots = 2;
    p->block = min_i64(QUERIES / min_i64(each, MOST_HEADS), MOST_ROWS);
    out->units = p->rows * p->g;
    out->cost = sat_mul(sat_mul(p->table_width, KEYS), key_cost);
    if ((p->rows + p->block - 1) / p->block * p->g < FEW_UNITS && p->spans > 2) {
        if (p->h <= MOST_HEADS) p->block = min_i64(QUERIES / p->h, MOST_ROWS);
        p->slots = p->spans;
        p->shares = min_i64(sat_mul(p->rows, p->spans), SHARES);
        out->prologue = attend_shares;
        out->prologue_units = p->shares;
        out->prologue_cost = sat_mul(KV_SPAN, key_cost);
        out->units = p->rows * p->h;
        out->cost = sat_mul(p->spans, p->v.width);
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
        if (step->in[i].desc.dtype != (i < SINKS ? IG_I32 : IG_F32) ||
            !ig_operand_is_packed(&step->in[i]))
            return false;
    const int64_t *q = step->in[Q].desc.shape.dim, *v = step->in[V].desc.shape.dim;
    p.rows = q[0], p.h = q[1], p.g = v[2], p.n_pages = v[0];
    p.sequences = step->in[TABLE].desc.shape.dim[0];
    p.table_width = step->in[TABLE].desc.shape.dim[1];
    p.scale = a.scale == 0 ? (float)(1 / sqrt((double)q[2])) : a.scale;
    p.softcap = a.softcap;
    p.window = a.window;
    p.has_sinks = step->n_in > SINKS;
    paged_split(&p, out);
    return keep_params(out, &p, sizeof p);
}

const ig_cpu_entry IG_CPU_LIST(paged)[] = {
    {IG_OP_ATTENTION_PAGED, IG_F32, BY_UNIT, paged_setup, attention_paged},
    {0},
};
