/*
 * The Vulkan backend: its function table.
 *
 * Runs on any driver from Vulkan 1.1. Newer features are optional, see vk_abilities. Devices are
 * numbered with discrete GPUs first, then integrated ones, software last.
 *
 *     INGOT_VULKAN_DEVICE    use only devices with this in their name, or of this type:
 *                            discrete, integrated, virtual, cpu
 *     INGOT_VULKAN_VALIDATE  1: enable the validation layer, with findings in the log; 0: disable;
 *                            unset: enabled in debug builds
 */
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "backend/vulkan/host/vk_device.h"
#include "backend/vulkan/shaders/params.h"
#include "backend/vulkan/spirv/coopmat.h"

extern const ig_backend ig_vulkan_backend;

enum { MOST_DEVICES = 32 };

/* ---- which devices there are ---- */

static const char *type_name(VkPhysicalDeviceType type) {
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return "cpu";
    default: return "other";
    }
}

/* Lower is better. */
static int rank_of(VkPhysicalDeviceType type) {
    static const VkPhysicalDeviceType order[] = {
        VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
        VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU, VK_PHYSICAL_DEVICE_TYPE_OTHER,
        VK_PHYSICAL_DEVICE_TYPE_CPU};
    int rank = 0;
    while (rank < 4 && order[rank] != type) rank++;
    return rank;
}

static VkPhysicalDeviceProperties properties_of(const vk_api *api, VkPhysicalDevice physical) {
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    api->GetPhysicalDeviceProperties2(physical, &p);
    return p.properties;
}

/* Features queried and enabled; none on devices older than Vulkan 1.2. */
typedef struct features {
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceFeatures2 base;
} features;

static void chain(features *f, bool is_new) {
    f->v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    f->v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    f->base.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    f->base.pNext = is_new ? &f->v11 : NULL;
    f->v11.pNext = &f->v12;
}

/* Workgroup reductions are built on subgroup arithmetic. */
static bool has_subgroups(const vk_api *api, VkPhysicalDevice physical) {
    VkPhysicalDeviceSubgroupProperties own = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &own};
    api->GetPhysicalDeviceProperties2(physical, &p);
    return own.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT &&
           own.supportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
}

/* Addressed shaders require all features they could use; if any is missing, the bound shaders run,
 * which require none. */
static vk_abilities abilities_of(const vk_api *api, VkPhysicalDevice physical) {
    const bool is_new = properties_of(api, physical).apiVersion >= VK_API_VERSION_1_2;
    features f = {0};
    chain(&f, is_new);
    api->GetPhysicalDeviceFeatures2(physical, &f.base);
    return (vk_abilities){.is_new = is_new,
                          .timeline = f.v12.timelineSemaphore,
                          .addresses = f.v12.bufferDeviceAddress && f.v12.storageBuffer8BitAccess &&
                                       f.v11.storageBuffer16BitAccess &&
                                       f.base.features.shaderInt64 && has_subgroups(api, physical)};
}

/* A requirement that the device does not meet; NULL: none. */
static const char *lacks(const vk_api *api, VkPhysicalDevice physical) {
    const VkPhysicalDeviceProperties p = properties_of(api, physical);
    if (p.apiVersion < VK_API_VERSION_1_1) return "Vulkan 1.1";
    if (p.limits.maxComputeWorkGroupInvocations < 256) return "groups of 256 threads";
    if (p.limits.maxComputeSharedMemorySize < 32 << 10) return "32 KiB that a group shares";
    if (abilities_of(api, physical).addresses) return NULL;
    if (p.limits.maxPerStageDescriptorStorageBuffers < VK_BINDINGS) return "16 storage buffers";
    VkPhysicalDeviceFeatures2 f = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    api->GetPhysicalDeviceFeatures2(physical, &f);
    return f.features.shaderStorageBufferArrayDynamicIndexing
               ? NULL
               : "shaderStorageBufferArrayDynamicIndexing";
}

static bool is_asked_for(const VkPhysicalDeviceProperties *p) {
    const char *filter = getenv("INGOT_VULKAN_DEVICE");
    return !filter || !*filter || strstr(p->deviceName, filter) ||
           strcmp(type_name(p->deviceType), filter) == 0;
}

/* The usable devices, best first; returns the count. */
static uint32_t list(const ig_host *host, const vk_api *api, VkPhysicalDevice *out) {
    VkPhysicalDevice all[MOST_DEVICES];
    uint32_t count = MOST_DEVICES, usable = 0;
    const VkResult result = api->EnumeratePhysicalDevices(api->instance, &count, all);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) count = 0;
    (void)IG_HOST_FAIL(host, IG_ERR_DEVICE, "vulkan: there is no device%s",
                       result < 0 ? ": its driver fails" : "");
    for (uint32_t i = 0; i < count; i++) {
        const VkPhysicalDeviceProperties p = properties_of(api, all[i]);
        const char *missing = lacks(api, all[i]);
        if (missing)
            (void)IG_HOST_FAIL(host, IG_ERR_DEVICE, "vulkan: %s has no %s", p.deviceName, missing);
        if (!missing && !is_asked_for(&p))
            (void)IG_HOST_FAIL(host, IG_ERR_DEVICE,
                               "vulkan: %s (%s) is not what INGOT_VULKAN_DEVICE asks for",
                               p.deviceName, type_name(p.deviceType));
        if (missing || !is_asked_for(&p)) continue;
        uint32_t at = usable++;
        for (; at > 0; at--) {
            const VkPhysicalDeviceProperties before = properties_of(api, out[at - 1]);
            if (rank_of(before.deviceType) <= rank_of(p.deviceType)) break;
            out[at] = out[at - 1];
        }
        out[at] = all[i];
    }
    return usable;
}

static uint32_t vk_count(const ig_host *host) {
    vk_api api;
    VkPhysicalDevice devices[MOST_DEVICES];
    if (vk_api_open(host, &api) != IG_OK) return 0;
    const uint32_t count = list(host, &api, devices);
    vk_api_close(&api);
    return count;
}

static bool vk_is_available(const ig_host *host) { return vk_count(host) > 0; }

/* ---- the functions of backend.h ---- */

/* If the driver rejects generated shaders, the built-in ones run instead. */
static ig_status vk_prepare(ig_backend_device *device, const ig_step *steps, uint32_t count) {
    const ig_host *host = device->host;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t tag = ig_step_at(steps, i)->tag;
        if (tag == IG_TAG_NONE || tag > IG_TAG_OPTIMIZER) continue;
        IG_TRY(host->register_override(device, (ig_tag)tag, vk_compile_plain));
    }
    return IG_OK;
}

static void vk_counters(const ig_backend_device *device, ig_device_counters *out) {
    *out = ((const vk_device *)device)->counters;
}

static ig_status vk_synchronize(ig_backend_device *device) {
    vk_device *d = (vk_device *)device;
    return vk_wait(d, d->submitted + (d->staging.filled > 0));
}

/* ---- a device ---- */

/* A compute queue family, preferably without graphics: an H200 starts work sooner there. */
static uint32_t choose_family(vk_device *d) {
    enum { MOST = 16 };
    VkQueueFamilyProperties families[MOST];
    uint32_t count = MOST, best = UINT32_MAX;
    d->api.GetPhysicalDeviceQueueFamilyProperties(d->physical, &count, families);
    for (uint32_t i = 0; i < count; i++) {
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
        const bool draws = families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT;
        if (best != UINT32_MAX && draws) continue;
        best = i;
        d->tick_bits = families[i].timestampValidBits;
        if (!draws) break;
    }
    return best;
}

static bool has_extension(const vk_device *d, const char *name) {
    enum { MOST = 512 };
    const ig_host *host = d->base.host;
    VkExtensionProperties *list = host->alloc(host, MOST, sizeof *list);
    uint32_t count = MOST;
    bool found = false;
    if (!list) return false;
    const VkResult result =
        d->api.EnumerateDeviceExtensionProperties(d->physical, NULL, &count, list);
    for (uint32_t i = 0; i < count && result >= 0; i++)
        found |= strcmp(list[i].extensionName, name) == 0;
    host->free(host, list);
    return found;
}

static ig_status create_device(vk_device *d, uint32_t family) {
    static const char budget[] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    const char *extensions[2];
    uint32_t n_extensions = 0;
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkBool32 addresses = d->has.addresses;
    features f = {0};
    chain(&f, d->has.is_new);
    f.v12.timelineSemaphore = d->has.timeline;
    f.v12.bufferDeviceAddress = f.v12.storageBuffer8BitAccess = addresses;
    f.v11.storageBuffer16BitAccess = f.base.features.shaderInt64 = addresses;
    f.base.features.shaderStorageBufferArrayDynamicIndexing = !addresses;
    d->has_budget = has_extension(d, budget);
    d->has_matrices =
        addresses && has_extension(d, VK_MATRICES_EXTENSION) && vk_matrices_offered(d);
    vk_matrices_features matrices = vk_matrices_wanted();
    if (d->has_budget) extensions[n_extensions++] = budget;
    if (d->has_matrices) {
        extensions[n_extensions++] = VK_MATRICES_EXTENSION;
        f.v12.shaderFloat16 = f.v12.vulkanMemoryModel = VK_TRUE;
        f.v12.pNext = &matrices;
    }
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &f.base,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = n_extensions,
                                     .ppEnabledExtensionNames = extensions};
    const VkResult result = d->api.CreateDevice(d->physical, &info, NULL, &d->handle);
    if (result != VK_SUCCESS)
        return VK_FAIL(d->base.host, result, "%s does not open", d->properties.deviceName);
    return vk_api_load_device(d->base.host, &d->api, d->handle, d->has.is_new);
}

/* Float controls that shaders may request. */
static void ask_floats(vk_device *d) {
    VkPhysicalDeviceVulkan12Properties v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = d->has.is_new ? &v12 : NULL};
    d->api.GetPhysicalDeviceProperties2(d->physical, &p);
    d->properties = p.properties;
    d->keeps_subnormals = v12.shaderDenormPreserveFloat32;
    d->keeps_specials = v12.shaderSignedZeroInfNanPreserveFloat32;
}

static ig_status open_parts(vk_device *d, uint32_t index) {
    const ig_host *host = d->base.host;
    VkPhysicalDevice devices[MOST_DEVICES];
    IG_TRY(vk_api_open(host, &d->api));
    const uint32_t count = list(host, &d->api, devices);
    if (index >= count)
        return IG_HOST_FAIL(host, IG_ERR_DEVICE, "vulkan:%u: there are %u, counted from 0", index,
                            count);
    d->physical = devices[index];
    d->has = abilities_of(&d->api, d->physical);
    ask_floats(d);
    VkPhysicalDeviceMemoryProperties2 memory = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    d->api.GetPhysicalDeviceMemoryProperties2(d->physical, &memory);
    d->memory = memory.memoryProperties;
    const uint32_t family = choose_family(d);
    if (family == UINT32_MAX)
        return IG_HOST_FAIL(host, IG_ERR_DEVICE, "vulkan: %s does not compute",
                            d->properties.deviceName);
    IG_TRY(create_device(d, family));
    IG_TRY(vk_queue_init(d, family));
    IG_TRY(vk_memory_init(d));
    return vk_pipelines_init(d);
}

static void vk_close(ig_backend_device *device) {
    vk_device *d = (vk_device *)device;
    const ig_host *host = device->host;
    if (d->handle && d->api.DestroyDevice) {
        (void)d->api.DeviceWaitIdle(d->handle);
        vk_pipelines_deinit(d);
        vk_memory_deinit(d);
        vk_queue_deinit(d);
        d->api.DestroyDevice(d->handle, NULL);
    }
    vk_api_close(&d->api);
    host->free(host, d);
}

static ig_status vk_open(const ig_host *host, uint32_t index, ig_backend_device **out) {
    vk_device *d = host->alloc(host, 1, sizeof *d);
    if (!d) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "vulkan: device");
    d->base.host = host;
    const ig_status status = open_parts(d, index);
    if (status == IG_OK)
        *out = &d->base;
    else
        vk_close(&d->base);
    return status;
}

/* 48 bits that identify the driver build: its pipelines do not fit another one. */
static uint64_t driver_of(const VkPhysicalDeviceProperties *p) {
    return (XXH3_64bits(p->pipelineCacheUUID, VK_UUID_SIZE) ^ p->driverVersion) >> 16;
}

static void vk_info(const ig_backend_device *device, ig_device_info *out) {
    const vk_device *d = (const vk_device *)device;
    const VkPhysicalDeviceProperties *p = &d->properties;
    const uint32_t heap = d->memory.memoryTypes[d->pools[VK_POOL_DEVICE].type].heapIndex;
    const bool software = p->deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    ig_device_info info = {.struct_size = out->struct_size,
                           .device_class = software ? IG_DEVICE_CPU : IG_DEVICE_GPU,
                           .flags = IG_CAN_COMPILE | IG_CAN_GRAPH | IG_FUSES_ACROSS_LEVELS |
                                    IG_STATE_BACKUP_ONCE | IG_SAVES_NO_WEIGHTS,
                           .alignment = 64,
                           .dtypes = vk_dtypes(),
                           .memory_bytes = d->memory.memoryHeaps[heap].size};
    snprintf(info.name, sizeof info.name, "%.63s", p->deviceName);
    snprintf(info.architecture, sizeof info.architecture, "%08x-%08x-%012llx", p->vendorID,
             p->deviceID, (unsigned long long)driver_of(p));
    memcpy(out, &info, out->struct_size < sizeof info ? out->struct_size : sizeof info);
}

const ig_backend ig_vulkan_backend = {
    .abi = IG_BACKEND_ABI,
    .struct_size = sizeof(ig_backend),
    .name = "vulkan",
    .version = "1",
    .is_available = vk_is_available,
    .count = vk_count,
    .open = vk_open,
    .close = vk_close,
    .info = vk_info,
    .buffer_alloc = vk_buffer_alloc,
    .buffer_free = vk_buffer_free,
    .write = vk_write,
    .read = vk_read,
    .memory_stats = vk_memory_stats,
    .reset_memory_stats = vk_reset_memory_stats,
    .can_run = vk_can_run,
    .scratch_bytes = vk_scratch_bytes,
    .prepare = vk_prepare,
    .compile = vk_compile,
    .save = vk_save,
    .synchronize = vk_synchronize,
    .extension = "vkpipe",
    .counters = vk_counters,
};
