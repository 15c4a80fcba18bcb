/*
 * module.h - what a shader is asked for with floats, which GLSL has no words for.
 *
 * Written into the SPIR-V that glslc has made, before a driver gets it.
 */
#ifndef IG_BACKEND_VULKAN_MODULE_H
#define IG_BACKEND_VULKAN_MODULE_H

#include "backend/vulkan/shaders/shaders.h"

typedef struct vk_module_asks {
    bool subnormals, specials; /* are kept: small numbers; signed zero, infinity and NaN */
    bool exact;                /* each product and sum is rounded by itself */
} vk_module_asks;

/* Words that are enough for the module, whatever is asked for. */
size_t vk_module_room(const vk_shader_code *code);

/* Returns how many `out` has. */
size_t vk_module_write(const vk_shader_code *code, vk_module_asks asks, uint32_t *out);

#endif
