/*
 * tiled.h - products in whole numbers through tile registers.
 *
 * The sums of whole.h, to the bit, where the processor multiplies tiles of bytes.  A
 * tile gives the whole numbers of up to twelve rows and sixteen columns for one block;
 * they go through memory to the vectors that scale and add them.  That takes longer
 * than the tile does, and a product has to be through before it can be stored, so tiles,
 * stores and vectors have a block each:
 *
 *     tiles      block 0 | block 1 | block 2 | ...
 *     stores               block 0 | block 1 | ...
 *     vectors                        block 0 | ...
 *
 * Bytes have a sign here: weights go into the panel without their zero, and whole
 * numbers need no correction.  Blocks with two scales would be two tiles and two
 * stores: vectors are as fast.
 */
#ifndef IG_BACKEND_CPU_TILED_H
#define IG_BACKEND_CPU_TILED_H

#include "backend/cpu/vec_tile.h"
#include "backend/cpu/whole.h"

enum {
    TILED_ROWS = 12,  /* of a tile, */
    TILED_GROUPS = 2, /* of columns: as many sums as fit into registers */
    TILED_COLUMNS = TILED_GROUPS * PANEL_COLUMNS,
    TILED_LEAST = 24, /* rows that go this way; fewer gain nothing */
};
static_assert(!HAS_TILES || (PANEL_VECTORS == 1 && TILE_GROUPS == 2),
              "a row of a tile is a vector, and panels are opened in pairs");

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

/* The whole numbers of a block. */
typedef struct tiled_wholes {
    _Alignas(64) int32_t at[TILED_GROUPS][TILED_ROWS][PANEL_COLUMNS];
} tiled_wholes;

/* Starts the tiles of block b, whose activations begin at x.  Odd blocks have registers of their
 * own, and numbers of registers have to be written as such. */
#define TILED_START(a, first, second)               \
    do {                                            \
        TILE_LOAD(a, x, IG_BLOCK);                  \
        TILE_LOAD(TILE_B0, p[0]->w[b], STEP_BYTES); \
        TILE_LOAD(TILE_B1, p[1]->w[b], STEP_BYTES); \
        TILE_ZERO(first);                           \
        TILE_ZERO(second);                          \
        TILE_DOT(first, a, TILE_B0);                \
        TILE_DOT(second, a, TILE_B1);               \
    } while (0)
IG_INLINE void tiled_start(const panel *const *p, const char *x, int64_t b, const bool odd) {
    if (odd)
        TILED_START(TILE_A1, TILE_C2, TILE_C3);
    else
        TILED_START(TILE_A0, TILE_C0, TILE_C1);
}
#undef TILED_START

IG_INLINE void tiled_take(tiled_wholes *to, const bool odd) {
    if (odd) {
        TILE_STORE(TILE_C2, to->at[0], STEP_BYTES);
        TILE_STORE(TILE_C3, to->at[1], STEP_BYTES);
    } else {
        TILE_STORE(TILE_C0, to->at[0], STEP_BYTES);
        TILE_STORE(TILE_C1, to->at[1], STEP_BYTES);
    }
}

typedef vf tiled_sums[TILED_ROWS][TILE_VECTORS];

/*
 * A whole number as a float.  Near tiles, one pipe alone multiplies and converts, but two add:
 * every other number is added to 1.5 * 2^23 in its bits, and that is taken off as a float.
 */
IG_INLINE vf tiled_float(vi whole, const bool adds) {
    if (!adds) return vi_to_float(whole);
    return vf_sub(vf_of_bits(vi_add(whole, vi_set(SHIFTED))), vf_set(SHIFTED_FLOAT));
}

/* Adds block b of panels: the chains of whole.h, to the bit. */
IG_INLINE void tiled_add(const panel *const *p, const char *x, int64_t b, const tiled_wholes *whole,
                         vf (*sum)[TILE_VECTORS], const panel_kind kind) {
    const float *scales = (const float *)(const void *)(x + TILED_ROWS * IG_BLOCK);
    IG_UNROLL
    for (int r = 0; r < TILED_ROWS; r++) {
        IG_UNROLL
        for (int g = 0; g < TILED_GROUPS; g++) {
            const vi number = vi_load(whole->at[g][r]);
            const vf scale = vf_load(p[g]->scale[b][0]);
            if (kind_is_shifted(kind))
                sum[r][g] = add_whole(kind, scales + r, vi_add(number, vi_set(SHIFTED)), scale,
                                      vf_load(p[g]->below[b][0]), sum[r][g]);
            else
                sum[r][g] = vf_fma(tiled_float(number, (r + g) % 2),
                                   vf_mul(scale, vf_set(scales[r])), sum[r][g]);
            if (kind_has_min(kind))
                sum[r][g] =
                    vf_fma_repeated(vf_load(p[g]->min[b][0]), scales + TILED_ROWS + r, sum[r][g]);
        }
    }
}

/* What is done beside block b: its whole numbers come out of the tiles, those of the next go in,
 * and vectors have those of the one before. */
IG_INLINE void tiled_beside(const panel *const *p, const char *x, int64_t b, int64_t blocks,
                            tiled_wholes *whole, vf (*sum)[TILE_VECTORS], const tile_out *out,
                            const panel_kind kind, const bool odd) {
    const int64_t x_bytes = tiled_block_bytes(kind);
    fetch_beside(out, b);
    if (b + 1 < blocks) tiled_start(p, x + (b + 1) * x_bytes, b + 1, !odd);
    tiled_take(&whole[odd], odd);
    if (b > 0) tiled_add(p, x + (b - 1) * x_bytes, b - 1, &whole[!odd], sum, kind);
}

/* Adds `blocks` blocks of panels to the sums of some rows. */
IG_INLINE void tiled_panels(const panel *const *p, const char *x, int64_t blocks,
                            const tile_out *out, const panel_kind kind) {
    tiled_wholes whole[2];
    tiled_sums sum;
    if (!HAS_TILES) return;
    const int64_t last = blocks - 1;
    load_sums(out, sum, TILED_ROWS);
    tile_fence();
    tiled_start(p, x, 0, false);
    for (int64_t b = 0; b < blocks; b += 2) {
        tiled_beside(p, x, b, blocks, whole, sum, out, kind, false);
        if (b < last) tiled_beside(p, x, b + 1, blocks, whole, sum, out, kind, true);
    }
    tiled_add(p, x + last * tiled_block_bytes(kind), last, &whole[last % 2], sum, kind);
    keep_sums(out, sum, TILED_ROWS);
}

typedef void tiled_fn(const panel *const *p, const char *x, int64_t blocks, const tile_out *out);

#define TILED(name, kind)                                                                         \
    static void name(const panel *const *p, const char *x, int64_t blocks, const tile_out *out) { \
        tiled_panels(p, x, blocks, out, kind);                                                    \
    }
TILED(tiled_one_scale, ONE_SCALE)
TILED(tiled_with_min, WITH_MIN)
TILED(tiled_k_min, K_MIN)

static tiled_fn *const tiled_fns[] = {
    [ONE_SCALE] = tiled_one_scale, [WITH_MIN] = tiled_with_min, [K_MIN] = tiled_k_min};

/* ---- products ---- */

/* Takes the zero off the bytes of a panel. */
static inline void tiled_sign(panel *p, int64_t blocks, int zero) {
    for (int64_t b = 0; b < blocks && zero != 0; b++)
        for (int j = 0; j < STEPS; j++) {
            const vi q = vi_sub_bytes(line_at(p->w[b][j], 0), zero);
            vf_store((float *)(void *)p->w[b][j], vf_of_bits(q));
        }
}

/* Tiles [begin, end) of rows, whose sums can wait in a room. */
typedef struct tiled_part {
    int64_t begin, end;
    whole_room *room;
} tiled_part;

/* They all go through panels that begin at block `first`. */
static inline void tiled_through(const whole_block *p, const panel *const *panels, int64_t c,
                                 int64_t first, int64_t blocks, const tiled_part *part) {
    const panel_kind kind = panel_types[p->dtype].kind;
    const int64_t block_bytes = tiled_block_bytes(kind);
    const bool is_last = first + blocks == p->blocks;
    const panels_ahead ahead = ahead_of(p, c, first + blocks, part->end - part->begin, blocks);
    tile_out out = {.waiting = part->room->waiting, .first = first == 0, .lines = ahead.lines};
    for (int64_t i = part->begin; i < part->end; i++, out.waiting += TILED_ROWS) {
        const char *x = (const char *)p->x + (i * p->blocks + first) * block_bytes;
        const int64_t row = i * TILED_ROWS, rows = tiled_rows(p->rows, i);
        out.ahead = ahead_from(&ahead, i - part->begin, blocks);
        tiled_fns[kind](panels, x, blocks, &out);
        for (int64_t r = 0; r < rows && is_last; r++)
            put_sums(p, row + r, c, out.waiting[r], TILED_COLUMNS);
    }
}

/* Whether so many rows go this way: then `x` of a block is what tiled_keep() made of them all. */
static inline bool tiled_fits(ig_dtype dtype, int64_t rows) {
    return HAS_TILES && kind_halves(panel_types[dtype].kind) == 1 && rows >= TILED_LEAST;
}

static inline void multiply_tiled_part(const whole_block *p, const tiled_part *part) {
    whole_room *room = part->room;
    const panel *panels[TILED_GROUPS];
    for (int64_t c = 0; c < p->columns; c += TILED_COLUMNS)
        for (int64_t b = 0; b < p->blocks; b += PANEL_BLOCKS) {
            const int64_t blocks = smaller(p->blocks - b, PANEL_BLOCKS);
            fill_panels(p, c, b, blocks, panels, room);
            for (int g = 0; g < TILED_GROUPS && c + g * PANEL_COLUMNS < p->columns; g++)
                tiled_sign(&room->panel[g], blocks, panel_types[p->dtype].zero);
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
