/*
 * vary.h - steps whose extents come from slots.
 *
 * Their dispatch is recorded once, as one that finds its groups and its params in
 * the mapped words of the recording.  Before each run both are worked out anew, by
 * the kernel's own setup, for the extents that the slots give.
 */
#ifndef IG_BACKEND_VULKAN_VARY_H
#define IG_BACKEND_VULKAN_VARY_H

#include "backend/vulkan/kernels/vk_kernel.h"
#include "backend/vulkan/shaders/params.h"

enum {
    VK_VARYING_OPERANDS = 3,
    VK_VARYING_WORDS = 64,  /* of a dispatch: params, which may be bound, and at the end: */
    VK_VARYING_GROUPS = 60, /* the groups, as the device reads them */
};

static_assert(sizeof(vk_elementwise_params) <= VK_VARYING_GROUPS * sizeof(uint32_t) &&
                  VK_VARYING_WORDS * sizeof(uint32_t) % VK_BINDING_BYTES == 0,
              "params");

/* Such a step, with all that its setup asks for. */
typedef struct vk_varying {
    ig_step step;
    ig_operand operands[VK_VARYING_OPERANDS];
    char attrs[IG_ATTRS_MAX];
    uint32_t slot;
} vk_varying;

/* Whether some extent comes from a slot. */
bool vk_varies(const ig_step *step);
/* Whether it can be run so: element by element, with the outermost extent in question. */
bool vk_vary_fits(const ig_step *step);

void vk_vary_keep(vk_varying *v, const ig_step *step);

/* What the dispatch reads in a run with this extent, of at most the bound. */
void vk_vary_write(const struct vk_device *device, const vk_varying *v, int64_t extent,
                   uint32_t words[VK_VARYING_WORDS]);

#endif
