/* AVX-512 (F, VL, BW, DQ): sixteen lanes, and masks of their own. */
enum { VF_LANES = 16 };
enum { VF_TILE_ROWS = 12, VF_TILE_SUMS = 24 }; /* of 32 registers */
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

IG_INLINE vm vm_first(int64_t n) { return (vm)((1u << n) - 1); }

IG_INLINE vf vf_set(float x) { return _mm512_set1_ps(x); }
IG_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
IG_INLINE void vf_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
IG_INLINE vf vf_load_part(const float *p, int64_t n) {
    return _mm512_maskz_loadu_ps(vm_first(n), p);
}
IG_INLINE void vf_store_part(float *p, vf x, int64_t n) {
    _mm512_mask_storeu_ps(p, vm_first(n), x);
}
IG_INLINE vf vf_part(vf x, vf rest, int64_t n) {
    return _mm512_mask_blend_ps(vm_first(n), rest, x);
}

IG_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
IG_INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
IG_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
IG_INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
IG_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
IG_INLINE vf vf_sqrt(vf x) { return _mm512_sqrt_ps(x); }
IG_INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
IG_INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
IG_INLINE float vf_first(vf x) { return _mm512_cvtss_f32(x); }
IG_INLINE float vf_sum(vf x) {
    return sum_of_8(_mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
}
IG_INLINE float vf_max_lane(vf x) {
    return max_of_8(_mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
}

IG_INLINE vm vf_less(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
IG_INLINE vm vf_equal(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
IG_INLINE vm vf_is_nan(vf x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }
IG_INLINE vm vm_or(vm a, vm b) { return (vm)(a | b); }
IG_INLINE bool vm_any(vm m) { return m != 0; }
IG_INLINE vf vf_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }

IG_INLINE vi vi_set(int32_t x) { return _mm512_set1_epi32(x); }
IG_INLINE vi vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
IG_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
IG_INLINE vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
IG_INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
IG_INLINE vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
IG_INLINE vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
IG_INLINE vi vi_left(vi x, unsigned by) { return _mm512_slli_epi32(x, by); }
IG_INLINE vi vi_right(vi x, unsigned by) { return _mm512_srai_epi32(x, by); }
IG_INLINE vm vi_equal(vi a, vi b) { return _mm512_cmpeq_epi32_mask(a, b); }
IG_INLINE vf vi_to_float(vi x) { return _mm512_cvtepi32_ps(x); }
IG_INLINE vi vf_bits(vf x) { return _mm512_castps_si512(x); }
IG_INLINE vf vf_of_bits(vi bits) { return _mm512_castsi512_ps(bits); }

IG_INLINE vf vf_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
IG_INLINE vf vf_set_f16(const void *p) {
    int16_t bits;
    memcpy(&bits, p, sizeof bits);
    return _mm512_cvtph_ps(_mm256_set1_epi16(bits));
}
IG_INLINE void vf_store_f16(uint16_t *p, vf x) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
IG_INLINE vi vi_load_u16(const uint16_t *p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}
IG_INLINE void vi_store_u16(uint16_t *p, vi x) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(x));
}
