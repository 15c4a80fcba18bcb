/* Plain C: one lane.  What runs where there is nothing better, and what the others are read by. */
#include <math.h>

#define IG_ONE_LANE
enum { VF_LANES = 1 };
enum { VF_TILE_ROWS = 4, VF_TILE_SUMS = 32 }; /* of a matmul tile: rows, and sums at most */
typedef float vf;
typedef int32_t vi;
typedef bool vm;

IG_INLINE vf vf_set(float x) { return x; }
IG_INLINE vf vf_load(const float *p) { return *p; }
IG_INLINE void vf_store(float *p, vf x) { *p = x; }
IG_INLINE vf vf_load_part(const float *p, int64_t n) {
    (void)n;
    return *p;
}
IG_INLINE void vf_store_part(float *p, vf x, int64_t n) {
    (void)n;
    *p = x;
}
/* The first n lanes of x, then those of `rest`. */
IG_INLINE vf vf_part(vf x, vf rest, int64_t n) {
    (void)rest, (void)n;
    return x;
}

IG_INLINE vf vf_add(vf a, vf b) { return a + b; }
IG_INLINE vf vf_sub(vf a, vf b) { return a - b; }
IG_INLINE vf vf_mul(vf a, vf b) { return a * b; }
IG_INLINE vf vf_div(vf a, vf b) { return a / b; }
IG_INLINE vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
IG_INLINE vf vf_sqrt(vf x) { return sqrtf(x); }
/* Where one is NaN: b. */
IG_INLINE vf vf_min(vf a, vf b) { return a < b ? a : b; }
IG_INLINE vf vf_max(vf a, vf b) { return a > b ? a : b; }
IG_INLINE float vf_first(vf x) { return x; }
IG_INLINE float vf_sum(vf x) { return x; }
IG_INLINE float vf_max_lane(vf x) { return x; } /* where none is NaN */

IG_INLINE vm vf_less(vf a, vf b) { return a < b; }
IG_INLINE vm vf_equal(vf a, vf b) { return a == b; }
IG_INLINE vm vf_is_nan(vf x) { return x != x; }
IG_INLINE vm vm_or(vm a, vm b) { return a || b; }
IG_INLINE bool vm_any(vm m) { return m; }
IG_INLINE vf vf_select(vm m, vf yes, vf no) { return m ? yes : no; }

IG_INLINE vi vi_set(int32_t x) { return x; }
IG_INLINE vi vi_load(const int32_t *p) { return *p; }
IG_INLINE vi vi_add(vi a, vi b) { return (vi)((uint32_t)a + (uint32_t)b); }
IG_INLINE vi vi_sub(vi a, vi b) { return (vi)((uint32_t)a - (uint32_t)b); }
IG_INLINE vi vi_and(vi a, vi b) { return a & b; }
IG_INLINE vi vi_or(vi a, vi b) { return a | b; }
IG_INLINE vi vi_xor(vi a, vi b) { return a ^ b; }
IG_INLINE vi vi_left(vi x, int by) { return (vi)((uint32_t)x << by); }
IG_INLINE vi vi_right(vi x, int by) { return x >> by; } /* keeps the sign */
IG_INLINE vm vi_equal(vi a, vi b) { return a == b; }
IG_INLINE vf vi_to_float(vi x) { return (float)x; }
IG_INLINE vi vf_bits(vf x) {
    vi bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
IG_INLINE vf vf_of_bits(vi bits) {
    vf x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 16-bit floats, VF_LANES of them. */
IG_INLINE vf vf_load_f16(const uint16_t *p) {
    const uint32_t h = *p, sign = (h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 0) return (sign ? -0x1p-24f : 0x1p-24f) * (float)mantissa;
    const uint32_t high = exponent == 31 ? 0x7f800000u : (exponent + 112) << 23;
    return vf_of_bits((vi)(sign | high | mantissa << 13));
}

/* One for all lanes, wherever it lies. */
IG_INLINE vf vf_set_f16(const void *p) {
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return vf_load_f16(&bits);
}

/* Rounds to nearest, ties to even.  Below the least normal number, adding 0.5 leaves the count of
 * 2^-24 in the last bits. */
IG_INLINE void vf_store_f16(uint16_t *p, vf x) {
    const uint32_t bits = (uint32_t)vf_bits(x), sign = bits >> 16 & 0x8000;
    const uint32_t abs = bits & 0x7fffffff;
    uint32_t h;
    if (abs > 0x7f800000)
        h = 0x7e00 | (abs >> 13 & 0x3ff);
    else if (abs >= 0x477ff000) /* 65520 */
        h = 0x7c00;
    else if (abs < 0x38800000) /* 2^-14 */
        h = (uint32_t)vf_bits(vf_of_bits((vi)abs) + 0.5f) - 0x3f000000u;
    else
        h = (abs - (112u << 23) + 0xfff + (abs >> 13 & 1)) >> 13;
    *p = (uint16_t)(sign | h);
}

IG_INLINE vi vi_load_u16(const uint16_t *p) { return *p; }
IG_INLINE void vi_store_u16(uint16_t *p, vi x) { *p = (uint16_t)x; }

/* Eight rows of eight floats, `stride` apart -> eight columns, `dst_stride` apart. */
IG_INLINE void transpose_8x8(const float *src, int64_t stride, float *dst, int64_t dst_stride) {
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++) dst[c * dst_stride + r] = src[r * stride + c];
}
