/* shaders.h - the shaders, compiled to SPIR-V and built in. */
#ifndef IG_BACKEND_VULKAN_SHADERS_SHADERS_H
#define IG_BACKEND_VULKAN_SHADERS_SHADERS_H

#include "backend/vulkan/kernels/vk_kernel.h"
#include "backend/vulkan/shaders/params.h"

typedef struct vk_shader_code {
    const char *name;
    const uint32_t *words;
    size_t bytes;
} vk_shader_code;

/* Each in two forms: see shaders/addressed.glsl and shaders/bound.glsl. */
extern const vk_shader_code vk_shaders[VK_SHADER_COUNT], vk_shaders_bound[VK_SHADER_COUNT];

/* Push constants, as in shaders/addressed.glsl. */
typedef struct vk_push {
    uint64_t at[VK_MAX_REFS]; /* addresses of its memory */
    uint64_t params, numbers; /* structs of shaders/params.h, and words from slots */
    uint32_t head[VK_HEAD_WORDS];
} vk_push;
static_assert(sizeof(vk_push) == 128, "what every device takes");

/* Push constants, as in shaders/bound.glsl. */
typedef struct vk_bound_push {
    uint32_t operand[VK_MAX_REFS]; /* byte offset in the window; first window << 8 */
    uint32_t numbers;              /* in words */
    uint32_t head[VK_HEAD_WORDS];
} vk_bound_push;

#endif
