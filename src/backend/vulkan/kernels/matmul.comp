#version 460
/*
 * a [m, k] x b [k, n] + bias [n], through an activation.  A group of 16 x 16 threads
 * makes a tile of TILE_M x TILE_N; each thread makes every 16th row and column of it,
 * so that neighbours read neighbours.  Slices of DEPTH along k are brought into
 * shared memory first, along whichever dimension lies side by side.
 */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "decode.glsl"
#include "functions.glsl"

layout(constant_id = 1) const uint TILE_M = 64;
layout(constant_id = 2) const uint TILE_N = 64;
layout(constant_id = 3) const uint DTYPE = 0; /* of b */
layout(constant_id = 4) const bool A_ALONG_K = true;
layout(constant_id = 5) const bool B_ALONG_K = true;
layout(constant_id = 6) const uint ACTIVATION = 0;
layout(constant_id = 7) const bool HAS_BIAS = false;
const uint DEPTH = 16, SIDE = 16;
const uint ROWS = TILE_M / SIDE, COLUMNS = TILE_N / SIDE; /* of a thread */
const uint PITCH_A = TILE_M + 1, PITCH_B = TILE_N + 1;    /* odd, so that columns miss each other */

PARAMS(vk_matmul_params)

shared float tile_a[DEPTH * PITCH_A], tile_b[DEPTH * PITCH_B];

void load_a(uint base, uint row0, uint k0) {
    for (uint i = thread(); i < TILE_M * DEPTH; i += SIDE * SIDE) {
        const uint k = A_ALONG_K ? i % DEPTH : i / TILE_M, row = A_ALONG_K ? i / DEPTH : i % TILE_M;
        const bool inside = row0 + row < params.m && k0 + k < params.k;
        tile_a[k * PITCH_A + row] =
            inside ? FLOATS(0)[base + (row0 + row) * params.a_row + (k0 + k) * params.a_k] : 0;
    }
}

void load_b(uint base, uint column0, uint k0) {
    for (uint i = thread(); i < TILE_N * DEPTH; i += SIDE * SIDE) {
        const uint k = B_ALONG_K ? i % DEPTH : i / TILE_N;
        const uint column = B_ALONG_K ? i / DEPTH : i % TILE_N;
        const bool inside = column0 + column < params.n && k0 + k < params.k;
        const uint at = base + (column0 + column) * params.b_column + (k0 + k) * params.b_k;
        tile_b[k * PITCH_B + column] = inside ? weight_at(DTYPE, push.at[1], at) : 0;
    }
}

void main() {
    const uint x = thread() % SIDE, y = thread() / SIDE;
    const uint row0 = gl_WorkGroupID.y * TILE_M, column0 = gl_WorkGroupID.x * TILE_N;
    for (uint batch = gl_WorkGroupID.z; batch < params.batches; batch += gl_NumWorkGroups.z) {
        const uint a = place_of(params.a, batch), b = place_of(params.b, batch);
        float sum[ROWS * COLUMNS];
        [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++) sum[i] = 0;
        for (uint k0 = 0; k0 < params.k; k0 += DEPTH) {
            load_a(a, row0, k0);
            load_b(b, column0, k0);
            barrier();
            [[unroll]] for (uint k = 0; k < DEPTH; k++) {
                float left[ROWS], right[COLUMNS];
                [[unroll]] for (uint i = 0; i < ROWS; i++)
                    left[i] = tile_a[k * PITCH_A + y + i * SIDE];
                [[unroll]] for (uint j = 0; j < COLUMNS; j++)
                    right[j] = tile_b[k * PITCH_B + x + j * SIDE];
                [[unroll]] for (uint i = 0; i < ROWS; i++)
                    [[unroll]] for (uint j = 0; j < COLUMNS; j++)
                        sum[i * COLUMNS + j] += left[i] * right[j];
            }
            barrier();
        }
        [[unroll]] for (uint i = 0; i < ROWS; i++)
            [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
                const uint row = row0 + y + i * SIDE, column = column0 + x + j * SIDE;
                if (row >= params.m || column >= params.n) continue;
                float e = sum[i * COLUMNS + j];
                if (HAS_BIAS) e += FLOATS(2)[column * params.bias_stride];
                FLOATS(3)[(batch * params.m + row) * params.n + column] =
                    activation_of(ACTIVATION, e);
            }
    }
}
