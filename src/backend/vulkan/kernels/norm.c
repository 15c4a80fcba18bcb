/* Norms along the last dimension, and their gradients with respect to x. */
#include "backend/vulkan/kernels/setup.h"

typedef struct operands {
    const ig_operand *dy, *w, *b; /* NULL: absent */
} operands;

static bool emit(const ig_step *step, vk_builder *b, bool centered, operands o) {
    const ig_operand *x = &step->in[0], *out = &step->out[0];
    const ig_operand *dy = o.dy ? o.dy : x, *w = o.w ? o.w : x, *shift = o.b ? o.b : x;
    ig_attrs_norm a;
    ig_step_attrs(step, &a, sizeof a);
    if (!vk_operands_are(step, 0, IG_F32) || !vk_outputs_are_packed(step)) return false;
    const vk_norm_params p = {.rows = (uint32_t)vk_rows(x),
                              .n = (uint32_t)vk_last_dim(x),
                              .eps = a.eps,
                              .x_stride = vk_last_stride(x),
                              .dy_stride = vk_last_stride(dy),
                              .w_stride = vk_last_stride(w),
                              .b_stride = vk_last_stride(shift),
                              .x = vk_places_make(x, 1),
                              .dy = vk_places_make(dy, 1)};
    if (vk_count(out) == 0) return true;
    const vk_dispatch d = {
        .shader = VK_SHADER_norm,
        .constant = {vk_row_group(p.n), centered, o.dy != NULL, o.w != NULL, o.b != NULL},
        .groups = {vk_groups(p.rows, 1)},
        .n_refs = 5,
        .ref = {vk_reads(x), vk_reads(w), vk_reads(shift), vk_reads(dy), vk_writes(out)},
        .params = &p,
        .params_bytes = sizeof p};
    vk_emit(b, &d);
    return true;
}

static bool norm(const ig_step *step, vk_builder *b, bool centered) {
    return emit(step, b, centered,
                (operands){.w = step->n_in > 1 ? &step->in[1] : NULL,
                           .b = step->n_in > 2 ? &step->in[2] : NULL});
}

static bool norm_grad(const ig_step *step, vk_builder *b, bool centered) {
    return emit(step, b, centered,
                (operands){.dy = &step->in[1], .w = step->n_in > 2 ? &step->in[2] : NULL});
}

static bool rms_norm(const ig_step *step, vk_builder *b) { return norm(step, b, false); }
static bool rms_norm_grad(const ig_step *step, vk_builder *b) { return norm_grad(step, b, false); }
static bool layer_norm(const ig_step *step, vk_builder *b) { return norm(step, b, true); }
static bool layer_norm_grad(const ig_step *step, vk_builder *b) { return norm_grad(step, b, true); }

const vk_entry vk_norm[] = {
    {IG_OP_RMS_NORM, IG_F32, rms_norm},
    {IG_OP_RMS_NORM_GRAD, IG_F32, rms_norm_grad},
    {IG_OP_LAYER_NORM, IG_F32, layer_norm},
    {IG_OP_LAYER_NORM_GRAD, IG_F32, layer_norm_grad},
    {0},
};
