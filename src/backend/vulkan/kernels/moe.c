/* MoE: routing, grouping by expert, combining. The grouped matmuls are in matmul.c. */
#include "backend/vulkan/kernels/setup.h"

static bool route(const ig_step *step, vk_builder *b) {
    const ig_operand *x = &step->in[0];
    ig_attrs_route a;
    ig_step_attrs(step, &a, sizeof a);
    if (step->out[1].desc.dtype != IG_F32 || !vk_outputs_are_packed(step)) return false;
    const vk_moe_params p = {.rows = (uint32_t)x->desc.shape.dim[0],
                             .experts = (uint32_t)x->desc.shape.dim[1],
                             .count = a.top_k,
                             .norm_topk = a.norm_topk,
                             .x = vk_places_make(x, 0)};
    if (vk_count(&step->out[0]) == 0) return true;
    const vk_dispatch d = {.shader = VK_SHADER_moe,
                           .constant = {32, VK_ROUTE},
                           .groups = {vk_groups(p.rows, 32)},
                           .n_refs = 3,
                           .ref = {vk_reads(x), vk_writes(&step->out[0]), vk_writes(&step->out[1])},
                           .params = &p,
                           .params_bytes = sizeof p};
    vk_emit(b, &d);
    return true;
}

static bool group_rows(const ig_step *step, vk_builder *b) {
    const ig_operand *ids = &step->in[0];
    if (!vk_outputs_are_packed(step)) return false;
    const vk_moe_params p = {.rows = (uint32_t)ids->desc.shape.dim[0],
                             .count = (uint32_t)ids->desc.shape.dim[1],
                             .experts = (uint32_t)step->out[2].desc.shape.dim[0] - 1,
                             .x = vk_places_make(ids, 0)};
    const vk_dispatch d = {.shader = VK_SHADER_moe,
                           .constant = {vk_row_group(vk_count(ids)), VK_GROUP_ROWS},
                           .groups = {vk_groups((int64_t)p.experts + 1, 1)},
                           .n_refs = 4,
                           .ref = {vk_reads(ids), vk_writes(&step->out[0]),
                                   vk_writes(&step->out[1]), vk_writes(&step->out[2])},
                           .params = &p,
                           .params_bytes = sizeof p};
    vk_emit(b, &d);
    return true;
}

static bool combine(const ig_step *step, vk_builder *b) {
    const ig_operand *y = &step->in[0], *places = &step->in[1], *weights = &step->in[2];
    const ig_operand *out = &step->out[0];
    if (places->desc.dtype != IG_I32 || !vk_operands_are(step, 2, IG_F32) ||
        !vk_outputs_are_packed(step))
        return false;
    const vk_moe_params p = {.rows = (uint32_t)places->desc.shape.dim[0],
                             .count = (uint32_t)places->desc.shape.dim[1],
                             .grouped = (uint32_t)y->desc.shape.dim[0],
                             .width = (uint32_t)y->desc.shape.dim[1],
                             .x = vk_places_make(y, 0),
                             .places = vk_places_make(places, 0),
                             .weights = vk_places_make(weights, 0)};
    if (vk_count(out) == 0) return true;
    const vk_dispatch d = {
        .shader = VK_SHADER_moe,
        .constant = {VK_GROUP, VK_COMBINE},
        .groups = {vk_groups(vk_count(out), VK_GROUP)},
        .n_refs = 4,
        .ref = {vk_reads(y), vk_reads(places), vk_reads(weights), vk_writes(out)},
        .params = &p,
        .params_bytes = sizeof p};
    vk_emit(b, &d);
    return true;
}

const vk_entry vk_moe[] = {
    {IG_OP_ROUTE, IG_F32, route},
    {IG_OP_GROUP_ROWS, IG_I32, group_rows},
    {IG_OP_COMBINE, IG_F32, combine},
    {0},
};
