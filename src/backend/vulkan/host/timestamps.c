/*
 * A profiled run: the device writes a timestamp after each launch, and the host converts them to
 * step times.
 *
 * A timestamp is written when all earlier launches are done. Of concurrent launches, the first to
 * end is charged its own time and the others the time they take beyond it. The times sum up to that
 * of the run.
 */
#include "backend/vulkan/program/program.h"
#include "base/clock.h"

bool vk_is_watched(const vk_device *d) {
    const ig_host *host = d->base.host;
    return host->struct_size > offsetof(ig_host, trace) && host->trace && d->tick_bits > 0;
}

ig_status vk_times_create(vk_program *p) {
    vk_device *d = p->device;
    const VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                        .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                        .queryCount = p->n_launches + 1};
    if (p->times) return IG_OK;
    const VkResult result = d->api.CreateQueryPool(d->handle, &info, NULL, &p->times);
    return result == VK_SUCCESS ? IG_OK : VK_FAIL(d->base.host, result, "no clock");
}

/* The device counts ticks from an arbitrary origin; the last tick is now. */
static void tell(const vk_program *p, const uint64_t *ticks) {
    const ig_host *host = p->device->base.host;
    const uint64_t unused = 64 - p->device->tick_bits, end = ticks[p->n_launches] << unused;
    const double ns = (double)p->device->properties.limits.timestampPeriod;
    const uint64_t now = ig_clock_ns();
    for (uint32_t i = 0; i < p->n_launches; i++) {
        const uint64_t before = (end - (ticks[i] << unused)) >> unused;
        const uint64_t after = (end - (ticks[i + 1] << unused)) >> unused;
        host->trace(host, 0, p->launches[i].step, now - (uint64_t)((double)before * ns),
                    now - (uint64_t)((double)after * ns));
    }
}

ig_status vk_run_watched(vk_program *p, vk_recording *r) {
    vk_device *d = p->device;
    const ig_host *host = d->base.host;
    const size_t count = (size_t)p->n_launches + 1;
    uint64_t *ticks = host->alloc(host, count, sizeof *ticks);
    if (!ticks) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "vulkan: %zu times", count);
    ig_status status = vk_submit_recording(p, r);
    if (status == IG_OK) status = vk_wait(d, r->value);
    if (status == IG_OK) {
        const VkResult result = d->api.GetQueryPoolResults(
            d->handle, p->times, 0, (uint32_t)count, count * sizeof *ticks, ticks, sizeof *ticks,
            VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
        if (result != VK_SUCCESS) status = VK_FAIL(host, result, "reading the device's clock");
    }
    if (status == IG_OK) tell(p, ticks);
    host->free(host, ticks);
    return status;
}
