/*
 * packed.h - the layout of weights that are packed, and how it is read.
 *
 * Columns go in groups of sixteen, and all that a product needs of a group lies in
 * one stretch, in the order of k.  A step is four bytes of k for each column, as a
 * panel has it; bits of several steps share a byte, so that a block takes about as
 * many bytes as it does in its file and opens with a few operations on whole
 * vectors.  Everything begins on a cache line.
 *
 *     unit   [ head: scales | block 0 | block 1 | ... ]     as many blocks as fill a line
 *                                                           with scales, or a K block
 *     head   one scale:   16 halves for each block          with a min:  16 d, 16 m
 *            MXFP4:       16 exponents for each block
 *            K blocks:    16 d, 16 m or nothing; then 16 bytes for each group's scale,
 *                         and for each min (Q2_K has both in one byte)
 *
 *     block  4 bits   4 lines: byte i has step j low, step j + 4 high
 *            8 bits   8 lines: a step each
 *            2 bits   2 lines: steps 4 l + j in bits 2 j
 *            6 bits   3 lines for four steps: the fourth has two bits on top of each
 *            3, 5     one line of top bits, that of step j in bit j, before those of 2 or 4
 *
 * Bytes are those of panel.h: unsigned, and for tables the nibble itself.  The last
 * unit may have blocks that are not there, the last group columns.
 */
#ifndef IG_BACKEND_CPU_PACKED_H
#define IG_BACKEND_CPU_PACKED_H

#include "backend/cpu/qgemm/weights_u8.h"

typedef enum packed_form { NOT_PACKED, TWOS, THREES, FOURS, FIVES, SIXES, EIGHTS } packed_form;

typedef struct packed_type {
    packed_form form;
    int unit;             /* blocks in a unit */
    int head, block;      /* bytes */
    unpack_fn *unpack;    /* from the file's layout, as packed bytes have it */
    const uint8_t *table; /* what the nibbles stand for; NULL: themselves */
} packed_type;

/* ---- from the file ---- */

static const uint8_t own_byte[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static void unpack_xs_nibbles(const char *row, int64_t blocks, stage *s, int64_t c) {
    unpack_xs(row, blocks, s, c, own_byte);
}

/* Exponents go where others have their scales. */
static void unpack_mxfp4_nibbles(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_mxfp4 *x = (const ig_block_mxfp4 *)row;
    for (int64_t b = 0; b < blocks; b++, x++) {
        vb32 q;
        unpack_halves(x->q, &q);
        vb32_store(s->q[c] + b * IG_BLOCK, &q);
        s->d[b][c] = x->exponent;
    }
}

static_assert(sizeof(ig_block_iq4_nl) == sizeof(ig_block_q4_0), "read the same way");

enum { LINE = 64, K_HEAD = LINE + 256 };

static const packed_type packed_types[IG_DTYPE_COUNT] = {
    [IG_Q4_0] = {FOURS, 2, LINE, 4 * LINE, unpack_q4_0, NULL},
    [IG_Q4_1] = {FOURS, 1, LINE, 4 * LINE, unpack_q4_1, NULL},
    [IG_Q5_0] = {FIVES, 2, LINE, 5 * LINE, unpack_q5_0, NULL},
    [IG_Q5_1] = {FIVES, 1, LINE, 5 * LINE, unpack_q5_1, NULL},
    [IG_Q8_0] = {EIGHTS, 2, LINE, 8 * LINE, unpack_q8_0, NULL},
    [IG_Q2_K] = {TWOS, 8, K_HEAD, 2 * LINE, unpack_q2_k, NULL},
    [IG_Q3_K] = {THREES, 8, K_HEAD, 3 * LINE, unpack_q3_k, NULL},
    [IG_Q4_K] = {FOURS, 8, K_HEAD, 4 * LINE, unpack_q4_k, NULL},
    [IG_Q5_K] = {FIVES, 8, K_HEAD, 5 * LINE, unpack_q5_k, NULL},
    [IG_Q6_K] = {SIXES, 8, K_HEAD, 6 * LINE, unpack_q6_k, NULL},
    [IG_IQ4_NL] = {FOURS, 2, LINE, 4 * LINE, unpack_q4_0, iq4_byte},
    [IG_IQ4_XS] = {FOURS, 8, LINE + 128, 4 * LINE, unpack_xs_nibbles, iq4_byte},
    [IG_MXFP4] = {FOURS, 4, LINE, 4 * LINE, unpack_mxfp4_nibbles, mxfp4_byte},
};

static inline int64_t packed_unit_bytes(ig_dtype dtype) {
    const packed_type *t = &packed_types[dtype];
    return t->head + t->unit * t->block;
}

static inline int64_t packed_group_bytes(ig_dtype dtype, int64_t blocks) {
    const int64_t unit = packed_types[dtype].unit;
    return (blocks + unit - 1) / unit * packed_unit_bytes(dtype);
}

/* Four steps of six bits, in three lines. */
static inline void squeeze_sixes(const uint8_t (*s)[STEP_BYTES], uint8_t *to) {
    for (int line = 0; line < 3; line++)
        for (int i = 0; i < LINE; i++)
            to[line * LINE + i] = (uint8_t)(s[line][i] | (s[3][i] >> (2 * line) & 3) << 6);
}

/* Bit `bit` of each step, a line. */
static inline void squeeze_top(const uint8_t (*s)[STEP_BYTES], int bit, uint8_t *to) {
    for (int i = 0; i < LINE; i++) {
        unsigned all = 0;
        for (int j = 0; j < STEPS; j++) all |= (s[j][i] >> bit & 1u) << j;
        to[i] = (uint8_t)all;
    }
}

static inline void squeeze_fours(const uint8_t (*s)[STEP_BYTES], uint8_t *to) {
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < LINE; i++)
            to[j * LINE + i] = (uint8_t)((s[j][i] & 15) | s[j + 4][i] << 4);
}

static inline void squeeze_twos(const uint8_t (*s)[STEP_BYTES], uint8_t *to) {
    for (int line = 0; line < 2; line++, s += 4)
        for (int i = 0; i < LINE; i++)
            to[line * LINE + i] = (uint8_t)((s[0][i] & 3) | (s[1][i] & 3) << 2 |
                                            (s[2][i] & 3) << 4 | (s[3][i] & 3) << 6);
}

/* A block of steps as it is packed. */
static inline void squeeze(packed_form form, const uint8_t (*s)[STEP_BYTES], uint8_t *to) {
    switch (form) {
    case TWOS: squeeze_twos(s, to); break;
    case THREES:
        squeeze_top(s, 2, to);
        squeeze_twos(s, to + LINE);
        break;
    case FOURS: squeeze_fours(s, to); break;
    case FIVES:
        squeeze_top(s, 4, to);
        squeeze_fours(s, to + LINE);
        break;
    case SIXES:
        squeeze_sixes(s, to);
        squeeze_sixes(s + 4, to + 3 * LINE);
        break;
    case EIGHTS: memcpy(to, s, (size_t)STEPS * STEP_BYTES); break;
    case NOT_PACKED: break;
    }
}

/* The small scales of a K block: a byte for each group and column. */
static inline void pack_k_bytes(const uint64_t *words, uint8_t *to) {
    for (int g = 0; g < PARTS; g++)
        for (int c = 0; c < PANEL_COLUMNS; c++)
            to[g * PANEL_COLUMNS + c] = (uint8_t)(words[c] >> (8 * g));
}

static inline void pack_k_head(panel_kind kind, const stage *s, int64_t k, uint8_t *head) {
    uint8_t *bytes = head + LINE;
    memcpy(head, s->d[k], sizeof s->d[k]);
    if (kind_has_min(kind)) memcpy(head + LINE / 2, s->m[k], sizeof s->m[k]);
    for (int word = 0; word < kind_halves(kind); word++) {
        uint64_t both[PANEL_COLUMNS];
        for (int c = 0; c < PANEL_COLUMNS; c++)
            both[c] = s->scale[k][word][c] | (kind == TWO_MINS ? s->min[k][word][c] << 4 : 0);
        pack_k_bytes(both, bytes + word * PARTS * PANEL_COLUMNS);
    }
    if (kind == K_MIN) pack_k_bytes(s->min[k][0], bytes + PARTS * PANEL_COLUMNS);
}

/* What the head of a unit has of block h, which is block b of the stage. */
static inline void pack_head(ig_dtype dtype, const stage *s, int64_t b, int64_t h, uint8_t *head) {
    const panel_type *t = &panel_types[dtype];
    if (t->is_k) {
        if (h == 0) pack_k_head(t->kind, s, b / PARTS, head);
    } else if (t->has_powers) {
        for (int c = 0; c < PANEL_COLUMNS; c++) head[h * PANEL_COLUMNS + c] = (uint8_t)s->d[b][c];
    } else {
        memcpy(head + h * (LINE / 2), s->d[b], sizeof s->d[b]);
        if (t->kind == WITH_MIN) memcpy(head + LINE / 2, s->m[b], sizeof s->m[b]);
    }
}

/* A group of up to sixteen rows, `row_bytes` apart, of `blocks` blocks each. */
static inline void pack_group(ig_dtype dtype, const char *rows, int64_t row_bytes, int64_t columns,
                              int64_t blocks, uint8_t *to) {
    const packed_type *t = &packed_types[dtype];
    stage s;
    memset(&s, 0, sizeof s); /* columns that are not there */
    memset(to, 0, (size_t)packed_group_bytes(dtype, blocks));
    for (int64_t first = 0; first < blocks; first += STAGE_BLOCKS) {
        const int64_t count = smaller(blocks - first, STAGE_BLOCKS);
        const int64_t at = ig_bytes_of(dtype, first * IG_BLOCK);
        for (int64_t c = 0; c < columns; c++) t->unpack(rows + c * row_bytes + at, count, &s, c);
        for (int64_t b = 0; b < count; b++) {
            _Alignas(64) uint8_t steps[STEPS][STEP_BYTES];
            const int64_t h = (first + b) % t->unit;
            uint8_t *unit = to + (first + b) / t->unit * packed_unit_bytes(dtype);
            finish_bytes(&s, b, steps);
            squeeze(t->form, (const uint8_t(*)[STEP_BYTES])steps, unit + t->head + h * t->block);
            pack_head(dtype, &s, b, h, unit);
        }
    }
}

/* ---- into registers ---- */

enum { PANEL_VECTORS = PANEL_COLUMNS / VF_LANES };

/* Vector v of a line. */
IG_INLINE vi line_at(const uint8_t *line, const int v) {
    return vi_load((const int32_t *)(const void *)line + v * VF_LANES);
}

/* Bits `from` of each byte to bits `to`; `mask` keeps them. */
IG_INLINE vi bits_to(vi x, const int from, const int to, const int32_t mask) {
    const vi moved = from < to ? vi_left(x, to - from) : from > to ? vi_right(x, from - to) : x;
    return vi_and(moved, vi_set(mask));
}

IG_INLINE void open_fours(const uint8_t *q, const int v, vi *w) {
    IG_UNROLL
    for (int j = 0; j < 4; j++) {
        const vi x = line_at(q + j * LINE, v);
        w[j] = bits_to(x, 0, 0, 0x0f0f0f0f);
        w[j + 4] = bits_to(x, 4, 0, 0x0f0f0f0f);
    }
}

IG_INLINE void open_twos(const uint8_t *q, const int v, vi *w) {
    IG_UNROLL
    for (int j = 0; j < STEPS; j++)
        w[j] = bits_to(line_at(q + j / 4 * LINE, v), j % 4 * 2, 0, 0x03030303);
}

/* Four steps of three lines. */
IG_INLINE void open_sixes(const uint8_t *q, const int v, vi *w) {
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
IG_INLINE void open_bytes(const ig_dtype type, const uint8_t *q, const int v, vi *w) {
    const packed_form form = packed_types[type].form;
    const uint8_t *const table = packed_types[type].table;
    if (form == FOURS) open_fours(q, v, w);
    if (form == FIVES) open_fours(q + LINE, v, w);
    if (form == TWOS) open_twos(q, v, w);
    if (form == THREES) open_twos(q + LINE, v, w);
    if (form == SIXES) {
        open_sixes(q, v, w);
        open_sixes(q + 3 * LINE, v, w + 4);
    }
    IG_UNROLL
    for (int j = 0; j < STEPS; j++) {
        if (form == EIGHTS) w[j] = line_at(q + j * LINE, v);
        if (form == FIVES) w[j] = vi_or(w[j], bits_to(line_at(q, v), j, 4, 0x10101010));
        if (form == THREES) w[j] = vi_or(w[j], bits_to(line_at(q, v), j, 2, 0x04040404));
        if (table) w[j] = vi_look_up(w[j], table);
    }
}

/* Of each half of a block, or the first for all of it. */
typedef struct block_scales {
    vf scale[2], min[2];
    vf below[2]; /* see SHIFTED */
} block_scales;

IG_INLINE vf vf_negate(vf x) { return vf_of_bits(vi_xor(vf_bits(x), vi_set(INT32_MIN))); }

/* 2^(e - 128), as decode.h has it: the two smallest are below what floats normally reach. */
IG_INLINE vf power_of(vi e) {
    e = vi_and(e, vi_set(255));
    const vf normal = vf_of_bits(vi_left(vi_sub(e, vi_set(1)), 23));
    const vf first = vf_of_bits(vi_set(0x00200000)), second = vf_of_bits(vi_set(0x00400000));
    return vf_select(vi_equal(e, vi_set(0)), first,
                     vf_select(vi_equal(e, vi_set(1)), second, normal));
}

IG_INLINE void open_k_scales(const ig_dtype type, const uint8_t *head, int64_t h, const int v,
                             block_scales *s) {
    const panel_kind kind = panel_types[type].kind;
    const int lane = v * VF_LANES, groups = kind_halves(kind);
    const uint16_t *halves = (const uint16_t *)(const void *)head;
    const uint8_t *bytes = head + LINE + h * groups * PANEL_COLUMNS + lane;
    const vf d = vf_load_f16(halves + lane);
    vf m = vf_set(0);
    if (kind_has_min(kind)) m = vf_negate(vf_load_f16(halves + PANEL_COLUMNS + lane));
    IG_UNROLL
    for (int i = 0; i < groups; i++) {
        const vi x = vi_load_i8(bytes + i * PANEL_COLUMNS);
        const vi low = kind == TWO_MINS ? vi_and(x, vi_set(15)) : x;
        s->scale[i] = vf_mul(d, vi_to_float(low));
        if (kind == TWO_MINS)
            s->min[i] = vf_mul(m, vi_to_float(vi_and(vi_right(x, 4), vi_set(15))));
        if (kind == K_MIN)
            s->min[i] = vf_mul(m, vi_to_float(vi_load_i8(bytes + PARTS * PANEL_COLUMNS)));
    }
}

/* Of block h of the unit that the head is of. */
IG_INLINE void open_scales(const ig_dtype type, const uint8_t *head, int64_t h, const int v,
                           block_scales *s) {
    const panel_type *t = &panel_types[type];
    const uint16_t *halves = (const uint16_t *)(const void *)head + v * VF_LANES;
    if (t->is_k) {
        open_k_scales(type, head, h, v, s);
    } else if (t->has_powers) {
        s->scale[0] = power_of(vi_load_i8(head + h * PANEL_COLUMNS + v * VF_LANES));
    } else {
        s->scale[0] = vf_load_f16(halves + h * PANEL_COLUMNS);
        if (t->kind == WITH_MIN) s->min[0] = vf_load_f16(halves + PANEL_COLUMNS);
    }
    for (int i = 0; i < shifted_halves(t->kind); i++)
        s->below[i] = vf_mul(s->scale[i], vf_set(-SHIFTED_FLOAT));
}

/* ---- into a panel ---- */

/* Blocks [first, first + blocks) of a group.  Tiles want bytes with a sign: `zero` is taken off. */
IG_INLINE void open_panel(const ig_dtype type, const uint8_t *group, int64_t first, int64_t blocks,
                          int zero, panel *p) {
    const packed_type *t = &packed_types[type];
    const panel_kind kind = panel_types[type].kind;
    const int halves = kind_halves(kind);
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t h = (first + b) % t->unit;
        const uint8_t *unit = group + (first + b) / t->unit * packed_unit_bytes(type);
        IG_UNROLL
        for (int v = 0; v < PANEL_VECTORS; v++) {
            vi w[STEPS];
            block_scales s;
            open_bytes(type, unit + t->head + h * t->block, v, w);
            open_scales(type, unit, h, v, &s);
            IG_UNROLL
            for (int j = 0; j < STEPS; j++) {
                if (HAS_TILES && zero != 0) w[j] = vi_sub_bytes(w[j], zero);
                vf_store((float *)(void *)p->w[b][j] + v * VF_LANES, vf_of_bits(w[j]));
            }
            IG_UNROLL
            for (int i = 0; i < halves; i++) {
                vf_store(p->scale[b][i] + v * VF_LANES, s.scale[i]);
                if (kind_has_min(kind)) vf_store(p->min[b][i] + v * VF_LANES, s.min[i]);
            }
            for (int i = 0; i < shifted_halves(kind); i++)
                vf_store(p->below[b][i] + v * VF_LANES, s.below[i]);
        }
    }
}

#endif
