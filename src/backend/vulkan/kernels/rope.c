/* RoPE: computes the rotation of each pair of a head once. */
#include <math.h>

#include "backend/vulkan/kernels/setup.h"

enum { MOST_PAIRS = 1024 };

/* positions [t] apply to all leading dimensions of x [..., t, h, d]. */
static vk_places positions_of(const ig_operand *x, const ig_operand *positions) {
    ig_shape shape = x->desc.shape;
    int64_t stride[IG_MAX_RANK] = {0};
    shape.rank -= 2;
    for (int d = shape.rank - 1, k = positions->desc.shape.rank - 1; d >= 0 && k >= 0; d--, k--)
        stride[d] = positions->stride[k];
    return vk_places_of(shape, stride);
}

/* The fractional part of a rotation, in units of 2^-64. */
static uint64_t fraction_of(double turns) { return (uint64_t)ldexp(turns, 64); }

static bool rope(const ig_step *step, vk_builder *b) {
    const ig_operand *x = &step->in[0], *positions = &step->in[1], *out = &step->out[0];
    const ig_operand *factors = step->n_in > 2 ? &step->in[2] : x;
    const int rank = x->desc.shape.rank;
    ig_attrs_rope a;
    struct {
        vk_rope_params p;
        uint32_t turn[2 * MOST_PAIRS];
    } all;
    ig_step_attrs(step, &a, sizeof a);
    if (rank < 3 || positions->desc.dtype != IG_I32 || !vk_operands_are(step, 2, IG_F32) ||
        !vk_outputs_are_packed(step))
        return false;
    const int64_t width = vk_last_dim(x),
                  pairs = (a.rotary_dims ? (int64_t)a.rotary_dims : width) / 2;
    const double scale = a.freq_scale == 0 ? 1 : (double)a.freq_scale;
    if (2 * pairs > width || pairs > MOST_PAIRS) return false;
    if (vk_count(out) == 0) return true;
    for (int64_t i = 0; i < pairs; i++) {
        const double turns =
            scale * pow((double)a.freq_base, -(double)i / (double)pairs) / (2 * M_PI);
        if (!(turns >= 0 && turns < 1)) return false;
        const uint64_t fraction = fraction_of(turns);
        all.turn[2 * i] = (uint32_t)fraction;
        all.turn[2 * i + 1] = (uint32_t)(fraction >> 32);
    }
    all.p = (vk_rope_params){.rows = (uint32_t)vk_rows(x),
                             .width = (uint32_t)width,
                             .heads = (uint32_t)x->desc.shape.dim[rank - 2],
                             .pairs = (uint32_t)pairs,
                             .neighbors = a.type == IG_ROPE_INTERLEAVED,
                             .inverse = a.inverse,
                             .factor_stride = vk_last_stride(factors),
                             .column_stride = vk_last_stride(x),
                             .magnitude = a.mscale == 0 ? 1 : a.mscale,
                             .x = vk_places_make(x, 1),
                             .positions = positions_of(x, positions)};
    const vk_dispatch d = {
        .shader = VK_SHADER_rope,
        .constant = {VK_GROUP, step->n_in > 2},
        .groups = {vk_groups(vk_rows(x) * (width - pairs), VK_GROUP)},
        .n_refs = 4,
        .ref = {vk_reads(x), vk_reads(positions), vk_reads(factors), vk_writes(out)},
        .params = &all,
        .params_bytes = (uint32_t)(sizeof all.p + (size_t)pairs * 2 * sizeof *all.turn)};
    vk_emit(b, &d);
    return true;
}

const vk_entry vk_rope[] = {
    {IG_OP_ROPE, IG_F32, rope},
    {0},
};
