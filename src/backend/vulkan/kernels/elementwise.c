/* Elementwise ops on operands with any strides. */
#include "backend/vulkan/kernels/setup.h"

enum { ANY_FORM = -1 };

static const struct {
    uint32_t op;
    int form; /* ig_gelu_form */
    int number;
} functions[] = {
    {IG_OP_SCALE, ANY_FORM, VK_SCALE},
#define IG_FN1(ID, name, cost, low, high, epsilons) {IG_OP_##ID, ANY_FORM, VK_FN_##name},
#define IG_FN1_OF(ID, form, name, cost, low, high, epsilons) \
    {IG_OP_##ID, IG_GELU_##form, VK_FN_##name},
#define IG_FN2(ID, name, cost, epsilons)            {IG_OP_##ID, ANY_FORM, VK_FN_##name},
#define IG_SLOPE(ID, name, cost, epsilons)          {IG_OP_##ID, ANY_FORM, VK_FN_##name},
#define IG_SLOPE_OF(ID, form, name, cost, epsilons) {IG_OP_##ID, IG_GELU_##form, VK_FN_##name},
#include "ingot/function.def"
};

int vk_elementwise_function(const ig_step *step) {
    ig_attrs_gelu gelu;
    ig_step_attrs(step, &gelu, sizeof gelu);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (functions[i].op == step->op &&
            (functions[i].form == ANY_FORM || (uint32_t)functions[i].form == gelu.form))
            return vk_operands_are(step, 0, IG_F32) && vk_alike(step) ? functions[i].number : -1;
    return -1;
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
#define IG_FN1(ID, name, cost, low, high, epsilons) {IG_OP_##ID, IG_F32, real},
#define IG_FN2(ID, name, cost, epsilons)            {IG_OP_##ID, IG_F32, real},
#define IG_SLOPE(ID, name, cost, epsilons)          {IG_OP_##ID, IG_F32, real},
#include "ingot/function.def"
    {IG_OP_GELU, IG_F32, real},
    {IG_OP_GELU_GRAD, IG_F32, real},
    {IG_OP_EQUAL, IG_I32, equal_int},
    {IG_OP_SCALE, IG_F32, real},
    {0},
};
