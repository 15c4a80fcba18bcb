/*
 * vec_bytes.h - sixteen or thirty-two bytes at a time, beside the operations of vec.h.
 *
 * The compiler's own vectors: &, | and >> work on them byte by byte, on every
 * instruction set.
 */
#ifndef IG_BACKEND_CPU_SIMD_VEC_BYTES_H
#define IG_BACKEND_CPU_SIMD_VEC_BYTES_H

#include "backend/cpu/simd/vec.h"

typedef uint8_t vb16 __attribute__((vector_size(16)));
typedef uint8_t vb32 __attribute__((vector_size(32)));

IG_INLINE void vb16_load(vb16 *x, const void *p) { memcpy(x, p, sizeof *x); }
IG_INLINE void vb32_load(vb32 *x, const void *p) { memcpy(x, p, sizeof *x); }
IG_INLINE void vb32_store(void *p, const vb32 *x) { memcpy(p, x, sizeof *x); }

IG_INLINE void vb32_join(vb32 *x, vb16 low, vb16 high) {
    *x = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
                                 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
}

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

/* The same for each byte of 32-bit lanes. */
#if defined(__AVX512BW__)
IG_INLINE vi vi_look_up(vi x, const uint8_t *table) {
    const __m128i all = _mm_loadu_si128((const __m128i *)table);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(all), x);
}
#elif defined(__AVX2__)
IG_INLINE vi vi_look_up(vi x, const uint8_t *table) {
    const __m128i all = _mm_loadu_si128((const __m128i *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(all), x);
}
#else
IG_INLINE vi vi_look_up(vi x, const uint8_t *table) {
    uint32_t y = 0;
    for (int i = 0; i < 32; i += 8) y |= (uint32_t)table[(uint32_t)x >> i & 15] << i;
    return (vi)y;
}
#endif

/* VF_LANES bytes with a sign, as lanes; and the lanes of some vectors, 32 in all from -128 to 127,
 * as bytes.  The larger of two lanes. */
#if defined(__AVX512BW__)
IG_INLINE vi vi_load_i8(const void *p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128(p)); }
IG_INLINE void vi_to_bytes(const vi *x, vb32 *bytes) {
    const __m128i low = _mm512_cvtepi32_epi8(x[0]), high = _mm512_cvtepi32_epi8(x[1]);
    *bytes = (vb32)_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
IG_INLINE vi vi_larger(vi a, vi b) { return _mm512_max_epi32(a, b); }
#elif defined(__AVX2__)
IG_INLINE vi vi_load_i8(const void *p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64(p)); }
IG_INLINE void vi_to_bytes(const vi *x, vb32 *bytes) {
    const __m256i a = _mm256_packs_epi32(x[0], x[1]), b = _mm256_packs_epi32(x[2], x[3]);
    const __m256i order =
        _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* packs stay within 128 bits */
    *bytes = (vb32)_mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order);
}
IG_INLINE vi vi_larger(vi a, vi b) { return _mm256_max_epi32(a, b); }
#else
IG_INLINE vi vi_load_i8(const void *p) { return *(const int8_t *)p; }
IG_INLINE void vi_to_bytes(const vi *x, vb32 *bytes) {
    for (int i = 0; i < 32; i++) (*bytes)[i] = (uint8_t)x[i];
}
IG_INLINE vi vi_larger(vi a, vi b) { return a > b ? a : b; }
#endif

/* The largest lane of each of four vectors.  Two change places by ones, then two by twos. */
#if defined(__AVX2__)
IG_INLINE __m256i largest_pairs(__m256i a, __m256i b) {
    return _mm256_max_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
IG_INLINE void vi_largest_of_4(const vi *x, void *y) {
    __m256i z[4];
    for (int i = 0; i < 4; i++)
#    if defined(__AVX512BW__)
        z[i] = _mm256_max_epi32(_mm512_castsi512_si256(x[i]), _mm512_extracti64x4_epi64(x[i], 1));
#    else
        z[i] = x[i];
#    endif
    const __m256i a = largest_pairs(z[0], z[1]), b = largest_pairs(z[2], z[3]);
    const __m256i all = _mm256_max_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    const __m128i high = _mm256_extracti128_si256(all, 1);
    _mm_storeu_si128(y, _mm_max_epi32(_mm256_castsi256_si128(all), high));
}
#else
IG_INLINE void vi_largest_of_4(const vi *x, void *y) { memcpy(y, x, 4 * sizeof *x); }
#endif

/* Of four times 32 bytes with a sign, what the first sixteen add up to, and what the others do. */
#if defined(__AVX2__)
IG_INLINE void sum_bytes_by_16(const vb32 *q, void *first, void *second) {
    __m256i x[4];
    for (int i = 0; i < 4; i++) {
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), (__m256i)q[i]);
        x[i] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    }
    const __m256i a = _mm256_hadd_epi32(x[0], x[1]), b = _mm256_hadd_epi32(x[2], x[3]);
    const __m256i all = _mm256_hadd_epi32(a, b);
    _mm_storeu_si128(first, _mm256_castsi256_si128(all));
    _mm_storeu_si128(second, _mm256_extracti128_si256(all, 1));
}
#else
IG_INLINE void sum_bytes_by_16(const vb32 *q, void *first, void *second) {
    int32_t sum[2][4] = {{0}};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 32; k++) sum[k / 16][i] += (int8_t)q[i][k];
    memcpy(first, sum[0], sizeof sum[0]);
    memcpy(second, sum[1], sizeof sum[1]);
}
#endif

/* Byte i is `one` where bit i is set, else 0. */
IG_INLINE void vb32_spread(vb32 *x, uint32_t bits, uint8_t one) {
    static const vb32 place = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128,
                               1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
#if defined(__AVX2__)
    const __m256i from =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const vb32 repeated = (vb32)_mm256_shuffle_epi8(_mm256_set1_epi32((int32_t)bits), from);
#else
    vb32 repeated;
    for (int i = 0; i < 32; i++) repeated[i] = (uint8_t)(bits >> i / 8 * 8);
#endif
    *x = (vb32)((repeated & place) != 0) & one;
}

/*
 * Sixteen rows of eight bytes -> eight columns of sixteen.  A byte is number
 * r3 r2 r1 r0 c2 c1 c0 in binary; interleaving the first half of all with the second
 * turns these digits by one, and after four times the columns stand before the rows.
 */
IG_INLINE void vb16_transpose(const uint64_t *rows, vb16 *columns) {
    vb16 from[8];
    memcpy(from, rows, sizeof from);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 4; i++) {
            const vb16 a = from[i], b = from[i + 4];
            columns[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                                                     6, 22, 7, 23);
            columns[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                                         13, 29, 14, 30, 15, 31);
        }
        memcpy(from, columns, sizeof from);
    }
}

#endif
