#version 460
/* A cache of keys and values in pages of 64 positions: rows stored into it, attention that reads
 * it.  Attention goes through the positions a page at a time, one thread for each. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "decode.glsl"
#include "encode.glsl"
#include "functions.glsl"
#include "group.glsl"

layout(constant_id = 1) const uint FORM = 0;
layout(constant_id = 2) const uint WIDTH = 64;  /* of q and k */
layout(constant_id = 3) const uint COLUMNS = 1; /* of a thread */
layout(constant_id = 4) const uint DTYPE_K = 0; /* of k, or of what is stored into */
layout(constant_id = 5) const uint DTYPE_V = 0;

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Store {
    vk_store_params p;
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Paged {
    vk_paged_params p;
};

/* A block of q8_0: the largest magnitude becomes 127. */
void store_block(uint64_t at, uint first, vk_places places) {
    uint largest = 0;
    for (uint i = 0; i < 32; i++)
        largest = max(largest, floatBitsToUint(FLOATS(1)[place_of(places, first + i)]) & 0x7fffffffu);
    const bool finite = largest < 0x7f800000u;
    const float d = finite ? quotient(uintBitsToFloat(largest), 127) : NOT_A_NUMBER;
    const float inverse = d > 0 ? quotient(1, d) : 0;
    const uint half_ = float_to_half(d);
    Bytes(at).at[0] = uint8_t(half_ & 255u);
    Bytes(at).at[1] = uint8_t(half_ >> 8);
    for (uint i = 0; i < 32; i++) {
        precise const float x = FLOATS(1)[place_of(places, first + i)] * inverse;
        const int q = finite ? int(abs(x) + 0.5) : 0; /* halves away from zero */
        Bytes(at).at[2 + i] = uint8_t((x < 0 ? -q : q) & 255);
    }
}

void store(uint to, uint from, vk_places places) {
    const float x = FLOATS(1)[place_of(places, from)];
    switch (DTYPE_K) {
    case VK_F16: HALVES(0)[to] = uint16_t(float_to_half(x)); break;
    case VK_BF16: HALVES(0)[to] = uint16_t(float_to_bfloat(x)); break;
    default: FLOATS(0)[to] = x; break;
    }
}

/* dst, rows, index: of several rows for one place, the last is stored.  A group takes a row. */
void store_rows() {
    Store s = Store(push.params_at);
    const uint each = DTYPE_K == VK_Q8_0 ? 32 : 1; /* elements of a thread */
    FOR_EACH_GROUP(row, s.p.rows) {
        const int to = INTS(2)[row * s.p.index_stride];
        if (to < 0 || to >= int(s.p.n)) continue;
        float later = 0;
        for (uint j = row + 1 + thread(); j < s.p.rows; j += GROUP)
            if (INTS(2)[j * s.p.index_stride] == to) later = 1;
        if (group_max(later) > 0) continue;
        for (uint column = thread() * each; column < s.p.width; column += GROUP * each) {
            const uint from = row * s.p.width + column;
            const uint place = place_of(s.p.to, uint(to) * s.p.width + column);
            if (DTYPE_K == VK_Q8_0)
                store_block(push.at[0] + uint64_t(place / 32) * 34, from, s.p.from);
            else
                store(place, from, s.p.from);
        }
    }
}

shared float query[WIDTH];
shared float share[GROUP];

void attention_paged() {
    Paged a = Paged(push.params_at);
    const uint t = thread();
    FOR_EACH_GROUP(number, a.p.rows * a.p.h) {
        const uint row = number / a.p.h, head = number % a.p.h, group = head / (a.p.h / a.p.g);
        const int sequence = INTS(4)[row * a.p.sequence], last = INTS(5)[row * a.p.position];
        const uint q = row * a.p.q[0] + head * a.p.q[1];
        for (uint c = t; c < a.p.d; c += GROUP) query[c] = FLOATS(0)[q + c * a.p.q[2]];
        barrier();
        float largest = -INFINITE, sum = 0;
        float result[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) result[c] = 0;
        const bool known = sequence >= 0 && sequence < int(a.p.sequences);
        const int window = int(a.p.window);
        const uint begin = window > 0 && last >= window ? uint(last - window + 1) : 0;
        for (uint first = begin / GROUP * GROUP; known && int(first) <= last; first += GROUP) {
            const uint slot = first / GROUP;
            if (slot >= a.p.pages) break;
            const int page = INTS(3)[sequence * a.p.table[0] + slot * a.p.table[1]];
            if (page < 0 || page >= int(a.p.n_pages)) break;
            const uint count = min(GROUP, uint(last) + 1 - first);
            const uint k = page * a.p.k[0] + group * a.p.k[2];
            const uint v = page * a.p.v[0] + group * a.p.v[2];
            float score = -INFINITE;
            const bool seen = t < count && first + t >= begin;
            if (seen) {
                float dot_ = 0;
                for (uint c = 0; c < a.p.d; c++)
                    dot_ += query[c] * weight_at(DTYPE_K, push.at[1], k + t * a.p.k[1] + c * a.p.k[3]);
                score = dot_ * a.p.scale;
                if (a.p.softcap != 0) score = a.p.softcap * tanh_of(score / a.p.softcap);
            }
            const float before = largest;
            largest = max(largest, group_max(score));
            const float correction = before == largest ? 1 : exp_of(before - largest);
            const float e = seen ? exp_of(score - largest) : 0;
            share[t] = e;
            sum = sum * correction + group_sum(e);
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                const uint column = t + c * GROUP;
                if (column >= a.p.e) continue;
                float part = result[c] * correction;
                for (uint j = 0; j < count; j++)
                    part += share[j] *
                            weight_at(DTYPE_V, push.at[2], v + j * a.p.v[1] + column * a.p.v[3]);
                result[c] = part;
            }
            barrier();
        }
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
            const uint column = t + c * GROUP;
            if (column < a.p.e) FLOATS(6)[number * a.p.e + column] = sum > 0 ? result[c] / sum : 0;
        }
        barrier();
    }
}

void main() {
    if (FORM == VK_STORE_ROWS)
        store_rows();
    else
        attention_paged();
}
