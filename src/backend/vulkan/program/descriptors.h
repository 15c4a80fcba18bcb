/*
 * bind.h - the memory of dispatches as bindings, for devices that have no addresses.
 *
 *     binding 0   params
 *     binding 1   words from slots
 *     binding 2   VK_WINDOWS windows onto operands: see kernels/bound.glsl
 *
 * An operand is shown from a multiple of VK_BINDING_BYTES on, by as many windows as it takes: a
 * device shows no more than maxStorageBufferRange in one.
 */
#ifndef IG_BACKEND_VULKAN_BIND_H
#define IG_BACKEND_VULKAN_BIND_H

#include "backend/vulkan/program/program.h"

/* d->pipelines.bindings */
IG_MUST_CHECK ig_status vk_bindings_create(vk_device *d);

/* Bytes that a window shows: a power of two. */
uint64_t vk_window_bytes(const vk_device *d);

/* Whether there are windows enough for all operands of the dispatch. */
bool vk_bindings_fit(const vk_device *d, const vk_dispatch *dispatch);
/* Whether some operand takes several. */
bool vk_bindings_split(const vk_device *d, const vk_dispatch *dispatch);

/* Room in r->sets for all launches of the program; what was bound before is forgotten. */
IG_MUST_CHECK ig_status vk_bindings_reserve(vk_program *p, vk_recording *r);

/* Binds the memory of a launch, and records what else it hands its shader. */
IG_MUST_CHECK ig_status vk_bind(const vk_program *p, vk_recording *r, const vk_launch *l,
                                ig_backend_buffer *const *buffers);

#endif
