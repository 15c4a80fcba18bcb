/*
 * The packings of a context: attached and detached by callers, used by backends through ig_host.
 *
 * ig_ctx_pack_begin() leaves the packing locked when it returns memory to be filled; the backend
 * fills it and calls ig_ctx_pack_end() on the same thread, which unlocks it.
 */
#include "runtime/ctx_packing.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "runtime/ctx_devices.h"
#include "runtime/ctx_host.h"
#include "runtime/run_node.h"

enum { PLANS_SHARE = 8 }; /* 1 / PLANS_SHARE of a memory limit is reserved for plans */

static bool is_first(const ig_packings *all, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (all->at[k] == all->at[i]) return false;
    return true;
}

/* Other contexts may have packed into the same packing. Mapped cache entries are file-backed, like
 * the weights, and do not count. */
static void count_packed(const ig_ctx *ctx) {
    const ig_packings *all = ig_ctx_packings(ctx);
    uint64_t bytes = 0;
    for (size_t i = 0; i < all->count; i++)
        if (is_first(all, i)) bytes += ig_packing_slab_bytes(all->at[i]);
    ig_planner_host_device(&ig_ctx_devices(ctx)->planner)->packed = bytes;
}

/* ---- for callers ---- */

ig_status ig_ctx_attach_packing(ig_ctx *ctx, ig_packing *p) {
    if (!ctx) return IG_FAIL(IG_ERR_ARGUMENT, "attach_packing: NULL");
    if (!p) return IG_OK;
    ig_packings *all = ig_ctx_packings(ctx);
    if (!IG_GROW(ig_ctx_allocator(ctx), all->at, &all->room, all->count + 1))
        return IG_FAIL(IG_ERR_MEMORY, "attach_packing: %zu packings", all->count);
    all->at[all->count++] = ig_packing_retain(p);
    ig_packing_attached(p, 1);
    count_packed(ctx);
    return IG_OK;
}

static void detach(ig_packings *all, size_t i) {
    ig_packing *p = all->at[i];
    all->at[i] = all->at[--all->count];
    ig_packing_attached(p, -1);
    ig_packing_release(p);
}

void ig_ctx_detach_packing(ig_ctx *ctx, ig_packing *p) {
    if (!ctx || !p) return;
    ig_packings *all = ig_ctx_packings(ctx);
    for (size_t i = 0; i < all->count; i++)
        if (all->at[i] == p) {
            detach(all, i);
            count_packed(ctx);
            return;
        }
}

void ig_ctx_detach_all(ig_ctx *ctx) {
    ig_packings *all = ig_ctx_packings(ctx);
    while (all->count > 0) detach(all, all->count - 1);
    ig_free(ig_ctx_allocator(ctx), (void *)all->at);
}

/* ---- for a switch of devices ---- */

static uint32_t times_attached(const ig_packings *all, const ig_packing *p) {
    uint32_t times = 0;
    for (size_t i = 0; i < all->count; i++) times += all->at[i] == p;
    return times;
}

void ig_ctx_mark_packed(const ig_ctx *ctx) {
    const ig_packings *all = ig_ctx_packings(ctx);
    for (size_t i = 0; i < all->count; i++)
        ig_packing_mark_old(all->at[i], times_attached(all, all->at[i]));
    count_packed(ctx);
}

void ig_ctx_drop_packed(const ig_ctx *ctx) {
    const ig_packings *all = ig_ctx_packings(ctx);
    for (size_t i = 0; i < all->count; i++)
        ig_packing_drop_old(all->at[i], times_attached(all, all->at[i]));
    count_packed(ctx);
}

/* ---- for backends ---- */

/* Leaves the packing locked; NULL: the weight belongs to no packing. */
static ig_packing *lock_packing_of(const ig_packings *all, const void *weight) {
    for (size_t i = 0; weight && i < all->count; i++)
        if (ig_packing_lock(all->at[i], weight)) return all->at[i];
    return NULL;
}

/* Whether the limit has room for this weight, for those that follow and for plans: packing some
 * weights only would take memory that plans need. */
static bool may_take(ig_ctx *ctx, const ig_packing *p, uint64_t bytes) {
    const ig_device *device = ig_planner_host_device(&ig_ctx_devices(ctx)->planner);
    const uint64_t left = ig_device_left(device), plans = device->limit / PLANS_SHARE;
    const uint64_t room = left > plans ? left - plans : 0, wanted = ig_packing_wanted(p, bytes);
    bool *warned = &ig_ctx_packings(ctx)->warned;
    if (wanted <= room) return true;
    if (!*warned) {
        char text[192];
        snprintf(text, sizeof text,
                 "weights are not packed: they need %llu bytes, and of the memory limit of %llu "
                 "bytes %llu are available",
                 (unsigned long long)wanted, (unsigned long long)device->limit,
                 (unsigned long long)room);
        const ig_host *host = &ig_ctx_get_host(ctx)->table;
        host->log(host, IG_LOG_WARNING, text);
    }
    *warned = true;
    return false;
}

/* Maps the weight from the compile cache; NULL: not cached. */
static void *from_cache(ig_ctx *ctx, ig_packing *p, const ig_operand *weight, const char *layout,
                        uint64_t bytes) {
    ig_compile_cache *cache = ig_ctx_compile_cache(ctx);
    const void *found = NULL;
    ig_cache_entry entry = {0};
    if (!ig_compile_cache_find_weight(cache, weight, layout, bytes, &entry, &found)) return NULL;
    (void)ig_ctx_progress(ctx, IG_PROGRESS_WEIGHTS_CACHED, cache->found_bytes, cache->found_bytes);
    ig_packing_release_pages(p, weight->host, UINT64_MAX); /* the digest has read them */
    return ig_packing_add_entry(p, weight->host, layout, bytes, &entry, found);
}

void *ig_ctx_pack_begin(ig_ctx *ctx, const ig_operand *weight, const char *layout, uint64_t bytes,
                        bool *out_ready) {
    count_packed(ctx);
    ig_packings *all = ig_ctx_packings(ctx);
    ig_packing *p = lock_packing_of(all, weight->host);
    if (!p) return NULL;
    void *result = ig_packing_find(p, weight->host, layout, bytes);
    if (!result) result = from_cache(ctx, p, weight, layout, bytes);
    *out_ready = result != NULL;
    if (!result && may_take(ctx, p, bytes))
        result = ig_packing_add_slab(p, weight->host, layout, bytes);
    if (*out_ready || !result)
        ig_packing_unlock(p);
    else
        all->locked = p;
    all->began_ns = ig_clock_ns();
    return result;
}

void ig_ctx_pack_consumed(const ig_ctx *ctx, const ig_operand *weight, uint64_t source_bytes) {
    ig_packing_release_pages(ig_ctx_packings(ctx)->locked, weight->host, source_bytes);
}

void ig_ctx_pack_end(ig_ctx *ctx, const ig_operand *weight, bool complete) {
    ig_packings *all = ig_ctx_packings(ctx);
    ig_packing *p = all->locked;
    const ig_packed_weight *new = ig_packing_last(p);
    ig_compile_cache *cache = ig_ctx_compile_cache(ctx);
    if (complete) {
        ig_compile_cache_store_weight(cache, weight, new->layout, new->bytes, new->n_bytes);
        (void)ig_ctx_progress(ctx, IG_PROGRESS_WEIGHTS_STORED, cache->kept_bytes,
                              cache->kept_bytes);
        ig_packing_release_pages(p, weight->host, UINT64_MAX);
    } else {
        ig_packing_remove_last(p);
    }
    all->locked = NULL;
    all->ns += ig_clock_ns() - all->began_ns;
    ig_packing_unlock(p);
    count_packed(ctx);
}
