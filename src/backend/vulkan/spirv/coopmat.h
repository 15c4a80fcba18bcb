/*
 * coopmat.h - cooperative matrices: VK_KHR_cooperative_matrix.
 *
 * Debian's headers and glslc are older than the extension. So its structs are declared here, and
 * shaders are compiled for its predecessor (SPV_NV_cooperative_matrix) and rewritten, word by word.
 */
#ifndef IG_BACKEND_VULKAN_SPIRV_COOPMAT_H
#define IG_BACKEND_VULKAN_SPIRV_COOPMAT_H

#include "backend/vulkan/host/vk_device.h"

#define VK_MATRICES_EXTENSION "VK_KHR_cooperative_matrix"

/* VkPhysicalDeviceCooperativeMatrixFeaturesKHR */
typedef struct vk_matrices_features {
    VkStructureType type;
    void *next;
    VkBool32 matrices, robust_access;
} vk_matrices_features;

/* Chained into device creation if the device has_matrices. */
vk_matrices_features vk_matrices_wanted(void);

/* Whether the device can run matmul_coopmat.comp: 16 x 16 F16, F32 accumulators, fixed subgroups
 * of 32 threads. */
bool vk_matrices_offered(const vk_device *d);

/* Rewrites a shader. `out` has room for vk_matrices_room(count) words; returns its length. */
size_t vk_matrices_room(size_t count);
size_t vk_matrices_rewrite(const uint32_t *words, size_t count, uint32_t *out);

#endif
