/*
 * activations_q8.h - F32 activations to int8, 32 at a time with a scale each.
 *
 * The largest magnitude of a block becomes 127.  The reductions across lanes, that magnitude and
 * the sum of the bytes, cost more than all else, so four blocks are transposed until one vector has
 * a value of each.
 */
#ifndef IG_BACKEND_CPU_QGEMM_ACTIVATIONS_Q8_H
#define IG_BACKEND_CPU_QGEMM_ACTIVATIONS_Q8_H

#include "backend/cpu/qgemm/qtypes.h"
#include "backend/cpu/simd/vec_bytes.h"

enum { ACT_BLOCKS = 4 };

/* Types with equal values share quantized activations. */
static inline uint32_t act_q8_kind(ig_dtype dtype) {
    return 1 + ((uint32_t)quant_types[dtype].kind << 8 | (uint32_t)quant_types[dtype].zero_point);
}

/* A value of each of the four blocks, as vector extensions of the compiler. */
typedef float four_floats __attribute__((vector_size(16)));
typedef int32_t four_ints __attribute__((vector_size(16)));

/* Scales have the eleven significant bits of F16, with the range of F32.  llama.cpp stores the
 * scales of activations as F16: with the same rounding, blocks of 32 give its results. */
IG_INLINE four_ints round_to_11_bits(four_floats x) {
    const four_ints bits = (four_ints)x, odd = bits >> 13 & 1;
    return (bits + 0xfff + odd) & ~0x1fff;
}

/* The largest magnitudes of four blocks, as bits: these are in the order of the numbers. */
IG_INLINE four_ints largest_of(const float *const *x) {
    four_ints bits;
    vi largest[ACT_BLOCKS];
    for (int b = 0; b < ACT_BLOCKS; b++) {
        largest[b] = vi_set(0);
        for (int i = 0; i < IG_BLOCK; i += VF_LANES)
            largest[b] =
                vi_larger(largest[b], vi_and(vf_bits(vf_load(x[b] + i)), vi_set(INT32_MAX)));
    }
    vi_largest_of_4(largest, &bits);
    return bits;
}

/* Adding 1.5 * 2^23 leaves the number, rounded to nearest even, in the low bits. */
IG_INLINE void quantize_bytes(const float *x, float inverse, int32_t kept, vb32 *q) {
    enum { VECTORS = IG_BLOCK / VF_LANES };
    vi lanes[VECTORS];
    for (int i = 0; i < VECTORS; i++) {
        const vf scaled = vf_mul(vf_load(x + i * VF_LANES), vf_set(inverse));
        const vi biased = vf_bits(vf_add(scaled, vf_of_bits(vi_set(MAGIC_BITS))));
        lanes[i] = vi_and(vi_sub(biased, vi_set(MAGIC_BITS)), vi_set(kept));
    }
    vi_to_bytes(lanes, q);
}

/* act_q8.correction from the sums of bytes. */
IG_INLINE four_ints correction_of(const quant_type *t, four_floats scale, four_ints sum,
                                  const int sg) {
    if (kind_has_min(t->kind))
        return round_to_11_bits(scale * __builtin_convertvector(sum, four_floats));
    return sum * -t->zero_point + acc_start(t->kind, sg);
}

/* Four blocks, which may be the same. */
IG_INLINE void quantize_four(const quant_type *t, const float *const *x, act_q8 *const *y) {
    const four_ints bits = largest_of(x), finite = bits < 0x7f800000;
    const four_floats most = (four_floats)bits, scale = most / 127;
    const four_ints inverse = (four_ints)(127 / most) & (bits > 0) & finite;
    const four_ints kept = (round_to_11_bits(scale) & finite) | (0x7fc00000 & ~finite);
    vb32 q[ACT_BLOCKS];
    four_ints sum[2];
    for (int b = 0; b < ACT_BLOCKS; b++) {
        quantize_bytes(x[b], ((four_floats)inverse)[b], finite[b], &q[b]);
        vb32_store(y[b]->q, &q[b]);
    }
    sum_bytes_by_16(q, &sum[0], &sum[1]);
    if (scales_per_block(t->kind) == 1) sum[0] += sum[1];
    const four_ints first = correction_of(t, scale, sum[0], 0),
                    second = correction_of(t, scale, sum[1], 1);
    for (int b = 0; b < ACT_BLOCKS; b++) {
        y[b]->scale = ((four_floats)kept)[b];
        y[b]->correction[0] = (uint32_t)first[b];
        y[b]->correction[1] = (uint32_t)second[b];
    }
}

/* `count` contiguous blocks. */
static inline void quantize_blocks(const quant_type *t, const float *x, int64_t count, act_q8 *y) {
    for (int64_t first = 0; first < count; first += ACT_BLOCKS) {
        const float *from[ACT_BLOCKS];
        act_q8 *to[ACT_BLOCKS];
        for (int64_t b = 0; b < ACT_BLOCKS; b++) { /* the last one repeats */
            const int64_t at = min_i64(first + b, count - 1);
            from[b] = x + at * IG_BLOCK;
            to[b] = y + at;
        }
        quantize_four(t, from, to);
    }
}

#endif
