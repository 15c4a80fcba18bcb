/* shaders.h - the shaders of kernels/, compiled to SPIR-V and built in. */
#ifndef IG_BACKEND_VULKAN_SHADERS_H
#define IG_BACKEND_VULKAN_SHADERS_H

#include "backend/vulkan/kernels/vk_kernel.h"
#include "backend/vulkan/shaders/params.h"

typedef struct vk_shader_code {
    const char *name;
    const uint32_t *words;
    size_t bytes;
} vk_shader_code;

/* Each in two forms: see kernels/addressed.glsl and kernels/bound.glsl. */
extern const vk_shader_code vk_shaders[VK_SHADER_COUNT], vk_shaders_bound[VK_SHADER_COUNT];

/* What a dispatch hands its shader, as kernels/addressed.glsl has it. */
typedef struct vk_push {
    uint64_t at[VK_MAX_REFS]; /* where its memory lies */
    uint64_t params, numbers; /* structs of kernels/params.h, and words from slots */
    uint32_t head[VK_HEAD_WORDS];
} vk_push;
static_assert(sizeof(vk_push) == 128, "what every device takes");

/* The same, as kernels/bound.glsl has it. */
typedef struct vk_bound_push {
    uint32_t operand[VK_MAX_REFS]; /* bytes before its first; its first window << 8 */
    uint32_t numbers;              /* in words */
    uint32_t head[VK_HEAD_WORDS];
} vk_bound_push;

#endif
