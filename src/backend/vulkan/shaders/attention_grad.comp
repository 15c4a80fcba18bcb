#version 460
/*
 * The gradients of attention, from q, k, v, out, log-sum-exp and dout:
 *     p = exp(score - lse),   ds = p (dout . v - dout . out)
 *     dq = scale ds k,   dk = scale ds q,   dv = p dout
 * A group takes a row of q, or a row of k and v, and goes through the other side a
 * block at a time: each thread has p and ds of one pair, then columns of the sums.
 */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "functions.glsl"

layout(constant_id = 1) const uint COLUMNS = 1; /* of a thread: enough for d and for e */
layout(constant_id = 2) const uint FORM = 0;
layout(constant_id = 3) const bool VECTORS = false; /* rows can be read four elements at a time */

PARAMS(vk_attention_params)

shared float slopes[GROUP], shares[GROUP];

/* Keys that a row of q sees. */
uint keys_of(uint row) {
    if (params.causal == 0) return params.s;
    return uint(clamp(int(row + 1 + params.s) - int(params.t), 0, int(params.s)));
}

uint at4(uint stride[4], uint batch, uint row, uint head) {
    return batch * stride[0] + row * stride[1] + head * stride[2];
}

/* p and ds of a row of q and a key. */
vec2 pair_of(uint batch, uint row, uint head, uint group, uint key) {
    const uint q = at4(params.q, batch, row, head), k = at4(params.k, batch, key, group);
    const uint v = at4(params.v, batch, key, group), o = at4(params.out_, batch, row, head);
    const uint dout = at4(params.dout, batch, row, head);
    float score = 0, slope = 0;
    for (uint c = 0; c < params.d / 4 && VECTORS; c++)
        score += dot(vector_at(ADDRESS_OF(0), q / 4 + c), vector_at(ADDRESS_OF(1), k / 4 + c));
    for (uint c = 0; c < params.e / 4 && VECTORS; c++)
        slope += dot(vector_at(ADDRESS_OF(5), dout / 4 + c),
                     vector_at(ADDRESS_OF(2), v / 4 + c) - vector_at(ADDRESS_OF(3), o / 4 + c));
    for (uint c = 0; c < params.d && !VECTORS; c++)
        score += FLOAT(0, q + c * params.q[3]) * FLOAT(1, k + c * params.k[3]);
    for (uint c = 0; c < params.e && !VECTORS; c++)
        slope += FLOAT(5, dout + c * params.dout[3]) *
                 (FLOAT(2, v + c * params.v[3]) - FLOAT(3, o + c * params.out_[3]));
    const float lse =
        FLOAT(4, batch * params.lse[0] + row * params.lse[1] + head * params.lse[2]);
    const float p = exp_of(score * params.scale - lse);
    return vec2(p, p * slope);
}

void query_grad() {
    const uint t = thread();
    FOR_EACH_GROUP(number, params.b * params.t * params.h) {
        const uint head = number % params.h, row = number / params.h % params.t;
        const uint batch = number / params.h / params.t, group = head / (params.h / params.g);
        const uint keys = keys_of(row);
        float sum[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) sum[c] = 0;
        for (uint first = 0; first < keys; first += GROUP) {
            const uint count = min(GROUP, keys - first);
            slopes[t] = t < count ? pair_of(batch, row, head, group, first + t).y : 0;
            barrier();
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                const uint column = t + c * GROUP;
                if (column >= params.d) continue;
                for (uint j = 0; j < count; j++)
                    sum[c] += slopes[j] * FLOAT(1, at4(params.k, batch, first + j, group) +
                                                       column * params.k[3]);
            }
            barrier();
        }
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
            const uint column = t + c * GROUP;
            if (column < params.d) SET_FLOAT(6, number * params.d + column, sum[c] * params.scale);
        }
    }
}

void key_grad() {
    const uint t = thread(), heads = params.h / params.g;
    FOR_EACH_GROUP(number, params.b * params.s * params.g) {
        const uint group = number % params.g, key = number / params.g % params.s;
        const uint batch = number / params.g / params.s, pairs = params.t * heads;
        float of_k[COLUMNS], of_v[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) of_k[c] = of_v[c] = 0;
        for (uint first = 0; first < pairs; first += GROUP) {
            const uint i = first + t, count = min(GROUP, pairs - first);
            vec2 pair = vec2(0);
            if (t < count && key < keys_of(i / heads))
                pair = pair_of(batch, i / heads, group * heads + i % heads, group, key);
            shares[t] = pair.x;
            slopes[t] = pair.y;
            barrier();
            for (uint j = 0; j < count; j++) {
                const uint row = (first + j) / heads, head = group * heads + (first + j) % heads;
                if (key >= keys_of(row)) continue;
                const uint q = at4(params.q, batch, row, head);
                const uint dout = at4(params.dout, batch, row, head);
                [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                    const uint column = t + c * GROUP;
                    if (column < params.d)
                        of_k[c] += slopes[j] * FLOAT(0, q + column * params.q[3]);
                    if (column < params.e)
                        of_v[c] += shares[j] * FLOAT(5, dout + column * params.dout[3]);
                }
            }
            barrier();
        }
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
            const uint column = t + c * GROUP;
            if (column < params.d) SET_FLOAT(6, number * params.d + column, of_k[c] * params.scale);
            if (column < params.e) SET_FLOAT(7, number * params.e + column, of_v[c]);
        }
    }
}

void main() {
    if (FORM == VK_GRAD_OF_Q)
        query_grad();
    else
        key_grad();
}
