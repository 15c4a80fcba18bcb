/*
 * The list of backends, and finding a device by name. A built-in backend is a row in backends.def;
 * a plugin needs none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/device.h"
#include "backend/plugin/isolate.h"
#include "base/text_out.h"
#include "ingot/device.h"

#define IG_BACKEND(name) extern const ig_backend ig_##name##_backend;
#include "backend/backends.def"

enum { MOST_DEVICES = 256 }; /* limit per backend: a plugin may return any number */
enum { SKIPPED_BYTES = 400 };

static const ig_backend *const backends[] = {
#define IG_BACKEND(name) &ig_##name##_backend,
#include "backend/backends.def"
};
static const ig_backend_list built_in = {backends, sizeof backends / sizeof backends[0]};

const char *ig_backend_name(size_t i) { return i < built_in.count ? built_in.at[i]->name : NULL; }

const char *ig_backend_version(size_t i) {
    return i < built_in.count ? built_in.at[i]->version : NULL;
}

/* "auto cpu vulkan ref null" */
static const char *names(ig_backend_list list, char *out, size_t bytes) {
    size_t used = (size_t)snprintf(out, bytes, "auto");
    for (uint32_t i = 0; i < list.count && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, " %s", list.at[i]->name);
    return out;
}

static ig_status unknown(ig_backend_list list, const char *name) {
    char text[256];
    return IG_FAIL(IG_ERR_DEVICE, "device %s: no such device; known: %s", name,
                   names(list, text, sizeof text));
}

/* If not, the thread's error has the reason, from the backend if it gives one. */
static bool is_available(const ig_backend *backend, const ig_host *host) {
    if (!backend->is_available) return true;
    (void)IG_FAIL(IG_ERR_DEVICE, "%s is not available", backend->name);
    return backend->is_available(host);
}

uint32_t ig_backend_count(const ig_backend *backend, const ig_host *host) {
    const ig_isolated *isolated = ig_isolated_of(backend);
    const uint32_t count = isolated ? isolated->count : backend->count ? backend->count(host) : 1;
    if (count <= MOST_DEVICES) return count;
    (void)IG_FAIL(IG_ERR_DEVICE, "%s: count() says %u devices", backend->name, count);
    return 0;
}

/* ---- device strings ---- */

/* "vulkan:1": a name and an index (default 0). */
typedef struct wish {
    const char *text;
    size_t word; /* length */
    uint32_t index;
} wish;

static bool is_word(const wish *w, const char *word) {
    return strlen(word) == w->word && memcmp(w->text, word, w->word) == 0;
}

static ig_status parse(const char *name, wish *out) {
    const char *colon = strchr(name, ':');
    unsigned long index = 0;
    if (colon) {
        char *end;
        errno = 0;
        index = strtoul(colon + 1, &end, 10);
        if (colon[1] < '0' || colon[1] > '9' || *end || errno || index > UINT32_MAX)
            return IG_FAIL(IG_ERR_DEVICE, "device %s: expected a device index after ':'", name);
    }
    *out = (wish){name, colon ? (size_t)(colon - name) : strlen(name), (uint32_t)index};
    return IG_OK;
}

/* "auto" is the first available backend; if none is, the last one, for its error message. */
static const ig_backend *find(ig_backend_list list, const ig_host *host, const wish *w) {
    const bool automatic = strcmp(w->text, "auto") == 0;
    for (uint32_t i = 0; i < list.count; i++) {
        if (!automatic && !is_word(w, list.at[i]->name)) continue;
        if (automatic && i + 1 < list.count && !is_available(list.at[i], host)) continue;
        return list.at[i];
    }
    return NULL;
}

bool ig_device_is_listed(ig_backend_list list, const char *name) {
    wish w = {0};
    if (strcmp(name, "auto") == 0) return true;
    for (uint32_t i = 0; parse(name, &w) == IG_OK && i < list.count; i++)
        if (is_word(&w, list.at[i]->name)) return true;
    return false;
}

/* ---- opening ---- */

static void ask_info(ig_device *device) {
    device->info = (ig_device_info){.struct_size = sizeof device->info,
                                    .device_class = IG_DEVICE_CPU,
                                    .alignment = IG_ALIGNMENT};
    if (device->backend->info)
        device->backend->info(device->handle, &device->info);
    else
        device->info.flags = IG_CAN_COMPILE; /* compile() is the only function it has */
    if (device->info.alignment == 0) device->info.alignment = IG_ALIGNMENT;
    device->info.name[sizeof device->info.name - 1] = '\0'; /* a plugin may not terminate it */
    device->info.architecture[sizeof device->info.architecture - 1] = '\0';
}

ig_status ig_device_open_at(const ig_backend *backend, uint32_t index, const ig_host *host,
                            const ig_allocator *allocator, ig_device **out) {
    ig_device *device = ig_alloc(allocator, 1, sizeof *device);
    if (!device) return IG_FAIL(IG_ERR_MEMORY, "device %s:%u", backend->name, index);
    device->backend = backend;
    device->allocator = allocator;
    device->plain.host = host;
    device->handle = &device->plain;
    device->host_memory = !backend->buffer_alloc;
    snprintf(device->name, sizeof device->name, "%s:%u", backend->name, index);
    const ig_isolated *isolated = ig_isolated_of(backend);
    ig_status status = IG_OK;
    if (isolated)
        status = ig_isolated_open(isolated, host, index, &device->handle);
    else if (backend->open)
        status = backend->open(host, index, &device->handle);
    if ((unsigned)status >= IG_STATUS_COUNT)
        status = IG_FAIL(IG_ERR_DEVICE, "%s: open() gave status %d", device->name, (int)status);
    if (status == IG_OK && !device->handle)
        status = IG_FAIL(IG_ERR_DEVICE, "%s: open() gave no device", device->name);
    if (status != IG_OK) {
        ig_free(allocator, device);
        return status;
    }
    ask_info(device);
    const uint32_t alignment = device->info.alignment;
    if ((device->info.flags & (IG_CAN_COMPILE | IG_NO_EAGER)) == IG_NO_EAGER) {
        ig_device_close(device);
        return IG_FAIL(IG_ERR_DEVICE, "%s:%u: info() has IG_NO_EAGER without IG_CAN_COMPILE",
                       backend->name, index);
    }
    if (alignment > IG_ALIGNMENT || (alignment & (alignment - 1)) != 0) {
        ig_device_close(device);
        return IG_FAIL(IG_ERR_DEVICE,
                       "%s:%u: buffer offsets are multiples of %d; info() requires %u",
                       backend->name, index, IG_ALIGNMENT, alignment);
    }
    *out = device;
    return IG_OK;
}

/* Device `index` of a class, counted over all backends. */
static ig_status open_of_class(ig_backend_list list, const ig_host *host,
                               const ig_allocator *allocator, const wish *w, ig_device **out) {
    const uint32_t wanted = is_word(w, "gpu") ? IG_DEVICE_GPU : IG_DEVICE_NPU;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < list.count; i++) {
        const uint32_t count =
            is_available(list.at[i], host) ? ig_backend_count(list.at[i], host) : 0;
        for (uint32_t j = 0; j < count; j++) {
            ig_device *device = NULL;
            const ig_status status = ig_device_open_at(list.at[i], j, host, allocator, &device);
            if (status == IG_ERR_MEMORY) return status;
            if (status != IG_OK) break; /* this backend's devices cannot be counted */
            if (device->info.device_class == wanted && seen++ == w->index) {
                *out = device;
                return IG_OK;
            }
            ig_device_close(device);
        }
    }
    if (seen == 0) return unknown(list, w->text);
    return IG_FAIL(IG_ERR_DEVICE, "device %s: of that class there are %u, counted from 0", w->text,
                   seen);
}

ig_status ig_device_open_from(ig_backend_list list, const ig_host *host,
                              const ig_allocator *allocator, const char *name, ig_device **out) {
    wish w = {0};
    IG_TRY(parse(name, &w));
    const ig_backend *backend = find(list, host, &w);
    if (!backend && (is_word(&w, "gpu") || is_word(&w, "npu")))
        return open_of_class(list, host, allocator, &w, out);
    if (!backend) return unknown(list, name);
    if (!is_available(backend, host)) {
        char why[256];
        snprintf(why, sizeof why, "%s", ig_error_text());
        return IG_FAIL(IG_ERR_DEVICE, "device %s: %s", name, why);
    }
    (void)IG_FAIL(IG_ERR_DEVICE, "%s has no device", backend->name);
    const uint32_t count = ig_backend_count(backend, host);
    if (count == 0) return IG_FAIL(IG_ERR_DEVICE, "device %s: %s", name, ig_error_text());
    if (w.index >= count)
        return IG_FAIL(IG_ERR_DEVICE, "device %s: %s has %u, counted from 0", name, backend->name,
                       count);
    return ig_device_open_at(backend, w.index, host, allocator, out);
}

ig_status ig_device_open(const ig_host *host, const ig_allocator *allocator, const char *name,
                         ig_device **out) {
    return ig_device_open_from(built_in, host, allocator, name, out);
}

void ig_device_close(ig_device *device) {
    if (!device) return;
    if (device->backend->close && device->handle != &device->plain)
        device->backend->close(device->handle);
    ig_free(device->allocator, device);
}

/* ---- the registry of a context ---- */

/* Appends plugins whose names are not taken to the built-in backends. */
static ig_status load_plugins(ig_registry *r) {
    if (r->loaded) return IG_OK;
    IG_TRY(ig_plugins_load(&r->plugins, r->allocator, r->places));
    if (!IG_GROW(r->allocator, r->all, &r->room, built_in.count + r->plugins.count))
        return IG_FAIL(IG_ERR_MEMORY, "registry: %zu plugins", r->plugins.count);
    for (uint32_t i = 0; i < built_in.count; i++) r->all[r->count++] = built_in.at[i];
    for (size_t i = 0; i < r->plugins.count; i++) {
        ig_plugin *p = r->plugins.at[i];
        if (p->reason[0]) continue;
        if (ig_device_is_listed(built_in, p->backend.name))
            snprintf(p->reason, sizeof p->reason, "the name %s is taken by what is built in",
                     p->backend.name);
        else
            r->all[r->count++] = &p->backend;
    }
    r->loaded = true;
    return IG_OK;
}

ig_status ig_registry_list(ig_registry *r, ig_backend_list *out) {
    IG_TRY(load_plugins(r));
    *out = (ig_backend_list){r->all, (uint32_t)r->count};
    return IG_OK;
}

/* Appends to the thread's error why plugins were skipped: the requested device may be one of
 * theirs. */
static ig_status add_skipped(const ig_registry *r) {
    char words[SKIPPED_BYTES], error[SKIPPED_BYTES];
    ig_text t = ig_text_begin(words, sizeof words);
    for (size_t i = 0; i < r->plugins.count; i++) {
        const ig_plugin *p = r->plugins.at[i];
        const char *slash = strrchr(p->path, '/');
        if (p->reason[0])
            ig_text_add(&t, "; %s is not loaded: %s", slash ? slash + 1 : p->path, p->reason);
    }
    if (t.used == 0) return IG_ERR_DEVICE;
    snprintf(error, sizeof error, "%s", ig_error_text());
    char *place = strrchr(error, '(');
    if (place && place > error && strstr(place, ".c:")) place[-1] = '\0';
    return IG_FAIL(IG_ERR_DEVICE, "%s%s", error, words);
}

ig_status ig_registry_open(ig_registry *r, const char *name, ig_device **out) {
    if (ig_device_is_listed(built_in, name))
        return ig_device_open_from(built_in, r->host, r->allocator, name, out);
    ig_backend_list list;
    IG_TRY(ig_registry_list(r, &list));
    const ig_status status = ig_device_open_from(list, r->host, r->allocator, name, out);
    return status == IG_ERR_DEVICE && !ig_device_is_listed(list, name) ? add_skipped(r) : status;
}

void ig_registry_deinit(ig_registry *r) {
    ig_plugins_deinit(&r->plugins);
    if (r->allocator) ig_free(r->allocator, (void *)r->all);
    *r = (ig_registry){0};
}
