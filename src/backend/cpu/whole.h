/*
 * whole.h - products of activations and stored weights in whole numbers.
 *
 * Activations are rounded to bytes, 32 at a time with a scale of their own, or 256 where
 * weights are K blocks.  A block of products is then summed exactly, in integers, and goes
 * into the result by
 *
 *     sum = sum + (weight scale * activation scale) * whole        one scale
 *     sum = sum + min * (activation scale * sum of bytes)          with a min
 *
 * Of K blocks, whole numbers are times their small scales, and added up for all 256:
 *
 *     sum = sum + (weight scale * activation scale) * whole
 *     sum = sum + (min * activation scale) * mins                  whole as well
 *
 * That goes block after block, in lanes of their own for each column.  The chain is all there
 * is to a result, so its bits do not depend on how many rows there are, how the work
 * is cut, or how the weights came to the multiplier:
 *
 *     few rows, packed     from the packed group into registers, and all rows through
 *                          them; many groups at once: memory is what counts, and each
 *                          group is a stream of its own
 *     else                 into a panel, from the packed group or the file's blocks, and
 *                          all rows through it, a tile at a time
 */
#ifndef IG_BACKEND_CPU_WHOLE_H
#define IG_BACKEND_CPU_WHOLE_H

#include "backend/cpu/finish.h"
#include "backend/cpu/packed.h"
#include "backend/cpu/rounded.h"
#include "backend/cpu/vec_dot.h"

/* ---- blocks ---- */

IG_INLINE vi vi_repeat(const void *four_bytes) {
    int32_t x;
    memcpy(&x, four_bytes, sizeof x);
    return vi_set(x);
}

/* The whole number that one half of a block, or all of it, begins with. */
IG_INLINE vi whole_begin(const panel_kind kind, const rounded *x, const int half) {
    return kind_has_min(kind) ? vi_set(0) : vi_repeat(&x->rest[half]);
}

IG_INLINE vf add_min(const rounded *x, vf min, vf sum) {
    return vf_fma(min, vf_set(float_of_bits(x->rest[0])), sum);
}

IG_INLINE vf add_whole(const rounded *x, vi whole, vf scale, vf sum) {
    return vf_fma(vi_to_float(whole), vf_mul(scale, vf_set(x->scale)), sum);
}

/* The whole number of a K block, and of its mins: rest h of the activations is `stride` behind the
 * one before it. */
IG_INLINE vf add_k(const panel_kind kind, const float *scale, const uint32_t *rest,
                   const int64_t stride, vi whole, const k_scales_of *s, vf sum) {
    const vf by = vf_set(*scale);
    vi mins = vi_set(0);
    sum = vf_fma(vi_to_float(whole), vf_mul(s->scale, by), sum);
    if (!kind_has_min(kind)) return sum;
    IG_UNROLL_COLUMNS
    for (int h = 0; h < PARTS; h += mins_apart(kind))
        mins = vi_dot_words(mins, s->small_mins[h], vi_repeat(&rest[h * stride]));
    return vf_fma(vi_to_float(mins), vf_mul(s->min, by), sum);
}

IG_INLINE vf add_rounded_k(const panel_kind kind, const rounded *x, vi whole, const k_scales_of *s,
                           vf sum) {
    return add_k(kind, &x->scale, x->rest, sizeof *x / sizeof *x->rest, whole, s, sum);
}

/*
 * Steps whose products fit into 16 bits when they are summed in pairs: two times a byte times 127
 * each.  Bytes of types with two small scales go up to 63, of other narrow ones to 31, and those of
 * wide ones are multiplied in halves of four bits.
 */
enum { RUN_SIXES = 2, RUN_FIVES = 4, RUN_FOURS = 8, WIDE_ROWS = 2 /* at once */ };
static_assert(RUN_SIXES * 2 * 63 * 127 <= INT16_MAX && RUN_FIVES * 2 * 31 * 127 <= INT16_MAX &&
                  RUN_FOURS * 2 * 15 * 127 <= INT16_MAX,
              "no sum of pairs is cut off");

IG_INLINE vi low_bits(vi u) { return vi_and(u, vi_set(0x0f0f0f0f)); }
IG_INLINE vi high_bits(vi u) { return low_bits(vi_right(u, 4)); }

/* Adds the products of `count` steps of wide bytes, for some rows at once: halves of bytes are made
 * for all of them. */
IG_INLINE void dot_wide(vi *whole, const vi *w, const int8_t *const *q, const int count,
                        const int rows) {
    vi low[WIDE_ROWS], high[WIDE_ROWS];
    IG_UNROLL
    for (int r = 0; r < rows; r++) low[r] = high[r] = vi_set(0);
    IG_UNROLL
    for (int j = 0; j < count; j++) {
        const vi first = low_bits(w[j]), second = high_bits(w[j]);
        IG_UNROLL
        for (int r = 0; r < rows; r++) {
            const vi bytes = vi_repeat(q[r] + 4 * j);
            low[r] = vi_dot_pairs(low[r], first, bytes);
            high[r] = vi_dot_pairs(high[r], second, bytes);
            if (rows > 1) vi_hide(&low[r]);  /* or a compiler puts sums off, and */
            if (rows > 1) vi_hide(&high[r]); /* all products of the block in memory */
        }
    }
    IG_UNROLL
    for (int r = 0; r < rows; r++)
        whole[r] = vi_add(whole[r], vi_add(vi_pairs_sum(low[r], 1), vi_pairs_sum(high[r], 16)));
}

/* The same of narrow ones. */
IG_INLINE vi dot_narrow(vi whole, const vi *w, const int8_t *q, const int count, const int most) {
    IG_UNROLL
    for (int first = 0; first < count; first += most) {
        vi pairs = vi_set(0);
        IG_UNROLL
        for (int j = first; j < first + most; j++)
            pairs = vi_dot_pairs(pairs, w[j], vi_repeat(q + 4 * j));
        whole = vi_add(whole, vi_pairs_sum(pairs, 1));
    }
    return whole;
}

IG_INLINE vi dot_in_pairs(vi whole, const vi *w, const int8_t *q, const int count, const int most,
                          const bool is_wide) {
    if (is_wide)
        dot_wide(&whole, w, &q, count, 1);
    else
        whole = dot_narrow(whole, w, q, count, most);
    return whole;
}

/* ---- tiles: a few rows times the columns of panels ---- */

enum {
    TILE_GROUPS = VF_LANES < 16 ? 1 : 2,
    TILE_VECTORS = TILE_GROUPS * PANEL_VECTORS,
    TILE_ROWS = VF_LANES < 16 ? 4 : 7,   /* at most; of K blocks, */
    TILE_ROWS_K = VF_LANES < 16 ? 4 : 6, /* which need more registers */
    TILE_COLUMNS = TILE_GROUPS * PANEL_COLUMNS,
    SHORT_PANEL_ROWS = 8, /* so few want panels that stay in the first cache */
};

/* Where the results of a tile go.  Between two panels of the same columns, sums wait there. */
typedef struct tile_out {
    float *y;
    int64_t y_row, columns;
    const float *bias;    /* or NULL */
    bool first, last;     /* panels */
    const uint8_t *ahead; /* what is fetched meanwhile, a line for each block */
} tile_out;

typedef vf tile_sums[TILE_ROWS][TILE_VECTORS];

/* Vector v of a line that panels have, the same line of each. */
#define OF_PANELS(line, v) \
    ((const float *)(const void *)p[(v) / PANEL_VECTORS]->line + (v) % PANEL_VECTORS * VF_LANES)
IG_INLINE vf tile_scale(const panel *const *p, int64_t b, const int v) {
    return vf_load(OF_PANELS(scale[b], v));
}

IG_INLINE vf tile_min(const panel *const *p, int64_t b, const int v) {
    return vf_load(OF_PANELS(min[b], v));
}

IG_INLINE vi tile_small(const panel *const *p, int64_t b, const int half, const int v) {
    return vf_bits(vf_load(OF_PANELS(small[b][half], v)));
}

/* Of the K block that begins at block b. */
IG_INLINE void tile_k_scales(const panel *const *p, int64_t b, const int v, const panel_kind kind,
                             k_scales_of *s) {
    s->scale = tile_scale(p, b / PARTS, v);
    if (!kind_has_min(kind)) return;
    s->min = tile_min(p, b / PARTS, v);
    IG_UNROLL_COLUMNS
    for (int h = 0; h < PARTS; h += mins_apart(kind))
        s->small_mins[h] = vf_bits(vf_load(OF_PANELS(small_mins[b + h], v)));
}

/* A block of wide bytes in pairs, one vector of columns after the other: they stay in registers for
 * all rows. */
IG_INLINE void add_steps_wide(const panel *const *p, const rounded *const *x, int64_t b,
                              vi (*whole)[TILE_VECTORS], const int rows) {
    IG_UNROLL_COLUMNS
    for (int v = 0; v < TILE_VECTORS; v++) {
        vi w[STEPS];
        IG_UNROLL_COLUMNS
        for (int s = 0; s < STEPS; s++)
            w[s] = line_at(p[v / PANEL_VECTORS]->w[b][s], v % PANEL_VECTORS);
        IG_UNROLL_COLUMNS
        for (int r = 0; r < rows; r++) {
            const int8_t *q = x[r][b].q;
            dot_wide(&whole[r][v], w, &q, STEPS, 1);
        }
    }
}

/* Steps [first, first + count) of a block, for all rows. */
IG_INLINE void add_steps(const panel *const *p, const rounded *const *x, int64_t b,
                         vi (*whole)[TILE_VECTORS], const int first, const int count,
                         const int rows, const bool is_wide) {
    if (DOT_IN_PAIRS && is_wide) {
        add_steps_wide(p, x, b, whole, rows);
        return;
    }
    IG_UNROLL_COLUMNS
    for (int s = first; s < first + count; s++) {
        vi u[TILE_VECTORS];
        IG_UNROLL_COLUMNS
        for (int v = 0; v < TILE_VECTORS; v++)
            u[v] = line_at(p[v / PANEL_VECTORS]->w[b][s], v % PANEL_VECTORS);
        IG_UNROLL_COLUMNS
        for (int r = 0; r < rows; r++) {
            const vi a = vi_repeat(x[r][b].q + 4 * s);
            IG_UNROLL_COLUMNS
            for (int v = 0; v < TILE_VECTORS; v++) whole[r][v] = vi_dot(whole[r][v], u[v], a);
        }
    }
}

IG_INLINE void begin_tile(const rounded *const *x, int64_t b, vi (*whole)[TILE_VECTORS],
                          const int half, const int rows, const panel_kind kind) {
    IG_UNROLL_COLUMNS
    for (int r = 0; r < rows; r++) {
        IG_UNROLL_COLUMNS
        for (int v = 0; v < TILE_VECTORS; v++) whole[r][v] = whole_begin(kind, &x[r][b], half);
    }
}

IG_INLINE void add_plain(const panel *const *p, const rounded *const *x, int64_t b,
                         vf (*sum)[TILE_VECTORS], const int rows, const panel_kind kind,
                         const bool is_wide) {
    vi whole[TILE_ROWS][TILE_VECTORS];
    begin_tile(x, b, whole, 0, rows, kind);
    add_steps(p, x, b, whole, 0, STEPS, rows, is_wide);
    IG_UNROLL_COLUMNS
    for (int r = 0; r < rows; r++) {
        IG_UNROLL_COLUMNS
        for (int v = 0; v < TILE_VECTORS; v++) {
            sum[r][v] = add_whole(&x[r][b], whole[r][v], tile_scale(p, b, v), sum[r][v]);
            if (kind == WITH_MIN) sum[r][v] = add_min(&x[r][b], tile_min(p, b, v), sum[r][v]);
        }
    }
}

/* Block b of a K block, times its small scales. */
IG_INLINE void add_small(const panel *const *p, const rounded *const *x, int64_t b,
                         vi (*all)[TILE_VECTORS], const int rows, const panel_kind kind,
                         const bool is_wide) {
    const int halves = kind_halves(kind), count = STEPS / halves;
    IG_UNROLL
    for (int half = 0; half < halves; half++) {
        vi whole[TILE_ROWS][TILE_VECTORS];
        begin_tile(x, b, whole, half, rows, kind);
        add_steps(p, x, b, whole, half * count, count, rows, is_wide);
        IG_UNROLL_COLUMNS
        for (int r = 0; r < rows; r++) {
            IG_UNROLL_COLUMNS
            for (int v = 0; v < TILE_VECTORS; v++)
                all[r][v] = vi_add(all[r][v], vi_mul(whole[r][v], tile_small(p, b, half, v)));
        }
    }
}

/* The K block that begins at block b; `ahead` is what is fetched meanwhile. */
IG_INLINE void add_tile_k(const panel *const *p, const rounded *const *x, int64_t b,
                          vf (*sum)[TILE_VECTORS], const int rows, const panel_kind kind,
                          const bool is_wide, const uint8_t *ahead) {
    vi all[TILE_ROWS][TILE_VECTORS];
    __asm__("" : "+m"(*(tile_sums *)sum)); /* they wait in memory, and leave registers to others */
    IG_UNROLL_COLUMNS
    for (int r = 0; r < rows; r++) {
        IG_UNROLL_COLUMNS
        for (int v = 0; v < TILE_VECTORS; v++) all[r][v] = vi_set(0);
    }
    for (int h = 0; h < PARTS; h++) {
        __builtin_prefetch(ahead + h * LINE, 0, 2);
        add_small(p, x, b + h, all, rows, kind, is_wide);
    }
    IG_UNROLL_COLUMNS
    for (int v = 0; v < TILE_VECTORS; v++) {
        k_scales_of s;
        tile_k_scales(p, b, v, kind, &s);
        IG_UNROLL_COLUMNS
        for (int r = 0; r < rows; r++)
            sum[r][v] = add_rounded_k(kind, &x[r][b], all[r][v], &s, sum[r][v]);
    }
}

IG_INLINE void load_sums(const tile_out *out, vf (*sum)[TILE_VECTORS], const int rows) {
    IG_UNROLL_COLUMNS
    for (int r = 0; r < rows; r++) {
        IG_UNROLL_COLUMNS
        for (int v = 0; v < TILE_VECTORS; v++) {
            const int64_t left = out->columns - v * VF_LANES;
            sum[r][v] = vf_set(0);
            if (!out->first && left > 0)
                sum[r][v] =
                    vf_load_first(out->y + r * out->y_row + v * VF_LANES, smaller(left, VF_LANES));
        }
    }
}

IG_INLINE void store_sums(const tile_out *out, vf (*sum)[TILE_VECTORS], const int rows) {
    IG_UNROLL_COLUMNS
    for (int v = 0; v < TILE_VECTORS; v++) {
        const int64_t left = smaller(out->columns - v * VF_LANES, VF_LANES);
        if (left <= 0) continue;
        IG_UNROLL_COLUMNS
        for (int r = 0; r < rows; r++) {
            vf y = sum[r][v];
            if (out->last && out->bias)
                y = vf_add(y, vf_load_first(out->bias + v * VF_LANES, left));
            vf_store_first(out->y + r * out->y_row + v * VF_LANES, y, left);
        }
    }
}

/* Adds `blocks` blocks of panels to the sums of some rows. */
IG_INLINE void add_tile(const panel *const *p, const rounded *const *x, int64_t blocks,
                        const tile_out *out, const int rows, const panel_kind kind,
                        const bool is_wide) {
    tile_sums sum;
    if (rows > (kind_is_k(kind) ? TILE_ROWS_K : TILE_ROWS)) return; /* never called */
    load_sums(out, sum, rows);
    for (int64_t b = 0; b < blocks && !kind_is_k(kind); b++) {
        __builtin_prefetch(out->ahead + b * LINE, 0, 2);
        add_plain(p, x, b, sum, rows, kind, is_wide);
    }
    for (int64_t b = 0; b < blocks && kind_is_k(kind); b += PARTS)
        add_tile_k(p, x, b, sum, rows, kind, is_wide, out->ahead + b * LINE);
    store_sums(out, sum, rows);
}

typedef void tile_fn(const panel *const *p, const rounded *const *x, int64_t blocks,
                     const tile_out *out);

#define TILE(name, rows, kind, is_wide)                                                       \
    static void name##_##rows(const panel *const *p, const rounded *const *x, int64_t blocks, \
                              const tile_out *out) {                                          \
        add_tile(p, x, blocks, out, rows, kind, is_wide);                                     \
    }
#define TILES(name, kind, is_wide) \
    TILE(name, 1, kind, is_wide)   \
    TILE(name, 2, kind, is_wide)   \
    TILE(name, 3, kind, is_wide)   \
    TILE(name, 4, kind, is_wide)   \
    TILE(name, 5, kind, is_wide) TILE(name, 6, kind, is_wide) TILE(name, 7, kind, is_wide)
#define TILE_NAMES(name) \
    { name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7 }

TILES(one_scale, ONE_SCALE, false)
TILES(wide, ONE_SCALE, true)
TILES(with_min, WITH_MIN, false)
TILES(k_one, K_ONE, true)
TILES(k_min, K_MIN, false)
TILES(k_two, K_TWO, false)
TILES(k_two_mins, K_TWO_MINS, false)

/* [kind, or the last for wide bytes with one scale][rows - 1] */
static tile_fn *const tiles[][7] = {
    [ONE_SCALE] = TILE_NAMES(one_scale), [WITH_MIN] = TILE_NAMES(with_min),
    [K_ONE] = TILE_NAMES(k_one),         [K_MIN] = TILE_NAMES(k_min),
    [K_TWO] = TILE_NAMES(k_two),         [K_TWO_MINS] = TILE_NAMES(k_two_mins),
    [K_TWO_MINS + 1] = TILE_NAMES(wide),
};

/* ---- few rows: packed groups into registers ---- */

enum {
    FEW_AT_ONCE = 32,                /* rows, at most */
    STREAMS = VF_LANES < 16 ? 4 : 8, /* groups at once, for one row: as registers have room for, */
    ROUNDS = 4,                      /* and at most so many behind each other in a stream */
    STREAMS_OF_SEVERAL = 4,          /* for more rows */
    FETCH_BYTES = 8192,              /* under way in all streams */
    GROUPS_IN_REGISTERS = VF_LANES < 16 ? 1 : 2,
};

/* Rows that go this way.  With 8 lanes there are too few registers for a tile, and all rows do. */
static inline bool is_few(int64_t rows) { return VF_LANES == 8 || rows <= FEW_AT_ONCE; }

/* What some groups have for a block, opened: vector v of each. */
typedef struct open_blocks {
    vi w[GROUPS_IN_REGISTERS][STEPS];
    block_scales s[GROUPS_IN_REGISTERS];
} open_blocks;

/* The whole numbers of one half of a block, or all of it.  Groups share what is read of the row. */
IG_INLINE void dot_groups(const ig_dtype type, const open_blocks *o, const rounded *x, vi *whole,
                          const int half, const int count, const int groups) {
    const panel_kind kind = panel_types[type].kind;
    IG_UNROLL
    for (int g = 0; g < groups; g++) {
        whole[g] = whole_begin(kind, x, half);
        if (DOT_IN_PAIRS)
            whole[g] =
                dot_in_pairs(whole[g], o->w[g] + half * count, x->q + half * count * 4, count,
                             kind >= K_TWO ? RUN_SIXES : RUN_FIVES, panel_types[type].is_wide);
    }
    IG_UNROLL
    for (int j = half * count; j < (half + 1) * count && !DOT_IN_PAIRS; j++) {
        const vi bytes = vi_repeat(x->q + 4 * j);
        IG_UNROLL
        for (int g = 0; g < groups; g++) whole[g] = vi_dot(whole[g], o->w[g][j], bytes);
    }
}

/* Adds a plain block of one row, times groups that were opened, to the sum of each. */
IG_INLINE void add_block(const ig_dtype type, const open_blocks *o, const rounded *x, vf *sum,
                         const int groups) {
    vi whole[GROUPS_IN_REGISTERS];
    dot_groups(type, o, x, whole, 0, STEPS, groups);
    IG_UNROLL
    for (int g = 0; g < groups; g++) {
        sum[g] = add_whole(x, whole[g], o->s[g].scale, sum[g]);
        if (panel_types[type].kind == WITH_MIN) sum[g] = add_min(x, o->s[g].min, sum[g]);
    }
}

/* The same of a block of K, to the whole number of each. */
IG_INLINE void add_block_k(const ig_dtype type, const open_blocks *o, const rounded *x, vi *all,
                           const int groups) {
    const int halves = kind_halves(panel_types[type].kind);
    IG_UNROLL
    for (int half = 0; half < halves; half++) {
        vi whole[GROUPS_IN_REGISTERS];
        dot_groups(type, o, x, whole, half, STEPS / halves, groups);
        IG_UNROLL
        for (int g = 0; g < groups; g++)
            all[g] = vi_add(all[g], vi_mul(whole[g], o->s[g].small[half]));
    }
}

/* How far from block b of a group lies what is fetched meanwhile, in each of its streams.  Behind
 * the end of the group, a stream goes on `jump` bytes further. */
IG_INLINE int64_t fetch_from(const ig_dtype type, int64_t b, int64_t blocks, const int streams,
                             int64_t jump) {
    const int64_t far = FETCH_BYTES / streams;
    return far + (b + far / packed_types[type].block >= blocks ? jump : 0);
}

/* To the second cache: the first can wait for a few lines only at a time. */
IG_INLINE void fetch(const uint8_t *p, const int bytes) {
    IG_UNROLL_COLUMNS
    for (int i = 0; i < bytes; i += LINE) __builtin_prefetch(p + i, 0, 2);
}

/* Opens block b of some groups.  What lies `ahead` of it is fetched. */
IG_INLINE void open_groups(const ig_dtype type, const uint8_t *w, int64_t group_bytes, int64_t b,
                           const int v, open_blocks *o, const int groups, int64_t ahead) {
    const packed_type *t = &packed_types[type];
    const int64_t h = b % t->unit;
    IG_UNROLL
    for (int g = 0; g < groups; g++) {
        const uint8_t *unit = w + g * group_bytes + b / t->unit * packed_unit_bytes(type);
        if (v == 0 && h == 0) fetch(unit + ahead, t->head);
        if (v == 0) fetch(unit + ahead + t->head + h * t->block, t->block);
        open_bytes(type, unit + t->head + h * t->block, v, o->w[g]);
        open_scales(type, unit, h, v, &o->s[g]);
    }
}

/* Whether block b is the last of a K block; and then, what that adds to the sum of a group. */
IG_INLINE bool ends_k(const panel_kind kind, int64_t b) {
    return kind_is_k(kind) && b % PARTS == PARTS - 1;
}

IG_INLINE vf end_k(const ig_dtype type, const uint8_t *group, int64_t b, const int v,
                   const rounded *x, vi all, vf sum) {
    k_scales_of s;
    open_k_scales(type, group + b / PARTS * packed_unit_bytes(type), v, &s);
    return add_rounded_k(panel_types[type].kind, x, all, &s, sum);
}

/* A group of each stream, `stream_bytes` apart, times one row, whose sums stay in registers. */
IG_INLINE void add_one_row(const ig_dtype type, const uint8_t *w, int64_t stream_bytes,
                           int64_t jump, int64_t blocks, const rounded *x, float *sums,
                           const int streams) {
    const panel_kind kind = panel_types[type].kind;
    vf sum[STREAMS][PANEL_VECTORS];
    vi all[STREAMS][PANEL_VECTORS];
    if (VF_LANES == 1) return; /* plain C has no use for it, and never comes here */
    IG_UNROLL_COLUMNS
    for (int g = 0; g < streams; g++) {
        IG_UNROLL_COLUMNS
        for (int v = 0; v < PANEL_VECTORS; v++) {
            sum[g][v] = vf_set(0);
            all[g][v] = vi_set(0);
        }
    }
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t ahead = fetch_from(type, b, blocks, streams, jump);
        if (kind_is_k(kind)) __asm__("" : "+m"(sum)); /* as in tiles */
        IG_UNROLL_COLUMNS
        for (int g = 0; g < streams; g++) {
            IG_UNROLL_COLUMNS
            for (int v = 0; v < PANEL_VECTORS; v++) {
                open_blocks o;
                open_groups(type, w + g * stream_bytes, 0, b, v, &o, 1, ahead);
                if (!kind_is_k(kind)) add_block(type, &o, &x[b], &sum[g][v], 1);
                if (kind_is_k(kind)) add_block_k(type, &o, &x[b], &all[g][v], 1);
                if (!ends_k(kind, b)) continue;
                sum[g][v] = end_k(type, w + g * stream_bytes, b, v, x + b - (PARTS - 1), all[g][v],
                                  sum[g][v]);
                all[g][v] = vi_set(0);
            }
        }
    }
    IG_UNROLL_COLUMNS
    for (int g = 0; g < streams; g++) {
        IG_UNROLL_COLUMNS
        for (int v = 0; v < PANEL_VECTORS; v++)
            vf_store(sums + g * PANEL_COLUMNS + v * VF_LANES, sum[g][v]);
    }
}

/* Some rows of activations, `stride` blocks apart. */
typedef struct rounded_rows {
    const rounded *x;
    int64_t stride, count;
} rounded_rows;

/* WIDE_ROWS rows at once, times groups of wide bytes that have one scale. */
IG_INLINE void add_wide_rows(const open_blocks *o, const rounded *x, int64_t stride, float *sums,
                             int64_t columns, const int groups) {
    IG_UNROLL
    for (int g = 0; g < groups; g++) {
        vi whole[WIDE_ROWS];
        const int8_t *q[WIDE_ROWS];
        IG_UNROLL
        for (int r = 0; r < WIDE_ROWS; r++) {
            whole[r] = whole_begin(ONE_SCALE, x + r * stride, 0);
            q[r] = x[r * stride].q;
        }
        dot_wide(whole, o->w[g], q, STEPS, WIDE_ROWS);
        IG_UNROLL
        for (int r = 0; r < WIDE_ROWS; r++) {
            float *sum = sums + r * columns + g * PANEL_COLUMNS;
            vf_store(sum, add_whole(x + r * stride, whole[r], o->s[g].scale, vf_load(sum)));
        }
    }
}

/* Block b of some groups, times all rows. */
IG_INLINE void add_block_of_rows(const ig_dtype type, const open_blocks *o, int64_t b,
                                 const rounded_rows *rows, float *sums, int64_t columns,
                                 const int groups) {
    const int64_t count = rows->count, stride = rows->stride;
    const rounded *x = rows->x + b;
    int64_t r = 0;
    if (DOT_IN_PAIRS && panel_types[type].is_wide && !kind_is_k(panel_types[type].kind))
        for (; r + WIDE_ROWS <= count; r += WIDE_ROWS)
            add_wide_rows(o, x + r * stride, stride, sums + r * columns, columns, groups);
    for (; r < count; r++) {
        vf sum[GROUPS_IN_REGISTERS];
        IG_UNROLL
        for (int g = 0; g < groups; g++) sum[g] = vf_load(sums + r * columns + g * PANEL_COLUMNS);
        add_block(type, o, x + r * stride, sum, groups);
        IG_UNROLL
        for (int g = 0; g < groups; g++) vf_store(sums + r * columns + g * PANEL_COLUMNS, sum[g]);
    }
}

/* The same of K: whole numbers wait for the last block, then they go to the sums. */
IG_INLINE void add_block_of_rows_k(const ig_dtype type, const open_blocks *o, int64_t b,
                                   const rounded_rows *rows, int32_t *wholes, int64_t columns,
                                   const int groups) {
    for (int64_t r = 0; r < rows->count; r++) {
        vi all[GROUPS_IN_REGISTERS];
        IG_UNROLL
        for (int g = 0; g < groups; g++)
            all[g] = b % PARTS == 0 ? vi_set(0) : vi_load(wholes + r * columns + g * PANEL_COLUMNS);
        add_block_k(type, o, rows->x + b + r * rows->stride, all, groups);
        IG_UNROLL
        for (int g = 0; g < groups; g++)
            put_ints(all[g], wholes + r * columns + g * PANEL_COLUMNS, 0);
    }
}

IG_INLINE void end_rows_k(const ig_dtype type, const uint8_t *group, int64_t b, const int v,
                          const rounded_rows *rows, const int32_t *wholes, float *sums,
                          int64_t columns) {
    k_scales_of s;
    open_k_scales(type, group + b / PARTS * packed_unit_bytes(type), v, &s);
    for (int64_t r = 0; r < rows->count; r++) {
        const rounded *x = rows->x + b - (PARTS - 1) + r * rows->stride;
        float *sum = sums + r * columns;
        vf_store(sum, add_rounded_k(panel_types[type].kind, x, vi_load(wholes + r * columns), &s,
                                    vf_load(sum)));
    }
}

/* Where several rows have their sums, [rows][groups * PANEL_COLUMNS], and the whole numbers of a K
 * block. */
typedef struct few_sums {
    _Alignas(64) float sums[FEW_AT_ONCE * STREAMS_OF_SEVERAL * PANEL_COLUMNS];
    _Alignas(64) int32_t wholes[FEW_AT_ONCE * STREAMS_OF_SEVERAL * PANEL_COLUMNS];
} few_sums;

/* Block b of some groups from number g on, times all rows. */
IG_INLINE void add_groups(const ig_dtype type, const uint8_t *w, int64_t group_bytes, int64_t b,
                          const rounded_rows *rows, few_sums *to, int64_t g, int64_t columns,
                          const int groups, int64_t ahead) {
    const panel_kind kind = panel_types[type].kind;
    w += g * group_bytes;
    IG_UNROLL_COLUMNS
    for (int v = 0; v < PANEL_VECTORS; v++) {
        open_blocks o;
        float *sums = to->sums + g * PANEL_COLUMNS + v * VF_LANES;
        int32_t *wholes = to->wholes + g * PANEL_COLUMNS + v * VF_LANES;
        open_groups(type, w, group_bytes, b, v, &o, groups, ahead);
        if (!kind_is_k(kind)) add_block_of_rows(type, &o, b, rows, sums, columns, groups);
        if (kind_is_k(kind)) add_block_of_rows_k(type, &o, b, rows, wholes, columns, groups);
        if (!ends_k(kind, b)) continue;
        IG_UNROLL
        for (int i = 0; i < groups; i++)
            end_rows_k(type, w + i * group_bytes, b, v, rows, wholes + i * PANEL_COLUMNS,
                       sums + i * PANEL_COLUMNS, columns);
    }
}

/* The same times several rows: a block is opened once for all of them, while the next ones are
 * under way, and the sums wait in the first cache. */
IG_INLINE void add_rows(const ig_dtype type, const uint8_t *w, int64_t group_bytes, int64_t blocks,
                        const rounded_rows *rows, few_sums *to, int64_t groups) {
    if (VF_LANES == 1) return;
    const int64_t columns = groups * PANEL_COLUMNS;
    memset(to->sums, 0, (size_t)(rows->count * columns) * sizeof *to->sums);
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t ahead =
            fetch_from(type, b, blocks, STREAMS_OF_SEVERAL, (groups - 1) * group_bytes);
        int64_t g = 0;
        for (; g + GROUPS_IN_REGISTERS <= groups; g += GROUPS_IN_REGISTERS)
            add_groups(type, w, group_bytes, b, rows, to, g, columns, GROUPS_IN_REGISTERS, ahead);
        for (; g < groups; g++) add_groups(type, w, group_bytes, b, rows, to, g, columns, 1, ahead);
    }
}

typedef void one_row_fn(const uint8_t *w, int64_t stream_bytes, int64_t jump, int64_t blocks,
                        const rounded *x, float *sums);
typedef void rows_fn(const uint8_t *w, int64_t group_bytes, int64_t blocks,
                     const rounded_rows *rows, few_sums *to, int64_t groups);
typedef void open_fn(const uint8_t *group, int64_t first, int64_t blocks, panel *p);

#define ONE_ROW(name, ID, streams)                                                                \
    static void name##_##ID(const uint8_t *w, int64_t stream_bytes, int64_t jump, int64_t blocks, \
                            const rounded *x, float *sums) {                                      \
        add_one_row(IG_##ID, w, stream_bytes, jump, blocks, x, sums, streams);                    \
    }
#define OF_TYPE(ID)                                                                        \
    ONE_ROW(streams_of, ID, STREAMS)                                                       \
    ONE_ROW(stream_of, ID, 1)                                                              \
    static void rows_##ID(const uint8_t *w, int64_t group_bytes, int64_t blocks,           \
                          const rounded_rows *rows, few_sums *to, int64_t groups) {        \
        add_rows(IG_##ID, w, group_bytes, blocks, rows, to, groups);                       \
    }                                                                                      \
    static void open_##ID(const uint8_t *group, int64_t first, int64_t blocks, panel *p) { \
        open_panel(IG_##ID, group, first, blocks, p);                                      \
    }

#define PACKED_TYPES(X) \
    X(Q4_0)             \
    X(Q4_1)             \
    X(Q5_0) X(Q5_1) X(Q8_0) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_NL) X(IQ4_XS) X(MXFP4)
PACKED_TYPES(OF_TYPE)

/* What there is for a type. */
static const struct {
    open_fn *open;
    one_row_fn *stream, *streams; /* one, or all of them */
    rows_fn *rows;
} packed_fns[IG_DTYPE_COUNT] = {
#define FNS(ID) [IG_##ID] = {open_##ID, stream_of_##ID, streams_of_##ID, rows_##ID},
    PACKED_TYPES(FNS)};

/* ---- products ---- */

/* Some rows times some columns. */
typedef struct whole_block {
    const rounded *x; /* the first row, */
    int64_t x_row;    /* and how far apart they are */
    int64_t rows;
    ig_dtype dtype; /* of the weights */
    bool is_packed;
    const char *w; /* the first column's row, and how far apart they lie, in bytes; */
    int64_t w_row; /* packed: the first group, and of groups */
    int64_t columns;
    int64_t blocks; /* of 32 elements along k */
    float *y;
    int64_t y_row;
    const float *bias; /* of these columns, or NULL */
    ending end;
} whole_block;

/* Sums of a row from column c on. */
static inline void put_sums(const whole_block *p, int64_t row, int64_t c, const float *sums,
                            int64_t count) {
    const int64_t columns = smaller(p->columns - c, count), at = row * p->y_row + c;
    float *y = p->y + at;
    for (int64_t k = 0; k < columns; k++) y[k] = p->bias ? sums[k] + p->bias[c + k] : sums[k];
    finish(ending_at(p->end, at), y, p->y_row, 1, columns);
}

/*
 * One row times the groups from number `first` on.  A stream goes through some that lie
 * behind each other: where one ends, the next has been fetched.
 *
 *     stream    0         1         2
 *     round   0 1 2     0 1 2     0 1 2   ...    the next ones begin behind the last stream
 */
static inline void one_row(const whole_block *p, int64_t first, int64_t rounds) {
    _Alignas(64) float sums[STREAMS * PANEL_COLUMNS];
    const int64_t stream_bytes = rounds * p->w_row;
    for (int64_t i = 0; i < rounds; i++) {
        const uint8_t *w = (const uint8_t *)p->w + (first + i) * p->w_row;
        const int64_t jump = i + 1 < rounds ? 0 : (STREAMS - 1) * stream_bytes;
        packed_fns[p->dtype].streams(w, stream_bytes, jump, p->blocks, p->x, sums);
        for (int64_t s = 0; s < STREAMS; s++)
            put_sums(p, 0, (first + s * rounds + i) * PANEL_COLUMNS, sums + s * PANEL_COLUMNS,
                     PANEL_COLUMNS);
    }
}

static inline void multiply_one(const whole_block *p) {
    const int64_t groups = (p->columns + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
    const int64_t rounds = groups / STREAMS;
    if (rounds > 0) one_row(p, 0, rounds);
    for (int64_t g = rounds * STREAMS; g < groups; g++) {
        _Alignas(64) float sums[PANEL_COLUMNS];
        packed_fns[p->dtype].stream((const uint8_t *)p->w + g * p->w_row, 0, 0, p->blocks, p->x,
                                    sums);
        put_sums(p, 0, g * PANEL_COLUMNS, sums, PANEL_COLUMNS);
    }
}

/* Some groups from number g on, times some rows. */
static inline void few_rows(const whole_block *p, int64_t g, int64_t groups, int64_t r,
                            int64_t count) {
    few_sums to;
    const rounded_rows rows = {p->x + r * p->x_row, p->x_row, count};
    packed_fns[p->dtype].rows((const uint8_t *)p->w + g * p->w_row, p->w_row, p->blocks, &rows, &to,
                              groups);
    for (int64_t i = 0; i < count; i++)
        put_sums(p, r + i, g * PANEL_COLUMNS, to.sums + i * groups * PANEL_COLUMNS,
                 groups * PANEL_COLUMNS);
}

/* All columns and rows, so many at a time. */
static inline void multiply_few(const whole_block *p) {
    const int64_t left = (p->columns + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
    const int64_t n_parts = (p->rows + FEW_AT_ONCE - 1) / FEW_AT_ONCE;
    for (int64_t g = 0, groups; g < left; g += groups) {
        groups = smaller(left - g, STREAMS_OF_SEVERAL);
        for (int64_t i = 0; i < n_parts; i++) {
            const int64_t r = p->rows * i / n_parts, end = p->rows * (i + 1) / n_parts;
            few_rows(p, g, groups, r, end - r);
        }
    }
}

typedef struct whole_room {
    panel panel[TILE_GROUPS];
    stage stage;
} whole_room;

/* Blocks [first, first + blocks) of the columns from c on, to panels. */
static inline void fill_panels(const whole_block *p, int64_t c, int64_t first, int64_t blocks,
                               const panel **to, whole_room *room) {
    for (int g = 0; g < TILE_GROUPS; g++, c += PANEL_COLUMNS) {
        to[g] = &room->panel[c < p->columns ? g : 0];
        if (c >= p->columns) continue;
        if (p->is_packed)
            packed_fns[p->dtype].open((const uint8_t *)p->w + c / PANEL_COLUMNS * p->w_row, first,
                                      blocks, &room->panel[g]);
        else
            panel_fill(p->dtype, p->w + c * p->w_row + ig_bytes_of(p->dtype, first * IG_BLOCK),
                       p->w_row, smaller(p->columns - c, PANEL_COLUMNS), blocks, &room->stage,
                       &room->panel[g]);
    }
}

/*
 * Line i of what the next panels will be opened from, which have `most` blocks: more blocks of
 * these groups, or the next ones.  Tiles fetch it to the second cache a few lines each, until all
 * is there.  What is not packed is fetched when it is opened.
 */
static inline const uint8_t *ahead_of(const whole_block *p, int64_t c, int64_t next, int64_t i,
                                      int64_t most) {
    if (!p->is_packed) return (const uint8_t *)p->x;
    const bool is_end = next >= p->blocks;
    const int64_t blocks = smaller(p->blocks - (is_end ? 0 : next), most);
    const int64_t lines = packed_group_bytes(p->dtype, blocks) / LINE;
    const int64_t group = c / PANEL_COLUMNS + (is_end ? TILE_GROUPS : 0) + i / lines;
    const int64_t at = is_end ? 0 : packed_group_bytes(p->dtype, next);
    return (const uint8_t *)p->w + group * p->w_row + at + i % lines * LINE;
}

/* All rows through panels that begin at block `first`, in tiles of about the same size. */
static inline void through_panels(const whole_block *p, const panel *const *panels, int64_t c,
                                  int64_t first, int64_t blocks) {
    const panel_type *t = &panel_types[p->dtype];
    const int64_t most = kind_is_k(t->kind) ? TILE_ROWS_K : TILE_ROWS;
    const int form = t->is_wide && t->kind == ONE_SCALE ? K_TWO_MINS + 1 : (int)t->kind;
    const int64_t n_tiles = (p->rows + most - 1) / most;
    tile_out out = {.y_row = p->y_row,
                    .columns = smaller(p->columns - c, TILE_COLUMNS),
                    .bias = p->bias ? p->bias + c : NULL,
                    .first = first == 0,
                    .last = first + blocks == p->blocks};
    for (int64_t i = 0; i < n_tiles; i++) {
        const rounded *x[TILE_ROWS];
        const int64_t r = p->rows * i / n_tiles, rows = p->rows * (i + 1) / n_tiles - r;
        for (int64_t k = 0; k < rows; k++) x[k] = p->x + (r + k) * p->x_row + first;
        out.y = p->y + r * p->y_row + c;
        out.ahead = ahead_of(p, c, first + blocks, i * blocks, PANEL_BLOCKS);
        const ending end = ending_at(p->end, r * p->y_row + c);
        finish_soon(end, out.y, p->y_row, rows, out.columns);
        tiles[form][rows - 1](panels, x, blocks, &out);
        if (out.last) finish(end, out.y, p->y_row, rows, out.columns);
    }
}

/* Groups that a thread takes at a time: as many streams as pay, where that leaves others enough,
 * and long ones. */
static inline int64_t together_of(int64_t groups, int64_t rows) {
    enum { OTHERS = 16 };
    if (!is_few(rows)) return TILE_GROUPS;
    const int64_t streams = rows == 1 ? STREAMS : STREAMS_OF_SEVERAL;
    if (rows == 1 && groups >= 2 * OTHERS * streams)
        return streams * smaller(groups / (OTHERS * streams), ROUNDS);
    return groups >= 4 * streams ? streams : 1;
}

static void multiply_whole(const whole_block *p) {
    if (p->is_packed && is_few(p->rows)) {
        if (p->rows == 1)
            multiply_one(p);
        else
            multiply_few(p);
        return;
    }
    whole_room room;
    const panel *panels[TILE_GROUPS];
    const int64_t most = p->rows <= SHORT_PANEL_ROWS ? STAGE_BLOCKS : PANEL_BLOCKS;
    for (int64_t c = 0; c < p->columns; c += TILE_COLUMNS)
        for (int64_t b = 0; b < p->blocks; b += most) {
            const int64_t blocks = smaller(p->blocks - b, most);
            fill_panels(p, c, b, blocks, panels, &room);
            through_panels(p, panels, c, b, blocks);
        }
}

#endif
