/*
 * unpack_u8.h - stored weights to unsigned bytes, sixteen columns side by side.
 *
 * Columns are unpacked one by one into a stage, in their order, then transposed to the steps of a
 * panel four bytes at a time.  Used where weights are not packed, and to pack them.  Cost: a few
 * operations for 32 elements; the stage stays in L1.
 */
#ifndef IG_BACKEND_CPU_QGEMM_UNPACK_U8_H
#define IG_BACKEND_CPU_QGEMM_UNPACK_U8_H

#include "backend/cpu/qgemm/qtypes.h"
#include "backend/cpu/simd/vec_bytes.h"
#include "base/f16.h"
#include "base/quant_blocks.h"

enum {
    STAGE_BLOCKS = 16, /* unpacked at a time */
    STAGE_BLOCKS_K = STAGE_BLOCKS / BLOCKS_PER_K,
    STAGE_BYTES = STAGE_BLOCKS * IG_BLOCK + 64, /* of a column, in cache sets of its own */
};

/* The small scales of a super-block: a byte for each scale group, eight to a word. */
typedef uint64_t k_scales[2][QNR];

/* Columns unpacked: bytes, and scales as stored (small scales of K-quants apart). */
typedef struct stage {
    _Alignas(64) uint8_t q[QNR][STAGE_BYTES];
    _Alignas(64) uint16_t d[STAGE_BLOCKS][QNR], m[STAGE_BLOCKS][QNR];
    _Alignas(64) k_scales scale[STAGE_BLOCKS_K], min[STAGE_BLOCKS_K];
    float power[STAGE_BLOCKS][QNR]; /* of a type whose scales are powers of two */
} stage;

/* Unpacks `blocks` blocks of 32 elements from the row of column c. */
typedef void unpack_fn(const char *row, int64_t blocks, stage *s, int64_t c);

/* ---- plain blocks ---- */

IG_INLINE void unpack_4bit(const uint8_t *q, vb32 *to) {
    vb16 x;
    vb16_load(&x, q);
    vb32_join(to, x & 15, x >> 4);
}

/* The same with a fifth bit: bit i of `high` is that of byte i. */
IG_INLINE void unpack_5bit(const uint8_t *q, uint32_t high, vb32 *to) {
    vb32 fifth;
    vb32_spread(&fifth, high, 16);
    unpack_4bit(q, to);
    *to |= fifth;
}

static void unpack_q4_0(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q4_0 *x = (const ig_block_q4_0 *)row;
    for (int64_t b = 0; b < blocks; b++, x++) {
        vb32 q;
        unpack_4bit(x->q, &q);
        vb32_store(s->q[c] + b * IG_BLOCK, &q);
        s->d[b][c] = x->d;
    }
}

static void unpack_q4_1(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q4_1 *x = (const ig_block_q4_1 *)row;
    for (int64_t b = 0; b < blocks; b++, x++) {
        vb32 q;
        unpack_4bit(x->q, &q);
        vb32_store(s->q[c] + b * IG_BLOCK, &q);
        s->d[b][c] = x->d;
        s->m[b][c] = x->m;
    }
}

static void unpack_q5_0(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q5_0 *x = (const ig_block_q5_0 *)row;
    for (int64_t b = 0; b < blocks; b++, x++) {
        vb32 q;
        unpack_5bit(x->q, x->high, &q);
        vb32_store(s->q[c] + b * IG_BLOCK, &q);
        s->d[b][c] = x->d;
    }
}

static void unpack_q5_1(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q5_1 *x = (const ig_block_q5_1 *)row;
    for (int64_t b = 0; b < blocks; b++, x++) {
        vb32 q;
        unpack_5bit(x->q, x->high, &q);
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

/* ---- table types ---- */

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

/* ---- K-quants: `blocks` is a multiple of eight, and scales are computed eight at a time ---- */

#define REPEAT_BYTE(byte) ((byte)*UINT64_C(0x0101010101010101))

/* Subtracts 32 from each byte, from 0 to 63: the sixth bit, inverted, is the sign. */
IG_INLINE uint64_t sub_32(uint64_t x) {
    x ^= REPEAT_BYTE(0x20);
    return x | (x & REPEAT_BYTE(0x20)) << 1 | (x & REPEAT_BYTE(0x20)) << 2;
}

IG_INLINE uint64_t pair_of(uint32_t low, uint32_t high) { return low | (uint64_t)high << 32; }

/* Eight numbers of four bits, and eight of two, to bytes. */
IG_INLINE uint64_t spread_4bit(uint64_t x) {
    x = (x | x << 16) & UINT64_C(0x0000ffff0000ffff);
    x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
    return (x | x << 4) & REPEAT_BYTE(15);
}

IG_INLINE uint64_t spread_2bit(uint64_t x) {
    x = (x | x << 24) & UINT64_C(0x000000ff000000ff);
    x = (x | x << 12) & UINT64_C(0x000f000f000f000f);
    return (x | x << 6) & REPEAT_BYTE(3);
}

IG_INLINE void unpack_xs(const char *row, int64_t blocks, stage *s, int64_t c,
                         const uint8_t *table) {
    const ig_block_iq4_xs *x = (const ig_block_iq4_xs *)row;
    for (int64_t k = 0; k < blocks / BLOCKS_PER_K; k++, x++) {
        uint32_t low;
        memcpy(&low, x->low, sizeof low);
        for (int g = 0; g < BLOCKS_PER_K; g++)
            unpack_table(table, x->q + g * 16, s->q[c] + (k * BLOCKS_PER_K + g) * IG_BLOCK);
        s->scale[k][0][c] = sub_32(spread_4bit(low) | spread_2bit(x->high) << 4);
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

/* Of each 64 elements, the first 32 in the low nibbles; where there is a fifth bit, that of group g
 * is bit g of `high`. */
IG_INLINE void unpack_k_nibbles(const uint8_t *q, const uint8_t *high, uint8_t *to) {
    vb32 x, fifth = {0};
    if (high) vb32_load(&fifth, high);
    for (int g = 0; g < BLOCKS_PER_K; g += 2, q += 32, to += 64) {
        vb32_load(&x, q);
        const vb32 low = (x & 15) | (fifth & 1) << 4, up = (x >> 4) | (fifth & 2) << 3;
        vb32_store(to, &low);
        vb32_store(to + 32, &up);
        fifth >>= 2;
    }
}

static void unpack_q4_k(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q4_k *x = (const ig_block_q4_k *)row;
    for (int64_t k = 0; k < blocks / BLOCKS_PER_K; k++, x++) {
        unpack_k_nibbles(x->q, NULL, s->q[c] + k * IG_BLOCK_K);
        unpack_k_scales(x->scales, s, k, c);
        s->d[k][c] = x->d;
        s->m[k][c] = x->m;
    }
}

static void unpack_q5_k(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q5_k *x = (const ig_block_q5_k *)row;
    for (int64_t k = 0; k < blocks / BLOCKS_PER_K; k++, x++) {
        unpack_k_nibbles(x->q, x->high, s->q[c] + k * IG_BLOCK_K);
        unpack_k_scales(x->scales, s, k, c);
        s->d[k][c] = x->d;
        s->m[k][c] = x->m;
    }
}

/* 128 elements: four bits of each in nibbles, two more of each 32 in bits 2j of `high`. */
IG_INLINE void unpack_6bit(const uint8_t *low, const uint8_t *high, uint8_t *to) {
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
    for (int64_t k = 0; k < blocks / BLOCKS_PER_K; k++, x++) {
        uint8_t *to = s->q[c] + k * IG_BLOCK_K;
        unpack_6bit(x->low, x->high, to);
        unpack_6bit(x->low + 64, x->high + 32, to + 128);
        memcpy(&s->scale[k][0][c], x->scales, 8);
        memcpy(&s->scale[k][1][c], x->scales + 8, 8);
        s->d[k][c] = x->d;
    }
}

/* Two bits of 128 elements, 32 at a time; where there is a third, that of group g is bit g of
 * `high`. */
IG_INLINE void unpack_2bit(const uint8_t *q, const uint8_t *high, uint8_t *to) {
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
    for (int64_t k = 0; k < blocks / BLOCKS_PER_K; k++, x++) {
        uint64_t both[2];
        memcpy(both, x->scales, sizeof both);
        unpack_2bit(x->q, NULL, s->q[c] + k * IG_BLOCK_K);
        for (int i = 0; i < 2; i++) {
            s->scale[k][i][c] = both[i] & REPEAT_BYTE(15);
            s->min[k][i][c] = both[i] >> 4 & REPEAT_BYTE(15);
        }
        s->d[k][c] = x->d;
        s->m[k][c] = x->m;
    }
}

static void unpack_q3_k(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_q3_k *x = (const ig_block_q3_k *)row;
    const uint32_t two = 0x03030303;
    for (int64_t k = 0; k < blocks / BLOCKS_PER_K; k++, x++) {
        uint64_t low;
        uint32_t high;
        memcpy(&low, x->scales, sizeof low);
        memcpy(&high, x->scales + 8, sizeof high);
        unpack_2bit(x->q, x->high, s->q[c] + k * IG_BLOCK_K);
        const uint64_t first = pair_of(high & two, high >> 2 & two);
        const uint64_t second = pair_of(high >> 4 & two, high >> 6 & two);
        s->scale[k][0][c] = sub_32((low & REPEAT_BYTE(15)) | first << 4);
        s->scale[k][1][c] = sub_32((low >> 4 & REPEAT_BYTE(15)) | second << 4);
        s->d[k][c] = x->d;
    }
}

#undef REPEAT_BYTE

/* NULL: not a type of int8 GEMM. */
static unpack_fn *const unpack_fns[IG_DTYPE_COUNT] = {
    [IG_Q4_0] = unpack_q4_0,   [IG_Q4_1] = unpack_q4_1,     [IG_Q5_0] = unpack_q5_0,
    [IG_Q5_1] = unpack_q5_1,   [IG_Q8_0] = unpack_q8_0,     [IG_Q2_K] = unpack_q2_k,
    [IG_Q3_K] = unpack_q3_k,   [IG_Q4_K] = unpack_q4_k,     [IG_Q5_K] = unpack_q5_k,
    [IG_Q6_K] = unpack_q6_k,   [IG_IQ4_NL] = unpack_iq4_nl, [IG_IQ4_XS] = unpack_iq4_xs,
    [IG_MXFP4] = unpack_mxfp4,
};

IG_INLINE void f16_to_f32(const uint16_t *h, float *y) {
    for (int i = 0; i < QNR; i += VF_LANES) vf_store(y + i, vf_load_f16(h + i));
}

/* Of blocks of 32, the scale and min of block b, which is block `to` of the panel. */
static inline void unpack_scales(const quant_type *t, const stage *s, int64_t b, panel *p,
                                 int64_t to) {
    if (t->has_powers)
        memcpy(p->scale[to][0], s->power[b], sizeof s->power[b]);
    else
        f16_to_f32(s->d[b], p->scale[to][0]);
    if (t->kind == WITH_MIN) f16_to_f32(s->m[b], p->min[to][0]);
}

/* The scales of each scale group: by[c] times its byte. */
static inline void unpack_k_group_scales(const k_scales scales, const float *by, bool by_16,
                                         float (*to)[2][QNR]) {
    for (int word = 0; word < (by_16 ? 2 : 1); word++) {
        vb16 columns[8];
        vb16_transpose(scales[word], columns);
        for (int i = 0; i < 8; i++) {
            int8_t each[QNR];
            float *y = by_16 ? to[word * 4 + i / 2][i % 2] : to[i][0];
            memcpy(each, &columns[i], sizeof each);
            for (int c = 0; c < QNR; c++) y[c] = by[c] * (float)each[c];
        }
    }
}

/* All scales and mins of super-block k, from block `to` of the panel on. */
static inline void unpack_k_block_scales(const quant_type *t, const stage *s, int64_t k, panel *p,
                                         int64_t to) {
    const bool by_16 = scales_per_block(t->kind) == 2;
    float by[QNR];
    f16_to_f32(s->d[k], by);
    unpack_k_group_scales(s->scale[k], by, by_16, p->scale + to);
    if (!kind_has_min(t->kind)) return;
    f16_to_f32(s->m[k], by);
    for (int c = 0; c < QNR; c++) by[c] = -by[c];
    unpack_k_group_scales(s->min[k], by, by_16, p->min + to);
}

/* Bytes of block b, [column][step] -> [step][column], four bytes at a time. */
static inline void transpose_steps(const stage *s, int64_t b, uint8_t (*steps)[STEP_BYTES]) {
    const int64_t stride = STAGE_BYTES / (int64_t)sizeof(float);
    for (int64_t c = 0; c < QNR; c += 8)
        transpose_8x8((const float *)(const void *)(s->q[c] + b * IG_BLOCK), stride,
                      (float *)(void *)steps[0] + c, QNR);
}

/* Fills a panel with `blocks` blocks of up to QNR rows, `row_bytes` apart.  Lanes of
 * missing columns are undefined.  Prefetches what follows in the rows. */
static inline void panel_fill(ig_dtype dtype, const char *rows, int64_t row_bytes, int64_t columns,
                              int64_t blocks, stage *s, panel *p) {
    const quant_type *t = &quant_types[dtype];
    for (int64_t first = 0; first < blocks; first += STAGE_BLOCKS) {
        const int64_t count = min_i64(blocks - first, STAGE_BLOCKS);
        const int64_t bytes = ig_bytes_of(dtype, count * IG_BLOCK);
        for (int64_t c = 0; c < columns; c++) {
            for (int64_t i = 0; i < bytes; i += 64)
                __builtin_prefetch(rows + c * row_bytes + bytes + i);
            unpack_fns[dtype](rows + c * row_bytes, count, s, c);
        }
        for (int64_t b = 0; b < count; b++) transpose_steps(s, b, p->w[first + b]);
        for (int64_t b = 0; b < count && !t->is_k; b++) unpack_scales(t, s, b, p, first + b);
        for (int64_t k = 0; k < count / BLOCKS_PER_K && t->is_k; k++)
            unpack_k_block_scales(t, s, k, p, first + k * BLOCKS_PER_K);
        for (int64_t b = first; b < first + count; b++)
            for (int i = 0; i < n_magic_acc(t->kind); i++)
                for (int c = 0; c < QNR; c++)
                    p->magic_bias[b][i][c] = p->scale[b][i][c] * -MAGIC_FLOAT;
        rows += bytes;
    }
}

#endif
