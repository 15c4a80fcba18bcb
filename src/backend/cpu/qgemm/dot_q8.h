/*
 * dot_q8.h - int8 dot products of a block, and how an accumulator goes into the F32 sum.
 *
 * One row of activations times a vector of columns; qtypes.h has the formulas.
 */
#ifndef IG_BACKEND_CPU_QGEMM_DOT_Q8_H
#define IG_BACKEND_CPU_QGEMM_DOT_Q8_H

#include "backend/cpu/qgemm/packed_read.h"

/* The accumulator of scale group `sg` before the first step. */
IG_INLINE vi acc_init(const quant_kind kind, const act_q8 *x, const int sg) {
    if (!kind_has_min(kind)) return vi_repeat(&x->correction[sg]);
    return vi_set(acc_start(kind, sg));
}

/* scale * acc, where acc started from MAGIC_BITS or from 0. */
IG_INLINE vf scale_acc(const quant_kind kind, vi acc, vf scale, vf magic_bias) {
    return kind_uses_magic(kind) ? vf_fma(vf_of_bits(acc), scale, magic_bias)
                                 : vf_mul(vi_to_float(acc), scale);
}

IG_INLINE vf add_min(const act_q8 *x, const int sg, vf min, vf sum) {
    return vf_fma_repeated(min, &x->correction[sg], sum);
}

/* sum + *by * scale * acc, with `by` the scale of the activations.  Both scales are multiplied
 * while acc is converted. */
IG_INLINE vf accumulate_i32(const quant_kind kind, const float *by, vi acc, vf scale, vf magic_bias,
                            vf sum) {
    if (!kind_uses_magic(kind)) return vf_fma(vi_to_float(acc), vf_mul(scale, vf_set(*by)), sum);
    return vf_fma_repeated(scale_acc(kind, acc, scale, magic_bias), by, sum);
}

/*
 * Steps whose products fit into 16 bits when they are summed in pairs: two times a byte times 127
 * each.  Bytes of two-scale types go up to 63, of other narrow ones to 31; wide ones are split into
 * nibbles.
 */
enum { STEPS_6BIT = 2, STEPS_5BIT = 4, STEPS_4BIT = 8, WIDE_ROWS = 2 /* at once */ };
static_assert(STEPS_6BIT * 2 * 63 * 127 <= INT16_MAX && STEPS_5BIT * 2 * 31 * 127 <= INT16_MAX &&
                  STEPS_4BIT * 2 * 15 * 127 <= INT16_MAX,
              "no sum of pairs is cut off");

IG_INLINE vi low_bits(vi u) { return vi_and(u, vi_set(0x0f0f0f0f)); }
IG_INLINE vi high_bits(vi u) { return low_bits(vi_right(u, 4)); }

/* Adds `count` steps of wide bytes to the accumulators of several rows: weights are split into
 * nibbles once for all rows. */
IG_INLINE void dot_wide(vi *acc, const vi *w, const int8_t *const *q, const int count,
                        const int rows) {
    vi low[WIDE_ROWS], high[WIDE_ROWS];
    IG_UNROLL
    for (int r = 0; r < rows; r++) low[r] = high[r] = vi_set(0);
    IG_UNROLL
    for (int j = 0; j < count; j++) {
        const vi first = low_bits(w[j]), second = high_bits(w[j]);
        IG_UNROLL
        for (int r = 0; r < rows; r++) {
            const vi bytes = vi_repeat(q[r] + 4 * j);
            low[r] = vi_dot_pairs(low[r], first, bytes);
            high[r] = vi_dot_pairs(high[r], second, bytes);
            if (rows > 1) vi_hide(&low[r]);  /* or a compiler puts sums off, and */
            if (rows > 1) vi_hide(&high[r]); /* all products of the block in memory */
        }
    }
    IG_UNROLL
    for (int r = 0; r < rows; r++)
        acc[r] = vi_add(acc[r], vi_add(vi_pairs_sum(low[r], 1), vi_pairs_sum(high[r], 16)));
}

/* The same of narrow ones. */
IG_INLINE vi dot_narrow(vi acc, const vi *w, const int8_t *q, const int count, const int most) {
    IG_UNROLL
    for (int first = 0; first < count; first += most) {
        vi pairs = vi_set(0);
        IG_UNROLL
        for (int j = first; j < first + most; j++)
            pairs = vi_dot_pairs(pairs, w[j], vi_repeat(q + 4 * j));
        acc = vi_add(acc, vi_pairs_sum(pairs, 1));
    }
    return acc;
}

IG_INLINE vi dot_in_pairs(vi acc, const vi *w, const int8_t *q, const int count, const int most,
                          const bool is_wide) {
    if (is_wide)
        dot_wide(&acc, w, &q, count, 1);
    else
        acc = dot_narrow(acc, w, q, count, most);
    return acc;
}

/* 8-bit weights are steps as they lie.  With AMX, several rows share a block: its lines are loaded,
 * and later ones prefetched, between the dots. */
IG_INLINE bool reads_lines(const ig_dtype type) {
    return HAS_TILES && packed_types[type].form == BITS_8;
}

typedef enum prefetch_level { PREFETCH_L1, PREFETCH_L2 } prefetch_level;

/* L2 in most cases: L1 tracks only a few outstanding lines. */
IG_INLINE void prefetch(const uint8_t *p, const int bytes, const prefetch_level to) {
    IG_UNROLL
    for (int i = 0; i < bytes; i += LINE)
        if (to == PREFETCH_L1)
            __builtin_prefetch(p + i, 0, 3);
        else
            __builtin_prefetch(p + i, 0, 2);
}

/* Makes the compiler forget what w was unpacked from: gcc would keep both in registers. */
IG_INLINE void keep_unpacked(vi *w) {
    IG_UNROLL
    for (int j = 0; j < STEPS; j++) vi_hide(&w[j]);
}

#endif
