/*
 * From dispatches to a command buffer.  A barrier goes in only where a dispatch
 * touches bytes that one since the last barrier wrote, or writes bytes that one
 * read; what the steps of a level do side by side stays side by side.
 */
#include "backend/vulkan/program.h"
#include "backend/vulkan/shaders.h"

static VkDeviceAddress address_of(const vk_recording *r, const vk_ref *ref) {
    const VkDeviceAddress buffer = r->bound[ref->buffer];
    return buffer ? buffer + ref->offset : 0; /* of no elements, there may be no buffer */
}

static bool clash(const vk_recording *r, const vk_ref *a, const vk_ref *b) {
    if (!a->writes && !b->writes) return false;
    const VkDeviceAddress x = address_of(r, a), y = address_of(r, b);
    return x < y + b->bytes && y < x + a->bytes;
}

/* Whether the launch must wait for one of [first, launch). */
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

static void launch(const vk_program *p, const vk_recording *r, const vk_launch *l) {
    const vk_api *api = &p->device->api;
    vk_push push = {.params = vk_piece_address(p->params_piece) + l->params_offset};
    memcpy(push.head, l->head, sizeof push.head);
    for (uint32_t i = 0; i < l->n_refs; i++) push.at[i] = address_of(r, &p->refs[l->first_ref + i]);
    if (l->numbers != UINT32_MAX)
        push.numbers =
            vk_piece_address(r->numbers) + (uint64_t)l->numbers * VK_NUMBERS * sizeof(uint32_t);
    const uint64_t words =
        l->varying != UINT32_MAX ? vk_varying_at(p, l->varying) * sizeof(uint32_t) : 0;
    if (l->varying != UINT32_MAX)
        push.params = vk_piece_address(r->numbers) + words + VK_VARYING_HEAD * sizeof(uint32_t);
    api->CmdPushConstants(r->commands, p->device->pipelines.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                          sizeof push, &push);
    if (l->varying != UINT32_MAX)
        api->CmdDispatchIndirect(r->commands, r->numbers->block->buffer,
                                 r->numbers->offset + words);
    else
        api->CmdDispatch(r->commands, l->groups[0], l->groups[1], l->groups[2]);
}

static void note_time(const vk_program *p, const vk_recording *r, VkQueryPool times, uint32_t i) {
    if (times)
        p->device->api.CmdWriteTimestamp(r->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, times,
                                         i);
}

ig_status vk_submit_recording(vk_program *p, vk_recording *r) {
    vk_device *d = p->device;
    IG_TRY(vk_submit(d, r->commands));
    r->value = d->submitted;
    d->counters.dispatches += p->n_launches;
    d->counters.barriers += r->barriers;
    return IG_OK;
}

ig_status vk_record(vk_program *p, vk_recording *r, VkQueryPool times) {
    vk_device *d = p->device;
    VkPipeline bound = VK_NULL_HANDLE;
    uint32_t since = 0; /* the first launch after the last barrier */
    r->barriers = 0;
    d->counters.recordings++;
    IG_TRY(vk_commands_begin(d, r->commands));
    if (times) d->api.CmdResetQueryPool(r->commands, times, 0, p->n_launches + 1);
    note_time(p, r, times, 0);
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
        launch(p, r, l);
        note_time(p, r, times, i + 1);
    }
    return vk_commands_end(d, r->commands);
}
