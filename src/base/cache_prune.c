/* The folder of the compile cache: listing, pruning, locks and counters. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cache_folder.h"

static const char saving[] = ".saving"; /* file.h: an unfinished write */

/* ---- listing ---- */

static int older_first(const void *x, const void *y) {
    const ig_cache_entry_info *a = x, *b = y;
    if (a->used_ns != b->used_ns) return a->used_ns < b->used_ns ? -1 : 1;
    return strcmp(a->file, b->file);
}

/* "NAME.EXTENSION", finished or not. */
static bool begins_like_entry(const char *file) {
    return strlen(file) < IG_ENTRY_FILE_BYTES && strspn(file, "0123456789abcdef") == 32 &&
           file[32] == '.';
}

static bool is_unfinished(const char *file) {
    const size_t length = strlen(file), tail = sizeof saving - 1;
    return begins_like_entry(file) && length > tail && strcmp(file + length - tail, saving) == 0;
}

static bool is_entry(const char *file) { return begins_like_entry(file) && !is_unfinished(file); }

ig_status ig_cache_entries_list(const ig_allocator *a, const char *folder,
                                ig_cache_entry_info **out, size_t *out_count) {
    ig_cache_entry_info *list = NULL;
    size_t count = 0, room = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        struct stat info;
        if (!is_entry(e->d_name) || fstatat(dirfd(dir), e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (!IG_GROW(a, list, &room, count + 1)) {
            closedir(dir);
            ig_free(a, list);
            return IG_FAIL(IG_ERR_MEMORY, "%s: %zu entries", folder, count);
        }
        ig_cache_entry_info *new = &list[count++];
        memcpy(new->file, e->d_name, strlen(e->d_name) + 1); /* fits: is_entry() checked */
        new->bytes = (uint64_t)info.st_size;
        new->used_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    }
    if (dir) closedir(dir);
    if (count > 1) qsort(list, count, sizeof *list, older_first);
    *out = list;
    *out_count = count;
    return IG_OK;
}

/* ---- removing ---- */

bool ig_cache_entry_remove(const char *folder, const char *file) {
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, file);
    return is_entry(file) && length > 0 && (size_t)length < sizeof path && unlink(path) == 0;
}

/* A running writer holds a lock on its file. */
static void remove_unfinished(const char *folder) {
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        if (!is_unfinished(e->d_name)) continue;
        const int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) (void)unlinkat(dirfd(dir), e->d_name, 0);
        if (fd >= 0) close(fd);
    }
    if (dir) closedir(dir);
}

ig_status ig_cache_entries_prune(const ig_allocator *a, const char *folder, uint64_t most,
                                 size_t *out_removed) {
    ig_cache_entry_info *list = NULL;
    size_t count = 0;
    uint64_t total = 0;
    *out_removed = 0;
    remove_unfinished(folder);
    IG_TRY(ig_cache_entries_list(a, folder, &list, &count));
    for (size_t i = 0; i < count; i++) total += list[i].bytes;
    for (size_t i = 0; i < count && total > most; i++) {
        total -= list[i].bytes;
        *out_removed += ig_cache_entry_remove(folder, list[i].file);
    }
    ig_free(a, list);
    return IG_OK;
}

/* ---- locks ---- */

/* Each name maps to one byte of the lock file, so locks leave nothing behind and the kernel
 * releases those of dead processes. The first byte is for the counters. */
static bool lock_byte(const char *folder, uint64_t byte, int command, ig_cache_entry_lock *out) {
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/lock", folder);
    out->fd = length > 0 && (size_t)length < sizeof path
                  ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)
                  : -1;
    if (out->fd < 0) return true;
    struct flock where = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
    int failed;
    do {
        failed = fcntl(out->fd, command, &where);
    } while (failed != 0 && errno == EINTR);
    const bool taken = failed != 0 && (errno == EAGAIN || errno == EACCES);
    if (taken) ig_cache_entry_unlock(out);
    return !taken;
}

bool ig_cache_entry_try_lock(const char *folder, const char *name, ig_cache_entry_lock *out) {
    const uint64_t byte =
        XXH3_64bits(name, strlen(name)) >> 2 | 1; /* never the byte of the counters */
    return lock_byte(folder, byte, F_OFD_SETLK, out);
}

void ig_cache_entry_unlock(ig_cache_entry_lock *lock) {
    if (lock->fd >= 0) close(lock->fd);
    lock->fd = -1;
}

/* ---- counts ---- */

/* The layout of the file, written in one write(), so that no reader sees a partial update. */
typedef struct counts_file {
    ig_cache_entry_counts counts;
    uint64_t checksum;
} counts_file;

static uint64_t checksum_of(const ig_cache_entry_counts *c) { return XXH3_64bits(c, sizeof *c); }

static int open_counts(const char *folder, int flags) {
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/counts", folder);
    if (length < 0 || (size_t)length >= sizeof path) return -1;
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static ig_cache_entry_counts read_counts(int fd) {
    counts_file f = {0};
    const bool whole = pread(fd, &f, sizeof f, 0) == (ssize_t)sizeof f;
    return whole && f.checksum == checksum_of(&f.counts) ? f.counts : (ig_cache_entry_counts){0};
}

ig_cache_entry_counts ig_cache_entries_counts(const char *folder) {
    const int fd = open_counts(folder, O_RDONLY);
    const ig_cache_entry_counts c = fd >= 0 ? read_counts(fd) : (ig_cache_entry_counts){0};
    if (fd >= 0) close(fd);
    return c;
}

void ig_cache_entries_count(const char *folder, const ig_cache_entry_counts *more) {
    ig_cache_entry_lock lock = {-1};
    const int fd = open_counts(folder, O_RDWR | O_CREAT);
    if (fd < 0) return; /* counts are optional */
    (void)lock_byte(folder, 0, F_OFD_SETLKW, &lock);
    counts_file f = {.counts = read_counts(fd)};
    f.counts.hits += more->hits;
    f.counts.misses += more->misses;
    f.counts.damaged += more->damaged;
    f.counts.stored += more->stored;
    f.counts.compile_ns += more->compile_ns;
    f.counts.weights_found += more->weights_found;
    f.counts.weights_packed += more->weights_packed;
    f.checksum = checksum_of(&f.counts);
    (void)!pwrite(fd, &f, sizeof f, 0);
    ig_cache_entry_unlock(&lock);
    close(fd);
}
