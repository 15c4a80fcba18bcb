/*
 * qgemm_m8_registers.h - int8 GEMM of 2 to 8 rows on processors with AMX: sums stay in registers.
 *
 * These have two pipes for dot products, which the dependent additions of one row do not fill: all
 * rows share a block.  With M that small, sums stay in registers for a span of blocks:
 *
 *     group   0    1    2    3         one span each, then the next span of all: four streams
 *     span    0 -> 0 -> 0 -> 0 ->
 *             1 -> 1 -> 1 -> 1 ->
 */
#ifndef IG_BACKEND_CPU_QGEMM_QGEMM_M8_REGISTERS_H
#define IG_BACKEND_CPU_QGEMM_QGEMM_M8_REGISTERS_H

#include "backend/cpu/qgemm/dot_q8.h"
#include "backend/cpu/qgemm/q8_gemm.h"

enum {
    M8_ROWS = 8,             /* at most: two registers each, eight for w */
    SPAN_BLOCKS = 8,         /* a multiple of the unit of each type */
    SPAN_PREFETCH_L2 = 8192, /* bytes from a block to what is prefetched to L2 */
    SPAN_PREFETCH_L1 = 1152, /* and to L1 */
};
static_assert(!HAS_TILES || PANEL_VECTORS == 1, "a group is a vector");

typedef struct group_span {
    const uint8_t *group;
    int64_t first, blocks;
    int64_t ahead; /* bytes from a block to what is prefetched with it to L2 */
} group_span;

/* Prefetches with some lines of a span: the near ones to L1, the far ones to L2. */
IG_INLINE void prefetch_span(const uint8_t *p, const int bytes, int64_t ahead) {
    prefetch(p + ahead, bytes, PREFETCH_L2);
    prefetch(p + SPAN_PREFETCH_L1, bytes, PREFETCH_L1);
}

/* A block of a group.  Lines of 8-bit types are loaded between the dots instead of unpacked. */
typedef struct span_block {
    vi w[STEPS];
    block_scales s;
    const uint8_t *lines;
    int64_t ahead;
} span_block;

IG_INLINE void unpack_span_block(const ig_dtype type, const group_span *p, int64_t b,
                                 span_block *o) {
    const packed_type *t = &packed_types[type];
    const uint8_t *unit = p->group + b / t->unit * packed_unit_bytes(type);
    o->lines = unit + t->head + b % t->unit * t->block;
    o->ahead = p->ahead;
    if (b % t->unit == 0) prefetch_span(unit, t->head, p->ahead);
    if (!reads_lines(type)) {
        prefetch_span(o->lines, t->block, p->ahead);
        unpack_bytes(type, o->lines, 0, o->w);
        keep_unpacked(o->w);
    }
    read_scales(type, unit, b % t->unit, 0, &o->s);
}

/* The accumulators of one scale group. */
IG_INLINE void dot_span(const ig_dtype type, const span_block *o, const act_q8 *const *x, vi *acc,
                        const int sg, const int rows) {
    const int count = STEPS / scales_per_block_of(type), first = sg * count;
    IG_UNROLL
    for (int r = 0; r < rows; r++) acc[r] = acc_init(quant_types[type].kind, x[r], sg);
    IG_UNROLL
    for (int j = first; j < first + count; j++) {
        const vi w = reads_lines(type) ? line_at(o->lines + j * LINE, 0) : o->w[j];
        if (reads_lines(type)) prefetch_span(o->lines + j * LINE, LINE, o->ahead);
        IG_UNROLL
        for (int r = 0; r < rows; r++) vi_add_dot_repeated(&acc[r], w, x[r]->q + 4 * j);
    }
}

IG_INLINE void add_span_block(const ig_dtype type, const span_block *o, const act_q8 *const *x,
                              vf *sum, const int rows) {
    const quant_kind kind = quant_types[type].kind;
    IG_UNROLL
    for (int sg = 0; sg < scales_per_block_of(type); sg++) {
        vi acc[M8_ROWS];
        dot_span(type, o, x, acc, sg, rows);
        IG_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r] = accumulate_i32(kind, &x[r]->scale, acc[r], o->s.scale[sg], o->s.magic_bias[sg],
                                    sum[r]);
    }
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        if (kind_has_min(kind)) sum[r] = add_min(x[r], 0, o->s.min[0], sum[r]);
        if (kind == TWO_MINS) sum[r] = add_min(x[r], 1, o->s.min[1], sum[r]);
    }
}

/* A span times some rows; sums of a row lie `columns` from those of the next. */
IG_INLINE void add_span(const ig_dtype type, const group_span *p, const act_q8_rows *from,
                        float *sums, int64_t columns, const int rows) {
    vf sum[M8_ROWS];
    const act_q8 *x[M8_ROWS];
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        x[r] = from->x + r * from->stride + p->first;
        sum[r] = vf_load(sums + r * columns);
    }
    for (int64_t b = p->first; b < p->first + p->blocks; b++) {
        span_block o;
        unpack_span_block(type, p, b, &o);
        add_span_block(type, &o, x, sum, rows);
        IG_UNROLL
        for (int r = 0; r < rows; r++) x[r]++;
    }
    IG_UNROLL
    for (int r = 0; r < rows; r++) vf_store(sums + r * columns, sum[r]);
}

/* `rows` rows times some groups, span after span; sums [rows][groups * QNR]. */
IG_INLINE void add_spans(const ig_dtype type, const uint8_t *w, int64_t group_bytes, int64_t blocks,
                         const act_q8_rows *x, float *sums, int64_t groups, const int rows) {
    for (int64_t first = 0; first < blocks; first += SPAN_BLOCKS) {
        const bool is_end = first + SPAN_PREFETCH_L2 / packed_types[type].block >= blocks;
        for (int64_t g = 0; g < groups; g++) {
            const group_span p = {w + g * group_bytes, first, min_i64(blocks - first, SPAN_BLOCKS),
                                  SPAN_PREFETCH_L2 + (is_end ? (groups - 1) * group_bytes : 0)};
            add_span(type, &p, x, sums + g * QNR, groups * QNR, rows);
        }
    }
}

/* Whether M rows take this path. */
static inline bool m8_fits(int64_t rows) { return HAS_TILES && rows >= 2 && rows <= M8_ROWS; }

IG_INLINE void add_rows_m8(const ig_dtype type, const uint8_t *w, int64_t group_bytes,
                           int64_t blocks, const act_q8_rows *rows, float *sums, int64_t groups) {
    IG_UNROLL
    for (int n = 2; n <= M8_ROWS; n++)
        if (HAS_TILES && n == rows->count)
            add_spans(type, w, group_bytes, blocks, rows, sums, groups, n);
}

#define M8_FN(ID)                                                               \
    static void m8_##ID(const uint8_t *w, int64_t group_bytes, int64_t blocks,  \
                        const act_q8_rows *rows, float *sums, int64_t groups) { \
        add_rows_m8(IG_##ID, w, group_bytes, blocks, rows, sums, groups);       \
    }
PACKED_TYPES(M8_FN)

#define M8_NAME(ID) [IG_##ID] = m8_##ID,
static small_m_fn *const m8_fns[IG_DTYPE_COUNT] = {PACKED_TYPES(M8_NAME)};

#endif
