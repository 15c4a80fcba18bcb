/*
 * Switches a context to another device.
 *
 * Tensors live in host memory, so newer bytes of the old device are copied back and its copies
 * dropped. Captures get their new plans before the old ones are destroyed; recordings and single
 * ops make theirs on the next run.
 */
#include "ingot/context.h"
#include "runtime/ctx_host.h"
#include "runtime/ctx_packing.h"
#include "runtime/record/capture.h"
#include "runtime/run_node.h"
#include "runtime/tape.h"

typedef struct devices_switch {
    ig_ctx *ctx;
    ig_devices *devices;
    ig_memory *memory;
    ig_captured *captured; /* the newest */
    ig_planner old, new;
} devices_switch;

/* Calls fn for every storage that is still reachable. */
static ig_status each_storage(const devices_switch *d,
                              ig_status (*fn)(ig_memory *memory, ig_storage *s)) {
    const ig_graph *g = &ig_ctx_tape(d->ctx)->graph;
    for (ig_tensor_slab *slab = ig_ctx_handles(d->ctx)->slabs; slab; slab = slab->next)
        for (size_t i = 0; i < IG_SLAB_TENSORS; i++) {
            const ig_tensor *t = &slab->tensors[i];
            if (t->alive == IG_TENSOR_ALIVE && t->storage) IG_TRY(fn(d->memory, t->storage));
        }
    for (size_t v = 1; v < g->n_values; v++)
        if (g->values[v].memory) IG_TRY(fn(d->memory, g->values[v].memory));
    for (ig_captured *c = d->captured; c; c = c->next) IG_TRY(fn(d->memory, c->arena));
    return fn(d->memory, &d->memory->arena);
}

static ig_status drop_mirror(ig_memory *memory, ig_storage *s) {
    ig_storage_drop_mirror(memory, s);
    return IG_OK;
}

/* Storages stay in place, so the rest of the old device's account moves to the new one. That one
 * already counts the new arenas, and the old arenas are already subtracted: the sum is right even
 * where one of the two is negative. */
static void take_account(ig_device *new, const ig_device *old) {
    new->allocated += old->allocated;
    new->peak = new->allocated > old->peak ? new->allocated : old->peak;
}

static ig_status replan(const devices_switch *d) {
    for (ig_captured *c = d->captured; c; c = c->next) IG_TRY(ig_captured_replan(c));
    return IG_OK;
}

/* Installs the new planner in the context. */
static void hand_over(const devices_switch *d) {
    ig_recorder *rec = ig_ctx_recorder(d->ctx);
    ig_plan_cache *plans = ig_ctx_plan_cache(d->ctx);
    for (ig_captured *c = d->captured; c; c = c->next) ig_captured_take_new(c);
    for (uint32_t i = 0; i < rec->count; i++) ig_recording_drop_plan(d->ctx, rec->all[i]);
    rec->refused = rec->out_of_memory = false;
    ig_plan_cache_deinit(plans);
    ig_plan_cache_init(plans, ig_ctx_allocator(d->ctx));
    d->devices->planner = d->old; /* the owner of the memory */
    ig_pool_drain(d->memory);
    (void)!each_storage(d, drop_mirror);
    take_account(ig_planner_host_device(&d->new), ig_planner_host_device(&d->old));
    d->devices->planner = d->new;
    d->devices->n_switches++;
    ig_devices_retire(d->devices, &d->old);
    if (!d->devices->batches) ig_ctx_drop_packed(d->ctx);
}

ig_status ig_switch_device(ig_ctx *ctx, const char *device) {
    if (!ctx || !device) return IG_FAIL(IG_ERR_ARGUMENT, "switch_device: NULL");
    devices_switch d = {ctx, ig_ctx_devices(ctx), ig_ctx_memory(ctx), ig_ctx_captures(ctx)->newest,
                        .old = ig_ctx_devices(ctx)->planner};
    IG_TRY(ig_ctx_check_idle(ctx, "switch_device"));
    IG_TRY(ig_replay_check_between(ctx, "switch_device"));
    IG_TRY(ig_device_sync(d.old.devices[0]));
    ig_replay_detach(ctx); /* moves results out of the arena */
    IG_TRY(each_storage(&d, ig_storage_to_host));
    IG_TRY(ig_devices_reserve(d.devices, &d.old));
    d.new = d.old;
    d.new.n_devices = 0;
    ig_status status = ig_devices_open(d.devices, ig_ctx_devices_wish(ctx, device), &d.new);
    if (status == IG_OK) {
        d.devices->planner = d.new;
        ig_ctx_mark_packed(ctx);
        status = replan(&d);
    }
    if (status == IG_OK) {
        hand_over(&d);
        return IG_OK;
    }
    for (ig_captured *c = d.captured; c; c = c->next) ig_captured_keep_old(c); /* while its own */
    d.devices->planner = d.old;
    ig_planner_close(&d.new);
    return status;
}
