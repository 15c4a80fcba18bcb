#include "backend/vulkan/program/dynamic_dims.h"

#include "backend/vulkan/program/program.h"

bool vk_varies(const ig_step *step) {
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++)
        if (ig_step_operand(step, i)->dynamic_dim >= 0) return true;
    return false;
}

bool vk_vary_fits(const ig_step *step) {
    if (vk_elementwise_function(step) < 0 || step->out[0].dynamic_dim != 0) return false;
    for (uint32_t i = 0; i < step->n_in; i++) {
        const ig_operand *in = &step->in[i];
        if (in->dynamic_dim > 0 ||
            (in->dynamic_dim == 0 && in->dynamic_slot != step->out[0].dynamic_slot))
            return false;
    }
    return true;
}

void vk_vary_keep(vk_varying *v, const ig_step *step) {
    assert(step->n_in + step->n_out <= VK_VARYING_OPERANDS);
    v->step = *step;
    v->slot = step->out[0].dynamic_slot;
    ig_step_attrs(step, v->attrs, sizeof v->attrs);
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++) {
        v->operands[i] = *ig_step_operand(step, i);
        v->operands[i].dynamic_dim = -1;
    }
}

void vk_vary_write(const struct vk_device *device, const vk_varying *v, int64_t extent,
                   uint32_t words[VK_VARYING_WORDS]) {
    vk_varying now = *v;
    vk_builder b = {.device = device, .rewrite = words};
    const int64_t bound = v->operands[0].desc.shape.dim[0];
    if (extent > bound) extent = bound;
    now.step.in = now.operands;
    now.step.out = now.operands + now.step.n_in;
    now.step.attrs = now.attrs;
    for (uint32_t i = 0; i < now.step.n_in + now.step.n_out; i++)
        now.operands[i].desc.shape.dim[0] = extent > 0 ? extent : 0;
    memset(words, 0, VK_VARYING_WORDS * sizeof *words); /* no workgroups if there are no elements */
    (void)vk_setup(&now.step, &b); /* cannot fail: it was checked for the bound */
}
