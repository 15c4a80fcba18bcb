/* The SPIR-V of all shaders. The build generates the list from shaders/. */
#include "backend/vulkan/shaders/shaders.h"

#include "backend/vulkan/shaders/words.h" /* compiled from each <family>.comp by glslc */

const vk_shader_code vk_shaders[VK_SHADER_COUNT] = {
#define CODE(family) {#family, addressed_##family, sizeof addressed_##family},
    VK_SHADERS(CODE)
#undef CODE
};

const vk_shader_code vk_shaders_bound[VK_SHADER_COUNT] = {
#define CODE(family) {#family, bound_##family, sizeof bound_##family},
    VK_SHADERS(CODE)
#undef CODE
};
