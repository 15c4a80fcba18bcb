/* AVX2 with FMA and F16C: eight lanes. */
enum { VF_LANES = 8 };
enum { VF_TILE_ROWS = 6, VF_TILE_SUMS = 12 }; /* of 16 registers */
typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;

/* All ones in the first n lanes. */
IG_INLINE __m256i vi_first(int64_t n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}

IG_INLINE vf vf_set(float x) { return _mm256_set1_ps(x); }
IG_INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
IG_INLINE void vf_store(float *p, vf x) { _mm256_storeu_ps(p, x); }
IG_INLINE vf vf_load_part(const float *p, int64_t n) { return _mm256_maskload_ps(p, vi_first(n)); }
IG_INLINE void vf_store_part(float *p, vf x, int64_t n) { _mm256_maskstore_ps(p, vi_first(n), x); }
IG_INLINE vf vf_part(vf x, vf rest, int64_t n) {
    return _mm256_blendv_ps(rest, x, _mm256_castsi256_ps(vi_first(n)));
}

IG_INLINE vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
IG_INLINE vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
IG_INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
IG_INLINE vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
IG_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
IG_INLINE vf vf_sqrt(vf x) { return _mm256_sqrt_ps(x); }
IG_INLINE vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
IG_INLINE vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
IG_INLINE float vf_first(vf x) { return _mm256_cvtss_f32(x); }
IG_INLINE float vf_sum(vf x) { return sum_of_8(x); }
IG_INLINE float vf_max_lane(vf x) { return max_of_8(x); }

IG_INLINE vm vf_less(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
IG_INLINE vm vf_equal(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
IG_INLINE vm vf_is_nan(vf x) { return _mm256_cmp_ps(x, x, _CMP_UNORD_Q); }
IG_INLINE vm vm_or(vm a, vm b) { return _mm256_or_ps(a, b); }
IG_INLINE bool vm_any(vm m) { return _mm256_movemask_ps(m) != 0; }
IG_INLINE vf vf_select(vm m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, m); }

IG_INLINE vi vi_set(int32_t x) { return _mm256_set1_epi32(x); }
IG_INLINE vi vi_load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
IG_INLINE vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
IG_INLINE vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
IG_INLINE vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
IG_INLINE vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
IG_INLINE vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
IG_INLINE vi vi_left(vi x, int by) { return _mm256_slli_epi32(x, by); }
IG_INLINE vi vi_right(vi x, int by) { return _mm256_srai_epi32(x, by); }
IG_INLINE vm vi_equal(vi a, vi b) { return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)); }
IG_INLINE vf vi_to_float(vi x) { return _mm256_cvtepi32_ps(x); }
IG_INLINE vi vf_bits(vf x) { return _mm256_castps_si256(x); }
IG_INLINE vf vf_of_bits(vi bits) { return _mm256_castsi256_ps(bits); }

IG_INLINE vf vf_load_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
IG_INLINE vf vf_set_f16(const void *p) {
    int16_t bits;
    memcpy(&bits, p, sizeof bits);
    return _mm256_cvtph_ps(_mm_set1_epi16(bits));
}
IG_INLINE void vf_store_f16(uint16_t *p, vf x) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
IG_INLINE vi vi_load_u16(const uint16_t *p) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
}
/* The lanes hold no more than 16 bits. */
IG_INLINE void vi_store_u16(uint16_t *p, vi x) {
    const __m128i low = _mm256_castsi256_si128(x), high = _mm256_extracti128_si256(x, 1);
    _mm_storeu_si128((__m128i *)p, _mm_packus_epi32(low, high));
}
