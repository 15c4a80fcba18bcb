/* The words of all shaders.  The list of them is that of kernels/, made when the build is set up.
 */
#include "backend/vulkan/shaders/shaders.h"

#include "backend/vulkan/shaders/words.h" /* of each <family>.comp as glslc leaves it */

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
