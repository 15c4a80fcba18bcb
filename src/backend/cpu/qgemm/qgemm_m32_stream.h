/*
 * qgemm_m32_stream.h - int8 GEMV and GEMM of small M, straight from packed weights.
 *
 * Memory bandwidth is the limit, so several column groups are read at once, each a stream of its
 * own, prefetched as far as the memory system can track:
 *
 *     stream 0   group 0:  [ block 0 | block 1 | .. ]   a block goes into registers,
 *     stream 1   group 1:  [ block 0 | block 1 | .. ]   and all rows of activations
 *     ...                                               are multiplied by it there
 *
 * Cost: weights are read and unpacked once for M rows; sums of M > 1 pass through L1.
 */
#ifndef IG_BACKEND_CPU_QGEMM_QGEMM_M32_STREAM_H
#define IG_BACKEND_CPU_QGEMM_QGEMM_M32_STREAM_H

#include "backend/cpu/qgemm/dot_q8.h"
#include "backend/cpu/qgemm/q8_gemm.h"

enum {
    N_STREAMS_M1 = VF_LANES < 16 ? 4 : 8, /* groups at once for one row, limited by registers */
    MAX_ROUNDS = 4,                       /* groups one after the other in a stream, at most */
    PREFETCH_BYTES = 8192,                /* in flight, of all streams */
    GROUPS_IN_REGISTERS = VF_LANES < 16 ? 1 : 2,
    ROWS_AT_ONCE = HAS_TILES     ? 4
                   : DOT_IS_FAST ? 3
                                 : 1, /* at most */
};

/* Where the streams of one row are prefetched to: the L1 of processors with AMX holds them all. */
IG_INLINE prefetch_level m1_prefetch_level(void) { return HAS_TILES ? PREFETCH_L1 : PREFETCH_L2; }

/* The dependent additions of one row do not fill two pipes for dot products: several rows share a
 * block, as many as registers allow.  With AMX these are rows that load what they multiply by
 * themselves, and types with two scales gain by it, too. */
IG_INLINE int rows_at_once(const ig_dtype type) {
    if (scales_per_block_of(type) == 1) return ROWS_AT_ONCE;
    return HAS_TILES ? 2 : 1;
}

/* A block of several groups, unpacked: vector v of each. */
typedef struct unpacked_blocks {
    vi w[GROUPS_IN_REGISTERS][STEPS];
    block_scales s[GROUPS_IN_REGISTERS];
    const uint8_t *line[GROUPS_IN_REGISTERS]; /* instead of w for 8-bit types */
    int64_t ahead;                            /* prefetch distance in bytes; 0: none */
    prefetch_level to;
} unpacked_blocks;

/* [row][group] */
typedef vi accs_at_once[ROWS_AT_ONCE][GROUPS_IN_REGISTERS];
typedef vf sums_at_once[ROWS_AT_ONCE][GROUPS_IN_REGISTERS];

/* Step j of several groups, which share the broadcast of a row. */
IG_INLINE void dot_step(const ig_dtype type, const unpacked_blocks *o, const act_q8_rows *x,
                        vi (*acc)[GROUPS_IN_REGISTERS], const int j, const int groups,
                        const int rows) {
    vi w[GROUPS_IN_REGISTERS];
    IG_UNROLL
    for (int g = 0; g < groups; g++) {
        w[g] = reads_lines(type) ? line_at(o->line[g] + j * LINE, 0) : o->w[g][j];
        if (reads_lines(type) && o->ahead) prefetch(o->line[g] + o->ahead + j * LINE, LINE, o->to);
    }
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        const int8_t *bytes = x->x[r * x->stride].q + 4 * j;
        IG_UNROLL
        for (int g = 0; g < groups; g++) {
            if (HAS_TILES && rows > 2 && !reads_lines(type))
                vi_add_dot_repeated(&acc[r][g], w[g], bytes);
            else if (rows > 1)
                vi_add_dot(&acc[r][g], w[g], vi_repeat(bytes));
            else
                acc[r][g] = vi_dot(acc[r][g], w[g], vi_repeat(bytes));
        }
    }
}

/* The accumulators of one scale group, of several rows. */
IG_INLINE void dot_groups(const ig_dtype type, const unpacked_blocks *o, const act_q8_rows *x,
                          vi (*acc)[GROUPS_IN_REGISTERS], const int sg, const int groups,
                          const int rows) {
    const quant_kind kind = quant_types[type].kind;
    const int count = STEPS / scales_per_block_of(type), first = sg * count;
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        const act_q8 *row = x->x + r * x->stride;
        IG_UNROLL
        for (int g = 0; g < groups; g++) {
            acc[r][g] = acc_init(kind, row, sg);
            if (DOT_IN_PAIRS)
                acc[r][g] = dot_in_pairs(acc[r][g], o->w[g] + first, row->q + 4 * first, count,
                                         scales_per_block(kind) == 2 ? STEPS_6BIT : STEPS_5BIT,
                                         quant_types[type].is_wide);
        }
    }
    IG_UNROLL
    for (int j = first; j < first + count && !DOT_IN_PAIRS; j++)
        dot_step(type, o, x, acc, j, groups, rows);
}

/* Adds the accumulators of a block, two of types with two scales, to the sum of a row and a group.
 */
IG_INLINE vf accumulate_block(const quant_kind kind, const act_q8 *x, vi first, vi second,
                              const block_scales *s, vf sum) {
    if (adds_scale_groups_first(kind)) {
        const vf one = scale_acc(kind, first, s->scale[0], s->magic_bias[0]);
        const vf both = vf_fma(vi_to_float(second), s->scale[1], one);
        sum = vf_fma(both, vf_set(x->scale), sum);
    } else {
        sum = accumulate_i32(kind, &x->scale, first, s->scale[0], s->magic_bias[0], sum);
        if (n_magic_acc(kind) == 2)
            sum = accumulate_i32(kind, &x->scale, second, s->scale[1], s->magic_bias[1], sum);
    }
    if (kind_has_min(kind)) sum = add_min(x, 0, s->min[0], sum);
    if (kind == TWO_MINS) sum = add_min(x, 1, s->min[1], sum);
    return sum;
}

/* Adds a block of several rows times unpacked groups to their sums. */
IG_INLINE void add_block(const ig_dtype type, const unpacked_blocks *o, const act_q8_rows *x,
                         vf (*sum)[GROUPS_IN_REGISTERS], const int groups, const int rows) {
    const quant_kind kind = quant_types[type].kind;
    accs_at_once acc[2];
    IG_UNROLL
    for (int sg = 0; sg < scales_per_block_of(type); sg++)
        dot_groups(type, o, x, acc[sg], sg, groups, rows);
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int g = 0; g < groups; g++) {
            const vi second = scales_per_block_of(type) == 2 ? acc[1][r][g] : vi_set(0);
            sum[r][g] = accumulate_block(kind, x->x + r * x->stride, acc[0][r][g], second, &o->s[g],
                                         sum[r][g]);
        }
    }
}

/* Bytes from block b to what a stream prefetches with it.  Past the end of the group the stream
 * continues `jump` bytes further. */
IG_INLINE int64_t prefetch_distance(const ig_dtype type, int64_t b, int64_t blocks,
                                    const int streams, int64_t jump) {
    const int64_t far = PREFETCH_BYTES / streams;
    return far + (b + far / packed_types[type].block >= blocks ? jump : 0);
}

/* Unpacks block b of several groups, and prefetches `ahead` of it. */
IG_INLINE void unpack_groups(const ig_dtype type, const uint8_t *w, int64_t group_bytes, int64_t b,
                             const int v, unpacked_blocks *o, const int groups, int64_t ahead,
                             const prefetch_level to) {
    const packed_type *t = &packed_types[type];
    const int64_t h = b % t->unit;
    IG_UNROLL
    for (int g = 0; g < groups; g++) {
        const uint8_t *unit = w + g * group_bytes + b / t->unit * packed_unit_bytes(type);
        if (v == 0 && h == 0) prefetch(unit + ahead, t->head, to);
        if (reads_lines(type)) {
            o->line[g] = unit + t->head + h * t->block;
        } else {
            if (v == 0) prefetch(unit + ahead + t->head + h * t->block, t->block, to);
            unpack_bytes(type, unit + t->head + h * t->block, v, o->w[g]);
        }
        read_scales(type, unit, h, v, &o->s[g]);
    }
    o->ahead = ahead;
    o->to = to;
}

/* A group of each stream, `stream_bytes` apart, times one row.  Sums stay in registers. */
IG_INLINE void add_row_m1(const ig_dtype type, const uint8_t *w, int64_t stream_bytes, int64_t jump,
                          int64_t blocks, const act_q8 *x, float *sums, const int streams) {
    vf sum[N_STREAMS_M1][PANEL_VECTORS][1][GROUPS_IN_REGISTERS]; /* the first */
    if (VF_LANES == 1) return; /* plain C has no use for it, and never comes here */
    IG_UNROLL
    for (int g = 0; g < streams; g++) {
        IG_UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++) sum[g][v][0][0] = vf_set(0);
    }
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t ahead = prefetch_distance(type, b, blocks, streams, jump);
        IG_UNROLL
        for (int g = 0; g < streams; g++) {
            IG_UNROLL
            for (int v = 0; v < PANEL_VECTORS; v++) {
                unpacked_blocks o;
                unpack_groups(type, w + g * stream_bytes, 0, b, v, &o, 1, ahead,
                              m1_prefetch_level());
                const act_q8_rows row = {x + b, 0, 1};
                add_block(type, &o, &row, sum[g][v], 1, 1);
            }
        }
    }
    IG_UNROLL
    for (int g = 0; g < streams; g++) {
        IG_UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++)
            vf_store(sums + g * QNR + v * VF_LANES, sum[g][v][0][0]);
    }
}

/* WIDE_ROWS rows times groups of wide bytes that have one scale. */
IG_INLINE void add_wide_rows(const unpacked_blocks *o, const act_q8 *x, int64_t stride, float *sums,
                             int64_t columns, const int groups) {
    IG_UNROLL
    for (int g = 0; g < groups; g++) {
        vi acc[WIDE_ROWS];
        const int8_t *q[WIDE_ROWS];
        IG_UNROLL
        for (int r = 0; r < WIDE_ROWS; r++) {
            acc[r] = acc_init(ONE_SCALE, x + r * stride, 0);
            q[r] = x[r * stride].q;
        }
        dot_wide(acc, o->w[g], q, STEPS, WIDE_ROWS);
        IG_UNROLL
        for (int r = 0; r < WIDE_ROWS; r++) {
            float *sum = sums + r * columns + g * QNR;
            vf_store(sum, accumulate_i32(ONE_SCALE, &x[r * stride].scale, acc[r], o->s[g].scale[0],
                                         vf_set(0), vf_load(sum)));
        }
    }
}

/* A block of several rows times unpacked groups. */
IG_INLINE void add_at_once(const ig_dtype type, const unpacked_blocks *o, const act_q8_rows *x,
                           float *sums, int64_t columns, const int groups, const int rows) {
    sums_at_once sum;
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int g = 0; g < groups; g++) sum[r][g] = vf_load(sums + r * columns + g * QNR);
    }
    add_block(type, o, x, sum, groups, rows);
    IG_UNROLL
    for (int r = 0; r < rows; r++) {
        IG_UNROLL
        for (int g = 0; g < groups; g++) vf_store(sums + r * columns + g * QNR, sum[r][g]);
    }
}

/* Block b of several groups times all rows. */
IG_INLINE void add_block_of_rows(const ig_dtype type, unpacked_blocks *o, int64_t b,
                                 const act_q8_rows *rows, float *sums, int64_t columns,
                                 const int groups) {
    const int at_once = rows_at_once(type);
    const int64_t count = rows->count, stride = rows->stride;
    act_q8_rows x = {rows->x + b, stride, count};
    int64_t r = 0;
    if (DOT_IN_PAIRS && quant_types[type].is_wide)
        for (; r + WIDE_ROWS <= count; r += WIDE_ROWS, x.x += WIDE_ROWS * stride)
            add_wide_rows(o, x.x, stride, sums + r * columns, columns, groups);
    IG_UNROLL
    for (int g = 0; g < groups; g++)
        if (at_once > 1 && !reads_lines(type)) keep_unpacked(o->w[g]);
    for (; at_once > 1 && r + at_once <= count; r += at_once, x.x += at_once * stride, o->ahead = 0)
        add_at_once(type, o, &x, sums + r * columns, columns, groups, at_once);
    for (; r < count; r++, x.x += stride, o->ahead = 0)
        add_at_once(type, o, &x, sums + r * columns, columns, groups, 1);
}

/* The same, unpacked once for all rows. */
IG_INLINE void add_groups(const ig_dtype type, const uint8_t *w, int64_t group_bytes, int64_t b,
                          const act_q8_rows *rows, float *sums, int64_t columns, const int groups,
                          int64_t ahead) {
    IG_UNROLL
    for (int v = 0; v < PANEL_VECTORS; v++) {
        unpacked_blocks o;
        unpack_groups(type, w, group_bytes, b, v, &o, groups, ahead, PREFETCH_L2);
        add_block_of_rows(type, &o, b, rows, sums + v * VF_LANES, columns, groups);
    }
}

/* Each block is unpacked once for all rows, while the next are prefetched.  The sums, [rows]
 * [groups * QNR], stay in L1. */
IG_INLINE void add_blocks(const ig_dtype type, const uint8_t *w, int64_t group_bytes,
                          int64_t blocks, const act_q8_rows *rows, float *sums, int64_t groups) {
    const int64_t columns = groups * QNR;
    const int streams = groups > 2 ? N_STREAMS : 2;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t ahead =
            prefetch_distance(type, b, blocks, streams, (groups - 1) * group_bytes);
        int64_t g = 0;
        for (; g + GROUPS_IN_REGISTERS <= groups; g += GROUPS_IN_REGISTERS)
            add_groups(type, w + g * group_bytes, group_bytes, b, rows, sums + g * QNR, columns,
                       GROUPS_IN_REGISTERS, ahead);
        for (; g < groups; g++)
            add_groups(type, w + g * group_bytes, group_bytes, b, rows, sums + g * QNR, columns, 1,
                       ahead);
    }
}

/* ---- a function for each type ---- */

typedef void m1_fn(const uint8_t *w, int64_t stream_bytes, int64_t jump, int64_t blocks,
                   const act_q8 *x, float *sums);

#define M1_FN(name, ID, streams)                                                                  \
    static void name##_##ID(const uint8_t *w, int64_t stream_bytes, int64_t jump, int64_t blocks, \
                            const act_q8 *x, float *sums) {                                       \
        add_row_m1(IG_##ID, w, stream_bytes, jump, blocks, x, sums, streams);                     \
    }
#define SMALL_M_FNS(ID)                                                                    \
    M1_FN(m1_streams, ID, N_STREAMS_M1)                                                    \
    M1_FN(m1_stream, ID, 1)                                                                \
    static void m32_##ID(const uint8_t *w, int64_t group_bytes, int64_t blocks,            \
                         const act_q8_rows *rows, float *sums, int64_t groups) {           \
        if (VF_LANES > 1) add_blocks(IG_##ID, w, group_bytes, blocks, rows, sums, groups); \
    }
PACKED_TYPES(SMALL_M_FNS)

#define M1_STREAMS_NAME(ID) [IG_##ID] = m1_streams_##ID,
#define M1_STREAM_NAME(ID)  [IG_##ID] = m1_stream_##ID,
#define M32_NAME(ID)        [IG_##ID] = m32_##ID,
static m1_fn *const m1_streams_fns[IG_DTYPE_COUNT] = {PACKED_TYPES(M1_STREAMS_NAME)};
static m1_fn *const m1_stream_fns[IG_DTYPE_COUNT] = {PACKED_TYPES(M1_STREAM_NAME)};
static small_m_fn *const m32_fns[IG_DTYPE_COUNT] = {PACKED_TYPES(M32_NAME)};

/* ---- one row ---- */

/*
 * One row times the groups from number `first` on.  A stream walks consecutive groups: where one
 * ends, the next is in flight already.
 *
 *     stream    0         1         2
 *     round   0 1 2     0 1 2     0 1 2   ...    the next call begins after the last stream
 */
static inline void m1_round(const q8_gemm *p, int64_t first, int64_t rounds) {
    _Alignas(64) float sums[N_STREAMS_M1 * QNR];
    const int64_t stream_bytes = rounds * p->w_row;
    for (int64_t i = 0; i < rounds; i++) {
        const uint8_t *w = (const uint8_t *)p->w + (first + i) * p->w_row;
        const int64_t jump = i + 1 < rounds ? 0 : (N_STREAMS_M1 - 1) * stream_bytes;
        m1_streams_fns[p->dtype](w, stream_bytes, jump, p->blocks, p->x, sums);
        for (int64_t s = 0; s < N_STREAMS_M1; s++)
            store_row(p, 0, (first + s * rounds + i) * QNR, sums + s * QNR, QNR);
    }
}

static inline void qgemm_m1(const q8_gemm *p) {
    const int64_t groups = (p->columns + QNR - 1) / QNR;
    const int64_t rounds = groups / N_STREAMS_M1;
    if (rounds > 0) m1_round(p, 0, rounds);
    for (int64_t g = rounds * N_STREAMS_M1; g < groups; g++) {
        _Alignas(64) float sums[QNR];
        m1_stream_fns[p->dtype]((const uint8_t *)p->w + g * p->w_row, 0, 0, p->blocks, p->x, sums);
        store_row(p, 0, g * QNR, sums, QNR);
    }
}

#endif
