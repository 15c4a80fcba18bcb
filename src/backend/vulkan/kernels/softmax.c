/* Softmax, log-softmax and cross entropy along the last dimension. */
#include "backend/vulkan/kernels/setup.h"

static bool emit(const ig_step *step, vk_builder *b, uint32_t form) {
    const ig_operand *x = &step->in[0], *out = &step->out[0];
    const ig_operand *targets = step->n_in > 1 ? &step->in[1] : x;
    const ig_operand *slope = step->n_in > 2 ? &step->in[2] : x;
    if (out->desc.dtype != IG_F32 || slope->desc.dtype != IG_F32 || !vk_outputs_are_packed(step))
        return false;
    const vk_softmax_params p = {.rows = (uint32_t)vk_rows(x),
                                 .n = (uint32_t)vk_last_dim(x),
                                 .column_stride = vk_last_stride(x),
                                 .x = vk_places_make(x, 1),
                                 .targets = vk_places_make(targets, 0),
                                 .slope = vk_places_make(slope, 0)};
    if (vk_count(out) == 0) return true;
    const vk_dispatch d = {.shader = VK_SHADER_softmax,
                           .constant = {vk_row_group(p.n), form},
                           .groups = {vk_groups(p.rows, 1)},
                           .n_refs = 4,
                           .ref = {vk_reads(x), vk_reads(targets), vk_reads(slope), vk_writes(out)},
                           .params = &p,
                           .params_bytes = sizeof p};
    vk_emit(b, &d);
    return true;
}

static bool softmax(const ig_step *step, vk_builder *b) { return emit(step, b, VK_SOFTMAX); }
static bool log_softmax(const ig_step *step, vk_builder *b) {
    return emit(step, b, VK_LOG_SOFTMAX);
}
static bool cross_entropy(const ig_step *step, vk_builder *b) {
    return step->in[1].desc.dtype == IG_I32 && emit(step, b, VK_CROSS_ENTROPY);
}
static bool cross_entropy_grad(const ig_step *step, vk_builder *b) {
    return step->in[1].desc.dtype == IG_I32 && emit(step, b, VK_CROSS_ENTROPY_GRAD);
}

const vk_entry vk_softmax[] = {
    {IG_OP_SOFTMAX, IG_F32, softmax},
    {IG_OP_LOG_SOFTMAX, IG_F32, log_softmax},
    {IG_OP_CROSS_ENTROPY, IG_F32, cross_entropy},
    {IG_OP_CROSS_ENTROPY_GRAD, IG_F32, cross_entropy_grad},
    {0},
};
