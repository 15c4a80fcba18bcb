/* Between dtypes, and from stored weights to numbers. */
#include "backend/vulkan/kernels/setup.h"

static bool setup(const ig_step *step, vk_builder *b) {
    const ig_operand *from = &step->in[0], *to = &step->out[0];
    const ig_dtype dtype = to->desc.dtype;
    const int64_t *stride[] = {from->stride, to->stride};
    if (dtype != IG_F32 && dtype != IG_F16 && dtype != IG_BF16 && dtype != IG_I32) return false;
    if (!vk_alike(step)) return false;
    const vk_move_params p = {.loop = vk_loop_make(to->desc.shape, stride, 2)};
    if (p.loop.n == 0) return true;
    const vk_dispatch d = {.shader = VK_SHADER_cast,
                           .constant = {VK_GROUP, (uint32_t)from->desc.dtype, (uint32_t)dtype},
                           .groups = {vk_groups(p.loop.n, VK_GROUP)},
                           .n_refs = 2,
                           .ref = {vk_reads(from), vk_writes(to)},
                           .params = &p,
                           .params_bytes = sizeof p};
    vk_emit(b, &d);
    return true;
}

const vk_entry vk_cast[] = {
    {IG_OP_CAST, IG_F32, setup},    {IG_OP_CAST, IG_F16, setup},   {IG_OP_CAST, IG_BF16, setup},
    {IG_OP_CAST, IG_I32, setup},    {IG_OP_CAST, IG_Q4_0, setup},  {IG_OP_CAST, IG_Q4_1, setup},
    {IG_OP_CAST, IG_Q5_0, setup},   {IG_OP_CAST, IG_Q5_1, setup},  {IG_OP_CAST, IG_Q8_0, setup},
    {IG_OP_CAST, IG_Q2_K, setup},   {IG_OP_CAST, IG_Q3_K, setup},  {IG_OP_CAST, IG_Q4_K, setup},
    {IG_OP_CAST, IG_Q5_K, setup},   {IG_OP_CAST, IG_Q6_K, setup},  {IG_OP_CAST, IG_IQ4_NL, setup},
    {IG_OP_CAST, IG_IQ4_XS, setup}, {IG_OP_CAST, IG_MXFP4, setup}, {0},
};
