#version 460
/* A few rows a [ROWS, k] x b [n, k]^T + bias [n], through an activation.  b is read just once: a
 * group takes a row of it, and its threads share out k. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "decode.glsl"
#include "functions.glsl"
#include "group.glsl"

layout(constant_id = 1) const uint ROWS = 1;
layout(constant_id = 3) const uint DTYPE = 0; /* of b */
layout(constant_id = 6) const uint ACTIVATION = 0;
layout(constant_id = 7) const bool HAS_BIAS = false;

PARAMS(vk_matmul_params)

void main() {
    FOR_EACH_GROUP(column, params.n) {
        float sum[ROWS];
        [[unroll]] for (uint i = 0; i < ROWS; i++) sum[i] = 0;
        for (uint k = thread(); k < params.k; k += GROUP) {
            const float w = weight_at(DTYPE, push.at[1], column * params.b_column + k);
            [[unroll]] for (uint i = 0; i < ROWS; i++) sum[i] += w * FLOATS(0)[i * params.a_row + k];
        }
        [[unroll]] for (uint i = 0; i < ROWS; i++) {
            float e = group_sum(sum[i]);
            if (HAS_BIAS) e += FLOATS(2)[column * params.bias_stride];
            if (thread() == 0) FLOATS(3)[i * params.n + column] = activation_of(ACTIVATION, e);
        }
    }
}
