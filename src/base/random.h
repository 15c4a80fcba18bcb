/*
 * random.h - counter-based random numbers.
 *
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): number i of a
 * stream is a function of i, so any thread, device or replay can compute it independently. Stream =
 * key (the seed) and the upper counter words.
 */
#ifndef IG_BASE_RANDOM_H
#define IG_BASE_RANDOM_H

#include <stdint.h>

typedef struct ig_philox {
    uint32_t word[4];
} ig_philox;

static inline ig_philox ig_philox_block(uint32_t seed0, uint32_t seed1, ig_philox counter) {
    uint32_t k0 = seed0, k1 = seed1;
    ig_philox c = counter;
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c.word[0];
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * c.word[2];
        c = (ig_philox){{(uint32_t)(p1 >> 32) ^ c.word[1] ^ k0, (uint32_t)p1,
                         (uint32_t)(p0 >> 32) ^ c.word[3] ^ k1, (uint32_t)p0}};
    }
    return c;
}

/* 32 random bits: number `i` of stream (seed, step, ordinal), as used by random ops. Numbers 4j to
 * 4j + 3 come from one block, whose counter is {j, j >> 32 ^ step >> 32 << 16, step, ordinal}. */
static inline ig_philox ig_random_block(const uint32_t seed[2], uint64_t step, uint32_t ordinal,
                                        uint64_t j) {
    const uint32_t high = (uint32_t)(j >> 32) ^ (uint32_t)(step >> 32) << 16;
    return ig_philox_block(seed[0], seed[1],
                           (ig_philox){{(uint32_t)j, high, (uint32_t)step, ordinal}});
}

static inline uint32_t ig_random_bits(const uint32_t seed[2], uint64_t step, uint32_t ordinal,
                                      uint64_t i) {
    return ig_random_block(seed, step, ordinal, i / 4).word[i % 4];
}

/* Dropout keeps element i if its bits are at least this. */
static inline uint32_t ig_random_threshold(float p) {
    return p >= 1 ? UINT32_MAX : (uint32_t)((double)p * 4294967296.0);
}

#endif
