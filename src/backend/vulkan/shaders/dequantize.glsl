/*
 * Stored weights as numbers: F16, BF16 and blocks.  The layouts are in
 * ingot/blocks.h; dequantized as in base/quant_blocks.c.
 */
float half_to_float(uint h) {
    const uint sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 1023u;
    if (exponent == 0) {
        const float small = float(mantissa) * 5.9604644775390625e-8; /* 2^-24 */
        return sign != 0 ? -small : small;
    }
    const uint high = exponent == 31 ? 0x7f800000u : (exponent + 112) << 23;
    return uintBitsToFloat(sign | high | mantissa << 13);
}

uint word_of_bytes(Address at, uint i) {
    return byte_at(at, i) | byte_at(at, i + 1) << 8 | byte_at(at, i + 2) << 16 |
           byte_at(at, i + 3) << 24;
}
float half_at(Address at, uint i) {
    return half_to_float(byte_at(at, i) | byte_at(at, i + 1) << 8);
}
int signed_byte(uint b) { return int(b << 24) >> 24; }

/* Element i of n in split nibbles, starting at byte `first`. */
uint nibble(Address at, uint first, uint i, uint n) {
    return i < n / 2 ? byte_at(at, first + i) & 15u : byte_at(at, first + i - n / 2) >> 4;
}

/* The two bits of element i of a K block. */
uint two_bits(Address at, uint first, uint i) {
    return byte_at(at, first + i / 128 * 32 + i % 32) >> 2 * (i % 128 / 32) & 3u;
}

uint nibble_k(Address at, uint first, uint i) {
    return byte_at(at, first + i / 64 * 32 + i % 32) >> i / 32 % 2 * 4 & 15u;
}

/* Scale and min of group j of a q4_k or q5_k block. */
uvec2 k_scale(Address at, uint first, uint j) {
    if (j < 4) return uvec2(byte_at(at, first + j) & 63u, byte_at(at, first + j + 4) & 63u);
    const uint low = byte_at(at, first + j + 4);
    return uvec2((low & 15u) | byte_at(at, first + j - 4) >> 6 << 4,
                 low >> 4 | byte_at(at, first + j) >> 6 << 4);
}

/* Scale j of a q3_k block. */
uint q3_scale(Address at, uint first, uint j) {
    const uint low = byte_at(at, first + j % 8) >> (j < 8 ? 0 : 4) & 15u;
    return low | (byte_at(at, first + 8 + j % 4) >> 2 * (j / 4) & 3u) << 4;
}

const int iq4_value[16] =
    int[16](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
const int mxfp4_value[16] = int[16](0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

float mxfp4_scale(uint exponent) {
    return uintBitsToFloat(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
}

/* Products and sums are rounded one by one, as the formats' own tools do. */
float scaled(float d, uint scale, uint q, float m, uint least) {
    precise const float y = d * float(scale) * float(q) - m * float(least);
    return y;
}
float lifted(float d, uint q, float m) {
    precise const float y = d * float(q) + m;
    return y;
}

/* Elements and bytes of a block. */
uint block_elements(uint dtype) {
    return dtype < VK_Q4_0 ? 1
           : (dtype >= VK_Q2_K && dtype <= VK_Q6_K) || dtype == VK_IQ4_XS ? 256 : 32;
}

uint block_bytes(uint dtype) {
    switch (dtype) {
    case VK_F16: return 2;
    case VK_BF16: return 2;
    case VK_Q4_0: return 18;
    case VK_Q4_1: return 20;
    case VK_Q5_0: return 22;
    case VK_Q5_1: return 24;
    case VK_Q8_0: return 34;
    case VK_Q2_K: return 84;
    case VK_Q3_K: return 110;
    case VK_Q4_K: return 144;
    case VK_Q5_K: return 176;
    case VK_Q6_K: return 210;
    case VK_IQ4_NL: return 18;
    case VK_IQ4_XS: return 136;
    case VK_MXFP4: return 17;
    default: return 4;
    }
}

/* Element i of the block at `b`. */
float block_element(uint dtype, Address b, uint i) {
    switch (dtype) {
    case VK_Q4_0: return half_at(b, 0) * float(int(nibble(b, 2, i, 32)) - 8);
    case VK_Q4_1: return lifted(half_at(b, 0), nibble(b, 4, i, 32), half_at(b, 2));
    case VK_Q5_0:
        return half_at(b, 0) *
               float(int(nibble(b, 6, i, 32) | (word_of_bytes(b, 2) >> i & 1u) << 4) - 16);
    case VK_Q5_1:
        return lifted(half_at(b, 0), nibble(b, 8, i, 32) | (word_of_bytes(b, 4) >> i & 1u) << 4,
                      half_at(b, 2));
    case VK_Q8_0: return half_at(b, 0) * float(signed_byte(byte_at(b, 2 + i)));
    case VK_Q2_K: {
        const uint scale = byte_at(b, i / 16);
        return scaled(half_at(b, 80), scale & 15u, two_bits(b, 16, i), half_at(b, 82), scale >> 4);
    }
    case VK_Q3_K: {
        const int q = int(two_bits(b, 32, i) + 4 * (byte_at(b, i % 32) >> i / 32 & 1u)) - 4;
        precise const float y =
            half_at(b, 108) * float(int(q3_scale(b, 96, i / 16)) - 32) * float(q);
        return y;
    }
    case VK_Q4_K: {
        const uvec2 scale = k_scale(b, 4, i / 32);
        return scaled(half_at(b, 0), scale.x, nibble_k(b, 16, i), half_at(b, 2), scale.y);
    }
    case VK_Q5_K: {
        const uvec2 scale = k_scale(b, 4, i / 32);
        const uint q = nibble_k(b, 48, i) | (byte_at(b, 16 + i % 32) >> i / 32 & 1u) << 4;
        return scaled(half_at(b, 0), scale.x, q, half_at(b, 2), scale.y);
    }
    case VK_Q6_K: {
        const uint low = nibble(b, i / 128 * 64, i % 128, 128);
        const int q = int(low | two_bits(b, 128, i) << 4) - 32;
        precise const float y =
            half_at(b, 208) * float(signed_byte(byte_at(b, 192 + i / 16))) * float(q);
        return y;
    }
    case VK_IQ4_NL: return half_at(b, 0) * float(iq4_value[nibble(b, 2, i, 32)]);
    case VK_IQ4_XS: {
        const uint j = i / 32;
        const uint high = byte_at(b, 2) | byte_at(b, 3) << 8;
        const uint scale = (byte_at(b, 4 + j / 2) >> 4 * (j % 2) & 15u) | (high >> 2 * j & 3u) << 4;
        const uint q = nibble(b, 8 + j * 16, i % 32, 32);
        precise const float y = half_at(b, 0) * float(int(scale) - 32) * float(iq4_value[q]);
        return y;
    }
    default: return mxfp4_scale(byte_at(b, 0)) * float(mxfp4_value[nibble(b, 1, i, 32)]);
    }
}

/* Element i of what lies at `at`: F32, F16 or BF16. */
float plain_at(uint dtype, Address at, uint i) {
    if (dtype == VK_F32) return float_at(at, i);
    const uint bits = pair_at(at, i);
    return dtype == VK_F16 ? half_to_float(bits) : uintBitsToFloat(bits << 16);
}

/* The same of every type. */
float weight_at(uint dtype, Address at, uint i) {
    if (block_elements(dtype) == 1) return plain_at(dtype, at, i);
    const uint block = i / block_elements(dtype);
    return block_element(dtype, further(at, block, block_bytes(dtype)),
                         i - block * block_elements(dtype));
}
