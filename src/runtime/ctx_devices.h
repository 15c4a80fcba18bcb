/*
 * ctx_devices.h - the devices of a context: the requested one and its fallbacks.
 *
 * The planner's devices are owned. After a switch, devices that plans of dispatch batches still
 * refer to are retired: closed with the context.
 */
#ifndef IG_RUNTIME_CTX_DEVICES_H
#define IG_RUNTIME_CTX_DEVICES_H

#include "ingot/batch.h"
#include "plan/plan.h"

typedef struct ig_devices {
    ig_registry registry;
    char *plugin_paths;  /* used by the registry; NULL: none */
    ig_planner planner;  /* devices[0] is the requested device */
    uint64_t n_switches; /* a plan made before the last switch is for an earlier device */
    ig_batch *batches;   /* live dispatch batches, newest first: their plans outlive a switch */
    ig_device **retired;
    size_t n_retired, retired_room;
    ig_refusal *refused; /* the device refused before a model was loaded; NULL: none; owned */
} ig_devices;

ig_devices *ig_ctx_devices(const ig_ctx *ctx);

/* The device with its own memory; NULL: none. */
static inline ig_device *ig_devices_remote(const ig_devices *d) {
    ig_device *first = d->planner.devices[0];
    return first->host_memory ? NULL : first;
}
/* The first device that works in host memory: it accounts for allocations there. */
static inline ig_device *ig_planner_host_device(const ig_planner *p) {
    uint32_t i = 0;
    while (i + 1 < p->n_devices && !p->devices[i]->host_memory) i++;
    return p->devices[i];
}

/* A context's requirements for its devices. */
typedef struct ig_devices_wish {
    const char *name;
    uint64_t limit; /* memory limit in bytes; 0: none */
    bool unsafe;    /* accept a device with wrong numbers if its backend is named */
} ig_devices_wish;

ig_devices_wish ig_ctx_devices_wish(const ig_ctx *ctx, const char *name); /* with its options */

/* Opens the device and the fallbacks that can run every op.  A fallback that cannot be opened is
 * skipped.  Opened devices are in the planner, also after a failure. */
IG_MUST_CHECK ig_status ig_devices_open(ig_devices *devices, ig_devices_wish wish,
                                        ig_planner *planner);
/* Reserves space for retiring the planner's devices, so that ig_devices_retire() cannot fail. */
IG_MUST_CHECK ig_status ig_devices_reserve(ig_devices *devices, const ig_planner *planner);
/* Closes the planner's devices, or keeps them open while dispatch batches exist. */
void ig_devices_retire(ig_devices *devices, const ig_planner *planner);
void ig_planner_close(const ig_planner *planner);
/* Closes all devices; ig_devices_deinit() frees the registry and the list. */
void ig_devices_close(ig_devices *devices);
void ig_devices_deinit(ig_devices *devices, const ig_allocator *allocator);

#endif
