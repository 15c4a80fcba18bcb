/*
 * A Vulkan layer that makes the driver below it fail, as INGOT_VULKAN_FAULT says, one or several
 * with commas between them:
 *
 *     instance          there is no driver that works
 *     enumerate         it does not say which devices there are
 *     device            the device does not open
 *     without=NAME      the device has no such feature (bufferDeviceAddress, ...), is of an older
 *                       version (version: 1.1, anything: 1.0), has no subgroups (subgroups), few
 *                       threads (threads), shared memory (shared) or bindings (bindings); the host
 *                       does not see its memory (mapped), or sees it without a cache (cached)
 *     range=BYTES       it has no addresses, and no binding shows more than that
 *     written           shaders that were not made by glslc are rejected
 *     shaders           all shaders are
 *     pipelines=N       the first N pipelines are
 *     submits=N         the first N submissions fail
 *     lost=N            the device is lost with submission number N, counted from 1
 *     memory=BYTES      it has no more memory than that
 *
 * Whatever is not touched goes on to the driver.  Devices of one process share what is counted.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define EXPORT __attribute__((visibility("default")))

static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;
static VkInstance last_instance;

/* What lies below, asked for when an instance or a device is made: asked later, some loaders answer
 * with the function of this layer. */
#define INSTANCE_FUNCTIONS(X)            \
    X(EnumeratePhysicalDevices)          \
    X(GetPhysicalDeviceProperties)       \
    X(GetPhysicalDeviceProperties2)      \
    X(GetPhysicalDeviceFeatures2)        \
    X(GetPhysicalDeviceMemoryProperties) \
    X(GetPhysicalDeviceMemoryProperties2)
#define DEVICE_FUNCTIONS(X)        \
    X(CreateShaderModule)          \
    X(CreateComputePipelines)      \
    X(GetDeviceQueue)              \
    X(DeviceWaitIdle)              \
    X(QueueSubmit)                 \
    X(WaitSemaphores)              \
    X(WaitForFences)               \
    X(GetBufferMemoryRequirements) \
    X(AllocateMemory)
static struct {
#define DECLARE(name) PFN_vk##name name;
    INSTANCE_FUNCTIONS(DECLARE)
    DEVICE_FUNCTIONS(DECLARE)
#undef DECLARE
} next;

static atomic_uint pipelines_made, submissions;
static atomic_ullong memory_used;

/* ---- what was asked for ---- */

/* The first fault of a list that begins so; what follows "name=" ends with the list's next comma.
 */
static const char *fault_named(const char *name) {
    const size_t length = strlen(name);
    for (const char *at = getenv("INGOT_VULKAN_FAULT"); at; at = strchr(at, ',')) {
        if (*at == ',') at++;
        if (strncmp(at, name, length) == 0 && strchr("=,", at[length])) return at + length;
    }
    return NULL;
}

static int fault_is(const char *name) { return fault_named(name) != NULL; }

static unsigned long long fault_number(const char *name) {
    const char *value = fault_named(name);
    return value && *value == '=' ? strtoull(value + 1, NULL, 10) : 0;
}

static int is_without(const char *feature) {
    char name[64];
    snprintf(name, sizeof name, "without=%s", feature);
    return fault_is(name);
}

static int is_lost(void) {
    const unsigned long long at = fault_number("lost");
    return at > 0 && submissions >= at;
}

/* ---- instances and devices ---- */

/* The loader hands each layer the one below it in a list of its own. */
static VkLayerInstanceCreateInfo *instance_link(const VkInstanceCreateInfo *info) {
    VkLayerInstanceCreateInfo *at = (VkLayerInstanceCreateInfo *)info->pNext;
    while (at && (at->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO ||
                  at->function != VK_LAYER_LINK_INFO))
        at = (VkLayerInstanceCreateInfo *)at->pNext;
    return at;
}

static VkLayerDeviceCreateInfo *device_link(const VkDeviceCreateInfo *info) {
    VkLayerDeviceCreateInfo *at = (VkLayerDeviceCreateInfo *)info->pNext;
    while (at && (at->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO ||
                  at->function != VK_LAYER_LINK_INFO))
        at = (VkLayerDeviceCreateInfo *)at->pNext;
    return at;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *allocator,
                                                      VkInstance *out) {
    VkLayerInstanceCreateInfo *link = instance_link(info);
    if (!link || fault_is("instance")) return VK_ERROR_INCOMPATIBLE_DRIVER;
    next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)next_instance(NULL, "vkCreateInstance");
    const VkResult result = create(info, allocator, out);
    if (result != VK_SUCCESS) return result;
    last_instance = *out;
#define FETCH(name) next.name = (PFN_vk##name)next_instance(*out, "vk" #name);
    INSTANCE_FUNCTIONS(FETCH)
#undef FETCH
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                                    const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator,
                                                    VkDevice *out) {
    VkLayerDeviceCreateInfo *link = device_link(info);
    if (!link || fault_is("device")) return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkCreateDevice create = (PFN_vkCreateDevice)link->u.pLayerInfo->pfnNextGetInstanceProcAddr(
        last_instance, "vkCreateDevice");
    next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    pipelines_made = submissions = 0;
    memory_used = 0;
    const VkResult result = create(physical, info, allocator, out);
    if (result != VK_SUCCESS) return result;
#define FETCH(name) next.name = (PFN_vk##name)next_device(*out, "vk" #name);
    DEVICE_FUNCTIONS(FETCH)
#undef FETCH
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate(VkInstance instance, uint32_t *count,
                                                VkPhysicalDevice *out) {
    if (fault_is("enumerate")) return VK_ERROR_INITIALIZATION_FAILED;
    return next.EnumeratePhysicalDevices(instance, count, out);
}

/* The struct of this type in a list; NULL: none. */
static void *find(void *list, VkStructureType type) {
    VkBaseOutStructure *at = list;
    while (at && at->sType != type) at = at->pNext;
    return at;
}

static void change_properties(VkPhysicalDeviceProperties *p) {
    const unsigned long long range = fault_number("range");
    if (is_without("version")) p->apiVersion = VK_API_VERSION_1_1;
    if (is_without("anything")) p->apiVersion = VK_API_VERSION_1_0;
    if (is_without("threads")) p->limits.maxComputeWorkGroupInvocations = 128;
    if (is_without("shared")) p->limits.maxComputeSharedMemorySize = 16 << 10;
    if (is_without("bindings")) p->limits.maxPerStageDescriptorStorageBuffers = 4;
    if (range > 0) p->limits.maxStorageBufferRange = (uint32_t)range;
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice physical,
                                                 VkPhysicalDeviceProperties *out) {
    next.GetPhysicalDeviceProperties(physical, out);
    change_properties(out);
}

static VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice physical,
                                                  VkPhysicalDeviceProperties2 *out) {
    next.GetPhysicalDeviceProperties2(physical, out);
    change_properties(&out->properties);
    VkPhysicalDeviceSubgroupProperties *subgroups =
        find(out, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
    if (subgroups && is_without("subgroups")) subgroups->supportedOperations = 0;
}

static VKAPI_ATTR void VKAPI_CALL get_features(VkPhysicalDevice physical,
                                               VkPhysicalDeviceFeatures2 *out) {
    next.GetPhysicalDeviceFeatures2(physical, out);
    VkPhysicalDeviceVulkan12Features *v12 =
        find(out, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    VkPhysicalDeviceVulkan11Features *v11 =
        find(out, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    if (is_without("shaderInt64")) out->features.shaderInt64 = VK_FALSE;
    if (v11 && is_without("storageBuffer16BitAccess")) v11->storageBuffer16BitAccess = VK_FALSE;
    if (v12 && is_without("storageBuffer8BitAccess")) v12->storageBuffer8BitAccess = VK_FALSE;
    if (v12 && (is_without("bufferDeviceAddress") || is_without("bindings") || fault_is("range")))
        v12->bufferDeviceAddress = VK_FALSE;
    if (v12 && is_without("timelineSemaphore")) v12->timelineSemaphore = VK_FALSE;
}

/* ---- memory that the host does not see ---- */

/* Beside the driver's own kind of memory there is then another that the host does see: number
 * OTHER, which is the same to the driver. */
enum { OWN = 0, OTHER = 1 };

static int is_apart(void) { return is_without("mapped") || is_without("cached"); }

static void divide(VkPhysicalDeviceMemoryProperties *m) {
    const VkMemoryPropertyFlags seen =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    if (!is_apart()) return;
    m->memoryTypeCount = 2;
    m->memoryTypes[OWN].propertyFlags =
        VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | (is_without("cached") ? seen : 0);
    m->memoryTypes[OTHER] =
        (VkMemoryType){seen | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, m->memoryTypes[OWN].heapIndex};
}

static VKAPI_ATTR void VKAPI_CALL get_memory(VkPhysicalDevice physical,
                                             VkPhysicalDeviceMemoryProperties *out) {
    next.GetPhysicalDeviceMemoryProperties(physical, out);
    divide(out);
}

static VKAPI_ATTR void VKAPI_CALL get_memory2(VkPhysicalDevice physical,
                                              VkPhysicalDeviceMemoryProperties2 *out) {
    next.GetPhysicalDeviceMemoryProperties2(physical, out);
    divide(&out->memoryProperties);
}

static VKAPI_ATTR void VKAPI_CALL get_needs(VkDevice device, VkBuffer buffer,
                                            VkMemoryRequirements *out) {
    next.GetBufferMemoryRequirements(device, buffer, out);
    if (is_apart()) out->memoryTypeBits |= 1u << OTHER;
}

/* ---- what a device does ---- */

static VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice device,
                                                    const VkShaderModuleCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator,
                                                    VkShaderModule *out) {
    enum { GENERATOR = 2 }; /* the word that says which tool has made the shader */
    if (fault_is("shaders")) return VK_ERROR_INVALID_SHADER_NV;
    if (fault_is("written") && info->pCode[GENERATOR] == 0) return VK_ERROR_INVALID_SHADER_NV;
    return next.CreateShaderModule(device, info, allocator, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache,
                                                       uint32_t count,
                                                       const VkComputePipelineCreateInfo *info,
                                                       const VkAllocationCallbacks *allocator,
                                                       VkPipeline *out) {
    if (atomic_fetch_add(&pipelines_made, 1) < fault_number("pipelines"))
        return VK_ERROR_INVALID_SHADER_NV;
    return next.CreateComputePipelines(device, cache, count, info, allocator, out);
}

static VkDevice of_queue; /* queues do not say whose they are */

static VKAPI_ATTR void VKAPI_CALL get_queue(VkDevice device, uint32_t family, uint32_t index,
                                            VkQueue *out) {
    of_queue = device;
    next.GetDeviceQueue(device, family, index, out);
}

/* The real device is not lost: what it was given is done before anything else happens. */
static VkResult lose(VkDevice device) {
    (void)next.DeviceWaitIdle(device);
    return VK_ERROR_DEVICE_LOST;
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count,
                                             const VkSubmitInfo *info, VkFence fence) {
    const unsigned number = atomic_fetch_add(&submissions, 1);
    if (number < fault_number("submits")) return VK_ERROR_UNKNOWN;
    if (is_lost()) return lose(of_queue);
    return next.QueueSubmit(queue, count, info, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait(VkDevice device, const VkSemaphoreWaitInfo *info,
                                           uint64_t timeout) {
    if (is_lost()) return lose(device);
    return next.WaitSemaphores(device, info, timeout);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_fences(VkDevice device, uint32_t count,
                                                  const VkFence *fences, VkBool32 all,
                                                  uint64_t timeout) {
    if (is_lost()) return lose(device);
    return next.WaitForFences(device, count, fences, all, timeout);
}

/* Memory that is freed is not counted back: the limit is on all that was ever asked for. */
static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                               const VkAllocationCallbacks *allocator,
                                               VkDeviceMemory *out) {
    const unsigned long long most = fault_number("memory");
    if (most > 0 && memory_used + info->allocationSize > most) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    memory_used += info->allocationSize;
    VkMemoryAllocateInfo own = *info;
    if (is_apart()) own.memoryTypeIndex = OWN;
    return next.AllocateMemory(device, &own, allocator, out);
}

/* ---- the tables ---- */

typedef struct function {
    const char *name;
    PFN_vkVoidFunction fn;
} function;

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_function(VkInstance instance,
                                                                      const char *name);
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice device,
                                                                    const char *name);

static PFN_vkVoidFunction look_up(const function *table, const char *name) {
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0) return table->fn;
    return NULL;
}

#define FN(fn) ((PFN_vkVoidFunction)(fn))

static PFN_vkVoidFunction device_function(const char *name) {
    const function all[] = {{"vkGetDeviceProcAddr", FN(get_device_function)},
                            {"vkCreateShaderModule", FN(create_module)},
                            {"vkCreateComputePipelines", FN(create_pipelines)},
                            {"vkGetDeviceQueue", FN(get_queue)},
                            {"vkQueueSubmit", FN(submit)},
                            {"vkWaitSemaphores", FN(wait)},
                            {"vkWaitForFences", FN(wait_fences)},
                            {"vkGetBufferMemoryRequirements", FN(get_needs)},
                            {"vkAllocateMemory", FN(allocate)},
                            {NULL, NULL}};
    return look_up(all, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice device,
                                                                    const char *name) {
    static const char *const newer[] = {"vkGetBufferDeviceAddress", "vkGetSemaphoreCounterValue",
                                        "vkWaitSemaphores"};
    for (size_t i = 0; i < sizeof newer / sizeof newer[0]; i++)
        if (is_without("version") && strcmp(name, newer[i]) == 0) return NULL;
    const PFN_vkVoidFunction own = device_function(name);
    return own ? own : next_device(device, name);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_function(VkInstance instance,
                                                                      const char *name) {
    const function all[] = {{"vkGetInstanceProcAddr", FN(get_instance_function)},
                            {"vkCreateInstance", FN(create_instance)},
                            {"vkCreateDevice", FN(create_device)},
                            {"vkEnumeratePhysicalDevices", FN(enumerate)},
                            {"vkGetPhysicalDeviceProperties", FN(get_properties)},
                            {"vkGetPhysicalDeviceProperties2", FN(get_properties2)},
                            {"vkGetPhysicalDeviceFeatures2", FN(get_features)},
                            {"vkGetPhysicalDeviceMemoryProperties", FN(get_memory)},
                            {"vkGetPhysicalDeviceMemoryProperties2", FN(get_memory2)},
                            {NULL, NULL}};
    const PFN_vkVoidFunction own = look_up(all, name);
    const PFN_vkVoidFunction of_device = device_function(name);
    if (own || of_device) return own ? own : of_device;
    return next_instance ? next_instance(instance, name) : NULL;
}

EXPORT VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(
    VkNegotiateLayerInterface *pVersionStruct) { // NOLINT(readability-identifier-naming): Vulkan's
    pVersionStruct->loaderLayerInterfaceVersion = 2;
    pVersionStruct->pfnGetInstanceProcAddr = get_instance_function;
    pVersionStruct->pfnGetDeviceProcAddr = get_device_function;
    pVersionStruct->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
