/*
 * chain.h - a chain of elementwise steps as one dispatch, with a generated shader.
 *
 *     add, tanh, mul      out0 = a + b;  out1 = tanh(out0);  out2 = out1 * c
 *
 * Each thread takes its element through all steps, so intermediate values stay in registers. Every
 * result is stored, as the separate steps would.
 */
#ifndef IG_BACKEND_VULKAN_PROGRAM_CHAIN_H
#define IG_BACKEND_VULKAN_PROGRAM_CHAIN_H

#include "backend/vulkan/host/vk_device.h"
#include "backend/vulkan/shaders/shaders.h"

/* How many steps from steps[first] on, before `end`, fit one dispatch; 1: only itself. */
uint32_t vk_chain_length(const ig_step *steps, uint32_t first, uint32_t end);

/* Generates the shader of the steps from a form of chain.comp. The caller frees its words. */
IG_MUST_CHECK ig_status vk_chain_write(const ig_host *host, const vk_shader_code *base,
                                       const ig_step *steps, uint32_t first, uint32_t count,
                                       vk_written *out);

/* Emits the dispatch; `shader` as in vk_dispatch. */
void vk_chain_emit(vk_builder *b, const ig_step *steps, uint32_t first, uint32_t count,
                   uint32_t shader);

#endif
