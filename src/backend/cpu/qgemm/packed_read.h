/*
 * packed_read.h - the layout of packed weights, unpacked into registers or into a panel.
 *
 * Sixteen columns are a column group, contiguous and in the order of k.  A step is four bytes of k
 * for each column, as in a panel; several steps share a byte, so a block takes about as many bytes
 * as in its file and unpacks with a few vector operations.  All parts begin on a cache line.
 *
 *     unit   [ head: scales | block 0 | block 1 | ... ]     as many blocks as fill a line with
 *                                                           scales, or a super-block
 *     head   one scale:   16 f16 for each block             with a min:  16 d, 16 m
 *            MXFP4:       16 exponents for each block
 *            K-quants:    16 d, 16 m or nothing; then 16 bytes for the scale of each group,
 *                         and for each min (Q2_K has both in one byte)
 *
 *     block  4 bits   4 lines: byte i has step j low, step j + 4 high
 *            8 bits   8 lines: a step each
 *            2 bits   2 lines: steps 4 l + j in bits 2 j
 *            6 bits   3 lines for four steps: the fourth has two bits on top of each
 *            3, 5     one line of top bits, that of step j in bit j, before those of 2 or 4
 *
 * Bytes are those of a panel: unsigned; table types keep the nibble itself.  The last unit is
 * padded with blocks and the last group with columns.
 */
#ifndef IG_BACKEND_CPU_QGEMM_PACKED_READ_H
#define IG_BACKEND_CPU_QGEMM_PACKED_READ_H

#include "backend/cpu/qgemm/qtypes.h"
#include "backend/cpu/simd/vec_bytes.h"

typedef enum packed_form { NOT_PACKED, BITS_2, BITS_3, BITS_4, BITS_5, BITS_6, BITS_8 } packed_form;

typedef struct packed_type {
    packed_form form;
    int unit;             /* blocks in a unit */
    int head, block;      /* bytes */
    const uint8_t *table; /* values of the nibbles; NULL: themselves */
} packed_type;

#define PACKED_TYPES(X) \
    X(Q4_0)             \
    X(Q4_1)             \
    X(Q5_0) X(Q5_1) X(Q8_0) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_NL) X(IQ4_XS) X(MXFP4)

enum { K_HEAD = LINE + 256 };

static const packed_type packed_types[IG_DTYPE_COUNT] = {
    [IG_Q4_0] = {BITS_4, 2, LINE, 4 * LINE, NULL},
    [IG_Q4_1] = {BITS_4, 1, LINE, 4 * LINE, NULL},
    [IG_Q5_0] = {BITS_5, 2, LINE, 5 * LINE, NULL},
    [IG_Q5_1] = {BITS_5, 1, LINE, 5 * LINE, NULL},
    [IG_Q8_0] = {BITS_8, 2, LINE, 8 * LINE, NULL},
    [IG_Q2_K] = {BITS_2, 8, K_HEAD, 2 * LINE, NULL},
    [IG_Q3_K] = {BITS_3, 8, K_HEAD, 3 * LINE, NULL},
    [IG_Q4_K] = {BITS_4, 8, K_HEAD, 4 * LINE, NULL},
    [IG_Q5_K] = {BITS_5, 8, K_HEAD, 5 * LINE, NULL},
    [IG_Q6_K] = {BITS_6, 8, K_HEAD, 6 * LINE, NULL},
    [IG_IQ4_NL] = {BITS_4, 2, LINE, 4 * LINE, iq4_byte},
    [IG_IQ4_XS] = {BITS_4, 8, LINE + 128, 4 * LINE, iq4_byte},
    [IG_MXFP4] = {BITS_4, 4, LINE, 4 * LINE, mxfp4_byte},
};

static inline int64_t packed_unit_bytes(ig_dtype dtype) {
    const packed_type *t = &packed_types[dtype];
    return t->head + t->unit * t->block;
}

static inline int64_t packed_group_bytes(ig_dtype dtype, int64_t blocks) {
    const int64_t unit = packed_types[dtype].unit;
    return (blocks + unit - 1) / unit * packed_unit_bytes(dtype);
}

/* ---- into registers ---- */

/* Vector v of a line. */
IG_INLINE vi line_at(const uint8_t *line, const int v) {
    return vi_load((const int32_t *)(const void *)line + v * VF_LANES);
}

/* Bits `from` of each byte to bits `to`; `mask` keeps them. */
IG_INLINE vi bits_to(vi x, const int from, const int to, const int32_t mask) {
    const vi moved = from < to ? vi_left(x, to - from) : from > to ? vi_right(x, from - to) : x;
    return vi_and(moved, vi_set(mask));
}

IG_INLINE void unpack_steps_4bit(const uint8_t *q, const int v, vi *w) {
    IG_UNROLL
    for (int j = 0; j < 4; j++) {
        const vi x = line_at(q + j * LINE, v);
        w[j] = bits_to(x, 0, 0, 0x0f0f0f0f);
        w[j + 4] = bits_to(x, 4, 0, 0x0f0f0f0f);
    }
}

IG_INLINE void unpack_steps_2bit(const uint8_t *q, const int v, vi *w) {
    IG_UNROLL
    for (int j = 0; j < STEPS; j++)
        w[j] = bits_to(line_at(q + j / 4 * LINE, v), j % 4 * 2, 0, 0x03030303);
}

/* Four steps of three lines. */
IG_INLINE void unpack_steps_6bit(const uint8_t *q, const int v, vi *w) {
    vi x[3];
    IG_UNROLL
    for (int i = 0; i < 3; i++) {
        x[i] = line_at(q + i * LINE, v);
        w[i] = bits_to(x[i], 0, 0, 0x3f3f3f3f);
    }
    w[3] = vi_or(vi_or(bits_to(x[0], 6, 0, 0x03030303), bits_to(x[1], 6, 2, 0x0c0c0c0c)),
                 bits_to(x[2], 6, 4, 0x30303030));
}

/* The bytes of a block: vector v of each step. */
IG_INLINE void unpack_bytes(const ig_dtype type, const uint8_t *q, const int v, vi *w) {
    const packed_form form = packed_types[type].form;
    const uint8_t *const table = packed_types[type].table;
    if (form == BITS_4) unpack_steps_4bit(q, v, w);
    if (form == BITS_5) unpack_steps_4bit(q + LINE, v, w);
    if (form == BITS_2) unpack_steps_2bit(q, v, w);
    if (form == BITS_3) unpack_steps_2bit(q + LINE, v, w);
    if (form == BITS_6) {
        unpack_steps_6bit(q, v, w);
        unpack_steps_6bit(q + 3 * LINE, v, w + 4);
    }
    IG_UNROLL
    for (int j = 0; j < STEPS; j++) {
        if (form == BITS_8) w[j] = line_at(q + j * LINE, v);
        if (form == BITS_5) w[j] = vi_or(w[j], bits_to(line_at(q, v), j, 4, 0x10101010));
        if (form == BITS_3) w[j] = vi_or(w[j], bits_to(line_at(q, v), j, 2, 0x04040404));
        if (table) w[j] = vi_look_up(w[j], table);
    }
}

/* Of each scale group, or the first for the block. */
typedef struct block_scales {
    vf scale[2], min[2];
    vf magic_bias[2]; /* see MAGIC_BITS */
} block_scales;

IG_INLINE vf vf_negate(vf x) { return vf_of_bits(vi_xor(vf_bits(x), vi_set(INT32_MIN))); }

/* 2^(e - 128), as dequantize.h has it: the two smallest are magic_bias what floats normally reach.
 */
IG_INLINE vf power_of(vi e) {
    e = vi_and(e, vi_set(255));
    const vf normal = vf_of_bits(vi_left(vi_sub(e, vi_set(1)), 23));
    const vf first = vf_of_bits(vi_set(0x00200000)), second = vf_of_bits(vi_set(0x00400000));
    return vf_select(vi_equal(e, vi_set(0)), first,
                     vf_select(vi_equal(e, vi_set(1)), second, normal));
}

IG_INLINE void read_k_scales(const ig_dtype type, const uint8_t *head, int64_t h, const int v,
                             block_scales *s) {
    const quant_kind kind = quant_types[type].kind;
    const int lane = v * VF_LANES, groups = scales_per_block(kind);
    const uint16_t *f16 = (const uint16_t *)(const void *)head;
    const uint8_t *bytes = head + LINE + h * groups * QNR + lane;
    const vf d = vf_load_f16(f16 + lane);
    vf m = vf_set(0);
    if (kind_has_min(kind)) m = vf_negate(vf_load_f16(f16 + QNR + lane));
    IG_UNROLL
    for (int i = 0; i < groups; i++) {
        const vi x = vi_load_i8(bytes + i * QNR);
        const vi low = kind == TWO_MINS ? vi_and(x, vi_set(15)) : x;
        s->scale[i] = vf_mul(d, vi_to_float(low));
        if (kind == TWO_MINS)
            s->min[i] = vf_mul(m, vi_to_float(vi_and(vi_right(x, 4), vi_set(15))));
        if (kind == K_MIN)
            s->min[i] = vf_mul(m, vi_to_float(vi_load_i8(bytes + BLOCKS_PER_K * QNR)));
    }
}

/* Of block h of the unit that the head is of. */
IG_INLINE void read_scales(const ig_dtype type, const uint8_t *head, int64_t h, const int v,
                           block_scales *s) {
    const quant_type *t = &quant_types[type];
    const uint16_t *f16 = (const uint16_t *)(const void *)head + v * VF_LANES;
    if (t->is_k) {
        read_k_scales(type, head, h, v, s);
    } else if (t->has_powers) {
        s->scale[0] = power_of(vi_load_i8(head + h * QNR + v * VF_LANES));
    } else {
        s->scale[0] = vf_load_f16(f16 + h * QNR);
        if (t->kind == WITH_MIN) s->min[0] = vf_load_f16(f16 + QNR);
    }
    for (int i = 0; i < n_magic_acc(t->kind); i++)
        s->magic_bias[i] = vf_mul(s->scale[i], vf_set(-MAGIC_FLOAT));
}

/* ---- into a panel ---- */

/* Blocks [first, first + blocks) of a group.  Tiles want bytes with a sign: `zero_point` is taken
 * off. */
IG_INLINE void unpack_panel(const ig_dtype type, const uint8_t *group, int64_t first,
                            int64_t blocks, int zero_point, panel *p) {
    const packed_type *t = &packed_types[type];
    const quant_kind kind = quant_types[type].kind;
    const int groups = scales_per_block(kind);
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t h = (first + b) % t->unit;
        const uint8_t *unit = group + (first + b) / t->unit * packed_unit_bytes(type);
        IG_UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++) {
            vi w[STEPS];
            block_scales s;
            unpack_bytes(type, unit + t->head + h * t->block, v, w);
            read_scales(type, unit, h, v, &s);
            IG_UNROLL
            for (int j = 0; j < STEPS; j++) {
                if (HAS_TILES && zero_point != 0) w[j] = vi_sub_bytes(w[j], zero_point);
                vf_store((float *)(void *)p->w[b][j] + v * VF_LANES, vf_of_bits(w[j]));
            }
            IG_UNROLL
            for (int i = 0; i < groups; i++) {
                vf_store(p->scale[b][i] + v * VF_LANES, s.scale[i]);
                if (kind_has_min(kind)) vf_store(p->min[b][i] + v * VF_LANES, s.min[i]);
            }
            for (int i = 0; i < n_magic_acc(kind); i++)
                vf_store(p->magic_bias[b][i] + v * VF_LANES, s.magic_bias[i]);
        }
    }
}

typedef void unpack_panel_fn(const uint8_t *group, int64_t first, int64_t blocks, int zero_point,
                             panel *p);

#define UNPACK_PANEL(ID)                                                               \
    static void unpack_panel_##ID(const uint8_t *group, int64_t first, int64_t blocks, \
                                  int zero_point, panel *p) {                          \
        unpack_panel(IG_##ID, group, first, blocks, zero_point, p);                    \
    }
PACKED_TYPES(UNPACK_PANEL)

static unpack_panel_fn *const unpack_panel_fns[IG_DTYPE_COUNT] = {
#define UNPACK_PANEL_NAME(ID) [IG_##ID] = unpack_panel_##ID,
    PACKED_TYPES(UNPACK_PANEL_NAME)};

#endif
