#include "nn/data_order.h"

#include <assert.h>

#include "base/random.h"

enum { ROUNDS = 6 };

uint32_t ig_data_draw(uint64_t seed, uint64_t epoch, uint32_t what, uint32_t number) {
    const ig_philox counter = {{number, what, (uint32_t)epoch, (uint32_t)(epoch >> 32)}};
    return ig_philox_block((uint32_t)seed, (uint32_t)(seed >> 32), counter).word[0];
}

/* A Feistel network permutes numbers of 2 x half bits; results beyond the count are permuted again
 * until they are in range (cycle walking). */
uint64_t ig_data_permute(uint64_t i, uint64_t count, uint64_t seed, uint64_t epoch) {
    assert(i < count);
    unsigned half = 1;
    while (half < 32 && (count - 1) >> (2 * half) > 0) half++;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = i >> half & mask, right = i & mask;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            const uint64_t mixed =
                left ^ (ig_data_draw(seed, epoch, round, (uint32_t)right) & mask);
            left = right;
            right = mixed;
        }
        i = left << half | right;
    } while (i >= count);
    return i;
}
