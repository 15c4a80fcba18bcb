#include "base/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- Reading ---- */

static ig_status io_error(const char *path, const char *what) {
    const ig_status code = errno == ENOMEM ? IG_ERR_MEMORY : IG_ERR_IO;
    return IG_FAIL(code, "%s: cannot %s: %s", path, what, strerror(errno));
}

/* The size of a regular file. */
static ig_status size_of(int fd, const char *path, size_t *out) {
    struct stat info;
    if (fstat(fd, &info) != 0) return io_error(path, "look at it");
    if (S_ISDIR(info.st_mode)) return IG_FAIL(IG_ERR_IO, "%s: is a directory", path);
    if (!S_ISREG(info.st_mode)) return IG_FAIL(IG_ERR_IO, "%s: is not a regular file", path);
    if ((uint64_t)info.st_size > SIZE_MAX)
        return IG_FAIL(IG_ERR_MEMORY, "%s: %lld bytes are more than this machine can address", path,
                       (long long)info.st_size);
    *out = (size_t)info.st_size;
    return IG_OK;
}

static ig_status map_descriptor(int fd, const char *path, ig_file_watch watch, size_t bytes,
                                ig_file_map *out) {
    (void)watch; /* nothing is read yet */
    void *mapped = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapped == MAP_FAILED) return io_error(path, "map it");
    *out = (ig_file_map){mapped, bytes};
    return IG_OK;
}

enum { PIECE = 16 << 20 }; /* bytes between two progress calls */

static ig_status tell(ig_file_watch watch, const char *path, size_t done, size_t total) {
    if (!watch.tell || watch.tell(watch.user, done, total)) return IG_OK;
    return IG_FAIL(IG_ERR_CANCELLED, "%s: reading it was stopped", path);
}

static ig_status read_whole(int fd, const char *path, ig_file_watch watch, char *to, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        const size_t most = bytes - at < PIECE ? bytes - at : PIECE;
        const ssize_t n = pread(fd, to + at, most, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return io_error(path, "read it");
        if (n == 0)
            return IG_FAIL(IG_ERR_FORMAT, "%s: became shorter while it was read: %zu of %zu bytes",
                           path, at, bytes);
        at += (size_t)n;
        IG_TRY(tell(watch, path, at, bytes));
    }
    return IG_OK;
}

static ig_status read_descriptor(int fd, const char *path, ig_file_watch watch, size_t bytes,
                                 ig_file_map *out) {
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return io_error(path, "have memory to read it");
    const ig_status status = read_whole(fd, path, watch, room, bytes);
    if (status == IG_OK)
        *out = (ig_file_map){room, bytes};
    else
        munmap(room, bytes);
    return status;
}

typedef ig_status get_fn(int fd, const char *path, ig_file_watch watch, size_t bytes,
                         ig_file_map *out);

static ig_status open_file(const char *path, get_fn *get, ig_file_watch watch, ig_file_map *out) {
    /* Without O_NONBLOCK, opening a pipe would wait for a writer. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return io_error(path, "open it");
    size_t bytes = 0;
    ig_status status = size_of(fd, path, &bytes);
    if (status == IG_OK && bytes == 0)
        *out = (ig_file_map){"", 0}; /* an empty file cannot be mapped */
    else if (status == IG_OK)
        status = get(fd, path, watch, bytes, out);
    close(fd);
    return status;
}

bool ig_file_is_same(const char *a, const char *b) {
    struct stat x, y;
    const bool there = stat(a, &x) == 0, too = stat(b, &y) == 0;
    if (there != too) return false;
    if (!there) return strcmp(a, b) == 0;
    return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

ig_status ig_file_map_open(const char *path, ig_file_map *out) {
    return open_file(path, map_descriptor, (ig_file_watch){0}, out);
}

ig_status ig_file_map_read(const char *path, ig_file_watch watch, ig_file_map *out) {
    return open_file(path, read_descriptor, watch, out);
}

bool ig_file_begins(const char *path, const char *bytes, size_t n_bytes) {
    ig_file_map map = {0};
    if (ig_file_map_open(path, &map) != IG_OK) return false;
    const bool begins = map.size >= n_bytes && memcmp(map.bytes, bytes, n_bytes) == 0;
    ig_file_map_close(&map);
    return begins;
}

ig_status ig_file_map_lock(const ig_file_map *map, const char *path, ig_file_watch watch) {
    const size_t size = (size_t)map->size;
    size_t at = 0;
    while (at < size) {
        const size_t bytes = size - at < PIECE ? size - at : PIECE;
        if (mlock((const char *)map->bytes + at, bytes) != 0) break;
        at += bytes;
        IG_TRY(tell(watch, path, at, size));
    }
    if (at == size) return IG_OK;
    struct rlimit limit = {0};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    return IG_FAIL(
        IG_ERR_MEMORY, "%s: its %llu bytes cannot be locked in memory, the limit is %llu: %s", path,
        (unsigned long long)map->size, (unsigned long long)limit.rlim_cur, strerror(errno));
}

void ig_file_map_close(ig_file_map *map) {
    if (map->size > 0) munmap((void *)map->bytes, (size_t)map->size);
    *map = (ig_file_map){0};
}

ig_status ig_file_map_make_writable(const ig_file_map *map, const char *path) {
    if (map->size > 0 && mprotect((void *)map->bytes, (size_t)map->size, PROT_READ | PROT_WRITE))
        return io_error(path, "map it to be written to");
    return IG_OK;
}

/* ---- Writing ---- */

static const char suffix[] = ".saving";

struct ig_file_writer {
    const ig_allocator *allocator;
    char *path;                        /* for messages, with links resolved */
    char *temporary;                   /* path plus suffix */
    const char *name, *temporary_name; /* their last components, for *at() calls */
    uint64_t size;
    int directory, fd;   /* -1: not open */
    bool owns_temporary; /* created or taken over, not yet renamed */
};

/* Adds the sizes to the message where they matter. */
static ig_status write_error(const ig_file_writer *w, const char *what) {
    const int error = errno;
    const unsigned long long size = w->size;
    if (error == EFBIG) {
        struct rlimit limit = {0};
        getrlimit(RLIMIT_FSIZE, &limit);
        return IG_FAIL(IG_ERR_IO, "%s: cannot %s: %s: %llu bytes needed, the limit is %llu",
                       w->path, what, strerror(error), size, (unsigned long long)limit.rlim_cur);
    }
    if (error == ENOSPC || error == EDQUOT) {
        struct statvfs disk = {0};
        fstatvfs(w->directory, &disk);
        return IG_FAIL(IG_ERR_IO, "%s: cannot %s: %s: %llu bytes needed, %llu free", w->path, what,
                       strerror(error), size, (unsigned long long)disk.f_bavail * disk.f_frsize);
    }
    errno = error;
    return io_error(w->path, what);
}

/* Devices and directories are not replaced; a link is followed. */
static ig_status resolve_path(const ig_allocator *a, const char *path, char **out) {
    char target[PATH_MAX];
    struct stat info;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) {
        if (!realpath(path, target)) return io_error(path, "follow the link");
        path = target;
    }
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return IG_FAIL(IG_ERR_IO, "%s: is there already and is not a regular file", path);

    *out = ig_copy_text(a, path);
    return *out ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its name", path);
}

static ig_status open_directory(ig_file_writer *w) {
    assert(w->path);
    const char *slash = strrchr(w->path, '/');
    w->name = slash ? slash + 1 : w->path;
    if (*w->name == '\0') return IG_FAIL(IG_ERR_IO, "\"%s\": is no name of a file", w->path);

    const size_t name_at = (size_t)(w->name - w->path), bytes = strlen(w->path) + sizeof suffix;
    w->temporary = ig_alloc(w->allocator, bytes, 1);
    if (!w->temporary) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its name", w->path);

    /* The same text, cut before the name, is the directory. */
    memcpy(w->temporary, w->path, name_at);
    w->directory = open(name_at ? w->temporary : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->directory < 0) return io_error(w->path, "open the directory of");
    snprintf(w->temporary, bytes, "%s%s", w->path, suffix);
    w->temporary_name = w->temporary + name_at;
    return IG_OK;
}

static bool is_named(const ig_file_writer *w) {
    struct stat by_name, opened;
    return fstatat(w->directory, w->temporary_name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstat(w->fd, &opened) == 0 && by_name.st_ino == opened.st_ino &&
           by_name.st_dev == opened.st_dev;
}

/*
 * Creates the temporary file or takes over that of a killed writer. Between open and lock, another
 * writer may have renamed the file that we opened; then the name is free or another file's, and we
 * start again.
 */
static ig_status open_temporary(ig_file_writer *w) {
    assert(w->temporary_name);
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    for (;;) {
        w->fd = openat(w->directory, w->temporary_name, flags, 0666);
        if (w->fd < 0) return io_error(w->temporary, "create it");
        /* Without file locks, only the protection from a second writer is lost. */
        if (flock(w->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            return IG_FAIL(IG_ERR_IO, "%s: another process is writing it right now", w->path);
        if (is_named(w)) break;
        close(w->fd);
        w->fd = -1;
    }
    struct stat info;
    if (fstat(w->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return IG_FAIL(IG_ERR_IO, "%s: is in the way and is not a regular file", w->temporary);
    w->owns_temporary = true;
    return IG_OK;
}

/* A private file stays private. */
static ig_status copy_permissions(const ig_file_writer *w) {
    struct stat info;
    if (fstatat(w->directory, w->name, &info, 0) != 0) return IG_OK; /* no previous file */
    if (fchmod(w->fd, info.st_mode & 0777) != 0) return write_error(w, "set the permissions of");
    return IG_OK;
}

static ig_status reserve(const ig_file_writer *w) {
    if (w->size > INT64_MAX) return IG_FAIL(IG_ERR_ARGUMENT, "%s: no file is so large", w->path);
    if (ftruncate(w->fd, 0) != 0) return write_error(w, "empty");
    if (w->size == 0) return IG_OK;

    int failed;
    do {
        failed = fallocate(w->fd, 0, 0, (off_t)w->size);
    } while (failed != 0 && errno == EINTR);
    /* If space cannot be reserved, only the size is set, and a later write fails instead. */
    if (failed != 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
        failed = ftruncate(w->fd, (off_t)w->size);
    return failed != 0 ? write_error(w, "write") : IG_OK;
}

ig_status ig_file_writer_create(const ig_allocator *a, const char *path, uint64_t size,
                                ig_file_writer **out) {
    ig_file_writer *w = ig_alloc(a, 1, sizeof *w);
    if (!w) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to write it", path);
    *w = (ig_file_writer){.allocator = a, .size = size, .directory = -1, .fd = -1};

    ig_status status = resolve_path(a, path, &w->path);
    if (status == IG_OK) status = open_directory(w);
    if (status == IG_OK) status = open_temporary(w);
    if (status == IG_OK) status = copy_permissions(w);
    if (status == IG_OK) status = reserve(w);
    if (status == IG_OK)
        *out = w;
    else
        ig_file_writer_destroy(w);
    return status;
}

const char *ig_file_writer_temporary(const ig_file_writer *w) { return w->temporary; }

ig_status ig_file_writer_write(ig_file_writer *w, uint64_t offset, const void *bytes,
                               uint64_t n_bytes) {
    assert(offset <= w->size && n_bytes <= w->size - offset);
    const char *next = bytes;
    while (n_bytes > 0) {
        const size_t most = n_bytes < SSIZE_MAX ? (size_t)n_bytes : SSIZE_MAX;
        const ssize_t written = pwrite(w->fd, next, most, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return write_error(w, "write");
        next += written;
        offset += (uint64_t)written;
        n_bytes -= (uint64_t)written;
    }
    return IG_OK;
}

static bool sync_to_disk(int fd) {
    int failed;
    do {
        failed = fsync(fd);
    } while (failed != 0 && errno == EINTR);
    return failed == 0;
}

ig_status ig_file_writer_commit(ig_file_writer *w) {
    if (!sync_to_disk(w->fd)) return write_error(w, "write");

    if (renameat(w->directory, w->temporary_name, w->directory, w->name) != 0)
        return write_error(w, "replace");
    w->owns_temporary = false;
    /* EINVAL: this file system cannot fsync a directory. */
    if (!sync_to_disk(w->directory) && errno != EINVAL)
        return write_error(w, "bring to the disk the directory of");
    return IG_OK;
}

void ig_file_writer_destroy(ig_file_writer *w) {
    if (!w) return;
    if (w->owns_temporary) unlinkat(w->directory, w->temporary_name, 0);
    if (w->fd >= 0) close(w->fd);
    if (w->directory >= 0) close(w->directory);
    ig_free(w->allocator, w->temporary);
    ig_free(w->allocator, w->path);
    ig_free(w->allocator, w);
}
