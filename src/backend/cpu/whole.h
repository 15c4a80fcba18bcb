/*
 * whole.h - products of activations and stored weights in whole numbers.
 *
 * Activations are rounded to bytes, 32 at a time with a scale of their own.  A block
 * of 32 products is then summed exactly, in integers, and goes into the result by
 *
 *     sum = sum + (weight scale * activation scale) * whole        one scale
 *     sum = sum + min * (activation scale * sum of bytes)          with a min
 *
 * block after block, in lanes of their own for each column.  That chain is all there
 * is to a result, so its bits do not depend on how many rows there are, how the work
 * is cut, or how the weights came into their panel.
 */
#ifndef IG_BACKEND_CPU_WHOLE_H
#define IG_BACKEND_CPU_WHOLE_H

#include <math.h>

#include "backend/cpu/panel.h"
#include "backend/cpu/vec_dot.h"

/* 32 activations.  `rest` is what the type of the weights needs besides, for each half or the first
 * for all: -zero times the sum of the bytes, an int32_t; or scale times that sum, a float. */
typedef struct rounded {
    int8_t q[IG_BLOCK];
    float scale;
    uint32_t rest[2];
} rounded;

/* ---- activations to bytes ---- */

/*
 * Scales have the eleven bits of a half, with a float's range.  More would be no better,
 * since the bytes have eight; but so have the blocks that llama.cpp makes of activations,
 * and with the same rounding products of blocks of 32 give what it gives, bit by bit of
 * noise, not only something as near.
 */
static inline float to_eleven_bits(float x) {
    const uint32_t bits = bits_of_float(x), odd = bits >> 13 & 1;
    return float_of_bits((bits + 0xfff + odd) & ~0x1fffU);
}

static inline uint32_t rest_of(const panel_type *t, float scale, int32_t sum) {
    if (t->kind == WITH_MIN || t->kind == TWO_MINS)
        return bits_of_float(to_eleven_bits(scale * (float)sum));
    return (uint32_t)(-t->zero * sum);
}

/* Adding 1.5 * 2^23 leaves a number, rounded to nearest even, in the last bits. */
static inline void round_block(const panel_type *t, const float *restrict x, rounded *y) {
    int32_t largest = 0, half[2] = {0, 0};
    for (int i = 0; i < IG_BLOCK; i++) {
        const int32_t bits = (int32_t)(bits_of_float(x[i]) & 0x7fffffff);
        largest = bits > largest ? bits : largest;
    }
    const bool finite = largest < 0x7f800000;
    const float most = float_of_bits((uint32_t)largest);
    const float inverse = finite && most > 0 ? 127 / most : 0;
    int8_t *restrict q = y->q;
    for (int i = 0; i < IG_BLOCK; i++) {
        const float shifted = x[i] * inverse + 0x1.8p23f;
        q[i] = finite ? (int8_t)(bits_of_float(shifted) & 255) : 0;
    }
    for (int i = 0; i < IG_BLOCK / 2; i++) half[0] += q[i], half[1] += q[i + IG_BLOCK / 2];
    const float scale = most / 127;
    const bool halves = t->kind >= TWO_SCALES;
    y->scale = finite ? to_eleven_bits(scale) : NAN;
    y->rest[0] = rest_of(t, scale, halves ? half[0] : half[0] + half[1]);
    y->rest[1] = rest_of(t, scale, half[1]);
}

/* ---- tiles ---- */

enum { PANEL_VECTORS = PANEL_COLUMNS / VF_LANES };

IG_INLINE vi vi_repeat(const void *four_bytes) {
    int32_t x;
    memcpy(&x, four_bytes, sizeof x);
    return vi_set(x);
}

/* Steps [first, first + count) of a block, for all rows. */
IG_INLINE void add_steps(const uint8_t (*w)[4 * PANEL_COLUMNS], const rounded *const *x, int64_t b,
                         vi (*whole)[PANEL_VECTORS], const int first, const int count,
                         const int rows, const bool is_wide) {
    IG_UNROLL
    for (int s = first; s < first + count; s++) {
        vi u[PANEL_VECTORS];
        IG_UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++)
            u[v] = vi_load((const int32_t *)(const void *)w[s] + v * VF_LANES);
        IG_UNROLL
        for (int r = 0; r < rows; r++) {
            const vi a = vi_repeat(x[r][b].q + 4 * s);
            IG_UNROLL
            for (int v = 0; v < PANEL_VECTORS; v++)
                whole[r][v] =
                    is_wide ? vi_dot_wide(whole[r][v], u[v], a) : vi_dot(whole[r][v], u[v], a);
        }
    }
}

/* The sums of bytes of one half of a block, or of all of it, to begin with. */
IG_INLINE void begin_whole(const rounded *const *x, int64_t b, vi (*whole)[PANEL_VECTORS],
                           const int half, const int rows, const bool has_zero) {
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++)
            whole[r][v] = has_zero ? vi_repeat(&x[r][b].rest[half]) : vi_set(0);
    }
}

IG_INLINE void add_mins(const panel *p, const rounded *const *x, int64_t b,
                        vf (*sum)[PANEL_VECTORS], const int half, const int rows) {
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        const vf of = vf_set(float_of_bits(x[r][b].rest[half]));
        IG_UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++)
            sum[r][v] = vf_fma(vf_load(p->min[b][half] + v * VF_LANES), of, sum[r][v]);
    }
}

IG_INLINE void add_one_scale(const panel *p, const rounded *const *x, int64_t b,
                             vf (*sum)[PANEL_VECTORS], const int rows, const panel_kind kind,
                             const bool is_wide) {
    vi whole[8][PANEL_VECTORS];
    begin_whole(x, b, whole, 0, rows, kind == ONE_SCALE);
    add_steps(p->w[b], x, b, whole, 0, STEPS, rows, is_wide);
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        const vf scale = vf_set(x[r][b].scale);
        IG_UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++)
            sum[r][v] = vf_fma(vi_to_float(whole[r][v]),
                               vf_mul(vf_load(p->scale[b][0] + v * VF_LANES), scale), sum[r][v]);
    }
    if (kind == WITH_MIN) add_mins(p, x, b, sum, 0, rows);
}

/* sum = sum + (scale0 whole0 + scale1 whole1) * activation scale */
IG_INLINE void add_two_scales(const panel *p, const rounded *const *x, int64_t b,
                              vf (*sum)[PANEL_VECTORS], const int rows, const panel_kind kind) {
    vi whole[8][PANEL_VECTORS];
    vf both[8][PANEL_VECTORS];
    IG_UNROLL
    for (int half = 0; half < 2; half++) {
        begin_whole(x, b, whole, half, rows, kind == TWO_SCALES);
        add_steps(p->w[b], x, b, whole, half * STEPS / 2, STEPS / 2, rows, false);
        IG_UNROLL
        for (int r = 0; r < rows; r++) {
            IG_UNROLL
            for (int v = 0; v < PANEL_VECTORS; v++) {
                const vf scale = vf_load(p->scale[b][half] + v * VF_LANES);
                const vf product = vi_to_float(whole[r][v]);
                both[r][v] =
                    half == 0 ? vf_mul(product, scale) : vf_fma(product, scale, both[r][v]);
            }
        }
    }
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++)
            sum[r][v] = vf_fma(both[r][v], vf_set(x[r][b].scale), sum[r][v]);
    }
    if (kind == TWO_MINS) add_mins(p, x, b, sum, 0, rows);
    if (kind == TWO_MINS) add_mins(p, x, b, sum, 1, rows);
}

/* Adds `blocks` blocks of a panel to sums [rows][PANEL_COLUMNS]. */
IG_INLINE void add_panel(const panel *p, const rounded *const *x, int64_t blocks, float *sums,
                         const int rows, const panel_kind kind, const bool is_wide) {
    vf sum[8][PANEL_VECTORS];
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++)
            sum[r][v] = vf_load(sums + r * PANEL_COLUMNS + v * VF_LANES);
    }
    for (int64_t b = 0; b < blocks; b++) {
        if (kind >= TWO_SCALES)
            add_two_scales(p, x, b, sum, rows, kind);
        else
            add_one_scale(p, x, b, sum, rows, kind, is_wide);
    }
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++)
            vf_store(sums + r * PANEL_COLUMNS + v * VF_LANES, sum[r][v]);
    }
}

typedef void panel_fn(const panel *p, const rounded *const *x, int64_t blocks, float *sums);

#define PANEL_TILE(name, rows, kind, is_wide)                                          \
    static void name##_##rows(const panel *p, const rounded *const *x, int64_t blocks, \
                              float *sums) {                                           \
        add_panel(p, x, blocks, sums, rows, kind, is_wide);                            \
    }
#define PANEL_TILES(name, kind, is_wide) \
    PANEL_TILE(name, 1, kind, is_wide)   \
    PANEL_TILE(name, 2, kind, is_wide)   \
    PANEL_TILE(name, 4, kind, is_wide) PANEL_TILE(name, 8, kind, is_wide)
#define PANEL_NAMES(name) \
    { name##_1, name##_2, name##_4, name##_8 }

PANEL_TILES(one_scale, ONE_SCALE, false)
PANEL_TILES(wide, ONE_SCALE, true)
PANEL_TILES(with_min, WITH_MIN, false)
PANEL_TILES(two_scales, TWO_SCALES, false)
PANEL_TILES(two_mins, TWO_MINS, false)

/* [kind, or the last for wide bytes][log2 rows] */
static panel_fn *const panel_tiles[5][4] = {
    [ONE_SCALE] = PANEL_NAMES(one_scale),
    [WITH_MIN] = PANEL_NAMES(with_min),
    [TWO_SCALES] = PANEL_NAMES(two_scales),
    [TWO_MINS] = PANEL_NAMES(two_mins),
    [4] = PANEL_NAMES(wide),
};

/* ---- blocks of results ---- */

enum { WHOLE_ROWS = 128 }; /* of a block of results, at most; it has PANEL_COLUMNS columns */

typedef struct whole_block {
    const rounded *x; /* the first row, */
    int64_t x_row;    /* and how far apart they are */
    ig_dtype dtype;   /* of the weights */
    const char *w;    /* the first column's row, */
    int64_t w_row;    /* and how far apart they lie, in bytes */
    int64_t blocks;   /* of 32 elements along k */
    float *y;
    int64_t y_row;
    const float *bias; /* of these columns, or NULL */
} whole_block;

typedef struct whole_room {
    panel panel;
    stage stage;
    float sums[WHOLE_ROWS * PANEL_COLUMNS];
} whole_room;

/* All rows through one panel, which begins at block `first`. */
static inline void add_all_rows(const whole_block *p, int64_t rows, int64_t first, int64_t blocks,
                                whole_room *room) {
    const panel_type *t = &panel_types[p->dtype];
    panel_fn *const *tile = panel_tiles[t->is_wide ? 4 : t->kind];
    for (int64_t r = 0; r < rows;) {
        int size = VF_LANES < 16 ? 2 : 3; /* log2 of the rows */
        while (1 << size > rows - r) size--;
        const rounded *x[8];
        for (int i = 0; i < 1 << size; i++) x[i] = p->x + (r + i) * p->x_row + first;
        tile[size](&room->panel, x, blocks, room->sums + r * PANEL_COLUMNS);
        r += 1 << size;
    }
}

/* At most WHOLE_ROWS rows and PANEL_COLUMNS columns. */
static void multiply_whole(const whole_block *p, int64_t rows, int64_t columns, whole_room *room) {
    const panel_type *t = &panel_types[p->dtype];
    memset(room->sums, 0, (size_t)rows * PANEL_COLUMNS * sizeof *room->sums);
    for (int64_t b = 0; b < p->blocks; b += PANEL_BLOCKS) {
        const int64_t blocks = smaller(p->blocks - b, PANEL_BLOCKS);
        const int64_t at = ig_bytes_of(p->dtype, b * IG_BLOCK);
        const int64_t bytes = ig_bytes_of(p->dtype, blocks * IG_BLOCK);
        for (int64_t c = 0; c < columns; c++)
            for (int64_t i = 0; i < bytes; i += 64)
                __builtin_prefetch(p->w + c * p->w_row + at + bytes + i);
        panel_fill(t, p->w + at, p->w_row, columns, blocks, &room->stage, &room->panel);
        add_all_rows(p, rows, b, blocks, room);
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            const float sum = room->sums[r * PANEL_COLUMNS + c];
            p->y[r * p->y_row + c] = p->bias ? sum + p->bias[c] : sum;
        }
}

#endif
