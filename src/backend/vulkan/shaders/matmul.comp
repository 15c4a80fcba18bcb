#version 460
/*
 * a [m, k] x b [k, n] + bias [n], through an activation.  A group of 16 x 16 threads
 * makes a tile of TILE x TILE; each thread makes every 16th row and column of it,
 * so that neighbors read neighbors.  Slices of DEPTH along k are brought into
 * shared memory first, along whichever dimension lies side by side.
 */
#extension GL_GOOGLE_include_directive : require
#define HEAD vk_matmul_head
#include "common.glsl"
#include "dequantize.glsl"
#include "functions.glsl"
#include "epilogue.glsl"

layout(constant_id = 1) const uint TILE = 64;
layout(constant_id = 2) const uint DEPTH = 16;
layout(constant_id = 3) const uint DTYPE = 0; /* of b */
layout(constant_id = 4) const bool A_ALONG_K = true;
layout(constant_id = 5) const bool B_ALONG_K = true;
layout(constant_id = 8) const uint GROUPED = 0;
const uint SIDE = 16;
const uint EACH = TILE / SIDE; /* rows and columns of a thread */
const uint PITCH = TILE + 1;   /* odd, so that columns miss each other */

PARAMS(vk_matmul_params)

shared float tile_a[DEPTH * PITCH], tile_b[DEPTH * PITCH];

void load_a(uint base, uint row0, uint rows, uint k0, uint depth) {
    for (uint i = thread(); i < TILE * DEPTH; i += SIDE * SIDE) {
        const uint k = A_ALONG_K ? i % DEPTH : i / TILE, row = A_ALONG_K ? i / DEPTH : i % TILE;
        const bool inside = row0 + row < rows && k0 + k < depth;
        tile_a[k * PITCH + row] =
            inside ? FLOAT(0, base + (row0 + row) * head.a_row + (k0 + k) * head.a_k) : 0;
    }
}

void load_b(uint base, uint column0, uint k0, uint depth) {
    for (uint i = thread(); i < TILE * DEPTH; i += SIDE * SIDE) {
        const uint k = B_ALONG_K ? i % DEPTH : i / TILE;
        const uint column = B_ALONG_K ? i / DEPTH : i % TILE;
        const bool inside = column0 + column < head.n && k0 + k < depth;
        const uint at = base + (column0 + column) * head.b_column + (k0 + k) * head.b_k;
        tile_b[k * PITCH + column] = inside ? weight_at(DTYPE, ADDRESS_OF(1), at) : 0;
    }
}

/* The rows of an expert: [offsets[i], offsets[i + 1]), where a range that goes back is empty. */
uvec2 rows_of(uint expert) {
    int begin = INT(2, 0);
    for (uint i = 0; i < expert; i++)
        begin = max(begin, INT(2, (i + 1) * head.offset_stride));
    const int end = min(INT(2, (expert + 1) * head.offset_stride), int(head.grouped));
    begin = max(begin, 0);
    return uvec2(begin, max(begin, end));
}

void main() {
    const uint x = thread() % SIDE, y = thread() / SIDE, column0 = gl_WorkGroupID.x * TILE;
    for (uint batch = gl_WorkGroupID.z; batch < head.batches; batch += gl_NumWorkGroups.z) {
        const uint a = place_of(params.a, batch), b = place_of(params.b, batch);
        uint row0 = gl_WorkGroupID.y * TILE, rows = head.m, first = 0, depth = head.k;
        uint to = batch * head.m; /* the row of the result where this matrix begins */
        if (GROUPED == VK_GROUPED_ROWS) {
            const uvec2 range = rows_of(batch);
            row0 += range.x;
            rows = range.y;
            to = 0;
            if (row0 >= rows) continue;
        }
        if (GROUPED == VK_GROUPED_DEPTH) {
            const uvec2 range = rows_of(batch);
            first = range.x;
            depth = range.y;
        }
        float sum[EACH * EACH];
        [[unroll]] for (uint i = 0; i < EACH * EACH; i++) sum[i] = 0;
        for (uint k0 = first; k0 < depth; k0 += DEPTH) {
            load_a(a, row0, rows, k0, depth);
            load_b(b, column0, k0, depth);
            barrier();
            for (uint k = 0; k < DEPTH; k++) {
                float left[EACH], right[EACH];
                [[unroll]] for (uint i = 0; i < EACH; i++)
                    left[i] = tile_a[k * PITCH + y + i * SIDE];
                [[unroll]] for (uint j = 0; j < EACH; j++)
                    right[j] = tile_b[k * PITCH + x + j * SIDE];
                [[unroll]] for (uint i = 0; i < EACH; i++)
                    [[unroll]] for (uint j = 0; j < EACH; j++)
                        sum[i * EACH + j] += left[i] * right[j];
            }
            barrier();
        }
        [[unroll]] for (uint i = 0; i < EACH; i++)
            [[unroll]] for (uint j = 0; j < EACH; j++) {
                const uint row = row0 + y + i * SIDE, column = column0 + x + j * SIDE;
                if (row >= rows || column >= head.n) continue;
                finish((to + row) * head.n + column, column, sum[i * EACH + j]);
            }
    }
}
