/* Which devices there are, for those who list them and those who try plugins. */
#include <stdio.h>

#include "ingot/device.h"
#include "runtime/config.h"
#include "runtime/ctx.h"

/* ---- a host for a device that nothing is computed on ---- */

static void host_log(const ig_host *host, ig_log_level level, const char *text) {
    (void)host, (void)level, (void)text;
}

static void *host_alloc(const ig_host *host, size_t count, size_t bytes_each) {
    (void)host;
    return ig_alloc(&ig_heap, count, bytes_each);
}

static void host_free(const ig_host *host, void *p) {
    (void)host;
    ig_free(&ig_heap, p);
}

static bool host_progress(ig_progress *progress, uint64_t done, uint64_t total) {
    (void)progress, (void)done, (void)total;
    return true;
}

static ig_status no_override(ig_backend_device *device, ig_tag tag, ig_compile_fn *compile) {
    (void)device, (void)tag, (void)compile;
    return IG_FAIL(IG_ERR_STATE, "register_override: the device is not open yet: prepare() may");
}

static void team_of_one(const ig_host *host, ig_team_fn *fn, void *task) {
    (void)host;
    fn(task, 0, 1);
}

static void no_barrier(const ig_host *host) { (void)host; }

static const ig_host lone_host = {.abi = IG_BACKEND_ABI,
                                  .struct_size = sizeof(ig_host),
                                  .fail = ig_fail,
                                  .log = host_log,
                                  .alloc = host_alloc,
                                  .free = host_free,
                                  .progress = host_progress,
                                  .register_override = no_override,
                                  .team = team_of_one,
                                  .team_barrier = no_barrier};

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

/* The last failure without the place in the source, which is the library's business. */
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
    if (ig_device_open_at(backend, index, &lone_host, &ig_heap, &device) == IG_OK) {
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
    const bool there = !backend->is_available || backend->is_available(&lone_host);
    if (there) (void)IG_FAIL(IG_ERR_DEVICE, "%s has no device", backend->name);
    const uint32_t count = there ? ig_backend_count(backend, &lone_host) : 0;
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
                            .host = &lone_host,
                            .places = {options->plugins ? options->plugins : config.plugins,
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
    const bool there = !b->is_available || b->is_available(&lone_host);
    const uint32_t count = there ? ig_backend_count(b, &lone_host) : 0;
    const ig_status status =
        count > 0 ? ig_device_open_at(b, 0, &lone_host, &ig_heap, &device) : IG_OK;
    ig_device_close(device);
    ig_plugin_close(&plugin);
    return status;
}
