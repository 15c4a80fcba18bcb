/*
 * vec_rows.h - vectors that hold pieces of several rows, beside the operations of vec.h.
 *
 * Many products of one row with others end in as many sums across lanes.  The fewer lanes
 * belong to one of them, the fewer steps that takes: a vector of sixteen lanes holds eight
 * numbers of one row and eight of another.
 *
 *     VF_ROWS   rows of a vector        lane = row * VF_ROW + number
 *     VF_ROW    lanes of each
 */
#ifndef IG_BACKEND_CPU_VEC_ROWS_H
#define IG_BACKEND_CPU_VEC_ROWS_H

#include "backend/cpu/vec_bytes.h"

#if defined(__AVX512BW__)

enum { VF_ROWS = 2, VF_ROW = 8 };

/* The same numbers for each row. */
IG_INLINE vf vf_repeat(const float *p) { return _mm512_broadcast_f32x8(_mm256_loadu_ps(p)); }

/* The numbers at p, and those `step` bytes behind. */
IG_INLINE vf vf_rows_f32(const char *p, int64_t step) {
    const __m256 a = _mm256_loadu_ps((const float *)p),
                 b = _mm256_loadu_ps((const void *)(p + step));
    return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
}
IG_INLINE __m256i pieces_of_rows(const char *p, int64_t step) {
    const __m128i a = _mm_loadu_si128((const void *)p),
                  b = _mm_loadu_si128((const void *)(p + step));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}
IG_INLINE vf vf_rows_f16(const char *p, int64_t step) {
    return _mm512_cvtph_ps(pieces_of_rows(p, step));
}
IG_INLINE vf vf_rows_bf16(const char *p, int64_t step) {
    return vf_of_bits(vi_left(_mm512_cvtepu16_epi32(pieces_of_rows(p, step)), 16));
}
IG_INLINE vf vf_rows_i8(const char *p, int64_t step) {
    const __m128i a = _mm_loadl_epi64((const void *)p),
                  b = _mm_loadl_epi64((const void *)(p + step));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_unpacklo_epi64(a, b)));
}
/* One 16-bit float for all numbers of a row. */
IG_INLINE vf vf_rows_set_f16(const char *p, int64_t step) {
    uint16_t a, b;
    memcpy(&a, p, sizeof a);
    memcpy(&b, p + step, sizeof b);
    const __m128i low = _mm_set1_epi16((short)a), high = _mm_set1_epi16((short)b);
    return _mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1));
}

/* Of VF_ROW vectors, the sum of each row: that of vector i is number i of its row.
 * Pairs are interleaved and added until each has a lane of its own. */
IG_INLINE vf vf_sum_rows(const vf *x) {
    vf quad[2];
    for (int i = 0; i < 2; i++) {
        const vf *y = x + 4 * i;
        const vf a = vf_add(_mm512_unpacklo_ps(y[0], y[1]), _mm512_unpackhi_ps(y[0], y[1]));
        const vf b = vf_add(_mm512_unpacklo_ps(y[2], y[3]), _mm512_unpackhi_ps(y[2], y[3]));
        quad[i] = vf_add(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
    }
    /* Halves of each row: a0 a1 | b0 b1 of the first four and of the last. */
    const vf low = _mm512_shuffle_f32x4(quad[0], quad[1], 0x88);
    const vf high = _mm512_shuffle_f32x4(quad[0], quad[1], 0xdd);
    const vf sum = vf_add(low, high); /* a of 0-3, b of 0-3, a of 4-7, b of 4-7 */
    return _mm512_shuffle_f32x4(sum, sum, 0xd8);
}

#else

enum { VF_ROWS = 1, VF_ROW = VF_LANES };

IG_INLINE vf vf_repeat(const float *p) { return vf_load(p); }
IG_INLINE vf vf_rows_f32(const char *p, int64_t step) {
    (void)step;
    return vf_load((const float *)p);
}
IG_INLINE vf vf_rows_f16(const char *p, int64_t step) {
    (void)step;
    return vf_load_f16((const uint16_t *)p);
}
IG_INLINE vf vf_rows_bf16(const char *p, int64_t step) {
    (void)step;
    return vf_of_bits(vi_left(vi_load_u16((const uint16_t *)p), 16));
}
IG_INLINE vf vf_rows_i8(const char *p, int64_t step) {
    (void)step;
    return vi_to_float(vi_load_i8(p));
}
IG_INLINE vf vf_rows_set_f16(const char *p, int64_t step) {
    (void)step;
    return vf_set_f16(p);
}
#    if defined(__AVX2__)
IG_INLINE vf vf_sum_rows(const vf *x) {
    vf quad[2];
    for (int i = 0; i < 2; i++) {
        const vf *y = x + 4 * i;
        const vf a = vf_add(_mm256_unpacklo_ps(y[0], y[1]), _mm256_unpackhi_ps(y[0], y[1]));
        const vf b = vf_add(_mm256_unpacklo_ps(y[2], y[3]), _mm256_unpackhi_ps(y[2], y[3]));
        quad[i] = vf_add(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
    }
    return vf_add(_mm256_permute2f128_ps(quad[0], quad[1], 0x20),
                  _mm256_permute2f128_ps(quad[0], quad[1], 0x31));
}
#    else
IG_INLINE vf vf_sum_rows(const vf *x) { return x[0]; }
#    endif

#endif

#endif
