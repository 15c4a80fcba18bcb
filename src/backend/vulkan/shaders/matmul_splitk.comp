#version 460
/*
 * Rows of floats as F16 pairs for matmul_coopmat.comp: each value times its row's scale
 * as the sum of two F16 values with 22 bits together.  The scale is a power of two
 * that brings the largest of the row near the largest half, so that whatever is large
 * enough to matter keeps its bits.  Rows end on a whole slice, with zeros.
 *
 *     out       | high F16 [rows, depth] | low F16 [rows, depth] |
 *     factors   1 / scale [rows], after them
 */
#extension GL_GOOGLE_include_directive : require
#define HEAD vk_split_head
#include "common.glsl"
#include "dequantize.glsl"
#include "dequantize_vec4.glsl"
#include "dequantize_by8.glsl"
#include "workgroup_reduce.glsl"

layout(constant_id = 3) const uint DTYPE = 0;
layout(constant_id = 5) const bool EIGHTS = false; /* else element by element */

eight eight_of(uint row, uint i) {
    const uint blocks = head.stride / block_elements(DTYPE);
    if (EIGHTS) return eight_at(DTYPE, further(ADDRESS_OF(0), row * blocks, block_bytes(DTYPE)), i);
    eight e = eight(vec4(0), vec4(0));
    [[unroll]] for (uint j = 0; j < 8; j++) {
        if (8 * i + j >= head.k) continue;
        const uint at = row * head.stride + (8 * i + j) * head.k_stride;
        const float x = weight_at(DTYPE, ADDRESS_OF(0), at);
        if (j < 4)
            e.low[j] = x;
        else
            e.high[j - 4] = x;
    }
    return e;
}

float largest_of(vec4 v) {
    v = abs(v);
    v = mix(vec4(0), v, lessThan(v, vec4(INFINITE))); /* those that are finite */
    return max(max(v.x, v.y), max(v.z, v.w));
}

/* Rounded to as many bits as a half has, by its bits: no compiler can think that away. */
vec4 top_of(vec4 v) {
    const uvec4 bits = floatBitsToUint(v), rounded = bits + 0x1000u & 0xffffe000u;
    return mix(v, uintBitsToFloat(rounded), lessThan(bits & 0x7fffffffu, uvec4(0x7f800000u)));
}

/* The bits that are left over, of numbers that leave some: infinite ones do not. */
vec4 rest_of(vec4 v) {
    const vec4 top = top_of(v);
    return mix(vec4(0), v - top, lessThan(abs(top), vec4(INFINITE)));
}

/* Bits alone: they are no floats. */
vec4 as_f16(vec4 a, vec4 b) {
    return uintBitsToFloat(uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy),
                                 packHalf2x16(b.zw)));
}

void main() {
    const uint eights = head.depth / 8, used = (head.k + 7) / 8;
    const Address high_at = ADDRESS_OF(1), low_at = further(high_at, head.rows, head.depth * 2);
    FOR_EACH_GROUP(row, head.rows) {
        float largest = 0;
        for (uint i = thread(); i < used; i += GROUP) {
            const eight e = eight_of(row, i);
            largest = max(largest, max(largest_of(e.low), largest_of(e.high)));
        }
        const uint exponent = floatBitsToUint(group_max(largest)) >> 23;
        const uint power = min(268 - exponent, 253); /* 2^14 <= largest < 2^15 */
        const float scale = uintBitsToFloat(power << 23);
        for (uint i = thread(); i < eights; i += GROUP) {
            eight e = eight(vec4(0), vec4(0));
            if (i < used) e = eight_of(row, i);
            e.low *= scale;
            e.high *= scale;
            set_vector(high_at, row * eights + i, as_f16(top_of(e.low), top_of(e.high)));
            set_vector(low_at, row * eights + i, as_f16(rest_of(e.low), rest_of(e.high)));
        }
        if (thread() == 0) SET_FLOAT(2, row, uintBitsToFloat((254 - power) << 23));
    }
}
