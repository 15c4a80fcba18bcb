/*
 * matrices.h - units that multiply small matrices: VK_KHR_cooperative_matrix.
 *
 * Headers and glslc of a Debian release are older than the extension.  So its structs are
 * declared here, and shaders are compiled for the extension that went before it
 * (SPV_NV_cooperative_matrix) and rewritten, word by word, for this one.
 */
#ifndef IG_BACKEND_VULKAN_MATRICES_H
#define IG_BACKEND_VULKAN_MATRICES_H

#include "backend/vulkan/host/vk_device.h"

#define VK_MATRICES_EXTENSION "VK_KHR_cooperative_matrix"

/* VkPhysicalDeviceCooperativeMatrixFeaturesKHR */
typedef struct vk_matrices_features {
    VkStructureType type;
    void *next;
    VkBool32 matrices, robust_access;
} vk_matrices_features;

/* To be chained when a device is made that has_matrices. */
vk_matrices_features vk_matrices_wanted(void);

/* Whether the device can run kernels/matmul_matrix.comp: 16 x 16 halves, sums in floats, subgroups
 * of 32 threads and no others. */
bool vk_matrices_offered(const vk_device *d);

/* Rewrites a shader.  `out` has room for vk_matrices_room(count) words; returns how many it has. */
size_t vk_matrices_room(size_t count);
size_t vk_matrices_rewrite(const uint32_t *words, size_t count, uint32_t *out);

#endif
