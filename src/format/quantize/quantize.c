/* Quantization to types with one scale per block, and the table of all types. */
#include "format/quantize/quantize.h"

#include <assert.h>
#include <string.h>

#include "base/quant_blocks.h"
#include "format/quantize/quantize_fit.h"
#include "format/quantize/quantize_k.h"
#include "ingot/blocks.h"

/* Element i in the low nibble of byte i, element i + n / 2 in the high nibble. */
static void pack_halves(const uint8_t *q, int n, uint8_t *out) {
    for (int i = 0; i < n / 2; i++) out[i] = (uint8_t)((q[i] & 15) | (q[i + n / 2] & 15) << 4);
}

static uint32_t fifth_bits(const uint8_t q[IG_BLOCK]) {
    uint32_t bits = 0;
    for (int i = 0; i < IG_BLOCK; i++) bits |= (uint32_t)(q[i] >> 4) << i;
    return bits;
}

/* ---- Plain blocks ---- */

static const sweep sweep_s4 = {2, 10, 0.25f}, sweep_s5 = {1, 6, 0.5f}, sweep_q4 = {2, 10, 0.25f},
                   sweep_q5 = {1, 5, 0.5f}, sweep_iq4 = {3, 10, 3};

static void encode_q4_0(const float *x, ig_block_q4_0 *b) {
    uint8_t q[IG_BLOCK];
    const float d = to_half(fit_scale(x, IG_BLOCK, &grid_s4, sweep_s4).a);
    levels(x, IG_BLOCK, d, 0, &grid_s4, q);
    b->d = ig_f32_to_f16(d);
    pack_halves(q, IG_BLOCK, b->q);
}

static void encode_q5_0(const float *x, ig_block_q5_0 *b) {
    uint8_t q[IG_BLOCK];
    const float d = to_half(fit_scale(x, IG_BLOCK, &grid_s5, sweep_s5).a);
    levels(x, IG_BLOCK, d, 0, &grid_s5, q);
    b->d = ig_f32_to_f16(d);
    b->high = fifth_bits(q);
    pack_halves(q, IG_BLOCK, b->q);
}

static void encode_iq4_nl(const float *x, ig_block_iq4_nl *b) {
    uint8_t q[IG_BLOCK];
    const float d = to_half(fit_scale(x, IG_BLOCK, &grid_iq4, sweep_iq4).a);
    levels(x, IG_BLOCK, d, 0, &grid_iq4, q);
    b->d = ig_f32_to_f16(d);
    pack_halves(q, IG_BLOCK, b->q);
}

static void encode_q4_1(const float *x, ig_block_q4_1 *b) {
    uint8_t q[IG_BLOCK];
    const line fit = fit_line(x, IG_BLOCK, FLT_MAX, &grid_q4, sweep_q4);
    const float d = to_half(fit.a), m = to_half(fit.m);
    levels(x, IG_BLOCK, d, m, &grid_q4, q);
    b->d = ig_f32_to_f16(d);
    b->m = ig_f32_to_f16(m);
    pack_halves(q, IG_BLOCK, b->q);
}

static void encode_q5_1(const float *x, ig_block_q5_1 *b) {
    uint8_t q[IG_BLOCK];
    const line fit = fit_line(x, IG_BLOCK, FLT_MAX, &grid_q5, sweep_q5);
    const float d = to_half(fit.a), m = to_half(fit.m);
    levels(x, IG_BLOCK, d, m, &grid_q5, q);
    b->d = ig_f32_to_f16(d);
    b->m = ig_f32_to_f16(m);
    b->high = fifth_bits(q);
    pack_halves(q, IG_BLOCK, b->q);
}

/* The scale is a power of two: the smallest at which the extreme fits, or a neighbor. */
static void encode_mxfp4(const float *x, ig_block_mxfp4 *b) {
    static const uint8_t code[] = {15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7};
    float extreme = 0, least = INFINITY;
    for (int i = 0; i < IG_BLOCK; i++) extreme = fabsf(x[i]) > extreme ? fabsf(x[i]) : extreme;
    int exponent = 0, best = 0;
    frexpf(extreme / 12, &exponent); /* 12 2^(exponent - 1) <= extreme < 12 2^exponent */
    for (int e = exponent - 2; e <= exponent; e++) {
        const float error = measure(x, IG_BLOCK, ldexpf(1, e), 0, &grid_mxfp4).error;
        if (!(error < least)) continue;
        least = error;
        best = e;
    }
    uint8_t q[IG_BLOCK];
    const int biased = best + 128; /* the table has doubled values */
    b->exponent = (uint8_t)(extreme == 0 || biased < 0 ? 0 : biased > 254 ? 254 : biased);
    levels(x, IG_BLOCK, ldexpf(1, b->exponent - 128), 0, &grid_mxfp4, q);
    for (int i = 0; i < IG_BLOCK; i++) q[i] = code[q[i]];
    pack_halves(q, IG_BLOCK, b->q);
}

/* ---- Plain types ---- */

static void encode_f32(const float *x, float *out) { *out = *x; }
static void encode_f16(const float *x, uint16_t *out) { *out = ig_f32_to_f16(*x); }
static void encode_bf16(const float *x, uint16_t *out) { *out = ig_f32_to_bf16(*x); }

/* ---- All of them ---- */

typedef void encode_fn(const float *x, void *block);

#define BLOCK(type) \
    static void block_##type(const float *x, void *b) { encode_##type(x, b); }
BLOCK(f32)
BLOCK(f16)
BLOCK(bf16)
BLOCK(q4_0)
BLOCK(q4_1)
BLOCK(q5_0)
BLOCK(q5_1)
BLOCK(q2_k)
BLOCK(q3_k)
BLOCK(q4_k)
BLOCK(q5_k)
BLOCK(q6_k)
BLOCK(iq4_nl)
BLOCK(iq4_xs)
BLOCK(mxfp4)

/* With 255 levels, a search gains nothing. */
static void block_q8_0(const float *x, void *b) { ig_blocks_quantize_q8_0(x, b, IG_BLOCK); }

static encode_fn *const encoders[IG_DTYPE_COUNT] = {
    [IG_F32] = block_f32,     [IG_F16] = block_f16,       [IG_BF16] = block_bf16,
    [IG_Q4_0] = block_q4_0,   [IG_Q4_1] = block_q4_1,     [IG_Q5_0] = block_q5_0,
    [IG_Q5_1] = block_q5_1,   [IG_Q8_0] = block_q8_0,     [IG_Q2_K] = block_q2_k,
    [IG_Q3_K] = block_q3_k,   [IG_Q4_K] = block_q4_k,     [IG_Q5_K] = block_q5_k,
    [IG_Q6_K] = block_q6_k,   [IG_IQ4_NL] = block_iq4_nl, [IG_IQ4_XS] = block_iq4_xs,
    [IG_MXFP4] = block_mxfp4,
};

bool ig_quantize_can(ig_dtype dtype) {
    return (uint32_t)dtype < IG_DTYPE_COUNT && encoders[dtype] != NULL;
}

void ig_quantize(ig_dtype dtype, const float *x, void *out, int64_t n) {
    const int64_t block = ig_dtype_block(dtype), bytes = ig_bytes_of(dtype, block);
    assert(encoders[dtype] && n % block == 0);
    for (int64_t i = 0; i < n / block; i++) encoders[dtype](x + i * block, (char *)out + i * bytes);
}

double ig_quantize_error(ig_dtype dtype, const float *x, const void *blocks, int64_t n) {
    const int64_t block = ig_dtype_block(dtype), bytes = ig_bytes_of(dtype, block);
    float back[IG_BLOCK_K];
    double error = 0;
    for (int64_t i = 0; i < n / block; i++) {
        ig_blocks_dequantize(dtype, (const char *)blocks + i * bytes, back, block);
        for (int64_t j = 0; j < block; j++) {
            const double off = (double)x[i * block + j] - (double)back[j];
            error += off * off;
        }
    }
    return error;
}
