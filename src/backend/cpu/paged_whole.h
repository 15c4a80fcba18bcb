/*
 * paged_whole.h - scores of keys in blocks of bytes, in whole numbers.
 *
 * Making floats of a key's bytes takes longer than reading them.  So a query becomes whole numbers
 * instead, of as many bits as a float has, once for all the keys that it meets:
 *
 *     q = scale (65536 digit[2] + 256 digit[1] + digit[0])     digits from -128 to 127
 *
 * with one scale for each block.  Products of two blocks are exact in each digit.  Keys lie
 * in lanes, so that nothing has to be summed up across lanes; their bytes count from 0, which is
 * 128 too much, and `start` takes that back.
 */
#ifndef IG_BACKEND_CPU_PAGED_WHOLE_H
#define IG_BACKEND_CPU_PAGED_WHOLE_H

#include <math.h>
#include <stddef.h>

#include "backend/cpu/vec_bytes.h"
#include "backend/cpu/vec_columns.h"
#include "backend/cpu/vec_math.h"
#include "ingot/blocks.h"

enum { DIGITS = 3, MOST_BLOCKS = 8 /* of a row */ };

/* A block of a query. */
typedef struct asked {
    int8_t digit[DIGITS][IG_BLOCK];
    int32_t start[DIGITS]; /* -128 times the sum of digits */
    float scale;
} asked;

/* 0 where all are, and NaN where one is, or infinite. */
static float asked_scale(const float *q, float most) {
    vf largest = vf_set(0);
    for (int i = 0; i < IG_BLOCK; i += VF_LANES)
        largest = vf_larger(largest, vf_abs(vf_load(q + i)));
    const float x = vf_largest(largest);
    return x < INFINITY ? x / most : NAN;
}

static void ask_block(const float *q, asked *out) {
    enum { VECTORS = IG_BLOCK / VF_LANES };
    const float most = 0x1p22f - 1; /* what ROUNDER can round */
    const float scale = asked_scale(q, most);
    /* What is less than that is nothing beside a key. */
    const vf inverse = vf_set(scale > 0x1p-120f ? 1 / scale : 0);
    vi digit[DIGITS][VECTORS];
    for (int i = 0; i < VECTORS; i++) {
        const vf x = vf_clamp(vf_mul(vf_load(q + i * VF_LANES), inverse), -most, most);
        vi rest = vi_sub(vf_bits(vf_add(x, vf_set(ROUNDER))), vf_bits(vf_set(ROUNDER)));
        for (int d = 0; d < DIGITS; d++) {
            digit[d][i] = vi_right(vi_left(rest, 24), 24);
            rest = vi_right(vi_sub(rest, digit[d][i]), 8);
        }
    }
    for (int d = 0; d < DIGITS; d++) {
        vb32 bytes;
        int32_t sum = 0;
        vi_to_bytes(digit[d], &bytes);
        vb32_store(out->digit[d], &bytes);
        for (int i = 0; i < IG_BLOCK; i++) sum += out->digit[d][i];
        out->start[d] = -128 * sum;
    }
    out->scale = scale;
}

static void ask_row(const float *q, int64_t width, asked *out) {
    for (int64_t i = 0; i < width; i += IG_BLOCK) ask_block(q + i, out + i / IG_BLOCK);
}

/* Keys that lie in lanes: a block of them, step by step, and its scales. */
typedef struct turned {
    int32_t four[COLUMN_WORDS][VF_LANES];
    float scale[VF_LANES];
} turned;

IG_INLINE vf block_scales(const char *block, int64_t step) {
    uint16_t d[VF_LANES];
    for (int r = 0; r < VF_LANES; r++) memcpy(&d[r], block + r * step, sizeof d[r]);
    return vf_load_f16(d);
}

IG_INLINE void turn_block(const char *block, int64_t step, turned *out) {
    vi key[COLUMN_WORDS];
    vi_columns(block + offsetof(ig_block_q8_0, q), step, key);
    IG_UNROLL for (int s = 0; s < COLUMN_WORDS; s++) {
        key[s] = vi_xor(key[s], vi_set((int32_t)0x80808080));
        memcpy(out->four[s], &key[s], sizeof key[s]);
    }
    vf_store(out->scale, block_scales(block, step));
}

/* sum[h] += products of a block of keys with that of each query. */
IG_INLINE void add_block(const turned *k, const asked *a, vf *sum, const int queries) {
    vi dot[4 * DIGITS];
    IG_UNROLL for (int i = 0; i < queries * DIGITS; i++) dot[i] =
        vi_set(a[i / DIGITS * MOST_BLOCKS].start[i % DIGITS]);
    IG_UNROLL for (int s = 0; s < COLUMN_WORDS; s++) {
        const vi key = vi_load(k->four[s]);
        IG_UNROLL for (int i = 0; i < queries * DIGITS; i++) {
            int32_t four;
            memcpy(&four, a[i / DIGITS * MOST_BLOCKS].digit[i % DIGITS] + 4 * s, sizeof four);
            dot[i] = vi_dot(dot[i], key, vi_set(four));
        }
    }
    const vf scale = vf_load(k->scale);
    IG_UNROLL for (int h = 0; h < queries; h++) {
        const vi *d = dot + h * DIGITS;
        const vf high = vi_to_float(vi_add(vi_left(d[2], 8), d[1]));
        const vf whole = vf_fma(high, vf_set(256), vi_to_float(d[0]));
        sum[h] = vf_fma(whole, vf_mul(scale, vf_set(a[h * MOST_BLOCKS].scale)), sum[h]);
    }
}

#endif
