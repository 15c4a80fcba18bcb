/*
 * cache_folder.h - a folder of cache entries, each a file with the inputs of its key.
 *
 *     header     magic, ABI, key, lengths, checksum of the rest
 *     inputs     the lines whose digest is the key: "backend=simnpu", "weights=4f..", ...
 *     timeline   the backend timeline of the compilation, as JSON
 *     parts      one per batch size: name, its own input lines, offset of its blob
 *     bytes      those lines, and the blobs that the backend saved, identical ones once
 *
 * A file is named by its key, replaced atomically, and not trusted: a damaged file or one of
 * another key counts as missing. It contains no path, time or environment, so a folder can be
 * moved.
 *
 * The folder also holds "lock", in which compiling processes lock one byte each, and "counts", the
 * hit and miss counters.
 */
#ifndef IG_BASE_CACHE_FOLDER_H
#define IG_BASE_CACHE_FOLDER_H

#include <limits.h>

#include "base/digests.h"
#include "base/file.h"

enum {
    IG_ENTRY_NAME_BYTES = 33, /* 32 hex digits and a 0 */
    IG_ENTRY_FILE_BYTES = 64, /* "NAME.EXTENSION" */
    IG_ENTRY_MOST_PARTS = 64, /* the oldest is dropped */
};

typedef struct ig_cache_entry {
    ig_file_map map;
    const char *inputs, *timeline; /* lent by the mapping, not terminated */
    size_t inputs_bytes, timeline_bytes;
    uint32_t n_parts;
} ig_cache_entry;

/* A program of an entry, for one batch size. */
typedef struct ig_cache_entry_part {
    char name[IG_ENTRY_NAME_BYTES]; /* the digest of its inputs */
    const char *inputs;             /* lent, like those of the entry */
    size_t inputs_bytes;
    const void *blob;
    size_t blob_bytes;
} ig_cache_entry_part;

/* The digest of these lines as 32 hex digits. */
void ig_cache_entry_name(const char *inputs, size_t bytes, char out[IG_ENTRY_NAME_BYTES]);

/* The file name of an entry. An extension other than 1 to 15 characters of a-z and 0-9, or a
 * reserved one, becomes "program". */
void ig_cache_entry_file(const char *name, const char *extension, char out[IG_ENTRY_FILE_BYTES]);

/* IG_ERR_IO: missing; IG_ERR_FORMAT: damaged. */
IG_MUST_CHECK ig_status ig_cache_entry_look(const char *folder, const char *file,
                                            ig_cache_entry *out);
/* The same, and marks the entry as used, to the hour. With `digests`, the bytes are checksummed
 * only once; NULL: every time. */
IG_MUST_CHECK ig_status ig_cache_entry_open(const char *folder, const char *file,
                                            ig_digests *digests, ig_cache_entry *out);
void ig_cache_entry_close(ig_cache_entry *entry);

/* Whether the file is unchanged since it was opened. */
bool ig_cache_entry_is_sound(const ig_cache_entry *entry);

ig_cache_entry_part ig_cache_entry_part_at(const ig_cache_entry *entry,
                                           uint32_t i); /* i < n_parts */
bool ig_cache_entry_find(const ig_cache_entry *entry, const char *part, ig_cache_entry_part *out);

/* Writes the entry with its parts so far and a new one. `entry` gives inputs and timeline.
 * `digests` remembers that the entry is valid; NULL: the next reader verifies it. */
IG_MUST_CHECK ig_status ig_cache_entry_add(const ig_allocator *a, const char *folder,
                                           const char *file, const ig_cache_entry *entry,
                                           const ig_cache_entry_part *part, ig_digests *digests);

/* ---- the folder ---- */

/* An entry in a listing. */
typedef struct ig_cache_entry_info {
    char file[IG_ENTRY_FILE_BYTES];
    uint64_t bytes;
    int64_t used_ns; /* last use */
} ig_cache_entry_info;

/* Least recently used first; the caller frees the list. A missing folder is empty. */
IG_MUST_CHECK ig_status ig_cache_entries_list(const ig_allocator *a, const char *folder,
                                              ig_cache_entry_info **out, size_t *out_count);
bool ig_cache_entry_remove(const char *folder, const char *file);

/* Removes the least recently used entries until the rest takes at most `most` bytes, and leftovers
 * of killed writers. */
IG_MUST_CHECK ig_status ig_cache_entries_prune(const ig_allocator *a, const char *folder,
                                               uint64_t most, size_t *out_removed);

/* ---- who compiles ---- */

/* A lock per name, across processes and threads. It is released when a process dies. */
typedef struct ig_cache_entry_lock {
    int fd; /* -1: the file system has no locks, and callers continue without one */
} ig_cache_entry_lock;

/* false: another thread or process holds it. */
bool ig_cache_entry_try_lock(const char *folder, const char *name, ig_cache_entry_lock *out);
void ig_cache_entry_unlock(ig_cache_entry_lock *lock);

/* ---- how often ---- */

typedef struct ig_cache_entry_counts {
    uint64_t hits, misses, damaged, stored;
    uint64_t compile_ns; /* spent on misses */
    uint64_t weights_found, weights_packed;
} ig_cache_entry_counts;

ig_cache_entry_counts ig_cache_entries_counts(const char *folder); /* zeros where there are none */
void ig_cache_entries_count(const char *folder, const ig_cache_entry_counts *more);

#endif
