/*
 * Copies between strided operands, and fills.
 */
#include <math.h>

#include "backend/vulkan/kernels/setup.h"
#include "base/f16.h"

static uint32_t bytes_of(ig_dtype dtype) { return (uint32_t)ig_bytes_of(dtype, 1); }

static bool is_plain(ig_dtype dtype) {
    return dtype == IG_F32 || dtype == IG_F16 || dtype == IG_BF16 || dtype == IG_I32;
}

static void emit(vk_builder *b, uint32_t form, const ig_operand *from, const ig_operand *to,
                 uint32_t value) {
    const int64_t *stride[] = {from->stride, to->stride};
    const vk_move_params p = {.loop = vk_loop_make(to->desc.shape, stride, 2), .value = {value}};
    if (p.loop.n == 0) return;
    const vk_dispatch d = {.shader = VK_SHADER_move,
                           .constant = {VK_GROUP, form, bytes_of(to->desc.dtype)},
                           .groups = {vk_groups(p.loop.n, VK_GROUP)},
                           .n_refs = 2,
                           .ref = {vk_reads(from), vk_writes(to)},
                           .params = &p,
                           .params_bytes = sizeof p};
    vk_emit(b, &d);
}

static bool copy(const ig_step *step, vk_builder *b) {
    const ig_operand *from = &step->in[step->n_in - 1]; /* assign: the second input */
    const ig_operand *to = &step->out[0];
    if (from->desc.dtype != to->desc.dtype || !ig_shape_equal(from->desc.shape, to->desc.shape))
        return false;
    emit(b, VK_COPY, from, to, 0);
    return true;
}

/* The bits of the value in the dtype; integers are truncated and clamped. */
static uint32_t bits_of(ig_dtype dtype, double value) {
    switch (dtype) {
    case IG_F16: return ig_f32_to_f16((float)value);
    case IG_BF16: return ig_f32_to_bf16((float)value);
    case IG_I32:
        if (isnan(value)) return 0;
        if (value <= INT32_MIN) return (uint32_t)INT32_MIN;
        return (uint32_t)(value >= INT32_MAX ? INT32_MAX : (int32_t)value);
    default: return ig_bits_of_float((float)value);
    }
}

static bool fill(const ig_step *step, vk_builder *b) {
    ig_attrs_fill a;
    ig_step_attrs(step, &a, sizeof a);
    ig_operand nothing = step->out[0];
    memset(nothing.stride, 0, sizeof nothing.stride);
    emit(b, VK_FILL, &nothing, &step->out[0], bits_of(step->out[0].desc.dtype, a.value));
    return true;
}

/* The range [begin, begin + extent) of the result along an axis. */
static ig_operand part_of(const ig_operand *o, int axis, int64_t begin, int64_t extent) {
    ig_operand part = *o;
    part.desc.shape.dim[axis] = extent;
    part.offset += (uint64_t)(begin * o->stride[axis]) * bytes_of(o->desc.dtype);
    return part;
}

static bool pad(const ig_step *step, vk_builder *b) {
    const ig_operand *x = &step->in[0], *y = &step->out[0];
    ig_attrs_pad a;
    ig_step_attrs(step, &a, sizeof a);
    const int64_t extent = x->desc.shape.dim[a.axis];
    if (x->desc.dtype != y->desc.dtype) return false;
    const ig_operand before = part_of(y, a.axis, 0, a.before);
    const ig_operand middle = part_of(y, a.axis, a.before, extent);
    const ig_operand after = part_of(y, a.axis, a.before + extent, a.after);
    emit(b, VK_FILL, &before, &before, 0);
    emit(b, VK_COPY, x, &middle, 0);
    emit(b, VK_FILL, &after, &after, 0);
    return true;
}

static bool concat(const ig_step *step, vk_builder *b) {
    ig_attrs_axis a;
    int64_t begin = 0;
    ig_step_attrs(step, &a, sizeof a);
    for (uint32_t i = 0; i < step->n_in; i++) {
        const ig_operand *x = &step->in[i];
        if (x->desc.dtype != step->out[0].desc.dtype) return false;
        const ig_operand part = part_of(&step->out[0], a.axis, begin, x->desc.shape.dim[a.axis]);
        emit(b, VK_COPY, x, &part, 0);
        begin += x->desc.shape.dim[a.axis];
    }
    return true;
}

static bool plain_copy(const ig_step *step, vk_builder *b) {
    return is_plain(step->out[0].desc.dtype) && copy(step, b);
}

const vk_entry vk_move[] = {
    {IG_OP_COPY, IG_F32, plain_copy},
    {IG_OP_COPY, IG_F16, plain_copy},
    {IG_OP_COPY, IG_BF16, plain_copy},
    {IG_OP_COPY, IG_I32, plain_copy},
    {IG_OP_ASSIGN, IG_F32, plain_copy},
    {IG_OP_ASSIGN, IG_F16, plain_copy},
    {IG_OP_ASSIGN, IG_BF16, plain_copy},
    {IG_OP_ASSIGN, IG_I32, plain_copy},
    {IG_OP_FILL, IG_F32, fill},
    {IG_OP_FILL, IG_F16, fill},
    {IG_OP_FILL, IG_BF16, fill},
    {IG_OP_FILL, IG_I32, fill},
    {IG_OP_PAD, IG_F32, pad},
    {IG_OP_PAD, IG_F16, pad},
    {IG_OP_PAD, IG_BF16, pad},
    {IG_OP_PAD, IG_I32, pad},
    {IG_OP_CONCAT, IG_F32, concat},
    {IG_OP_CONCAT, IG_F16, concat},
    {IG_OP_CONCAT, IG_BF16, concat},
    {IG_OP_CONCAT, IG_I32, concat},
    {0},
};
