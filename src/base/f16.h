/*
 * f16.h - F16 and BF16 conversions: exact to F32, round to nearest even from F32. Infinities and
 * NaNs are kept.
 */
#ifndef IG_BASE_F16_H
#define IG_BASE_F16_H

#include <stdint.h>
#include <string.h>

static inline float ig_float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t ig_bits_of_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float ig_f16_to_f32(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31;
    const uint32_t mantissa = h & 1023;
    if (exponent == 0) return (sign ? -0x1p-24f : 0x1p-24f) * (float)mantissa;
    const uint32_t high = exponent == 31 ? 0x7f800000u : (exponent + 112) << 23;
    return ig_float_of_bits(sign | high | mantissa << 13);
}

/* For subnormals, adding 0.5 leaves the multiple of 2^-24 in the last bits. */
static inline uint16_t ig_f32_to_f16(float x) {
    const uint32_t bits = ig_bits_of_float(x), sign = bits >> 16 & 0x8000;
    const uint32_t abs = bits & 0x7fffffff;
    uint32_t h;
    if (abs > 0x7f800000)
        h = 0x7e00 | (abs >> 13 & 0x3ff);
    else if (abs >= 0x477ff000) /* 65520 */
        h = 0x7c00;
    else if (abs < 0x38800000) /* 2^-14 */
        h = ig_bits_of_float(ig_float_of_bits(abs) + 0.5f) - 0x3f000000u;
    else
        h = (abs - (112u << 23) + 0xfff + (abs >> 13 & 1)) >> 13;
    return (uint16_t)(sign | h);
}

static inline float ig_bf16_to_f32(uint16_t h) { return ig_float_of_bits((uint32_t)h << 16); }

static inline uint16_t ig_f32_to_bf16(float x) {
    const uint32_t bits = ig_bits_of_float(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
