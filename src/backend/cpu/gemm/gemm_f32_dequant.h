/*
 * gemm_f32_dequant.h - F32 activations times rows of stored weights, dequantized on the way.
 *
 *                 k
 *     w  [ columns rows ]    An output tile is up to 48 rows of x times 16 rows of w, which are
 *     x  [ rows         ]    its columns.  Both lie along k, so a sum has a vector of lanes:
 *                            lane l adds up the products of k = l, l + lanes, ... in ascending
 *                            order, and at the end the lanes are added up.
 *
 * Weights are dequantized a k-block at a time, into a panel in L1 that all rows of the output tile
 * read.  The order of a sum depends on k alone: results do not depend on M or on how the work is
 * cut.  16-bit weights need no panel: they are converted in registers.
 */
#ifndef IG_BACKEND_CPU_GEMM_GEMM_F32_DEQUANT_H
#define IG_BACKEND_CPU_GEMM_GEMM_F32_DEQUANT_H

#include "backend/cpu/dequantize.h"
#include "backend/cpu/load_f16.h"

enum {
    DEQUANT_KC = 512,     /* a k-block */
    DEQUANT_COLUMNS = 16, /* of an output tile, at most, */
    DEQUANT_ROWS = 48,    /* and its rows */
    SIDE_COLUMNS = 4,     /* of a register tile */
    SIDE_ROWS = VF_TILE_SUMS / SIDE_COLUMNS,
};
static_assert(DEQUANT_KC % IG_BLOCK_K == 0 && DEQUANT_KC % VF_LANES == 0, "whole blocks, vectors");
static_assert(SIDE_ROWS <= 8, "every tile has a function");

typedef struct float_block {
    const float *const *x; /* the rows */
    ig_dtype dtype;        /* of the weights */
    const char *w;         /* the first column's row, */
    int64_t w_row;         /* and how far apart they lie, in bytes */
    int64_t k;
    float *y; /* the first result; columns lie side by side, */
    int64_t y_row;
    const float *bias; /* of these columns, or NULL */
} float_block;

/* Sums of an output tile between k-blocks, a vector each, [columns][rows]; and the panel. */
typedef struct dequant_scratch {
    _Alignas(64) float sums[DEQUANT_COLUMNS * DEQUANT_ROWS * VF_LANES];
    _Alignas(64) float panel[DEQUANT_COLUMNS * DEQUANT_KC];
} dequant_scratch;

/* Adds k products to the sums of a register tile. */
IG_INLINE void add_side(const float *const *x, int64_t k0, int64_t k, const float *panel,
                        float *sums, const int rows, const int columns) {
    const int64_t whole = k / VF_LANES * VF_LANES;
    vf sum[8][8];
    IG_UNROLL
    for (int c = 0; c < columns; c++) {
        IG_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r][c] = vf_load(sums + (c * DEQUANT_ROWS + r) * VF_LANES);
    }
    for (int64_t i = 0; i < whole; i += VF_LANES) {
        vf w[8];
        IG_UNROLL
        for (int c = 0; c < columns; c++) w[c] = vf_load(panel + c * DEQUANT_KC + i);
        IG_UNROLL
        for (int r = 0; r < rows; r++) {
            const vf a = vf_load(x[r] + k0 + i);
            IG_UNROLL
            for (int c = 0; c < columns; c++) sum[r][c] = vf_fma(a, w[c], sum[r][c]);
        }
    }
    IG_UNROLL
    for (int c = 0; c < columns; c++) {
        IG_UNROLL
        for (int r = 0; r < rows; r++) {
            if (whole < k)
                sum[r][c] = vf_fma(vf_load_part(x[r] + k0 + whole, k - whole),
                                   vf_load(panel + c * DEQUANT_KC + whole), sum[r][c]);
            vf_store(sums + (c * DEQUANT_ROWS + r) * VF_LANES, sum[r][c]);
        }
    }
}

typedef void side_fn(const float *const *x, int64_t k0, int64_t k, const float *panel, float *sums);

/* Those that do not fit are empty, and never called. */
#define SIDE(rows, columns)                                                                    \
    static void side_##rows##_##columns(const float *const *x, int64_t k0, int64_t k,          \
                                        const float *panel, float *sums) {                     \
        if (rows <= SIDE_ROWS || columns == 1) add_side(x, k0, k, panel, sums, rows, columns); \
    }
#define SIDES(rows) SIDE(rows, 1) SIDE(rows, 4)
SIDES(1)
SIDES(2)
SIDES(3)
SIDES(4)
SIDES(5)
SIDES(6)
SIDES(7)
SIDES(8)
SIDE(1, 8)

/* [rows - 1][one column, or SIDE_COLUMNS] */
static side_fn *const sides[][2] = {
    {side_1_1, side_1_4}, {side_2_1, side_2_4}, {side_3_1, side_3_4}, {side_4_1, side_4_4},
    {side_5_1, side_5_4}, {side_6_1, side_6_4}, {side_7_1, side_7_4}, {side_8_1, side_8_4},
};

/* The columns of a k-block as F32, zero-padded to a vector.  Prefetches the next k-block. */
static inline void dequantize_panel(const float_block *p, int64_t k0, int64_t k, int64_t columns,
                                    float *panel) {
    dequantize_fn *const dequantize = dequantizer_of(p->dtype);
    const int64_t at = ig_bytes_of(p->dtype, k0), bytes = ig_bytes_of(p->dtype, k);
    for (int64_t c = 0; c < columns; c++, panel += DEQUANT_KC) {
        const char *row = p->w + c * p->w_row + at;
        for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(row + bytes + b);
        dequantize(row, panel, k);
        for (int64_t i = k; i % VF_LANES != 0; i++) panel[i] = 0;
    }
}

/* All register tiles of a k-block. */
static inline void add_k_block(const float_block *p, int64_t rows, int64_t columns, int64_t k0,
                               int64_t k, dequant_scratch *scratch) {
    int64_t c = 0;
    for (; rows == 1 && c + 8 <= columns; c += 8)
        side_1_8(p->x, k0, k, scratch->panel + c * DEQUANT_KC,
                 scratch->sums + c * DEQUANT_ROWS * VF_LANES);
    while (c < columns) {
        const bool wide = columns - c >= SIDE_COLUMNS;
        for (int64_t r = 0; r < rows; r += SIDE_ROWS)
            sides[min_i64(rows - r, SIDE_ROWS) - 1][wide](
                p->x + r, k0, k, scratch->panel + c * DEQUANT_KC,
                scratch->sums + (c * DEQUANT_ROWS + r) * VF_LANES);
        c += wide ? SIDE_COLUMNS : 1;
    }
}

/* ---- 16-bit weights: from memory into registers, each column a stream of its own ---- */

enum {
    F16_ROWS = SIDE_ROWS < 6 ? SIDE_ROWS : 6, /* at once, at most, */
    F16_COLUMNS = 8,                          /* and columns, for one row; SIDE_COLUMNS for more */
    F16_PREFETCH = 512,                       /* elements ahead */
};

/* Rows times columns that lie `w_row` bytes apart; sums are those of add_side(). */
IG_INLINE void add_f16(const ig_dtype dtype, const float *const *x, const char *w, int64_t w_row,
                       int64_t k, float (*y)[F16_COLUMNS], const int rows, const int columns) {
    const int64_t whole = k / VF_LANES * VF_LANES;
    vf sum[F16_ROWS][F16_COLUMNS];
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int c = 0; c < columns; c++) sum[r][c] = vf_set(0);
    }
    for (int64_t i = 0; i < whole; i += VF_LANES) {
        vf a[F16_ROWS];
        IG_UNROLL
        for (int r = 0; r < rows; r++) a[r] = vf_load(x[r] + i);
        IG_UNROLL
        for (int c = 0; c < columns; c++) {
            const uint16_t *at = (const uint16_t *)(const void *)(w + c * w_row) + i;
            __builtin_prefetch(at + F16_PREFETCH);
            const vf b = vf_load_as((const char *)at, dtype);
            IG_UNROLL
            for (int r = 0; r < rows; r++) sum[r][c] = vf_fma(a[r], b, sum[r][c]);
        }
    }
    IG_UNROLL
    for (int c = 0; c < columns; c++) {
        IG_UNROLL
        for (int r = 0; r < rows; r++) {
            const uint16_t *at = (const uint16_t *)(const void *)(w + c * w_row) + whole;
            if (whole < k)
                sum[r][c] = vf_fma(vf_load_part(x[r] + whole, k - whole),
                                   vf_load_first_as((const char *)at, k - whole, dtype), sum[r][c]);
            y[r][c] = vf_sum(sum[r][c]);
        }
    }
}

typedef void f16_fn(const float *const *x, const char *w, int64_t w_row, int64_t k,
                    float (*y)[F16_COLUMNS]);

/* Those that do not fit are empty, and never called. */
#define F16_FN(ID, rows, columns)                                                                  \
    static void f16_##ID##_##rows##_##columns(const float *const *x, const char *w, int64_t w_row, \
                                              int64_t k, float(*y)[F16_COLUMNS]) {                 \
        if (rows <= F16_ROWS) add_f16(IG_##ID, x, w, w_row, k, y, rows, columns);                  \
    }
#define F16_FN_ROWS(ID, rows) F16_FN(ID, rows, 1) F16_FN(ID, rows, 4)
#define F16_FNS(ID)  \
    F16_FN(ID, 1, 1) \
    F16_FN(ID, 1, 8) \
    F16_FN_ROWS(ID, 2) F16_FN_ROWS(ID, 3) F16_FN_ROWS(ID, 4) F16_FN_ROWS(ID, 5) F16_FN_ROWS(ID, 6)
#define F16_FN_NAMES(ID)                                                        \
    {                                                                           \
        {f16_##ID##_1_1, f16_##ID##_1_8}, {f16_##ID##_2_1, f16_##ID##_2_4},     \
            {f16_##ID##_3_1, f16_##ID##_3_4}, {f16_##ID##_4_1, f16_##ID##_4_4}, \
            {f16_##ID##_5_1, f16_##ID##_5_4}, {f16_##ID##_6_1, f16_##ID##_6_4}, \
    }
F16_FNS(F16)
F16_FNS(BF16)

/* [F16, BF16][rows - 1][one column, or several] */
static f16_fn *const f16_fns[2][6][2] = {F16_FN_NAMES(F16), F16_FN_NAMES(BF16)};

/* A few columns times all rows while they are in L1, in register tiles of nearly equal height. */
static inline void gemm_f32_f16(const float_block *p, int64_t rows, int64_t columns) {
    const int64_t most = rows == 1 ? F16_COLUMNS : SIDE_COLUMNS;
    const int64_t n_tiles = (rows + F16_ROWS - 1) / F16_ROWS;
    for (int64_t c = 0, count; c < columns; c += count) {
        count = columns - c >= most ? most : 1;
        for (int64_t i = 0; i < n_tiles; i++) {
            float y[F16_ROWS][F16_COLUMNS];
            const int64_t begin = rows * i / n_tiles, end = rows * (i + 1) / n_tiles;
            f16_fns[p->dtype == IG_BF16][end - begin - 1][count > 1](
                p->x + begin, p->w + c * p->w_row, p->w_row, p->k, y);
            for (int64_t r = begin; r < end; r++)
                for (int64_t j = 0; j < count; j++) {
                    const float sum = y[r - begin][j];
                    p->y[r * p->y_row + c + j] = p->bias ? sum + p->bias[c + j] : sum;
                }
        }
    }
}

/* ---- output tiles ---- */

/* An output tile: at most DEQUANT_ROWS rows and DEQUANT_COLUMNS columns. */
static void gemm_f32_dequant(const float_block *p, int64_t rows, int64_t columns) {
    dequant_scratch scratch;
    if (p->dtype == IG_F16 || p->dtype == IG_BF16) {
        gemm_f32_f16(p, rows, columns);
        return;
    }
    for (int64_t c = 0; c < columns; c++)
        memset(scratch.sums + c * DEQUANT_ROWS * VF_LANES, 0,
               (size_t)rows * VF_LANES * sizeof(float));
    for (int64_t k0 = 0; k0 < p->k; k0 += DEQUANT_KC) {
        const int64_t k = min_i64(p->k - k0, DEQUANT_KC);
        dequantize_panel(p, k0, k, columns, scratch.panel);
        add_k_block(p, rows, columns, k0, k, &scratch);
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            const float sum = vf_sum(vf_load(scratch.sums + (c * DEQUANT_ROWS + r) * VF_LANES));
            p->y[r * p->y_row + c] = p->bias ? sum + p->bias[c] : sum;
        }
}

#endif
