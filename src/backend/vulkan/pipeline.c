/*
 * Shaders and pipelines.  A pipeline is a shader with its constants filled in: the
 * driver compiles it once, when the first program needs it, and keeps what it made
 * in a cache that can be saved.
 */
#include <stdatomic.h>

#include "backend/vulkan/device.h"
#include "backend/vulkan/shaders.h"

/* What every shader gets with a dispatch: see kernels/common.glsl. */
static const VkPushConstantRange push_range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                                               .size = sizeof(vk_push)};

ig_status vk_pipelines_init(vk_device *d) {
    const VkPipelineLayoutCreateInfo layout = {.sType =
                                                   VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                               .pushConstantRangeCount = 1,
                                               .pPushConstantRanges = &push_range};
    const VkPipelineCacheCreateInfo cache = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    vk_pipelines *p = &d->pipelines;
    VkResult result = d->api.CreatePipelineLayout(d->handle, &layout, NULL, &p->layout);
    if (result == VK_SUCCESS)
        result = d->api.CreatePipelineCache(d->handle, &cache, NULL, &p->cache);
    return result == VK_SUCCESS ? IG_OK : VK_FAIL(d->base.host, result, "no pipeline layout");
}

void vk_pipelines_deinit(vk_device *d) {
    vk_pipelines *p = &d->pipelines;
    const ig_host *host = d->base.host;
    for (uint32_t i = 0; i < p->count; i++) d->api.DestroyPipeline(d->handle, p->at[i], NULL);
    for (int i = 0; i < VK_SHADER_COUNT; i++)
        if (p->modules[i]) d->api.DestroyShaderModule(d->handle, p->modules[i], NULL);
    if (p->cache) d->api.DestroyPipelineCache(d->handle, p->cache, NULL);
    if (p->layout) d->api.DestroyPipelineLayout(d->handle, p->layout, NULL);
    host->free(host, p->at);
    host->free(host, p->keys);
}

static uint32_t index_of(const vk_pipelines *p, const vk_pipeline_key *key) {
    for (uint32_t i = 0; i < p->count; i++)
        if (memcmp(&p->keys[i], key, sizeof *key) == 0) return i;
    return UINT32_MAX;
}

VkPipeline vk_pipelines_find(const vk_device *d, const vk_pipeline_key *key) {
    const uint32_t i = index_of(&d->pipelines, key);
    return i == UINT32_MAX ? VK_NULL_HANDLE : d->pipelines.at[i];
}

static VkResult make(vk_device *d, const vk_pipeline_key *key, VkPipeline *out) {
    VkSpecializationMapEntry entries[VK_MAX_CONSTANTS];
    for (uint32_t i = 0; i < VK_MAX_CONSTANTS; i++)
        entries[i] = (VkSpecializationMapEntry){i, i * sizeof(uint32_t), sizeof(uint32_t)};
    const VkSpecializationInfo constants = {VK_MAX_CONSTANTS, entries, sizeof key->constant,
                                            key->constant};
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = d->pipelines.modules[key->shader],
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = d->pipelines.layout};
    return d->api.CreateComputePipelines(d->handle, d->pipelines.cache, 1, &info, NULL, out);
}

/* Pipelines [first, count) of the device, made by whoever comes. */
typedef struct making {
    vk_device *device;
    _Atomic uint32_t next;
    _Atomic int result; /* the first failure */
} making;

static void make_some(void *task, uint32_t thread, uint32_t threads) {
    making *m = task;
    vk_pipelines *p = &m->device->pipelines;
    (void)thread, (void)threads;
    for (uint32_t i; (i = atomic_fetch_add(&m->next, 1)) < p->count;) {
        const VkResult result = make(m->device, &p->keys[i], &p->at[i]);
        int none = VK_SUCCESS;
        if (result != VK_SUCCESS) atomic_compare_exchange_strong(&m->result, &none, (int)result);
    }
}

static ig_status load_module(vk_device *d, uint32_t shader) {
    if (d->pipelines.modules[shader]) return IG_OK;
    const VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = vk_shaders[shader].bytes,
                                           .pCode = vk_shaders[shader].words};
    const VkResult result =
        d->api.CreateShaderModule(d->handle, &info, NULL, &d->pipelines.modules[shader]);
    return result == VK_SUCCESS
               ? IG_OK
               : VK_FAIL(d->base.host, result, "shader %s", vk_shaders[shader].name);
}

static ig_status reserve(vk_device *d, uint32_t more) {
    vk_pipelines *p = &d->pipelines;
    const ig_host *host = d->base.host;
    if (p->count + more <= p->room) return IG_OK;
    const uint32_t room = 2 * p->room + more;
    vk_pipeline_key *keys = host->alloc(host, room, sizeof *keys);
    VkPipeline *at = host->alloc(host, room, sizeof *at);
    if (!keys || !at) {
        host->free(host, keys);
        host->free(host, at);
        return IG_HOST_FAIL(host, IG_ERR_MEMORY, "vulkan: %u pipelines", room);
    }
    if (p->count > 0) {
        memcpy(keys, p->keys, p->count * sizeof *keys);
        memcpy(at, p->at, p->count * sizeof *at);
    }
    host->free(host, p->keys);
    host->free(host, p->at);
    p->keys = keys;
    p->at = at;
    p->room = room;
    return IG_OK;
}

ig_status vk_pipelines_make(vk_device *d, const vk_pipeline_key *keys, uint32_t count) {
    vk_pipelines *p = &d->pipelines;
    const ig_host *host = d->base.host;
    const uint32_t before = p->count;
    IG_TRY(reserve(d, count));
    for (uint32_t i = 0; i < count; i++) {
        if (index_of(p, &keys[i]) != UINT32_MAX) continue;
        const ig_status status = load_module(d, keys[i].shader);
        if (status != IG_OK) {
            p->count = before;
            return status;
        }
        p->at[p->count] = VK_NULL_HANDLE;
        p->keys[p->count++] = keys[i];
    }
    making m = {.device = d, .next = before, .result = VK_SUCCESS};
    if (p->count - before > 1 && host->team)
        host->team(host, make_some, &m);
    else
        make_some(&m, 0, 1);
    const VkResult result = (VkResult)atomic_load(&m.result);
    if (result == VK_SUCCESS) return IG_OK;
    const char *name = "?";
    for (uint32_t i = before; i < p->count; i++) {
        if (!p->at[i]) name = vk_shaders[p->keys[i].shader].name;
        d->api.DestroyPipeline(d->handle, p->at[i], NULL);
    }
    p->count = before;
    return VK_FAIL(host, result, "the driver does not compile shader %s", name);
}
