/*
 * packed_halves.h - rows of floats times weights in halves that are packed.
 *
 * What a product with halves gives is fixed by product.h: lane l of a vector adds up
 * the products of k = l, l + lanes, ..., and at the end lanes far apart are added first.
 * Rows of weights as they lie suit one row of activations.  For many, columns should be
 * the lanes: then a sum needs one number where it needed a vector of them, and a tile of
 * 28 sums fills the registers for long.  The same bits come out if the numbers of each
 * lane are gone through by themselves, one lane after the other, and each pair of lanes
 * is added as soon as both are there:
 *
 *     lane      0   8   4  12   2  10   6  14   1   9   5  13   3  11   7  15
 *               0 + 8   4 + 12  2 + 10  6 + 14  ...
 *               (0 8) + (4 12)  (2 10) + (6 14)       ...
 *
 * So this is the layout of a group of sixteen columns, and a vector of eight lanes takes
 * two stretches at a time, whose numbers are one lane to it:
 *
 *     group   [ k = 0, 16, 32, ... | k = 8, 24, 40, ... | k = 4, 20, ... | ... ]
 *     k       sixteen halves, one of each column
 *
 * A gap lies behind each group (half_group_bytes()).
 *
 * Rows of activations are turned the same way, a tile of them side by side.  A tile is as
 * high as registers allow: a row costs a load, which has a port of its own, and a group costs
 * a conversion, which has not.
 */
#ifndef IG_BACKEND_CPU_PACKED_HALVES_H
#define IG_BACKEND_CPU_PACKED_HALVES_H

#include "backend/cpu/gemm/epilogue.h"
#include "backend/cpu/gemm/gemm_f32_dequant.h"

enum {
    HALF_GROUP = 16,                      /* columns that lie side by side, and stretches of k */
    HALF_VECTORS = HALF_GROUP / VF_LANES, /* of a group, and stretches that are one lane */
    HALF_TILE_ROWS = VF_LANES < 16 ? 6 : 28,
    HALF_TILE_SUMS = VF_LANES < 16 ? 12 : 28, /* in registers, */
    HALF_MANY_SUMS = VF_LANES < 16 ? 12 : 24, /* and with several groups, whose weights need some */
    HALF_MOST_GROUPS = 8,                     /* at once */
    HALF_NEAR_GROUPS = 4,                     /* that all tiles of rows go through while near */
    HALF_LEVELS = VF_LANES < 16 ? 3 : 4,      /* lanes are added in so many rounds */
    HALF_UNDER_WAY = 8192,                    /* bytes under way in all groups */
    HALF_APART = 576,                         /* bytes between groups: nine lines */
};

/* Groups that some rows go through at once: as many streams of memory as registers allow.  Two
 * vectors are no better than one: with as many rows, memory is not what is waited for. */
IG_INLINE int half_groups(const int rows) {
    int groups = HALF_MOST_GROUPS;
    while (groups > 1 && rows * groups * HALF_VECTORS > HALF_MANY_SUMS)
        groups = groups > 4 ? groups / 2 : groups - 1;
    return groups * HALF_VECTORS > 2 ? groups : 1;
}

/* The k that stretch n begins with: the four bits of n, turned around. */
static inline int64_t half_begin(int64_t n) {
    return (n & 1) << 3 | (n & 2) << 1 | (n & 4) >> 1 | (n & 8) >> 3;
}

static inline int64_t half_steps(int64_t k) { return (k + HALF_GROUP - 1) / HALF_GROUP; }

static inline int64_t half_group_length(int64_t k) {
    return half_steps(k) * HALF_GROUP * HALF_GROUP;
}

/* From one group to the next.  Groups of most models are a power of two long; several that are read
 * side by side would share few sets of each cache if nothing lay between them. */
static inline int64_t half_group_bytes(int64_t k) {
    return half_group_length(k) * (int64_t)sizeof(uint16_t) + HALF_APART;
}

/* ---- packing ---- */

typedef uint16_t eight_halves __attribute__((vector_size(16)));

/* Eight rows of eight halves -> eight columns: as vb16_transpose() does it. */
static inline void turn_8x8(eight_halves *x) {
    for (int turn = 0; turn < 3; turn++) {
        eight_halves y[8];
        for (int i = 0; i < 4; i++) {
            const eight_halves a = x[i], b = x[i + 4];
            y[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
            y[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
        }
        memcpy(x, y, sizeof y);
    }
}

/* A group of up to sixteen rows, `row_bytes` apart, of k halves each; the rest is 0. */
static inline void pack_half_group(const char *rows, int64_t row_bytes, int64_t columns, int64_t k,
                                   uint16_t *to) {
    const int64_t steps = half_steps(k);
    for (int64_t i = 0; i < steps * HALF_GROUP; i += 8)
        for (int64_t c = 0; c < HALF_GROUP; c += 8) {
            eight_halves x[8] = {{0}};
            for (int64_t j = 0; j < 8 && c + j < columns && i < k; j++)
                memcpy(&x[j], rows + (c + j) * row_bytes + i * 2, (size_t)smaller(k - i, 8) * 2);
            turn_8x8(x);
            for (int64_t j = 0; j < 8; j++) {
                const int64_t n = half_begin((i + j) % HALF_GROUP); /* its own inverse */
                memcpy(to + (n * steps + i / HALF_GROUP) * HALF_GROUP + c, &x[j], sizeof x[j]);
            }
        }
    memset(to + half_group_length(k), 0, HALF_APART);
}

/* ---- rows ---- */

/* Where the rows' number of stretch n and step i lie, out of so many steps. */
static inline int64_t half_place(int64_t n, int64_t i, int64_t steps, int64_t rows) {
    const int64_t lane = n / HALF_VECTORS, turn = n % HALF_VECTORS;
    return ((lane * steps + i) * HALF_VECTORS + turn) * rows;
}

/* Numbers [k, k + count) of all rows, one by one; from `end` on they are 0. */
static inline void turn_numbers(const float *const *x, int64_t rows, int64_t k, int64_t count,
                                int64_t end, float *to) {
    for (int64_t at = k; at < k + count; at++) {
        const int64_t n = half_begin(at % HALF_GROUP); /* its own inverse */
        float *y = to + half_place(n, at / HALF_GROUP, half_steps(end), rows);
        for (int64_t r = 0; r < rows; r++) y[r] = at < end ? x[r][at] : 0;
    }
}

/* Eight numbers from k on of rows [r, r + 8). */
static inline void turn_block(const float *const *x, int64_t rows, int64_t r, int64_t k,
                              int64_t end, float *to) {
    float block[8][8], turned[8][8];
    for (int64_t i = 0; i < 8; i++) memcpy(block[i], x[r + i] + k, sizeof block[i]);
    transpose_8x8(block[0], 8, turned[0], 8);
    for (int64_t i = 0; i < 8; i++) {
        const int64_t n = half_begin((k + i) % HALF_GROUP);
        memcpy(to + half_place(n, k / HALF_GROUP, half_steps(end), rows) + r, turned[i],
               sizeof turned[i]);
    }
}

/* Up to HALF_TILE_ROWS rows of k floats, as a tile goes through them: [stretches][steps][rows],
 * where the stretches of one lane take turns. */
static inline void turn_rows(const float *const *x, int64_t rows, int64_t k, float *to) {
    for (int64_t i = 0; i < half_steps(k) * HALF_GROUP; i += 8) {
        if (rows < 8 || i + 8 > k)
            turn_numbers(x, rows, i, 8, k, to);
        else
            for (int64_t r = 0; r < rows; r += 8) /* the last eight may meet some again */
                turn_block(x, rows, smaller(r, rows - 8), i, k, to);
    }
}

/* ---- tiles ---- */

typedef struct half_tile {
    const uint16_t *w;
    int64_t group; /* halves from one group to the next */
    int64_t steps;
    int64_t ahead;  /* bytes between a read and its prefetch, to the second cache */
    const float *x; /* turned */
    float *sums;    /* [rows][groups * HALF_GROUP] */
} half_tile;

/* Step i of stretch s of a lane: some weights, times all rows.  What is fewer waits in registers.
 */
IG_INLINE void add_step_of_lane(const half_tile *t, const ig_dtype dtype, const uint16_t *w,
                                const float *x, vf *sum, const int rows, const int groups) {
    const int vectors = groups * HALF_VECTORS;
    vf b[HALF_TILE_SUMS];
    IG_UNROLL
    for (int v = 0; v < vectors; v++) {
        const uint16_t *at = w + v / HALF_VECTORS * t->group;
        b[v] = load_half(dtype, at + v % HALF_VECTORS * VF_LANES);
        IG_UNROLL
        for (int r = 0; r < rows && rows < vectors; r++)
            sum[v * rows + r] = vf_fma(vf_set(x[r]), b[v], sum[v * rows + r]);
    }
    IG_UNROLL
    for (int r = 0; r < rows && rows >= vectors; r++) {
        const vf a = vf_set(x[r]);
        IG_UNROLL
        for (int v = 0; v < vectors; v++) sum[v * rows + r] = vf_fma(a, b[v], sum[v * rows + r]);
    }
}

/* Fetches a line of each group.  A step of one is half of it. */
IG_INLINE void fetch_lines(const half_tile *t, const uint16_t *w, const int groups) {
    IG_UNROLL
    for (int g = 0; g < groups; g++)
        __builtin_prefetch((const char *)(w + g * t->group) + t->ahead, 0, 2);
}

/* The products of one lane. */
IG_INLINE void add_lane(const half_tile *t, const ig_dtype dtype, int64_t lane, vf *sum,
                        const int rows, const int groups) {
    const int64_t stretch = t->steps * HALF_GROUP;
    const uint16_t *w = t->w + lane * HALF_VECTORS * stretch;
    const float *x = t->x + lane * HALF_VECTORS * t->steps * rows;
    for (int64_t i = 0; i < t->steps; i++, w += HALF_GROUP) {
        IG_UNROLL
        for (int s = 0; s < HALF_VECTORS; s++, x += rows) {
            if (i % 2 == 0) fetch_lines(t, w + s * stretch, groups);
            add_step_of_lane(t, dtype, w + s * stretch, x, sum, rows, groups);
        }
    }
}

/* All lanes.  What was added of 1, 2, 4, ... of them waits in `kept`. */
IG_INLINE void add_half_tile(const half_tile *t, const ig_dtype dtype, const int rows,
                             const int groups) {
    vf kept[HALF_LEVELS + 1][HALF_TILE_SUMS];
    if (VF_LANES == 1 || rows * groups * HALF_VECTORS > HALF_TILE_SUMS) return; /* never called */
    const int count = rows * groups * HALF_VECTORS;
    for (int lane = 0; lane < VF_LANES; lane++) {
        vf sum[HALF_TILE_SUMS];
        int level = 0;
        IG_UNROLL
        for (int i = 0; i < count; i++) sum[i] = vf_set(0);
        add_lane(t, dtype, lane, sum, rows, groups);
        for (; lane >> level & 1; level++) {
            IG_UNROLL
            for (int i = 0; i < count; i++) sum[i] = vf_add(kept[level][i], sum[i]);
        }
        IG_UNROLL
        for (int i = 0; i < count; i++) kept[level][i] = sum[i];
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < groups * HALF_VECTORS; v++)
            vf_store(t->sums + r * groups * HALF_GROUP + v * VF_LANES,
                     kept[HALF_LEVELS][v * rows + r]);
}

typedef void half_tile_fn(const half_tile *t);

/* Those that do not fit are empty, and never called. */
#define HALF_TILE_ONE(ID, rows) \
    static void half_##ID##_##rows##_one(const half_tile *t) { add_half_tile(t, IG_##ID, rows, 1); }
#define HALF_TILE(ID, rows)                                     \
    HALF_TILE_ONE(ID, rows)                                     \
    static void half_##ID##_##rows##_many(const half_tile *t) { \
        add_half_tile(t, IG_##ID, rows, half_groups(rows));     \
    }
#define HALF_ENTRY_ONE(ID, rows) {half_##ID##_##rows##_one},
#define HALF_ENTRY(ID, rows)     {half_##ID##_##rows##_one, half_##ID##_##rows##_many},

/* X of each number of rows, or ONE where one group is all that fits. */
#define HALF_ROWS_EACH(X, ONE, ID) \
    X(ID, 1)                       \
    X(ID, 2)                       \
    X(ID, 3)                       \
    X(ID, 4)                       \
    X(ID, 5)                       \
    X(ID, 6)                       \
    X(ID, 7)                       \
    X(ID, 8)                       \
    ONE(ID, 9)                     \
    ONE(ID, 10)                    \
    ONE(ID, 11)                    \
    ONE(ID, 12)                    \
    ONE(ID, 13)                    \
    ONE(ID, 14)                    \
    ONE(ID, 15)                    \
    ONE(ID, 16)                    \
    ONE(ID, 17)                    \
    ONE(ID, 18)                    \
    ONE(ID, 19)                    \
    ONE(ID, 20)                    \
    ONE(ID, 21)                    \
    ONE(ID, 22)                    \
    ONE(ID, 23)                    \
    ONE(ID, 24) ONE(ID, 25) ONE(ID, 26) ONE(ID, 27) ONE(ID, 28)
HALF_ROWS_EACH(HALF_TILE, HALF_TILE_ONE, F16)
HALF_ROWS_EACH(HALF_TILE, HALF_TILE_ONE, BF16)

/* [F16, BF16][rows - 1][one group, or as many as fit] */
static half_tile_fn *const half_tiles[2][28][2] = {
    {HALF_ROWS_EACH(HALF_ENTRY, HALF_ENTRY_ONE, F16)},
    {HALF_ROWS_EACH(HALF_ENTRY, HALF_ENTRY_ONE, BF16)},
};

/* ---- products ---- */

/* Rows go in tiles of about the same size; tile i begins with row half_row(i). */
static inline int64_t half_tile_count(int64_t rows) {
    return (rows + HALF_TILE_ROWS - 1) / HALF_TILE_ROWS;
}

static inline int64_t half_row(int64_t rows, int64_t i) { return rows * i / half_tile_count(rows); }

/* Some rows times some columns. */
typedef struct half_block {
    ig_dtype dtype;
    const uint16_t *w; /* the first group */
    int64_t k;
    const float *x; /* turned */
    int64_t rows, columns;
    float *y;
    int64_t y_row;
    const float *bias; /* of these columns, or NULL */
    ending end;
} half_block;

/* Tile i of the groups from column c on. */
static inline void multiply_half_tile(const half_block *p, int64_t c, int64_t groups, int64_t i,
                                      int64_t ahead) {
    _Alignas(64) float sums[HALF_TILE_SUMS * VF_LANES];
    const int64_t begin = half_row(p->rows, i), rows = half_row(p->rows, i + 1) - begin;
    const int64_t group = half_group_bytes(p->k) / 2;
    const int64_t columns = smaller(p->columns - c, groups * HALF_GROUP);
    const half_tile t = {.w = p->w + c / HALF_GROUP * group,
                         .group = group,
                         .steps = half_steps(p->k),
                         .ahead = ahead,
                         .x = p->x + begin * half_steps(p->k) * HALF_GROUP,
                         .sums = sums};
    const ending end = ending_at(p->end, begin * p->y_row + c);
    float *y = p->y + begin * p->y_row + c;
    finish_soon(end, y, p->y_row, rows, columns);
    half_tiles[p->dtype == IG_BF16][rows - 1][groups > 1](&t);
    for (int64_t r = 0; r < rows; r++) {
        const float *sum = sums + r * groups * HALF_GROUP;
        for (int64_t j = 0; j < columns; j++)
            y[r * p->y_row + j] = p->bias ? sum[j] + p->bias[c + j] : sum[j];
    }
    finish(end, y, p->y_row, rows, columns);
}

/* All rows through some groups, while these are near.  The second tile fetches the groups behind
 * them, of which the first one will read. */
static inline void multiply_half_groups(const half_block *p, int64_t c, int64_t groups) {
    const int64_t n_tiles = half_tile_count(p->rows);
    for (int64_t i = 0; i < n_tiles; i++) {
        const int64_t rows = half_row(p->rows, i + 1) - half_row(p->rows, i);
        const int64_t each = groups > 1 ? half_groups((int)rows) : 1;
        const int64_t ahead = i == 1 ? groups * half_group_bytes(p->k) : HALF_UNDER_WAY / each;
        for (int64_t g = 0; g < groups; g += each)
            multiply_half_tile(p, c + g * HALF_GROUP, each, i, ahead);
    }
}

/* Groups that are gone through together: by the smallest tile at once, or else by one tile after
 * the other, so that each comes from far away for several. */
static inline int64_t half_most_groups(int64_t rows) {
    const int64_t at_once = half_groups((int)half_row(rows, 1));
    return half_tile_count(rows) > 1 && at_once < HALF_NEAR_GROUPS ? HALF_NEAR_GROUPS : at_once;
}

/* Groups that a thread takes at a time: so many, where that leaves others enough.  Few rows wait
 * for memory, and a thread or two more would not help; prompts are arithmetic, for all threads
 * there are. */
static inline int64_t half_together(int64_t groups, int64_t rows) {
    const int64_t most = rows > 0 ? half_most_groups(rows) : 1;
    const int64_t others = half_tile_count(rows) > 1 ? 32 : 4;
    return groups >= others * most ? most : 1;
}

static void multiply_packed_halves(const half_block *p) {
    if (p->rows == 0) return;
    const int64_t left = (p->columns + HALF_GROUP - 1) / HALF_GROUP;
    const int64_t most = half_most_groups(p->rows);
    for (int64_t g = 0, groups; g < left; g += groups) {
        groups = left - g >= most ? most : 1;
        multiply_half_groups(p, g * HALF_GROUP, groups);
    }
}

#endif
