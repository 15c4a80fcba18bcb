/*
 * descriptors.h - descriptor sets for devices without buffer device addresses.
 *
 *     binding 0   params
 *     binding 1   words from slots
 *     binding 2   VK_WINDOWS windows onto operands: see shaders/bound.glsl
 *
 * An operand is bound from a multiple of VK_BINDING_BYTES on, by several windows if it exceeds
 * maxStorageBufferRange.
 */
#ifndef IG_BACKEND_VULKAN_PROGRAM_DESCRIPTORS_H
#define IG_BACKEND_VULKAN_PROGRAM_DESCRIPTORS_H

#include "backend/vulkan/program/program.h"

/* Creates d->pipelines.bindings. */
IG_MUST_CHECK ig_status vk_bindings_create(vk_device *d);

/* Bytes per window: a power of two. */
uint64_t vk_window_bytes(const vk_device *d);

/* Whether all operands of the dispatch fit the windows. */
bool vk_bindings_fit(const vk_device *d, const vk_dispatch *dispatch);
/* Whether some operand needs several windows. */
bool vk_bindings_split(const vk_device *d, const vk_dispatch *dispatch);

/* Allocates r->sets for all launches of the program, replacing earlier ones. */
IG_MUST_CHECK ig_status vk_bindings_reserve(vk_program *p, vk_recording *r);

/* Binds the memory of a launch and records its push constants. */
IG_MUST_CHECK ig_status vk_bind(const vk_program *p, vk_recording *r, const vk_launch *l,
                                ig_backend_buffer *const *buffers);

#endif
