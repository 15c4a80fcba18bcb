/*
 * Shaders and pipelines. A pipeline is a shader with specialization constants. The driver compiles
 * it once, when the first program needs it, into a pipeline cache that can be saved.
 */
#include <stdatomic.h>
#include <xxhash.h>

#include "backend/vulkan/program/descriptors.h"
#include "backend/vulkan/shaders/shaders.h"
#include "backend/vulkan/spirv/coopmat.h"
#include "backend/vulkan/spirv/float_controls.h"

/* Push constants of every dispatch. */
static const VkPushConstantRange push_range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                                               .size = sizeof(vk_push)};
static_assert(sizeof(vk_bound_push) <= sizeof(vk_push), "in either form");

ig_status vk_pipelines_init(vk_device *d) {
    vk_pipelines *p = &d->pipelines;
    p->shaders = d->has.addresses ? vk_shaders : vk_shaders_bound;
    if (!d->has.addresses) IG_TRY(vk_bindings_create(d));
    const VkPipelineLayoutCreateInfo layout = {.sType =
                                                   VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                               .setLayoutCount = d->has.addresses ? 0 : 1,
                                               .pSetLayouts = &p->bindings,
                                               .pushConstantRangeCount = 1,
                                               .pPushConstantRanges = &push_range};
    const VkPipelineCacheCreateInfo cache = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
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
    for (uint32_t i = 0; i < p->n_written; i++) {
        d->api.DestroyShaderModule(d->handle, p->written[i].module, NULL);
        host->free(host, p->written[i].words);
    }
    host->free(host, p->written);
    host->free(host, p->saved);
    if (p->cache) d->api.DestroyPipelineCache(d->handle, p->cache, NULL);
    if (p->layout) d->api.DestroyPipelineLayout(d->handle, p->layout, NULL);
    if (p->bindings) d->api.DestroyDescriptorSetLayout(d->handle, p->bindings, NULL);
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

static VkShaderModule *module_of(vk_pipelines *p, uint32_t shader) {
    return shader < VK_SHADER_COUNT ? &p->modules[shader]
                                    : &p->written[shader - VK_SHADER_COUNT].module;
}

static vk_shader_code code_of(const vk_pipelines *p, uint32_t shader) {
    if (shader < VK_SHADER_COUNT) return p->shaders[shader];
    const vk_written *w = &p->written[shader - VK_SHADER_COUNT];
    return (vk_shader_code){w->name, w->words, w->n_words * sizeof *w->words};
}

/* log2 of the words in a window. */
static uint32_t window_bits(const vk_device *d) {
    uint32_t bits = 0;
    while (UINT64_C(8) << bits <= vk_window_bytes(d)) bits++;
    return bits;
}

static VkResult make(vk_device *d, const vk_pipeline_key *key, VkPipeline *out) {
    enum { COUNT = VK_MAX_CONSTANTS + 2 };
    VkSpecializationMapEntry entries[COUNT];
    uint32_t values[COUNT];
    memcpy(values, key->constant, sizeof key->constant);
    values[VK_MAX_CONSTANTS] = key->split;
    values[VK_MAX_CONSTANTS + 1] = window_bits(d);
    for (uint32_t i = 0; i < COUNT; i++)
        entries[i] = (VkSpecializationMapEntry){
            i < VK_MAX_CONSTANTS ? i : i - VK_MAX_CONSTANTS + VK_CONSTANT_SPLIT,
            i * sizeof(uint32_t), sizeof(uint32_t)};
    const VkSpecializationInfo constants = {COUNT, entries, sizeof values, values};
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = *module_of(&d->pipelines, key->shader),
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = d->pipelines.layout};
    return d->api.CreateComputePipelines(d->handle, d->pipelines.cache, 1, &info, NULL, out);
}

/* Pipelines [first, count) of the device; any thread may create one. */
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

static ig_status load_module(vk_device *d, uint32_t shader) {
    const ig_host *host = d->base.host;
    VkShaderModule *module = module_of(&d->pipelines, shader);
    const vk_shader_code code = code_of(&d->pipelines, shader);
    if (*module) return IG_OK;
    const bool exact = shader == VK_SHADER_elementwise || shader >= VK_SHADER_COUNT;
    const bool rewritten = shader == VK_SHADER_matmul_coopmat;
    const vk_module_asks asks = {d->keeps_subnormals, d->keeps_specials, exact};
    const size_t room = vk_module_room(&code);
    uint32_t *words = host->alloc(host, room + vk_matrices_room(room), sizeof *words);
    if (!words) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "vulkan: shader %s", code.name);
    size_t count = vk_module_write(&code, asks, words);
    uint32_t *last = rewritten ? words + room : words;
    if (rewritten) count = vk_matrices_rewrite(words, count, last);
    const VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = count * sizeof *last,
                                           .pCode = last};
    const VkResult result = d->api.CreateShaderModule(d->handle, &info, NULL, module);
    host->free(host, words);
    return result == VK_SUCCESS ? IG_OK : VK_FAIL(host, result, "shader %s", code.name);
}

/* Room for one more; false: out of memory. */
static bool reserve_written(vk_device *d) {
    vk_pipelines *p = &d->pipelines;
    const ig_host *host = d->base.host;
    if (p->n_written < p->written_room) return true;
    const uint32_t room = 2 * p->written_room + 8;
    vk_written *written = host->alloc(host, room, sizeof *written);
    if (!written) return false;
    if (p->n_written > 0) memcpy(written, p->written, p->n_written * sizeof *written);
    host->free(host, p->written);
    p->written = written;
    p->written_room = room;
    return true;
}

ig_status vk_pipelines_write(vk_device *d, vk_written shader, uint32_t *out) {
    vk_pipelines *p = &d->pipelines;
    const ig_host *host = d->base.host;
    uint32_t i = 0;
    while (i < p->n_written &&
           (p->written[i].n_words != shader.n_words ||
            memcmp(p->written[i].words, shader.words, shader.n_words * sizeof *shader.words) != 0))
        i++;
    const bool is_new = i == p->n_written;
    if (!is_new || !reserve_written(d)) host->free(host, shader.words);
    if (is_new && i == p->written_room)
        return IG_HOST_FAIL(host, IG_ERR_MEMORY, "vulkan: %u shaders", i + 1);
    if (is_new) p->written[p->n_written++] = shader;
    *out = VK_SHADER_COUNT + i;
    return IG_OK;
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
        if (!p->at[i]) name = code_of(p, p->keys[i].shader).name;
        d->api.DestroyPipeline(d->handle, p->at[i], NULL);
    }
    p->count = before;
    return VK_FAIL(host, result, "the driver does not compile shader %s", name);
}

/* ---- what is saved ---- */

/* Drivers trust the data of a pipeline cache, so it is verified first. */
typedef struct saved_head {
    char magic[8];
    uint64_t bytes, digest; /* of the driver's data that follows */
} saved_head;

static const char saved_magic[8] = "igvkpipe";

ig_status vk_pipelines_save(vk_device *d, ig_blob *out) {
    vk_pipelines *p = &d->pipelines;
    const ig_host *host = d->base.host;
    size_t bytes = 0;
    VkResult result = d->api.GetPipelineCacheData(d->handle, p->cache, &bytes, NULL);
    if (result != VK_SUCCESS) return VK_FAIL(host, result, "saving pipelines");
    char *saved = host->alloc(host, sizeof(saved_head) + bytes, 1);
    if (!saved) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "vulkan: %zu bytes to save", bytes);
    char *data = saved + sizeof(saved_head);
    result = d->api.GetPipelineCacheData(d->handle, p->cache, &bytes, data);
    if (result != VK_SUCCESS) {
        host->free(host, saved);
        return VK_FAIL(host, result, "saving pipelines");
    }
    saved_head head = {.bytes = bytes, .digest = XXH3_64bits(data, bytes)};
    memcpy(head.magic, saved_magic, sizeof head.magic);
    memcpy(saved, &head, sizeof head);
    host->free(host, p->saved);
    p->saved = saved;
    *out = (ig_blob){saved, sizeof head + bytes};
    return IG_OK;
}

/* Whether the data is complete and of this driver; `data` receives the driver's part. */
static bool is_own(const vk_device *d, ig_blob saved, ig_blob *data) {
    saved_head head;
    VkPipelineCacheHeaderVersionOne own;
    if (saved.size < sizeof head + sizeof own) return false;
    memcpy(&head, saved.bytes, sizeof head);
    *data = (ig_blob){(const char *)saved.bytes + sizeof head, saved.size - sizeof head};
    if (memcmp(head.magic, saved_magic, sizeof head.magic) != 0 || head.bytes != data->size ||
        head.digest != XXH3_64bits(data->bytes, data->size))
        return false;
    memcpy(&own, data->bytes, sizeof own);
    return own.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
           own.vendorID == d->properties.vendorID && own.deviceID == d->properties.deviceID &&
           memcmp(own.pipelineCacheUUID, d->properties.pipelineCacheUUID, VK_UUID_SIZE) == 0;
}

ig_status vk_pipelines_load(vk_device *d, ig_blob saved) {
    ig_blob data;
    VkPipelineCache cache;
    if (!is_own(d, saved, &data))
        return IG_HOST_FAIL(d->base.host, IG_ERR_FORMAT,
                            "vulkan: saved pipelines are damaged, or of another driver");
    const VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                            .initialDataSize = data.size,
                                            .pInitialData = data.bytes};
    VkResult result = d->api.CreatePipelineCache(d->handle, &info, NULL, &cache);
    if (result != VK_SUCCESS) return VK_FAIL(d->base.host, result, "loading pipelines");
    result = d->api.MergePipelineCaches(d->handle, d->pipelines.cache, 1, &cache);
    d->api.DestroyPipelineCache(d->handle, cache, NULL);
    return result == VK_SUCCESS ? IG_OK : VK_FAIL(d->base.host, result, "loading pipelines");
}
