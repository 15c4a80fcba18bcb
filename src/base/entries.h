/*
 * entries.h - a folder of compiled programs, each in a file that names what it is for.
 *
 *     header     magic, ABI, key, lengths, checksum of all that follows
 *     inputs     the lines whose digest is the key: "backend=simnpu", "weights=4f..", ...
 *     timeline   what was tried when it was made, as JSON
 *     blob       what the backend saved
 *
 * A file is named by its key, written whole or not at all, and looked at with
 * suspicion: what is damaged or was meant for another key counts as not there.
 * Nothing in it says where or when it was made, so a folder can be moved.
 */
#ifndef IG_BASE_ENTRIES_H
#define IG_BASE_ENTRIES_H

#include <limits.h>

#include "base/file.h"

enum { IG_ENTRY_NAME_BYTES = 33 }; /* 32 hex digits and a 0 */

typedef struct ig_entry {
    ig_file_map map;
    const char *inputs, *timeline; /* lent by the map, not terminated */
    size_t inputs_bytes, timeline_bytes;
    const void *blob;
    size_t blob_bytes;
} ig_entry;

/* The key of these inputs, as the file's name. */
void ig_entry_name(const char *inputs, size_t bytes, char out[IG_ENTRY_NAME_BYTES]);

/* IG_ERR_IO: there is none; IG_ERR_FORMAT: it is damaged.  Marks it as used now. */
IG_MUST_CHECK ig_status ig_entry_open(const char *folder, const char *name, ig_entry *out);
void ig_entry_close(ig_entry *entry);

IG_MUST_CHECK ig_status ig_entry_write(const ig_allocator *a, const char *folder, const char *name,
                                       const ig_entry *entry);

/* An entry as the folder lists it. */
typedef struct ig_entry_info {
    char name[IG_ENTRY_NAME_BYTES];
    uint64_t bytes;
    int64_t used_ns; /* when it was last used */
} ig_entry_info;

/* The least recently used first; the caller frees the list.  A folder that is not there is empty.
 */
IG_MUST_CHECK ig_status ig_entries_list(const ig_allocator *a, const char *folder,
                                        ig_entry_info **out, size_t *out_count);
bool ig_entry_remove(const char *folder, const char *name);

/* Removes the least recently used until the rest takes no more than `most` bytes. */
IG_MUST_CHECK ig_status ig_entries_prune(const ig_allocator *a, const char *folder, uint64_t most,
                                         size_t *out_removed);

#endif
