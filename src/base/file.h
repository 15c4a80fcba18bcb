/*
 * file.h - whole files: mapped to be read, replaced to be written.
 *
 * A reader of a path that is being written sees the old file or the new one,
 * never a mix, whatever happens to the writer.  The new bytes go to
 * "<path>.saving" in the same directory, to the disk, and only then take the
 * name over:
 *
 *     create      <path>.saving, locked, with room for all bytes
 *     write       any part, in any order; parts never written are zeros
 *     commit      fsync, rename to <path>, fsync the directory
 *
 * A writer that was killed leaves "<path>.saving" behind, and the next one takes
 * it for itself.  The lock tells it from a writer that is still at work.
 */
#ifndef IG_BASE_FILE_H
#define IG_BASE_FILE_H

#include "base/alloc.h"

/* A file's bytes, read-only.  Valid until closed, as long as nobody shortens the file in place. */
typedef struct ig_file_map {
    const void *bytes; /* never NULL once open, page-aligned unless the file is empty */
    uint64_t size;
} ig_file_map;

/* Two names of one file, which is there or will be; devices take whatever comes. */
bool ig_file_is_same(const char *a, const char *b);

/* Whether the file begins with these bytes; one that cannot be read, or is no regular file, does
 * not: whoever opens it next says why. */
bool ig_file_begins(const char *path, const char *bytes, size_t n_bytes);

/* Refuses what is not a regular file. */
IG_MUST_CHECK ig_status ig_file_map_open(const char *path, ig_file_map *out);
void ig_file_map_close(ig_file_map *map); /* a zeroed one is fine */

/* Lets the bytes be written to: pages that are become the process's own, the file stays as it is.
 */
IG_MUST_CHECK ig_status ig_file_map_make_writable(const ig_file_map *map, const char *path);

/* Told how many bytes of a file have been read so far; false: that is enough, and reading ends with
 * IG_ERR_CANCELLED.  Without tell() nobody asks. */
typedef struct ig_file_watch {
    bool (*tell)(void *user, uint64_t done, uint64_t total);
    void *user;
} ig_file_watch;

/* The same as open with a copy of the bytes: nobody can change them, and all of them take memory.
 */
IG_MUST_CHECK ig_status ig_file_map_read(const char *path, ig_file_watch watch, ig_file_map *out);

/* Keeps the bytes in memory until the close; `path` is for messages. */
IG_MUST_CHECK ig_status ig_file_map_lock(const ig_file_map *map, const char *path,
                                         ig_file_watch watch);

typedef struct ig_file_writer ig_file_writer;

/* Reserves `size` bytes, so that a full disk shows here most often.  A link is followed; a file
 * that is replaced hands its permissions on. */
IG_MUST_CHECK ig_status ig_file_writer_create(const ig_allocator *a, const char *path,
                                              uint64_t size, ig_file_writer **out);

/* Where it writes until the commit: a file that is the writer's alone.  Lent. */
const char *ig_file_writer_temporary(const ig_file_writer *writer);

/* The bytes must lie within the size. */
IG_MUST_CHECK ig_status ig_file_writer_write(ig_file_writer *writer, uint64_t offset,
                                             const void *bytes, uint64_t n_bytes);

/* Puts the new file in the place of the old one.  The writer still has to be destroyed. */
IG_MUST_CHECK ig_status ig_file_writer_commit(ig_file_writer *writer);

/* Without a commit, takes away all that was written. */
void ig_file_writer_destroy(ig_file_writer *writer);

#endif
