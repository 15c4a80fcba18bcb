/*
 * digests.h - digests of bytes, remembered where they lie in a file that has not changed.
 *
 * Weights are a mapped file most often, and reading all of it just to know what
 * it is takes longer than everything else at a start.  A file is known again by
 * device, inode, size, mtime and ctime; of each part that was asked for, the
 * digest is kept in a folder.  It is a hint: ig_digests_verify() reads the files
 * and throws away what is not true.
 *
 *     folder/<identity>.digests     magic, checksum, identity, path, [offset, bytes, digest]...
 */
#ifndef IG_BASE_DIGESTS_H
#define IG_BASE_DIGESTS_H

#include "base/alloc.h"

typedef struct ig_digest {
    uint64_t high, low;
} ig_digest;

typedef struct ig_digests ig_digests;

/* The folder is made when something is to be kept; "": nothing is. */
IG_MUST_CHECK ig_status ig_digests_create(const ig_allocator *a, const char *folder,
                                          ig_digests **out);
/* Writes what is new.  NULL is fine. */
void ig_digests_destroy(ig_digests *digests);

/* Looks anew at what is mapped where.  Until the next time, no file may be unmapped. */
void ig_digests_look(ig_digests *digests);

ig_digest ig_digests_of(ig_digests *digests, const void *bytes, size_t count);
/* Of a whole file that is written elsewhere and renamed into place, never changed where it lies:
 * whether its digest is known, and what it is. */
bool ig_digests_knows(ig_digests *digests, const char *path);
void ig_digests_learn(ig_digests *digests, const char *path, uint64_t bytes, ig_digest digest);
uint64_t ig_digests_read(const ig_digests *digests); /* bytes that had to be read for it so far */

typedef struct ig_digests_state {
    size_t sound, stale, wrong; /* files: stale ones have changed since */
} ig_digests_state;

/* Reads all files that are still there; what is stale or wrong is removed. */
ig_digests_state ig_digests_verify(const char *folder);
/* The same without reading them: removes what is stale. */
void ig_digests_prune(const char *folder);

#endif
