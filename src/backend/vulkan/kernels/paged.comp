#version 460
/* A cache of keys and values in pages of 64 positions: rows stored into it, attention that reads
 * it.  Attention goes through the positions a page at a time, one thread for each. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "functions.glsl"
#include "group.glsl"

layout(constant_id = 1) const uint FORM = 0;
layout(constant_id = 2) const uint WIDTH = 64;  /* of q and k */
layout(constant_id = 3) const uint COLUMNS = 1; /* of a thread */

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Store {
    vk_store_params p;
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Paged {
    vk_paged_params p;
};

/* dst, rows, index: of several rows for one place, the last is stored */
void store_rows() {
    Store s = Store(push.params_at);
    FOR_EACH(i, s.p.rows * s.p.width) {
        const uint row = i / s.p.width, column = i % s.p.width;
        const int to = INTS(2)[row * s.p.index_stride];
        bool last = to >= 0 && to < int(s.p.n);
        for (uint j = row + 1; j < s.p.rows && last; j++)
            last = INTS(2)[j * s.p.index_stride] != to;
        if (last)
            FLOATS(0)[place_of(s.p.to, uint(to) * s.p.width + column)] =
                FLOATS(1)[place_of(s.p.from, i)];
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
        for (uint first = 0; known && int(first) <= last; first += GROUP) {
            const uint slot = first / GROUP;
            if (slot >= a.p.pages) break;
            const int page = INTS(3)[sequence * a.p.table[0] + slot * a.p.table[1]];
            if (page < 0 || page >= int(a.p.n_pages)) break;
            const uint count = min(GROUP, uint(last) + 1 - first);
            const uint k = page * a.p.k[0] + group * a.p.k[2];
            const uint v = page * a.p.v[0] + group * a.p.v[2];
            float score = -INFINITE;
            if (t < count) {
                float dot_ = 0;
                for (uint c = 0; c < a.p.d; c++)
                    dot_ += query[c] * FLOATS(1)[k + t * a.p.k[1] + c * a.p.k[3]];
                score = dot_ * a.p.scale;
            }
            const float before = largest;
            largest = max(largest, group_max(score));
            const float correction = before == largest ? 1 : exp_of(before - largest);
            const float e = t < count ? exp_of(score - largest) : 0;
            share[t] = e;
            sum = sum * correction + group_sum(e);
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                const uint column = t + c * GROUP;
                if (column >= a.p.e) continue;
                float part = result[c] * correction;
                for (uint j = 0; j < count; j++)
                    part += share[j] * FLOATS(2)[v + j * a.p.v[1] + column * a.p.v[3]];
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
