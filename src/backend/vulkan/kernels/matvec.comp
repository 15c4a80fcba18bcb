#version 460
/*
 * A few rows a [ROWS, k] x b [n, k]^T + bias [n], through an activation.  b is read
 * just once: COLUMNS rows of it belong to a team of threads, which share out k by
 * the piece.  A team is a subgroup, or with WHOLE the group.
 */
#extension GL_GOOGLE_include_directive : require
#define HEAD vk_matmul_head
#include "common.glsl"
#include "decode.glsl"
#include "functions.glsl"
#include "pieces.glsl"

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(constant_id = 1) const uint ROWS = 1;
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint DTYPE = 0; /* of b */
layout(constant_id = 4) const bool WHOLE = true;
layout(constant_id = 5) const bool PIECES = false; /* else element by element */
layout(constant_id = 6) const uint ACTIVATION = 0;
layout(constant_id = 7) const bool HAS_BIAS = false;

float sum[ROWS * COLUMNS];

/* Columns from `first` on; those beyond the last are read as the last. */
void add_pieces(uint first, uint lane, uint lanes) {
    const uint vectors = piece_vectors(DTYPE), run = piece_run(DTYPE), step_ = piece_step(DTYPE);
    const uint64_t row_bytes = uint64_t(head.b_column / block_elements(DTYPE)) * block_bytes(DTYPE);
    for (uint i = lane; i < head.k / (4 * vectors); i += lanes) {
        const uint at = piece_first(DTYPE, i);
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
            const uint column = min(first + c, head.n - 1);
            vec4 w[PIECE_VECTORS];
            piece_at(DTYPE, push.at[1] + column * row_bytes, i, w);
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                Vectors x = Vectors(push.at[0] + uint64_t(r * head.a_row) * 4);
                float part = 0;
                [[unroll]] for (uint v = 0; v < vectors; v++)
                    part += dot(w[v], x.at[at + v % run + v / run * step_]);
                sum[r * COLUMNS + c] += part;
            }
        }
    }
}

void add_elements(uint first, uint lane, uint lanes) {
    for (uint k = lane; k < head.k; k += lanes)
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
            const uint column = min(first + c, head.n - 1);
            const float w = weight_at(DTYPE, push.at[1], column * head.b_column + k);
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                sum[r * COLUMNS + c] += w * FLOATS(0)[r * head.a_row + k];
        }
}

shared float partial[ROWS * COLUMNS * GROUP / 4]; /* of each subgroup: they have 4 threads or more */

void store(uint first, uint i, float e) {
    const uint row = i / COLUMNS, column = first + i % COLUMNS;
    if (column >= head.n) return;
    if (HAS_BIAS) e += FLOATS(2)[column * head.bias_stride];
    FLOATS(3)[row * head.n + column] = activation_of(ACTIVATION, e);
}

void store_of_subgroup(uint first) {
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++) {
        const float e = subgroupAdd(sum[i]);
        if (gl_SubgroupInvocationID == i % gl_SubgroupSize) store(first, i, e);
    }
}

void store_of_group(uint first) {
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++) {
        const float e = subgroupAdd(sum[i]);
        if (subgroupElect()) partial[gl_SubgroupID * ROWS * COLUMNS + i] = e;
    }
    barrier();
    if (thread() < ROWS * COLUMNS) {
        float e = 0;
        for (uint s = 0; s < gl_NumSubgroups; s++) e += partial[s * ROWS * COLUMNS + thread()];
        store(first, thread(), e);
    }
    barrier();
}

void main() {
    const uint lane = WHOLE ? thread() : gl_SubgroupInvocationID;
    const uint lanes = WHOLE ? GROUP : gl_SubgroupSize;
    const uint teams = WHOLE ? 1 : gl_NumSubgroups, team = WHOLE ? 0 : gl_SubgroupID;
    FOR_EACH_GROUP(number, (head.n + COLUMNS * teams - 1) / (COLUMNS * teams)) {
        const uint first = (number * teams + team) * COLUMNS;
        [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++) sum[i] = 0;
        if (PIECES)
            add_pieces(first, lane, lanes);
        else
            add_elements(first, lane, lanes);
        if (WHOLE)
            store_of_group(first);
        else
            store_of_subgroup(first);
    }
}
