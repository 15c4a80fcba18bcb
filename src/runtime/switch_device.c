/*
 * Another device for a context that is at work.
 *
 * Tensors live in the host's memory, so what the old device has newer is brought
 * there, and its copies are dropped.  Captures get their new plans before the old
 * ones go; recordings and single ops make theirs when they run next.
 */
#include "runtime/ctx.h"

/* Calls fn for every storage that something may still look at. */
static ig_status each_storage(ig_ctx *ctx, ig_status (*fn)(ig_ctx *ctx, ig_storage *s)) {
    for (ig_tensor_slab *slab = ctx->slabs; slab; slab = slab->next)
        for (size_t i = 0; i < sizeof slab->tensors / sizeof slab->tensors[0]; i++) {
            const ig_tensor *t = &slab->tensors[i];
            if (t->alive == IG_TENSOR_ALIVE && t->storage) IG_TRY(fn(ctx, t->storage));
        }
    for (size_t v = 1; v < ctx->graph.n_values; v++)
        if (ctx->graph.values[v].memory) IG_TRY(fn(ctx, ctx->graph.values[v].memory));
    for (ig_captured *c = ctx->captured; c; c = c->next) IG_TRY(fn(ctx, c->arena));
    return fn(ctx, &ctx->arena);
}

static ig_status drop_mirror(ig_ctx *ctx, ig_storage *s) {
    if (s->mirror.buffer) ig_mirror_drop(&s->mirror, ig_ctx_far(ctx));
    return IG_OK;
}

static ig_device *near_of(const ig_planner *p) {
    uint32_t i = 0;
    while (i + 1 < p->n_devices && !p->devices[i]->host_memory) i++;
    return p->devices[i];
}

/* Storages stay where they are, so what is left of the old device's account is the new one's.  That
 * has the new arenas already, and the old ones off: the sum is right, whatever each is alone. */
static void take_account(ig_device *new, const ig_device *old) {
    new->allocated += old->allocated;
    new->peak = new->allocated > old->peak ? new->allocated : old->peak;
}

static void close_all(const ig_planner *p) {
    for (uint32_t i = p->n_devices; i > 0; i--) ig_device_close(p->devices[i - 1]);
}

/* Closes the old devices, unless a batch has a plan for them. */
static ig_status retire(ig_ctx *ctx, const ig_planner *old) {
    const size_t wanted = ctx->n_retired + old->n_devices;
    if (!IG_GROW(&ctx->allocator, ctx->retired, &ctx->retired_room, wanted))
        return IG_FAIL(IG_ERR_MEMORY, "switch_device: %zu devices", wanted);
    return IG_OK;
}

static ig_status replan(ig_ctx *ctx) {
    for (ig_captured *c = ctx->captured; c; c = c->next) IG_TRY(ig_captured_replan(c));
    return IG_OK;
}

/* The new planner is the context's from now on. */
static void hand_over(ig_ctx *ctx, const ig_planner *old) {
    const ig_planner new = ctx->planner;
    for (ig_captured *c = ctx->captured; c; c = c->next) ig_captured_take_new(c);
    for (uint32_t i = 0; i < ctx->recorder.count; i++)
        ig_recording_drop_plan(ctx, ctx->recorder.all[i]);
    ctx->recorder.refused = false;
    ig_plan_cache_deinit(&ctx->cache);
    ig_plan_cache_init(&ctx->cache, &ctx->allocator);
    ctx->planner = *old; /* whose memory it is */
    ig_pool_drain(ctx);
    (void)!each_storage(ctx, drop_mirror);
    take_account(near_of(&new), near_of(old));
    ctx->planner = new;
    ctx->switches++;
    for (uint32_t i = 0; ctx->n_batches > 0 && i < old->n_devices; i++)
        ctx->retired[ctx->n_retired++] = old->devices[i];
    if (ctx->n_batches == 0) close_all(old);
    if (ctx->n_batches == 0) ig_ctx_drop_packed(ctx);
}

ig_status ig_switch_device(ig_ctx *ctx, const char *device) {
    if (!ctx || !device) return IG_FAIL(IG_ERR_ARGUMENT, "switch_device: NULL");
    IG_TRY(ig_ctx_check_idle(ctx, "switch_device"));
    IG_TRY(ig_replay_check_between(ctx, "switch_device"));
    IG_TRY(ig_device_sync(ctx->planner.devices[0]));
    ig_replay_detach(ctx); /* results leave the arena */
    IG_TRY(each_storage(ctx, ig_storage_to_host));
    const ig_planner old = ctx->planner;
    ig_planner new = old;
    new.n_devices = 0;
    IG_TRY(retire(ctx, &old));
    ig_status status = ig_ctx_open_devices(ctx, device, &new);
    if (status == IG_OK) {
        ctx->planner = new;
        ig_ctx_mark_packed(ctx);
        status = replan(ctx);
    }
    if (status == IG_OK) {
        hand_over(ctx, &old);
        return IG_OK;
    }
    for (ig_captured *c = ctx->captured; c; c = c->next)
        ig_captured_keep_old(c); /* while its own */
    ctx->planner = old;
    close_all(&new);
    return status;
}
