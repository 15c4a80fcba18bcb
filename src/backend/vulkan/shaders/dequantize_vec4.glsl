/*
 * Stored weights by the piece: as many elements of a row as a thread takes with a
 * few wide loads, as vectors of four.  In blocks, a piece is several runs of
 * neighbors that lie apart, since a byte holds elements that do.
 *
 *     piece i of a row   vectors first .. first + RUN - 1, then the same STEP further, ...
 */
#define PIECE_VECTORS 8 /* at most */

/* Vectors of a piece, and of a run of it; how far runs lie apart; pieces of a block. */
uint piece_vectors(uint dtype) {
    return dtype == VK_Q4_K || dtype == VK_Q6_K ? 8 : dtype == VK_Q4_0 || dtype == VK_Q8_0 ? 4 : 2;
}
uint piece_run(uint dtype) { return dtype == VK_Q4_K || dtype == VK_Q8_0 ? 4 : 2; }
uint piece_step(uint dtype) { return dtype == VK_Q4_0 ? 4 : 8; }

/* The first vector of piece i. */
uint piece_first(uint dtype, uint i) {
    const uint j = i % 8;
    switch (dtype) {
    case VK_Q8_0: return i * 4;
    case VK_Q4_0: return i / 2 * 8 + i % 2 * 2;
    case VK_Q4_K: return i / 8 * 64 + j / 2 * 16 + j % 2 * 4;
    case VK_Q6_K: return i / 8 * 64 + j / 4 * 32 + j % 4 * 2;
    default: return i * 2;
    }
}

uint quad_at(Address at, uint i) { return pair_at(at, i) | pair_at(at, i + 1) << 16; }
float scale_at(Address at, uint i) { return unpackHalf2x16(pair_at(at, i)).x; }

vec4 bytes_of(uint w) {
    return vec4(w & 255u, w >> 8 & 255u, w >> 16 & 255u, w >> 24);
}
vec4 signed_bytes_of(uint w) {
    return vec4(ivec4(int(w << 24) >> 24, int(w << 16) >> 24, int(w << 8) >> 24, int(w) >> 24));
}
vec4 halves_of(uint low, uint high) {
    return vec4(unpackHalf2x16(low), unpackHalf2x16(high));
}
vec4 bfloats_of(uint low, uint high) {
    return uintBitsToFloat(uvec4(low << 16, low & 0xffff0000u, high << 16, high & 0xffff0000u));
}

/* d (q - 8): sixteen of the elements of a block, half of them in low nibbles */
void piece_q4_0(Address row, uint i, out vec4 w[PIECE_VECTORS]) {
    const Address block = further(row, i / 2, 18);
    const uint first = 1 + i % 2 * 4; /* in pairs */
    const float d = scale_at(block, 0);
    const uint a = quad_at(block, first), b = quad_at(block, first + 2);
    w[0] = d * (bytes_of(a & 0x0f0f0f0fu) - 8);
    w[1] = d * (bytes_of(b & 0x0f0f0f0fu) - 8);
    w[2] = d * (bytes_of(a >> 4 & 0x0f0f0f0fu) - 8);
    w[3] = d * (bytes_of(b >> 4 & 0x0f0f0f0fu) - 8);
}

void piece_q8_0(Address row, uint i, out vec4 w[PIECE_VECTORS]) {
    const Address block = further(row, i / 2, 34);
    const uint first = 1 + i % 2 * 8;
    const float d = scale_at(block, 0);
    [[unroll]] for (uint v = 0; v < 4; v++)
        w[v] = d * signed_bytes_of(quad_at(block, first + 2 * v));
}

/* Scale and min of group j, from the words of the block's head; bytes 4 to 15 hold them. */
vec2 q4_k_scale(uvec4 top, uint j) {
    const uint shift = 8 * (j % 4);
    uvec2 scale = uvec2(top.y >> shift & 63u, top.z >> shift & 63u);
    if (j >= 4) {
        const uint low = top.w >> shift;
        scale = uvec2((low & 15u) | (top.y >> shift + 6 & 3u) << 4,
                      (low >> 4 & 15u) | (top.z >> shift + 6 & 3u) << 4);
    }
    return unpackHalf2x16(top.x) * vec2(scale);
}

/* d scale q - m min: sixteen bytes, low nibbles of one group of 32 and high ones of the next */
void piece_q4_k(Address row, uint i, out vec4 w[PIECE_VECTORS]) {
    const Address block = further(row, i / 8, 144);
    const uint j = i % 8;
    const uvec4 top = wide_at(block, 0), q = wide_at(block, 1 + j);
    const vec2 even = q4_k_scale(top, j / 2 * 2), odd = q4_k_scale(top, j / 2 * 2 + 1);
    [[unroll]] for (uint v = 0; v < 4; v++) {
        w[v] = even.x * bytes_of(q[v] & 0x0f0f0f0fu) - even.y;
        w[v + 4] = odd.x * bytes_of(q[v] >> 4 & 0x0f0f0f0fu) - odd.y;
    }
}

/* d scale (q - 32): eight neighbors of each of the four groups of 32 that share a high byte */
void piece_q6_k(Address row, uint i, out vec4 w[PIECE_VECTORS]) {
    const Address block = further(row, i / 8, 210);
    const uint half_ = i % 8 / 4, l = i % 4 * 4; /* l: in pairs */
    const float d = scale_at(block, 104);
    [[unroll]] for (uint v = 0; v < 2; v++) {
        const uint a = quad_at(block, half_ * 32 + l + 2 * v);
        const uint b = quad_at(block, half_ * 32 + 16 + l + 2 * v);
        const uint high = quad_at(block, 64 + half_ * 16 + l + 2 * v);
        w[v] = bytes_of((a & 0x0f0f0f0fu) | (high & 0x03030303u) << 4);
        w[v + 2] = bytes_of((b & 0x0f0f0f0fu) | (high & 0x0c0c0c0cu) << 2);
        w[v + 4] = bytes_of((a >> 4 & 0x0f0f0f0fu) | (high & 0x30303030u));
        w[v + 6] = bytes_of((b >> 4 & 0x0f0f0f0fu) | (high >> 2 & 0x30303030u));
    }
    [[unroll]] for (uint group = 0; group < 4; group++) {
        const uint scale = byte_at(block, 192 + half_ * 8 + group * 2 + i % 4 / 2);
        const float each = d * float(signed_byte(scale));
        w[2 * group] = each * (w[2 * group] - 32);
        w[2 * group + 1] = each * (w[2 * group + 1] - 32);
    }
}

/* Piece i of the row at `row`; other types have none. */
void piece_at(uint dtype, Address row, uint i, out vec4 w[PIECE_VECTORS]) {
    switch (dtype) {
    case VK_F32:
        w[0] = vector_at(row, 2 * i);
        w[1] = vector_at(row, 2 * i + 1);
        break;
    case VK_F16: {
        const uvec4 bits = wide_at(row, i);
        w[0] = halves_of(bits.x, bits.y);
        w[1] = halves_of(bits.z, bits.w);
        break;
    }
    case VK_BF16: {
        const uvec4 bits = wide_at(row, i);
        w[0] = bfloats_of(bits.x, bits.y);
        w[1] = bfloats_of(bits.z, bits.w);
        break;
    }
    case VK_Q4_0: piece_q4_0(row, i, w); break;
    case VK_Q8_0: piece_q8_0(row, i, w); break;
    case VK_Q4_K: piece_q4_k(row, i, w); break;
    case VK_Q6_K: piece_q6_k(row, i, w); break;
    }
}
