/*
 * api.h - the Vulkan functions that the backend calls, resolved at run time.
 *
 * Nothing is linked: the loader is opened by dlopen, an instance is created, and each function is
 * looked up once. The list below declares and resolves them.
 */
#ifndef IG_BACKEND_VULKAN_HOST_API_H
#define IG_BACKEND_VULKAN_HOST_API_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include "ingot/backend.h"

#define VK_INSTANCE_FUNCTIONS(X)              \
    X(DestroyInstance)                        \
    X(EnumeratePhysicalDevices)               \
    X(GetPhysicalDeviceProperties2)           \
    X(GetPhysicalDeviceFeatures2)             \
    X(GetPhysicalDeviceMemoryProperties2)     \
    X(GetPhysicalDeviceQueueFamilyProperties) \
    X(EnumerateDeviceExtensionProperties)     \
    X(CreateDevice)                           \
    X(GetDeviceProcAddr)

#define VK_DEVICE_FUNCTIONS(X)     \
    X(DestroyDevice)               \
    X(GetDeviceQueue)              \
    X(DeviceWaitIdle)              \
    X(QueueSubmit)                 \
    X(AllocateMemory)              \
    X(FreeMemory)                  \
    X(MapMemory)                   \
    X(CreateBuffer)                \
    X(DestroyBuffer)               \
    X(GetBufferMemoryRequirements) \
    X(BindBufferMemory)            \
    X(CreateSemaphore)             \
    X(DestroySemaphore)            \
    X(CreateFence)                 \
    X(DestroyFence)                \
    X(GetFenceStatus)              \
    X(ResetFences)                 \
    X(WaitForFences)               \
    X(CreateCommandPool)           \
    X(DestroyCommandPool)          \
    X(AllocateCommandBuffers)      \
    X(FreeCommandBuffers)          \
    X(BeginCommandBuffer)          \
    X(EndCommandBuffer)            \
    X(CmdBindPipeline)             \
    X(CmdBindDescriptorSets)       \
    X(CmdPushConstants)            \
    X(CmdDispatch)                 \
    X(CmdDispatchIndirect)         \
    X(CmdPipelineBarrier)          \
    X(CmdCopyBuffer)               \
    X(CreateQueryPool)             \
    X(DestroyQueryPool)            \
    X(CmdResetQueryPool)           \
    X(CmdWriteTimestamp)           \
    X(GetQueryPoolResults)         \
    X(CreateShaderModule)          \
    X(DestroyShaderModule)         \
    X(CreateDescriptorSetLayout)   \
    X(DestroyDescriptorSetLayout)  \
    X(CreateDescriptorPool)        \
    X(DestroyDescriptorPool)       \
    X(ResetDescriptorPool)         \
    X(AllocateDescriptorSets)      \
    X(UpdateDescriptorSets)        \
    X(CreatePipelineLayout)        \
    X(DestroyPipelineLayout)       \
    X(CreatePipelineCache)         \
    X(DestroyPipelineCache)        \
    X(GetPipelineCacheData)        \
    X(MergePipelineCaches)         \
    X(CreateComputePipelines)      \
    X(DestroyPipeline)

/* Added in Vulkan 1.2. */
#define VK_NEW_FUNCTIONS(X)     \
    X(GetBufferDeviceAddress)   \
    X(GetSemaphoreCounterValue) \
    X(WaitSemaphores)

typedef struct vk_api {
    void *library;
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    VkInstance instance;
    VkDebugUtilsMessengerEXT messenger; /* of the validation layer, if enabled */
#define DECLARE(name) PFN_vk##name name;
    VK_INSTANCE_FUNCTIONS(DECLARE)
    VK_DEVICE_FUNCTIONS(DECLARE) /* NULL before vk_api_load_device() */
    VK_NEW_FUNCTIONS(DECLARE)    /* NULL on older devices */
#undef DECLARE
} vk_api;

/* Opens the loader and creates an instance. Fails with IG_ERR_DEVICE and a reason. */
IG_MUST_CHECK ig_status vk_api_open(const ig_host *host, vk_api *out);
/* `is_new`: also the functions of Vulkan 1.2. */
IG_MUST_CHECK ig_status vk_api_load_device(const ig_host *host, vk_api *api, VkDevice device,
                                           bool is_new);
void vk_api_close(vk_api *api);

/* "out of device memory", and so on. */
const char *vk_result_text(VkResult result);

/* Maps a VkResult to a status: out of memory, or a device error. */
ig_status vk_result_status(VkResult result);

#define VK_FAIL(host, result, ...) vk_fail(host, result, __FILE__, __LINE__, __VA_ARGS__)
ig_status vk_fail(const ig_host *host, VkResult result, const char *file, int line, const char *fmt,
                  ...) IG_PRINTF(5, 6);

#endif
