/* What is done in 256-bit registers on every x86, whatever the width of `vf`. */

/* Fours, then pairs, then the last two: the order is part of the result. */
IG_INLINE float sum_of_8(__m256 x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* Where none is NaN. */
IG_INLINE float max_of_8(__m256 x) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

/*
 * Eight rows of eight floats, `stride` apart -> eight columns, `dst_stride` apart.
 * Row r and row r + 4 share a register from the start, so that the shuffles,
 * which stay within 128 bits, are all that is needed:
 *
 *     loaded   r0[0..3] r4[0..3]  ...  r3[0..3] r7[0..3]     and the same of [4..7]
 *     unpacked  r0[0] r1[0] r0[1] r1[1] ...                   by twos
 *     shuffled  r0[0] r1[0] r2[0] r3[0] | r4[0] ... r7[0]     column 0
 */
IG_INLINE void transpose_8x8(const float *src, int64_t stride, float *dst, int64_t dst_stride) {
    for (int half = 0; half < 2; half++) {
        __m256 r[4];
        for (int i = 0; i < 4; i++) {
            const float *p = src + i * stride + half * 4;
            r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)),
                                        _mm_loadu_ps(p + 4 * stride), 1);
        }
        const __m256 a = _mm256_unpacklo_ps(r[0], r[1]), b = _mm256_unpacklo_ps(r[2], r[3]);
        const __m256 c = _mm256_unpackhi_ps(r[0], r[1]), d = _mm256_unpackhi_ps(r[2], r[3]);
        float *out = dst + half * 4 * dst_stride;
        _mm256_storeu_ps(out, _mm256_shuffle_ps(a, b, 0x44));
        _mm256_storeu_ps(out + dst_stride, _mm256_shuffle_ps(a, b, 0xee));
        _mm256_storeu_ps(out + 2 * dst_stride, _mm256_shuffle_ps(c, d, 0x44));
        _mm256_storeu_ps(out + 3 * dst_stride, _mm256_shuffle_ps(c, d, 0xee));
    }
}
