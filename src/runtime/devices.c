/* Lists devices and probes plugins. */
#include <stdio.h>
#include <string.h>

#include "backend/standalone_host.h"
#include "base/alloc.h"
#include "ingot/device.h"
#include "plan/plan.h"
#include "runtime/config.h"

/* ---- listing ---- */

typedef struct listing {
    ig_device_entry_fn *fn;
    void *user;
    const ig_plugins *plugins;
} listing;

static const char *plugin_of(const listing *l, const ig_backend *backend) {
    for (size_t i = 0; i < l->plugins->count; i++)
        if (&l->plugins->at[i]->backend == backend) return l->plugins->at[i]->path;
    return "";
}

/* The last failure without its source location, which is internal to the library. */
static const char *reason_of(char out[IG_REASON_BYTES]) {
    snprintf(out, IG_REASON_BYTES, "%s", ig_error_text());
    char *place = strrchr(out, '(');
    if (place && place > out && strstr(place, ".c:")) place[-1] = '\0';
    return out;
}

static void list_device(const listing *l, const ig_backend *backend, uint32_t index) {
    char name[64], reason[IG_REASON_BYTES] = "";
    snprintf(name, sizeof name, "%s:%u", backend->name, index);
    ig_device_entry entry = {.name = name,
                             .backend = backend->name,
                             .version = backend->version,
                             .plugin = plugin_of(l, backend),
                             .reason = reason};
    ig_device *device = NULL;
    if (ig_device_open_at(backend, index, &ig_standalone_host, &ig_heap, &device) == IG_OK) {
        entry.available = true;
        entry.info = device->info;
    } else {
        reason_of(reason);
    }
    l->fn(l->user, &entry);
    ig_device_close(device);
}

static void list_backend(const listing *l, const ig_backend *backend) {
    char reason[IG_REASON_BYTES];
    (void)IG_FAIL(IG_ERR_DEVICE, "%s is not available", backend->name);
    const bool there = !backend->is_available || backend->is_available(&ig_standalone_host);
    if (there) (void)IG_FAIL(IG_ERR_DEVICE, "%s has no device", backend->name);
    const uint32_t count = there ? ig_backend_count(backend, &ig_standalone_host) : 0;
    for (uint32_t i = 0; i < count; i++) list_device(l, backend, i);
    if (count > 0) return;
    l->fn(l->user, &(ig_device_entry){.name = backend->name,
                                      .backend = backend->name,
                                      .version = backend->version,
                                      .plugin = plugin_of(l, backend),
                                      .reason = reason_of(reason)});
}

static void list_skipped(const listing *l) {
    for (size_t i = 0; i < l->plugins->count; i++) {
        const ig_plugin *p = l->plugins->at[i];
        const char *slash = strrchr(p->path, '/');
        if (!p->reason[0]) continue;
        l->fn(l->user, &(ig_device_entry){.name = slash ? slash + 1 : p->path,
                                          .backend = "",
                                          .version = "",
                                          .plugin = p->path,
                                          .reason = p->reason});
    }
}

ig_status ig_devices_each(const ig_ctx_options *options, ig_device_entry_fn *fn, void *user) {
    static const ig_ctx_options defaults;
    if (!fn) return IG_FAIL(IG_ERR_ARGUMENT, "devices_each: NULL");
    if (!options) options = &defaults;
    const ig_allocator *a = options->allocator.alloc ? &options->allocator : &ig_heap;
    ig_config config;
    IG_TRY(ig_config_read(a, &config));
    ig_registry registry = {.allocator = a,
                            .host = &ig_standalone_host,
                            .places = {ig_config_settle(&config, options).plugins,
                                       options->accept_plugin, options->user,
                                       options->isolate_plugins}};
    ig_backend_list list;
    const ig_status status = ig_registry_list(&registry, &list);
    const listing l = {fn, user, &registry.plugins};
    for (uint32_t i = 0; status == IG_OK && i < list.count; i++) list_backend(&l, list.at[i]);
    if (status == IG_OK) list_skipped(&l);
    ig_registry_deinit(&registry);
    ig_config_deinit(a, &config);
    return status;
}

ig_status ig_plugin_probe(const char *path) {
    ig_plugin plugin = {0};
    ig_device *device = NULL;
    if (!path) return IG_FAIL(IG_ERR_ARGUMENT, "plugin_probe: NULL");
    IG_TRY(ig_plugin_open(path, &plugin));
    const ig_backend *b = &plugin.backend;
    const bool there = !b->is_available || b->is_available(&ig_standalone_host);
    const uint32_t count = there ? ig_backend_count(b, &ig_standalone_host) : 0;
    const ig_status status =
        count > 0 ? ig_device_open_at(b, 0, &ig_standalone_host, &ig_heap, &device) : IG_OK;
    ig_device_close(device);
    ig_plugin_close(&plugin);
    return status;
}
