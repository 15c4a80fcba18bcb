#version 460
/*
 * Small-M matmul a [ROWS, k] x b [n, k]^T + bias [n], through an activation.  b is read
 * just once: COLUMNS rows of it belong to a team, whose threads share out k by the
 * piece.
 *
 * a may be left to be worked out: as a product of two, or as an rms_norm, whose
 * factor is the same for a whole row and comes in at the end.
 */
#extension GL_GOOGLE_include_directive : require
#define HEAD vk_matmul_head
#include "common.glsl"
#include "dequantize.glsl"
#include "functions.glsl"
#include "epilogue.glsl"
#include "workgroup_reduce.glsl"
#include "dequantize_vec4.glsl"

layout(constant_id = 1) const uint ROWS = 1;
layout(constant_id = 2) const uint COLUMNS = 1;
layout(constant_id = 3) const uint DTYPE = 0;      /* of b */
layout(constant_id = 5) const bool PIECES = false; /* else element by element */
layout(constant_id = 8) const uint BEFORE = 0;
layout(constant_id = 10) const bool STORES = false; /* what was worked out */

float sum[ROWS * COLUMNS];
float squares[ROWS];

/* Vector i of a row of a.  The other factor is as long, or a row that serves for all. */
vec4 left_of(uint row, uint i) {
    const uint at = row * (head.k / 4) + i;
    if (BEFORE == VK_NOTHING) return vector_at(further(ADDRESS_OF(0), row * head.a_row, 4), i);
    const vec4 x = vector_at(ADDRESS_OF(0), at);
    if (BEFORE == VK_PRODUCT) return x * vector_at(ADDRESS_OF(6), at);
    squares[row] += dot(x, x);
    return x * vector_at(ADDRESS_OF(6), i);
}

/* Columns from `first` on; those beyond the last are read as the last. */
void add_pieces(uint first) {
    const uint vectors = piece_vectors(DTYPE), run = piece_run(DTYPE), step_ = piece_step(DTYPE);
    const uint row_blocks = head.b_column / block_elements(DTYPE);
    for (uint i = TEAM_LANE; i < head.k / (4 * vectors); i += TEAM_SIZE) {
        const uint at = piece_first(DTYPE, i);
        vec4 w[COLUMNS][PIECE_VECTORS];
        [[unroll]] for (uint c = 0; c < COLUMNS; c++)
            piece_at(DTYPE,
                     further(ADDRESS_OF(1), min(first + c, head.n - 1) * row_blocks,
                             block_bytes(DTYPE)),
                     i, w[c]);
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            [[unroll]] for (uint v = 0; v < vectors; v++) {
                const uint place = at + v % run + v / run * step_;
                const vec4 x = left_of(r, place);
                if (BEFORE == VK_PRODUCT && STORES && first == 0)
                    set_vector(ADDRESS_OF(7), r * (head.k / 4) + place, x);
                [[unroll]] for (uint c = 0; c < COLUMNS; c++)
                    sum[r * COLUMNS + c] += dot(w[c][v], x);
            }
    }
}

void add_elements(uint first) {
    for (uint k = TEAM_LANE; k < head.k; k += TEAM_SIZE)
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
            const uint column = min(first + c, head.n - 1);
            const float w = weight_at(DTYPE, ADDRESS_OF(1), column * head.b_column + k);
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                sum[r * COLUMNS + c] += w * FLOAT(0, r * head.a_row + k);
        }
}

/* The factor of an rms_norm of a row, which is stored by the first team. */
float factor_of(uint row, uint first) {
    const float factor = 1 / sqrt(team_sum(squares[row]) / float(head.k) + head.eps);
    if (!STORES || first != 0) return factor;
    for (uint i = TEAM_LANE; i < head.k / 4; i += TEAM_SIZE)
        set_vector(ADDRESS_OF(7), row * (head.k / 4) + i, left_of(row, i) * factor);
    return factor;
}

void main() {
    FOR_EACH_GROUP(number, (head.n + COLUMNS * TEAMS - 1) / (COLUMNS * TEAMS)) {
        const uint first = (number * TEAMS + TEAM) * COLUMNS;
        [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++) sum[i] = 0;
        [[unroll]] for (uint r = 0; r < ROWS; r++) squares[r] = 0;
        if (PIECES)
            add_pieces(first);
        else
            add_elements(first);
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            const float factor = BEFORE == VK_RMS_NORM ? factor_of(r, first) : 1;
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                const float e = team_sum(sum[r * COLUMNS + c]) * factor;
                const uint lane = (r * COLUMNS + c) % TEAM_SIZE;
                if (TEAM_LANE == lane && first + c < head.n)
                    finish(r * head.n + first + c, first + c, e);
            }
        }
    }
}
