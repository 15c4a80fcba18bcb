/*
 * paged_whole.h - keys and values in blocks of bytes, multiplied in whole numbers.
 *
 * Making floats of bytes takes longer than reading them.  So what they are multiplied by becomes
 * whole numbers instead, of as many bits as a float has, in digits that are bytes:
 *
 *     q              = scale (65536 digit[2] + 256 digit[1] + digit[0])    digits from -128 to 127
 *     weight d[row]  = unit  (65536 digit[2] + 256 digit[1] + digit[0])    digits from 0 to 255
 *
 * Sums of products are exact in each digit.  A query has one scale for each block, once for all the
 * keys that it meets.  Keys lie in lanes, so that nothing has to be summed up across lanes; their
 * bytes count from 0, which is 128 too much, and `start` takes that back.  Values are taken by
 * fours of rows; their blocks' scales d go to the weights, which are from 0 to 1, and the unit is a
 * power of two that fits the largest weight d of the rows that a query sees of a batch.
 */
#ifndef IG_BACKEND_CPU_PAGED_WHOLE_H
#define IG_BACKEND_CPU_PAGED_WHOLE_H

#include <math.h>
#include <stddef.h>

#include "backend/cpu/simd/vec_transpose.h"
#include "backend/cpu/simd/vec_math.h"
#include "ingot/blocks.h"

enum {
    BATCH = 64, /* rows that are gone through in one call, at most */
    DIGITS = 3,
    MOST_BLOCKS = 8, /* of a row */
    MOST_DOTS = 4 * DIGITS * 2,
};

/* Of four numbers, their digits side by side; the last place is not used. */
typedef uint8_t digits_of_four[4][4];

/* A block of a query. */
typedef struct asked {
    digits_of_four digit[IG_BLOCK / 4];
    int32_t start[4]; /* -128 times the sum of digits in a place */
    float scale;
} asked;

static void find_start(asked *a) {
    enum { STEP = VF_LANES < 4 ? 4 : VF_LANES }; /* whole fours */
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

static void ask_block(const float *q, asked *out) {
    const float most = 0x1p22f - 1; /* what ROUNDER can round */
    vf largest = vf_set(0);
    for (int i = 0; i < IG_BLOCK; i += VF_LANES)
        largest = vf_larger(largest, vf_abs(vf_load(q + i)));
    const float x = vf_largest(largest);
    /* What is less than that is nothing beside a key. */
    const vf inverse = vf_set(x > 0x1p-98f ? most / x : 0);
    for (int i = 0; i < IG_BLOCK; i += VF_LANES) {
        const vf y = vf_clamp(vf_mul(vf_load(q + i), inverse), -most, most);
        const vi whole = vi_sub(vf_bits(vf_add(y, vf_set(ROUNDER))), vf_bits(vf_set(ROUNDER)));
        /* Digits that count from -128: 128 is added to each, and their signs are flipped. */
        const vi middle = vi_set(0x808080);
        vi_store_places(out->digit, i, vi_xor(vi_add(whole, middle), middle));
    }
    find_start(out);
    out->scale = x < INFINITY ? x / most : NAN; /* NaN where one is, or infinite */
}

static void ask_row(const float *q, int64_t width, asked *out) {
    for (int64_t i = 0; i < width; i += IG_BLOCK) ask_block(q + i, out + i / IG_BLOCK);
}

/* ---- keys ---- */

/* Keys that lie in lanes: a block of them, step by step, and its scales. */
typedef struct turned {
    int32_t four[COLUMN_WORDS][VF_LANES];
    float scale[VF_LANES];
} turned;

/* The scales of blocks in n rows, as they lie there. */
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

IG_INLINE void turn_block(const char *block, int64_t step, turned *out) {
    vi key[COLUMN_WORDS];
    vi_columns(block + offsetof(ig_block_q8_0, q), step, key);
    IG_UNROLL for (int s = 0; s < COLUMN_WORDS; s++) {
        key[s] = vi_xor(key[s], vi_set((int32_t)0x80808080));
        memcpy(out->four[s], &key[s], sizeof key[s]);
    }
}

/* What three digits add up to. */
IG_INLINE vf whole_sum(vi d0, vi d1, vi d2) {
    const vf high = vi_to_float(vi_add(vi_left(d2, 8), d1));
    return vf_fma(high, vf_set(256), vi_to_float(d0));
}

/* sum[h][v] += products of a block of keys[v * stride] with that of each query. */
IG_INLINE void add_block(const turned *keys, int64_t stride, const asked *a, vf *sum,
                         const int queries, const int vectors) {
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
        sum[k] = vf_fma(whole_sum(d[0], d[vectors], d[2 * vectors]), scale, sum[k]);
    }
}

/* ---- values ---- */

/* Scales of n rows as floats, 0 for those beside [low, high); false: not all are finite and at
 * least 0. */
IG_INLINE bool find_scales(uint16_t *half, int64_t low, int64_t high, int64_t n, float *scale) {
    uint16_t most = 0;
    for (int64_t j = 0; j < low; j++) half[j] = 0;
    for (int64_t j = high; j < n; j++) half[j] = 0;
    for (int64_t j = 0; j < n; j++) most = half[j] > most ? half[j] : most;
    for (int64_t j = 0; j < n; j += VF_LANES) vf_store(scale + j, vf_load_f16(half + j));
    return most < 0x7c00; /* the bits of what is infinite, NaN or negative are larger */
}

/*
 * The digits of weight times scale in a batch; returns what one of the last digits is worth.  The
 * largest product decides that, so a row that hardly counts takes nothing from the others, however
 * large its scale is.  A NaN may come out as anything: it shows in the sum of weights.
 */
IG_INLINE float weigh_rows(const float *weight, const float *scale, digits_of_four *digit) {
    enum { VECTORS = BATCH / VF_LANES };
    vf product[VECTORS], largest = vf_set(0);
    IG_UNROLL for (int j = 0; j < VECTORS; j++) {
        product[j] = vf_mul(vf_load(weight + j * VF_LANES), vf_load(scale + j * VF_LANES));
        largest = vf_max(largest, product[j]);
    }
    uint32_t exponent = bits_of_float(vf_max_lane(largest)) >> 23;
    if (exponent < 22) exponent = 22; /* what is less than 2^-105 is nothing */
    /* Times that, all are less than 2^22. */
    const vf inverse = vf_set(float_of_bits((127 + 22 + 126 - exponent) << 23));
    IG_UNROLL for (int j = 0; j < VECTORS; j++) {
        /* The last bits of such a sum are the whole number. */
        const vf x = vf_fma(product[j], inverse, vf_set(0x1p23f));
        vi_store_places(digit, (int64_t)j * VF_LANES, vf_bits(x));
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
