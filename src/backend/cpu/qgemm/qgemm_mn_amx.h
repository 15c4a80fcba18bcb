/*
 * tiled.h - products in whole numbers through tile registers.
 *
 * The sums of whole.h, to the bit, where the processor multiplies tiles of bytes.  A
 * tile gives the whole numbers of sixteen rows and sixteen columns for one block; they
 * go through memory to the vectors that scale and add them.  That takes longer than
 * the tile does, and a product has to be through before it can be stored, so vectors are
 * a block behind, and between the steps of the tile there are always some of them:
 *
 *     tile       load rows 1   load weights 1   store 0   multiply 1   | load rows 2 ..
 *     vectors                add .. rows of the block before ..        | add .. 0 ..
 *
 * Bytes have a sign here: weights go into the panel without their zero, and whole
 * numbers need no correction.  Blocks with two scales would be two tiles and two
 * stores: vectors are as fast.
 */
#ifndef IG_BACKEND_CPU_TILED_H
#define IG_BACKEND_CPU_TILED_H

#include "backend/cpu/simd/vec_amx.h"
#include "backend/cpu/qgemm/qgemm_mn_panel.h"

enum {
    TILED_ROWS = 16,  /* of a tile, */
    TILED_LEAST = 24, /* and that go this way; fewer gain nothing */
};
static_assert(!HAS_TILES || PANEL_VECTORS == 1, "a row of a tile is a vector");

/* ---- rows to tiles ---- */

/* The last tile has fewer rows, and zeros behind them: to change the size of registers takes as
 * long as some blocks do. */
static inline int64_t tiled_count(int64_t rows) { return (rows + TILED_ROWS - 1) / TILED_ROWS; }

static inline int64_t tiled_rows(int64_t rows, int64_t tile) {
    return smaller(rows - tile * TILED_ROWS, TILED_ROWS);
}

/* A block of rounded activations of a tile: bytes [rows][32], scales [rows], what mins are times,
 * [rows], where there are mins, and room up to the next line. */
IG_INLINE int64_t tiled_block_bytes(const panel_kind kind) {
    const int64_t bytes = IG_BLOCK + (1 + kind_has_min(kind)) * (int64_t)sizeof(float);
    return (TILED_ROWS * bytes + LINE - 1) / LINE * LINE;
}

/* Block b of row r. */
static inline void tiled_keep(const rounded *x, int64_t r, char *block, panel_kind kind) {
    float *scales = (float *)(void *)(block + TILED_ROWS * IG_BLOCK);
    memcpy(block + r * IG_BLOCK, x->q, IG_BLOCK);
    scales[r] = x->scale;
    if (kind_has_min(kind)) memcpy(scales + TILED_ROWS + r, x->rest, sizeof *scales);
}

/* ---- tiles ---- */

/* Of some blocks: what their whole numbers are, and the sums that these go into. */
typedef struct tiled_wholes {
    _Alignas(64) int32_t at[2][TILED_ROWS][PANEL_COLUMNS]; /* even and odd blocks */
} tiled_wholes;
typedef vf tiled_sums[TILED_ROWS];

/*
 * A whole number as a float.  Near tiles, one pipe alone multiplies and converts, but two add:
 * every other number is added to 1.5 * 2^23 in its bits, and that is taken off as a float.
 */
IG_INLINE vf tiled_float(vi whole, const bool adds) {
    if (!adds) return vi_to_float(whole);
    return vf_sub(vf_of_bits(vi_add(whole, vi_set(SHIFTED))), vf_set(SHIFTED_FLOAT));
}

/* Adds rows [begin, end) of block b of a panel, whose activations begin at x: the chains of
 * whole.h, to the bit. */
IG_INLINE void tiled_add(const panel *p, const char *x, int64_t b, const tiled_wholes *whole,
                         vf *sum, const panel_kind kind, const int begin, const int end) {
    const float *scales = (const float *)(const void *)(x + TILED_ROWS * IG_BLOCK);
    const vf scale = vf_load(p->scale[b][0]);
    IG_UNROLL
    for (int r = begin; r < end; r++) {
        const vi number = vi_load(whole->at[b % 2][r]);
        if (kind_is_shifted(kind))
            sum[r] = add_whole(kind, scales + r, vi_add(number, vi_set(SHIFTED)), scale,
                               vf_load(p->below[b][0]), sum[r]);
        else
            sum[r] = vf_fma(tiled_float(number, r % 2), vf_mul(scale, vf_set(scales[r])), sum[r]);
        if (kind_has_min(kind))
            sum[r] = vf_fma_repeated(vf_load(p->min[b][0]), scales + TILED_ROWS + r, sum[r]);
    }
}

/* Takes the whole numbers of block b, whose activations begin at x, starts the next one, and adds
 * the one before, where there are such.  The second half of the rows may be none. */
IG_INLINE void tiled_step(const panel *p, const char *x, int64_t b, int64_t rows,
                          tiled_wholes *whole, vf *sum, const panel_kind kind, const bool adds,
                          const bool starts) {
    enum { FIRST = TILED_ROWS / 4, SECOND = TILED_ROWS / 2 };
    const int64_t x_bytes = tiled_block_bytes(kind);
    if (starts) TILE_LOAD(TILE_A0, x + x_bytes, IG_BLOCK);
    if (adds) tiled_add(p, x - x_bytes, b - 1, whole, sum, kind, 0, FIRST);
    if (starts) TILE_LOAD(TILE_B0, p->w[b + 1], STEP_BYTES);
    if (adds) tiled_add(p, x - x_bytes, b - 1, whole, sum, kind, FIRST, SECOND);
    TILE_STORE(TILE_C0, whole->at[b % 2], STEP_BYTES);
    if (starts) TILE_ZERO(TILE_C0);
    if (starts) TILE_DOT(TILE_C0, TILE_A0, TILE_B0);
    if (adds && rows > SECOND)
        tiled_add(p, x - x_bytes, b - 1, whole, sum, kind, SECOND, TILED_ROWS);
}

/* Some blocks of a panel for the rows of a tile, whose activations begin at x.  Their sums wait
 * from column `c` on. */
IG_INLINE void tiled_panel(const panel *p, const char *x, int64_t blocks, int64_t rows, int64_t c,
                           const tile_out *out, const panel_kind kind) {
    tiled_wholes whole;
    tiled_sums sum;
    if (!HAS_TILES) return;
    const int64_t x_bytes = tiled_block_bytes(kind), last = blocks - 1;
    IG_UNROLL
    for (int r = 0; r < TILED_ROWS; r++)
        sum[r] = out->first ? vf_set(0) : vf_load(out->waiting[r] + c);
    tile_fence();
    TILE_LOAD(TILE_A0, x, IG_BLOCK);
    TILE_LOAD(TILE_B0, p->w[0], STEP_BYTES);
    TILE_ZERO(TILE_C0);
    TILE_DOT(TILE_C0, TILE_A0, TILE_B0);
    fetch_beside(out, 0);
    if (last > 0) tiled_step(p, x, 0, rows, &whole, sum, kind, false, true);
    for (int64_t b = 1; b < last; b++) {
        fetch_beside(out, b);
        tiled_step(p, x + b * x_bytes, b, rows, &whole, sum, kind, true, true);
    }
    if (last > 0)
        tiled_step(p, x + last * x_bytes, last, rows, &whole, sum, kind, true, false);
    else
        tiled_step(p, x, 0, rows, &whole, sum, kind, false, false);
    tiled_add(p, x + last * x_bytes, last, &whole, sum, kind, 0, TILED_ROWS);
    IG_UNROLL
    for (int r = 0; r < TILED_ROWS; r++) vf_store(out->waiting[r] + c, sum[r]);
}

typedef void tiled_fn(const panel *p, const char *x, int64_t blocks, int64_t rows, int64_t c,
                      const tile_out *out);

#define TILED(name, kind)                                                                    \
    static void name(const panel *p, const char *x, int64_t blocks, int64_t rows, int64_t c, \
                     const tile_out *out) {                                                  \
        tiled_panel(p, x, blocks, rows, c, out, kind);                                       \
    }
TILED(tiled_one_scale, ONE_SCALE)
TILED(tiled_with_min, WITH_MIN)
TILED(tiled_k_min, K_MIN)

static tiled_fn *const tiled_fns[] = {
    [ONE_SCALE] = tiled_one_scale, [WITH_MIN] = tiled_with_min, [K_MIN] = tiled_k_min};

/* ---- products ---- */

/* Tiles [begin, end) of rows, whose sums can wait in a room. */
typedef struct tiled_part {
    int64_t begin, end;
    whole_room *room;
} tiled_part;

/* They all go through panels of columns from c on, that begin at block `first`. */
static inline void tiled_through(const whole_block *p, const panel *const *panels, int64_t c,
                                 int64_t first, int64_t blocks, const tiled_part *part) {
    const panel_kind kind = panel_types[p->dtype].kind;
    const int64_t block_bytes = tiled_block_bytes(kind);
    const int64_t groups = c + PANEL_COLUMNS < p->columns ? TILE_GROUPS : 1;
    const bool is_last = first + blocks == p->blocks;
    const panels_ahead ahead =
        ahead_of(p, c, first + blocks, (part->end - part->begin) * groups, blocks);
    tile_out out = {.first = first == 0, .lines = ahead.lines};
    for (int64_t i = part->begin; i < part->end; i++) {
        const int64_t at = i - part->begin, rows = tiled_rows(p->rows, i);
        const char *x = (const char *)p->x + (i * p->blocks + first) * block_bytes;
        out.waiting = part->room->waiting + at * TILED_ROWS;
        for (int64_t g = 0; g < groups; g++) {
            out.ahead = ahead_from(&ahead, at * groups + g, blocks);
            tiled_fns[kind](panels[g], x, blocks, rows, g * PANEL_COLUMNS, &out);
        }
        for (int64_t r = 0; r < rows && is_last; r++)
            put_sums(p, i * TILED_ROWS + r, c, out.waiting[r], TILE_COLUMNS);
    }
}

/* Whether so many rows go this way: then `x` of a block is what tiled_keep() made of them all. */
static inline bool tiled_fits(ig_dtype dtype, int64_t rows) {
    return HAS_TILES && kind_halves(panel_types[dtype].kind) == 1 && rows >= TILED_LEAST;
}

static inline void multiply_tiled_part(const whole_block *p, const tiled_part *part) {
    whole_room *room = part->room;
    const panel *panels[TILE_GROUPS];
    for (int64_t c = 0; c < p->columns; c += TILE_COLUMNS)
        for (int64_t b = 0; b < p->blocks; b += PANEL_BLOCKS) {
            const int64_t blocks = smaller(p->blocks - b, PANEL_BLOCKS);
            fill_panels(p, c, b, blocks, panel_types[p->dtype].zero, panels, room);
            tiled_through(p, panels, c, b, blocks, part);
        }
}

/* As multiply_whole(). */
static void multiply_tiled(const whole_block *p) {
    enum { AT_ONCE = WAITING_ROWS / TILED_ROWS };
    whole_room room;
    tiled_part part = {.room = &room};
    tile_begin(TILED_ROWS, STEPS, STEP_BYTES);
    for (; part.begin < tiled_count(p->rows); part.begin = part.end) {
        part.end = smaller(part.begin + AT_ONCE, tiled_count(p->rows));
        multiply_tiled_part(p, &part);
    }
    TILE_END();
}

#endif
