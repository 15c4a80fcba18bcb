/*
 * Which backends there are, and how a device string finds one of them.  Adding a
 * backend is one line in the table below.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/device.h"

extern const ig_backend ig_cpu_backend, ig_ref_backend, ig_null_backend, ig_vulkan_backend;

const ig_backend *const ig_backends[] = {&ig_cpu_backend, &ig_ref_backend, &ig_null_backend,
                                         &ig_vulkan_backend};
const uint32_t ig_backend_count = sizeof ig_backends / sizeof ig_backends[0];

/* "cpu ref null" */
static const char *names(ig_backend_list list, char *out, size_t bytes) {
    size_t used = 0;
    for (uint32_t i = 0; i < list.count && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", i ? " " : "", list.at[i]->name);
    return out;
}

static ig_status unknown(ig_backend_list list, const char *name) {
    char text[128];
    return IG_FAIL(IG_ERR_DEVICE, "device %s: there is none; there are: auto %s", name,
                   names(list, text, sizeof text));
}

/* If not, the thread's error says why: in the backend's words, should it have any. */
static bool is_available(const ig_backend *backend, const ig_host *host) {
    if (!backend->is_available) return true;
    (void)IG_FAIL(IG_ERR_DEVICE, "%s is not available", backend->name);
    return backend->is_available(host);
}

/* Cuts "cpu:1" into the backend's name and an index.  "auto" is the first that is available; where
 * none is, the last, so that it says why. */
static ig_status parse(ig_backend_list list, const ig_host *host, const char *name,
                       const ig_backend **out, uint32_t *out_index) {
    const char *colon = strchr(name, ':');
    const size_t length = colon ? (size_t)(colon - name) : strlen(name);
    unsigned long index = 0;
    if (colon) {
        char *end;
        errno = 0;
        index = strtoul(colon + 1, &end, 10);
        if (colon[1] < '0' || colon[1] > '9' || *end || errno || index > UINT32_MAX)
            return IG_FAIL(IG_ERR_DEVICE, "device %s: the part after ':' is a number", name);
    }
    const bool automatic = strcmp(name, "auto") == 0;
    for (uint32_t i = 0; i < list.count; i++) {
        const char *known = list.at[i]->name;
        if (!automatic && (strlen(known) != length || memcmp(known, name, length) != 0)) continue;
        if (automatic && i + 1 < list.count && !is_available(list.at[i], host)) continue;
        *out = list.at[i];
        *out_index = (uint32_t)index;
        return IG_OK;
    }
    return unknown(list, name);
}

static void ask_info(ig_device *device) {
    device->info = (ig_device_info){.struct_size = sizeof device->info,
                                    .device_class = IG_DEVICE_CPU,
                                    .alignment = IG_ALIGNMENT};
    if (device->backend->info) device->backend->info(device->handle, &device->info);
    if (device->info.alignment == 0) device->info.alignment = IG_ALIGNMENT;
}

ig_status ig_device_open(const ig_host *host, const ig_allocator *allocator, const char *name,
                         ig_device **out) {
    const ig_backend_list all = {ig_backends, ig_backend_count};
    return ig_device_open_from(all, host, allocator, name, out);
}

ig_status ig_device_open_from(ig_backend_list list, const ig_host *host,
                              const ig_allocator *allocator, const char *name, ig_device **out) {
    const ig_backend *backend = NULL;
    uint32_t index = 0;
    IG_TRY(parse(list, host, name, &backend, &index));
    if (!is_available(backend, host)) {
        char why[256];
        snprintf(why, sizeof why, "%s", ig_error_text());
        return IG_FAIL(IG_ERR_DEVICE, "device %s: %s", name, why);
    }
    const uint32_t count = backend->count ? backend->count(host) : 1;
    if (index >= count)
        return IG_FAIL(IG_ERR_DEVICE, "device %s: %s has %u, counted from 0", name, backend->name,
                       count);

    ig_device *device = ig_alloc(allocator, 1, sizeof *device);
    if (!device) return IG_FAIL(IG_ERR_MEMORY, "device %s", name);
    device->backend = backend;
    device->allocator = allocator;
    device->plain.host = host;
    device->handle = &device->plain;
    device->host_memory = !backend->buffer_alloc;
    snprintf(device->name, sizeof device->name, "%s:%u", backend->name, index);
    const ig_status status = backend->open ? backend->open(host, index, &device->handle) : IG_OK;
    if (status != IG_OK) {
        ig_free(allocator, device);
        return status;
    }
    ask_info(device);
    *out = device;
    return IG_OK;
}

void ig_device_close(ig_device *device) {
    if (!device) return;
    if (device->backend->close && device->handle != &device->plain)
        device->backend->close(device->handle);
    ig_free(device->allocator, device);
}
