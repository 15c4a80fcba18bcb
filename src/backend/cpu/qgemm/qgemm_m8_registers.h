/*
 * runs.h - packed groups times a few rows, whose sums stay in registers.
 *
 * The sums of whole.h.  Processors with tiles have two pipes for dots, and these wait for each
 * other in the sums of one row.  There all rows go through a block at once; and since they are few,
 * a run of blocks goes by before their sums are stored.
 *
 *     group   0    1    2    3         one run each, then the next one of all: four streams
 *     run     0 -> 0 -> 0 -> 0 ->
 *             1 -> 1 -> 1 -> 1 ->
 */
#ifndef IG_BACKEND_CPU_RUNS_H
#define IG_BACKEND_CPU_RUNS_H

#include "backend/cpu/qgemm/dot_q8_shared.h"

enum {
    RUN_ROWS = 8,          /* that go this way, at most: two registers each, eight for w */
    RUN_BLOCKS = 8,        /* whole units of all types */
    RUN_FETCH = 8192,      /* bytes from a block to what comes to the second cache, */
    RUN_FETCH_NEAR = 1152, /* and to the first */
};
static_assert(!HAS_TILES || PANEL_VECTORS == 1, "a group is a vector");

typedef struct group_run {
    const uint8_t *group;
    int64_t first, blocks;
    int64_t ahead; /* how far from each block lies what is fetched with it */
} group_run;

/* Some lines of a run: those behind them to the first cache, those far ahead to the second. */
IG_INLINE void fetch_run(const uint8_t *p, const int bytes, int64_t ahead) {
    fetch(p + ahead, bytes, SECOND_CACHE);
    fetch(p + RUN_FETCH_NEAR, bytes, FIRST_CACHE);
}

/* A block of a group.  Lines of a step each are not opened: they are read between the dots. */
typedef struct run_block {
    vi w[STEPS];
    block_scales s;
    const uint8_t *lines;
    int64_t ahead;
} run_block;

IG_INLINE void open_run_block(const ig_dtype type, const group_run *p, int64_t b, run_block *o) {
    const packed_type *t = &packed_types[type];
    const uint8_t *unit = p->group + b / t->unit * packed_unit_bytes(type);
    o->lines = unit + t->head + b % t->unit * t->block;
    o->ahead = p->ahead;
    if (b % t->unit == 0) fetch_run(unit, t->head, p->ahead);
    if (!reads_lines(type)) {
        fetch_run(o->lines, t->block, p->ahead);
        open_bytes(type, o->lines, 0, o->w);
        hide_opened(o->w);
    }
    open_scales(type, unit, b % t->unit, 0, &o->s);
}

/* The whole numbers of one half of a block, or all of it. */
IG_INLINE void dot_run(const ig_dtype type, const run_block *o, const rounded *const *x, vi *whole,
                       const int half, const int rows) {
    const int count = STEPS / halves_of(type), first = half * count;
    IG_UNROLL
    for (int r = 0; r < rows; r++) whole[r] = whole_begin(panel_types[type].kind, x[r], half);
    IG_UNROLL
    for (int j = first; j < first + count; j++) {
        const vi w = reads_lines(type) ? line_at(o->lines + j * LINE, 0) : o->w[j];
        if (reads_lines(type)) fetch_run(o->lines + j * LINE, LINE, o->ahead);
        IG_UNROLL
        for (int r = 0; r < rows; r++) vi_add_dot_repeated(&whole[r], w, x[r]->q + 4 * j);
    }
}

IG_INLINE void add_run_block(const ig_dtype type, const run_block *o, const rounded *const *x,
                             vf *sum, const int rows) {
    const panel_kind kind = panel_types[type].kind;
    IG_UNROLL
    for (int half = 0; half < halves_of(type); half++) {
        vi whole[RUN_ROWS];
        dot_run(type, o, x, whole, half, rows);
        IG_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r] =
                add_whole(kind, &x[r]->scale, whole[r], o->s.scale[half], o->s.below[half], sum[r]);
    }
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        if (kind_has_min(kind)) sum[r] = add_min(x[r], 0, o->s.min[0], sum[r]);
        if (kind == TWO_MINS) sum[r] = add_min(x[r], 1, o->s.min[1], sum[r]);
    }
}

/* A run times some rows; sums of a row lie `columns` from those of the next. */
IG_INLINE void add_run(const ig_dtype type, const group_run *p, const rounded_rows *from,
                       float *sums, int64_t columns, const int rows) {
    vf sum[RUN_ROWS];
    const rounded *x[RUN_ROWS];
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        x[r] = from->x + r * from->stride + p->first;
        sum[r] = vf_load(sums + r * columns);
    }
    for (int64_t b = p->first; b < p->first + p->blocks; b++) {
        run_block o;
        open_run_block(type, p, b, &o);
        add_run_block(type, &o, x, sum, rows);
        IG_UNROLL
        for (int r = 0; r < rows; r++) x[r]++;
    }
    IG_UNROLL
    for (int r = 0; r < rows; r++) vf_store(sums + r * columns, sum[r]);
}

/* So many rows times some groups, all runs; sums are [rows][groups * PANEL_COLUMNS], and zero. */
IG_INLINE void add_runs(const ig_dtype type, const uint8_t *w, int64_t group_bytes, int64_t blocks,
                        const rounded_rows *x, float *sums, int64_t groups, const int rows) {
    for (int64_t first = 0; first < blocks; first += RUN_BLOCKS) {
        const bool is_end = first + RUN_FETCH / packed_types[type].block >= blocks;
        for (int64_t g = 0; g < groups; g++) {
            const group_run p = {w + g * group_bytes, first, smaller(blocks - first, RUN_BLOCKS),
                                 RUN_FETCH + (is_end ? (groups - 1) * group_bytes : 0)};
            add_run(type, &p, x, sums + g * PANEL_COLUMNS, groups * PANEL_COLUMNS, rows);
        }
    }
}

#endif
