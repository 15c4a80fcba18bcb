/*
 * Stored weights by eights: eight neighbors of a row as two vectors, whatever their
 * type.  Unlike a piece, an eight of a block reads bytes of which it takes only the
 * low or the high bits; kernels that use what they read many times can afford it.
 * The helpers are those of dequantize_vec4.glsl.
 */
struct eight {
    vec4 low, high;
};

uvec2 four_pairs_at(Address at, uint i) { return uvec2(quad_at(at, i), quad_at(at, i + 2)); }

/* d (q - 8): elements 0 to 15 of a block are low nibbles, 16 to 31 the high ones of the same bytes */
eight eight_q4_0(Address row, uint i) {
    const Address block = further(row, i / 4, 18);
    const float d = scale_at(block, 0);
    const uvec2 q = four_pairs_at(block, 1 + i % 2 * 4) >> i % 4 / 2 * 4 & 0x0f0f0f0fu;
    return eight(d * (bytes_of(q.x) - 8), d * (bytes_of(q.y) - 8));
}

eight eight_q8_0(Address row, uint i) {
    const Address block = further(row, i / 4, 34);
    const float d = scale_at(block, 0);
    const uvec2 q = four_pairs_at(block, 1 + i % 4 * 4);
    return eight(d * signed_bytes_of(q.x), d * signed_bytes_of(q.y));
}

/* d scale q - m min; groups of 32, of which two share 32 bytes */
eight eight_q4_k(Address row, uint i) {
    const Address block = further(row, i / 32, 144);
    const uint group = i % 32 / 4;
    const vec2 scale = q4_k_scale(wide_at(block, 0), group);
    const uvec4 bytes = wide_at(block, 1 + group / 2 * 2 + i % 4 / 2);
    const uvec2 q = (i % 2 == 0 ? bytes.xy : bytes.zw) >> group % 2 * 4 & 0x0f0f0f0fu;
    return eight(scale.x * bytes_of(q.x) - scale.y, scale.x * bytes_of(q.y) - scale.y);
}

/* d scale (q - 32); per 128 elements, four groups of 32 share the bytes of high bits */
eight eight_q6_k(Address row, uint i) {
    const Address block = further(row, i / 32, 210);
    const uint half_ = i % 32 / 16, group = i % 16 / 4, l = i % 4 * 4; /* l: in pairs */
    const uvec2 low = four_pairs_at(block, half_ * 32 + group % 2 * 16 + l) >> group / 2 * 4;
    const uvec2 high = four_pairs_at(block, 64 + half_ * 16 + l) >> group * 2;
    const uvec2 q = (low & 0x0f0f0f0fu) | (high & 0x03030303u) << 4;
    const uint scale = byte_at(block, 192 + half_ * 8 + group * 2 + i % 4 / 2);
    const float each = scale_at(block, 104) * float(signed_byte(scale));
    return eight(each * (bytes_of(q.x) - 32), each * (bytes_of(q.y) - 32));
}

/* Eight i of the row at `row`; types without pieces have none. */
eight eight_at(uint dtype, Address row, uint i) {
    switch (dtype) {
    case VK_F32: return eight(vector_at(row, 2 * i), vector_at(row, 2 * i + 1));
    case VK_F16: {
        const uvec4 bits = wide_at(row, i);
        return eight(halves_of(bits.x, bits.y), halves_of(bits.z, bits.w));
    }
    case VK_BF16: {
        const uvec4 bits = wide_at(row, i);
        return eight(bfloats_of(bits.x, bits.y), bfloats_of(bits.z, bits.w));
    }
    case VK_Q4_0: return eight_q4_0(row, i);
    case VK_Q8_0: return eight_q8_0(row, i);
    case VK_Q4_K: return eight_q4_k(row, i);
    case VK_Q6_K: return eight_q6_k(row, i);
    }
    return eight(vec4(0), vec4(0));
}
