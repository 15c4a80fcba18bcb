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
 * numbers need no correction.
 */
#ifndef IG_BACKEND_CPU_TILED_H
#define IG_BACKEND_CPU_TILED_H

#include "backend/cpu/vec_tile.h"
#include "backend/cpu/whole.h"

enum {
    TILED_ROWS = 12,  /* of a tile, at most, */
    TILED_GROUPS = 2, /* of columns: as many sums as fit into registers */
    TILED_COLUMNS = TILED_GROUPS * PANEL_COLUMNS,
    TILED_LEAST = 32,     /* rows that go this way; fewer gain nothing. */
    TILED_LEAST_ROWS = 9, /* Tiles are no lower then. */
};
static_assert(!HAS_TILES || (PANEL_VECTORS == 1 && TILE_GROUPS == 2),
              "a row of a tile is a vector, and panels are opened in pairs");

/* ---- rows to tiles ---- */

/* Rows are dealt into tiles of about the same size, larger ones first. */
static inline int64_t tiled_count(int64_t rows) { return (rows + TILED_ROWS - 1) / TILED_ROWS; }

static inline int64_t tiled_first(int64_t rows, int64_t tile) {
    const int64_t n_tiles = tiled_count(rows);
    return tile * (rows / n_tiles) + smaller(tile, rows % n_tiles);
}

/* A block of rounded activations of a tile: bytes [rows][32], scales [rows], and room up to the
 * next line. */
IG_INLINE int64_t tiled_block_bytes(int64_t rows) {
    const int64_t bytes = IG_BLOCK + sizeof(float);
    return (rows * bytes + LINE - 1) / LINE * LINE;
}

/* Where the blocks of a tile begin; of the one behind the last: how many bytes all take. */
static inline int64_t tiled_place(int64_t rows, int64_t tile, int64_t blocks) {
    const int64_t n_tiles = tiled_count(rows), low = rows / n_tiles, n_high = rows % n_tiles;
    const int64_t high = smaller(tile, n_high);
    return blocks * (high * tiled_block_bytes(low + 1) + (tile - high) * tiled_block_bytes(low));
}

/* Block b of row r, out of `rows`. */
static inline void tiled_keep(const rounded *x, int64_t rows, int64_t r, char *block) {
    float *scales = (float *)(void *)(block + rows * IG_BLOCK);
    memcpy(block + r * IG_BLOCK, x->q, IG_BLOCK);
    scales[r] = x->scale;
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

/* Adds block b of panels: the chains of whole.h. */
IG_INLINE void tiled_add(const panel *const *p, const char *x, int64_t b, const tiled_wholes *whole,
                         vf (*sum)[TILE_VECTORS], const int rows) {
    const float *scales = (const float *)(const void *)(x + rows * IG_BLOCK);
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int g = 0; g < TILED_GROUPS; g++) {
            sum[r][g] = add_whole(ONE_SCALE, scales + r, vi_load(whole->at[g][r]),
                                  vf_load(p[g]->scale[b][0]), vf_set(0), sum[r][g]);
        }
    }
}

/* What is done beside block b: its whole numbers come out of the tiles, those of the next go in,
 * and vectors have those of the one before. */
IG_INLINE void tiled_beside(const panel *const *p, const char *x, int64_t b, int64_t blocks,
                            tiled_wholes *whole, vf (*sum)[TILE_VECTORS], const tile_out *out,
                            const int rows, const bool odd) {
    const int64_t x_bytes = tiled_block_bytes(rows);
    fetch_beside(out, b);
    if (b + 1 < blocks) tiled_start(p, x + (b + 1) * x_bytes, b + 1, !odd);
    tiled_take(&whole[odd], odd);
    if (b > 0) tiled_add(p, x + (b - 1) * x_bytes, b - 1, &whole[!odd], sum, rows);
}

/* Adds `blocks` blocks of panels to the sums of some rows. */
IG_INLINE void tiled_panels(const panel *const *p, const char *x, int64_t blocks,
                            const tile_out *out, const int rows) {
    tiled_wholes whole[2];
    tiled_sums sum;
    if (!HAS_TILES) return;
    const int64_t last = blocks - 1;
    load_sums(out, sum, rows);
    tile_fence();
    tiled_start(p, x, 0, false);
    for (int64_t b = 0; b < blocks; b += 2) {
        tiled_beside(p, x, b, blocks, whole, sum, out, rows, false);
        if (b < last) tiled_beside(p, x, b + 1, blocks, whole, sum, out, rows, true);
    }
    tiled_add(p, x + last * tiled_block_bytes(rows), last, &whole[last % 2], sum, rows);
    put_tile(out, sum, rows);
}

typedef void tiled_fn(const panel *const *p, const char *x, int64_t blocks, const tile_out *out);

#define TILED(rows)                                                                \
    static void tiled_##rows(const panel *const *p, const char *x, int64_t blocks, \
                             const tile_out *out) {                                \
        tiled_panels(p, x, blocks, out, rows);                                     \
    }
TILED(9)
TILED(10)
TILED(11)
TILED(12)

/* [rows - TILED_LEAST_ROWS] */
static tiled_fn *const tiled_fns[] = {tiled_9, tiled_10, tiled_11, tiled_12};

/* ---- products ---- */

/* Takes the zero off the bytes of a panel. */
static inline void tiled_sign(panel *p, int64_t blocks, int zero) {
    for (int64_t b = 0; b < blocks && zero != 0; b++)
        for (int j = 0; j < STEPS; j++) {
            const vi q = vi_sub_bytes(line_at(p->w[b][j], 0), zero);
            vf_store((float *)(void *)p->w[b][j], vf_of_bits(q));
        }
}

/* Tiles [begin, end) of rows, whose sums can wait in a room.  `configured` is for how many rows
 * tiles are: that changes where larger ones end. */
typedef struct tiled_part {
    int64_t begin, end, configured;
    whole_room *room;
} tiled_part;

/* They all go through panels that begin at block `first`. */
static inline void tiled_through(const whole_block *p, const panel *const *panels, int64_t c,
                                 int64_t first, int64_t blocks, tiled_part *part) {
    tile_out out = {.y_row = p->y_row,
                    .columns = smaller(p->columns - c, TILED_COLUMNS),
                    .bias = p->bias ? p->bias + c : NULL,
                    .waiting = part->room->waiting,
                    .first = first == 0,
                    .last = first + blocks == p->blocks};
    const panels_ahead ahead = ahead_of(p, c, first + blocks, part->end - part->begin, blocks);
    out.lines = ahead.lines;
    for (int64_t i = part->begin; i < part->end; i++) {
        const int64_t row = tiled_first(p->rows, i), rows = tiled_first(p->rows, i + 1) - row;
        const char *x = (const char *)p->x + tiled_place(p->rows, i, p->blocks);
        if (rows != part->configured) tile_begin(rows, STEPS, STEP_BYTES);
        part->configured = rows;
        out.y = p->y + row * p->y_row + c;
        out.ahead = ahead_from(&ahead, i - part->begin, blocks);
        const ending end = ending_at(p->end, row * p->y_row + c);
        if (out.last) finish_soon(end, out.y, p->y_row, rows, out.columns);
        tiled_fns[rows - TILED_LEAST_ROWS](panels, x + first * tiled_block_bytes(rows), blocks,
                                           &out);
        if (out.last) finish(end, out.y, p->y_row, rows, out.columns);
        out.waiting += rows;
    }
}

/* Whether so many rows go this way: then `x` of a block is what tiled_keep() made of them all.
 * Vectors are about as fast where they have mins to add besides (0043 has Q4_K and Q5_K), and two
 * scales for a block would be two tiles. */
static inline bool tiled_fits(ig_dtype dtype, int64_t rows) {
    return HAS_TILES && panel_types[dtype].kind == ONE_SCALE && rows >= TILED_LEAST;
}

static inline void multiply_tiled_part(const whole_block *p, tiled_part *part) {
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
    for (; part.begin < tiled_count(p->rows); part.begin = part.end) {
        part.end = smaller(part.begin + AT_ONCE, tiled_count(p->rows));
        multiply_tiled_part(p, &part);
    }
    TILE_END();
}

#endif
