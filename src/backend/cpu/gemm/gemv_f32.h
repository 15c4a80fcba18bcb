/*
 * gemv_f32.h - F32 GEMV: one to eight rows times a weight as models store it, [n, k].
 *
 *     x [k]  . . . . . . . .          VF_LANES rows of the weight go by side by side: eight
 *            | | | | | | | |          numbers of each become eight columns in registers, and
 *     w [n]  o-o-o-o-o-o-o-o  row 0   a lane adds up the products of one row.
 *            o-o-o-o-o-o-o-o  row 1
 *
 * Every sum is one chain of multiply-adds over ascending k, as in gemm_f32.h, so it has the same
 * bits.  The weight is read once, from memory: what limits the kernel is the order of its reads.
 * They go along many rows at once, more than the hardware prefetches, so it is done here.
 */
#ifndef IG_BACKEND_CPU_GEMM_GEMV_F32_H
#define IG_BACKEND_CPU_GEMM_GEMV_F32_H

#include "backend/cpu/simd/vec_transpose.h"

enum {
    GEMV_ROWS = VF_TILE_SUMS < 24 ? 4 : 8, /* of x, at most: their sums stay in registers */
    GEMV_AHEAD = 128, /* numbers that each row of the weight is prefetched ahead */
    GEMV_LINE_FLOATS = 16,
};

typedef struct gemv {
    const float *x; /* [m, k] */
    int64_t x_row, k;
    const float *w; /* [n, k], w_row apart */
    int64_t w_row;
    float *y; /* [m, n], y_row apart */
    int64_t y_row;
    const float *bias; /* [n]; NULL: none */
} gemv;

/* Prefetches the line that is GEMV_AHEAD of number k of each of the rows, or as far into those that
 * follow. */
IG_INLINE void gemv_prefetch(const gemv *g, const float *w, int64_t k) {
    const int64_t at = k + GEMV_AHEAD;
    const float *line = at < g->k ? w + at : w + VF_LANES * g->w_row + (at - g->k);
    IG_UNROLL for (int r = 0; r < VF_LANES; r++) __builtin_prefetch(line + r * g->w_row, 0, 2);
}

/* Adds the products of numbers [k, k + COLUMN_WORDS). */
IG_INLINE void gemv_words(const gemv *g, const float *w, int64_t k, vf *sum, const int m) {
    vi column[COLUMN_WORDS];
    vi_columns((const char *)(w + k), g->w_row * (int64_t)sizeof *w, column);
    IG_UNROLL for (int s = 0; s < COLUMN_WORDS; s++) {
        IG_UNROLL for (int i = 0; i < m; i++) sum[i] =
            vf_fma(vf_set(g->x[i * g->x_row + k + s]), vf_of_bits(column[s]), sum[i]);
    }
}

/* The results of VF_LANES rows of the weight, from row j on. */
IG_INLINE void gemv_lanes(const gemv *g, int64_t j, const int m) {
    const float *w = g->w + j * g->w_row;
    vf sum[GEMV_ROWS];
    IG_UNROLL for (int i = 0; i < m; i++) sum[i] = vf_set(0);
    int64_t k = 0;
    for (; k + COLUMN_WORDS <= g->k; k += COLUMN_WORDS) {
        if (k % GEMV_LINE_FLOATS == 0) gemv_prefetch(g, w, k);
        gemv_words(g, w, k, sum, m);
    }
    for (; k < g->k; k++) {
        const vf column = vf_take(w + k, g->w_row, VF_LANES);
        for (int i = 0; i < m; i++) sum[i] = vf_fma(vf_set(g->x[i * g->x_row + k]), column, sum[i]);
    }
    IG_UNROLL for (int i = 0; i < m; i++) {
        if (g->bias) sum[i] = vf_add(sum[i], vf_load(g->bias + j));
        vf_store(g->y + i * g->y_row + j, sum[i]);
    }
}

/* `n` is a multiple of VF_LANES. */
IG_INLINE void gemv_all(const gemv *g, int64_t n, const int m) {
    for (int64_t j = 0; j < n; j += VF_LANES) gemv_lanes(g, j, m);
}

#define GEMV(m) \
case m: gemv_all(g, n, m < GEMV_ROWS ? m : GEMV_ROWS); break

static void gemv_f32(const gemv *g, int64_t m, int64_t n) {
    assert(m <= GEMV_ROWS);
    switch (m) {
        GEMV(1);
        GEMV(2);
        GEMV(3);
        GEMV(4);
        GEMV(5);
        GEMV(6);
        GEMV(7);
        GEMV(8);
    default: break;
    }
}
#undef GEMV

#endif
