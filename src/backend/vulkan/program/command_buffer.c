/*
 * Records dispatches into a command buffer. A barrier is inserted only where a dispatch touches
 * bytes written since the last barrier, or writes bytes read since then; independent steps of a
 * level overlap.
 */
#include "backend/vulkan/program/descriptors.h"
#include "backend/vulkan/shaders/shaders.h"

static VkDeviceAddress address_of(const vk_recording *r, const vk_ref *ref) {
    const VkDeviceAddress buffer = r->bound[ref->buffer];
    return buffer ? buffer + ref->offset : 0; /* empty operands may have no buffer */
}

static bool clash(const vk_recording *r, const vk_ref *a, const vk_ref *b) {
    if (!a->writes && !b->writes) return false;
    const VkDeviceAddress x = address_of(r, a), y = address_of(r, b);
    return x < y + b->bytes && y < x + a->bytes;
}

/* Whether the launch depends on one of [first, launch). */
static bool must_wait(const vk_program *p, const vk_recording *r, uint32_t first, uint32_t launch) {
    const vk_launch *own = &p->launches[launch];
    const vk_ref *mine = &p->refs[own->first_ref];
    const vk_ref *begin = &p->refs[p->launches[first].first_ref];
    for (const vk_ref *other = begin; other < mine; other++)
        for (uint32_t i = 0; i < own->n_refs; i++)
            if (clash(r, &mine[i], other)) return true;
    return false;
}

static void barrier(vk_device *d, VkCommandBuffer commands) {
    const VkMemoryBarrier memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                    .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                                    .dstAccessMask =
                                        VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
    d->api.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                              VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &memory, 0, NULL, 0,
                              NULL);
}

/* Pushes the addresses and parameters of a launch. */
static void hand_over(const vk_program *p, const vk_recording *r, const vk_launch *l) {
    const vk_api *api = &p->device->api;
    vk_push push = {.params = vk_piece_address(p->params_piece) + l->params_offset};
    memcpy(push.head, l->head, sizeof push.head);
    for (uint32_t i = 0; i < l->n_refs; i++) push.at[i] = address_of(r, &p->refs[l->first_ref + i]);
    if (l->numbers != UINT32_MAX)
        push.numbers =
            vk_piece_address(r->numbers) + vk_numbers_at(p, l->numbers) * sizeof(uint32_t);
    if (l->varying != UINT32_MAX)
        push.params = vk_piece_address(r->numbers) + vk_varying_at(l->varying) * sizeof(uint32_t);
    api->CmdPushConstants(r->commands, p->device->pipelines.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                          sizeof push, &push);
}

static ig_status launch(const vk_program *p, vk_recording *r, const vk_launch *l,
                        ig_backend_buffer *const *buffers) {
    const vk_api *api = &p->device->api;
    if (p->device->has.addresses)
        hand_over(p, r, l);
    else
        IG_TRY(vk_bind(p, r, l, buffers));
    if (l->varying == UINT32_MAX)
        api->CmdDispatch(r->commands, l->groups[0], l->groups[1], l->groups[2]);
    else
        api->CmdDispatchIndirect(r->commands, r->numbers->block->buffer,
                                 r->numbers->offset +
                                     (vk_varying_at(l->varying) + VK_VARYING_GROUPS) *
                                         sizeof(uint32_t));
    return IG_OK;
}

static void note_time(const vk_program *p, const vk_recording *r, VkQueryPool times, uint32_t i) {
    if (times)
        p->device->api.CmdWriteTimestamp(r->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, times,
                                         i);
}

ig_status vk_submit_recording(vk_program *p, vk_recording *r) {
    vk_device *d = p->device;
    const VkCommandBuffer readback = vk_readback_take(d);
    IG_TRY(vk_submit(d, r->commands, readback));
    r->value = d->submitted;
    if (readback) d->readback.value = d->submitted;
    d->counters.dispatches += p->n_launches;
    d->counters.barriers += r->barriers;
    return IG_OK;
}

static ig_status record_launches(vk_program *p, vk_recording *r, ig_backend_buffer *const *buffers,
                                 VkQueryPool times) {
    vk_device *d = p->device;
    VkPipeline bound = VK_NULL_HANDLE;
    uint32_t since = 0; /* the first launch after the last barrier */
    for (uint32_t i = 0; i < p->n_launches; i++) {
        const vk_launch *l = &p->launches[i];
        if (must_wait(p, r, since, i)) {
            barrier(d, r->commands);
            r->barriers++;
            since = i;
        }
        if (l->pipeline != bound)
            d->api.CmdBindPipeline(r->commands, VK_PIPELINE_BIND_POINT_COMPUTE, l->pipeline);
        bound = l->pipeline;
        IG_TRY(launch(p, r, l, buffers));
        note_time(p, r, times, i + 1);
    }
    return IG_OK;
}

ig_status vk_record(vk_program *p, vk_recording *r, ig_backend_buffer *const *buffers,
                    VkQueryPool times) {
    vk_device *d = p->device;
    r->barriers = 0;
    d->counters.recordings++;
    if (!d->has.addresses) IG_TRY(vk_bindings_reserve(p, r));
    IG_TRY(vk_commands_begin(d, r->commands));
    if (times) d->api.CmdResetQueryPool(r->commands, times, 0, p->n_launches + 1);
    note_time(p, r, times, 0);
    const ig_status status = record_launches(p, r, buffers, times);
    const ig_status ended = vk_commands_end(d, r->commands); /* also when it is not submitted */
    return status != IG_OK ? status : ended;
}
