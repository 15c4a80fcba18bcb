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

/* ---- modules ---- */

/* Words of SPIR-V, and how they begin: see the specification's "Physical Layout". */
enum {
    HEADER_WORDS = 5,
    OP_ENTRY_POINT = 15,
    OP_EXECUTION_MODE = 16,
    OP_CAPABILITY = 17,
    CAP_DENORM_PRESERVE = 4464,
    CAP_SIGNED_ZERO_INF_NAN_PRESERVE = 4466,
    MODE_DENORM_PRESERVE = 4459,
    MODE_SIGNED_ZERO_INF_NAN_PRESERVE = 4461,
    MOST_ADDED = 2 * (2 + 4), /* words */
};

static uint32_t opcode(uint32_t words, uint32_t op) { return words << 16 | op; }

/* GLSL cannot ask that subnormal numbers and NaN are kept, SPIR-V can: a capability before all
 * others, and a mode behind the entry point.  Returns how many words `out` then has. */
static size_t ask_for_floats(const vk_device *d, const vk_shader_code *code, uint32_t *out) {
    const struct {
        bool wanted;
        uint32_t capability, mode;
    } asks[] = {
        {d->keeps_subnormals, CAP_DENORM_PRESERVE, MODE_DENORM_PRESERVE},
        {d->keeps_specials, CAP_SIGNED_ZERO_INF_NAN_PRESERVE, MODE_SIGNED_ZERO_INF_NAN_PRESERVE}};
    const size_t count = code->bytes / sizeof *out;
    size_t n = HEADER_WORDS;
    memcpy(out, code->words, n * sizeof *out);
    for (int k = 0; k < 2; k++) {
        if (!asks[k].wanted) continue;
        out[n++] = opcode(2, OP_CAPABILITY);
        out[n++] = asks[k].capability;
    }
    for (size_t i = HEADER_WORDS, words; i < count; i += words) {
        words = code->words[i] >> 16;
        memcpy(out + n, code->words + i, words * sizeof *out);
        n += words;
        for (int k = 0; k < 2 && (code->words[i] & 0xffff) == OP_ENTRY_POINT; k++) {
            if (!asks[k].wanted) continue;
            memcpy(out + n,
                   (uint32_t[]){opcode(4, OP_EXECUTION_MODE), code->words[i + 2], asks[k].mode, 32},
                   4 * sizeof *out);
            n += 4;
        }
    }
    return n;
}

static ig_status load_module(vk_device *d, uint32_t shader) {
    const ig_host *host = d->base.host;
    if (d->pipelines.modules[shader]) return IG_OK;
    uint32_t *words = host->alloc(host, vk_shaders[shader].bytes + MOST_ADDED * sizeof *words, 1);
    if (!words) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "vulkan: %s", vk_shaders[shader].name);
    const VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = ask_for_floats(d, &vk_shaders[shader], words) * sizeof *words,
        .pCode = words};
    const VkResult result =
        d->api.CreateShaderModule(d->handle, &info, NULL, &d->pipelines.modules[shader]);
    host->free(host, words);
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
