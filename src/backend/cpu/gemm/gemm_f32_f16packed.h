/*
 * gemm_f32_f16packed.h - F32 activations times packed F16 or BF16 weights.
 *
 * The accumulation order is that of gemm_f32_dequant.h: lane l of a vector adds up the products of
 * k = l, l + lanes, ..., and at the end the lanes are added, those farthest apart first.  With
 * weights along k, that suits one row of activations.  For many rows columns should be the lanes:
 * a sum then takes one register lane where it took a vector, and a register tile has 28 sums.  The
 * bits stay the same if the elements of each lane are processed lane after lane, and two lanes are
 * added as soon as both are complete:
 *
 *     lane      0   8   4  12   2  10   6  14   1   9   5  13   3  11   7  15
 *               0 + 8   4 + 12  2 + 10  6 + 14  ...
 *               (0 8) + (4 12)  (2 10) + (6 14)       ...
 *
 * This is also the order of k in a packed group of sixteen columns; a vector of eight lanes takes
 * two k-chunks at a time, which are one lane to it:
 *
 *     group   [ k = 0, 16, 32, ... | k = 8, 24, 40, ... | k = 4, 20, ... | ... ]
 *     k       sixteen f16, one of each column
 *
 * A gap follows each group (f16_group_bytes()).
 *
 * Rows of activations are transposed the same way, those of a tile side by side.  A tile is as high
 * as registers allow: a row costs a load, which has a port of its own, and a group a conversion,
 * which has not.
 */
#ifndef IG_BACKEND_CPU_GEMM_GEMM_F32_F16PACKED_H
#define IG_BACKEND_CPU_GEMM_GEMM_F32_F16PACKED_H

#include "backend/cpu/gemm/epilogue.h"
#include "backend/cpu/load_f16.h"

enum {
    F16_GROUP = 16,                     /* columns of a group, and k-chunks */
    F16_VECTORS = F16_GROUP / VF_LANES, /* of a group, and k-chunks that are one lane */
    F16_TILE_ROWS = VF_LANES < 16 ? 6 : 28,
    F16_TILE_SUMS = VF_LANES < 16 ? 12 : 28, /* in registers, */
    F16_MAX_SUMS_MANY =
        VF_LANES < 16 ? 12 : 24,        /* and with several groups, whose weights need some */
    F16_MAX_GROUPS = 8,                 /* at once */
    F16_L2_GROUPS = 4,                  /* that all tiles of rows share in L2 */
    F16_LEVELS = VF_LANES < 16 ? 3 : 4, /* rounds of adding lanes */
    F16_PREFETCH_BYTES = 8192,          /* bytes in flight in all groups */
    F16_GROUP_GAP = 576,                /* bytes between groups: nine lines */
};

/* Groups that a tile of `rows` rows multiplies at once: as many streams of memory as registers
 * allow. Two vectors are no better than one: with that many rows, memory is not the limit. */
IG_INLINE int f16_groups(const int rows) {
    int groups = F16_MAX_GROUPS;
    while (groups > 1 && rows * groups * F16_VECTORS > F16_MAX_SUMS_MANY)
        groups = groups > 4 ? groups / 2 : groups - 1;
    return groups * F16_VECTORS > 2 ? groups : 1;
}

/* The first k of chunk n: the four bits of n, reversed. */
static inline int64_t f16_chunk_begin(int64_t n) {
    return (n & 1) << 3 | (n & 2) << 1 | (n & 4) >> 1 | (n & 8) >> 3;
}

static inline int64_t f16_steps(int64_t k) { return (k + F16_GROUP - 1) / F16_GROUP; }

static inline int64_t f16_group_length(int64_t k) { return f16_steps(k) * F16_GROUP * F16_GROUP; }

/* From one group to the next.  Groups of most models are a power of two long; several that are read
 * side by side would share few sets of each cache without a gap. */
static inline int64_t f16_group_bytes(int64_t k) {
    return f16_group_length(k) * (int64_t)sizeof(uint16_t) + F16_GROUP_GAP;
}

/* ---- packing ---- */

typedef uint16_t u16x8 __attribute__((vector_size(16)));

/* Eight rows of eight u16 -> eight columns, as vb16_transpose() does it. */
static inline void transpose_u16_8x8(u16x8 *x) {
    for (int round = 0; round < 3; round++) {
        u16x8 y[8];
        for (int i = 0; i < 4; i++) {
            const u16x8 a = x[i], b = x[i + 4];
            y[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
            y[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
        }
        memcpy(x, y, sizeof y);
    }
}

/* A group of up to sixteen rows, `row_bytes` apart, of k f16 each, zero-padded. */
static inline void pack_f16_group(const char *rows, int64_t row_bytes, int64_t columns, int64_t k,
                                  uint16_t *to) {
    const int64_t steps = f16_steps(k);
    for (int64_t i = 0; i < steps * F16_GROUP; i += 8)
        for (int64_t c = 0; c < F16_GROUP; c += 8) {
            u16x8 x[8] = {{0}};
            for (int64_t j = 0; j < 8 && c + j < columns && i < k; j++)
                memcpy(&x[j], rows + (c + j) * row_bytes + i * 2, (size_t)min_i64(k - i, 8) * 2);
            transpose_u16_8x8(x);
            for (int64_t j = 0; j < 8; j++) {
                const int64_t n = f16_chunk_begin((i + j) % F16_GROUP); /* its own inverse */
                memcpy(to + (n * steps + i / F16_GROUP) * F16_GROUP + c, &x[j], sizeof x[j]);
            }
        }
    memset(to + f16_group_length(k), 0, F16_GROUP_GAP);
}

/* ---- rows ---- */

/* The index of step i of chunk n, which has `rows` elements. */
static inline int64_t f16_x_index(int64_t n, int64_t i, int64_t steps, int64_t rows) {
    const int64_t lane = n / F16_VECTORS, phase = n % F16_VECTORS;
    return ((lane * steps + i) * F16_VECTORS + phase) * rows;
}

/* Elements [k, k + count) of all rows, one by one; 0 from `end` on. */
static inline void transpose_tail(const float *const *x, int64_t rows, int64_t k, int64_t count,
                                  int64_t end, float *to) {
    for (int64_t at = k; at < k + count; at++) {
        const int64_t n = f16_chunk_begin(at % F16_GROUP); /* its own inverse */
        float *y = to + f16_x_index(n, at / F16_GROUP, f16_steps(end), rows);
        for (int64_t r = 0; r < rows; r++) y[r] = at < end ? x[r][at] : 0;
    }
}

/* Eight elements from k on of rows [r, r + 8). */
static inline void transpose_block(const float *const *x, int64_t rows, int64_t r, int64_t k,
                                   int64_t end, float *to) {
    float block[8][8], columns[8][8];
    for (int64_t i = 0; i < 8; i++) memcpy(block[i], x[r + i] + k, sizeof block[i]);
    transpose_8x8(block[0], 8, columns[0], 8);
    for (int64_t i = 0; i < 8; i++) {
        const int64_t n = f16_chunk_begin((k + i) % F16_GROUP);
        memcpy(to + f16_x_index(n, k / F16_GROUP, f16_steps(end), rows) + r, columns[i],
               sizeof columns[i]);
    }
}

/* Up to F16_TILE_ROWS rows of k floats, as a tile reads them: [chunks][steps][rows],
 * with the chunks of one lane interleaved. */
static inline void transpose_rows(const float *const *x, int64_t rows, int64_t k, float *to) {
    for (int64_t i = 0; i < f16_steps(k) * F16_GROUP; i += 8) {
        if (rows < 8 || i + 8 > k)
            transpose_tail(x, rows, i, 8, k, to);
        else
            for (int64_t r = 0; r < rows; r += 8) /* the last eight may meet some again */
                transpose_block(x, rows, min_i64(r, rows - 8), i, k, to);
    }
}

/* ---- tiles ---- */

typedef struct f16_tile {
    const uint16_t *w;
    int64_t group; /* f16 from one group to the next */
    int64_t steps;
    int64_t ahead;  /* bytes between a read and its prefetch, to the second cache */
    const float *x; /* transposed */
    float *sums;    /* [rows][groups * F16_GROUP] */
} f16_tile;

/* Step i of chunk s of a lane: some weights times all rows.  The fewer stay in registers. */
IG_INLINE void add_step_of_lane(const f16_tile *t, const ig_dtype dtype, const uint16_t *w,
                                const float *x, vf *sum, const int rows, const int groups) {
    const int vectors = groups * F16_VECTORS;
    vf b[F16_TILE_SUMS];
    IG_UNROLL
    for (int v = 0; v < vectors; v++) {
        const uint16_t *at = w + v / F16_VECTORS * t->group;
        b[v] = vf_load_as((const char *)(at + v % F16_VECTORS * VF_LANES), dtype);
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

/* Prefetches a line of each group, which is two steps. */
IG_INLINE void prefetch_lines(const f16_tile *t, const uint16_t *w, const int groups) {
    IG_UNROLL
    for (int g = 0; g < groups; g++)
        __builtin_prefetch((const char *)(w + g * t->group) + t->ahead, 0, 2);
}

/* The products of one lane. */
IG_INLINE void add_lane(const f16_tile *t, const ig_dtype dtype, int64_t lane, vf *sum,
                        const int rows, const int groups) {
    const int64_t chunk = t->steps * F16_GROUP;
    const uint16_t *w = t->w + lane * F16_VECTORS * chunk;
    const float *x = t->x + lane * F16_VECTORS * t->steps * rows;
    for (int64_t i = 0; i < t->steps; i++, w += F16_GROUP) {
        IG_UNROLL
        for (int s = 0; s < F16_VECTORS; s++, x += rows) {
            if (i % 2 == 0) prefetch_lines(t, w + s * chunk, groups);
            add_step_of_lane(t, dtype, w + s * chunk, x, sum, rows, groups);
        }
    }
}

/* All lanes.  `kept` has the sums of 1, 2, 4, ... lanes. */
IG_INLINE void f16_add_tile(const f16_tile *t, const ig_dtype dtype, const int rows,
                            const int groups) {
    vf kept[F16_LEVELS + 1][F16_TILE_SUMS];
    if (VF_LANES == 1 || rows * groups * F16_VECTORS > F16_TILE_SUMS) return; /* never called */
    const int count = rows * groups * F16_VECTORS;
    for (int lane = 0; lane < VF_LANES; lane++) {
        vf sum[F16_TILE_SUMS];
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
        for (int v = 0; v < groups * F16_VECTORS; v++)
            vf_store(t->sums + r * groups * F16_GROUP + v * VF_LANES,
                     kept[F16_LEVELS][v * rows + r]);
}

typedef void f16_tile_fn(const f16_tile *t);

/* Those that do not fit are empty, and never called. */
#define F16_TILE_ONE(ID, rows) \
    static void f16_##ID##_##rows##_one(const f16_tile *t) { f16_add_tile(t, IG_##ID, rows, 1); }
#define F16_TILE(ID, rows)                                    \
    F16_TILE_ONE(ID, rows)                                    \
    static void f16_##ID##_##rows##_many(const f16_tile *t) { \
        f16_add_tile(t, IG_##ID, rows, f16_groups(rows));     \
    }
#define F16_ENTRY_ONE(ID, rows) {f16_##ID##_##rows##_one},
#define F16_ENTRY(ID, rows)     {f16_##ID##_##rows##_one, f16_##ID##_##rows##_many},

/* X of each number of rows, or ONE where one group is all that fits. */
#define F16_ROWS_EACH(X, ONE, ID) \
    X(ID, 1)                      \
    X(ID, 2)                      \
    X(ID, 3)                      \
    X(ID, 4)                      \
    X(ID, 5)                      \
    X(ID, 6)                      \
    X(ID, 7)                      \
    X(ID, 8)                      \
    ONE(ID, 9)                    \
    ONE(ID, 10)                   \
    ONE(ID, 11)                   \
    ONE(ID, 12)                   \
    ONE(ID, 13)                   \
    ONE(ID, 14)                   \
    ONE(ID, 15)                   \
    ONE(ID, 16)                   \
    ONE(ID, 17)                   \
    ONE(ID, 18)                   \
    ONE(ID, 19)                   \
    ONE(ID, 20)                   \
    ONE(ID, 21)                   \
    ONE(ID, 22)                   \
    ONE(ID, 23)                   \
    ONE(ID, 24) ONE(ID, 25) ONE(ID, 26) ONE(ID, 27) ONE(ID, 28)
F16_ROWS_EACH(F16_TILE, F16_TILE_ONE, F16)
F16_ROWS_EACH(F16_TILE, F16_TILE_ONE, BF16)

/* [F16, BF16][rows - 1][one group, or as many as fit] */
static f16_tile_fn *const f16_tiles[2][28][2] = {
    {F16_ROWS_EACH(F16_ENTRY, F16_ENTRY_ONE, F16)},
    {F16_ROWS_EACH(F16_ENTRY, F16_ENTRY_ONE, BF16)},
};

/* ---- groups and tiles ---- */

/* Rows go in tiles of about the same size; tile i begins with row f16_row(i). */
static inline int64_t f16_tile_count(int64_t rows) {
    return (rows + F16_TILE_ROWS - 1) / F16_TILE_ROWS;
}

static inline int64_t f16_row(int64_t rows, int64_t i) { return rows * i / f16_tile_count(rows); }

/* Some rows times some columns. */
typedef struct f16_gemm {
    ig_dtype dtype;
    const uint16_t *w; /* the first group */
    int64_t k;
    const float *x; /* transposed */
    int64_t rows, columns;
    float *y;
    int64_t y_row;
    const float *bias; /* of these columns, or NULL */
    epilogue epilogue;
} f16_gemm;

/* Tile i of the groups from column c on. */
static inline void f16_multiply_tile(const f16_gemm *p, int64_t c, int64_t groups, int64_t i,
                                     int64_t ahead) {
    _Alignas(64) float sums[F16_TILE_SUMS * VF_LANES];
    const int64_t begin = f16_row(p->rows, i), rows = f16_row(p->rows, i + 1) - begin;
    const int64_t group = f16_group_bytes(p->k) / 2;
    const int64_t columns = min_i64(p->columns - c, groups * F16_GROUP);
    const f16_tile t = {.w = p->w + c / F16_GROUP * group,
                        .group = group,
                        .steps = f16_steps(p->k),
                        .ahead = ahead,
                        .x = p->x + begin * f16_steps(p->k) * F16_GROUP,
                        .sums = sums};
    const epilogue e = epilogue_at(p->epilogue, begin * p->y_row + c);
    float *y = p->y + begin * p->y_row + c;
    prefetch_output(e, y, p->y_row, rows, columns);
    f16_tiles[p->dtype == IG_BF16][rows - 1][groups > 1](&t);
    for (int64_t r = 0; r < rows; r++) {
        const float *sum = sums + r * groups * F16_GROUP;
        for (int64_t j = 0; j < columns; j++)
            y[r * p->y_row + j] = p->bias ? sum[j] + p->bias[c + j] : sum[j];
    }
    apply_epilogue(e, y, p->y_row, rows, columns);
}

/* All rows times some groups, while these are in L2.  The second tile prefetches the next groups.
 */
static inline void f16_multiply_groups(const f16_gemm *p, int64_t c, int64_t groups) {
    const int64_t n_tiles = f16_tile_count(p->rows);
    for (int64_t i = 0; i < n_tiles; i++) {
        const int64_t rows = f16_row(p->rows, i + 1) - f16_row(p->rows, i);
        const int64_t each = groups > 1 ? f16_groups((int)rows) : 1;
        const int64_t ahead = i == 1 ? groups * f16_group_bytes(p->k) : F16_PREFETCH_BYTES / each;
        for (int64_t g = 0; g < groups; g += each)
            f16_multiply_tile(p, c + g * F16_GROUP, each, i, ahead);
    }
}

/* Groups that are multiplied together: by the smallest tile at once, or by one tile after the
 * other, so that each is read from memory once for several tiles. */
static inline int64_t f16_max_groups(int64_t rows) {
    const int64_t at_once = f16_groups((int)f16_row(rows, 1));
    return f16_tile_count(rows) > 1 && at_once < F16_L2_GROUPS ? F16_L2_GROUPS : at_once;
}

/* Groups that a thread takes at a time, where that leaves enough for the other threads.  Small M is
 * limited by memory bandwidth, which a few threads saturate; prefill by arithmetic, for all
 * threads. */
static inline int64_t f16_grain(int64_t groups, int64_t rows) {
    const int64_t most = rows > 0 ? f16_max_groups(rows) : 1;
    const int64_t others = f16_tile_count(rows) > 1 ? 32 : 4;
    return groups >= others * most ? most : 1;
}

static void gemm_f32_f16packed(const f16_gemm *p) {
    if (p->rows == 0) return;
    const int64_t left = (p->columns + F16_GROUP - 1) / F16_GROUP;
    const int64_t most = f16_max_groups(p->rows);
    for (int64_t g = 0, groups; g < left; g += groups) {
        groups = left - g >= most ? most : 1;
        f16_multiply_groups(p, g * F16_GROUP, groups);
    }
}

#endif
