/* Element by element, on operands that lie as they like. */
#include "backend/vulkan/kernels/setup.h"

int vk_elementwise_function(const ig_step *step) {
    static const int8_t functions[IG_OP_COUNT] = {
        /* counted from 1: 0 is none */
        [IG_OP_ADD] = 1 + VK_ADD,
        [IG_OP_SUB] = 1 + VK_SUB,
        [IG_OP_MUL] = 1 + VK_MUL,
        [IG_OP_DIV] = 1 + VK_DIV,
        [IG_OP_EQUAL] = 1 + VK_EQUAL,
        [IG_OP_SCALE] = 1 + VK_SCALE,
        [IG_OP_NEG] = 1 + VK_NEG,
        [IG_OP_EXP] = 1 + VK_EXP,
        [IG_OP_LOG] = 1 + VK_LOG,
        [IG_OP_SQRT] = 1 + VK_SQRT,
        [IG_OP_TANH] = 1 + VK_TANH,
        [IG_OP_SIGMOID] = 1 + VK_SIGMOID,
        [IG_OP_RELU] = 1 + VK_RELU,
        [IG_OP_GELU] = 1 + VK_GELU_ERF,
        [IG_OP_SILU] = 1 + VK_SILU,
        [IG_OP_SOFTPLUS] = 1 + VK_SOFTPLUS,
        [IG_OP_POSITIVE] = 1 + VK_POSITIVE,
        [IG_OP_GELU_GRAD] = 1 + VK_GELU_ERF_GRAD,
        [IG_OP_SILU_GRAD] = 1 + VK_SILU_GRAD,
    };
    ig_attrs_gelu gelu;
    if (!functions[step->op] || !vk_operands_are(step, 0, IG_F32) || !vk_alike(step)) return -1;
    ig_step_attrs(step, &gelu, sizeof gelu);
    const bool is_gelu = step->op == IG_OP_GELU || step->op == IG_OP_GELU_GRAD;
    if (is_gelu && gelu.form > IG_GELU_TANH) return -1;
    const int function = functions[step->op] - 1;
    return function + (is_gelu && gelu.form == IG_GELU_TANH);
}

static bool emit(const ig_step *step, vk_builder *b, int function) {
    const ig_operand *x = &step->in[0], *y = &step->in[step->n_in - 1], *out = &step->out[0];
    const int64_t *stride[] = {x->stride, y->stride, out->stride};
    ig_attrs_scale scale;
    ig_step_attrs(step, &scale, sizeof scale);
    if (function < 0 || !vk_alike(step)) return false;
    const vk_elementwise_params p = {.loop = vk_loop_make(out->desc.shape, stride, 3),
                                     .scale = (float)scale.scale,
                                     .shift = (float)scale.shift};
    if (p.loop.n == 0) return true;
    const vk_dispatch d = {
        .shader = VK_SHADER_elementwise,
        .constant = {VK_GROUP, (uint32_t)function, vk_loop_is_packed(&p.loop, 3), step->n_in},
        .groups = {vk_groups(p.loop.n, VK_GROUP)},
        .n_refs = 3,
        .ref = {vk_reads(x), vk_reads(y), vk_writes(out)},
        .params = &p,
        .params_bytes = sizeof p};
    vk_emit(b, &d);
    return true;
}

static bool real(const ig_step *step, vk_builder *b) {
    return emit(step, b, vk_elementwise_function(step));
}

static bool equal_int(const ig_step *step, vk_builder *b) {
    return vk_operands_are(step, 0, IG_I32) && emit(step, b, VK_EQUAL_INT);
}

const vk_entry vk_elementwise[] = {
    {IG_OP_ADD, IG_F32, real},
    {IG_OP_SUB, IG_F32, real},
    {IG_OP_MUL, IG_F32, real},
    {IG_OP_DIV, IG_F32, real},
    {IG_OP_EQUAL, IG_F32, real},
    {IG_OP_EQUAL, IG_I32, equal_int},
    {IG_OP_SCALE, IG_F32, real},
    {IG_OP_NEG, IG_F32, real},
    {IG_OP_EXP, IG_F32, real},
    {IG_OP_LOG, IG_F32, real},
    {IG_OP_SQRT, IG_F32, real},
    {IG_OP_TANH, IG_F32, real},
    {IG_OP_SIGMOID, IG_F32, real},
    {IG_OP_RELU, IG_F32, real},
    {IG_OP_GELU, IG_F32, real},
    {IG_OP_SILU, IG_F32, real},
    {IG_OP_SOFTPLUS, IG_F32, real},
    {IG_OP_POSITIVE, IG_F32, real},
    {IG_OP_GELU_GRAD, IG_F32, real},
    {IG_OP_SILU_GRAD, IG_F32, real},
    {0},
};
