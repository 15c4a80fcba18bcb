/*
 * rounded.h - activations as bytes, 32 at a time with a scale of their own.
 *
 * The largest magnitude of a block becomes 127.  What a block needs across its lanes, that
 * magnitude and the sum of its bytes, takes longer than all else, so four blocks go
 * together: their lanes change places until one vector has a number of each.
 */
#ifndef IG_BACKEND_CPU_ROUNDED_H
#define IG_BACKEND_CPU_ROUNDED_H

#include <math.h>

#include "backend/cpu/qgemm/weights_u8.h"

/* 32 activations.  `rest` is what the type of the weights needs besides, for each half or the first
 * for all: -zero times the sum of the bytes, an int32_t that may count from SHIFTED on; or scale
 * times that sum, a float. */
typedef struct rounded {
    int8_t q[IG_BLOCK];
    float scale;
    uint32_t rest[2];
} rounded;

enum { ROUND_TOGETHER = 4 };

/* Types of the same kind want activations rounded alike. */
static inline uint32_t rounded_kind(ig_dtype dtype) {
    return 1 + ((uint32_t)panel_types[dtype].kind << 8 | (uint32_t)panel_types[dtype].zero);
}

/* A number of each of the four: the compiler's own vectors. */
typedef float four_floats __attribute__((vector_size(16)));
typedef int32_t four_ints __attribute__((vector_size(16)));

/*
 * Scales have the eleven bits of a half, with a float's range.  More would be no better,
 * since the bytes have eight; but so have the blocks that llama.cpp makes of activations,
 * and with the same rounding products of blocks of 32 give what it gives, bit by bit of
 * noise, not only something as near.
 */
IG_INLINE four_ints to_eleven_bits(four_floats x) {
    const four_ints bits = (four_ints)x, odd = bits >> 13 & 1;
    return (bits + 0xfff + odd) & ~0x1fff;
}

/* The largest magnitudes of four blocks, as bits: these are in the order of the numbers. */
IG_INLINE four_ints largest_of(const float *const *x) {
    four_ints bits;
    vi largest[ROUND_TOGETHER];
    for (int b = 0; b < ROUND_TOGETHER; b++) {
        largest[b] = vi_set(0);
        for (int i = 0; i < IG_BLOCK; i += VF_LANES)
            largest[b] =
                vi_larger(largest[b], vi_and(vf_bits(vf_load(x[b] + i)), vi_set(INT32_MAX)));
    }
    vi_largest_of_4(largest, &bits);
    return bits;
}

/* Adding 1.5 * 2^23 leaves a number, rounded to nearest even, in the last bits. */
IG_INLINE void round_bytes(const float *x, float inverse, int32_t kept, vb32 *q) {
    enum { VECTORS = IG_BLOCK / VF_LANES };
    vi lanes[VECTORS];
    for (int i = 0; i < VECTORS; i++) {
        const vf scaled = vf_mul(vf_load(x + i * VF_LANES), vf_set(inverse));
        const vi shifted = vf_bits(vf_add(scaled, vf_of_bits(vi_set(SHIFTED))));
        lanes[i] = vi_and(vi_sub(shifted, vi_set(SHIFTED)), vi_set(kept));
    }
    vi_to_bytes(lanes, q);
}

/* What the whole number of a half, or of all, begins with, when all bytes are 0. */
IG_INLINE int32_t first_whole(const panel_kind kind, const int half) {
    return half < shifted_halves(kind) ? SHIFTED : 0;
}

/* What is needed of the bytes besides, from their sums. */
IG_INLINE four_ints rest_of(const panel_type *t, four_floats scale, four_ints sum, const int half) {
    if (kind_has_min(t->kind))
        return to_eleven_bits(scale * __builtin_convertvector(sum, four_floats));
    return sum * -t->zero + first_whole(t->kind, half);
}

/* Four blocks, which may be the same. */
IG_INLINE void round_four(const panel_type *t, const float *const *x, rounded *const *y) {
    const four_ints bits = largest_of(x), finite = bits < 0x7f800000;
    const four_floats most = (four_floats)bits, scale = most / 127;
    const four_ints inverse = (four_ints)(127 / most) & (bits > 0) & finite;
    const four_ints kept = (to_eleven_bits(scale) & finite) | (0x7fc00000 & ~finite);
    vb32 q[ROUND_TOGETHER];
    four_ints sum[2];
    for (int b = 0; b < ROUND_TOGETHER; b++) {
        round_bytes(x[b], ((four_floats)inverse)[b], finite[b], &q[b]);
        vb32_store(y[b]->q, &q[b]);
    }
    bytes_sum_halves(q, &sum[0], &sum[1]);
    if (kind_halves(t->kind) == 1) sum[0] += sum[1];
    const four_ints first = rest_of(t, scale, sum[0], 0), second = rest_of(t, scale, sum[1], 1);
    for (int b = 0; b < ROUND_TOGETHER; b++) {
        y[b]->scale = ((four_floats)kept)[b];
        y[b]->rest[0] = (uint32_t)first[b];
        y[b]->rest[1] = (uint32_t)second[b];
    }
}

/* `count` blocks, side by side. */
static inline void round_blocks(const panel_type *t, const float *x, int64_t count, rounded *y) {
    for (int64_t first = 0; first < count; first += ROUND_TOGETHER) {
        const float *from[ROUND_TOGETHER];
        rounded *to[ROUND_TOGETHER];
        for (int64_t b = 0; b < ROUND_TOGETHER; b++) { /* the last one stands in for those behind */
            const int64_t at = smaller(first + b, count - 1);
            from[b] = x + at * IG_BLOCK;
            to[b] = y + at;
        }
        round_four(t, from, to);
    }
}

#endif
