#version 460
/*
 * A product of which tiles would leave most of the device idle.  A group makes WIDE
 * neighbors of a row, with GROUP / WIDE threads for each that share out k: all loads
 * are under way at once, and nothing goes through shared memory but the sums.
 */
#extension GL_GOOGLE_include_directive : require
#define HEAD vk_matmul_head
#include "common.glsl"
#include "dequantize.glsl"
#include "functions.glsl"
#include "epilogue.glsl"

layout(constant_id = 1) const uint WIDE = 32;
layout(constant_id = 3) const uint DTYPE = 0; /* of b; no blocks */
const uint TALL = GROUP / WIDE;
const uint AT_ONCE = 8; /* elements of k that a thread loads before it multiplies any */

PARAMS(vk_matmul_params)

shared float partial[GROUP];

float part_of(uint a, uint b, uint first) {
    float sum = 0;
    for (uint k0 = first; k0 < head.k; k0 += TALL * AT_ONCE)
        [[unroll]] for (uint i = 0; i < AT_ONCE; i++) {
            const uint k = k0 + i * TALL;
            if (k < head.k)
                sum += FLOAT(0, a + k * head.a_k) *
                       plain_at(DTYPE, ADDRESS_OF(1), b + k * head.b_k);
        }
    return sum;
}

void main() {
    const uint t = thread(), column = gl_WorkGroupID.x * WIDE + t % WIDE;
    for (uint batch = gl_WorkGroupID.z; batch < head.batches; batch += gl_NumWorkGroups.z)
        for (uint row = gl_WorkGroupID.y; row < head.m; row += gl_NumWorkGroups.y) {
            const uint a = (head.batches > 1 ? place_of(params.a, batch) : 0) + row * head.a_row;
            const uint b = head.batches > 1 ? place_of(params.b, batch) : 0;
            const uint own = min(column, head.n - 1) * head.b_column;
            partial[t] = part_of(a, b + own, t / WIDE);
            barrier();
            if (t < WIDE && column < head.n) {
                float e = 0;
                [[unroll]] for (uint i = 0; i < TALL; i++) e += partial[i * WIDE + t];
                finish((batch * head.m + row) * head.n + column, column, e);
            }
            barrier();
        }
}
