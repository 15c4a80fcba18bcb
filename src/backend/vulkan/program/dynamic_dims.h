/*
 * dynamic_dims.h - steps with dynamic dimensions.
 *
 * Their dispatch is recorded once, as an indirect one that reads workgroup counts and parameters
 * from mapped words of the recording. Before each run, the kernel's own setup recomputes both for
 * the extents given by the slots.
 */
#ifndef IG_BACKEND_VULKAN_PROGRAM_DYNAMIC_DIMS_H
#define IG_BACKEND_VULKAN_PROGRAM_DYNAMIC_DIMS_H

#include "backend/vulkan/kernels/vk_kernel.h"
#include "backend/vulkan/shaders/params.h"

enum {
    VK_VARYING_OPERANDS = 3,
    VK_VARYING_WORDS = 64,  /* per dispatch: parameters, and at the end: */
    VK_VARYING_GROUPS = 60, /* the workgroup counts, as the device reads them */
};

static_assert(sizeof(vk_elementwise_params) <= VK_VARYING_GROUPS * sizeof(uint32_t) &&
                  VK_VARYING_WORDS * sizeof(uint32_t) % VK_BINDING_BYTES == 0,
              "params");

/* A step with dynamic dimensions and all that its setup needs. */
typedef struct vk_varying {
    ig_step step;
    ig_operand operands[VK_VARYING_OPERANDS];
    char attrs[IG_ATTRS_MAX];
    uint32_t slot;
} vk_varying;

/* Whether some extent comes from a slot. */
bool vk_varies(const ig_step *step);
/* Whether it is supported: elementwise, with the outermost extent dynamic. */
bool vk_vary_fits(const ig_step *step);

void vk_vary_keep(vk_varying *v, const ig_step *step);

/* The words of the dispatch for this extent, at most the bound. */
void vk_vary_write(const struct vk_device *device, const vk_varying *v, int64_t extent,
                   uint32_t words[VK_VARYING_WORDS]);

#endif
