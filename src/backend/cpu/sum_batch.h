/*
 * sum_batch.h - a sum over all samples of a batch, as a split reduction.
 *
 *     samples   [ split 0 | split 1 | split 2 | ... ]
 *                    |         |         |            each has partial sums in the scratch;
 *                    +---- + --+--- + ---+-- ...      at the end they are added in order
 *
 * Gradients of parameters are such sums: few results, many terms, which several threads have just
 * computed.  A single thread would fetch them from the caches of the others; this way each thread
 * adds up its own, and only partial sums move.  The split depends on the batch size alone, so the
 * bits do not depend on the threads.
 */
#ifndef IG_BACKEND_CPU_SUM_BATCH_H
#define IG_BACKEND_CPU_SUM_BATCH_H

#include "backend/cpu/strided.h"

enum { SPLIT_MIN_SAMPLES = 256, SPLIT_MAX = 16 }; /* samples of a split; splits of a batch */

/* Of a split, so that each is claimed by itself, by the thread that computed its terms. */
#define SPLIT_COST INT64_MAX

typedef struct batch_split {
    int64_t size, count; /* samples of one; 1: not split */
} batch_split;

static inline batch_split batch_split_of(int64_t samples) {
    if (samples < 2 * SPLIT_MIN_SAMPLES) return (batch_split){samples, 1};
    int64_t size = (samples + SPLIT_MAX - 1) / SPLIT_MAX;
    if (size < SPLIT_MIN_SAMPLES) size = SPLIT_MIN_SAMPLES;
    return (batch_split){size, (samples + size - 1) / size};
}

/* y = the sum of `count` vectors of n elements, `stride` apart. */
static inline void batch_split_add(const float *x, int64_t count, int64_t stride, int64_t n,
                                   float *y) {
    for (int64_t i = 0; i < n; i += VF_LANES) {
        const int64_t lanes = min_i64(n - i, VF_LANES);
        vf sum = vf_load_first(x + i, lanes);
        for (int64_t s = 1; s < count; s++)
            sum = vf_add(sum, vf_load_first(x + s * stride + i, lanes));
        vf_store_first(y + i, sum, lanes);
    }
}

#endif
