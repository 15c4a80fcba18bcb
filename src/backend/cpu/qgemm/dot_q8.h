/*
 * dots.h - the whole numbers of a block, and how they go into a sum: the chain of whole.h, for one
 * row and a vector of columns.
 */
#ifndef IG_BACKEND_CPU_DOTS_H
#define IG_BACKEND_CPU_DOTS_H

#include "backend/cpu/qgemm/weights_packed.h"
#include "backend/cpu/qgemm/activations_q8.h"

/* The whole number that one half of a block, or all of it, begins with. */
IG_INLINE vi whole_begin(const panel_kind kind, const rounded *x, const int half) {
    if (!kind_has_min(kind)) return vi_repeat(&x->rest[half]);
    return vi_set(first_whole(kind, half));
}

/* The first whole number of a block, times a scale. */
IG_INLINE vf scale_first(const panel_kind kind, vi whole, vf scale, vf below) {
    return kind_is_shifted(kind) ? vf_fma(vf_of_bits(whole), scale, below)
                                 : vf_mul(vi_to_float(whole), scale);
}

IG_INLINE vf add_min(const rounded *x, const int half, vf min, vf sum) {
    return vf_fma_repeated(min, &x->rest[half], sum);
}

/* `by` is the scale of the activations.  A number that has to be converted is ready later than the
 * product of both scales. */
IG_INLINE vf add_whole(const panel_kind kind, const float *by, vi whole, vf scale, vf below,
                       vf sum) {
    if (!kind_is_shifted(kind)) return vf_fma(vi_to_float(whole), vf_mul(scale, vf_set(*by)), sum);
    return vf_fma_repeated(scale_first(kind, whole, scale, below), by, sum);
}

/*
 * Steps whose products fit into 16 bits when they are summed in pairs: two times a byte times 127
 * each.  Bytes of two-scale types go up to 63, of other narrow ones to 31, and those of wide ones
 * are multiplied in halves of four bits.
 */
enum { RUN_SIXES = 2, RUN_FIVES = 4, RUN_FOURS = 8, WIDE_ROWS = 2 /* at once */ };
static_assert(RUN_SIXES * 2 * 63 * 127 <= INT16_MAX && RUN_FIVES * 2 * 31 * 127 <= INT16_MAX &&
                  RUN_FOURS * 2 * 15 * 127 <= INT16_MAX,
              "no sum of pairs is cut off");

IG_INLINE vi low_bits(vi u) { return vi_and(u, vi_set(0x0f0f0f0f)); }
IG_INLINE vi high_bits(vi u) { return low_bits(vi_right(u, 4)); }

/* Adds the products of `count` steps of wide bytes, for some rows at once: halves of bytes are made
 * for all of them. */
IG_INLINE void dot_wide(vi *whole, const vi *w, const int8_t *const *q, const int count,
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
        whole[r] = vi_add(whole[r], vi_add(vi_pairs_sum(low[r], 1), vi_pairs_sum(high[r], 16)));
}

/* The same of narrow ones. */
IG_INLINE vi dot_narrow(vi whole, const vi *w, const int8_t *q, const int count, const int most) {
    IG_UNROLL
    for (int first = 0; first < count; first += most) {
        vi pairs = vi_set(0);
        IG_UNROLL
        for (int j = first; j < first + most; j++)
            pairs = vi_dot_pairs(pairs, w[j], vi_repeat(q + 4 * j));
        whole = vi_add(whole, vi_pairs_sum(pairs, 1));
    }
    return whole;
}

IG_INLINE vi dot_in_pairs(vi whole, const vi *w, const int8_t *q, const int count, const int most,
                          const bool is_wide) {
    if (is_wide)
        dot_wide(&whole, w, &q, count, 1);
    else
        whole = dot_narrow(whole, w, q, count, most);
    return whole;
}

#endif
