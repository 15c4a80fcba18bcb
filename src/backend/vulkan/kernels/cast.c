/* Casts between dtypes, and dequantization of stored weights. */
#include "backend/vulkan/kernels/setup.h"

static void emit(vk_builder *b, const ig_operand *from, const ig_operand *to) {
    const int64_t *stride[] = {from->stride, to->stride};
    const vk_move_params p = {.loop = vk_loop_make(to->desc.shape, stride, 2)};
    const vk_dispatch d = {
        .shader = VK_SHADER_cast,
        .constant = {VK_GROUP, (uint32_t)from->desc.dtype, (uint32_t)to->desc.dtype},
        .groups = {vk_groups(p.loop.n, VK_GROUP)},
        .n_refs = 2,
        .ref = {vk_reads(from), vk_writes(to)},
        .params = &p,
        .params_bytes = sizeof p};
    if (p.loop.n > 0) vk_emit(b, &d);
}

static bool setup(const ig_step *step, vk_builder *b) {
    const ig_dtype dtype = step->out[0].desc.dtype;
    if (dtype != IG_F32 && dtype != IG_F16 && dtype != IG_BF16 && dtype != IG_I32) return false;
    if (!vk_alike(step)) return false;
    emit(b, &step->in[0], &step->out[0]);
    return true;
}

/* ---- 16-bit inputs of a step ---- */

/* Replaces the operand by its packed F32 copy in the step's scratch, from `at` on; returns the
 * end. */
static uint64_t widen(vk_builder *b, const ig_step *step, ig_operand *o, uint64_t at) {
    const ig_operand from = *o;
    const uint64_t bytes = ((uint64_t)vk_count(o) * sizeof(float) + 63) / 64 * 64;
    int64_t stride = 1;
    o->desc.dtype = IG_F32;
    for (int d = o->desc.shape.rank; d-- > 0; stride *= o->desc.shape.dim[d]) o->stride[d] = stride;
    o->buffer = IG_ARENA;
    o->offset = vk_scratch(b, step, at, bytes, 1).offset;
    emit(b, &from, o);
    return at + bytes;
}

bool vk_setup_widened(const ig_step *step, vk_builder *b, uint32_t count, vk_setup_fn *setup_wide) {
    ig_operand operands[VK_WIDENED_OPERANDS];
    ig_step wide = *step;
    uint64_t at = 0;
    if (step->n_in < count || step->n_in + step->n_out > VK_WIDENED_OPERANDS) return false;
    memcpy(operands, step->in, step->n_in * sizeof *operands);
    memcpy(operands + step->n_in, step->out, step->n_out * sizeof *operands);
    for (uint32_t i = 0; i < count; i++)
        if (operands[i].desc.dtype != IG_F32) at = widen(b, step, &operands[i], at);
    wide.in = operands;
    wide.out = operands + step->n_in;
    wide.scratch_offset += at;
    b->scratch_bytes = 0;
    const bool can = setup_wide(&wide, b);
    b->scratch_bytes += at;
    b->split = (vk_split){0}; /* its state refers to this scope */
    return can;
}

const vk_entry vk_cast[] = {
    {IG_OP_CAST, IG_F32, setup},    {IG_OP_CAST, IG_F16, setup},   {IG_OP_CAST, IG_BF16, setup},
    {IG_OP_CAST, IG_I32, setup},    {IG_OP_CAST, IG_Q4_0, setup},  {IG_OP_CAST, IG_Q4_1, setup},
    {IG_OP_CAST, IG_Q5_0, setup},   {IG_OP_CAST, IG_Q5_1, setup},  {IG_OP_CAST, IG_Q8_0, setup},
    {IG_OP_CAST, IG_Q2_K, setup},   {IG_OP_CAST, IG_Q3_K, setup},  {IG_OP_CAST, IG_Q4_K, setup},
    {IG_OP_CAST, IG_Q5_K, setup},   {IG_OP_CAST, IG_Q6_K, setup},  {IG_OP_CAST, IG_IQ4_NL, setup},
    {IG_OP_CAST, IG_IQ4_XS, setup}, {IG_OP_CAST, IG_MXFP4, setup}, {0},
};
