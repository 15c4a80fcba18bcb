/*
 * vec_bytes.h - sixteen or thirty-two bytes at a time, beside the operations of vec.h.
 *
 * The compiler's own vectors: &, | and >> work on them byte by byte, on every
 * instruction set.
 */
#ifndef IG_BACKEND_CPU_VEC_BYTES_H
#define IG_BACKEND_CPU_VEC_BYTES_H

#include "backend/cpu/vec.h"

typedef uint8_t vb16 __attribute__((vector_size(16)));
typedef uint8_t vb32 __attribute__((vector_size(32)));

IG_INLINE void vb16_load(vb16 *x, const void *p) { memcpy(x, p, sizeof *x); }
IG_INLINE void vb16_store(void *p, const vb16 *x) { memcpy(p, x, sizeof *x); }
IG_INLINE void vb32_load(vb32 *x, const void *p) { memcpy(x, p, sizeof *x); }
IG_INLINE void vb32_store(void *p, const vb32 *x) { memcpy(p, x, sizeof *x); }

/* Each byte, from 0 to 15, becomes that number of the table. */
#if defined(__SSSE3__)
IG_INLINE void vb16_look_up(vb16 *x, const uint8_t *table) {
    const __m128i all = _mm_loadu_si128((const __m128i *)table);
    *x = (vb16)_mm_shuffle_epi8(all, (__m128i)*x);
}
#else
IG_INLINE void vb16_look_up(vb16 *x, const uint8_t *table) {
    for (int i = 0; i < 16; i++) (*x)[i] = table[(*x)[i]];
}
#endif

/* Byte i is `one` where bit i is set, else 0. */
IG_INLINE void vb32_spread(vb32 *x, uint32_t bits, uint8_t one) {
    uint64_t repeated[4];
    for (int i = 0; i < 4; i++) repeated[i] = (bits >> 8 * i & 255) * 0x0101010101010101u;
    const uint64_t each = 0x8040201008040201u;
    const uint64_t place[4] = {each, each, each, each};
    vb32 mask;
    memcpy(x, repeated, sizeof *x);
    memcpy(&mask, place, sizeof mask);
    *x = (vb32)((*x & mask) != 0) & one;
}

#endif
