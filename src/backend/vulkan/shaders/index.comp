#version 460
/* Elements chosen by an index, and what adds up where an index points. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "dequantize.glsl"

layout(constant_id = 1) const uint FORM = 0;
layout(constant_id = 2) const uint DTYPE = 0; /* of what is indexed */

PARAMS_NAMED(Move, vk_move_params)
PARAMS_NAMED(Scatter, vk_scatter_params)
PARAMS_NAMED(Embedding, vk_embedding_grad_params)
#define MOVE      PARAMS_OF(Move)
#define SCATTER   PARAMS_OF(Scatter)
#define EMBEDDING PARAMS_OF(Embedding)

/* index, x, out: an index that points nowhere gives NaN, or 0 among integers */
void gather() {
    FOR_EACH(i, MOVE.loop.n) {
        uint at[VK_OPERANDS];
        places_of(MOVE.loop, i, at);
        const int index = INT(0, at[0]);
        const bool inside = index >= 0 && index < int(MOVE.extent);
        const uint from = at[1] + uint(inside ? index : 0) * MOVE.axis_stride;
        if (FORM == VK_GATHER_DECODED)
            SET_FLOAT(2, at[2], inside ? weight_at(DTYPE, ADDRESS_OF(1), from) : NOT_A_NUMBER);
        else if (DTYPE == VK_F16 || DTYPE == VK_BF16)
            STORE_U16(2, at[2], inside ? LOAD_U16(1, from) : DTYPE == VK_F16 ? 0x7e00u : 0x7fc0u);
        else
            SET_WORD(2, at[2], inside ? WORD(1, from) : DTYPE == VK_I32 ? 0u : 0x7fc00000u);
    }
}

/* x, out, index, src: each result looks for what points to it, in order */
void scatter_add() {
    FOR_EACH(i, SCATTER.loop.n) {
        uint at[VK_OPERANDS], source[VK_OPERANDS];
        places_of(SCATTER.loop, i, at);
        places_of(SCATTER.source, i, source);
        float sum = FLOAT(0, at[0]);
        for (uint j = 0; j < SCATTER.count; j++)
            if (INT(2, at[2] + j * SCATTER.index_stride) == int(at[3]))
                sum += FLOAT(3, source[0] + j * SCATTER.source_stride);
        SET_FLOAT(1, at[1], sum);
    }
}

layout(constant_id = 3) const uint WIDE = 32; /* columns of embedding_grad that a group makes */
const uint TALL = GROUP / WIDE;
shared float sums[GROUP];

/* ids, dy, out: a group takes WIDE columns of a row of the table; for each, TALL threads share out
 * the ids, and their sums are joined in order. */
void embedding_grad() {
    const uint width = EMBEDDING.width, pieces = (width + WIDE - 1) / WIDE, t = thread();
    FOR_EACH_GROUP(number, EMBEDDING.rows * pieces) {
        const uint row = number / pieces, column = number % pieces * WIDE + t % WIDE;
        const uint each = (EMBEDDING.count + TALL - 1) / TALL, first = t / WIDE * each;
        float sum = 0;
        for (uint i = first; i < min(first + each, EMBEDDING.count); i++)
            if (INT(0, place_of(EMBEDDING.ids, i)) == int(row) && column < width)
                sum += FLOAT(1, place_of(EMBEDDING.dy, i) + column * EMBEDDING.column_stride);
        sums[t] = sum;
        barrier();
        for (uint half_ = TALL / 2; half_ > 0; half_ /= 2) {
            if (t / WIDE < half_) sums[t] += sums[t + half_ * WIDE];
            barrier();
        }
        if (t < WIDE && column < width) SET_FLOAT(2, row * width + column, sums[t]);
        barrier();
    }
}

void main() {
    if (FORM == VK_SCATTER_ADD)
        scatter_add();
    else if (FORM == VK_EMBEDDING_GRAD)
        embedding_grad();
    else
        gather();
}
