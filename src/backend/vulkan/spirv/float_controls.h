/*
 * float_controls.h - float controls of a shader that GLSL cannot express.
 *
 * Written into the SPIR-V from glslc before the driver gets it.
 */
#ifndef IG_BACKEND_VULKAN_SPIRV_FLOAT_CONTROLS_H
#define IG_BACKEND_VULKAN_SPIRV_FLOAT_CONTROLS_H

#include "backend/vulkan/shaders/shaders.h"

typedef struct vk_module_asks {
    bool subnormals, specials; /* preserve denormals; preserve signed zero, infinity and NaN */
    bool exact;                /* no contraction of multiply and add */
} vk_module_asks;

/* Upper bound of the module's words. */
size_t vk_module_room(const vk_shader_code *code);

/* Returns the length of `out`. */
size_t vk_module_write(const vk_shader_code *code, vk_module_asks asks, uint32_t *out);

#endif
