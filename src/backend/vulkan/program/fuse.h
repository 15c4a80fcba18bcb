/*
 * fuse.h - fuses steps into the kernel of a matmul, which saves barriers.
 *
 *     before   rms_norm or mul: computed while the matmul reads its left side
 *     after    add or mul: applied to each result before the next
 *
 * All results are stored, as the separate steps would.
 */
#ifndef IG_BACKEND_VULKAN_PROGRAM_FUSE_H
#define IG_BACKEND_VULKAN_PROGRAM_FUSE_H

#include "backend/vulkan/kernels/vk_kernel.h"

/* Finds fusable steps; `out` has room for `count` and is zeroed. */
void vk_joins_find(const ig_step *steps, uint32_t count, vk_join *out);

#endif
