/*
 * Readback: if the host reads the same few bytes of device memory after two runs in a row, later
 * runs copy them to host-visible memory. Reading the loss of every step then costs no extra
 * submission.
 *
 *     run, read   run, read   run + copy, read   run + copy, read   run + copy, run
 *                  second time: start                                not read: stop
 */
#include "backend/vulkan/host/vk_device.h"

static bool is_of(const vk_readback *r, const ig_backend_buffer *src, uint64_t offset,
                  uint64_t bytes) {
    return r->of == src && r->offset == offset && r->bytes == bytes;
}

void vk_readback_forget(vk_device *d, const ig_backend_buffer *piece) {
    if (d->readback.of == piece) d->readback.of = NULL;
}

ig_status vk_readback_learn(vk_device *d, const ig_backend_buffer *src, uint64_t offset,
                            uint64_t bytes) {
    vk_readback *r = &d->readback;
    const bool again = is_of(r, src, offset, bytes);
    if (!again) *r = (vk_readback){.commands = r->commands, .value = r->value};
    r->of = src;
    r->offset = offset;
    r->bytes = bytes;
    if (again) r->is_used = true;
    if (!again || r->recorded) return IG_OK;
    const VkBufferCopy region = {
        .srcOffset = src->offset + offset, .dstOffset = d->staging.readback->offset, .size = bytes};
    IG_TRY(vk_wait(d, r->value));
    r->value = 0; /* nothing has been copied yet */
    if (!r->commands) IG_TRY(vk_commands_create(d, &r->commands, 1));
    IG_TRY(vk_commands_begin(d, r->commands));
    d->api.CmdCopyBuffer(r->commands, src->block->buffer, d->staging.readback->block->buffer, 1,
                         &region);
    IG_TRY(vk_commands_end(d, r->commands));
    r->recorded = true;
    return IG_OK;
}

VkCommandBuffer vk_readback_take(vk_device *d) {
    vk_readback *r = &d->readback;
    if (!r->of || !r->recorded) return VK_NULL_HANDLE;
    if (!r->is_used) r->of = NULL;
    r->is_used = false;
    return r->of ? r->commands : VK_NULL_HANDLE;
}

bool vk_readback_has(const vk_device *d, const ig_backend_buffer *src, uint64_t offset,
                     uint64_t bytes) {
    const vk_readback *r = &d->readback;
    return r->recorded && is_of(r, src, offset, bytes) && r->value > 0 && r->value >= src->last_use;
}

ig_status vk_readback_get(vk_device *d, void *dst) {
    IG_TRY(vk_wait(d, d->readback.value));
    memcpy(dst, vk_piece_mapped(d->staging.readback), d->readback.bytes);
    d->readback.is_used = true;
    return IG_OK;
}
