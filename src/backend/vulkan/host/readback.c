/*
 * Readback: if the host reads the same few bytes of device memory after two runs in a row, later
 * runs copy them to host-visible memory. Reading the loss of every step then costs no extra
 * submission.
 *
 *     run, read   run, read   run + copy, read   run + copy, read   run + copy, run
 *                  second time: start                                not read: stop
 */
#include "backend/vulkan/host/vk_device.h"

static bool is_of(const vk_echo *e, const ig_backend_buffer *src, uint64_t offset, uint64_t bytes) {
    return e->of == src && e->offset == offset && e->bytes == bytes;
}

void vk_echo_forget(vk_device *d, const ig_backend_buffer *piece) {
    if (d->echo.of == piece) d->echo.of = NULL;
}

ig_status vk_echo_learn(vk_device *d, const ig_backend_buffer *src, uint64_t offset,
                        uint64_t bytes) {
    vk_echo *e = &d->echo;
    const bool again = is_of(e, src, offset, bytes);
    if (!again) *e = (vk_echo){.commands = e->commands, .value = e->value};
    e->of = src;
    e->offset = offset;
    e->bytes = bytes;
    if (again) e->heard = true;
    if (!again || e->recorded) return IG_OK;
    const VkBufferCopy region = {
        .srcOffset = src->offset + offset, .dstOffset = d->staging.echo->offset, .size = bytes};
    IG_TRY(vk_wait(d, e->value));
    e->value = 0; /* nothing has been copied yet */
    if (!e->commands) IG_TRY(vk_commands_create(d, &e->commands, 1));
    IG_TRY(vk_commands_begin(d, e->commands));
    d->api.CmdCopyBuffer(e->commands, src->block->buffer, d->staging.echo->block->buffer, 1,
                         &region);
    IG_TRY(vk_commands_end(d, e->commands));
    e->recorded = true;
    return IG_OK;
}

VkCommandBuffer vk_echo_take(vk_device *d) {
    vk_echo *e = &d->echo;
    if (!e->of || !e->recorded) return VK_NULL_HANDLE;
    if (!e->heard) e->of = NULL;
    e->heard = false;
    return e->of ? e->commands : VK_NULL_HANDLE;
}

bool vk_echo_has(const vk_device *d, const ig_backend_buffer *src, uint64_t offset,
                 uint64_t bytes) {
    const vk_echo *e = &d->echo;
    return e->recorded && is_of(e, src, offset, bytes) && e->value > 0 && e->value >= src->last_use;
}

ig_status vk_echo_read(vk_device *d, void *dst) {
    IG_TRY(vk_wait(d, d->echo.value));
    memcpy(dst, vk_piece_mapped(d->staging.echo), d->echo.bytes);
    d->echo.heard = true;
    return IG_OK;
}
