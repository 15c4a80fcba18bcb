/*
 * compile_cache.h - compiled programs, kept on disk.
 *
 * The key is the digest of listed inputs only: steps, shapes, dtypes, memory layout, baked-in
 * weights, options, backend name and version, device architecture and the ABI of the contract. No
 * path, time or environment is part of it.
 *
 * Inputs that depend on the batch size (shapes, layout) name a part of the entry: the programs of
 * one model for several batch sizes are one entry.
 */
#ifndef IG_PLAN_COMPILE_CACHE_H
#define IG_PLAN_COMPILE_CACHE_H

#include "backend/device.h"
#include "base/cache_folder.h"
#include "base/digests.h"

enum { IG_ARTIFACT_FOLDER_BYTES = PATH_MAX };

/* An entry that this context has used; stays open, so the next lookup needs no file access. */
typedef struct ig_open_entry {
    char file[IG_ENTRY_FILE_BYTES];
    ig_cache_entry entry;
} ig_open_entry;

typedef struct ig_compile_cache {
    const ig_allocator *allocator;
    char folder[IG_ARTIFACT_FOLDER_BYTES]; /* "": disabled */
    char options[192];                     /* as given by the user: lines of the key */
    uint64_t most_bytes; /* size limit; the least recently used entries are pruned */
    ig_digests *digests; /* of weights; created on first use */
    ig_open_entry *open;
    size_t n_open, open_room;
    ig_cache_entry_counts counts;
    uint64_t load_ns; /* spent on hits */
    uint64_t waits;   /* for another process that compiled the same key */

    bool keeps_weights; /* packed weights are cached, too */
    uint64_t weights_kept, found_bytes, kept_bytes;

    const ig_host *host; /* for one warning if the folder is unusable or full */
    bool reported;
} ig_compile_cache;

/* Warns that something is not cached, with the last error as the reason. */
void ig_compile_cache_warn(ig_compile_cache *cache);

/* Whether the folder exists or can be created, and is private to the user. */
bool ig_compile_cache_is_safe(ig_compile_cache *cache);

/* Whether programs of the device are cached at all. */
bool ig_compile_cache_keeps(const ig_compile_cache *cache, const ig_device *device);

/* Call before compiling a plan: refreshes the addresses of mapped weights. */
void ig_compile_cache_look(ig_compile_cache *cache);

/* Compiles the steps, from the entry for equal steps on a hit; stores one on a miss.  Of several
 * processes that miss the same key at once, one compiles and the others wait for its entry.  A
 * cache that does not work is not an error. */
IG_MUST_CHECK ig_status ig_compile_cache_compile(ig_compile_cache *cache, ig_device *device,
                                                 const ig_step *steps, uint32_t count,
                                                 ig_progress *progress, ig_backend_program **out);

/*
 * Weights that a device has packed: found by the digest of their bytes and the
 * name of the layout.  `entry` holds the bytes until it is closed; false: not
 * found, or packed weights are not cached.
 */
bool ig_compile_cache_find_weight(ig_compile_cache *cache, const ig_operand *weight,
                                  const char *layout, uint64_t bytes, ig_cache_entry *entry,
                                  const void **out);
void ig_compile_cache_store_weight(ig_compile_cache *cache, const ig_operand *weight,
                                   const char *layout, const void *packed, uint64_t bytes);

/* Adds the counts to those of the folder. */
void ig_compile_cache_deinit(ig_compile_cache *cache);

#endif
