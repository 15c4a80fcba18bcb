/*
 * sum_row.h - adding up a row so that it is exact enough and always in the same order.
 *
 * Four vectors add up terms side by side, sixteen to a chain; what they hold
 * then goes, as one number, into a double.  A million terms are good to 1e-6
 * that way, and the order depends on nothing but the length of the row.
 */
#ifndef IG_BACKEND_CPU_SUM_ROW_H
#define IG_BACKEND_CPU_SUM_ROW_H

#include <math.h>

#include "backend/cpu/strided.h"

enum { SUM_CHAINS = 4, SUM_BLOCK = SUM_CHAINS * 16 * VF_LANES };

/* Terms [i, i + n) of a row, n <= VF_LANES.  It may store what it computes on the way. */
typedef vf term_fn(int64_t i, int64_t n, const void *of);

/* The sum of terms [first, end), no more than SUM_BLOCK. */
IG_INLINE float sum_block(int64_t first, int64_t end, term_fn *term, const void *of) {
    vf sum[SUM_CHAINS];
    for (int c = 0; c < SUM_CHAINS; c++) sum[c] = vf_set(0);
    int64_t i = first;
    for (; i + SUM_CHAINS * VF_LANES <= end; i += SUM_CHAINS * VF_LANES)
        for (int c = 0; c < SUM_CHAINS; c++)
            sum[c] = vf_add(sum[c], term(i + c * VF_LANES, VF_LANES, of));
    for (int c = 0; c < SUM_CHAINS; c++, i += VF_LANES) {
        if (i >= end) break;
        const int64_t n = min_i64(end - i, VF_LANES);
        sum[c] = vf_add(sum[c], vf_part(term(i, n, of), vf_set(0), n));
    }
    return vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

/* The sum of terms [0, n). */
IG_INLINE double sum_terms(int64_t n, term_fn *term, const void *of) {
    double total = 0;
    for (int64_t i = 0; i < n; i += SUM_BLOCK)
        total += (double)sum_block(i, min_i64(i + SUM_BLOCK, n), term, of);
    return total;
}

/* The largest of x[0] to x[n - 1], a NaN if there is one, -infinity if there are none. */
IG_INLINE float largest_of(const float *x, int64_t n) {
    const vf least = vf_set(-INFINITY);
    vf best[SUM_CHAINS];
    for (int c = 0; c < SUM_CHAINS; c++) best[c] = least;
    int64_t i = 0;
    for (; i + SUM_CHAINS * VF_LANES <= n; i += SUM_CHAINS * VF_LANES)
        for (int c = 0; c < SUM_CHAINS; c++)
            best[c] = vf_larger(best[c], vf_load(x + i + c * VF_LANES));
    for (; i < n; i += VF_LANES) {
        const int64_t m = min_i64(n - i, VF_LANES);
        best[0] = vf_larger(best[0], vf_part(vf_load_first(x + i, m), least, m));
    }
    return vf_largest(vf_larger(vf_larger(best[0], best[1]), vf_larger(best[2], best[3])));
}

#endif
