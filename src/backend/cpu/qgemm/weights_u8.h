/*
 * panel.h - stored weights as bytes, sixteen columns side by side.
 *
 * A product of whole numbers wants, at each step, four weights of every column:
 *
 *     step 0    c0 k0..3 | c1 k0..3 | ... | c15 k0..3       a block of 32 elements
 *     step 1    c0 k4..7 | c1 k4..7 | ... | c15 k4..7       is eight steps
 *
 * Columns are unpacked one by one, to unsigned bytes in their order, and change
 * places with the steps four bytes at a time.  The bytes q of a type stand for
 * scale (q - zero) + min; scale and min are for 32 elements, or for 16.
 */
#ifndef IG_BACKEND_CPU_PANEL_H
#define IG_BACKEND_CPU_PANEL_H

#include "backend/cpu/strided.h"
#include "backend/cpu/simd/vec_bytes.h"
#include "backend/cpu/simd/vec_dot_u8s8.h"
#include "backend/cpu/simd/vec_amx.h"
#include "base/quant_blocks.h"
#include "base/f16.h"
#include "ingot/blocks.h"

enum {
    PANEL_COLUMNS = 16,
    PANEL_BLOCKS =
        HAS_TILES ? 16 : 64, /* of 32 elements, at most: those have a larger first cache */
    STAGE_BLOCKS = 16,       /* that are unpacked at a time */
    STEPS = IG_BLOCK / 4,
    STEP_BYTES = 4 * PANEL_COLUMNS,
    STAGE_BYTES = STAGE_BLOCKS * IG_BLOCK + 64, /* of a column; they do not meet in the cache */
    HALVES_APART = HAS_TILES,                   /* see shifted_halves() */
};

typedef struct panel {
    _Alignas(64) uint8_t w[PANEL_BLOCKS][STEPS][STEP_BYTES];
    _Alignas(
        64) float scale[PANEL_BLOCKS][2][PANEL_COLUMNS]; /* of each half, or the first of all */
    _Alignas(64) float min[PANEL_BLOCKS][2][PANEL_COLUMNS];
    _Alignas(
        64) float below[PANEL_BLOCKS][1 + HALVES_APART][PANEL_COLUMNS]; /* as scales: see SHIFTED */
} panel;

enum { PARTS = IG_BLOCK_K / IG_BLOCK, STAGE_BLOCKS_K = STAGE_BLOCKS / PARTS };

/* The small scales of a K block: a byte for each group, eight groups to a word, for all columns. */
typedef uint64_t k_scales[2][PANEL_COLUMNS];

/* What columns are unpacked into: their bytes, and scales as they are stored, those of K blocks for
 * each of them. */
typedef struct stage {
    _Alignas(64) uint8_t q[PANEL_COLUMNS][STAGE_BYTES];
    _Alignas(64) uint16_t d[STAGE_BLOCKS][PANEL_COLUMNS], m[STAGE_BLOCKS][PANEL_COLUMNS];
    _Alignas(64) k_scales scale[STAGE_BLOCKS_K], min[STAGE_BLOCKS_K];
    float power[STAGE_BLOCKS][PANEL_COLUMNS]; /* of a type whose scales are powers of two */
} stage;

/* Unpacks `blocks` blocks of 32 elements from the row of column c. */
typedef void unpack_fn(const char *row, int64_t blocks, stage *s, int64_t c);

/* ---- plain blocks ---- */

IG_INLINE void unpack_halves(const uint8_t *q, vb32 *to) {
    vb16 x;
    vb16_load(&x, q);
    vb32_join(to, x & 15, x >> 4);
}

/* The same with a fifth bit: bit i of `high` is that of byte i. */
IG_INLINE void unpack_fives(const uint8_t *q, uint32_t high, vb32 *to) {
    vb32 fifth;
    vb32_spread(&fifth, high, 16);
    unpack_halves(q, to);
    *to |= fifth;
}

static void unpack_q4_0(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q4_0 *x = (const ig_block_q4_0 *)row;
    for (int64_t b = 0; b < blocks; b++, x++) {
        vb32 q;
        unpack_halves(x->q, &q);
        vb32_store(s->q[c] + b * IG_BLOCK, &q);
        s->d[b][c] = x->d;
    }
}

static void unpack_q4_1(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q4_1 *x = (const ig_block_q4_1 *)row;
    for (int64_t b = 0; b < blocks; b++, x++) {
        vb32 q;
        unpack_halves(x->q, &q);
        vb32_store(s->q[c] + b * IG_BLOCK, &q);
        s->d[b][c] = x->d;
        s->m[b][c] = x->m;
    }
}

static void unpack_q5_0(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q5_0 *x = (const ig_block_q5_0 *)row;
    for (int64_t b = 0; b < blocks; b++, x++) {
        vb32 q;
        unpack_fives(x->q, x->high, &q);
        vb32_store(s->q[c] + b * IG_BLOCK, &q);
        s->d[b][c] = x->d;
    }
}

static void unpack_q5_1(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q5_1 *x = (const ig_block_q5_1 *)row;
    for (int64_t b = 0; b < blocks; b++, x++) {
        vb32 q;
        unpack_fives(x->q, x->high, &q);
        vb32_store(s->q[c] + b * IG_BLOCK, &q);
        s->d[b][c] = x->d;
        s->m[b][c] = x->m;
    }
}

static void unpack_q8_0(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q8_0 *x = (const ig_block_q8_0 *)row;
    for (int64_t b = 0; b < blocks; b++, x++) {
        vb32 q;
        vb32_load(&q, x->q);
        q ^= 128;
        vb32_store(s->q[c] + b * IG_BLOCK, &q);
        s->d[b][c] = x->d;
    }
}

/* ---- tables: what a nibble stands for, plus 128 ---- */

static const uint8_t iq4_byte[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                     129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t mxfp4_byte[16] = {128, 129, 130, 131, 132, 134, 136, 140,
                                       128, 127, 126, 125, 124, 122, 120, 116};

IG_INLINE void unpack_table(const uint8_t *table, const uint8_t *q, uint8_t *to) {
    vb16 x;
    vb16_load(&x, q);
    vb16 low = x & 15, high = x >> 4;
    vb32 both;
    vb16_look_up(&low, table);
    vb16_look_up(&high, table);
    vb32_join(&both, low, high);
    vb32_store(to, &both);
}

static void unpack_iq4_nl(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_iq4_nl *x = (const ig_block_iq4_nl *)row;
    for (int64_t b = 0; b < blocks; b++, x++) {
        unpack_table(iq4_byte, x->q, s->q[c] + b * IG_BLOCK);
        s->d[b][c] = x->d;
    }
}

static void unpack_mxfp4(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_mxfp4 *x = (const ig_block_mxfp4 *)row;
    for (int64_t b = 0; b < blocks; b++, x++) {
        const uint32_t e = x->exponent;
        unpack_table(mxfp4_byte, x->q, s->q[c] + b * IG_BLOCK);
        s->power[b][c] = ig_float_of_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    }
}

/* ---- K blocks: `blocks` is a multiple of eight, and scales are worked out eight at a time ---- */

#define EACH(byte) ((byte)*UINT64_C(0x0101010101010101))

/* Takes 32 off each byte, from 0 to 63: the sixth bit, turned, is the sign. */
IG_INLINE uint64_t less_32(uint64_t x) {
    x ^= EACH(0x20);
    return x | (x & EACH(0x20)) << 1 | (x & EACH(0x20)) << 2;
}

IG_INLINE uint64_t pair_of(uint32_t low, uint32_t high) { return low | (uint64_t)high << 32; }

/* Eight numbers of four bits, and eight of two, to bytes. */
IG_INLINE uint64_t spread_fours(uint64_t x) {
    x = (x | x << 16) & UINT64_C(0x0000ffff0000ffff);
    x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
    return (x | x << 4) & EACH(15);
}

IG_INLINE uint64_t spread_twos(uint64_t x) {
    x = (x | x << 24) & UINT64_C(0x000000ff000000ff);
    x = (x | x << 12) & UINT64_C(0x000f000f000f000f);
    return (x | x << 6) & EACH(3);
}

IG_INLINE void unpack_xs(const char *row, int64_t blocks, stage *s, int64_t c,
                         const uint8_t *table) {
    const ig_block_iq4_xs *x = (const ig_block_iq4_xs *)row;
    for (int64_t k = 0; k < blocks / PARTS; k++, x++) {
        uint32_t low;
        memcpy(&low, x->low, sizeof low);
        for (int g = 0; g < PARTS; g++)
            unpack_table(table, x->q + g * 16, s->q[c] + (k * PARTS + g) * IG_BLOCK);
        s->scale[k][0][c] = less_32(spread_fours(low) | spread_twos(x->high) << 4);
        s->d[k][c] = x->d;
    }
}

static void unpack_iq4_xs(const char *row, int64_t blocks, stage *s, int64_t c) {
    unpack_xs(row, blocks, s, c, iq4_byte);
}

/* The six-bit scales and mins of eight groups; blocks.h has the drawing. */
IG_INLINE void unpack_k_scales(const uint8_t *scales, stage *s, int64_t k, int64_t c) {
    uint32_t u[3];
    memcpy(u, scales, sizeof u);
    const uint32_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, two = 0x03030303;
    s->scale[k][0][c] = pair_of(u[0] & six, (u[2] & four) | (u[0] >> 6 & two) << 4);
    s->min[k][0][c] = pair_of(u[1] & six, (u[2] >> 4 & four) | (u[1] >> 6 & two) << 4);
}

/* Of each 64 elements, the first half in the low nibbles; where there is a fifth bit, that of
 * group g is bit g of `high`. */
IG_INLINE void unpack_k_nibbles(const uint8_t *q, const uint8_t *high, uint8_t *to) {
    vb32 x, fifth = {0};
    if (high) vb32_load(&fifth, high);
    for (int g = 0; g < PARTS; g += 2, q += 32, to += 64) {
        vb32_load(&x, q);
        const vb32 low = (x & 15) | (fifth & 1) << 4, up = (x >> 4) | (fifth & 2) << 3;
        vb32_store(to, &low);
        vb32_store(to + 32, &up);
        fifth >>= 2;
    }
}

static void unpack_q4_k(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q4_k *x = (const ig_block_q4_k *)row;
    for (int64_t k = 0; k < blocks / PARTS; k++, x++) {
        unpack_k_nibbles(x->q, NULL, s->q[c] + k * IG_BLOCK_K);
        unpack_k_scales(x->scales, s, k, c);
        s->d[k][c] = x->d;
        s->m[k][c] = x->m;
    }
}

static void unpack_q5_k(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q5_k *x = (const ig_block_q5_k *)row;
    for (int64_t k = 0; k < blocks / PARTS; k++, x++) {
        unpack_k_nibbles(x->q, x->high, s->q[c] + k * IG_BLOCK_K);
        unpack_k_scales(x->scales, s, k, c);
        s->d[k][c] = x->d;
        s->m[k][c] = x->m;
    }
}

/* 128 elements: four bits of each in halves, two more of each 32 in bits 2j of `high`. */
IG_INLINE void unpack_six(const uint8_t *low, const uint8_t *high, uint8_t *to) {
    vb32 x[2], two;
    vb32_load(&x[0], low);
    vb32_load(&x[1], low + 32);
    vb32_load(&two, high);
    for (int j = 0; j < 4; j++, two >>= 2) {
        const vb32 four = j < 2 ? x[j % 2] & 15 : x[j % 2] >> 4;
        const vb32 six = four | (two & 3) << 4;
        vb32_store(to + 32 * j, &six);
    }
}

static void unpack_q6_k(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q6_k *x = (const ig_block_q6_k *)row;
    for (int64_t k = 0; k < blocks / PARTS; k++, x++) {
        uint8_t *to = s->q[c] + k * IG_BLOCK_K;
        unpack_six(x->low, x->high, to);
        unpack_six(x->low + 64, x->high + 32, to + 128);
        memcpy(&s->scale[k][0][c], x->scales, 8);
        memcpy(&s->scale[k][1][c], x->scales + 8, 8);
        s->d[k][c] = x->d;
    }
}

/* Two bits of 128 elements, 32 at a time; where there is a third, that of group g is bit g of
 * `high`. */
IG_INLINE void unpack_twos(const uint8_t *q, const uint8_t *high, uint8_t *to) {
    vb32 x, third = {0};
    if (high) vb32_load(&third, high);
    for (int half = 0; half < 2; half++) {
        vb32_load(&x, q + half * 32);
        for (int j = 0; j < 4; j++, to += 32, x >>= 2, third >>= 1) {
            const vb32 y = (x & 3) | (third & 1) << 2;
            vb32_store(to, &y);
        }
    }
}

static void unpack_q2_k(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q2_k *x = (const ig_block_q2_k *)row;
    for (int64_t k = 0; k < blocks / PARTS; k++, x++) {
        uint64_t both[2];
        memcpy(both, x->scales, sizeof both);
        unpack_twos(x->q, NULL, s->q[c] + k * IG_BLOCK_K);
        for (int i = 0; i < 2; i++) {
            s->scale[k][i][c] = both[i] & EACH(15);
            s->min[k][i][c] = both[i] >> 4 & EACH(15);
        }
        s->d[k][c] = x->d;
        s->m[k][c] = x->m;
    }
}

static void unpack_q3_k(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q3_k *x = (const ig_block_q3_k *)row;
    const uint32_t two = 0x03030303;
    for (int64_t k = 0; k < blocks / PARTS; k++, x++) {
        uint64_t low;
        uint32_t high;
        memcpy(&low, x->scales, sizeof low);
        memcpy(&high, x->scales + 8, sizeof high);
        unpack_twos(x->q, x->high, s->q[c] + k * IG_BLOCK_K);
        const uint64_t first = pair_of(high & two, high >> 2 & two);
        const uint64_t second = pair_of(high >> 4 & two, high >> 6 & two);
        s->scale[k][0][c] = less_32((low & EACH(15)) | first << 4);
        s->scale[k][1][c] = less_32((low >> 4 & EACH(15)) | second << 4);
        s->d[k][c] = x->d;
    }
}

#undef EACH

/* ---- types ---- */

/* What a product does with the scales of a block of 32. */
typedef enum panel_kind {
    ONE_SCALE,  /* for all 32 */
    WITH_MIN,   /* and a min */
    K_MIN,      /* the same in K blocks, which the next ones are, too */
    TWO_SCALES, /* one for each 16 */
    TWO_MINS,   /* and a min for each */
} panel_kind;

/* Parts of a block that have scales of their own. */
IG_INLINE int kind_halves(const panel_kind kind) { return kind >= TWO_SCALES ? 2 : 1; }
IG_INLINE bool kind_has_min(const panel_kind kind) {
    return kind == WITH_MIN || kind == K_MIN || kind == TWO_MINS;
}

/*
 * Whole numbers of K_MIN and those behind it count from SHIFTED on: then their bits are those of
 * the float that is 1.5 * 2^23 more, and scale * number takes one operation, scale * float + below,
 * where below is -scale * 1.5 * 2^23.  Scales have few enough bits for that to be exact, so the
 * result is rounded once.  Where sums do not begin in a register, it would cost what it saves, and
 * plain C rounds twice.  Other kinds multiply both scales first: so does llama.cpp, and rounds
 * activations as we do.
 */
enum { SHIFTED = 0x4b400000, SHIFTED_FLOAT = 3 << 22 };
IG_INLINE bool kind_is_shifted(const panel_kind kind) {
    return kind >= K_MIN && !DOT_IN_PAIRS && VF_LANES > 1;
}

/* Halves of a block whose whole numbers are shifted.  Where there are two pipes for all arithmetic,
 * halves go into a sum one after the other: they need no conversion then, and fewer registers.  One
 * pipe that multiplies, and another one that converts, have less to do with the second number
 * converted and both added up before they meet the scale of the activations. */
IG_INLINE int shifted_halves(const panel_kind kind) {
    return !kind_is_shifted(kind) ? 0 : HALVES_APART ? kind_halves(kind) : 1;
}
IG_INLINE bool adds_halves_first(const panel_kind kind) {
    return kind_halves(kind) == 2 && shifted_halves(kind) < 2;
}

typedef struct panel_type {
    unpack_fn *unpack; /* NULL: there is no such panel */
    panel_kind kind;
    int zero;     /* what is taken off each byte */
    bool is_wide; /* bytes use all eight bits */
    bool is_k;    /* K blocks, with small scales */
    bool has_powers;
} panel_type;

static const panel_type panel_types[IG_DTYPE_COUNT] = {
    [IG_Q4_0] = {.unpack = unpack_q4_0, .zero = 8},
    [IG_Q4_1] = {.unpack = unpack_q4_1, .kind = WITH_MIN},
    [IG_Q5_0] = {.unpack = unpack_q5_0, .zero = 16},
    [IG_Q5_1] = {.unpack = unpack_q5_1, .kind = WITH_MIN},
    [IG_Q8_0] = {.unpack = unpack_q8_0, .zero = 128, .is_wide = true},
    [IG_Q2_K] = {.unpack = unpack_q2_k, .kind = TWO_MINS, .is_k = true},
    [IG_Q3_K] = {.unpack = unpack_q3_k, .kind = TWO_SCALES, .zero = 4, .is_k = true},
    [IG_Q4_K] = {.unpack = unpack_q4_k, .kind = K_MIN, .is_k = true},
    [IG_Q5_K] = {.unpack = unpack_q5_k, .kind = K_MIN, .is_k = true},
    [IG_Q6_K] = {.unpack = unpack_q6_k, .kind = TWO_SCALES, .zero = 32, .is_k = true},
    [IG_IQ4_NL] = {.unpack = unpack_iq4_nl, .zero = 128, .is_wide = true},
    [IG_IQ4_XS] = {.unpack = unpack_iq4_xs, .zero = 128, .is_wide = true, .is_k = true},
    [IG_MXFP4] = {.unpack = unpack_mxfp4, .zero = 128, .is_wide = true, .has_powers = true},
};

IG_INLINE void halves_to_floats(const uint16_t *h, float *y) {
    for (int i = 0; i < PANEL_COLUMNS; i += VF_LANES) vf_store(y + i, vf_load_f16(h + i));
}

/* Of plain blocks, the scale and min of block b, which is block `to` of the panel. */
static inline void finish_plain(const panel_type *t, const stage *s, int64_t b, panel *p,
                                int64_t to) {
    if (t->has_powers)
        memcpy(p->scale[to][0], s->power[b], sizeof s->power[b]);
    else
        halves_to_floats(s->d[b], p->scale[to][0]);
    if (t->kind == WITH_MIN) halves_to_floats(s->m[b], p->min[to][0]);
}

/* by[c] times the bytes of each group, which go to where their groups have their scales. */
static inline void finish_groups(const k_scales scales, const float *by, bool halves,
                                 float (*to)[2][PANEL_COLUMNS]) {
    for (int word = 0; word < (halves ? 2 : 1); word++) {
        vb16 columns[8];
        vb16_transpose(scales[word], columns);
        for (int i = 0; i < 8; i++) {
            int8_t each[PANEL_COLUMNS];
            float *y = halves ? to[word * 4 + i / 2][i % 2] : to[i][0];
            memcpy(each, &columns[i], sizeof each);
            for (int c = 0; c < PANEL_COLUMNS; c++) y[c] = by[c] * (float)each[c];
        }
    }
}

/* Of K block k, all scales and mins, from block `to` of the panel on. */
static inline void finish_k(const panel_type *t, const stage *s, int64_t k, panel *p, int64_t to) {
    const bool halves = kind_halves(t->kind) == 2;
    float by[PANEL_COLUMNS];
    halves_to_floats(s->d[k], by);
    finish_groups(s->scale[k], by, halves, p->scale + to);
    if (!kind_has_min(t->kind)) return;
    halves_to_floats(s->m[k], by);
    for (int c = 0; c < PANEL_COLUMNS; c++) by[c] = -by[c];
    finish_groups(s->min[k], by, halves, p->min + to);
}

/* Bytes of block b: columns and steps change places. */
static inline void finish_bytes(const stage *s, int64_t b, uint8_t (*steps)[STEP_BYTES]) {
    const int64_t stride = STAGE_BYTES / (int64_t)sizeof(float);
    for (int64_t c = 0; c < PANEL_COLUMNS; c += 8)
        transpose_8x8((const float *)(const void *)(s->q[c] + b * IG_BLOCK), stride,
                      (float *)(void *)steps[0] + c, PANEL_COLUMNS);
}

/* Fills a panel with `blocks` blocks of up to PANEL_COLUMNS rows, `row_bytes` apart.  Of columns
 * that are not there anything may come out, but it stays in its lane.  What follows in the rows is
 * fetched meanwhile. */
static inline void panel_fill(ig_dtype dtype, const char *rows, int64_t row_bytes, int64_t columns,
                              int64_t blocks, stage *s, panel *p) {
    const panel_type *t = &panel_types[dtype];
    for (int64_t first = 0; first < blocks; first += STAGE_BLOCKS) {
        const int64_t count = smaller(blocks - first, STAGE_BLOCKS);
        const int64_t bytes = ig_bytes_of(dtype, count * IG_BLOCK);
        for (int64_t c = 0; c < columns; c++) {
            for (int64_t i = 0; i < bytes; i += 64)
                __builtin_prefetch(rows + c * row_bytes + bytes + i);
            t->unpack(rows + c * row_bytes, count, s, c);
        }
        for (int64_t b = 0; b < count; b++) finish_bytes(s, b, p->w[first + b]);
        for (int64_t b = 0; b < count && !t->is_k; b++) finish_plain(t, s, b, p, first + b);
        for (int64_t k = 0; k < count / PARTS && t->is_k; k++)
            finish_k(t, s, k, p, first + k * PARTS);
        for (int64_t b = first; b < first + count; b++)
            for (int i = 0; i < shifted_halves(t->kind); i++)
                for (int c = 0; c < PANEL_COLUMNS; c++)
                    p->below[b][i][c] = p->scale[b][i][c] * -SHIFTED_FLOAT;
        rows += bytes;
    }
}

#endif
