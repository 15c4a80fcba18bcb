/*
 * file.h - reads files by mapping and replaces them atomically.
 *
 * A reader of a path that is being written sees the old file or the new one, never a mix, whatever
 * happens to the writer. The new bytes go to "<path>.saving" in the same directory, are fsynced,
 * and only then renamed:
 *
 *     create      <path>.saving, locked, with room for all bytes
 *     write       any range, in any order; ranges never written are zeros
 *     commit      fsync, rename to <path>, fsync the directory
 *
 * A killed writer leaves "<path>.saving", and the next one takes it over. The lock distinguishes it
 * from a running writer.
 */
#ifndef IG_BASE_FILE_H
#define IG_BASE_FILE_H

#include "base/alloc.h"

/* The bytes of a file, read-only, valid until closed as long as the file is not truncated in
 * place. */
typedef struct ig_file_map {
    const void *bytes; /* never NULL once open, page-aligned unless the file is empty */
    uint64_t size;
} ig_file_map;

/* Whether two paths name the same file, existing or not. Devices never do. */
bool ig_file_is_same(const char *a, const char *b);

/* Whether the file begins with these bytes. False for a file that cannot be read or is not
 * regular: opening it reports the reason. */
bool ig_file_begins(const char *path, const char *bytes, size_t n_bytes);

/* Refuses anything but a regular file. */
IG_MUST_CHECK ig_status ig_file_map_open(const char *path, ig_file_map *out);
void ig_file_map_close(ig_file_map *map); /* a zeroed one is fine */

/* Makes the mapping writable, copy-on-write: the file does not change. */
IG_MUST_CHECK ig_status ig_file_map_make_writable(const ig_file_map *map, const char *path);

/* Called with the number of bytes read so far; false stops with IG_ERR_CANCELLED. tell NULL: no
 * callback. */
typedef struct ig_file_watch {
    bool (*tell)(void *user, uint64_t done, uint64_t total);
    void *user;
} ig_file_watch;

/* Like open, but with a private copy of the bytes that other processes cannot change. */
IG_MUST_CHECK ig_status ig_file_map_read(const char *path, ig_file_watch watch, ig_file_map *out);

/* Locks the bytes in RAM until close; `path` is for messages. */
IG_MUST_CHECK ig_status ig_file_map_lock(const ig_file_map *map, const char *path,
                                         ig_file_watch watch);

typedef struct ig_file_writer ig_file_writer;

/* Reserves `size` bytes, so that a full disk usually fails here. Follows links; the new file keeps
 * the permissions of the old one. */
IG_MUST_CHECK ig_status ig_file_writer_create(const ig_allocator *a, const char *path,
                                              uint64_t size, ig_file_writer **out);

/* The path written to until the commit, exclusive to the writer. Lent. */
const char *ig_file_writer_temporary(const ig_file_writer *writer);

/* The range must lie within the size. */
IG_MUST_CHECK ig_status ig_file_writer_write(ig_file_writer *writer, uint64_t offset,
                                             const void *bytes, uint64_t n_bytes);

/* Replaces the old file. The writer still has to be destroyed. */
IG_MUST_CHECK ig_status ig_file_writer_commit(ig_file_writer *writer);

/* Without a commit, removes the temporary file. */
void ig_file_writer_destroy(ig_file_writer *writer);

#endif
