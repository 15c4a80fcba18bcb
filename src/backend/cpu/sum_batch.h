/*
 * parts.h - a sum over all samples of a batch, in parts.
 *
 *     samples   [ part 0 | part 1 | part 2 | ... ]
 *                   |        |        |            each has a sum of its own, in the scratch;
 *                   +---- + -+--- + --+-- ...      when all are there, they are added in order
 *
 * Gradients of parameters are such sums: few results, many terms, which several
 * threads have just computed.  One thread would have to get the others' from their
 * caches; this way each adds up its own, and only sums move.  How a batch is cut
 * depends on its size alone, and so do the bits.
 */
#ifndef IG_BACKEND_CPU_PARTS_H
#define IG_BACKEND_CPU_PARTS_H

#include "backend/cpu/strided.h"

enum { PART_LEAST = 256, PART_MOST = 16 }; /* samples of a part, and parts of a batch */

/* Of a part, so that each is claimed by itself: who has computed it adds it up. */
#define PART_COST INT64_MAX

typedef struct parts {
    int64_t size, count; /* samples of one; 1: it is not cut */
} parts;

static inline parts parts_of(int64_t samples) {
    if (samples < 2 * PART_LEAST) return (parts){samples, 1};
    int64_t size = (samples + PART_MOST - 1) / PART_MOST;
    if (size < PART_LEAST) size = PART_LEAST;
    return (parts){size, (samples + size - 1) / size};
}

/* y = the sum of so many vectors of n elements, that lie `stride` apart. */
static inline void parts_add(const float *x, int64_t count, int64_t stride, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i += VF_LANES) {
        const int64_t lanes = smaller(n - i, VF_LANES);
        vf sum = vf_load_first(x + i, lanes);
        for (int64_t s = 1; s < count; s++)
            sum = vf_add(sum, vf_load_first(x + s * stride + i, lanes));
        vf_store_first(y + i, sum, lanes);
    }
}

#endif
