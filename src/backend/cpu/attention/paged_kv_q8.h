/*
 * paged_kv_q8.h - attention over a Q8_0 KV cache in int8.
 *
 * Converting bytes to floats takes longer than reading them.  So the other factors become 24-bit
 * fixed point instead, as three digits of a byte each:
 *
 *     q              = scale (65536 digit[2] + 256 digit[1] + digit[0])    digits from -128 to 127
 *     weight d[row]  = unit  (65536 digit[2] + 256 digit[1] + digit[0])    digits from 0 to 255
 *
 * Sums of products are exact in each digit.  A query has one scale for each block, converted once
 * for all keys.  Keys lie in lanes, so nothing is summed across lanes; their bytes are unsigned,
 * 128 too large, and `start` corrects that.  Values are taken four rows at a time; the scales d of
 * their blocks go to the weights, which are from 0 to 1, and the unit is a power of two that fits
 * the largest weight d of the rows that a query sees of a KV block.
 */
#ifndef IG_BACKEND_CPU_ATTENTION_PAGED_KV_Q8_H
#define IG_BACKEND_CPU_ATTENTION_PAGED_KV_Q8_H

#include <math.h>
#include <stddef.h>

#include "backend/cpu/simd/vec_math.h"
#include "backend/cpu/simd/vec_transpose.h"
#include "ingot/blocks.h"

enum {
    KV_BLOCK = 64, /* rows of a call, at most */
    DIGITS = 3,
    MOST_BLOCKS = 8, /* of a row */
    MOST_DOTS = 4 * DIGITS * 2,
};

/* The digits of four values side by side; the fourth byte is unused. */
typedef uint8_t fixed24_x4[4][4];

/* A block of a query. */
typedef struct query_fixed24 {
    fixed24_x4 digit[IG_BLOCK / 4];
    int32_t start[4]; /* -128 times the sum of digits in a place */
    float scale;
} query_fixed24;

static void find_start(query_fixed24 *a) {
    enum { STEP = VF_LANES < 4 ? 4 : VF_LANES }; /* a multiple of four */
    vi sum[STEP / VF_LANES];
    int32_t lane[STEP];
    for (int k = 0; k < STEP / VF_LANES; k++) sum[k] = vi_set(0);
    for (int i = 0; i < IG_BLOCK; i += STEP)
        for (int k = 0; k < STEP / VF_LANES; k++) {
            vi fours;
            memcpy(&fours, &a->digit[0][0][0] + 4 * (i + k * VF_LANES), sizeof fours);
            sum[k] = vi_dot(sum[k], vi_set((int32_t)0x80808080), fours);
        }
    memcpy(lane, sum, sizeof lane);
    memset(a->start, 0, sizeof a->start);
    for (int i = 0; i < STEP; i++) a->start[i % 4] -= lane[i];
}

static void fixed24_block(const float *q, query_fixed24 *out) {
    const float most = 0x1p22f - 1; /* what ROUNDER can round */
    vf largest = vf_set(0);
    for (int i = 0; i < IG_BLOCK; i += VF_LANES)
        largest = vf_larger(largest, vf_abs(vf_load(q + i)));
    const float x = vf_largest(largest);
    /* Smaller values underflow to 0. */
    const vf inverse = vf_set(x > 0x1p-98f ? most / x : 0);
    for (int i = 0; i < IG_BLOCK; i += VF_LANES) {
        const vf y = vf_clamp(vf_mul(vf_load(q + i), inverse), -most, most);
        const vi fixed = vi_sub(vf_bits(vf_add(y, vf_set(ROUNDER))), vf_bits(vf_set(ROUNDER)));
        /* Digits that count from -128: 128 is added to each, and their signs are flipped. */
        const vi middle = vi_set(0x808080);
        vi_store_bytes(out->digit, i, vi_xor(vi_add(fixed, middle), middle));
    }
    find_start(out);
    out->scale = x < INFINITY ? x / most : NAN; /* NaN where one is, or infinite */
}

static void fixed24_row(const float *q, int64_t width, query_fixed24 *out) {
    for (int64_t i = 0; i < width; i += IG_BLOCK) fixed24_block(q + i, out + i / IG_BLOCK);
}

/* ---- keys ---- */

/* A block of VF_LANES keys, a lane each, step by step; and its scales. */
typedef struct transposed_keys {
    int32_t four[COLUMN_WORDS][VF_LANES];
    float scale[VF_LANES];
} transposed_keys;

/* The F16 scales of the blocks of n rows. */
IG_INLINE void take_scales(const char *block, int64_t step, int64_t n, uint16_t *scale) {
    for (int64_t j = 0; j < n; j += VF_LANES) {
        uint16_t d[VF_LANES]; /* which stay in registers */
        for (int r = 0; r < VF_LANES; r++) memcpy(&d[r], block + (j + r) * step, sizeof d[r]);
        memcpy(scale + j, d, sizeof d);
    }
}

IG_INLINE vf block_scales(const char *block, int64_t step) {
    uint16_t d[VF_LANES];
    take_scales(block, step, VF_LANES, d);
    return vf_load_f16(d);
}

IG_INLINE void transpose_key_block(const char *block, int64_t step, transposed_keys *out) {
    vi key[COLUMN_WORDS];
    vi_columns(block + offsetof(ig_block_q8_0, q), step, key);
    IG_UNROLL for (int s = 0; s < COLUMN_WORDS; s++) {
        key[s] = vi_xor(key[s], vi_set((int32_t)0x80808080));
        memcpy(out->four[s], &key[s], sizeof key[s]);
    }
}

/* The value of three digits, as F32. */
IG_INLINE vf fixed24_sum(vi d0, vi d1, vi d2) {
    const vf high = vi_to_float(vi_add(vi_left(d2, 8), d1));
    return vf_fma(high, vf_set(256), vi_to_float(d0));
}

/* sum[h][v] += products of a block of keys[v * stride] with that of each query. */
IG_INLINE void add_block(const transposed_keys *keys, int64_t stride, const query_fixed24 *a,
                         vf *sum, const int queries, const int vectors) {
    vi dot[MOST_DOTS], key[2];
    IG_UNROLL for (int i = 0; i < queries * DIGITS * vectors; i++) dot[i] =
        vi_set(a[i / vectors / DIGITS * MOST_BLOCKS].start[i / vectors % DIGITS]);
    IG_UNROLL for (int s = 0; s < COLUMN_WORDS; s++) {
        IG_UNROLL for (int v = 0; v < vectors; v++) key[v] = vi_load(keys[v * stride].four[s]);
        IG_UNROLL for (int i = 0; i < queries * DIGITS; i++) {
            const uint8_t *four = a[i / DIGITS * MOST_BLOCKS].digit[s][i % DIGITS];
            IG_UNROLL for (int v = 0; v < vectors; v++)
                vi_add_dot_repeated(&dot[i * vectors + v], key[v], four);
        }
    }
    IG_UNROLL for (int k = 0; k < queries * vectors; k++) {
        const vi *d = dot + k / vectors * DIGITS * vectors + k % vectors;
        const vf scale = vf_mul(vf_load(keys[k % vectors * stride].scale),
                                vf_set(a[k / vectors * MOST_BLOCKS].scale));
        sum[k] = vf_fma(fixed24_sum(d[0], d[vectors], d[2 * vectors]), scale, sum[k]);
    }
}

/* ---- values ---- */

/* Scales of n rows as F32, 0 outside [low, high); false: one is NaN, infinite or negative. */
IG_INLINE bool find_scales(uint16_t *half, int64_t low, int64_t high, int64_t n, float *scale) {
    uint16_t most = 0;
    for (int64_t j = 0; j < low; j++) half[j] = 0;
    for (int64_t j = high; j < n; j++) half[j] = 0;
    for (int64_t j = 0; j < n; j++) most = half[j] > most ? half[j] : most;
    for (int64_t j = 0; j < n; j += VF_LANES) vf_store(scale + j, vf_load_f16(half + j));
    return most < 0x7c00; /* the bits of what is infinite, NaN or negative are larger */
}

/*
 * The digits of weight times scale in a KV block; returns the unit.  The largest product decides
 * it, so a row of little weight costs the others no precision, however large its scale is.  A NaN
 * gives undefined digits: it shows in the sum of weights.
 */
IG_INLINE float weigh_rows(const float *weight, const float *scale, fixed24_x4 *digit) {
    enum { VECTORS = KV_BLOCK / VF_LANES };
    vf scaled[VECTORS], largest = vf_set(0);
    IG_UNROLL for (int j = 0; j < VECTORS; j++) {
        scaled[j] = vf_mul(vf_load(weight + j * VF_LANES), vf_load(scale + j * VF_LANES));
        largest = vf_max(largest, scaled[j]);
    }
    uint32_t exponent = bits_of_float(vf_max_lane(largest)) >> 23;
    if (exponent < 22) exponent = 22; /* below 2^-105: 0 */
    /* Products times that are below 2^22. */
    const vf inverse = vf_set(float_of_bits((127 + 22 + 126 - exponent) << 23));
    IG_UNROLL for (int j = 0; j < VECTORS; j++) {
        /* The low bits of such a sum are the integer. */
        const vf x = vf_fma(scaled[j], inverse, vf_set(0x1p23f));
        vi_store_bytes(digit, (int64_t)j * VF_LANES, vf_bits(x));
    }
    return float_of_bits((exponent - 21) << 23);
}

/* sum[h][digit][v] += products of four rows with the digits of their weights. */
IG_INLINE void add_four(const char *rows, int64_t step, const uint8_t (*digit)[4], int64_t stride,
                        vi *sum, const int queries) {
    vi value[2];
    vi_fours(rows, step, value);
    IG_UNROLL for (int i = 0; i < queries * DIGITS; i++) {
        const vi weight = vi_repeat(digit[i / DIGITS * stride + i % DIGITS]);
        IG_UNROLL for (int v = 0; v < 2; v++) vi_add_dot(&sum[2 * i + v], weight, value[v]);
    }
}

#endif
