/*
 * The queue. Submissions are numbered and complete in order. A timeline semaphore counts completed
 * ones; without it, a ring of fences.
 */
#include "backend/vulkan/host/vk_device.h"
#include "base/clock.h"

/* ---- how far it has come ---- */

static VkFence fence_of(const vk_device *d, uint64_t value) { return d->fences[value % VK_FENCES]; }

bool vk_is_done(vk_device *d, uint64_t value) {
    if (value <= d->completed) return true;
    if (d->timeline)
        (void)d->api.GetSemaphoreCounterValue(d->handle, d->timeline, &d->completed);
    else
        while (d->completed < d->submitted &&
               d->api.GetFenceStatus(d->handle, fence_of(d, d->completed + 1)) == VK_SUCCESS)
            d->completed++;
    return value <= d->completed;
}

/* Polls for a while. Not on software devices: they need the processors themselves. */
static bool look(vk_device *d, uint64_t value) {
    enum { WHILE_NS = 200000 };
    if (d->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) return vk_is_done(d, value);
    const uint64_t until = ig_clock_ns() + WHILE_NS;
    do
        if (vk_is_done(d, value)) return true;
    while (ig_clock_ns() < until);
    return false;
}

/* VK_TIMEOUT: not done within this time. */
static VkResult sleep_until(vk_device *d, uint64_t value, uint64_t longest_ns) {
    const VkFence fence = fence_of(d, value);
    const VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                      .semaphoreCount = 1,
                                      .pSemaphores = &d->timeline,
                                      .pValues = &value};
    return d->timeline ? d->api.WaitSemaphores(d->handle, &info, longest_ns)
                       : d->api.WaitForFences(d->handle, 1, &fence, VK_TRUE, longest_ns);
}

/* A sleeping thread wakes up late (H200: a small step takes 79 us instead of 63, a token 1.74 ms
 * instead of 1.65), so the host polls first, and again after sleeping for most of the previous
 * wait. */
static VkResult wait_until(vk_device *d, uint64_t value) {
    const uint64_t began = ig_clock_ns(), most = d->waited_ns - d->waited_ns / 8;
    if (look(d, value)) return VK_SUCCESS;
    const uint64_t passed = ig_clock_ns() - began;
    VkResult result = most > passed ? sleep_until(d, value, most - passed) : VK_TIMEOUT;
    if (result == VK_TIMEOUT)
        result = look(d, value) ? VK_SUCCESS : sleep_until(d, value, UINT64_MAX);
    d->waited_ns = ig_clock_ns() - began;
    return result;
}

static ig_status fail(vk_device *d, VkResult result, const char *doing) {
    if (result == VK_ERROR_DEVICE_LOST) d->is_lost = true;
    return VK_FAIL(d->base.host, result, "%s the device", doing);
}

ig_status vk_wait(vk_device *d, uint64_t value) {
    if (value > d->submitted) IG_TRY(vk_submit(d, VK_NULL_HANDLE, VK_NULL_HANDLE));
    if (vk_is_done(d, value)) return IG_OK;
    const VkResult result = wait_until(d, value);
    if (result != VK_SUCCESS) return fail(d, result, "waiting for");
    if (d->completed < value) d->completed = value;
    return IG_OK;
}

/* ---- submitting ---- */

/* The fence of this submission, reset: the ring wraps when the previous use is done. */
static ig_status take_fence(vk_device *d, uint64_t value, VkFence *out) {
    *out = VK_NULL_HANDLE;
    if (d->timeline) return IG_OK;
    if (value > VK_FENCES) IG_TRY(vk_wait(d, value - VK_FENCES));
    *out = fence_of(d, value);
    const VkResult result = d->api.ResetFences(d->handle, 1, out);
    return result == VK_SUCCESS ? IG_OK : VK_FAIL(d->base.host, result, "a fence");
}

ig_status vk_submit(vk_device *d, VkCommandBuffer commands, VkCommandBuffer readback) {
    const uint64_t value = d->submitted + 1;
    VkCommandBuffer all[3], uploads;
    uint32_t count = 0;
    VkFence fence;
    IG_TRY(take_fence(d, value, &fence));
    IG_TRY(vk_uploads_take(d, &uploads));
    if (uploads) all[count++] = uploads;
    if (commands) all[count++] = commands;
    if (readback) all[count++] = readback;
    if (count == 0)
        return IG_HOST_FAIL(d->base.host, IG_ERR_DEVICE, "vulkan: what was to be copied is lost");
    const VkTimelineSemaphoreSubmitInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value};
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .pNext = d->timeline ? &timeline : NULL,
                               .commandBufferCount = count,
                               .pCommandBuffers = all,
                               .signalSemaphoreCount = d->timeline ? 1 : 0,
                               .pSignalSemaphores = &d->timeline};
    const VkResult result = d->api.QueueSubmit(d->queue, 1, &info, fence);
    if (result != VK_SUCCESS) return fail(d, result, "submitting to");
    d->counters.submits++;
    d->submitted = value;
    return IG_OK;
}

/* ---- recordings ---- */

ig_status vk_commands_create(vk_device *d, VkCommandBuffer *out, uint32_t count) {
    const VkCommandBufferAllocateInfo info = {.sType =
                                                  VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                              .commandPool = d->commands,
                                              .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                              .commandBufferCount = count};
    const VkResult result = d->api.AllocateCommandBuffers(d->handle, &info, out);
    return result == VK_SUCCESS ? IG_OK : VK_FAIL(d->base.host, result, "no command buffer");
}

enum {
    DEVICE_STAGES = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
    DEVICE_WRITES = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
    DEVICE_READS = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT,
};

/* Makes earlier writes of the device visible to these stages. */
static void barrier(vk_device *d, VkCommandBuffer commands, VkPipelineStageFlags stages,
                    VkAccessFlags access) {
    const VkMemoryBarrier memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                    .srcAccessMask = DEVICE_WRITES,
                                    .dstAccessMask = access};
    d->api.CmdPipelineBarrier(commands, DEVICE_STAGES, stages, 0, 1, &memory, 0, NULL, 0, NULL);
}

ig_status vk_commands_begin(vk_device *d, VkCommandBuffer commands) {
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    const VkResult result = d->api.BeginCommandBuffer(commands, &info);
    if (result != VK_SUCCESS) return VK_FAIL(d->base.host, result, "recording");
    barrier(d, commands, DEVICE_STAGES, DEVICE_READS | DEVICE_WRITES);
    return IG_OK;
}

ig_status vk_commands_end(vk_device *d, VkCommandBuffer commands) {
    barrier(d, commands, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    const VkResult result = d->api.EndCommandBuffer(commands);
    return result == VK_SUCCESS ? IG_OK : VK_FAIL(d->base.host, result, "recording");
}

/* ---- beginning and end ---- */

static VkResult create_timeline(vk_device *d) {
    const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                            .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                        .pNext = &type};
    return d->api.CreateSemaphore(d->handle, &info, NULL, &d->timeline);
}

static VkResult create_fences(vk_device *d) {
    const VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkResult result = VK_SUCCESS;
    for (int i = 0; i < VK_FENCES && result == VK_SUCCESS; i++)
        result = d->api.CreateFence(d->handle, &info, NULL, &d->fences[i]);
    return result;
}

ig_status vk_queue_init(vk_device *d, uint32_t family) {
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                          .queueFamilyIndex = family};
    d->api.GetDeviceQueue(d->handle, family, 0, &d->queue);
    VkResult result = d->has.timeline ? create_timeline(d) : create_fences(d);
    if (result == VK_SUCCESS)
        result = d->api.CreateCommandPool(d->handle, &pool, NULL, &d->commands);
    return result == VK_SUCCESS ? IG_OK : VK_FAIL(d->base.host, result, "no queue");
}

void vk_queue_deinit(vk_device *d) {
    if (d->commands) d->api.DestroyCommandPool(d->handle, d->commands, NULL);
    if (d->timeline) d->api.DestroySemaphore(d->handle, d->timeline, NULL);
    for (int i = 0; i < VK_FENCES; i++)
        if (d->fences[i]) d->api.DestroyFence(d->handle, d->fences[i], NULL);
}
