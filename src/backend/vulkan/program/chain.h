/*
 * chain.h - a run of elementwise steps as one dispatch, with a shader of its own.
 *
 *     add, tanh, mul      out0 = a + b;  out1 = tanh(out0);  out2 = out1 * c
 *
 * Each thread takes its element through all steps: what one step leaves the next
 * has at hand.  Every result is stored, as the steps by themselves would.
 */
#ifndef IG_BACKEND_VULKAN_CHAIN_H
#define IG_BACKEND_VULKAN_CHAIN_H

#include "backend/vulkan/host/vk_device.h"
#include "backend/vulkan/shaders/shaders.h"

/* How many steps from steps[first] on, before `end`, can be one dispatch: 1, if only itself. */
uint32_t vk_chain_length(const ig_step *steps, uint32_t first, uint32_t end);

/* The shader of the steps, from chain.comp in one of its forms.  Its words belong to the caller,
 * who frees them. */
IG_MUST_CHECK ig_status vk_chain_write(const ig_host *host, const vk_shader_code *base,
                                       const ig_step *steps, uint32_t first, uint32_t count,
                                       vk_written *out);

/* Emits the dispatch; `shader` as in vk_dispatch. */
void vk_chain_emit(vk_builder *b, const ig_step *steps, uint32_t first, uint32_t count,
                   uint32_t shader);

#endif
