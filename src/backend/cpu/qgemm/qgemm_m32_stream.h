/*
 * few.h - packed groups times few rows, in whole numbers.
 *
 * The sums of whole.h: a block goes from the packed group into registers, and all rows through
 * it.  Memory is what counts, so many groups are gone through at once, each a stream of its own.
 */
#ifndef IG_BACKEND_CPU_FEW_H
#define IG_BACKEND_CPU_FEW_H

#include "backend/cpu/qgemm/qgemm_m8_registers.h"

enum {
    FEW_AT_ONCE = 32,                /* rows, at most */
    STREAMS = VF_LANES < 16 ? 4 : 8, /* groups at once, for one row: as registers have room for, */
    ROUNDS = 4,                      /* and at most so many behind each other in a stream */
    STREAMS_OF_SEVERAL = 4,          /* for more rows */
    FETCH_BYTES = 8192,              /* under way in all streams */
    GROUPS_IN_REGISTERS = VF_LANES < 16 ? 1 : 2,
    ROWS_AT_ONCE = HAS_TILES ? 4 : 1, /* at most */
};

/* Where one row's streams are fetched to: processors with tiles have room for all of them. */
IG_INLINE cache streams_to(void) { return HAS_TILES ? FIRST_CACHE : SECOND_CACHE; }

/* Rows that go this way.  With 8 lanes there are too few registers for a tile, and all rows do. */
static inline bool is_few(int64_t rows) { return VF_LANES == 8 || rows <= FEW_AT_ONCE; }

/* Processors with tiles have two pipes for dots, and these wait for each other in the sums of one
 * row.  There several rows go through a block at once, as many as registers have room for; one pipe
 * is as busy with one row after the other. */
IG_INLINE int rows_at_once(const ig_dtype type) {
    return ROWS_AT_ONCE > 2 && halves_of(type) == 2 ? 2 : ROWS_AT_ONCE;
}

/* What some groups have for a block, opened: vector v of each. */
typedef struct open_blocks {
    vi w[GROUPS_IN_REGISTERS][STEPS];
    block_scales s[GROUPS_IN_REGISTERS];
    const uint8_t *line[GROUPS_IN_REGISTERS]; /* instead of w, where they are read as such; */
    int64_t ahead; /* how far from each lies what is fetched with it; 0: nothing */
    cache to;
} open_blocks;

/* Of rows that go through a block at once, and groups. */
typedef vi wholes_at_once[ROWS_AT_ONCE][GROUPS_IN_REGISTERS];
typedef vf sums_at_once[ROWS_AT_ONCE][GROUPS_IN_REGISTERS];

/* Step j of some groups, which share what is read of a row. */
IG_INLINE void dot_step(const ig_dtype type, const open_blocks *o, const rounded_rows *x,
                        vi (*whole)[GROUPS_IN_REGISTERS], const int j, const int groups,
                        const int rows) {
    vi w[GROUPS_IN_REGISTERS];
    IG_UNROLL
    for (int g = 0; g < groups; g++) {
        w[g] = reads_lines(type) ? line_at(o->line[g] + j * LINE, 0) : o->w[g][j];
        if (reads_lines(type) && o->ahead) fetch(o->line[g] + o->ahead + j * LINE, LINE, o->to);
    }
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        const int8_t *bytes = x->x[r * x->stride].q + 4 * j;
        IG_UNROLL
        for (int g = 0; g < groups; g++) {
            if (rows > 2 && !reads_lines(type))
                vi_add_dot_repeated(&whole[r][g], w[g], bytes);
            else if (rows > 1)
                vi_add_dot(&whole[r][g], w[g], vi_repeat(bytes));
            else
                whole[r][g] = vi_dot(whole[r][g], w[g], vi_repeat(bytes));
        }
    }
}

/* The whole numbers of one half of a block, or all of it, of some rows at once. */
IG_INLINE void dot_groups(const ig_dtype type, const open_blocks *o, const rounded_rows *x,
                          vi (*whole)[GROUPS_IN_REGISTERS], const int half, const int groups,
                          const int rows) {
    const panel_kind kind = panel_types[type].kind;
    const int count = STEPS / halves_of(type), first = half * count;
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        const rounded *row = x->x + r * x->stride;
        IG_UNROLL
        for (int g = 0; g < groups; g++) {
            whole[r][g] = whole_begin(kind, row, half);
            if (DOT_IN_PAIRS)
                whole[r][g] = dot_in_pairs(whole[r][g], o->w[g] + first, row->q + 4 * first, count,
                                           kind_halves(kind) == 2 ? RUN_SIXES : RUN_FIVES,
                                           panel_types[type].is_wide);
        }
    }
    IG_UNROLL
    for (int j = first; j < first + count && !DOT_IN_PAIRS; j++)
        dot_step(type, o, x, whole, j, groups, rows);
}

/* Adds the whole numbers of a block's halves, or the first of all of it, to the sum of a row and a
 * group. */
IG_INLINE vf add_wholes(const panel_kind kind, const rounded *x, vi first, vi second,
                        const block_scales *s, vf sum) {
    if (adds_halves_first(kind)) {
        const vf half = scale_first(kind, first, s->scale[0], s->below[0]);
        const vf both = vf_fma(vi_to_float(second), s->scale[1], half);
        sum = vf_fma(both, vf_set(x->scale), sum);
    } else {
        sum = add_whole(kind, &x->scale, first, s->scale[0], s->below[0], sum);
        if (shifted_halves(kind) == 2)
            sum = add_whole(kind, &x->scale, second, s->scale[1], s->below[1], sum);
    }
    if (kind_has_min(kind)) sum = add_min(x, 0, s->min[0], sum);
    if (kind == TWO_MINS) sum = add_min(x, 1, s->min[1], sum);
    return sum;
}

/* Adds a block of some rows, times groups that were opened, to the sum of each. */
IG_INLINE void add_block(const ig_dtype type, const open_blocks *o, const rounded_rows *x,
                         vf (*sum)[GROUPS_IN_REGISTERS], const int groups, const int rows) {
    const panel_kind kind = panel_types[type].kind;
    wholes_at_once whole[2];
    IG_UNROLL
    for (int half = 0; half < halves_of(type); half++)
        dot_groups(type, o, x, whole[half], half, groups, rows);
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int g = 0; g < groups; g++) {
            const vi second = halves_of(type) == 2 ? whole[1][r][g] : vi_set(0);
            sum[r][g] =
                add_wholes(kind, x->x + r * x->stride, whole[0][r][g], second, &o->s[g], sum[r][g]);
        }
    }
}

/* How far from block b of a group lies what is fetched meanwhile, in each of its streams.  Behind
 * the end of the group, a stream goes on `jump` bytes further. */
IG_INLINE int64_t fetch_from(const ig_dtype type, int64_t b, int64_t blocks, const int streams,
                             int64_t jump) {
    const int64_t far = FETCH_BYTES / streams;
    return far + (b + far / packed_types[type].block >= blocks ? jump : 0);
}

/* Opens block b of some groups.  What lies `ahead` of it is fetched, or will be with its lines. */
IG_INLINE void open_groups(const ig_dtype type, const uint8_t *w, int64_t group_bytes, int64_t b,
                           const int v, open_blocks *o, const int groups, int64_t ahead,
                           const cache to) {
    const packed_type *t = &packed_types[type];
    const int64_t h = b % t->unit;
    IG_UNROLL
    for (int g = 0; g < groups; g++) {
        const uint8_t *unit = w + g * group_bytes + b / t->unit * packed_unit_bytes(type);
        if (v == 0 && h == 0) fetch(unit + ahead, t->head, to);
        if (reads_lines(type)) {
            o->line[g] = unit + t->head + h * t->block;
        } else {
            if (v == 0) fetch(unit + ahead + t->head + h * t->block, t->block, to);
            open_bytes(type, unit + t->head + h * t->block, v, o->w[g]);
        }
        open_scales(type, unit, h, v, &o->s[g]);
    }
    o->ahead = ahead;
    o->to = to;
}

/* A group of each stream, `stream_bytes` apart, times one row, whose sums stay in registers. */
IG_INLINE void add_one_row(const ig_dtype type, const uint8_t *w, int64_t stream_bytes,
                           int64_t jump, int64_t blocks, const rounded *x, float *sums,
                           const int streams) {
    vf sum[STREAMS][PANEL_VECTORS][1][GROUPS_IN_REGISTERS]; /* the first */
    if (VF_LANES == 1) return; /* plain C has no use for it, and never comes here */
    IG_UNROLL
    for (int g = 0; g < streams; g++) {
        IG_UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++) sum[g][v][0][0] = vf_set(0);
    }
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t ahead = fetch_from(type, b, blocks, streams, jump);
        IG_UNROLL
        for (int g = 0; g < streams; g++) {
            IG_UNROLL
            for (int v = 0; v < PANEL_VECTORS; v++) {
                open_blocks o;
                open_groups(type, w + g * stream_bytes, 0, b, v, &o, 1, ahead, streams_to());
                const rounded_rows row = {x + b, 0, 1};
                add_block(type, &o, &row, sum[g][v], 1, 1);
            }
        }
    }
    IG_UNROLL
    for (int g = 0; g < streams; g++) {
        IG_UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++)
            vf_store(sums + g * PANEL_COLUMNS + v * VF_LANES, sum[g][v][0][0]);
    }
}

/* WIDE_ROWS rows at once, times groups of wide bytes that have one scale. */
IG_INLINE void add_wide_rows(const open_blocks *o, const rounded *x, int64_t stride, float *sums,
                             int64_t columns, const int groups) {
    IG_UNROLL
    for (int g = 0; g < groups; g++) {
        vi whole[WIDE_ROWS];
        const int8_t *q[WIDE_ROWS];
        IG_UNROLL
        for (int r = 0; r < WIDE_ROWS; r++) {
            whole[r] = whole_begin(ONE_SCALE, x + r * stride, 0);
            q[r] = x[r * stride].q;
        }
        dot_wide(whole, o->w[g], q, STEPS, WIDE_ROWS);
        IG_UNROLL
        for (int r = 0; r < WIDE_ROWS; r++) {
            float *sum = sums + r * columns + g * PANEL_COLUMNS;
            vf_store(sum, add_whole(ONE_SCALE, &x[r * stride].scale, whole[r], o->s[g].scale[0],
                                    vf_set(0), vf_load(sum)));
        }
    }
}

/* A block of some rows at once, times groups that were opened. */
IG_INLINE void add_at_once(const ig_dtype type, const open_blocks *o, const rounded_rows *x,
                           float *sums, int64_t columns, const int groups, const int rows) {
    sums_at_once sum;
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int g = 0; g < groups; g++)
            sum[r][g] = vf_load(sums + r * columns + g * PANEL_COLUMNS);
    }
    add_block(type, o, x, sum, groups, rows);
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int g = 0; g < groups; g++)
            vf_store(sums + r * columns + g * PANEL_COLUMNS, sum[r][g]);
    }
}

/* Block b of some groups, times all rows. */
IG_INLINE void add_block_of_rows(const ig_dtype type, open_blocks *o, int64_t b,
                                 const rounded_rows *rows, float *sums, int64_t columns,
                                 const int groups) {
    const int at_once = rows_at_once(type);
    const int64_t count = rows->count, stride = rows->stride;
    rounded_rows x = {rows->x + b, stride, count};
    int64_t r = 0;
    if (DOT_IN_PAIRS && panel_types[type].is_wide)
        for (; r + WIDE_ROWS <= count; r += WIDE_ROWS, x.x += WIDE_ROWS * stride)
            add_wide_rows(o, x.x, stride, sums + r * columns, columns, groups);
    IG_UNROLL
    for (int g = 0; g < groups; g++)
        if (at_once > 1 && !reads_lines(type)) hide_opened(o->w[g]);
    for (; at_once > 1 && r + at_once <= count; r += at_once, x.x += at_once * stride, o->ahead = 0)
        add_at_once(type, o, &x, sums + r * columns, columns, groups, at_once);
    for (; r < count; r++, x.x += stride, o->ahead = 0)
        add_at_once(type, o, &x, sums + r * columns, columns, groups, 1);
}

/* Block b of some groups, opened once, times all rows. */
IG_INLINE void add_groups(const ig_dtype type, const uint8_t *w, int64_t group_bytes, int64_t b,
                          const rounded_rows *rows, float *sums, int64_t columns, const int groups,
                          int64_t ahead) {
    IG_UNROLL
    for (int v = 0; v < PANEL_VECTORS; v++) {
        open_blocks o;
        open_groups(type, w, group_bytes, b, v, &o, groups, ahead, SECOND_CACHE);
        add_block_of_rows(type, &o, b, rows, sums + v * VF_LANES, columns, groups);
    }
}

/* A block is opened once for all rows, while the next ones are under way, and the sums, [rows]
 * [groups * PANEL_COLUMNS], wait in the first cache. */
IG_INLINE void add_blocks(const ig_dtype type, const uint8_t *w, int64_t group_bytes,
                          int64_t blocks, const rounded_rows *rows, float *sums, int64_t groups) {
    const int64_t columns = groups * PANEL_COLUMNS;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t ahead =
            fetch_from(type, b, blocks, STREAMS_OF_SEVERAL, (groups - 1) * group_bytes);
        int64_t g = 0;
        for (; g + GROUPS_IN_REGISTERS <= groups; g += GROUPS_IN_REGISTERS)
            add_groups(type, w + g * group_bytes, group_bytes, b, rows, sums + g * PANEL_COLUMNS,
                       columns, GROUPS_IN_REGISTERS, ahead);
        for (; g < groups; g++)
            add_groups(type, w + g * group_bytes, group_bytes, b, rows, sums + g * PANEL_COLUMNS,
                       columns, 1, ahead);
    }
}

/* Several rows times some groups. */
IG_INLINE void add_rows(const ig_dtype type, const uint8_t *w, int64_t group_bytes, int64_t blocks,
                        const rounded_rows *rows, float *sums, int64_t groups) {
    if (VF_LANES == 1) return;
    memset(sums, 0, (size_t)(rows->count * groups * PANEL_COLUMNS) * sizeof *sums);
    if (!HAS_TILES || rows->count < 2 || rows->count > RUN_ROWS) {
        add_blocks(type, w, group_bytes, blocks, rows, sums, groups);
        return;
    }
    IG_UNROLL
    for (int n = 2; n <= RUN_ROWS; n++)
        if (HAS_TILES && n == rows->count)
            add_runs(type, w, group_bytes, blocks, rows, sums, groups, n);
}

typedef void one_row_fn(const uint8_t *w, int64_t stream_bytes, int64_t jump, int64_t blocks,
                        const rounded *x, float *sums);
typedef void rows_fn(const uint8_t *w, int64_t group_bytes, int64_t blocks,
                     const rounded_rows *rows, float *sums, int64_t groups);
typedef void open_fn(const uint8_t *group, int64_t first, int64_t blocks, int zero, panel *p);

#define ONE_ROW(name, ID, streams)                                                                \
    static void name##_##ID(const uint8_t *w, int64_t stream_bytes, int64_t jump, int64_t blocks, \
                            const rounded *x, float *sums) {                                      \
        add_one_row(IG_##ID, w, stream_bytes, jump, blocks, x, sums, streams);                    \
    }
#define OF_TYPE(ID)                                                                      \
    ONE_ROW(streams_of, ID, STREAMS)                                                     \
    ONE_ROW(stream_of, ID, 1)                                                            \
    static void rows_##ID(const uint8_t *w, int64_t group_bytes, int64_t blocks,         \
                          const rounded_rows *rows, float *sums, int64_t groups) {       \
        add_rows(IG_##ID, w, group_bytes, blocks, rows, sums, groups);                   \
    }                                                                                    \
    static void open_##ID(const uint8_t *group, int64_t first, int64_t blocks, int zero, \
                          panel *p) {                                                    \
        open_panel(IG_##ID, group, first, blocks, zero, p);                              \
    }

#define PACKED_TYPES(X) \
    X(Q4_0)             \
    X(Q4_1)             \
    X(Q5_0) X(Q5_1) X(Q8_0) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_NL) X(IQ4_XS) X(MXFP4)
PACKED_TYPES(OF_TYPE)

/* What there is for a type. */
static const struct {
    open_fn *open;
    one_row_fn *stream, *streams; /* one, or all of them */
    rows_fn *rows;
} packed_fns[IG_DTYPE_COUNT] = {
#define FNS(ID) [IG_##ID] = {open_##ID, stream_of_##ID, streams_of_##ID, rows_##ID},
    PACKED_TYPES(FNS)};

#endif
