/*
 * artifacts.h - programs that were compiled before, kept on disk.
 *
 * The key is the digest of listed inputs and nothing else: the steps, their
 * shapes, dtypes and places, the weights that are baked in, the options, the
 * backend with its version, the device's architecture and the contract's ABI.
 * No path, no time and no environment is part of it.
 *
 * What depends on the batch size, shapes and places, names a part of the entry:
 * programs of the same model for several batch sizes are one entry.
 */
#ifndef IG_PLAN_ARTIFACTS_H
#define IG_PLAN_ARTIFACTS_H

#include "backend/device.h"
#include "base/digests.h"
#include "base/cache_folder.h"

enum { IG_ARTIFACT_FOLDER_BYTES = PATH_MAX };

/* An entry that this context has used: asked for again, no file is opened. */
typedef struct ig_open_entry {
    char file[IG_ENTRY_FILE_BYTES];
    ig_entry entry;
} ig_open_entry;

typedef struct ig_artifacts {
    const ig_allocator *allocator;
    char folder[IG_ARTIFACT_FOLDER_BYTES]; /* "": nothing is kept */
    char options[192];                     /* as the user said them: lines of the key */
    uint64_t most_bytes;                   /* of all entries; the least recently used go */
    ig_digests *digests;                   /* of weights; made with the first */
    ig_open_entry *open;
    size_t n_open, open_room;
    ig_entry_counts counts;
    uint64_t load_ns; /* spent on what was there */
    uint64_t waits;   /* for somebody else who was compiling the same */

    bool keeps_weights; /* packed ones, too */
    uint64_t weights_kept, found_bytes, kept_bytes;

    const ig_host *host; /* is told, once, if the folder cannot be used or is full */
    bool told;
} ig_artifacts;

/* Tells why something is not kept, which was the last error. */
void ig_artifacts_warn(ig_artifacts *artifacts);

/* Whether the folder is there, or can be made, and belongs to the user alone. */
bool ig_artifacts_is_safe(ig_artifacts *artifacts);

/* Whether programs of the device are kept at all. */
bool ig_artifacts_keeps(const ig_artifacts *artifacts, const ig_device *device);

/* Before the programs of a plan: where weights lie is looked at anew. */
void ig_artifacts_look(ig_artifacts *artifacts);

/* Compiles, with what was saved for equal steps if there is such a thing; keeps it if there was
 * not.  Of several who want the same at the same time one compiles, and the others wait for it.  A
 * cache that does not work is no failure. */
IG_MUST_CHECK ig_status ig_artifacts_compile(ig_artifacts *artifacts, ig_device *device,
                                             const ig_step *steps, uint32_t count,
                                             ig_progress *progress, ig_backend_program **out);

/*
 * Weights that a device has packed: found by the digest of their bytes and the
 * name of the layout.  `entry` holds the bytes until it is closed; false: there
 * are none, or nobody wants them kept.
 */
bool ig_artifacts_find_weight(ig_artifacts *artifacts, const ig_operand *weight, const char *layout,
                              uint64_t bytes, ig_entry *entry, const void **out);
void ig_artifacts_keep_weight(ig_artifacts *artifacts, const ig_operand *weight, const char *layout,
                              const void *packed, uint64_t bytes);

/* Adds the counts to those of the folder. */
void ig_artifacts_deinit(ig_artifacts *artifacts);

#endif
