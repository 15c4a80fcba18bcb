/*
 * artifacts.h - programs that were compiled before, kept on disk.
 *
 * The key is the digest of listed inputs and nothing else: the steps, their
 * shapes, dtypes and places, the weights that are baked in, the options, the
 * backend with its version, the device's architecture and the contract's ABI.
 * No path, no time and no environment is part of it.
 */
#ifndef IG_PLAN_ARTIFACTS_H
#define IG_PLAN_ARTIFACTS_H

#include "backend/device.h"

enum { IG_ARTIFACT_FOLDER_BYTES = 4096 };

typedef struct ig_artifacts {
    const ig_allocator *allocator;
    char folder[IG_ARTIFACT_FOLDER_BYTES]; /* "": nothing is kept */
    char options[192];                     /* as the user said them, for the key */
    uint64_t most_bytes;                   /* of all entries; the least recently used go */
    uint64_t hits, misses, damaged, stored;
    uint64_t compile_ns; /* spent on what was not there */
} ig_artifacts;

/* Whether programs of the device are kept at all. */
bool ig_artifacts_keeps(const ig_artifacts *artifacts, const ig_device *device);

/* Compiles, with what was saved for equal steps if there is such a thing; keeps it if there was
 * not.  A cache that does not work is no failure. */
IG_MUST_CHECK ig_status ig_artifacts_compile(ig_artifacts *artifacts, ig_device *device,
                                             const ig_step *steps, uint32_t count,
                                             ig_progress *progress, ig_backend_program **out);

#endif
