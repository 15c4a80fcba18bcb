/*
 * q8_gemm.h - one int8 GEMM: its operands, where results go, and the walk of small M.
 */
#ifndef IG_BACKEND_CPU_QGEMM_Q8_GEMM_H
#define IG_BACKEND_CPU_QGEMM_Q8_GEMM_H

#include "backend/cpu/gemm/epilogue.h"
#include "backend/cpu/qgemm/qtypes.h"

/* y [rows, columns] = x times w^T. */
typedef struct q8_gemm {
    const act_q8 *x; /* the first row */
    int64_t x_row;   /* blocks from one to the next */
    int64_t rows;
    ig_dtype dtype; /* of the weights */
    bool is_packed;
    const char *w; /* the row of the first column; packed: the first column group */
    int64_t w_row; /* bytes from one to the next */
    int64_t columns;
    int64_t blocks; /* of 32 elements along k */
    float *y;
    int64_t y_row;
    const float *bias; /* of these columns, or NULL */
    epilogue epilogue;
} q8_gemm;

/* Stores `count` sums of a row from column c on: bias, then epilogue. */
static inline void store_row(const q8_gemm *p, int64_t row, int64_t c, const float *sums,
                             int64_t count) {
    const int64_t columns = min_i64(p->columns - c, count), at = row * p->y_row + c;
    float *y = p->y + at;
    for (int64_t k = 0; k < columns; k++) y[k] = p->bias ? sums[k] + p->bias[c + k] : sums[k];
    apply_epilogue(epilogue_at(p->epilogue, at), y, p->y_row, 1, columns);
}

/* Rows [first, first + count) of it. */
static inline q8_gemm q8_gemm_rows(const q8_gemm *p, int64_t first, int64_t count) {
    q8_gemm part = *p;
    part.x += first * p->x_row;
    part.y += first * p->y_row;
    part.epilogue = epilogue_at(p->epilogue, first * p->y_row);
    part.rows = count;
    return part;
}

/* ---- small M: packed column groups, a few at once ---- */

enum {
    SMALL_M_MAX = 32, /* rows at once */
    N_STREAMS = 4,    /* column groups at once, each a stream of memory */
};

/* With 8 lanes there are too few registers for a tile, so any M takes this path. */
static inline bool is_small_m(int64_t rows) { return VF_LANES == 8 || rows <= SMALL_M_MAX; }

/* Adds up to SMALL_M_MAX rows times `groups` groups to sums [rows][groups * QNR]. */
typedef void small_m_fn(const uint8_t *w, int64_t group_bytes, int64_t blocks,
                        const act_q8_rows *rows, float *sums, int64_t groups);

/* Groups [g, g + groups) times rows [r, r + count). */
static inline void small_m_rows(const q8_gemm *p, small_m_fn *fn, int64_t g, int64_t groups,
                                int64_t r, int64_t count) {
    _Alignas(64) float sums[SMALL_M_MAX * N_STREAMS * QNR];
    const act_q8_rows rows = {p->x + r * p->x_row, p->x_row, count};
    memset(sums, 0, (size_t)(count * groups * QNR) * sizeof *sums);
    fn((const uint8_t *)p->w + g * p->w_row, p->w_row, p->blocks, &rows, sums, groups);
    for (int64_t i = 0; i < count; i++)
        store_row(p, r + i, g * QNR, sums + i * groups * QNR, groups * QNR);
}

static inline void qgemm_small_m(const q8_gemm *p, small_m_fn *fn) {
    const int64_t left = (p->columns + QNR - 1) / QNR;
    const int64_t n_parts = (p->rows + SMALL_M_MAX - 1) / SMALL_M_MAX;
    for (int64_t g = 0, groups; g < left; g += groups) {
        groups = min_i64(left - g, N_STREAMS);
        for (int64_t i = 0; i < n_parts; i++) {
            const int64_t r = p->rows * i / n_parts, end = p->rows * (i + 1) / n_parts;
            small_m_rows(p, fn, g, groups, r, end - r);
        }
    }
}

#endif
