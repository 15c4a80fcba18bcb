/* Opens, retires and closes the devices of a context. */
#include "runtime/ctx_devices.h"

#include <string.h>

#include "base/alloc.h"

/* A device that fails its numeric check is used only if it is named explicitly. */
static ig_status check_numbers(ig_device *device, ig_devices_wish wish) {
    const size_t length = strcspn(wish.name, ":");
    const char *backend = device->backend->name;
    const bool named = strlen(backend) == length && memcmp(backend, wish.name, length) == 0;
    if (wish.unsafe && named) return IG_OK;
    return ig_device_self_test(device);
}

ig_status ig_devices_open(ig_devices *d, ig_devices_wish wish, ig_planner *p) {
    static const char *const fallbacks[] = {"cpu", "ref"};
    const ig_registry *r = &d->registry;
    IG_TRY(ig_registry_open(&d->registry, wish.name, &p->devices[0]));
    p->n_devices = 1;
    IG_TRY(check_numbers(p->devices[0], wish));
    for (size_t i = 0; i < sizeof fallbacks / sizeof fallbacks[0]; i++) {
        if (strcmp(p->devices[0]->backend->name, fallbacks[i]) == 0) continue;
        const ig_status status =
            ig_device_open(r->host, r->allocator, fallbacks[i], &p->devices[p->n_devices]);
        if (status == IG_OK)
            p->n_devices++;
        else if (status == IG_ERR_MEMORY)
            return status;
    }
    for (uint32_t i = 0; i < p->n_devices; i++) p->devices[i]->limit = wish.limit;
    return IG_OK;
}

void ig_planner_close(const ig_planner *p) {
    for (uint32_t i = p->n_devices; i > 0; i--) ig_device_close(p->devices[i - 1]);
}

ig_status ig_devices_reserve(ig_devices *d, const ig_planner *p) {
    const size_t wanted = d->n_retired + p->n_devices;
    if (!IG_GROW(p->allocator, d->retired, &d->retired_room, wanted))
        return IG_FAIL(IG_ERR_MEMORY, "switch_device: %zu devices", wanted);
    return IG_OK;
}

void ig_devices_retire(ig_devices *d, const ig_planner *p) {
    if (!d->batches) {
        ig_planner_close(p);
        return;
    }
    for (uint32_t i = 0; i < p->n_devices; i++) d->retired[d->n_retired++] = p->devices[i];
}

void ig_devices_close(ig_devices *d) {
    ig_planner_close(&d->planner);
    for (size_t i = 0; i < d->n_retired; i++) ig_device_close(d->retired[i]);
}

void ig_devices_deinit(ig_devices *d, const ig_allocator *allocator) {
    ig_free(allocator, (void *)d->retired);
    ig_free(allocator, d->refused);
    ig_registry_deinit(&d->registry);
    ig_free(allocator, d->plugin_paths);
}
