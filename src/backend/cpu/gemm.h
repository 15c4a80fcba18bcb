/*
 * gemm.h - the inner parts of a matrix product: the tile in registers, and the
 * copies of a and b that it reads.
 *
 *        a          b  [ panel ]       A tile is up to VF_TILE_ROWS rows of a times a
 *      strip  ->    |  [k][width]      few vectors of columns of b.  All its sums stay in
 *      rows x k        sums            registers while k goes by: one product of a number
 *                                      of a with a vector of b after the other.
 *
 * Every sum is one chain of multiply-adds over ascending k.  That is the only
 * thing that decides its bits; how the work was cut does not.
 */
#ifndef IG_BACKEND_CPU_GEMM_H
#define IG_BACKEND_CPU_GEMM_H

#include "backend/cpu/loops.h"

enum { TILE_VECTORS = 8 }; /* at most; a power of two, as all widths of tiles */

typedef struct tile {
    const float *a, *b;
    int64_t a_row, a_k, b_k, k; /* strides, and how far k goes */
    float *y;
    int64_t y_row, columns; /* that are stored: all vectors but the last are whole */
    const float *bias;      /* of these columns, added at the end; NULL: none */
    bool first;             /* sums start from 0, else from what y holds */
} tile;

/* The vectors that fit beside so many rows. */
static inline int tile_vectors(int64_t rows) {
    int vectors = TILE_VECTORS;
    while (rows * vectors > VF_TILE_SUMS) vectors /= 2;
    return vectors;
}

/* Rows are reached by threes: x86 adds a stride once or twice to an address for nothing. */
IG_INLINE void add_products(const tile *t, vf (*sum)[TILE_VECTORS], const int rows,
                            const int vectors) {
    const float *a[(VF_TILE_ROWS + 2) / 3], *b = t->b;
    const int64_t a_row = t->a_row, a_k = t->a_k, b_k = t->b_k;
    IG_UNROLL
    for (int g = 0; g < (rows + 2) / 3; g++) a[g] = t->a + 3 * g * a_row;
#ifdef XU
    _Pragma(XU)
#endif
        for (int64_t k = t->k; k > 0; k--, b += b_k) {
        vf column[TILE_VECTORS];
        IG_UNROLL
        for (int v = 0; v < vectors; v++) column[v] = vf_load(b + v * VF_LANES);
        IG_UNROLL
        for (int c = 0; c < vectors * VF_LANES; c += 16)
            __builtin_prefetch(b + vectors * VF_LANES + c);
        IG_UNROLL
        for (int i = 0; i < rows; i++) {
            const vf x = vf_set(a[i / 3][i % 3 * a_row]);
            IG_UNROLL
            for (int v = 0; v < vectors; v++) sum[i][v] = vf_fma(x, column[v], sum[i][v]);
        }
        IG_UNROLL
        for (int g = 0; g < (rows + 2) / 3; g++) a[g] += a_k;
    }
}

IG_INLINE void run_tile(const tile *t, const int rows, const int vectors) {
    vf sum[VF_TILE_ROWS][TILE_VECTORS];
    const int64_t last = t->columns - (vectors - 1) * VF_LANES; /* of the last vector */
    IG_UNROLL
    for (int i = 0; i < rows; i++) {
        IG_UNROLL
        for (int v = 0; v < vectors; v++) sum[i][v] = vf_set(0);
    }
    if (!t->first) {
        IG_UNROLL
        for (int i = 0; i < rows; i++) {
            const float *y = t->y + i * t->y_row;
            IG_UNROLL
            for (int v = 0; v < vectors; v++)
                sum[i][v] = vf_load_first(y + v * VF_LANES, v < vectors - 1 ? VF_LANES : last);
        }
    }
    add_products(t, sum, rows, vectors);
    if (t->bias) {
        IG_UNROLL
        for (int v = 0; v < vectors; v++) {
            const vf bias =
                vf_load_first(t->bias + v * VF_LANES, v < vectors - 1 ? VF_LANES : last);
            IG_UNROLL
            for (int i = 0; i < rows; i++) sum[i][v] = vf_add(sum[i][v], bias);
        }
    }
    IG_UNROLL
    for (int i = 0; i < rows; i++) {
        float *y = t->y + i * t->y_row;
        IG_UNROLL
        for (int v = 0; v < vectors; v++)
            vf_store_first(y + v * VF_LANES, sum[i][v], v < vectors - 1 ? VF_LANES : last);
    }
}

/* A function of each shape that fits; the others are never called. */
#define TILE(rows, vectors)                                         \
    static void tile_##rows##_##vectors(const tile *t) {            \
        if (rows <= VF_TILE_ROWS && rows * vectors <= VF_TILE_SUMS) \
            run_tile(t, rows <= VF_TILE_ROWS ? rows : 1, vectors);  \
    }
#define TILES_OF(rows) TILE(rows, 1) TILE(rows, 2) TILE(rows, 4) TILE(rows, 8)
TILES_OF(1)
TILES_OF(2)
TILES_OF(3)
TILES_OF(4)
TILES_OF(5)
TILES_OF(6)
TILES_OF(7)
TILES_OF(8)
TILES_OF(9)
TILES_OF(10)
TILES_OF(11)
TILES_OF(12)

typedef void tile_fn(const tile *t);

/* [rows - 1][log2 vectors] */
#define NAMES_OF(rows) \
    { tile_##rows##_1, tile_##rows##_2, tile_##rows##_4, tile_##rows##_8 }
static tile_fn *const tiles[][4] = {
    NAMES_OF(1), NAMES_OF(2), NAMES_OF(3), NAMES_OF(4),  NAMES_OF(5),  NAMES_OF(6),
    NAMES_OF(7), NAMES_OF(8), NAMES_OF(9), NAMES_OF(10), NAMES_OF(11), NAMES_OF(12),
};
static_assert(VF_TILE_ROWS <= 12 && VF_TILE_ROWS * 2 <= VF_TILE_SUMS, "all heights have a tile");

/* `columns` columns of results, with tiles of `vectors` vectors and, at the end, narrower ones. */
IG_INLINE void run_tiles(tile t, int64_t rows, int64_t columns, int vectors) {
    int width = 3;
    while (1 << width > vectors) width--;
    for (; columns > 0;) {
        while (width > 0 && ((int64_t)1 << width) - 1 >= (columns + VF_LANES - 1) / VF_LANES)
            width--;
        t.columns = smaller(columns, ((int64_t)1 << width) * VF_LANES);
        tiles[rows - 1][width](&t);
        columns -= t.columns;
        t.b += t.columns;
        t.y += t.columns;
        if (t.bias) t.bias += t.columns;
    }
}

/* ---- panels of b: [k][width], zeros beyond the columns there are ---- */

/* One row of one panel. */
IG_INLINE void pack_row(const float *b, int64_t columns, int64_t width, float *to) {
    for (int64_t c = 0; c < width; c += VF_LANES) {
        const int64_t left = columns - c;
        vf_store(to + c, left > 0 ? vf_load_first(b + c, smaller(left, VF_LANES)) : vf_set(0));
    }
}

/* Rows lie packed: several panels at once, so that a row is read as it lies. */
static inline void pack_rows(const float *b, int64_t b_k, int64_t k, int64_t columns, int64_t width,
                             float *to, int64_t panel) {
    for (int64_t r = 0; r < k; r++, b += b_k) {
        float *row = to + r * width;
        int64_t c = 0;
        for (; c + 2 * VF_LANES <= columns && width == 2 * VF_LANES; c += width, row += panel) {
            const vf x = vf_load(b + c), y = vf_load(b + c + VF_LANES);
            vf_store(row, x);
            vf_store(row + VF_LANES, y);
        }
        for (; c < columns; c += width, row += panel) pack_row(b + c, columns - c, width, row);
    }
}

/* Columns lie packed: blocks of 8 x 8 change places.  The last block of a side reaches back over
 * the one before it. */
static inline void pack_columns(const float *b, int64_t b_column, int64_t k, int64_t columns,
                                int64_t width, float *to) {
    for (int64_t c = columns / VF_LANES * VF_LANES; c < width && columns < width; c += VF_LANES)
        for (int64_t r = 0; r < k; r++) vf_store(to + r * width + c, vf_set(0));
    if (columns < 8 || k < 8) {
        for (int64_t c = 0; c < columns; c++)
            for (int64_t r = 0; r < k; r++) to[r * width + c] = b[c * b_column + r];
        return;
    }
    for (int64_t next = 0; next < columns; next += 8) {
        const int64_t c = smaller(next, columns - 8);
        for (int64_t along = 0; along < k; along += 8) {
            const int64_t r = smaller(along, k - 8);
            transpose_8x8(b + c * b_column + r, b_column, to + r * width + c, width);
        }
    }
}

/* Panels of `columns` columns, `panel` floats apart. */
static inline void pack_panels(const float *b, int64_t b_k, int64_t b_column, int64_t k,
                               int64_t columns, int64_t width, float *to, int64_t panel) {
    if (b_column == 1) {
        pack_rows(b, b_k, k, columns, width, to, panel);
        return;
    }
    for (int64_t j = 0; j < columns; j += width, b += width * b_column, to += panel) {
        const int64_t n = smaller(columns - j, width);
        if (b_k == 1) {
            pack_columns(b, b_column, k, n, width, to);
            continue;
        }
        for (int64_t r = 0; r < k; r++)
            for (int64_t c = 0; c < width; c++)
                to[r * width + c] = c < n ? b[r * b_k + c * b_column] : 0;
    }
}

/* ---- strips of a ---- */

/* The longest stretch of k that strips are made for. */
enum { STRIP_K = 512, STRIP_ROW = STRIP_K + 16, STRIP_FLOATS = VF_TILE_ROWS * STRIP_ROW };

/* Copies `rows` rows of a to where the tile will read them: row by row where k runs along memory,
 * so far apart that they do not meet in the cache; else [k][VF_TILE_ROWS]. */
static inline void pack_strip(tile *t, int64_t rows, float *strip) {
    const float *a = t->a;
    if (t->a_k == 1) {
        for (int64_t i = 0; i < rows; i++)
            memcpy(strip + i * STRIP_ROW, a + i * t->a_row, (size_t)t->k * sizeof *strip);
        t->a_row = STRIP_ROW;
    } else if (t->a_row == 1) {
        float *to = strip; /* whole vectors are stored: what they reach over is written next */
        for (int64_t r = 0; r < t->k; r++, a += t->a_k, to += VF_TILE_ROWS)
            for (int64_t i = 0; i < rows; i += VF_LANES)
                vf_store(to + i, vf_load_first(a + i, smaller(rows - i, VF_LANES)));
        t->a_k = VF_TILE_ROWS;
    } else {
        for (int64_t r = 0; r < t->k; r++)
            for (int64_t i = 0; i < rows; i++)
                strip[r * VF_TILE_ROWS + i] = a[r * t->a_k + i * t->a_row];
        t->a_row = 1;
        t->a_k = VF_TILE_ROWS;
    }
    t->a = strip;
}

#endif
