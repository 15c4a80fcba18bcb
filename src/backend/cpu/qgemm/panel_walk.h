/*
 * panel_walk.h - panels of a GEMM with any M: unpacked one after the other, the next prefetched.
 *
 *     columns c .. c + 31     panel 0 | panel 1     blocks 0 .. 63, unpacked once,
 *     all rows                  tile  .  tile       then every row goes through them
 *                               ...                 while the next panels are prefetched
 *
 * A panel stays in L1 and partial sums of up to PARTIAL_ROWS rows in L2.  Unpacking costs as much
 * as multiplying a row or two, so this pays for larger M.
 */
#ifndef IG_BACKEND_CPU_QGEMM_PANEL_WALK_H
#define IG_BACKEND_CPU_QGEMM_PANEL_WALK_H

#include "backend/cpu/qgemm/packed_read.h"
#include "backend/cpu/qgemm/q8_gemm.h"
#include "backend/cpu/qgemm/unpack_u8.h"

enum {
    TILE_GROUPS = VF_LANES < 16 ? 1 : 2, /* panels side by side */
    QNR_TILE = TILE_GROUPS * QNR,
    PARTIAL_ROWS = 512, /* rows whose partial sums are kept */
};

typedef struct panel_scratch {
    panel panel[TILE_GROUPS];
    _Alignas(64) float partial[PARTIAL_ROWS][QNR_TILE]; /* sums between two panels of columns */
    stage stage;
} panel_scratch;

/* Where the results of a tile go. */
typedef struct tile_out {
    float *y;
    int64_t y_row, columns;
    float (*partial)[QNR_TILE];
    const float *bias;   /* or NULL */
    bool first, last;    /* panels */
    const uint8_t *next; /* what the tile prefetches: */
    int64_t lines;       /* as many lines for each block */
} tile_out;

/* Prefetches the lines that go with block b. */
IG_INLINE void prefetch_beside(const tile_out *out, int64_t b) {
    const uint8_t *at = out->next + b * out->lines * LINE;
    for (int64_t i = 0; i < out->lines; i++) __builtin_prefetch(at + i * LINE, 0, 2);
}

/* Subtracts the zero point: AMX takes signed bytes. */
static inline void panel_subtract(panel *p, int64_t blocks, int zero_point) {
    for (int64_t b = 0; b < blocks && zero_point != 0; b++)
        for (int j = 0; j < STEPS; j++)
            for (int v = 0; v < PANEL_VECTORS; v++) {
                const vi q = vi_sub_bytes(line_at(p->w[b][j], v), zero_point);
                vf_store((float *)(void *)p->w[b][j] + v * VF_LANES, vf_of_bits(q));
            }
}

/* Unpacks blocks [first, first + blocks) of the columns from c on, less `zero_point`.  Where there
 * is only one group of columns left, both panels are the first. */
static inline void fill_panels(const q8_gemm *p, int64_t c, int64_t first, int64_t blocks,
                               int zero_point, const panel **to, panel_scratch *scratch) {
    for (int g = 0; g < TILE_GROUPS; g++, c += QNR) {
        to[g] = &scratch->panel[c < p->columns ? g : 0];
        if (c >= p->columns) continue;
        if (p->is_packed)
            unpack_panel_fns[p->dtype]((const uint8_t *)p->w + c / QNR * p->w_row, first, blocks,
                                       zero_point, &scratch->panel[g]);
        else
            panel_fill(p->dtype, p->w + c * p->w_row + ig_bytes_of(p->dtype, first * IG_BLOCK),
                       p->w_row, min_i64(p->columns - c, QNR), blocks, &scratch->stage,
                       &scratch->panel[g]);
        if (!p->is_packed) panel_subtract(&scratch->panel[g], blocks, zero_point);
    }
}

/*
 * What the next panels are unpacked from: more blocks of these groups, or the next groups.  Tiles
 * prefetch it to L2, the lines spread evenly over all blocks of all tiles.  Weights that are not
 * packed are prefetched by panel_fill().
 */
typedef struct next_panels {
    const uint8_t *from; /* in the first group */
    int64_t w_row;       /* bytes from it to the next */
    int64_t group_lines; /* lines of one group */
    int64_t lines;       /* lines for a block of a tile */
} next_panels;

static inline next_panels next_panels_of(const q8_gemm *p, int64_t c, int64_t next, int64_t n_tiles,
                                         int64_t tile_blocks) {
    if (!p->is_packed) return (next_panels){.from = (const uint8_t *)p->x, .group_lines = 1};
    const bool is_end = next >= p->blocks;
    const int64_t blocks = min_i64(p->blocks - (is_end ? 0 : next), PANEL_BLOCKS);
    const int64_t group = c / QNR + (is_end ? TILE_GROUPS : 0);
    const int64_t at = is_end ? 0 : packed_group_bytes(p->dtype, next);
    const int64_t group_lines = packed_group_bytes(p->dtype, blocks) / LINE;
    return (next_panels){.from = (const uint8_t *)p->w + group * p->w_row + at,
                         .w_row = p->w_row,
                         .group_lines = group_lines,
                         .lines = 1 + TILE_GROUPS * group_lines / (n_tiles * tile_blocks)};
}

/* Where the prefetch of tile i begins. */
static inline const uint8_t *prefetch_start(const next_panels *a, int64_t i, int64_t tile_blocks) {
    const int64_t line = i * tile_blocks * a->lines;
    return a->from + line / a->group_lines * a->w_row + line % a->group_lines * LINE;
}

#endif
