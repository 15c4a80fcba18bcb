#version 460
/*
 * A large product: a [m, k] x b [k, n] + bias [n], through an activation.  A group of
 * 16 x 16 threads makes a tile of TILE x TILE, each thread EACH x EACH of it in runs
 * of four, so that what it reads of shared memory are whole vectors.
 *
 * A slice of k has 2048 elements of either side: eight for each thread, which are on
 * their way from memory while the slice before is multiplied.
 */
#extension GL_GOOGLE_include_directive : require
#define HEAD vk_matmul_head
#include "common.glsl"
#include "dequantize.glsl"
#include "functions.glsl"
#include "epilogue.glsl"
#include "dequantize_vec4.glsl"
#include "dequantize_by8.glsl"

layout(constant_id = 1) const uint TILE = 128;
layout(constant_id = 3) const uint DTYPE = 0; /* of b */
layout(constant_id = 4) const uint A_FORM = 0;
layout(constant_id = 5) const uint B_FORM = 0;
layout(constant_id = VK_PARTS_ID) const uint PARTS = 1; /* of k, of a single product */
const uint SIDE = 16, THREADS = 256;
const uint EACH = TILE / SIDE, RUNS = EACH / 4; /* rows and columns of a thread */
const uint DEPTH = 8 * THREADS / TILE;
const uint PITCH = TILE / 4 + 1; /* vectors from one k to the next */

PARAMS(vk_matmul_params)

shared vec4 tile_a[DEPTH * PITCH], tile_b[DEPTH * PITCH];

/* Where element j of a thread's eight lies in a slice: its row (or column) and its k. */
uvec2 place_in_slice(uint form, uint j) {
    const uint t = thread(), i = j * THREADS + t;
    switch (form) {
    case VK_BY_EIGHTS: return uvec2(t % TILE, t / TILE * 8 + j);
    case VK_ALONG_K: return uvec2(i / DEPTH, i % DEPTH);
    case VK_BY_FOURS: {
        const uint first = (j / 4 * THREADS + t) * 4;
        return uvec2(first % TILE + j % 4, first / TILE);
    }
    default: return uvec2(i % TILE, i / TILE); /* VK_ACROSS_K */
    }
}

/* A side of the product: where it begins in memory and how far it goes. */
struct side {
    Address at;
    uint first, end; /* rows of the tile, of the side */
    uint stride, k_stride;
};

/* A thread's eight of the slice from k0 on.  Beyond the end there are zeros. */
eight fetch(uint form, uint dtype, side s, uint k0) {
    eight e = eight(vec4(0), vec4(0));
    if (form == VK_BY_EIGHTS) {
        const uvec2 p = place_in_slice(form, 0) + uvec2(s.first, k0);
        const uint blocks = s.stride / block_elements(dtype);
        if (p.x < s.end && p.y < head.k)
            e = eight_at(dtype, further(s.at, p.x * blocks, block_bytes(dtype)), p.y / 8);
        return e;
    }
    if (form == VK_BY_FOURS) {
        const uvec2 p = place_in_slice(form, 0) + uvec2(s.first, k0);
        const uvec2 q = place_in_slice(form, 4) + uvec2(s.first, k0);
        if (p.x < s.end && p.y < head.k) e.low = vector_at(s.at, (p.y * s.k_stride + p.x) / 4);
        if (q.x < s.end && q.y < head.k) e.high = vector_at(s.at, (q.y * s.k_stride + q.x) / 4);
        return e;
    }
    [[unroll]] for (uint j = 0; j < 8; j++) {
        const uvec2 p = place_in_slice(form, j) + uvec2(s.first, k0);
        if (p.x >= s.end || p.y >= head.k) continue;
        const float x = weight_at(dtype, s.at, p.x * s.stride + p.y * s.k_stride);
        if (j < 4)
            e.low[j] = x;
        else
            e.high[j - 4] = x;
    }
    return e;
}

#define STORE(tile, form, e)                                              \
    [[unroll]] for (uint j = 0; j < 8; j++) {                             \
        const uvec2 p = place_in_slice(form, j);                          \
        tile[p.y * PITCH + p.x / 4][p.x % 4] = j < 4 ? e.low[j] : e.high[j - 4]; \
    }

vec4 sum[EACH * RUNS]; /* [row, run of columns] */

void multiply_slice(uint x, uint y) {
    for (uint k0 = 0; k0 < DEPTH; k0 += 8)
        [[unroll]] for (uint k = k0; k < k0 + 8; k++) {
            vec4 left[RUNS], right[RUNS];
            [[unroll]] for (uint r = 0; r < RUNS; r++) {
                left[r] = tile_a[k * PITCH + r * SIDE + y];
                right[r] = tile_b[k * PITCH + r * SIDE + x];
            }
            [[unroll]] for (uint i = 0; i < EACH; i++)
                [[unroll]] for (uint r = 0; r < RUNS; r++)
                    sum[i * RUNS + r] += left[i / 4][i % 4] * right[r];
        }
}

void main() {
    const uint x = thread() % SIDE, y = thread() / SIDE;
    const uint row0 = gl_WorkGroupID.y * TILE, column0 = gl_WorkGroupID.x * TILE;
    const uint part = PARTS > 1 ? gl_WorkGroupID.z : 0, first = PARTS > 1 ? 0 : gl_WorkGroupID.z;
    const uvec2 range = part_of_k(part, PARTS, DEPTH);
    for (uint batch = first; batch < head.batches; batch += gl_NumWorkGroups.z) {
        const uint a_at = head.batches > 1 ? place_of(params.a, batch) : 0;
        const uint b_at = head.batches > 1 ? place_of(params.b, batch) : 0;
        const side a = side(further(ADDRESS_OF(0), a_at, 4), row0, head.m, head.a_row, head.a_k);
        const side b =
            side(further(ADDRESS_OF(1), b_at / block_elements(DTYPE), block_bytes(DTYPE)), column0,
                 head.n, head.b_column, head.b_k);
        [[unroll]] for (uint i = 0; i < EACH * RUNS; i++) sum[i] = vec4(0);
        eight ea = fetch(A_FORM, VK_F32, a, range.x), eb = fetch(B_FORM, DTYPE, b, range.x);
        for (uint k0 = range.x; k0 < range.y; k0 += DEPTH) {
            STORE(tile_a, A_FORM, ea)
            STORE(tile_b, B_FORM, eb)
            barrier();
            if (k0 + DEPTH < range.y) {
                ea = fetch(A_FORM, VK_F32, a, k0 + DEPTH);
                eb = fetch(B_FORM, DTYPE, b, k0 + DEPTH);
            }
            multiply_slice(x, y);
            barrier();
        }
        [[unroll]] for (uint i = 0; i < EACH; i++)
            [[unroll]] for (uint j = 0; j < EACH; j++) {
                const uint row = row0 + i / 4 * SIDE * 4 + y * 4 + i % 4;
                const uint column = column0 + j / 4 * SIDE * 4 + x * 4 + j % 4;
                if (row >= head.m || column >= head.n) continue;
                const float e = sum[i * RUNS + j / 4][j % 4];
                if (PARTS > 1)
                    SET_FLOAT(3, (part * head.m + row) * head.n + column, e);
                else
                    finish((batch * head.m + row) * head.n + column, column, e);
            }
    }
}
