/*
 * entries.h - a folder of compiled programs, each in a file that names what it is for.
 *
 *     header     magic, ABI, key, lengths, checksum of all that follows
 *     inputs     the lines whose digest is the key: "backend=simnpu", "weights=4f..", ...
 *     timeline   what was tried when it was made, as JSON
 *     parts      one for each batch size: a name, lines of its own, and where its blob is
 *     bytes      those lines, and the blobs that the backend saved, equal ones once
 *
 * A file is named by its key, written whole or not at all, and looked at with
 * suspicion: what is damaged or was meant for another key counts as not there.
 * Nothing in it says where or when it was made, so a folder can be moved.
 *
 * Besides the entries a folder holds "lock", whose bytes are locked by those who
 * are about to compile something, and "counts", how often something was found.
 */
#ifndef IG_BASE_ENTRIES_H
#define IG_BASE_ENTRIES_H

#include <limits.h>

#include "base/digests.h"
#include "base/file.h"

enum {
    IG_ENTRY_NAME_BYTES = 33, /* 32 hex digits and a 0 */
    IG_ENTRY_FILE_BYTES = 64, /* "NAME.EXTENSION" */
    IG_ENTRY_MOST_PARTS = 64, /* the oldest goes */
};

typedef struct ig_entry {
    ig_file_map map;
    const char *inputs, *timeline; /* lent by the map, not terminated */
    size_t inputs_bytes, timeline_bytes;
    uint32_t n_parts;
} ig_entry;

/* A program of an entry, for one batch size. */
typedef struct ig_entry_part {
    char name[IG_ENTRY_NAME_BYTES]; /* the digest of its inputs */
    const char *inputs;             /* lent, as those of the entry */
    size_t inputs_bytes;
    const void *blob;
    size_t blob_bytes;
} ig_entry_part;

/* The digest of these lines as 32 hex digits. */
void ig_entry_name(const char *inputs, size_t bytes, char out[IG_ENTRY_NAME_BYTES]);

/* The file of an entry.  An extension that is not 1 to 15 of a-z and 0-9, or one of our own,
 * becomes "program". */
void ig_entry_file(const char *name, const char *extension, char out[IG_ENTRY_FILE_BYTES]);

/* IG_ERR_IO: there is none; IG_ERR_FORMAT: it is damaged. */
IG_MUST_CHECK ig_status ig_entry_look(const char *folder, const char *file, ig_entry *out);
/* The same, and marks it as used, to the hour.  Whoever has `digests` reads the checksummed bytes
 * of an entry only once; NULL: every time. */
IG_MUST_CHECK ig_status ig_entry_open(const char *folder, const char *file, ig_digests *digests,
                                      ig_entry *out);
void ig_entry_close(ig_entry *entry);

/* Whether the bytes are still those that were opened. */
bool ig_entry_is_sound(const ig_entry *entry);

ig_entry_part ig_entry_part_at(const ig_entry *entry, uint32_t i); /* i < n_parts */
bool ig_entry_find(const ig_entry *entry, const char *part, ig_entry_part *out);

/* Writes the entry with its parts so far and one more.  `entry` gives inputs and timeline.  Whoever
 * has `digests` need not read it again to know that it is sound; NULL is fine. */
IG_MUST_CHECK ig_status ig_entry_add(const ig_allocator *a, const char *folder, const char *file,
                                     const ig_entry *entry, const ig_entry_part *part,
                                     ig_digests *digests);

/* ---- the folder ---- */

/* An entry as the folder lists it. */
typedef struct ig_entry_info {
    char file[IG_ENTRY_FILE_BYTES];
    uint64_t bytes;
    int64_t used_ns; /* when it was last used */
} ig_entry_info;

/* The least recently used first; the caller frees the list.  A folder that is not there is empty.
 */
IG_MUST_CHECK ig_status ig_entries_list(const ig_allocator *a, const char *folder,
                                        ig_entry_info **out, size_t *out_count);
bool ig_entry_remove(const char *folder, const char *file);

/* Removes the least recently used until the rest takes no more than `most` bytes, and what writers
 * that were killed have left. */
IG_MUST_CHECK ig_status ig_entries_prune(const ig_allocator *a, const char *folder, uint64_t most,
                                         size_t *out_removed);

/* ---- who compiles ---- */

/* Held by one at a time for each name, over all processes and threads; whoever dies lets go. */
typedef struct ig_entry_lock {
    int fd; /* -1: the folder knows no locks, and everybody goes on as if alone */
} ig_entry_lock;

/* false: somebody else holds it. */
bool ig_entry_try_lock(const char *folder, const char *name, ig_entry_lock *out);
void ig_entry_unlock(ig_entry_lock *lock);

/* ---- how often ---- */

typedef struct ig_entry_counts {
    uint64_t hits, misses, damaged, stored;
    uint64_t compile_ns; /* spent on what was not there */
    uint64_t weights_found, weights_packed;
} ig_entry_counts;

ig_entry_counts ig_entries_counts(const char *folder); /* zeros where there are none */
void ig_entries_count(const char *folder, const ig_entry_counts *more);

#endif
