/* Random ops. */
#include "base/random.h"
#include "backend/vulkan/kernels/setup.h"

static void dropout_numbers(const void *attrs, const ig_slot *slots, uint32_t *out) {
    ig_attrs_dropout a;
    memcpy(&a, attrs, sizeof a);
    const uint64_t step = (uint64_t)slots[a.step_slot].i;
    out[0] = (uint32_t)step;
    out[1] = (uint32_t)(step >> 32);
}

static bool dropout(const ig_step *step, vk_builder *b) {
    const ig_operand *x = &step->in[0], *y = &step->out[0];
    const int64_t *stride[] = {x->stride, y->stride};
    ig_attrs_dropout a;
    ig_step_attrs(step, &a, sizeof a);
    if (!vk_operands_are(step, 0, IG_F32) || !vk_alike(step)) return false;
    const vk_random_params p = {.loop = vk_loop_make(y->desc.shape, stride, 2),
                                .seed = {a.seed[0], a.seed[1]},
                                .ordinal = a.ordinal,
                                .threshold = ig_random_threshold(a.p),
                                .keep = a.p < 1 ? (float)(1 / (1 - (double)a.p)) : 0};
    if (p.loop.n == 0) return true;
    const vk_dispatch d = {.shader = VK_SHADER_random,
                           .constant = {VK_GROUP},
                           .groups = {vk_groups(p.loop.n, VK_GROUP)},
                           .n_refs = 2,
                           .ref = {vk_reads(x), vk_writes(y)},
                           .params = &p,
                           .params_bytes = sizeof p,
                           .numbers = dropout_numbers};
    vk_emit(b, &d);
    return true;
}

const vk_entry vk_random[] = {
    {IG_OP_DROPOUT, IG_F32, dropout},
    {0},
};
