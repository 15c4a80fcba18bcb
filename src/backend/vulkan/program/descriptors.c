#include "backend/vulkan/program/descriptors.h"

#include "backend/vulkan/shaders/shaders.h"

enum { MOST_BYTES_BITS = 32 }; /* of an operand: shaders count bytes in 32 bits */

static_assert(VK_BINDINGS == 2 + VK_WINDOWS, "params, words from slots, windows");
static_assert(VK_WINDOWS >= VK_MAX_REFS, "an operand has one at least");
static_assert(VK_BINDING_BYTES == VK_ALIGNMENT, "what pieces begin at multiples of");

ig_status vk_bindings_create(vk_device *d) {
    static const uint32_t counts[] = {1, 1, VK_WINDOWS};
    VkDescriptorSetLayoutBinding bindings[3];
    for (uint32_t i = 0; i < 3; i++)
        bindings[i] =
            (VkDescriptorSetLayoutBinding){.binding = i,
                                           .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                           .descriptorCount = counts[i],
                                           .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    const VkDescriptorSetLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = 3,
        .pBindings = bindings};
    const VkResult result =
        d->api.CreateDescriptorSetLayout(d->handle, &info, NULL, &d->pipelines.bindings);
    return result == VK_SUCCESS ? IG_OK : VK_FAIL(d->base.host, result, "no bindings");
}

/* ---- windows ---- */

uint64_t vk_window_bytes(const vk_device *d) {
    uint64_t bytes = VK_BINDING_BYTES;
    while (2 * bytes <= d->properties.limits.maxStorageBufferRange) bytes *= 2;
    return bytes;
}

/* The bound size of an operand, from the start of its binding. */
static uint64_t shown_bytes(const vk_ref *r) { return r->offset % VK_BINDING_BYTES + r->bytes; }

static uint64_t windows_of(const vk_device *d, const vk_ref *r) {
    const uint64_t window = vk_window_bytes(d), bytes = shown_bytes(r);
    return bytes > window ? (bytes + window - 1) / window : 1;
}

bool vk_bindings_fit(const vk_device *d, const vk_dispatch *dispatch) {
    uint64_t windows = 0;
    for (uint32_t i = 0; i < dispatch->n_refs; i++) {
        if (shown_bytes(&dispatch->ref[i]) >> MOST_BYTES_BITS) return false;
        windows += windows_of(d, &dispatch->ref[i]);
    }
    return windows <= VK_WINDOWS;
}

bool vk_bindings_split(const vk_device *d, const vk_dispatch *dispatch) {
    for (uint32_t i = 0; i < dispatch->n_refs; i++)
        if (windows_of(d, &dispatch->ref[i]) > 1) return true;
    return false;
}

/* The part of a piece that a window covers. */
static VkDescriptorBufferInfo window_onto(const vk_device *d, const ig_backend_buffer *piece,
                                          uint64_t offset, uint64_t bytes) {
    const uint64_t window = vk_window_bytes(d);
    return (VkDescriptorBufferInfo){piece->block->buffer, piece->offset + offset,
                                    bytes < window ? bytes : window};
}

/* Buffer ranges of all operands of a launch; unused ones bind any valid range. */
static void show(const vk_program *p, const vk_launch *l, ig_backend_buffer *const *buffers,
                 vk_bound_push *push, VkDescriptorBufferInfo *out) {
    const vk_device *d = p->device;
    const uint64_t window = vk_window_bytes(d);
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n_refs; i++) {
        const vk_ref *ref = &p->refs[l->first_ref + i];
        const ig_backend_buffer *piece = buffers[ref->buffer];
        const uint64_t before = ref->offset % VK_BINDING_BYTES, first = ref->offset - before;
        const uint64_t words = (shown_bytes(ref) + 3) & ~UINT64_C(3); /* rounded up to words */
        push->operand[i] = (uint32_t)before | n << 8;
        if (!piece || ref->bytes == 0)
            out[n++] = out[VK_WINDOWS - 1]; /* empty operand */
        else
            for (uint64_t at = 0; at < words; at += window)
                out[n++] = window_onto(d, piece, first + at, words - at);
    }
}

/* ---- a launch ---- */

ig_status vk_bindings_reserve(vk_program *p, vk_recording *r) {
    vk_device *d = p->device;
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                       VK_BINDINGS * p->n_launches};
    const VkDescriptorPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                             .maxSets = p->n_launches,
                                             .poolSizeCount = 1,
                                             .pPoolSizes = &size};
    const VkResult result = r->sets ? d->api.ResetDescriptorPool(d->handle, r->sets, 0)
                                    : d->api.CreateDescriptorPool(d->handle, &info, NULL, &r->sets);
    return result == VK_SUCCESS ? IG_OK
                                : VK_FAIL(d->base.host, result, "%u bindings", p->n_launches);
}

/* The parameters of a launch: with the words of the run if they are dynamic. */
static VkDescriptorBufferInfo params_of(const vk_program *p, const vk_recording *r,
                                        const vk_launch *l) {
    const bool varies = l->varying != UINT32_MAX;
    const ig_backend_buffer *piece = varies ? r->numbers : p->params_piece;
    const uint64_t offset =
        varies ? vk_varying_at(l->varying) * sizeof(uint32_t) : l->params_offset;
    return window_onto(p->device, piece, offset, piece->bytes - offset);
}

static ig_status write_set(const vk_program *p, const vk_recording *r,
                           const VkDescriptorBufferInfo *infos, VkDescriptorSet *out) {
    static const uint32_t first[] = {0, 1, 2}, counts[] = {1, 1, VK_WINDOWS};
    const vk_device *d = p->device;
    const VkDescriptorSetAllocateInfo info = {.sType =
                                                  VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                              .descriptorPool = r->sets,
                                              .descriptorSetCount = 1,
                                              .pSetLayouts = &d->pipelines.bindings};
    VkWriteDescriptorSet writes[3];
    const VkResult result = d->api.AllocateDescriptorSets(d->handle, &info, out);
    if (result != VK_SUCCESS) return VK_FAIL(d->base.host, result, "bindings of a dispatch");
    for (uint32_t i = 0; i < 3; i++)
        writes[i] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                           .dstSet = *out,
                                           .dstBinding = i,
                                           .descriptorCount = counts[i],
                                           .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                           .pBufferInfo = infos + first[i]};
    d->api.UpdateDescriptorSets(d->handle, 3, writes, 0, NULL);
    return IG_OK;
}

ig_status vk_bind(const vk_program *p, vk_recording *r, const vk_launch *l,
                  ig_backend_buffer *const *buffers) {
    const vk_api *api = &p->device->api;
    const VkPipelineLayout layout = p->device->pipelines.layout;
    VkDescriptorBufferInfo infos[VK_BINDINGS];
    VkDescriptorSet set;
    vk_bound_push push = {0};
    for (int i = 0; i < VK_BINDINGS; i++) infos[i] = params_of(p, r, l);
    if (r->numbers) infos[1] = window_onto(p->device, r->numbers, 0, r->numbers->bytes);
    show(p, l, buffers, &push, infos + 2);
    if (l->numbers != UINT32_MAX) push.numbers = (uint32_t)vk_numbers_at(p, l->numbers);
    memcpy(push.head, l->head, sizeof push.head);
    IG_TRY(write_set(p, r, infos, &set));
    api->CmdBindDescriptorSets(r->commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0,
                               NULL);
    api->CmdPushConstants(r->commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, &push);
    return IG_OK;
}
