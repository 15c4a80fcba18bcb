/*
 * dequantize.h - rows of stored weights to F32, a block at a time.
 *
 * The loops are short, of constant length, and follow the bytes of a block, so that a compiler
 * vectorizes them for every instruction set.  Each element takes the operations of
 * base/quant_blocks.c in their order: the bits are the same.
 */
#ifndef IG_BACKEND_CPU_DEQUANTIZE_H
#define IG_BACKEND_CPU_DEQUANTIZE_H

#include "backend/cpu/strided.h"
#include "base/f16.h"
#include "base/quant_blocks.h"
#include "ingot/blocks.h"

/* The values of the nibbles of table types; those of MXFP4 are doubled. */
static const float iq4_value[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};
static const float mxfp4_value[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

#define NIBBLES(first, second)                       \
    for (int i = 0; i < IG_BLOCK / 2; i++) {         \
        const int low = q[i] & 15, high = q[i] >> 4; \
        y[i] = first;                                \
        y[i + IG_BLOCK / 2] = second;                \
    }

IG_INLINE void dequantize_q4_0(const ig_block_q4_0 *b, float *restrict y) {
    const float d = ig_f16_to_f32(b->d);
    const uint8_t *restrict q = b->q;
    NIBBLES(d * (float)(low - 8), d * (float)(high - 8))
}

IG_INLINE void dequantize_q4_1(const ig_block_q4_1 *b, float *restrict y) {
    const float d = ig_f16_to_f32(b->d), m = ig_f16_to_f32(b->m);
    const uint8_t *restrict q = b->q;
    NIBBLES(d * (float)low + m, d * (float)high + m)
}

/* The fifth bits of all elements, as 0 or 16. */
IG_INLINE void fifth_bits(uint32_t high, int32_t *restrict bit) {
    for (int i = 0; i < IG_BLOCK; i++) bit[i] = (int32_t)(high >> i & 1) << 4;
}

IG_INLINE void dequantize_q5_0(const ig_block_q5_0 *b, float *restrict y) {
    const float d = ig_f16_to_f32(b->d);
    const uint8_t *restrict q = b->q;
    int32_t bit[IG_BLOCK];
    fifth_bits(b->high, bit);
    NIBBLES(d * (float)((low | bit[i]) - 16), d * (float)((high | bit[i + IG_BLOCK / 2]) - 16))
}

IG_INLINE void dequantize_q5_1(const ig_block_q5_1 *b, float *restrict y) {
    const float d = ig_f16_to_f32(b->d), m = ig_f16_to_f32(b->m);
    const uint8_t *restrict q = b->q;
    int32_t bit[IG_BLOCK];
    fifth_bits(b->high, bit);
    NIBBLES(d * (float)(low | bit[i]) + m, d * (float)(high | bit[i + IG_BLOCK / 2]) + m)
}

IG_INLINE void dequantize_q8_0(const ig_block_q8_0 *b, float *restrict y) {
    const float d = ig_f16_to_f32(b->d);
    const int8_t *restrict q = b->q;
    for (int i = 0; i < IG_BLOCK; i++) y[i] = d * (float)q[i];
}

IG_INLINE void dequantize_iq4_nl(const ig_block_iq4_nl *b, float *restrict y) {
    const float d = ig_f16_to_f32(b->d);
    const uint8_t *restrict q = b->q;
    NIBBLES(d * iq4_value[low], d * iq4_value[high])
}

IG_INLINE void dequantize_mxfp4(const ig_block_mxfp4 *b, float *restrict y) {
    const uint32_t e = b->exponent;
    const float d = ig_float_of_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    const uint8_t *restrict q = b->q;
    NIBBLES(d * mxfp4_value[low], d * mxfp4_value[high])
}

/* ---- K-quants ---- */

/* Groups of 16: of 128 elements each, bits `2 j` of 32 bytes make 32 elements. */
IG_INLINE void dequantize_q2_k(const ig_block_q2_k *b, float *restrict y) {
    const float d = ig_f16_to_f32(b->d), m = ig_f16_to_f32(b->m);
    for (int g = 0; g < 16; g++) {
        const uint8_t *restrict q = b->q + g / 8 * 32 + g % 2 * 16;
        const int shift = g % 8 / 2 * 2;
        const float scale = d * (float)(b->scales[g] & 15), min = m * (float)(b->scales[g] >> 4);
        for (int i = 0; i < 16; i++) y[g * 16 + i] = scale * (float)(q[i] >> shift & 3) - min;
    }
}

IG_INLINE void dequantize_q3_k(const ig_block_q3_k *b, float *restrict y) {
    const float d = ig_f16_to_f32(b->d);
    for (int g = 0; g < 16; g++) {
        const uint8_t *restrict q = b->q + g / 8 * 32 + g % 2 * 16;
        const uint8_t *restrict high = b->high + g % 2 * 16;
        const int shift = g % 8 / 2 * 2, bit = g / 2;
        const float scale = d * (float)(ig_block_q3_scale(b->scales, g) - 32);
        for (int i = 0; i < 16; i++)
            y[g * 16 + i] = scale * (float)((q[i] >> shift & 3) + (high[i] >> bit & 1) * 4 - 4);
    }
}

IG_INLINE void dequantize_q4_k(const ig_block_q4_k *b, float *restrict y) {
    const float d = ig_f16_to_f32(b->d), m = ig_f16_to_f32(b->m);
    for (int g = 0; g < 8; g++) {
        const uint8_t *restrict q = b->q + g / 2 * 32;
        const int shift = g % 2 * 4;
        int s, n;
        ig_block_k_scale(b->scales, g, &s, &n);
        const float scale = d * (float)s, min = m * (float)n;
        for (int i = 0; i < 32; i++) y[g * 32 + i] = scale * (float)(q[i] >> shift & 15) - min;
    }
}

IG_INLINE void dequantize_q5_k(const ig_block_q5_k *b, float *restrict y) {
    const float d = ig_f16_to_f32(b->d), m = ig_f16_to_f32(b->m);
    const uint8_t *restrict high = b->high;
    for (int g = 0; g < 8; g++) {
        const uint8_t *restrict q = b->q + g / 2 * 32;
        const int shift = g % 2 * 4;
        int s, n;
        ig_block_k_scale(b->scales, g, &s, &n);
        const float scale = d * (float)s, min = m * (float)n;
        for (int i = 0; i < 32; i++)
            y[g * 32 + i] = scale * (float)((q[i] >> shift & 15) | (high[i] >> g & 1) << 4) - min;
    }
}

IG_INLINE void dequantize_q6_k(const ig_block_q6_k *b, float *restrict y) {
    const float d = ig_f16_to_f32(b->d);
    for (int g = 0; g < 16; g++) {
        const uint8_t *restrict low = b->low + g / 8 * 64 + g % 4 * 16;
        const uint8_t *restrict high = b->high + g / 8 * 32 + g % 2 * 16;
        const int nibble = g % 8 / 4 * 4, shift = g % 8 / 2 * 2;
        const float scale = d * (float)b->scales[g];
        for (int i = 0; i < 16; i++)
            y[g * 16 + i] =
                scale * (float)(((low[i] >> nibble & 15) | (high[i] >> shift & 3) << 4) - 32);
    }
}

IG_INLINE void dequantize_iq4_xs(const ig_block_iq4_xs *b, float *restrict x) {
    const float d0 = ig_f16_to_f32(b->d);
    for (int g = 0; g < 8; g++) {
        const float d = d0 * (float)(ig_block_iq4_scale(b, g) - 32);
        const uint8_t *restrict q = b->q + g * 16;
        float *restrict y = x + g * IG_BLOCK;
        NIBBLES(d * iq4_value[low], d * iq4_value[high])
    }
}

#undef NIBBLES

/* ---- rows ---- */

typedef void dequantize_fn(const char *row, float *y, int64_t n);

#define DEQUANTIZE_ROW(type, elements)                                              \
    static void dequantize_row_##type(const char *row, float *y, int64_t n) {       \
        for (; n > 0; n -= elements, y += elements, row += sizeof(ig_block_##type)) \
            dequantize_##type((const ig_block_##type *)row, y);                     \
    }
DEQUANTIZE_ROW(q4_0, IG_BLOCK)
DEQUANTIZE_ROW(q4_1, IG_BLOCK)
DEQUANTIZE_ROW(q5_0, IG_BLOCK)
DEQUANTIZE_ROW(q5_1, IG_BLOCK)
DEQUANTIZE_ROW(q8_0, IG_BLOCK)
DEQUANTIZE_ROW(q2_k, IG_BLOCK_K)
DEQUANTIZE_ROW(q3_k, IG_BLOCK_K)
DEQUANTIZE_ROW(q4_k, IG_BLOCK_K)
DEQUANTIZE_ROW(q5_k, IG_BLOCK_K)
DEQUANTIZE_ROW(q6_k, IG_BLOCK_K)
DEQUANTIZE_ROW(iq4_nl, IG_BLOCK)
DEQUANTIZE_ROW(iq4_xs, IG_BLOCK_K)
DEQUANTIZE_ROW(mxfp4, IG_BLOCK)

static void dequantize_row_f32(const char *row, float *y, int64_t n) {
    memcpy(y, row, (size_t)n * sizeof *y);
}

static void dequantize_row_f16(const char *row, float *y, int64_t n) {
    const uint16_t *h = (const uint16_t *)row;
    for (; n >= VF_LANES; n -= VF_LANES, h += VF_LANES, y += VF_LANES) vf_store(y, vf_load_f16(h));
    for (; n > 0; n--) *y++ = ig_f16_to_f32(*h++);
}

static void dequantize_row_bf16(const char *row, float *y, int64_t n) {
    const uint16_t *h = (const uint16_t *)row;
    for (int64_t i = 0; i < n; i++) y[i] = ig_bf16_to_f32(h[i]);
}

/* Dequantizes n elements, a multiple of the block, from the first of a block on. */
static inline dequantize_fn *dequantizer_of(ig_dtype dtype) {
    static dequantize_fn *const table[IG_DTYPE_COUNT] = {
        [IG_F32] = dequantize_row_f32,       [IG_F16] = dequantize_row_f16,
        [IG_BF16] = dequantize_row_bf16,     [IG_Q4_0] = dequantize_row_q4_0,
        [IG_Q4_1] = dequantize_row_q4_1,     [IG_Q5_0] = dequantize_row_q5_0,
        [IG_Q5_1] = dequantize_row_q5_1,     [IG_Q8_0] = dequantize_row_q8_0,
        [IG_Q2_K] = dequantize_row_q2_k,     [IG_Q3_K] = dequantize_row_q3_k,
        [IG_Q4_K] = dequantize_row_q4_k,     [IG_Q5_K] = dequantize_row_q5_k,
        [IG_Q6_K] = dequantize_row_q6_k,     [IG_IQ4_NL] = dequantize_row_iq4_nl,
        [IG_IQ4_XS] = dequantize_row_iq4_xs, [IG_MXFP4] = dequantize_row_mxfp4,
    };
    return table[dtype];
}

/* ---- operands ---- */

/* Rows of an operand that is stored in any dtype: the last dimension is packed, the others have any
 * stride. */
typedef struct stored_rows {
    strided_index at; /* of the first element of each row */
    int64_t columns;
    ig_dtype dtype;
} stored_rows;

static inline bool stored_rows_make(const ig_operand *o, stored_rows *out) {
    if (!rows_are_packed(o)) return false;
    *out = (stored_rows){strided_index_make(o, 1), last_dim(o), o->desc.dtype};
    return true;
}

static inline const char *stored_row(const stored_rows *r, const char *first, int64_t row) {
    return first + ig_bytes_of(r->dtype, strided_offset(&r->at, row));
}

#endif
