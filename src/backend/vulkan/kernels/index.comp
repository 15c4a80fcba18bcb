#version 460
/* Elements chosen by an index, and what adds up where an index points. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "decode.glsl"

layout(constant_id = 1) const uint FORM = 0;
layout(constant_id = 2) const uint DTYPE = 0; /* of what is indexed */

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Move {
    vk_move_params p;
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Scatter {
    vk_scatter_params p;
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Embedding {
    vk_embedding_grad_params p;
};

/* index, x, out: an index that points nowhere gives NaN, or 0 among integers */
void gather() {
    Move m = Move(push.params_at);
    FOR_EACH(i, m.p.loop.n) {
        uint at[VK_OPERANDS];
        places_of(m.p.loop, i, at);
        const int index = INTS(0)[at[0]];
        const bool inside = index >= 0 && index < int(m.p.extent);
        const uint from = at[1] + uint(inside ? index : 0) * m.p.axis_stride;
        if (FORM == VK_GATHER_DECODED)
            FLOATS(2)[at[2]] = inside ? weight_at(DTYPE, push.at[1], from) : NOT_A_NUMBER;
        else if (DTYPE == VK_F16 || DTYPE == VK_BF16)
            HALVES(2)[at[2]] = uint16_t(inside ? uint(HALVES(1)[from])
                                               : DTYPE == VK_F16 ? 0x7e00u : 0x7fc0u);
        else
            WORDS(2)[at[2]] = inside ? WORDS(1)[from] : DTYPE == VK_I32 ? 0u : 0x7fc00000u;
    }
}

/* x, out, index, src: each result looks for what points to it, in order */
void scatter_add() {
    Scatter s = Scatter(push.params_at);
    FOR_EACH(i, s.p.loop.n) {
        uint at[VK_OPERANDS], source[VK_OPERANDS];
        places_of(s.p.loop, i, at);
        places_of(s.p.source, i, source);
        float sum = FLOATS(0)[at[0]];
        for (uint j = 0; j < s.p.count; j++)
            if (INTS(2)[at[2] + j * s.p.index_stride] == int(at[3]))
                sum += FLOATS(3)[source[0] + j * s.p.source_stride];
        FLOATS(1)[at[1]] = sum;
    }
}

layout(constant_id = 3) const uint WIDE = 32; /* columns of embedding_grad that a group makes */
const uint TALL = GROUP / WIDE;
shared float sums[GROUP];

/* ids, dy, out: a group takes WIDE columns of a row of the table; for each, TALL threads share out
 * the ids, and their sums are joined in order. */
void embedding_grad() {
    Embedding e = Embedding(push.params_at);
    const uint width = e.p.width, pieces = (width + WIDE - 1) / WIDE, t = thread();
    FOR_EACH_GROUP(number, e.p.rows * pieces) {
        const uint row = number / pieces, column = number % pieces * WIDE + t % WIDE;
        const uint each = (e.p.count + TALL - 1) / TALL, first = t / WIDE * each;
        float sum = 0;
        for (uint i = first; i < min(first + each, e.p.count); i++)
            if (INTS(0)[place_of(e.p.ids, i)] == int(row) && column < width)
                sum += FLOATS(1)[place_of(e.p.dy, i) + column * e.p.column_stride];
        sums[t] = sum;
        barrier();
        for (uint half_ = TALL / 2; half_ > 0; half_ /= 2) {
            if (t / WIDE < half_) sums[t] += sums[t + half_ * WIDE];
            barrier();
        }
        if (t < WIDE && column < width) FLOATS(2)[row * width + column] = sums[t];
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
