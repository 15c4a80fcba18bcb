/*
 * Checks before loading a model that the device can run it: the dtypes of its weights, and memory
 * for them. A device that cannot would run little of the model or fail half way, so the CPU takes
 * over at once, and the timeline gives the reason.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ingot/device.h"
#include "runtime/ctx_devices.h"
#include "runtime/ctx_host.h"

/* Writes why the device cannot run the model; "": it can. A device that lists no dtypes or no
 * memory size is not checked for them. Devices in host memory read weights in place. */
static void explain(const ig_device *device, const ig_needs *needs, char out[IG_REASON_BYTES]) {
    const ig_device_info *info = &device->info;
    const uint64_t missing = info->dtypes ? needs->dtypes & ~info->dtypes : 0;
    out[0] = '\0';
    for (uint32_t d = 0; d < IG_DTYPE_COUNT && !out[0]; d++)
        if (missing >> d & 1)
            snprintf(out, IG_REASON_BYTES, "%s has no kernels for %s weights", device->name,
                     ig_dtype_name((ig_dtype)d));
    if (!out[0] && !device->host_memory && info->memory_bytes && needs->bytes > info->memory_bytes)
        snprintf(out, IG_REASON_BYTES, "%s has %llu bytes of memory, and the weights take %llu",
                 device->name, (unsigned long long)info->memory_bytes,
                 (unsigned long long)needs->bytes);
}

static ig_refusal *refusal_of(const ig_ctx *ctx, const ig_device *device, const ig_needs *needs,
                              const char *reason) {
    static const char *const levels[IG_ATTEMPTS] = {"compile", "kernel_override", "eager"};
    const bool offered[IG_ATTEMPTS] = {(device->info.flags & IG_CAN_COMPILE) != 0, false,
                                       !(device->info.flags & IG_NO_EAGER)};
    ig_refusal *r = ig_alloc(ig_ctx_allocator(ctx), 1, sizeof *r);
    if (!r) return NULL;
    snprintf(r->module, sizeof r->module, "%s", needs->module);
    snprintf(r->device, sizeof r->device, "%s", device->name);
    for (int i = 0; i < IG_ATTEMPTS; i++) {
        r->attempts[i].level = levels[i];
        snprintf(r->attempts[i].reason, sizeof r->attempts[i].reason, "%s",
                 offered[i] ? reason
                 : i == 1   ? "no override registered"
                            : "not offered");
    }
    return r;
}

ig_status ig_ctx_require(ig_ctx *ctx, const ig_needs *needs) {
    char reason[IG_REASON_BYTES];
    if (!ctx || !needs || !needs->module) return IG_FAIL(IG_ERR_ARGUMENT, "ctx_require: NULL");
    ig_devices *d = ig_ctx_devices(ctx);
    const ig_device *device = d->planner.devices[0];
    explain(device, needs, reason);
    if (!reason[0]) return IG_OK;
    if (d->planner.strict) return IG_FAIL(IG_ERR_UNSUPPORTED, "strict: %s", reason);
    ig_refusal *r = refusal_of(ctx, device, needs, reason);
    if (!r) return IG_FAIL(IG_ERR_MEMORY, "ctx_require: a refusal");
    const ig_status status = ig_switch_device(ctx, "cpu");
    ig_free(ig_ctx_allocator(ctx), status == IG_OK ? d->refused : r);
    if (status == IG_OK) d->refused = r;
    return status;
}
