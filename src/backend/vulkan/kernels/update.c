/* In-place updates of weights, gradients and moments. */
#include "backend/vulkan/kernels/setup.h"
#include "base/f16.h"

/* Operands by their index in the shader: inputs; bit i of `written`: input i is updated. */
static bool emit(const ig_step *step, vk_builder *b, vk_dispatch d, uint32_t operands,
                 uint32_t written, float limit) {
    const int64_t *stride[VK_OPERANDS];
    if (!vk_operands_are(step, 0, IG_F32)) return false;
    for (uint32_t i = 0; i < VK_OPERANDS; i++) {
        const ig_operand *o = &step->in[i < operands ? i : 0];
        if (i < operands && !ig_shape_equal(o->desc.shape, step->out[0].desc.shape)) return false;
        stride[i] = o->stride;
        d.ref[i] = vk_memory(&step->in[i < step->n_in ? i : 0], written >> i & 1);
    }
    for (uint32_t i = 0; i < step->n_out; i++)
        if (!vk_lies_as_input(step, i, ig_update_alias(i))) return false;
    const vk_update_params p = {.loop = vk_loop_make(step->out[0].desc.shape, stride, VK_OPERANDS),
                                .limit = limit};
    if (p.loop.n == 0) return true;
    d.shader = VK_SHADER_update;
    d.constant[0] = VK_GROUP;
    d.constant[2] = vk_loop_is_packed(&p.loop, VK_OPERANDS);
    d.groups[0] = vk_groups(p.loop.n, VK_GROUP);
    d.n_refs = VK_OPERANDS;
    d.params = &p;
    d.params_bytes = sizeof p;
    vk_emit(b, &d);
    return true;
}

static bool accumulate(const ig_step *step, vk_builder *b) {
    return emit(step, b, (vk_dispatch){.constant = {0, VK_ACCUMULATE}}, 2, 1, 0);
}

/* x^n for n >= 0, computed as on the CPU. */
static double power(double x, int64_t n) {
    double y = 1;
    for (; n > 0; n /= 2, x *= x)
        if (n % 2 == 1) y *= x;
    return y;
}

static void adamw_numbers(const void *attrs, const ig_slot *slots, uint32_t *out) {
    ig_attrs_adamw a;
    memcpy(&a, attrs, sizeof a);
    const double b1 = (double)a.beta1, b2 = (double)a.beta2, rate = slots[a.lr_slot].f;
    const int64_t t = slots[a.step_slot].i;
    const double numbers[VK_NUMBERS] = {1 - rate * (double)a.weight_decay,
                                        b1,
                                        1 - b1,
                                        b2,
                                        1 - b2,
                                        1 / (1 - power(b2, t)),
                                        (double)a.eps,
                                        rate / (1 - power(b1, t))};
    for (int i = 0; i < VK_NUMBERS; i++) out[i] = ig_bits_of_float((float)numbers[i]);
}

static bool adamw(const ig_step *step, vk_builder *b) {
    return emit(step, b, (vk_dispatch){.constant = {0, VK_ADAMW}, .numbers = adamw_numbers}, 4,
                1 | 4 | 8, 0);
}

static void sgd_numbers(const void *attrs, const ig_slot *slots, uint32_t *out) {
    ig_attrs_sgd a;
    memcpy(&a, attrs, sizeof a);
    out[0] = ig_bits_of_float(a.momentum);
    out[1] = ig_bits_of_float(a.weight_decay);
    out[2] = ig_bits_of_float((float)slots[a.lr_slot].f);
}

static bool sgd(const ig_step *step, vk_builder *b) {
    ig_attrs_sgd a;
    ig_step_attrs(step, &a, sizeof a);
    const vk_dispatch d = {.constant = {0, VK_SGD, 0, step->n_in > 2, a.nesterov},
                           .numbers = sgd_numbers};
    return emit(step, b, d, step->n_in, step->n_in > 2 ? 1 | 4 : 1, 0);
}

/* The norm is a scalar outside of the loop. */
static bool clip(const ig_step *step, vk_builder *b) {
    ig_attrs_clip a;
    ig_step_attrs(step, &a, sizeof a);
    return emit(step, b, (vk_dispatch){.constant = {0, VK_CLIP}}, 1, 1, a.limit);
}

const vk_entry vk_update[] = {
    {IG_OP_ACCUMULATE, IG_F32, accumulate},
    {IG_OP_ADAMW, IG_F32, adamw},
    {IG_OP_SGD, IG_F32, sgd},
    {IG_OP_CLIP, IG_F32, clip},
    {0},
};
