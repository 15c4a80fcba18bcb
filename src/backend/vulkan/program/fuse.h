/*
 * join.h - steps that the kernel of another does along with it, so that nothing is
 * waited for in between.
 *
 *     before   rms_norm or mul: the product works it out as it reads its left side
 *     after    add or mul: it takes each result further before the next
 *
 * All results are stored, as the steps by themselves would.
 */
#ifndef IG_BACKEND_VULKAN_JOIN_H
#define IG_BACKEND_VULKAN_JOIN_H

#include "backend/vulkan/kernels/vk_kernel.h"

/* Finds them; `out` has room for `count` and is zeroed. */
void vk_joins_find(const ig_step *steps, uint32_t count, vk_join *out);

#endif
