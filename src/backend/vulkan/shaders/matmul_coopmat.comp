#version 460
/*
 * A large matmul on cooperative matrices: F16 operands, F32 accumulators.  The
 * left side is split into sums of two F16 values (matmul_splitk.comp), and so is the right
 * side unless it is F16 already; of the four partial products, that of the low
 * ones is too small to matter.
 *
 * A group makes a tile of TILE_ROWS x TILE_COLUMNS, each of its subgroups a part that
 * lies in matrices of 16 x 16.  Slices of DEPTH along k go through shared memory, and
 * are on their way from memory while the slice before is multiplied.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#define HEAD vk_matmul_head
#include "common.glsl"
#include "functions.glsl"
#include "epilogue.glsl"
#include "coopmat.glsl"

layout(constant_id = 1) const uint TILE_ROWS = 128;
layout(constant_id = 2) const uint TILE_COLUMNS = 128;
layout(constant_id = 3) const bool B_IS_SPLIT = false;
layout(constant_id = 5) const uint DEPTH = 32;  /* of a slice */
layout(constant_id = VK_PARTS_ID) const uint PARTS = 1; /* of k: results are left as they are */
const uint SIDE = 16;                           /* of a matrix */
const uint WIDE = DEPTH / 8;                    /* of a row of a slice, in words of 16 bytes */
const uint PITCH = WIDE + 1;                    /* odd, so that rows miss each other */
const uint TEAMS = GROUP / 32, TEAMS_DOWN = 2, TEAMS_ACROSS = TEAMS / TEAMS_DOWN;
const uint ROWS = TILE_ROWS / TEAMS_DOWN / SIDE; /* matrices of a subgroup */
const uint COLUMNS = TILE_COLUMNS / TEAMS_ACROSS / SIDE;
const uint A_EACH = TILE_ROWS * WIDE / GROUP, B_EACH = TILE_COLUMNS * WIDE / GROUP;
const uint A_WORDS = TILE_ROWS * PITCH, B_WORDS = TILE_COLUMNS * PITCH; /* of a slice */
const uint B_LOW_WORDS = B_IS_SPLIT ? B_WORDS : 0;

shared uvec4 a_high[A_WORDS], a_low[A_WORDS];
shared uvec4 b_high[B_WORDS], b_low[B_LOW_WORDS + 1];
shared float results[TEAMS * SIDE * SIDE];

/* One side in memory: high F16 parts, then low parts, then a scale per row. */
struct side {
    Address high, low, factors;
    uint first, rows, wide; /* of the tile; of all; words of 16 bytes from row to row */
};

/* F16 rows are padded to a full slice of any tile. */
uint depth_of(uint k) { return (k + VK_SLICE - 1) / VK_SLICE * VK_SLICE; }

side split_side(Address at, uint first, uint rows) {
    const uint depth = depth_of(head.k);
    const Address low = further(at, rows, depth * 2);
    return side(at, low, further(low, rows, depth * 2), first, rows, depth / 8);
}

/* Word i of a tile's slice; rows beyond the last are read as the last. */
uvec4 word_of_tile(side s, Address part, uint i, uint k0) {
    const uint row = min(s.first + i / WIDE, s.rows - 1);
    return wide_at(part, row * s.wide + k0 / 8 + i % WIDE);
}

uvec4 own_a_high[A_EACH], own_a_low[A_EACH], own_b_high[B_EACH], own_b_low[B_EACH];

void fetch(side a, side b, uint k0) {
    [[unroll]] for (uint i = 0; i < A_EACH; i++) {
        own_a_high[i] = word_of_tile(a, a.high, i * GROUP + thread(), k0);
        own_a_low[i] = word_of_tile(a, a.low, i * GROUP + thread(), k0);
    }
    [[unroll]] for (uint i = 0; i < B_EACH; i++) {
        own_b_high[i] = word_of_tile(b, b.high, i * GROUP + thread(), k0);
        if (B_IS_SPLIT) own_b_low[i] = word_of_tile(b, b.low, i * GROUP + thread(), k0);
    }
}

uint place_of_word(uint i) { return i / WIDE * PITCH + i % WIDE; }

void store() {
    [[unroll]] for (uint i = 0; i < A_EACH; i++) {
        const uint at = place_of_word(i * GROUP + thread());
        a_high[at] = own_a_high[i];
        a_low[at] = own_a_low[i];
    }
    [[unroll]] for (uint i = 0; i < B_EACH; i++) {
        const uint at = place_of_word(i * GROUP + thread());
        b_high[at] = own_b_high[i];
        if (B_IS_SPLIT) b_low[at] = own_b_low[i];
    }
}

/* Of some slices, and of all.  The units cut off what they add up, so no more is left to them. */
SUMS sum[ROWS * COLUMNS], total[ROWS * COLUMNS];
const uint SOME = 4;

/* row, column: of the subgroup's part of the tile */
void multiply_slice(uint row, uint column) {
    [[unroll]] for (uint k = 0; k < DEPTH / SIDE; k++) {
        LEFT high[ROWS], low[ROWS];
        [[unroll]] for (uint i = 0; i < ROWS; i++) {
            const uint at = (row + i * SIDE) * PITCH + k * 2;
            LOAD_LEFT(high[i], a_high, at, PITCH);
            LOAD_LEFT(low[i], a_low, at, PITCH);
        }
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            const uint at = (column + j * SIDE) * PITCH + k * 2;
            RIGHT right;
            LOAD_RIGHT(right, b_high, at, PITCH);
            [[unroll]] for (uint i = 0; i < ROWS; i++) {
                sum[i * COLUMNS + j] = MULTIPLY(high[i], right, sum[i * COLUMNS + j]);
                sum[i * COLUMNS + j] = MULTIPLY(low[i], right, sum[i * COLUMNS + j]);
            }
            if (!B_IS_SPLIT) continue;
            LOAD_RIGHT(right, b_low, at, PITCH);
            [[unroll]] for (uint i = 0; i < ROWS; i++)
                sum[i * COLUMNS + j] = MULTIPLY(high[i], right, sum[i * COLUMNS + j]);
        }
    }
}

void add_to_total() {
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++) {
        total[i] += sum[i];
        sum[i] = SUMS(0.0);
    }
}

/* A matrix of sums, whose corner is at row, column: through shared memory, since only the driver
 * knows which thread holds what. */
void finish_matrix(uint which, side a, side b, uint row, uint column) {
    const uint own = gl_SubgroupID * SIDE * SIDE;
    STORE_SUMS(total[which], results, own, SIDE);
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    for (uint i = gl_SubgroupInvocationID; i < SIDE * SIDE; i += gl_SubgroupSize) {
        const uint r = row + i / SIDE, c = column + i % SIDE;
        if (r >= head.m || c >= head.n) continue;
        float e = results[own + i] * float_at(a.factors, r);
        if (B_IS_SPLIT) e *= float_at(b.factors, c);
        if (PARTS > 1)
            SET_FLOAT(3, (gl_WorkGroupID.z * head.m + r) * head.n + c, e);
        else
            finish(r * head.n + c, c, e);
    }
    subgroupBarrier();
}

void main() {
    const uint row0 = gl_WorkGroupID.y * TILE_ROWS, column0 = gl_WorkGroupID.x * TILE_COLUMNS;
    const uint row = gl_SubgroupID / TEAMS_ACROSS * ROWS * SIDE;
    const uint column = gl_SubgroupID % TEAMS_ACROSS * COLUMNS * SIDE;
    const uvec2 range = part_of_k(gl_WorkGroupID.z, PARTS, DEPTH);
    const side a = split_side(ADDRESS_OF(0), row0, head.m);
    side b = split_side(ADDRESS_OF(1), column0, head.n);
    if (!B_IS_SPLIT) b.wide = head.b_column / 8;
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++) sum[i] = total[i] = SUMS(0.0);
    fetch(a, b, range.x);
    for (uint k0 = range.x, slice = 1; k0 < range.y; k0 += DEPTH, slice++) {
        store();
        barrier();
        if (k0 + DEPTH < range.y) fetch(a, b, k0 + DEPTH);
        multiply_slice(row, column);
        if (slice % SOME == 0) add_to_total();
        barrier();
    }
    add_to_total();
    [[unroll]] for (uint i = 0; i < ROWS; i++)
        [[unroll]] for (uint j = 0; j < COLUMNS; j++)
            finish_matrix(i * COLUMNS + j, a, b, row0 + row + i * SIDE,
                          column0 + column + j * SIDE);
}
