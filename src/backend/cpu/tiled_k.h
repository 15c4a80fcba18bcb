/*
 * tiled_k.h - products with K blocks through tile registers.
 *
 * The whole number of a K block is a sum over 256 of weight times small scale times
 * activation.  The first two are more than a byte, so they go as two,
 *
 *     weight * small = 128 * high + low               of the product, with a sign
 *     weight * small = 8 * high + low                 of the scale, where there are mins:
 *                                                     high = weight * (small / 8) and so on
 *
 * and two products of tiles give the sum, exactly what whole.h has: 64 elements at a
 * time, and nothing leaves the tiles until 256 are through.  Then it goes through memory
 * to the vectors that scale and add it, while tiles have the next block:
 *
 *     tiles      block 0 | block 1 | block 2 | ...
 *     vectors              block 0 | block 1 | ...
 */
#ifndef IG_BACKEND_CPU_TILED_K_H
#define IG_BACKEND_CPU_TILED_K_H

#include "backend/cpu/tiled.h"

enum {
    K_BLOCKS = 32,  /* of 32 elements that are opened at a time: high and low are 64 KB then */
    K_PAIR = 32,    /* rows at most: of two tiles */
    K_STEPS = 16,   /* of a tile, */
    K_QUARTERS = 4, /* which make a K block */
    K_AHEAD = 4
};

/* ---- rows to tiles ---- */

/* Rows go in pairs of tiles, all of the same height.  The last may have rows that are not there:
 * tiles see any bytes then, in rows whose results nobody takes. */
static inline int64_t k_pairs(int64_t rows) { return (rows + K_PAIR - 1) / K_PAIR; }
static inline int64_t k_height(int64_t rows) {
    return (rows + 2 * k_pairs(rows) - 1) / (2 * k_pairs(rows));
}

/* A K block of a pair: bytes [rows][256], scales [rows], rests [rows][8], up to the next line. */
IG_INLINE int64_t k_scales_at(int64_t height, int64_t r) {
    return 2 * height * IG_BLOCK_K + r * (int64_t)sizeof(float);
}
IG_INLINE int64_t k_rests_at(int64_t height, int64_t r) {
    return k_scales_at(height, 2 * height) + r * PARTS * (int64_t)sizeof(uint32_t);
}
IG_INLINE int64_t k_pair_bytes(int64_t height) {
    return (k_rests_at(height, 2 * height) + LINE - 1) / LINE * LINE;
}

static inline int64_t k_rows_bytes(int64_t rows, int64_t blocks) {
    return k_pairs(rows) * (blocks / PARTS) * k_pair_bytes(k_height(rows));
}

/* Row r of `rows`, which has `blocks` blocks. */
static inline void k_round_row(const panel_type *t, const float *x, int64_t blocks, int64_t rows,
                               int64_t r, char *to) {
    const int64_t height = k_height(rows), bytes = k_pair_bytes(height), i = r % (2 * height);
    to += r / (2 * height) * (blocks / PARTS) * bytes;
    for (int64_t b = 0; b < blocks; b += PARTS, to += bytes) {
        rounded all[PARTS];
        round_k(t, x + b * IG_BLOCK, all);
        memcpy(to + k_scales_at(height, i), &all[0].scale, sizeof all[0].scale);
        for (int h = 0; h < PARTS; h++) {
            memcpy(to + i * IG_BLOCK_K + h * IG_BLOCK, all[h].q, IG_BLOCK);
            memcpy(to + k_rests_at(height, i) + h * (int64_t)sizeof(uint32_t), all[h].rest,
                   sizeof(uint32_t));
        }
    }
}

/* ---- weights to tiles ---- */

typedef uint8_t k_lines[K_BLOCKS][STEPS][STEP_BYTES];
typedef struct k_weights {
    _Alignas(64) k_lines high, low;
} k_weights;

typedef int16_t k_words __attribute__((vector_size(sizeof(vi)), may_alias));

/* Bits of `low`. */
IG_INLINE int k_low_bits(const panel_kind kind) { return kind_has_min(kind) ? 3 : 7; }

/* A line of bytes times the small scale of each column, which both words of a lane have.  They are
 * multiplied as words: even bytes, and odd ones; or both at once, since none reaches 256. */
IG_INLINE void k_split(k_words x, k_words small, const panel_type *t, uint8_t *high, uint8_t *low) {
    if (kind_has_min(t->kind)) {
        put_ints((vi)(x * (small >> 3)), high, 0);
        put_ints((vi)(x * (small & 7)), low, 0);
        return;
    }
    const k_words off = (k_words)vi_set(t->zero * 0x10001);
    const k_words even = ((x & 255) - off) * small, odd = ((x >> 8 & 255) - off) * small;
    put_ints((vi)((even >> 7 & 255) | odd >> 7 << 8), high, 0);
    put_ints((vi)((even & 127) | (odd & 127) << 8), low, 0);
}

static inline void k_weights_of(const panel *p, int64_t blocks, const panel_type *t,
                                k_weights *to) {
    const int count = STEPS / kind_halves(t->kind);
    for (int64_t b = 0; b < blocks; b++)
        for (int first = 0; first < STEPS; first += count) {
            const vi small = vi_load(p->small[b][first / count]);
            const vi both = vi_or(vi_and(small, vi_set(0xffff)), vi_left(small, 16));
            for (int j = first; j < first + count; j++)
                k_split((k_words)line_at(p->w[b][j], 0), (k_words)both, t, to->high[b][j],
                        to->low[b][j]);
        }
}

/* ---- tiles ---- */

/* Both parts of the whole numbers of two tiles. */
typedef struct k_wholes {
    _Alignas(64) int32_t high[2][K_STEPS][PANEL_COLUMNS], low[2][K_STEPS][PANEL_COLUMNS];
} k_wholes;

/* A quarter of a K block: two blocks of weights, for the rows that begin at x. */
IG_INLINE void k_dot(const char *x, int64_t height, const uint8_t *high, const uint8_t *low,
                     const panel_kind kind) {
    TILE_LOAD(TILE_A0, x, IG_BLOCK_K);
    TILE_LOAD(TILE_B0, high, STEP_BYTES);
    TILE_LOAD(TILE_A1, x + height * IG_BLOCK_K, IG_BLOCK_K);
    TILE_LOAD(TILE_B1, low, STEP_BYTES);
    if (kind_has_min(kind)) {
        TILE_DOT_UNSIGNED(TILE_C0, TILE_A0, TILE_B0);
        TILE_DOT_UNSIGNED(TILE_C2, TILE_A1, TILE_B0);
        TILE_DOT_UNSIGNED(TILE_C1, TILE_A0, TILE_B1);
        TILE_DOT_UNSIGNED(TILE_C3, TILE_A1, TILE_B1);
    } else {
        TILE_DOT(TILE_C0, TILE_A0, TILE_B0);
        TILE_DOT(TILE_C2, TILE_A1, TILE_B0);
        TILE_DOT(TILE_C1, TILE_A0, TILE_B1);
        TILE_DOT(TILE_C3, TILE_A1, TILE_B1);
    }
}

IG_INLINE void k_take(k_wholes *to) {
    TILE_STORE(TILE_C0, to->high[0], STEP_BYTES);
    TILE_STORE(TILE_C1, to->low[0], STEP_BYTES);
    TILE_STORE(TILE_C2, to->high[1], STEP_BYTES);
    TILE_STORE(TILE_C3, to->low[1], STEP_BYTES);
}

/* What a thread has under way: a pair of tiles of rows times two groups of columns. */
typedef struct k_pair {
    const panel *const *panels;
    const k_weights *weights; /* of each group */
    const char *x;            /* the first K block */
    int64_t height, rows;
    const uint8_t *ahead; /* what is fetched meanwhile, K_AHEAD lines for each quarter */
    k_wholes whole[2];
    _Alignas(64) float sums[TILED_GROUPS][K_PAIR][PANEL_COLUMNS];
} k_pair;

/* Adds what K block k of a group came to, to a quarter of the rows. */
IG_INLINE void k_add(k_pair *p, int64_t k, int g, int quarter, const panel_kind kind) {
    const int64_t height = p->height, half = quarter % 2;
    const char *x = p->x + k * k_pair_bytes(height);
    const k_wholes *whole = &p->whole[(2 * k + g) % 2];
    const int64_t tile = quarter / 2,
                  end = smaller(height * (half + 1) / 2, p->rows - tile * height);
    k_scales_of s;
    tile_k_scales(p->panels, k * PARTS, g, kind, &s);
    for (int64_t i = height * half / 2; i < end; i++) {
        const int64_t r = tile * height + i;
        const vi high = vi_left(vi_load(whole->high[tile][i]), k_low_bits(kind));
        const vi all = vi_add(high, vi_load(whole->low[tile][i]));
        const float *scale = (const float *)(const void *)(x + k_scales_at(height, r));
        const uint32_t *rest = (const uint32_t *)(const void *)(x + k_rests_at(height, r));
        vf_store(p->sums[g][r], add_k(kind, scale, rest, 1, all, &s, vf_load(p->sums[g][r])));
    }
}

/* All K blocks of both groups.  Vectors are one of them behind, a quarter at a time. */
IG_INLINE void k_through(k_pair *p, int64_t n_k, const panel_kind kind) {
    if (!HAS_TILES) return;
    tile_fence();
    for (int64_t i = 0; i < 2 * n_k; i++) {
        const int64_t k = i / 2, behind = i - 1;
        const int g = (int)(i % 2);
        TILE_ZERO(TILE_C0);
        TILE_ZERO(TILE_C1);
        TILE_ZERO(TILE_C2);
        TILE_ZERO(TILE_C3);
        for (int q = 0; q < K_QUARTERS; q++) {
            const int64_t b = k * PARTS + 2 * q;
            fetch(p->ahead + (i * K_QUARTERS + q) * K_AHEAD * LINE, K_AHEAD * LINE);
            k_dot(p->x + k * k_pair_bytes(p->height) + 2 * q * IG_BLOCK, p->height,
                  p->weights[g].high[b][0], p->weights[g].low[b][0], kind);
            if (i > 0) k_add(p, behind / 2, (int)(behind % 2), q, kind);
        }
        k_take(&p->whole[i % 2]);
    }
    for (int q = 0; q < K_QUARTERS; q++) k_add(p, n_k - 1, 1, q, kind);
}

typedef void k_through_fn(k_pair *p, int64_t n_k);
static void k_through_one(k_pair *p, int64_t n_k) { k_through(p, n_k, K_ONE); }
static void k_through_min(k_pair *p, int64_t n_k) { k_through(p, n_k, K_MIN); }
static void k_through_two(k_pair *p, int64_t n_k) { k_through(p, n_k, K_TWO); }
static void k_through_two_mins(k_pair *p, int64_t n_k) { k_through(p, n_k, K_TWO_MINS); }
static k_through_fn *const k_through_fns[] = {
    [K_ONE] = k_through_one,
    [K_MIN] = k_through_min,
    [K_TWO] = k_through_two,
    [K_TWO_MINS] = k_through_two_mins,
};

/* ---- products ---- */

/* Sums wait in the result between two panels of the same columns. */
static inline void k_load_sums(const tiled_out *out, k_pair *p) {
    for (int64_t r = 0; r < p->rows; r++)
        for (int g = 0; g < TILED_GROUPS; g++) {
            const int64_t c = g * PANEL_COLUMNS, left = smaller(out->columns - c, PANEL_COLUMNS);
            const bool is_there = !out->first && left > 0;
            vf_store(p->sums[g][r],
                     is_there ? vf_load_first(out->y + r * out->y_row + c, left) : vf_set(0));
        }
}

static inline void k_store_sums(const tiled_out *out, const k_pair *p) {
    for (int g = 0; g < TILED_GROUPS; g++) {
        const int64_t c = g * PANEL_COLUMNS, left = smaller(out->columns - c, PANEL_COLUMNS);
        if (left <= 0) continue;
        const bool biased = out->last && out->bias;
        const vf bias = biased ? vf_load_first(out->bias + c, left) : vf_set(0);
        for (int64_t r = 0; r < p->rows; r++) {
            const vf sum = vf_load(p->sums[g][r]);
            vf_store_first(out->y + r * out->y_row + c, biased ? vf_add(sum, bias) : sum, left);
        }
    }
}

/* All rows through panels that begin at block `first`. */
static inline void k_through_panels(const whole_block *p, const panel *const *panels,
                                    const k_weights *weights, int64_t c, int64_t first,
                                    int64_t blocks) {
    const int64_t height = k_height(p->rows), bytes = k_pair_bytes(height);
    k_pair pair = {.panels = panels, .weights = weights, .height = height};
    tiled_out out = {.y_row = p->y_row,
                     .columns = smaller(p->columns - c, TILED_COLUMNS),
                     .bias = p->bias ? p->bias + c : NULL,
                     .first = first == 0,
                     .last = first + blocks == p->blocks};
    for (int64_t i = 0; i < k_pairs(p->rows); i++) {
        const int64_t row = 2 * i * height;
        pair.rows = smaller(p->rows - row, 2 * height);
        pair.x = (const char *)p->x + (i * p->blocks + first) / PARTS * bytes;
        out.y = p->y + row * p->y_row + c;
        pair.ahead = ahead_of(p, c, first + blocks, i * blocks * K_AHEAD, K_BLOCKS);
        const ending end = ending_at(p->end, row * p->y_row + c);
        finish_soon(end, out.y, p->y_row, pair.rows, out.columns);
        k_load_sums(&out, &pair);
        k_through_fns[panel_types[p->dtype].kind](&pair, blocks / PARTS);
        k_store_sums(&out, &pair);
        if (out.last) finish(end, out.y, p->y_row, pair.rows, out.columns);
    }
}

/* Whether so many rows go this way: then `x` of a block is what k_round_row() made of them all. */
static inline bool tiled_k_fits(ig_dtype dtype, int64_t rows) {
    return HAS_TILES && kind_is_k(panel_types[dtype].kind) && rows >= TILED_LEAST;
}

/* As multiply_whole(). */
static void multiply_tiled_k(const whole_block *p) {
    whole_room room;
    k_weights weights[TILED_GROUPS];
    const panel *panels[TILED_GROUPS];
    tile_begin(k_height(p->rows), K_STEPS, STEP_BYTES);
    for (int64_t c = 0; c < p->columns; c += TILED_COLUMNS)
        for (int64_t b = 0; b < p->blocks; b += K_BLOCKS) {
            const int64_t blocks = smaller(p->blocks - b, K_BLOCKS);
            fill_panels(p, c, b, blocks, panels, &room);
            for (int g = 0; g < TILED_GROUPS; g++)
                k_weights_of(panels[g], blocks, &panel_types[p->dtype], &weights[g]);
            k_through_panels(p, panels, weights, c, b, blocks);
        }
    TILE_END();
}

#endif
