/*
 * product.h - rows of activations times rows of stored weights.
 *
 *                 k
 *     w  [ columns rows ]    A block of the result is a few rows of x times a few rows of w,
 *     x  [ rows         ]    which are its columns.  Both lie along k, so a sum has a vector
 *                            of lanes: lane l adds up the products of k = l, l + lanes, ...
 *                            in ascending order, and at the end the lanes are added up.
 *
 * Weights are decoded into floats, a stretch of k at a time, and meet all rows of
 * the block while they are near.  The order of a sum depends on k alone: results are
 * the same for any number of rows, and however the work is cut.
 */
#ifndef IG_BACKEND_CPU_PRODUCT_H
#define IG_BACKEND_CPU_PRODUCT_H

#include "backend/cpu/dequantize.h"

enum {
    PRODUCT_K = 512,      /* a stretch */
    PRODUCT_COLUMNS = 16, /* of a block of results, at most, */
    PRODUCT_ROWS = 48,    /* and its rows */
    SIDE_COLUMNS = 4,     /* of a tile, */
    SIDE_ROWS = VF_TILE_SUMS / SIDE_COLUMNS,
};
static_assert(PRODUCT_K % IG_BLOCK_K == 0 && PRODUCT_K % VF_LANES == 0, "whole blocks, vectors");
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

/* Where the sums of a block wait between stretches: a vector each, [columns][rows]. */
typedef struct product_room {
    _Alignas(64) float sums[PRODUCT_COLUMNS * PRODUCT_ROWS * VF_LANES];
    _Alignas(64) float panel[PRODUCT_COLUMNS * PRODUCT_K];
} product_room;

/* Adds k products to the sums of rows x columns. */
IG_INLINE void add_side(const float *const *x, int64_t k0, int64_t k, const float *panel,
                        float *sums, const int rows, const int columns) {
    const int64_t whole = k / VF_LANES * VF_LANES;
    vf sum[8][8];
    IG_UNROLL
    for (int c = 0; c < columns; c++) {
        IG_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r][c] = vf_load(sums + (c * PRODUCT_ROWS + r) * VF_LANES);
    }
    for (int64_t i = 0; i < whole; i += VF_LANES) {
        vf w[8];
        IG_UNROLL
        for (int c = 0; c < columns; c++) w[c] = vf_load(panel + c * PRODUCT_K + i);
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
                                   vf_load(panel + c * PRODUCT_K + whole), sum[r][c]);
            vf_store(sums + (c * PRODUCT_ROWS + r) * VF_LANES, sum[r][c]);
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

/* The columns of a stretch, as floats, with zeros up to a whole vector.  The stretch after this is
 * fetched meanwhile. */
static inline void decode_panel(const float_block *p, int64_t k0, int64_t k, int64_t columns,
                                float *panel) {
    decode_fn *const decode = decoder_of(p->dtype);
    const int64_t at = ig_bytes_of(p->dtype, k0), bytes = ig_bytes_of(p->dtype, k);
    for (int64_t c = 0; c < columns; c++, panel += PRODUCT_K) {
        const char *row = p->w + c * p->w_row + at;
        for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(row + bytes + b);
        decode(row, panel, k);
        for (int64_t i = k; i % VF_LANES != 0; i++) panel[i] = 0;
    }
}

/* All tiles of a stretch. */
static inline void add_stretch(const float_block *p, int64_t rows, int64_t columns, int64_t k0,
                               int64_t k, product_room *room) {
    int64_t c = 0;
    for (; rows == 1 && c + 8 <= columns; c += 8)
        side_1_8(p->x, k0, k, room->panel + c * PRODUCT_K,
                 room->sums + c * PRODUCT_ROWS * VF_LANES);
    while (c < columns) {
        const bool wide = columns - c >= SIDE_COLUMNS;
        for (int64_t r = 0; r < rows; r += SIDE_ROWS)
            sides[smaller(rows - r, SIDE_ROWS) - 1][wide](
                p->x + r, k0, k, room->panel + c * PRODUCT_K,
                room->sums + (c * PRODUCT_ROWS + r) * VF_LANES);
        c += wide ? SIDE_COLUMNS : 1;
    }
}

/* ---- rows times halves: from memory into registers, each column a stream of its own ---- */

enum {
    HALF_ROWS = SIDE_ROWS < 6 ? SIDE_ROWS : 6, /* at once, at most, */
    HALF_COLUMNS = 8,                          /* and columns, for one row; SIDE_COLUMNS for more */
    HALF_FETCH = 512,                          /* elements ahead */
};

IG_INLINE vf load_half(const ig_dtype dtype, const uint16_t *p) {
    return dtype == IG_F16 ? vf_load_f16(p) : vf_of_bits(vi_left(vi_load_u16(p), 16));
}

/* The same of the last elements of a row, with zeros behind. */
IG_INLINE vf load_half_part(const ig_dtype dtype, const uint16_t *p, int64_t n) {
    uint16_t lanes[VF_LANES] = {0};
    memcpy(lanes, p, (size_t)n * sizeof *p);
    return load_half(dtype, lanes);
}

/* Rows times columns that lie `w_row` bytes apart; sums are those of add_side(). */
IG_INLINE void add_halves(const ig_dtype dtype, const float *const *x, const char *w, int64_t w_row,
                          int64_t k, float (*y)[HALF_COLUMNS], const int rows, const int columns) {
    const int64_t whole = k / VF_LANES * VF_LANES;
    vf sum[HALF_ROWS][HALF_COLUMNS];
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int c = 0; c < columns; c++) sum[r][c] = vf_set(0);
    }
    for (int64_t i = 0; i < whole; i += VF_LANES) {
        vf a[HALF_ROWS];
        IG_UNROLL
        for (int r = 0; r < rows; r++) a[r] = vf_load(x[r] + i);
        IG_UNROLL
        for (int c = 0; c < columns; c++) {
            const uint16_t *at = (const uint16_t *)(const void *)(w + c * w_row) + i;
            __builtin_prefetch(at + HALF_FETCH);
            const vf b = load_half(dtype, at);
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
                                   load_half_part(dtype, at, k - whole), sum[r][c]);
            y[r][c] = vf_sum(sum[r][c]);
        }
    }
}

typedef void halves_fn(const float *const *x, const char *w, int64_t w_row, int64_t k,
                       float (*y)[HALF_COLUMNS]);

/* Those that do not fit are empty, and never called. */
#define HALVES_OF(ID, rows, columns)                                                               \
    static void halves_##ID##_##rows##_##columns(                                                  \
        const float *const *x, const char *w, int64_t w_row, int64_t k, float(*y)[HALF_COLUMNS]) { \
        if (rows <= HALF_ROWS) add_halves(IG_##ID, x, w, w_row, k, y, rows, columns);              \
    }
#define HALVES_ROWS(ID, rows) HALVES_OF(ID, rows, 1) HALVES_OF(ID, rows, 4)
#define HALVES_FNS(ID)  \
    HALVES_OF(ID, 1, 1) \
    HALVES_OF(ID, 1, 8) \
    HALVES_ROWS(ID, 2) HALVES_ROWS(ID, 3) HALVES_ROWS(ID, 4) HALVES_ROWS(ID, 5) HALVES_ROWS(ID, 6)
#define HALVES_NAMES(ID)                                                                    \
    {                                                                                       \
        {halves_##ID##_1_1, halves_##ID##_1_8}, {halves_##ID##_2_1, halves_##ID##_2_4},     \
            {halves_##ID##_3_1, halves_##ID##_3_4}, {halves_##ID##_4_1, halves_##ID##_4_4}, \
            {halves_##ID##_5_1, halves_##ID##_5_4}, {halves_##ID##_6_1, halves_##ID##_6_4}, \
    }
HALVES_FNS(F16)
HALVES_FNS(BF16)

/* [F16, BF16][rows - 1][one column, or several] */
static halves_fn *const halves_fns[2][6][2] = {HALVES_NAMES(F16), HALVES_NAMES(BF16)};

/* Columns go through all rows, in tiles of about the same size, while they are near. */
static inline void multiply_halves(const float_block *p, int64_t rows, int64_t columns) {
    const int64_t most = rows == 1 ? HALF_COLUMNS : SIDE_COLUMNS;
    const int64_t n_tiles = (rows + HALF_ROWS - 1) / HALF_ROWS;
    for (int64_t c = 0, count; c < columns; c += count) {
        count = columns - c >= most ? most : 1;
        for (int64_t i = 0; i < n_tiles; i++) {
            float y[HALF_ROWS][HALF_COLUMNS];
            const int64_t begin = rows * i / n_tiles, end = rows * (i + 1) / n_tiles;
            halves_fns[p->dtype == IG_BF16][end - begin - 1][count > 1](
                p->x + begin, p->w + c * p->w_row, p->w_row, p->k, y);
            for (int64_t r = begin; r < end; r++)
                for (int64_t j = 0; j < count; j++) {
                    const float sum = y[r - begin][j];
                    p->y[r * p->y_row + c + j] = p->bias ? sum + p->bias[c + j] : sum;
                }
        }
    }
}

/* ---- all ---- */

/* A block of results: at most PRODUCT_ROWS rows and PRODUCT_COLUMNS columns. */
static void multiply(const float_block *p, int64_t rows, int64_t columns) {
    product_room room;
    if (p->dtype == IG_F16 || p->dtype == IG_BF16) {
        multiply_halves(p, rows, columns);
        return;
    }
    for (int64_t c = 0; c < columns; c++)
        memset(room.sums + c * PRODUCT_ROWS * VF_LANES, 0, (size_t)rows * VF_LANES * sizeof(float));
    for (int64_t k0 = 0; k0 < p->k; k0 += PRODUCT_K) {
        const int64_t k = smaller(p->k - k0, PRODUCT_K);
        decode_panel(p, k0, k, columns, room.panel);
        add_stretch(p, rows, columns, k0, k, &room);
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            const float sum = vf_sum(vf_load(room.sums + (c * PRODUCT_ROWS + r) * VF_LANES));
            p->y[r * p->y_row + c] = p->bias ? sum + p->bias[c] : sum;
        }
}

#endif
