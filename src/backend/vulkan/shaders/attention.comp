#version 460
/*
 * softmax(scale q k^T) v, without ever writing the scores.  A group takes one row of
 * q and goes through the keys a block at a time: each thread has a key's score, then
 * each has columns of the result.  Largest score and sum are corrected as it goes.
 */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "functions.glsl"
#include "workgroup_reduce.glsl"

layout(constant_id = 1) const uint WIDTH = 64;   /* of q and k */
layout(constant_id = 2) const uint COLUMNS = 1;  /* of a thread: GROUP * COLUMNS are enough for v */
layout(constant_id = 3) const bool HAS_LSE = false;
layout(constant_id = 4) const bool VECTORS = false; /* keys can be read four elements at a time */

PARAMS(vk_attention_params)

shared vec4 query[(WIDTH + 3) / 4];
shared float share[GROUP];

void main() {
    const uint t = thread(), group_size = params.h / max(params.g, 1u);
    FOR_EACH_GROUP(number, params.b * params.t * params.h) {
        const uint head = number % params.h, row = number / params.h % params.t;
        const uint batch = number / params.h / params.t, group = head / group_size;
        const uint q = batch * params.q[0] + row * params.q[1] + head * params.q[2];
        const uint k = batch * params.k[0] + group * params.k[2];
        const uint v = batch * params.v[0] + group * params.v[2];
        uint keys = params.s;
        if (params.causal != 0) {
            const int seen = int(row + 1 + params.s) - int(params.t);
            keys = uint(clamp(seen, 0, int(params.s)));
        }
        for (uint c = t; c < WIDTH; c += GROUP) query[c / 4][c % 4] = FLOAT(0, q + c * params.q[3]);
        barrier();
        float largest = -INFINITE, sum = 0;
        float result[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) result[c] = 0;
        for (uint first = 0; first < keys; first += GROUP) {
            const uint count = min(GROUP, keys - first);
            float score = -INFINITE;
            if (t < count) {
                const uint at = k + (first + t) * params.k[1];
                float dot_ = 0;
                for (uint c = 0; c < WIDTH / 4 && VECTORS; c++)
                    dot_ += dot(query[c], vector_at(ADDRESS_OF(1), at / 4 + c));
                for (uint c = 0; c < WIDTH && !VECTORS; c++)
                    dot_ += query[c / 4][c % 4] * FLOAT(1, at + c * params.k[3]);
                score = dot_ * params.scale;
            }
            const float before = largest;
            largest = max(largest, group_max(score));
            const float correction = before == largest ? 1 : exp_of(before - largest);
            const float e = t < count ? exp_of(score - largest) : 0;
            share[t] = e;
            sum = sum * correction + group_sum(e);
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                const uint column = t + c * GROUP;
                if (column >= params.e) continue;
                float part = result[c] * correction;
                for (uint j = 0; j < count; j++)
                    part += share[j] *
                            FLOAT(2, v + (first + j) * params.v[1] + column * params.v[3]);
                result[c] = part;
            }
            barrier();
        }
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
            const uint column = t + c * GROUP;
            if (column < params.e)
                SET_FLOAT(3, number * params.e + column, keys == 0 ? 0 : result[c] / sum);
        }
        if (HAS_LSE && t == 0) SET_FLOAT(4, number, keys == 0 ? -INFINITE : largest + log_of(sum));
        barrier();
    }
}
