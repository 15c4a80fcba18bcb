/* Rows backwards, times a number. */
#include "backend/vulkan/kernels/setup.h"
#include "backend/vulkan/shaders/reverse_params.h"

static bool reverse(const ig_step *step, vk_builder *b) {
    const ig_operand *x = &step->in[0], *y = &step->out[0];
    ig_attrs_reverse attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    if (!vk_operands_are(step, 0, IG_F32) || !ig_operand_is_packed(x) || !ig_operand_is_packed(y))
        return false;
    const vk_reverse_params p = {(uint32_t)vk_count(x), (uint32_t)vk_last_dim(x), attrs.by};
    if (p.count == 0) return true;
    const vk_dispatch d = {.shader = VK_SHADER_reverse,
                           .constant = {VK_GROUP},
                           .groups = {vk_groups(p.count, VK_GROUP)},
                           .n_refs = 2,
                           .ref = {vk_reads(x), vk_writes(y)},
                           .params = &p,
                           .params_bytes = sizeof p};
    vk_emit(b, &d);
    return true;
}

const vk_entry vk_reverse[] = {
    {IG_OP_REVERSE, IG_F32, reverse},
    {0},
};
