/*
 * packed_weights.h - the store of a packing: weights in the layouts of devices.
 *
 * A packed weight is found by the address of the original and the layout's name.  A packing has one
 * lock.  ig_packing_lock() takes it for the search and for as long as the weight is being packed,
 * so other threads that want the same weight wait instead of packing it twice.  The functions below
 * "locked" expect the caller to hold it.
 */
#ifndef IG_PLAN_PACKED_WEIGHTS_H
#define IG_PLAN_PACKED_WEIGHTS_H

#include "base/cache_folder.h"
#include "ingot/backend.h"
#include "ingot/packing.h"

enum { IG_PACK_LAYOUT_BYTES = 32 };

typedef struct ig_packed_weight {
    const void *weight; /* the original's first byte */
    char layout[IG_PACK_LAYOUT_BYTES];
    void *bytes; /* in a slab, or in `entry` */
    uint64_t n_bytes;
    ig_cache_entry entry; /* of the compile cache, where they came from there */
    bool old;             /* unused since its context switched devices */
} ig_packed_weight;

/* ---- any time ---- */
/* Counts how many contexts use it: weights of a single user may be dropped. */
void ig_packing_attached(ig_packing *packing, int32_t change);
uint64_t ig_packing_slab_bytes(ig_packing *packing); /* in slabs; mapped cache entries take none */
/* If no other context uses the packing (`n_own`: attachments of this one): drops weights that are
 * still marked as old, and empty slabs, then marks all weights as old. */
void ig_packing_mark_old(ig_packing *packing, uint32_t n_own);
void ig_packing_drop_old(ig_packing *packing, uint32_t n_own);

/* Locks the packing if the weight lies in one of its sources. */
bool ig_packing_lock(ig_packing *packing, const void *weight);
void ig_packing_unlock(ig_packing *packing);

/* ---- locked ---- */
/* The packed bytes, which are then no longer old; NULL: not packed yet. */
void *ig_packing_find(ig_packing *packing, const void *weight, const char *layout, uint64_t bytes);
/* Slab bytes for this weight and all unpacked ones. */
uint64_t ig_packing_wanted(const ig_packing *packing, uint64_t bytes);
/* Adds memory to be filled, aligned to a cache line; NULL: out of memory. */
void *ig_packing_add_slab(ig_packing *packing, const void *weight, const char *layout,
                          uint64_t bytes);
/* Adds the bytes of a cache entry and takes ownership; NULL: out of memory, and the entry is
 * closed. */
void *ig_packing_add_entry(ig_packing *packing, const void *weight, const char *layout,
                           uint64_t bytes, ig_cache_entry *entry, const void *entry_bytes);
const ig_packed_weight *ig_packing_last(const ig_packing *packing); /* the last one added */
void ig_packing_remove_last(
    ig_packing *packing); /* after ig_packing_add_slab(), if packing failed */
/* Releases the OS pages that lie entirely within the first `bytes` of a mapped weight. */
void ig_packing_release_pages(const ig_packing *packing, const void *weight, uint64_t bytes);

#endif
