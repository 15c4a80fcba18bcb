/*
 * qgemm_mn_amx.h - int8 GEMM of any M by AMX tiles: the results of qgemm_mn_vnni.h, bit for bit.
 *
 * A tile multiply gives the int32 accumulators of sixteen rows and sixteen columns for one block.
 * They go through memory to the vectors that scale and add them, which takes longer than the
 * multiply.  A tile must be complete before it can be stored, so vectors run one block behind, and
 * their work is interleaved with the tile instructions:
 *
 *     tile       load rows 1   load weights 1   store 0   multiply 1   | load rows 2 ..
 *     vectors                add .. rows of the block before ..        | add .. 0 ..
 *
 * Bytes are signed here: the zero point is subtracted when a panel is unpacked, and accumulators
 * need no correction.  Types with two scales would need two tiles and two stores for a block;
 * vectors are as fast, so they take qgemm_mn_vnni.h.
 */
#ifndef IG_BACKEND_CPU_QGEMM_QGEMM_MN_AMX_H
#define IG_BACKEND_CPU_QGEMM_QGEMM_MN_AMX_H

#include "backend/cpu/qgemm/dot_q8.h"
#include "backend/cpu/qgemm/panel_walk.h"
#include "backend/cpu/simd/vec_amx.h"

enum {
    AMX_MR = 16,    /* rows of a tile */
    AMX_MIN_M = 24, /* fewer rows gain nothing */
};
static_assert(!HAS_TILES || PANEL_VECTORS == 1, "a row of a tile is a vector");

/* ---- activations ---- */

/* The last tile is padded with zero rows: reconfiguring the registers takes as long as several
 * blocks. */
static inline int64_t amx_tile_count(int64_t rows) { return (rows + AMX_MR - 1) / AMX_MR; }

static inline int64_t amx_tile_rows(int64_t rows, int64_t tile) {
    return min_i64(rows - tile * AMX_MR, AMX_MR);
}

/* A block of quantized activations of a tile: bytes [rows][32], scales [rows], for types with a min
 * act_q8.correction [rows], padded to a cache line. */
IG_INLINE int64_t amx_block_bytes(const quant_kind kind) {
    const int64_t bytes = IG_BLOCK + (1 + kind_has_min(kind)) * (int64_t)sizeof(float);
    return (AMX_MR * bytes + LINE - 1) / LINE * LINE;
}

/* Block b of row r. */
static inline void amx_store_block(const act_q8 *x, int64_t r, char *block, quant_kind kind) {
    float *scales = (float *)(void *)(block + AMX_MR * IG_BLOCK);
    memcpy(block + r * IG_BLOCK, x->q, IG_BLOCK);
    scales[r] = x->scale;
    if (kind_has_min(kind)) memcpy(scales + AMX_MR + r, x->correction, sizeof *scales);
}

/* ---- tiles ---- */

/* int32 accumulators of two blocks, and the F32 sums of a tile. */
typedef struct amx_acc {
    _Alignas(64) int32_t at[2][AMX_MR][QNR]; /* even and odd blocks */
} amx_acc;
typedef vf amx_sums[AMX_MR];

/* An accumulator as F32.  With AMX, one pipe multiplies and converts and two add, so every other
 * accumulator is converted by a magic-number add. */
IG_INLINE vf amx_acc_to_float(vi acc, const bool adds) {
    if (!adds) return vi_to_float(acc);
    return vf_sub(vf_of_bits(vi_add(acc, vi_set(MAGIC_BITS))), vf_set(MAGIC_FLOAT));
}

/* Adds rows [begin, end) of block b of a panel, whose activations begin at x, in the accumulation
 * order of qtypes.h. */
IG_INLINE void amx_add(const panel *p, const char *x, int64_t b, const amx_acc *acc, vf *sum,
                       const quant_kind kind, const int begin, const int end) {
    const float *scales = (const float *)(const void *)(x + AMX_MR * IG_BLOCK);
    const vf scale = vf_load(p->scale[b][0]);
    IG_UNROLL
    for (int r = begin; r < end; r++) {
        const vi number = vi_load(acc->at[b % 2][r]);
        if (kind_uses_magic(kind))
            sum[r] = accumulate_i32(kind, scales + r, vi_add(number, vi_set(MAGIC_BITS)), scale,
                                    vf_load(p->magic_bias[b][0]), sum[r]);
        else
            sum[r] =
                vf_fma(amx_acc_to_float(number, r % 2), vf_mul(scale, vf_set(scales[r])), sum[r]);
        if (kind_has_min(kind))
            sum[r] = vf_fma_repeated(vf_load(p->min[b][0]), scales + AMX_MR + r, sum[r]);
    }
}

/* Stores the accumulators of block b, whose activations begin at x; starts the next block if
 * `starts`, and adds the one before if `adds`.  Rows of the second half may be padding. */
IG_INLINE void amx_step(const panel *p, const char *x, int64_t b, int64_t rows, amx_acc *acc,
                        vf *sum, const quant_kind kind, const bool adds, const bool starts) {
    enum { FIRST = AMX_MR / 4, SECOND = AMX_MR / 2 };
    const int64_t x_bytes = amx_block_bytes(kind);
    if (starts) TILE_LOAD(TILE_A0, x + x_bytes, IG_BLOCK);
    if (adds) amx_add(p, x - x_bytes, b - 1, acc, sum, kind, 0, FIRST);
    if (starts) TILE_LOAD(TILE_B0, p->w[b + 1], STEP_BYTES);
    if (adds) amx_add(p, x - x_bytes, b - 1, acc, sum, kind, FIRST, SECOND);
    TILE_STORE(TILE_C0, acc->at[b % 2], STEP_BYTES);
    if (starts) TILE_ZERO(TILE_C0);
    if (starts) TILE_DOT(TILE_C0, TILE_A0, TILE_B0);
    if (adds && rows > SECOND) amx_add(p, x - x_bytes, b - 1, acc, sum, kind, SECOND, AMX_MR);
}

/* Some blocks of a panel for the rows of a tile, whose activations begin at x.  Partial sums are
 * kept from column `c` on. */
IG_INLINE void amx_panel(const panel *p, const char *x, int64_t blocks, int64_t rows, int64_t c,
                         const tile_out *out, const quant_kind kind) {
    amx_acc acc;
    amx_sums sum;
    if (!HAS_TILES) return;
    const int64_t x_bytes = amx_block_bytes(kind), last = blocks - 1;
    IG_UNROLL
    for (int r = 0; r < AMX_MR; r++) sum[r] = out->first ? vf_set(0) : vf_load(out->partial[r] + c);
    tile_fence();
    TILE_LOAD(TILE_A0, x, IG_BLOCK);
    TILE_LOAD(TILE_B0, p->w[0], STEP_BYTES);
    TILE_ZERO(TILE_C0);
    TILE_DOT(TILE_C0, TILE_A0, TILE_B0);
    prefetch_beside(out, 0);
    if (last > 0) amx_step(p, x, 0, rows, &acc, sum, kind, false, true);
    for (int64_t b = 1; b < last; b++) {
        prefetch_beside(out, b);
        amx_step(p, x + b * x_bytes, b, rows, &acc, sum, kind, true, true);
    }
    if (last > 0)
        amx_step(p, x + last * x_bytes, last, rows, &acc, sum, kind, true, false);
    else
        amx_step(p, x, 0, rows, &acc, sum, kind, false, false);
    amx_add(p, x + last * x_bytes, last, &acc, sum, kind, 0, AMX_MR);
    IG_UNROLL
    for (int r = 0; r < AMX_MR; r++) vf_store(out->partial[r] + c, sum[r]);
}

typedef void amx_fn(const panel *p, const char *x, int64_t blocks, int64_t rows, int64_t c,
                    const tile_out *out);

#define AMX_FN(name, kind)                                                                   \
    static void name(const panel *p, const char *x, int64_t blocks, int64_t rows, int64_t c, \
                     const tile_out *out) {                                                  \
        amx_panel(p, x, blocks, rows, c, out, kind);                                         \
    }
AMX_FN(amx_one_scale, ONE_SCALE)
AMX_FN(amx_with_min, WITH_MIN)
AMX_FN(amx_k_min, K_MIN)

static amx_fn *const amx_fns[] = {
    [ONE_SCALE] = amx_one_scale, [WITH_MIN] = amx_with_min, [K_MIN] = amx_k_min};

/* ---- panels ---- */

/* Tiles [begin, end) of rows, at most PARTIAL_ROWS. */
typedef struct amx_part {
    int64_t begin, end;
    panel_scratch *scratch;
} amx_part;

/* All of them times panels of columns from c on, that begin at block `first`. */
static inline void amx_multiply_panels(const q8_gemm *p, const panel *const *panels, int64_t c,
                                       int64_t first, int64_t blocks, const amx_part *part) {
    const quant_kind kind = quant_types[p->dtype].kind;
    const int64_t block_bytes = amx_block_bytes(kind);
    const int64_t groups = c + QNR < p->columns ? TILE_GROUPS : 1;
    const bool is_last = first + blocks == p->blocks;
    const next_panels next =
        next_panels_of(p, c, first + blocks, (part->end - part->begin) * groups, blocks);
    tile_out out = {.first = first == 0, .lines = next.lines};
    for (int64_t i = part->begin; i < part->end; i++) {
        const int64_t at = i - part->begin, rows = amx_tile_rows(p->rows, i);
        const char *x = (const char *)p->x + (i * p->blocks + first) * block_bytes;
        out.partial = part->scratch->partial + at * AMX_MR;
        for (int64_t g = 0; g < groups; g++) {
            out.next = prefetch_start(&next, at * groups + g, blocks);
            amx_fns[kind](panels[g], x, blocks, rows, g * QNR, &out);
        }
        for (int64_t r = 0; r < rows && is_last; r++)
            store_row(p, i * AMX_MR + r, c, out.partial[r], QNR_TILE);
    }
}

/* Whether M rows take this path: then q8_gemm.x points to what amx_store_block() stored. */
static inline bool amx_fits(ig_dtype dtype, int64_t rows) {
    return HAS_TILES && scales_per_block(quant_types[dtype].kind) == 1 && rows >= AMX_MIN_M;
}

static inline void qgemm_mn_amx_rows(const q8_gemm *p, const amx_part *part) {
    panel_scratch *scratch = part->scratch;
    const panel *panels[TILE_GROUPS];
    for (int64_t c = 0; c < p->columns; c += QNR_TILE)
        for (int64_t b = 0; b < p->blocks; b += PANEL_BLOCKS) {
            const int64_t blocks = min_i64(p->blocks - b, PANEL_BLOCKS);
            fill_panels(p, c, b, blocks, quant_types[p->dtype].zero_point, panels, scratch);
            amx_multiply_panels(p, panels, c, b, blocks, part);
        }
}

static void qgemm_mn_amx(const q8_gemm *p) {
    enum { AT_ONCE = PARTIAL_ROWS / AMX_MR };
    panel_scratch scratch;
    amx_part part = {.scratch = &scratch};
    tile_begin(AMX_MR, STEPS, STEP_BYTES);
    for (; part.begin < amx_tile_count(p->rows); part.begin = part.end) {
        part.end = min_i64(part.begin + AT_ONCE, amx_tile_count(p->rows));
        qgemm_mn_amx_rows(p, &part);
    }
    TILE_END();
}

#endif
