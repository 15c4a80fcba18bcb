/*
 * whole.h - products of activations and stored weights in whole numbers.
 *
 * Activations are rounded to bytes, 32 at a time with a scale of their own.  A block
 * of 32 products is then summed exactly, in integers, and goes into the result by
 *
 *     sum = sum + (weight scale * activation scale) * whole        one scale
 *     sum = sum + activation scale * (weight scale * whole)        the same where it is SHIFTED
 *     sum = sum + activation scale * (scale 0 * whole 0 + ...)     two, if not HALVES_APART
 *     sum = sum + min * (activation scale * sum of bytes)          with a min
 *
 * block after block, in lanes of their own for each column.  That chain is all there
 * is to a result, so its bits do not depend on how many rows there are, how the work
 * is cut, or how the weights came to the multiplier:
 *
 *     few rows, packed     from the packed group into registers, and all rows through
 *                          them; many groups at once: memory is what counts, and each
 *                          group is a stream of its own
 *     else                 into a panel, from the packed group or the file's blocks, and
 *                          all rows through it, a tile at a time
 */
#ifndef IG_BACKEND_CPU_WHOLE_H
#define IG_BACKEND_CPU_WHOLE_H

#include "backend/cpu/qgemm/qgemm_m32_stream.h"
#include "backend/cpu/gemm/epilogue.h"

/* ---- tiles: a few rows times the columns of panels ---- */

enum {
    TILE_GROUPS = VF_LANES < 16 ? 1 : 2,
    TILE_VECTORS = TILE_GROUPS * PANEL_VECTORS,
    TILE_ROWS = VF_LANES < 16 ? 4 : 7,            /* at most; with two scales, */
    TILE_ROWS_TWO = HALVES_APART ? TILE_ROWS : 4, /* which may need more registers */
    TILE_COLUMNS = TILE_GROUPS * PANEL_COLUMNS,
    WAITING_ROWS = 512, /* whose sums wait at a time, at most */
    WIDE_TILES = TWO_MINS + 1,
};

/* Where the results of a tile go, and where sums wait between two panels of the same columns. */
typedef struct tile_out {
    float *y;
    int64_t y_row, columns;
    float (*waiting)[TILE_COLUMNS];
    const float *bias;    /* or NULL */
    bool first, last;     /* panels */
    const uint8_t *ahead; /* what is fetched meanwhile, */
    int64_t lines;        /* so many for each block */
} tile_out;

typedef vf tile_sums[TILE_ROWS][TILE_VECTORS];

/* Vector v of what panels hold for a block. */
IG_INLINE vf tile_scale(const panel *const *p, int64_t b, const int half, const int v) {
    return vf_load(p[v / PANEL_VECTORS]->scale[b][half] + v % PANEL_VECTORS * VF_LANES);
}

IG_INLINE vf tile_min(const panel *const *p, int64_t b, const int half, const int v) {
    return vf_load(p[v / PANEL_VECTORS]->min[b][half] + v % PANEL_VECTORS * VF_LANES);
}

IG_INLINE vf tile_below(const panel *const *p, int64_t b, const int half, const int v) {
    return vf_load(p[v / PANEL_VECTORS]->below[b][half] + v % PANEL_VECTORS * VF_LANES);
}

/* A block of wide bytes in pairs, one vector of columns after the other: they stay in registers for
 * all rows. */
IG_INLINE void add_steps_wide(const panel *const *p, const rounded *const *x, int64_t b,
                              vi (*whole)[TILE_VECTORS], const int rows) {
    IG_UNROLL
    for (int v = 0; v < TILE_VECTORS; v++) {
        vi w[STEPS];
        IG_UNROLL
        for (int s = 0; s < STEPS; s++)
            w[s] = line_at(p[v / PANEL_VECTORS]->w[b][s], v % PANEL_VECTORS);
        IG_UNROLL
        for (int r = 0; r < rows; r++) {
            const int8_t *q = x[r][b].q;
            dot_wide(&whole[r][v], w, &q, STEPS, 1);
        }
    }
}

/* Steps [first, first + count) of a block, for all rows. */
IG_INLINE void add_steps(const panel *const *p, const rounded *const *x, int64_t b,
                         vi (*whole)[TILE_VECTORS], const int first, const int count,
                         const int rows, const bool is_wide) {
    if (DOT_IN_PAIRS && is_wide) {
        add_steps_wide(p, x, b, whole, rows);
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
                vi_add_dot_repeated(&whole[r][v], u[v], x[r][b].q + 4 * s);
        }
    }
}

IG_INLINE void begin_tile(const rounded *const *x, int64_t b, vi (*whole)[TILE_VECTORS],
                          const int half, const int rows, const panel_kind kind) {
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++) whole[r][v] = whole_begin(kind, &x[r][b], half);
    }
}

IG_INLINE void add_mins(const panel *const *p, const rounded *const *x, int64_t b,
                        vf (*sum)[TILE_VECTORS], const int half, const int rows) {
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            sum[r][v] = add_min(&x[r][b], half, tile_min(p, b, half, v), sum[r][v]);
    }
}

/* A half by itself, or all of a block that has one scale. */
IG_INLINE void add_scaled(const panel *const *p, const rounded *const *x, int64_t b,
                          vf (*sum)[TILE_VECTORS], const int half, const int rows,
                          const panel_kind kind, const bool is_wide) {
    const int count = STEPS / kind_halves(kind);
    vi whole[TILE_ROWS][TILE_VECTORS];
    begin_tile(x, b, whole, half, rows, kind);
    add_steps(p, x, b, whole, half * count, count, rows, is_wide);
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            sum[r][v] = add_whole(kind, &x[r][b].scale, whole[r][v], tile_scale(p, b, half, v),
                                  tile_below(p, b, half, v), sum[r][v]);
    }
}

/* both = scale0 whole0 for the first half, then + scale1 whole1 */
IG_INLINE void add_half(const panel *const *p, const rounded *const *x, int64_t b,
                        vf (*both)[TILE_VECTORS], const int half, const int rows,
                        const panel_kind kind) {
    vi whole[TILE_ROWS][TILE_VECTORS];
    begin_tile(x, b, whole, half, rows, kind);
    add_steps(p, x, b, whole, half * STEPS / 2, STEPS / 2, rows, false);
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++) {
            const vf scale = tile_scale(p, b, half, v);
            both[r][v] = half == 0 ? scale_first(kind, whole[r][v], scale, tile_below(p, b, 0, v))
                                   : vf_fma(vi_to_float(whole[r][v]), scale, both[r][v]);
        }
    }
}

/* sum = sum + (scale0 whole0 + scale1 whole1) * activation scale */
IG_INLINE void add_both(const panel *const *p, const rounded *const *x, int64_t b,
                        vf (*sum)[TILE_VECTORS], const int rows, const panel_kind kind) {
    vf both[TILE_ROWS][TILE_VECTORS];
    add_half(p, x, b, both, 0, rows, kind);
    add_half(p, x, b, both, 1, rows, kind);
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
            sum[r][v] = out->first ? vf_set(0) : vf_load(out->waiting[r] + v * VF_LANES);
    }
}

IG_INLINE void keep_sums(const tile_out *out, vf (*sum)[TILE_VECTORS], const int rows) {
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++) vf_store(out->waiting[r] + v * VF_LANES, sum[r][v]);
    }
}

IG_INLINE void store_sums(const tile_out *out, vf (*sum)[TILE_VECTORS], const int rows) {
    IG_UNROLL
    for (int v = 0; v < TILE_VECTORS; v++) {
        const int64_t left = smaller(out->columns - v * VF_LANES, VF_LANES);
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
        keep_sums(out, sum, rows);
}

/* What is fetched beside block b. */
IG_INLINE void fetch_beside(const tile_out *out, int64_t b) {
    const uint8_t *at = out->ahead + b * out->lines * LINE;
    for (int64_t i = 0; i < out->lines; i++) __builtin_prefetch(at + i * LINE, 0, 2);
}

/* Adds `blocks` blocks of panels to the sums of some rows. */
IG_INLINE void add_tile(const panel *const *p, const rounded *const *x, int64_t blocks,
                        const tile_out *out, const int rows, const panel_kind kind,
                        const bool is_wide) {
    tile_sums sum;
    const rounded *row[TILE_ROWS]; /* in registers: gcc would load them for each product */
    if (rows > (kind_halves(kind) == 2 ? TILE_ROWS_TWO : TILE_ROWS)) return; /* never called */
    load_sums(out, sum, rows);
    IG_UNROLL
    for (int r = 0; r < rows; r++) row[r] = x[r];
    for (int64_t b = 0; b < blocks; b++) {
        fetch_beside(out, b);
        if (adds_halves_first(kind))
            add_both(p, row, b, sum, rows, kind);
        else
            add_scaled(p, row, b, sum, 0, rows, kind, is_wide);
        if (shifted_halves(kind) == 2) add_scaled(p, row, b, sum, 1, rows, kind, false);
        if (kind_has_min(kind)) add_mins(p, row, b, sum, 0, rows);
        if (kind == TWO_MINS) add_mins(p, row, b, sum, 1, rows);
    }
    put_tile(out, sum, rows);
}

typedef void tile_fn(const panel *const *p, const rounded *const *x, int64_t blocks,
                     const tile_out *out);

#define TILE(name, rows, kind, is_wide)                                                       \
    static void name##_##rows(const panel *const *p, const rounded *const *x, int64_t blocks, \
                              const tile_out *out) {                                          \
        add_tile(p, x, blocks, out, rows, kind, is_wide);                                     \
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

/* ---- products ---- */

/* Some rows times some columns. */
typedef struct whole_block {
    const rounded *x; /* the first row, */
    int64_t x_row;    /* and how far apart they are */
    int64_t rows;
    ig_dtype dtype; /* of the weights */
    bool is_packed;
    const char *w; /* the first column's row, and how far apart they lie, in bytes; */
    int64_t w_row; /* packed: the first group, and of groups */
    int64_t columns;
    int64_t blocks; /* of 32 elements along k */
    float *y;
    int64_t y_row;
    const float *bias; /* of these columns, or NULL */
    ending end;
} whole_block;

/* Sums of a row from column c on. */
static inline void put_sums(const whole_block *p, int64_t row, int64_t c, const float *sums,
                            int64_t count) {
    const int64_t columns = smaller(p->columns - c, count), at = row * p->y_row + c;
    float *y = p->y + at;
    for (int64_t k = 0; k < columns; k++) y[k] = p->bias ? sums[k] + p->bias[c + k] : sums[k];
    finish(ending_at(p->end, at), y, p->y_row, 1, columns);
}

/*
 * One row times the groups from number `first` on.  A stream goes through some that lie
 * behind each other: where one ends, the next has been fetched.
 *
 *     stream    0         1         2
 *     round   0 1 2     0 1 2     0 1 2   ...    the next ones begin behind the last stream
 */
static inline void one_row(const whole_block *p, int64_t first, int64_t rounds) {
    _Alignas(64) float sums[STREAMS * PANEL_COLUMNS];
    const int64_t stream_bytes = rounds * p->w_row;
    for (int64_t i = 0; i < rounds; i++) {
        const uint8_t *w = (const uint8_t *)p->w + (first + i) * p->w_row;
        const int64_t jump = i + 1 < rounds ? 0 : (STREAMS - 1) * stream_bytes;
        packed_fns[p->dtype].streams(w, stream_bytes, jump, p->blocks, p->x, sums);
        for (int64_t s = 0; s < STREAMS; s++)
            put_sums(p, 0, (first + s * rounds + i) * PANEL_COLUMNS, sums + s * PANEL_COLUMNS,
                     PANEL_COLUMNS);
    }
}

static inline void multiply_one(const whole_block *p) {
    const int64_t groups = (p->columns + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
    const int64_t rounds = groups / STREAMS;
    if (rounds > 0) one_row(p, 0, rounds);
    for (int64_t g = rounds * STREAMS; g < groups; g++) {
        _Alignas(64) float sums[PANEL_COLUMNS];
        packed_fns[p->dtype].stream((const uint8_t *)p->w + g * p->w_row, 0, 0, p->blocks, p->x,
                                    sums);
        put_sums(p, 0, g * PANEL_COLUMNS, sums, PANEL_COLUMNS);
    }
}

/* Some groups from number g on, times some rows. */
static inline void few_rows(const whole_block *p, int64_t g, int64_t groups, int64_t r,
                            int64_t count) {
    _Alignas(64) float sums[FEW_AT_ONCE * STREAMS_OF_SEVERAL * PANEL_COLUMNS];
    const rounded_rows rows = {p->x + r * p->x_row, p->x_row, count};
    packed_fns[p->dtype].rows((const uint8_t *)p->w + g * p->w_row, p->w_row, p->blocks, &rows,
                              sums, groups);
    for (int64_t i = 0; i < count; i++)
        put_sums(p, r + i, g * PANEL_COLUMNS, sums + i * groups * PANEL_COLUMNS,
                 groups * PANEL_COLUMNS);
}

/* All columns and rows, so many at a time. */
static inline void multiply_few(const whole_block *p) {
    const int64_t left = (p->columns + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
    const int64_t n_parts = (p->rows + FEW_AT_ONCE - 1) / FEW_AT_ONCE;
    for (int64_t g = 0, groups; g < left; g += groups) {
        groups = smaller(left - g, STREAMS_OF_SEVERAL);
        for (int64_t i = 0; i < n_parts; i++) {
            const int64_t r = p->rows * i / n_parts, end = p->rows * (i + 1) / n_parts;
            few_rows(p, g, groups, r, end - r);
        }
    }
}

typedef struct whole_room {
    panel panel[TILE_GROUPS];
    _Alignas(64) float waiting[WAITING_ROWS][TILE_COLUMNS];
    stage stage;
} whole_room;

/* Takes the zero off the bytes of a panel, which then have a sign. */
static inline void panel_sign(panel *p, int64_t blocks, int zero) {
    for (int64_t b = 0; b < blocks && zero != 0; b++)
        for (int j = 0; j < STEPS; j++)
            for (int v = 0; v < PANEL_VECTORS; v++) {
                const vi q = vi_sub_bytes(line_at(p->w[b][j], v), zero);
                vf_store((float *)(void *)p->w[b][j] + v * VF_LANES, vf_of_bits(q));
            }
}

/* Blocks [first, first + blocks) of the columns from c on, to panels, less `zero`. */
static inline void fill_panels(const whole_block *p, int64_t c, int64_t first, int64_t blocks,
                               int zero, const panel **to, whole_room *room) {
    for (int g = 0; g < TILE_GROUPS; g++, c += PANEL_COLUMNS) {
        to[g] = &room->panel[c < p->columns ? g : 0];
        if (c >= p->columns) continue;
        if (p->is_packed)
            packed_fns[p->dtype].open((const uint8_t *)p->w + c / PANEL_COLUMNS * p->w_row, first,
                                      blocks, zero, &room->panel[g]);
        else
            panel_fill(p->dtype, p->w + c * p->w_row + ig_bytes_of(p->dtype, first * IG_BLOCK),
                       p->w_row, smaller(p->columns - c, PANEL_COLUMNS), blocks, &room->stage,
                       &room->panel[g]);
        if (!p->is_packed) panel_sign(&room->panel[g], blocks, zero);
    }
}

/*
 * What the next panels will be opened from: more blocks of these groups, or the next ones.  Tiles
 * fetch it to the second cache, so many lines for each of their blocks that all will be there; many
 * of them go on with groups behind.  What is not packed is fetched when it is opened.
 */
typedef struct panels_ahead {
    const uint8_t *from; /* in the first group */
    int64_t w_row;       /* from it to the next */
    int64_t group_lines; /* of one, */
    int64_t lines;       /* and for a block of a tile */
} panels_ahead;

static inline panels_ahead ahead_of(const whole_block *p, int64_t c, int64_t next, int64_t n_tiles,
                                    int64_t tile_blocks) {
    if (!p->is_packed) return (panels_ahead){.from = (const uint8_t *)p->x, .group_lines = 1};
    const bool is_end = next >= p->blocks;
    const int64_t blocks = smaller(p->blocks - (is_end ? 0 : next), PANEL_BLOCKS);
    const int64_t group = c / PANEL_COLUMNS + (is_end ? TILE_GROUPS : 0);
    const int64_t at = is_end ? 0 : packed_group_bytes(p->dtype, next);
    const int64_t group_lines = packed_group_bytes(p->dtype, blocks) / LINE;
    return (panels_ahead){.from = (const uint8_t *)p->w + group * p->w_row + at,
                          .w_row = p->w_row,
                          .group_lines = group_lines,
                          .lines = 1 + TILE_GROUPS * group_lines / (n_tiles * tile_blocks)};
}

/* Where tile i begins to fetch. */
static inline const uint8_t *ahead_from(const panels_ahead *a, int64_t i, int64_t tile_blocks) {
    const int64_t line = i * tile_blocks * a->lines;
    return a->from + line / a->group_lines * a->w_row + line % a->group_lines * LINE;
}

/* All rows through panels that begin at block `first`, in tiles of about the same size. */
static inline void through_panels(const whole_block *p, const panel *const *panels, int64_t c,
                                  int64_t first, int64_t blocks, whole_room *room) {
    const panel_type *t = &panel_types[p->dtype];
    const int64_t most = kind_halves(t->kind) == 2 ? TILE_ROWS_TWO : TILE_ROWS;
    const int64_t n_tiles = (p->rows + most - 1) / most;
    const int64_t each = p->rows / n_tiles, larger = p->rows % n_tiles; /* tiles, by a row */
    tile_out out = {.y_row = p->y_row,
                    .columns = smaller(p->columns - c, TILE_COLUMNS),
                    .bias = p->bias ? p->bias + c : NULL,
                    .first = first == 0,
                    .last = first + blocks == p->blocks};
    const panels_ahead ahead = ahead_of(p, c, first + blocks, n_tiles, blocks);
    out.lines = ahead.lines;
    const rounded *row = p->x + first;
    for (int64_t i = 0, r = 0, rows; i < n_tiles; i++, r += rows) {
        const rounded *x[TILE_ROWS];
        rows = each + (i < larger);
        for (int64_t k = 0; k < rows; k++, row += p->x_row) x[k] = row;
        out.y = p->y + r * p->y_row + c;
        out.waiting = room->waiting + r;
        out.ahead = ahead_from(&ahead, i, blocks);
        const ending end = ending_at(p->end, r * p->y_row + c);
        if (out.last) finish_soon(end, out.y, p->y_row, rows, out.columns);
        tiles[t->is_wide ? WIDE_TILES : (int)t->kind][rows - 1](panels, x, blocks, &out);
        if (out.last) finish(end, out.y, p->y_row, rows, out.columns);
    }
}

/* Groups that a thread takes at a time: as many streams as pay, where that leaves others enough,
 * and long ones. */
static inline int64_t together_of(int64_t groups, int64_t rows) {
    enum { OTHERS = 16 };
    if (!is_few(rows)) return TILE_GROUPS;
    const int64_t streams = rows == 1 ? STREAMS : STREAMS_OF_SEVERAL;
    if (rows == 1 && groups >= 2 * OTHERS * streams)
        return streams * smaller(groups / (OTHERS * streams), ROUNDS);
    return groups >= 4 * streams ? streams : 1;
}

/* Some of the rows. */
static inline whole_block rows_of(const whole_block *p, int64_t first, int64_t count) {
    whole_block part = *p;
    part.x += first * p->x_row;
    part.y += first * p->y_row;
    part.end = ending_at(p->end, first * p->y_row);
    part.rows = count;
    return part;
}

/* So many rows that their sums can wait. */
static inline void multiply_part(const whole_block *p, whole_room *room) {
    const panel *panels[TILE_GROUPS];
    for (int64_t c = 0; c < p->columns; c += TILE_COLUMNS)
        for (int64_t b = 0; b < p->blocks; b += PANEL_BLOCKS) {
            const int64_t blocks = smaller(p->blocks - b, PANEL_BLOCKS);
            fill_panels(p, c, b, blocks, 0, panels, room);
            through_panels(p, panels, c, b, blocks, room);
        }
}

static void multiply_whole(const whole_block *p) {
    if (p->is_packed && is_few(p->rows)) {
        if (p->rows == 1)
            multiply_one(p);
        else
            multiply_few(p);
        return;
    }
    whole_room room;
    const int64_t n_parts = (p->rows + WAITING_ROWS - 1) / WAITING_ROWS;
    for (int64_t i = 0; i < n_parts; i++) {
        const int64_t r = p->rows * i / n_parts, end = p->rows * (i + 1) / n_parts;
        const whole_block part = rows_of(p, r, end - r);
        multiply_part(&part, &room);
    }
}

#endif
