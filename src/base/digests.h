/*
 * digests.h - digests of mapped file ranges, remembered between runs.
 *
 * Weights are usually a mapped file, and hashing all of it takes longer than the rest of a start. A
 * file is identified by device, inode, size, mtime and ctime, and a folder keeps the digest of each
 * range that was asked for. It is a hint: ig_digests_verify() reads the files again and removes
 * wrong digests.
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

/* The folder is created when something is stored; "": nothing is. */
IG_MUST_CHECK ig_status ig_digests_create(const ig_allocator *a, const char *folder,
                                          ig_digests **out);
/* Writes new digests. NULL is fine. */
void ig_digests_destroy(ig_digests *digests);

/* Reads the process's mappings again. Until the next call, no file may be unmapped. */
void ig_digests_look(ig_digests *digests);

ig_digest ig_digests_of(ig_digests *digests, const void *bytes, size_t count);
/* For a file that is only replaced by rename, never modified in place: whether its digest is
 * known, and the digest. */
bool ig_digests_knows(ig_digests *digests, const char *path);
void ig_digests_learn(ig_digests *digests, const char *path, uint64_t bytes, ig_digest digest);
uint64_t ig_digests_read(const ig_digests *digests); /* bytes hashed so far */

typedef struct ig_digests_state {
    size_t sound, stale, wrong; /* files; a stale one has changed since */
} ig_digests_state;

/* Reads all files that still exist; removes stale and wrong digests. */
ig_digests_state ig_digests_verify(const char *folder);
/* Removes stale digests without reading the files. */
void ig_digests_prune(const char *folder);

#endif
