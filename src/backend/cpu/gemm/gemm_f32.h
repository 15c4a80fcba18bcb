/*
 * gemm_f32.h - F32 GEMM: register tiles, and the panels and strips they read.
 *
 *                  b  [ panel ]      A tile is a strip of a, up to VF_TILE_ROWS rows, times
 *                  |  [ width ]      a panel of b, a few vectors of columns.  Its sums stay
 *     a  [ strip ] -> [ sums  ]      in registers while k goes by: at each k every number of
 *                                    the strip meets the vectors of the panel.
 *
 * Every sum is one chain of multiply-adds over ascending k.  That alone decides
 * its bits, not how the work is cut.  16-bit factors are converted when they
 * are copied to panels and strips.
 */
#ifndef IG_BACKEND_CPU_GEMM_GEMM_F32_H
#define IG_BACKEND_CPU_GEMM_GEMM_F32_H

#include "backend/cpu/load_f16.h"

/* ---- tiles ---- */

enum { TILE_VECTORS = 8 };                  /* most of a tile */
enum { LINE_BYTES = 64, LINE_FLOATS = 16 }; /* of a cache line */
enum { AHEAD = 8 };                         /* rows of b */

/* Memory that the next tile reads, row by row.  With every step of k a tile prefetches as many
 * bytes of it as it reads of b.  When all of it is in flight, b itself is prefetched AHEAD rows. */
typedef struct lines {
    const char *at, *end; /* what is prefetched next; the end of its row */
    int64_t row, stride;  /* bytes of a row, and from one row to the next */
    int64_t rows;         /* left, this one included */
} lines;

/* A block of a matrix whose elements lie side by side along rows or along columns. */
static inline lines lines_of(const char *at, int64_t rows, int64_t columns, int64_t row_stride,
                             int64_t column_stride, int64_t bytes) {
    const int64_t row = columns * bytes, column = rows * bytes;
    if (column_stride == 1) return (lines){at, at + row, row, row_stride * bytes, rows};
    if (row_stride == 1) return (lines){at, at + column, column, column_stride * bytes, columns};
    return (lines){.rows = 0};
}

typedef struct tile {
    const float *a, *b;
    int64_t a_row, a_k, b_k, k; /* strides, and how far k goes */
    lines *next;                /* prefetched on the way */
    int64_t rows;
    float *y;
    int64_t y_row, columns; /* that are stored: all vectors but the last are whole */
    const float *bias;      /* of these columns, added at the end; NULL: none */
    bool first;             /* sums start from 0, else from what y holds */
} tile;

/* How many vectors of columns fit beside `rows` rows: a power of two. */
static inline int tile_vectors(int64_t rows) {
    int vectors = TILE_VECTORS;
    while (rows * vectors > VF_TILE_SUMS) vectors /= 2;
    return vectors;
}

/* Rows are reached by threes: an address may have a stride added once or twice for nothing. */
IG_INLINE void add_products(const tile *t, vf (*sum)[TILE_VECTORS], const int rows,
                            const int vectors) {
    const int width = vectors * VF_LANES, threes = (rows + 2) / 3;
    const float *a[(VF_TILE_ROWS + 2) / 3], *b = t->b;
    const int64_t a_row = t->a_row, a_k = t->a_k, b_k = t->b_k;
    IG_UNROLL
    for (int g = 0; g < threes; g++) a[g] = t->a + 3 * g * a_row;
    lines *const next = t->next;
    const int line_bytes = (width < LINE_FLOATS ? LINE_FLOATS : width) * (int)sizeof(float);
    const char *line = next->rows > 0 ? next->at : (const char *)(b + AHEAD * width);
    uintptr_t end = next->rows > 0 ? (uintptr_t)next->end : UINTPTR_MAX;
    for (int64_t k = t->k; k > 0; k--, b += b_k) {
        vf column[TILE_VECTORS];
        IG_UNROLL
        for (int c = 0; c < line_bytes; c += LINE_BYTES) __builtin_prefetch(line + c);
        line += line_bytes;
        if ((uintptr_t)line >= end) {
            next->end += next->stride;
            line = next->end - next->row;
            end = (uintptr_t)next->end;
            if (--next->rows == 0) {
                line = (const char *)(b + AHEAD * width);
                end = UINTPTR_MAX;
            }
        }
        IG_UNROLL
        for (int v = 0; v < vectors; v++) column[v] = vf_load(b + v * VF_LANES);
        IG_UNROLL
        for (int i = 0; i < rows; i++) {
            const vf x = vf_set(a[i / 3][i % 3 * a_row]);
            IG_UNROLL
            for (int v = 0; v < vectors; v++) sum[i][v] = vf_fma(x, column[v], sum[i][v]);
        }
        IG_UNROLL
        for (int g = 0; g < threes; g++) a[g] += a_k;
    }
    next->at = line;
}

/* Of vector v: all but the last are whole. */
IG_INLINE int64_t lanes_of(const tile *t, const int v, const int vectors) {
    return v + 1 < vectors ? VF_LANES : t->columns - (vectors - 1) * VF_LANES;
}

IG_INLINE void load_sums(const tile *t, vf (*sum)[TILE_VECTORS], const int rows,
                         const int vectors) {
    IG_UNROLL
    for (int i = 0; i < rows; i++) {
        const float *y = t->y + i * t->y_row;
        IG_UNROLL
        for (int v = 0; v < vectors; v++)
            sum[i][v] = vf_load_first(y + v * VF_LANES, lanes_of(t, v, vectors));
    }
}

IG_INLINE void add_bias(const tile *t, vf (*sum)[TILE_VECTORS], const int rows, const int vectors) {
    IG_UNROLL
    for (int v = 0; v < vectors; v++) {
        const vf bias = vf_load_first(t->bias + v * VF_LANES, lanes_of(t, v, vectors));
        IG_UNROLL
        for (int i = 0; i < rows; i++) sum[i][v] = vf_add(sum[i][v], bias);
    }
}

IG_INLINE void run_tile(const tile *t, const int rows, const int vectors) {
    vf sum[VF_TILE_ROWS][TILE_VECTORS];
    IG_UNROLL
    for (int i = 0; i < rows; i++) {
        IG_UNROLL
        for (int v = 0; v < vectors; v++) sum[i][v] = vf_set(0);
    }
    if (!t->first) load_sums(t, sum, rows, vectors);
    add_products(t, sum, rows, vectors);
    if (t->bias) add_bias(t, sum, rows, vectors);
    IG_UNROLL
    for (int i = 0; i < rows; i++) {
        float *y = t->y + i * t->y_row;
        IG_UNROLL
        for (int v = 0; v < vectors; v++)
            vf_store_first(y + v * VF_LANES, sum[i][v], lanes_of(t, v, vectors));
    }
}

/* A function for each shape.  Those that do not fit are empty, and never called. */
#define TILE(rows, vectors)                                         \
    static void tile_##rows##_##vectors(const tile *t) {            \
        if (rows <= VF_TILE_ROWS && rows * vectors <= VF_TILE_SUMS) \
            run_tile(t, rows <= VF_TILE_ROWS ? rows : 1, vectors);  \
    }
#define TILES_OF(rows) TILE(rows, 1) TILE(rows, 2) TILE(rows, 4) TILE(rows, 8)
#define NAMES_OF(rows) \
    { tile_##rows##_1, tile_##rows##_2, tile_##rows##_4, tile_##rows##_8 }

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

/* [rows - 1][log2 vectors] */
static void (*const tiles[][4])(const tile *) = {
    NAMES_OF(1), NAMES_OF(2), NAMES_OF(3), NAMES_OF(4),  NAMES_OF(5),  NAMES_OF(6),
    NAMES_OF(7), NAMES_OF(8), NAMES_OF(9), NAMES_OF(10), NAMES_OF(11), NAMES_OF(12),
};
static_assert(VF_TILE_ROWS <= 12 && VF_TILE_ROWS * 2 <= VF_TILE_SUMS, "every strip has a tile");

/* `columns` columns, no more than `vectors` vectors: a tile, or at the end a few narrower ones. */
static inline void run_tiles(tile *t, int64_t columns, int vectors) {
    int width = 3; /* log2 of the vectors */
    while (1 << width > vectors) width--;
    while (columns > 0) {
        while (width > 0 && (1 << width) * VF_LANES >= columns + VF_LANES) width--;
        t->columns = min_i64(columns, (1 << width) * VF_LANES);
        tiles[t->rows - 1][width](t);
        columns -= t->columns;
        t->b += t->columns;
        t->y += t->columns;
        if (t->bias) t->bias += t->columns;
    }
}

/* Prefetches the sums of the next tile, from column j on. */
static inline void prefetch_sums(const tile *t, int64_t j, int64_t width) {
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t c = 0; c < width; c += LINE_FLOATS)
            __builtin_prefetch(t->y + i * t->y_row + j + c);
}

/* ---- panels of b: [k][width], with zeros beyond the columns there are ---- */

/* Where b lies and how: element (k, column) is number k * k_stride + column * column_stride. */
typedef struct matrix {
    const char *at;
    int64_t k_stride, column_stride;
    ig_dtype dtype; /* F32, F16 or BF16; panels are F32 */
} matrix;

/* Element number i. */
static inline const char *element(const matrix *b, int64_t i) {
    return b->at + i * (b->dtype == IG_F32 ? 4 : 2);
}

IG_INLINE void pack_row(const char *b, int64_t columns, int64_t width, float *to,
                        const ig_dtype dtype) {
    const int64_t bytes = dtype == IG_F32 ? 4 : 2;
    for (int64_t c = 0; c < width; c += VF_LANES) {
        const int64_t left = columns - c;
        vf_store(to + c, left > 0 ? vf_load_first_as(b + c * bytes, min_i64(left, VF_LANES), dtype)
                                  : vf_set(0));
    }
}

/* Rows lie packed: all panels side by side, so that a row is read as it lies. */
IG_INLINE void pack_rows_of(const matrix *b, int64_t k, int64_t columns, int64_t width, float *to,
                            int64_t panel, const ig_dtype dtype) {
    const int64_t bytes = dtype == IG_F32 ? 4 : 2, lane_bytes = VF_LANES * bytes;
    const char *from = b->at;
    for (int64_t r = 0; r < k; r++, from += b->k_stride * bytes) {
        float *row = to + r * width;
        int64_t c = 0;
        for (; width == 2 * VF_LANES && c + width <= columns; c += 2 * VF_LANES, row += panel) {
            const vf x = vf_load_as(from + c * bytes, dtype);
            const vf y = vf_load_as(from + c * bytes + lane_bytes, dtype);
            vf_store(row, x);
            vf_store(row + VF_LANES, y);
        }
        for (; c < columns; c += width, row += panel)
            pack_row(from + c * bytes, columns - c, width, row, dtype);
    }
}

static inline void pack_rows(const matrix *b, int64_t k, int64_t columns, int64_t width, float *to,
                             int64_t panel) {
    if (b->dtype == IG_F32)
        pack_rows_of(b, k, columns, width, to, panel, IG_F32);
    else if (b->dtype == IG_F16)
        pack_rows_of(b, k, columns, width, to, panel, IG_F16);
    else
        pack_rows_of(b, k, columns, width, to, panel, IG_BF16);
}

/* Columns of floats, `stride` apart, become rows: blocks of 8 x 8 are transposed.  The last block
 * of a side reaches back over the one before it. */
static inline void transpose_columns(const float *from, int64_t stride, int64_t k, int64_t columns,
                                     int64_t width, float *to) {
    if (columns < 8 || k < 8) {
        for (int64_t c = 0; c < columns; c++)
            for (int64_t r = 0; r < k; r++) to[r * width + c] = from[c * stride + r];
        return;
    }
    for (int64_t next = 0; next < columns; next += 8) {
        const int64_t c = min_i64(next, columns - 8);
        for (int64_t along = 0; along < k; along += 8) {
            const int64_t r = min_i64(along, k - 8);
            transpose_8x8(from + c * stride + r, stride, to + r * width + c, width);
        }
    }
}

/* 16-bit elements are converted first, a few columns at a time. */
static inline void transpose_u16_columns(const matrix *b, int64_t k, int64_t columns, int64_t width,
                                         float *to) {
    enum { COLUMNS = 8, K = 256 };
    float room[COLUMNS * K];
    for (int64_t next = 0; next < columns; next += COLUMNS) {
        const int64_t n = min_i64(columns, COLUMNS), c = min_i64(next, columns - n);
        for (int64_t r = 0; r < k; r += K) {
            const int64_t rows = min_i64(k - r, K);
            for (int64_t i = 0; i < n; i++)
                widen_any(element(b, (c + i) * b->column_stride + r), 1, rows, room + i * K,
                          b->dtype);
            transpose_columns(room, K, rows, n, width, to + r * width + c);
        }
    }
}

/* One panel, whose columns lie packed. */
static inline void pack_columns(const matrix *b, int64_t k, int64_t columns, int64_t width,
                                float *to) {
    for (int64_t c = columns / VF_LANES * VF_LANES; c < width; c += VF_LANES)
        for (int64_t r = 0; r < k; r++) vf_store(to + r * width + c, vf_set(0));
    if (b->dtype == IG_F32)
        transpose_columns((const float *)b->at, b->column_stride, k, columns, width, to);
    else
        transpose_u16_columns(b, k, columns, width, to);
}

/* `columns` columns for k rows of b, as panels that lie `panel` floats apart. */
static inline void pack_panels(const matrix *b, int64_t k, int64_t columns, int64_t width,
                               float *to, int64_t panel) {
    if (b->column_stride == 1) {
        pack_rows(b, k, columns, width, to, panel);
        return;
    }
    matrix part = *b;
    for (int64_t j = 0; j < columns; j += width, to += panel) {
        const int64_t n = min_i64(columns - j, width);
        part.at = element(b, j * b->column_stride);
        if (b->k_stride == 1) {
            pack_columns(&part, k, n, width, to);
            continue;
        }
        for (int64_t r = 0; r < k; r++) {
            float *row = to + r * width;
            widen_any(element(&part, r * b->k_stride), b->column_stride, n, row, b->dtype);
            for (int64_t c = n; c < width; c++) row[c] = 0;
        }
    }
}

/* ---- strips of a ---- */

/* The longest k-block, and the row stride of a strip, in cache sets of its own. */
enum { KC = 512, STRIP_ROW = KC + LINE_FLOATS, STRIP_FLOATS = VF_TILE_ROWS * STRIP_ROW };

/* Rows that lie side by side, as [k][VF_TILE_ROWS].  Vectors are stored whole: what reaches over
 * the end of one row is written by the next. */
IG_INLINE void copy_across(const tile *t, const char *a, float *strip, const ig_dtype dtype) {
    const int64_t bytes = dtype == IG_F32 ? 4 : 2;
    for (int64_t r = 0; r < t->k; r++, a += t->a_k * bytes, strip += VF_TILE_ROWS)
        for (int64_t i = 0; i < t->rows; i += VF_LANES)
            vf_store(strip + i,
                     vf_load_first_as(a + i * bytes, min_i64(t->rows - i, VF_LANES), dtype));
}

/* Copies the rows of a that the tile reads, from `a` on, and lets it read the copy. */
static inline void copy_strip(tile *t, const char *a, ig_dtype dtype, float *strip) {
    const int64_t row_bytes = t->a_row * (dtype == IG_F32 ? 4 : 2);
    t->a = strip;
    if (t->a_row == 1) {
        if (dtype == IG_F32)
            copy_across(t, a, strip, IG_F32);
        else if (dtype == IG_F16)
            copy_across(t, a, strip, IG_F16);
        else
            copy_across(t, a, strip, IG_BF16);
        t->a_k = VF_TILE_ROWS;
        return;
    }
    for (int64_t i = 0; i < t->rows; i++)
        widen_any(a + i * row_bytes, t->a_k, t->k, strip + i * STRIP_ROW, dtype);
    t->a_row = STRIP_ROW;
    t->a_k = 1;
}

#endif
