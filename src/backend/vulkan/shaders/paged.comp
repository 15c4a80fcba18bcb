#version 460
/* A cache of keys and values in pages of 64 positions: rows stored into it, attention that reads
 * it.  Attention goes through the positions a page at a time, one thread for each. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "dequantize.glsl"
#include "encode.glsl"
#include "functions.glsl"
#include "workgroup_reduce.glsl"

layout(constant_id = 1) const uint FORM = 0;
layout(constant_id = 2) const uint WIDTH = 64;  /* of q and k */
layout(constant_id = 3) const uint COLUMNS = 1; /* of a thread */
layout(constant_id = 4) const uint DTYPE_K = 0; /* of k, or of what is stored into */
layout(constant_id = 5) const uint DTYPE_V = 0;

PARAMS_NAMED(Store, vk_store_params)
PARAMS_NAMED(Paged, vk_paged_params)
#define STORE PARAMS_OF(Store)
#define PAGED PARAMS_OF(Paged)
#include "sinks.glsl"

/* A block of q8_0: the largest magnitude becomes 127. */
void store_block(Address at, uint first, vk_places places) {
    uint largest = 0;
    for (uint i = 0; i < 32; i++)
        largest =
            max(largest, floatBitsToUint(FLOAT(1, place_of(places, first + i))) & 0x7fffffffu);
    const bool finite = largest < 0x7f800000u;
    const float d = finite ? quotient(uintBitsToFloat(largest), 127) : NOT_A_NUMBER;
    const float inverse = d > 0 ? quotient(1, d) : 0;
    const uint half_ = float_to_half(d);
    set_byte(at, 0, half_ & 255u);
    set_byte(at, 1, half_ >> 8);
    for (uint i = 0; i < 32; i++) {
        precise const float x = FLOAT(1, place_of(places, first + i)) * inverse;
        const int q = finite ? int(abs(x) + 0.5) : 0; /* round half away from zero */
        set_byte(at, 2 + i, uint(x < 0 ? -q : q) & 255u);
    }
}

void store(uint to, uint from, vk_places places) {
    const float x = FLOAT(1, place_of(places, from));
    switch (DTYPE_K) {
    case VK_F16: STORE_U16(0, to, float_to_half(x)); break;
    case VK_BF16: STORE_U16(0, to, float_to_bfloat(x)); break;
    default: SET_FLOAT(0, to, x); break;
    }
}

/* dst, rows, index: of several rows for one place, the last is stored.  A group takes a row. */
void store_rows() {
    const uint each = DTYPE_K == VK_Q8_0 ? 32 : 1; /* elements of a thread */
    FOR_EACH_GROUP(row, STORE.rows) {
        const int to = INT(2, row * STORE.index_stride);
        if (to < 0 || to >= int(STORE.n)) continue;
        float later = 0;
        for (uint j = row + 1 + thread(); j < STORE.rows; j += GROUP)
            if (INT(2, j * STORE.index_stride) == to) later = 1;
        if (group_max(later) > 0) continue;
        for (uint column = thread() * each; column < STORE.width; column += GROUP * each) {
            const uint from = row * STORE.width + column;
            const uint place = place_of(STORE.to, uint(to) * STORE.width + column);
            if (DTYPE_K == VK_Q8_0)
                store_block(further(ADDRESS_OF(0), place / 32, 34), from, STORE.from);
            else
                store(place, from, STORE.from);
        }
    }
}

shared float query[WIDTH];
shared float share[GROUP];

void attention_paged() {
    const uint t = thread();
    FOR_EACH_GROUP(number, PAGED.rows * PAGED.h) {
        const uint row = number / PAGED.h, head = number % PAGED.h;
        const uint group = head / (PAGED.h / PAGED.g);
        const int sequence = INT(4, row * PAGED.sequence), last = INT(5, row * PAGED.position);
        const uint q = row * PAGED.q[0] + head * PAGED.q[1];
        for (uint c = t; c < PAGED.d; c += GROUP) query[c] = FLOAT(0, q + c * PAGED.q[2]);
        barrier();
        float largest = -INFINITE, sum = 0;
        float result[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) result[c] = 0;
        const bool known = sequence >= 0 && sequence < int(PAGED.sequences);
        const int window = int(PAGED.window);
        const uint begin = window > 0 && last >= window ? uint(last - window + 1) : 0;
        for (uint first = begin / GROUP * GROUP; known && int(first) <= last; first += GROUP) {
            const uint slot = first / GROUP;
            if (slot >= PAGED.pages) break;
            const int page = INT(3, sequence * PAGED.table[0] + slot * PAGED.table[1]);
            if (page < 0 || page >= int(PAGED.n_pages)) break;
            const uint count = min(GROUP, uint(last) + 1 - first);
            const uint k = page * PAGED.k[0] + group * PAGED.k[2];
            const uint v = page * PAGED.v[0] + group * PAGED.v[2];
            float score = -INFINITE;
            const bool seen = t < count && first + t >= begin;
            if (seen) {
                float dot_ = 0;
                for (uint c = 0; c < PAGED.d; c++)
                    dot_ += query[c] * weight_at(DTYPE_K, ADDRESS_OF(1),
                                                 k + t * PAGED.k[1] + c * PAGED.k[3]);
                score = dot_ * PAGED.scale;
                if (PAGED.softcap != 0) score = PAGED.softcap * tanh_of(score / PAGED.softcap);
            }
            const float before = largest;
            largest = max(largest, group_max(score));
            const float correction = before == largest ? 1 : exp_of(before - largest);
            const float e = seen ? exp_of(score - largest) : 0;
            share[t] = e;
            sum = sum * correction + group_sum(e);
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                const uint column = t + c * GROUP;
                if (column >= PAGED.e) continue;
                float part = result[c] * correction;
                for (uint j = max(begin, first) - first; j < count; j++) /* those that are seen */
                    part += share[j] * weight_at(DTYPE_V, ADDRESS_OF(2),
                                                 v + j * PAGED.v[1] + column * PAGED.v[3]);
                result[c] = part;
            }
            barrier();
        }
        sum = sum_with_sink(head, largest, sum);
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
            const uint column = t + c * GROUP;
            if (column < PAGED.e)
                SET_FLOAT(6, number * PAGED.e + column, sum == 0 ? 0 : result[c] / sum);
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
