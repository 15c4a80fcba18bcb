/*
 * vec_dot_u8s8.h - int8 dot products, beside the operations of vec.h.
 *
 * vi_dot adds to each 32-bit lane the four products of its bytes: those of `u`
 * count from 0 to 255, those of `s` from -128 to 127.  Without VNNI two
 * neighboring products are first summed in 16 bits, where large ones saturate;
 * up to 127 in `u` they do not, and larger ones are split into nibbles (dot_q8.h).
 */
#ifndef IG_BACKEND_CPU_SIMD_VEC_DOT_U8S8_H
#define IG_BACKEND_CPU_SIMD_VEC_DOT_U8S8_H

#include "backend/cpu/simd/vec.h"

#if defined(__AVX512VNNI__)
enum { DOT_IS_FAST = 1 }; /* and exact for all bytes */
IG_INLINE vi vi_dot(vi acc, vi u, vi s) { return _mm512_dpbusd_epi32(acc, u, s); }
IG_INLINE void vi_hide(vi *x) { __asm__("" : "+v"(*x)); }
#elif defined(__AVX512BW__)
enum { DOT_IS_FAST = 0 };
IG_INLINE vi vi_dot(vi acc, vi u, vi s) {
    const vi pairs = _mm512_maddubs_epi16(u, s);
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
IG_INLINE void vi_hide(vi *x) { __asm__("" : "+v"(*x)); }
#elif defined(__AVX2__)
enum { DOT_IS_FAST = 0 };
IG_INLINE vi vi_dot(vi acc, vi u, vi s) {
    const vi pairs = _mm256_maddubs_epi16(u, s);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
IG_INLINE void vi_hide(vi *x) { __asm__("" : "+x"(*x)); }
#else
enum { DOT_IS_FAST = 0 };
IG_INLINE vi vi_dot(vi acc, vi u, vi s) {
    for (int i = 0; i < 4; i++) {
        const int32_t a = (int32_t)((uint32_t)u >> (8 * i) & 255);
        const int32_t b = (int8_t)((uint32_t)s >> (8 * i) & 255);
        acc = vi_add(acc, a * b);
    }
    return acc;
}
/* The compiler takes the value for another one from here on, so it cannot work ahead with it. */
IG_INLINE void vi_hide(vi *x) { __asm__("" : "+r"(*x)); }
#endif

/* Four bytes, the same in all lanes. */
IG_INLINE vi vi_repeat(const void *four_bytes) {
    int32_t x;
    memcpy(&x, four_bytes, sizeof x);
    return vi_set(x);
}

/*
 * *acc += products; for loops of more sums than gcc keeps in registers.  The second
 * takes four bytes for all lanes out of memory by itself: where a hyperthread computes on the same
 * core, instructions are what is short, and one that only loads is one too many
 * (docs/decisions/0048).
 */
#if defined(__AVX512VNNI__)
IG_INLINE void vi_add_dot(vi *acc, vi u, vi s) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*acc) : "v"(u), "v"(s));
}
#else
IG_INLINE void vi_add_dot(vi *acc, vi u, vi s) { *acc = vi_dot(*acc, u, s); }
#endif
#if defined(__AVX512VNNI__) && !IG_WATCHED
IG_INLINE void vi_add_dot_repeated(vi *acc, vi u, const void *four_bytes) {
    typedef int32_t four __attribute__((aligned(1), may_alias));
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(*acc) : "v"(u), "m"(*(const four *)four_bytes));
}
#else
IG_INLINE void vi_add_dot_repeated(vi *acc, vi u, const void *four_bytes) {
    vi_add_dot(acc, u, vi_repeat(four_bytes));
}
#endif

/*
 * Several products in a row, where that is faster: without VNNI, sums stay in 16 bits as long as
 * they fit, and vi_pairs_sum() makes 32 of them, times `by`.
 */
#if defined(__AVX512BW__) && !defined(__AVX512VNNI__)
enum { DOT_IN_PAIRS = 1 };
IG_INLINE vi vi_dot_pairs(vi pairs, vi u, vi s) {
    return _mm512_add_epi16(pairs, _mm512_maddubs_epi16(u, s));
}
IG_INLINE vi vi_pairs_sum(vi pairs, int16_t by) {
    return _mm512_madd_epi16(pairs, _mm512_set1_epi16(by));
}
#elif defined(__AVX2__) && !defined(__AVX512VNNI__)
enum { DOT_IN_PAIRS = 1 };
IG_INLINE vi vi_dot_pairs(vi pairs, vi u, vi s) {
    return _mm256_add_epi16(pairs, _mm256_maddubs_epi16(u, s));
}
IG_INLINE vi vi_pairs_sum(vi pairs, int16_t by) {
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(by));
}
#else
enum { DOT_IN_PAIRS = 0 };
IG_INLINE vi vi_dot_pairs(vi pairs, vi u, vi s) { return vi_dot(pairs, u, s); }
IG_INLINE vi vi_pairs_sum(vi pairs, int16_t by) {
    vi sum = vi_set(0);
    for (int i = 0; i < by; i++) sum = vi_add(sum, pairs);
    return sum;
}
#endif

#endif
