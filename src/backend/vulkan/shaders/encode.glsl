/* Numbers as 16-bit floats, rounded to nearest, ties to even. */
/* Below the least normal number, adding 0.5 leaves the count of 2^-24 in the last bits. */
uint float_to_half(float x) {
    const uint bits = floatBitsToUint(x), sign = bits >> 16 & 0x8000u, abs_ = bits & 0x7fffffffu;
    if (abs_ > 0x7f800000u) return sign | 0x7e00u | (abs_ >> 13 & 0x3ffu);
    if (abs_ >= 0x477ff000u) return sign | 0x7c00u;
    if (abs_ < 0x38800000u) {
        precise const float shifted = uintBitsToFloat(abs_) + 0.5;
        return sign | (floatBitsToUint(shifted) - 0x3f000000u);
    }
    return sign | (abs_ - (112u << 23) + 0xfffu + (abs_ >> 13 & 1u)) >> 13;
}

uint float_to_bfloat(float x) {
    const uint bits = floatBitsToUint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | 0x40u;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
