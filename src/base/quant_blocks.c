/*
 * Reference dequantization: the definition of every block type. Each element is computed in FP32
 * with the operations and the order of the formats' own tools, so results are bit-exact.
 */
#include "base/quant_blocks.h"

#include <math.h>

#include "base/f16.h"
#include "ingot/blocks.h"

/* Values of the nibbles of IQ4_NL and IQ4_XS, and of MXFP4 (times 2). */
static const int8_t iq4_value[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t mxfp4_value[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Element i of `n`: low nibbles first, then high nibbles. */
static int nibble(const uint8_t *q, int i, int n) {
    return i < n / 2 ? q[i] & 15 : q[i - n / 2] >> 4;
}

/* ---- plain blocks ---- */

static void decode_q4_0(const ig_block_q4_0 *b, float *y) {
    const float d = ig_f16_to_f32(b->d);
    for (int i = 0; i < IG_BLOCK; i++) y[i] = d * (float)(nibble(b->q, i, IG_BLOCK) - 8);
}

static void decode_q4_1(const ig_block_q4_1 *b, float *y) {
    const float d = ig_f16_to_f32(b->d), m = ig_f16_to_f32(b->m);
    for (int i = 0; i < IG_BLOCK; i++) y[i] = d * (float)nibble(b->q, i, IG_BLOCK) + m;
}

static int five_bits(const uint8_t *q, uint32_t high, int i) {
    return nibble(q, i, IG_BLOCK) | (int)(high >> i & 1) << 4;
}

static void decode_q5_0(const ig_block_q5_0 *b, float *y) {
    const float d = ig_f16_to_f32(b->d);
    for (int i = 0; i < IG_BLOCK; i++) y[i] = d * (float)(five_bits(b->q, b->high, i) - 16);
}

static void decode_q5_1(const ig_block_q5_1 *b, float *y) {
    const float d = ig_f16_to_f32(b->d), m = ig_f16_to_f32(b->m);
    for (int i = 0; i < IG_BLOCK; i++) y[i] = d * (float)five_bits(b->q, b->high, i) + m;
}

static void decode_q8_0(const ig_block_q8_0 *b, float *y) {
    const float d = ig_f16_to_f32(b->d);
    for (int i = 0; i < IG_BLOCK; i++) y[i] = d * (float)b->q[i];
}

static void decode_iq4_nl(const ig_block_iq4_nl *b, float *y) {
    const float d = ig_f16_to_f32(b->d);
    for (int i = 0; i < IG_BLOCK; i++) y[i] = d * (float)iq4_value[nibble(b->q, i, IG_BLOCK)];
}

/* 2^(exponent - 127) / 2, because the table has doubled values. */
static float mxfp4_scale(uint8_t exponent) {
    return ig_float_of_bits(exponent < 2 ? 0x00200000u << exponent
                                         : (uint32_t)(exponent - 1) << 23);
}

static void decode_mxfp4(const ig_block_mxfp4 *b, float *y) {
    const float d = mxfp4_scale(b->exponent);
    for (int i = 0; i < IG_BLOCK; i++) y[i] = d * (float)mxfp4_value[nibble(b->q, i, IG_BLOCK)];
}

/* ---- K blocks ---- */

/* The two bits of element i. */
static int two_bits(const uint8_t *q, int i) {
    return q[i / 128 * 32 + i % 32] >> 2 * (i % 128 / 32) & 3;
}

static void decode_q2_k(const ig_block_q2_k *b, float *y) {
    const float d = ig_f16_to_f32(b->d), m = ig_f16_to_f32(b->m);
    for (int i = 0; i < IG_BLOCK_K; i++) {
        const int scale = b->scales[i / 16];
        y[i] = d * (float)(scale & 15) * (float)two_bits(b->q, i) - m * (float)(scale >> 4);
    }
}

static void decode_q3_k(const ig_block_q3_k *b, float *y) {
    const float d = ig_f16_to_f32(b->d);
    for (int i = 0; i < IG_BLOCK_K; i++) {
        const int high = b->high[i % 32] >> i / 32 & 1;
        const int q = two_bits(b->q, i) + 4 * high - 4;
        y[i] = d * (float)(ig_block_q3_scale(b->scales, i / 16) - 32) * (float)q;
    }
}

/* The nibble of element i of a q4_k or q5_k block. */
static int nibble_k(const uint8_t *q, int i) {
    return q[i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15;
}

static void decode_q4_k(const ig_block_q4_k *b, float *y) {
    const float d = ig_f16_to_f32(b->d), m = ig_f16_to_f32(b->m);
    for (int i = 0; i < IG_BLOCK_K; i++) {
        int scale, min;
        ig_block_k_scale(b->scales, i / 32, &scale, &min);
        y[i] = d * (float)scale * (float)nibble_k(b->q, i) - m * (float)min;
    }
}

static void decode_q5_k(const ig_block_q5_k *b, float *y) {
    const float d = ig_f16_to_f32(b->d), m = ig_f16_to_f32(b->m);
    for (int i = 0; i < IG_BLOCK_K; i++) {
        int scale, min;
        ig_block_k_scale(b->scales, i / 32, &scale, &min);
        const int q = nibble_k(b->q, i) | (b->high[i % 32] >> i / 32 & 1) << 4;
        y[i] = d * (float)scale * (float)q - m * (float)min;
    }
}

static void decode_q6_k(const ig_block_q6_k *b, float *y) {
    const float d = ig_f16_to_f32(b->d);
    for (int i = 0; i < IG_BLOCK_K; i++) {
        const int low = nibble(b->low + i / 128 * 64, i % 128, 128);
        const int q = (low | two_bits(b->high, i) << 4) - 32;
        const int scale = b->scales[i / 16];
        y[i] = d * (float)scale * (float)q;
    }
}

static void decode_iq4_xs(const ig_block_iq4_xs *b, float *y) {
    const float d = ig_f16_to_f32(b->d);
    for (int i = 0; i < IG_BLOCK_K; i++) {
        const int q = nibble(b->q + i / 32 * 16, i % 32, 32);
        y[i] = d * (float)(ig_block_iq4_scale(b, i / 32) - 32) * (float)iq4_value[q];
    }
}

/* ---- plain types ---- */

static void decode_f32(const void *x, float *y) { memcpy(y, x, sizeof *y); }

static void decode_f16(const void *x, float *y) {
    uint16_t h;
    memcpy(&h, x, sizeof h);
    *y = ig_f16_to_f32(h);
}

static void decode_bf16(const void *x, float *y) {
    uint16_t h;
    memcpy(&h, x, sizeof h);
    *y = ig_bf16_to_f32(h);
}

/* ---- all of them ---- */

typedef void decode_fn(const void *block, float *y);

#define BLOCK(type) \
    static void block_##type(const void *b, float *y) { decode_##type(b, y); }
BLOCK(q4_0)
BLOCK(q4_1)
BLOCK(q5_0)
BLOCK(q5_1)
BLOCK(q8_0)
BLOCK(q2_k)
BLOCK(q3_k)
BLOCK(q4_k)
BLOCK(q5_k)
BLOCK(q6_k)
BLOCK(iq4_nl)
BLOCK(iq4_xs)
BLOCK(mxfp4)

static decode_fn *const decoders[IG_DTYPE_COUNT] = {
    [IG_F32] = decode_f32,    [IG_F16] = decode_f16,      [IG_BF16] = decode_bf16,
    [IG_Q4_0] = block_q4_0,   [IG_Q4_1] = block_q4_1,     [IG_Q5_0] = block_q5_0,
    [IG_Q5_1] = block_q5_1,   [IG_Q8_0] = block_q8_0,     [IG_Q2_K] = block_q2_k,
    [IG_Q3_K] = block_q3_k,   [IG_Q4_K] = block_q4_k,     [IG_Q5_K] = block_q5_k,
    [IG_Q6_K] = block_q6_k,   [IG_IQ4_NL] = block_iq4_nl, [IG_IQ4_XS] = block_iq4_xs,
    [IG_MXFP4] = block_mxfp4,
};

static const struct {
    int64_t block, bytes;
} sizes[IG_DTYPE_COUNT] = {
#define IG_DTYPE(ID, name, block, bytes) {block, bytes},
#include "ingot/dtype.def"
};

int64_t ig_dtype_block(ig_dtype dtype) { return sizes[dtype].block; }

int64_t ig_bytes_of(ig_dtype dtype, int64_t elements) {
    return elements / sizes[dtype].block * sizes[dtype].bytes;
}

int64_t ig_elements_of(ig_dtype dtype, int64_t bytes) {
    return bytes / sizes[dtype].bytes * sizes[dtype].block;
}

bool ig_blocks_can_dequantize(ig_dtype dtype) { return decoders[dtype] != NULL; }

void ig_blocks_dequantize(ig_dtype dtype, const void *blocks, float *out, int64_t n) {
    const int64_t block = sizes[dtype].block, bytes = sizes[dtype].bytes;
    assert(decoders[dtype] && n % block == 0);
    for (int64_t i = 0; i < n / block; i++)
        decoders[dtype]((const char *)blocks + i * bytes, out + i * block);
}

/* As integers, magnitudes sort like floats, then infinity, then NaN. */
static uint32_t largest_magnitude(const float *x) {
    uint32_t largest = 0;
    for (int i = 0; i < IG_BLOCK; i++) {
        const uint32_t bits = ig_bits_of_float(x[i]) & 0x7fffffff;
        if (bits > largest) largest = bits;
    }
    return largest;
}

void ig_blocks_quantize_q8_0(const float *x, void *blocks, int64_t n) {
    ig_block_q8_0 *b = blocks;
    assert(n % IG_BLOCK == 0);
    for (; n > 0; n -= IG_BLOCK, x += IG_BLOCK, b++) {
        const uint32_t largest = largest_magnitude(x);
        const bool finite = largest < 0x7f800000;
        const float d = finite ? ig_float_of_bits(largest) / 127 : NAN;
        const float inverse = d > 0 ? 1 / d : 0;
        b->d = ig_f32_to_f16(d);
        for (int i = 0; i < IG_BLOCK; i++) b->q[i] = finite ? (int8_t)roundf(x[i] * inverse) : 0;
    }
}
