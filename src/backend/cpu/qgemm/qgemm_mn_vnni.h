/*
 * qgemm_mn_vnni.h - int8 GEMM of any M by vector dot products: panels times register tiles.
 *
 *     x  [ QMR rows ]  times  panel [ block ][ step ][ QNR_TILE columns ]
 *
 * A register tile keeps the F32 sums of up to QMR rows and QNR_TILE columns, and for one block
 * their int32 accumulators.  Each step loads a vector of weights for all rows and broadcasts four
 * activation bytes of each row.
 */
#ifndef IG_BACKEND_CPU_QGEMM_QGEMM_MN_VNNI_H
#define IG_BACKEND_CPU_QGEMM_QGEMM_MN_VNNI_H

#include "backend/cpu/qgemm/dot_q8.h"
#include "backend/cpu/qgemm/panel_walk.h"

enum {
    TILE_VECTORS = TILE_GROUPS * PANEL_VECTORS,
    QMR = VF_LANES < 16 ? 4 : 7,                /* rows of a register tile, at most; */
    QMR_TWO_SCALES = SPLIT_SCALE_ACC ? QMR : 4, /* with two scales, which need more registers */
    WIDE_TILES = TWO_MINS + 1,
};

typedef vf tile_sums[QMR][TILE_VECTORS];

/* Vector v of the scales of a block. */
IG_INLINE vf tile_scale(const panel *const *p, int64_t b, const int sg, const int v) {
    return vf_load(p[v / PANEL_VECTORS]->scale[b][sg] + v % PANEL_VECTORS * VF_LANES);
}

IG_INLINE vf tile_min(const panel *const *p, int64_t b, const int sg, const int v) {
    return vf_load(p[v / PANEL_VECTORS]->min[b][sg] + v % PANEL_VECTORS * VF_LANES);
}

IG_INLINE vf tile_magic_bias(const panel *const *p, int64_t b, const int sg, const int v) {
    return vf_load(p[v / PANEL_VECTORS]->magic_bias[b][sg] + v % PANEL_VECTORS * VF_LANES);
}

/* A block of wide bytes in pairs, one vector of columns after the other: they stay in registers for
 * all rows. */
IG_INLINE void add_steps_wide(const panel *const *p, const act_q8 *const *x, int64_t b,
                              vi (*acc)[TILE_VECTORS], const int rows) {
    IG_UNROLL
    for (int v = 0; v < TILE_VECTORS; v++) {
        vi w[STEPS];
        IG_UNROLL
        for (int s = 0; s < STEPS; s++)
            w[s] = line_at(p[v / PANEL_VECTORS]->w[b][s], v % PANEL_VECTORS);
        IG_UNROLL
        for (int r = 0; r < rows; r++) {
            const int8_t *q = x[r][b].q;
            dot_wide(&acc[r][v], w, &q, STEPS, 1);
        }
    }
}

/* Steps [first, first + count) of a block, for all rows. */
IG_INLINE void add_steps(const panel *const *p, const act_q8 *const *x, int64_t b,
                         vi (*acc)[TILE_VECTORS], const int first, const int count, const int rows,
                         const bool is_wide) {
    if (DOT_IN_PAIRS && is_wide) {
        add_steps_wide(p, x, b, acc, rows);
        return;
    }
    IG_UNROLL
    for (int s = first; s < first + count; s++) {
        vi u[TILE_VECTORS];
        IG_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            u[v] = line_at(p[v / PANEL_VECTORS]->w[b][s], v % PANEL_VECTORS);
        IG_UNROLL
        for (int r = 0; r < rows; r++) {
            IG_UNROLL
            for (int v = 0; v < TILE_VECTORS; v++)
                vi_add_dot_repeated(&acc[r][v], u[v], x[r][b].q + 4 * s);
        }
    }
}

IG_INLINE void init_tile(const act_q8 *const *x, int64_t b, vi (*acc)[TILE_VECTORS], const int sg,
                         const int rows, const quant_kind kind) {
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++) acc[r][v] = acc_init(kind, &x[r][b], sg);
    }
}

IG_INLINE void add_mins(const panel *const *p, const act_q8 *const *x, int64_t b,
                        vf (*sum)[TILE_VECTORS], const int sg, const int rows) {
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            sum[r][v] = add_min(&x[r][b], sg, tile_min(p, b, sg, v), sum[r][v]);
    }
}

/* One scale group, or a block that has one scale. */
IG_INLINE void add_scaled(const panel *const *p, const act_q8 *const *x, int64_t b,
                          vf (*sum)[TILE_VECTORS], const int sg, const int rows,
                          const quant_kind kind, const bool is_wide) {
    const int count = STEPS / scales_per_block(kind);
    vi acc[QMR][TILE_VECTORS];
    init_tile(x, b, acc, sg, rows, kind);
    add_steps(p, x, b, acc, sg * count, count, rows, is_wide);
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            sum[r][v] = accumulate_i32(kind, &x[r][b].scale, acc[r][v], tile_scale(p, b, sg, v),
                                       tile_magic_bias(p, b, sg, v), sum[r][v]);
    }
}

/* both = scale0 acc0 for the first scale group, then + scale1 acc1 */
IG_INLINE void add_scale_group(const panel *const *p, const act_q8 *const *x, int64_t b,
                               vf (*both)[TILE_VECTORS], const int sg, const int rows,
                               const quant_kind kind) {
    vi acc[QMR][TILE_VECTORS];
    init_tile(x, b, acc, sg, rows, kind);
    add_steps(p, x, b, acc, sg * STEPS / 2, STEPS / 2, rows, false);
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++) {
            const vf scale = tile_scale(p, b, sg, v);
            both[r][v] = sg == 0 ? scale_acc(kind, acc[r][v], scale, tile_magic_bias(p, b, 0, v))
                                 : vf_fma(vi_to_float(acc[r][v]), scale, both[r][v]);
        }
    }
}

/* sum = sum + (scale0 acc0 + scale1 acc1) * activation scale */
IG_INLINE void add_scale_groups(const panel *const *p, const act_q8 *const *x, int64_t b,
                                vf (*sum)[TILE_VECTORS], const int rows, const quant_kind kind) {
    vf both[QMR][TILE_VECTORS];
    add_scale_group(p, x, b, both, 0, rows, kind);
    add_scale_group(p, x, b, both, 1, rows, kind);
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            sum[r][v] = vf_fma_repeated(both[r][v], &x[r][b].scale, sum[r][v]);
    }
}

IG_INLINE void load_sums(const tile_out *out, vf (*sum)[TILE_VECTORS], const int rows) {
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            sum[r][v] = out->first ? vf_set(0) : vf_load(out->partial[r] + v * VF_LANES);
    }
}

IG_INLINE void store_partial(const tile_out *out, vf (*sum)[TILE_VECTORS], const int rows) {
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++) vf_store(out->partial[r] + v * VF_LANES, sum[r][v]);
    }
}

IG_INLINE void store_sums(const tile_out *out, vf (*sum)[TILE_VECTORS], const int rows) {
    IG_UNROLL
    for (int v = 0; v < TILE_VECTORS; v++) {
        const int64_t left = min_i64(out->columns - v * VF_LANES, VF_LANES);
        if (left <= 0) continue;
        IG_UNROLL
        for (int r = 0; r < rows; r++) {
            vf y = sum[r][v];
            if (out->bias) y = vf_add(y, vf_load_first(out->bias + v * VF_LANES, left));
            vf_store_first(out->y + r * out->y_row + v * VF_LANES, y, left);
        }
    }
}

IG_INLINE void put_tile(const tile_out *out, vf (*sum)[TILE_VECTORS], const int rows) {
    if (out->last)
        store_sums(out, sum, rows);
    else
        store_partial(out, sum, rows);
}

/* Adds `blocks` blocks of panels to the sums of some rows. */
IG_INLINE void add_tile(const panel *const *p, const act_q8 *const *x, int64_t blocks,
                        const tile_out *out, const int rows, const quant_kind kind,
                        const bool is_wide) {
    tile_sums sum;
    const act_q8 *row[QMR]; /* in registers: gcc would load them for each product */
    if (rows > (scales_per_block(kind) == 2 ? QMR_TWO_SCALES : QMR)) return; /* never called */
    load_sums(out, sum, rows);
    IG_UNROLL
    for (int r = 0; r < rows; r++) row[r] = x[r];
    for (int64_t b = 0; b < blocks; b++) {
        prefetch_beside(out, b);
        if (adds_scale_groups_first(kind))
            add_scale_groups(p, row, b, sum, rows, kind);
        else
            add_scaled(p, row, b, sum, 0, rows, kind, is_wide);
        if (n_magic_acc(kind) == 2) add_scaled(p, row, b, sum, 1, rows, kind, false);
        if (kind_has_min(kind)) add_mins(p, row, b, sum, 0, rows);
        if (kind == TWO_MINS) add_mins(p, row, b, sum, 1, rows);
    }
    put_tile(out, sum, rows);
}

typedef void tile_fn(const panel *const *p, const act_q8 *const *x, int64_t blocks,
                     const tile_out *out);

#define TILE(name, rows, kind, is_wide)                                                      \
    static void name##_##rows(const panel *const *p, const act_q8 *const *x, int64_t blocks, \
                              const tile_out *out) {                                         \
        add_tile(p, x, blocks, out, rows, kind, is_wide);                                    \
    }
#define TILES(name, kind, is_wide) \
    TILE(name, 1, kind, is_wide)   \
    TILE(name, 2, kind, is_wide)   \
    TILE(name, 3, kind, is_wide)   \
    TILE(name, 4, kind, is_wide)   \
    TILE(name, 5, kind, is_wide) TILE(name, 6, kind, is_wide) TILE(name, 7, kind, is_wide)
#define TILE_NAMES(name) \
    { name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7 }

TILES(one_scale, ONE_SCALE, false)
TILES(wide, ONE_SCALE, true)
TILES(with_min, WITH_MIN, false)
TILES(k_min, K_MIN, false)
TILES(two_scales, TWO_SCALES, false)
TILES(two_mins, TWO_MINS, false)

/* [kind, or the last for wide bytes][rows - 1] */
static tile_fn *const tiles[WIDE_TILES + 1][7] = {
    [ONE_SCALE] = TILE_NAMES(one_scale), [WITH_MIN] = TILE_NAMES(with_min),
    [K_MIN] = TILE_NAMES(k_min),         [TWO_SCALES] = TILE_NAMES(two_scales),
    [TWO_MINS] = TILE_NAMES(two_mins),   [WIDE_TILES] = TILE_NAMES(wide),
};

/* ---- panels ---- */

/* All rows times panels that begin at block `first`, in tiles of nearly equal height. */
static inline void multiply_panels(const q8_gemm *p, const panel *const *panels, int64_t c,
                                   int64_t first, int64_t blocks, panel_scratch *scratch) {
    const quant_type *t = &quant_types[p->dtype];
    const int64_t most = scales_per_block(t->kind) == 2 ? QMR_TWO_SCALES : QMR;
    const int64_t n_tiles = (p->rows + most - 1) / most;
    const int64_t each = p->rows / n_tiles, larger = p->rows % n_tiles; /* tiles, by a row */
    tile_out out = {.y_row = p->y_row,
                    .columns = min_i64(p->columns - c, QNR_TILE),
                    .bias = p->bias ? p->bias + c : NULL,
                    .first = first == 0,
                    .last = first + blocks == p->blocks};
    const next_panels next = next_panels_of(p, c, first + blocks, n_tiles, blocks);
    out.lines = next.lines;
    const act_q8 *row = p->x + first;
    for (int64_t i = 0, r = 0, rows; i < n_tiles; i++, r += rows) {
        const act_q8 *x[QMR];
        rows = each + (i < larger);
        for (int64_t k = 0; k < rows; k++, row += p->x_row) x[k] = row;
        out.y = p->y + r * p->y_row + c;
        out.partial = scratch->partial + r;
        out.next = prefetch_start(&next, i, blocks);
        const epilogue e = epilogue_at(p->epilogue, r * p->y_row + c);
        if (out.last) prefetch_output(e, out.y, p->y_row, rows, out.columns);
        tiles[t->is_wide ? WIDE_TILES : (int)t->kind][rows - 1](panels, x, blocks, &out);
        if (out.last) apply_epilogue(e, out.y, p->y_row, rows, out.columns);
    }
}

/* Up to PARTIAL_ROWS rows. */
static inline void qgemm_mn_rows(const q8_gemm *p, panel_scratch *scratch) {
    const panel *panels[TILE_GROUPS];
    for (int64_t c = 0; c < p->columns; c += QNR_TILE)
        for (int64_t b = 0; b < p->blocks; b += PANEL_BLOCKS) {
            const int64_t blocks = min_i64(p->blocks - b, PANEL_BLOCKS);
            fill_panels(p, c, b, blocks, 0, panels, scratch);
            multiply_panels(p, panels, c, b, blocks, scratch);
        }
}

static void qgemm_mn(const q8_gemm *p) {
    panel_scratch scratch;
    const int64_t n_parts = (p->rows + PARTIAL_ROWS - 1) / PARTIAL_ROWS;
    for (int64_t i = 0; i < n_parts; i++) {
        const int64_t r = p->rows * i / n_parts, end = p->rows * (i + 1) / n_parts;
        const q8_gemm part = q8_gemm_rows(p, r, end - r);
        qgemm_mn_rows(&part, &scratch);
    }
}

#endif
