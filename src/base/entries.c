#include "base/entries.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { FORMAT = 1 };

typedef struct header {
    char magic[8];
    uint32_t format, unused;
    char name[32];                   /* the key, in hex */
    uint64_t inputs, timeline, blob; /* bytes */
    uint64_t checksum;               /* of what follows */
} header;

static const char magic[8] = {'I', 'G', 'P', 'R', 'O', 'G', '\r', '\n'};

static const char suffix[] = ".program";

void ig_entry_name(const char *inputs, size_t bytes, char out[IG_ENTRY_NAME_BYTES]) {
    const XXH128_hash_t hash = XXH3_128bits(inputs, bytes);
    snprintf(out, IG_ENTRY_NAME_BYTES, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

static bool path_of(const char *folder, const char *name, char out[PATH_MAX]) {
    const int length = snprintf(out, PATH_MAX, "%s/%s%s", folder, name, suffix);
    return length > 0 && length < PATH_MAX;
}

/* ---- reading ---- */

/* Lengths are added up without running over, and the inputs must be those of the name. */
static bool check(const ig_file_map *map, const char *name, header *h) {
    char key[IG_ENTRY_NAME_BYTES];
    if (map->size < sizeof *h) return false;
    memcpy(h, map->bytes, sizeof *h);
    const uint64_t left = map->size - sizeof *h;
    if (memcmp(h->magic, magic, sizeof magic) != 0 || h->format != FORMAT ||
        memcmp(h->name, name, sizeof h->name) != 0 || h->inputs > left ||
        h->timeline > left - h->inputs || h->blob != left - h->inputs - h->timeline)
        return false;
    const char *body = (const char *)map->bytes + sizeof *h;
    ig_entry_name(body, h->inputs, key);
    return strcmp(key, name) == 0 && XXH3_64bits(body, left) == h->checksum;
}

ig_status ig_entry_open(const char *folder, const char *name, ig_entry *out) {
    char path[PATH_MAX];
    header h;
    ig_file_map map;
    if (strlen(name) != sizeof h.name || !path_of(folder, name, path))
        return IG_FAIL(IG_ERR_IO, "%s: there is no such entry", name);
    IG_TRY(ig_file_map_open(path, &map));
    if (!check(&map, name, &h)) {
        ig_file_map_close(&map);
        return IG_FAIL(IG_ERR_FORMAT, "%s: is damaged, or no entry", path);
    }
    const char *body = (const char *)map.bytes + sizeof h;
    *out = (ig_entry){.map = map,
                      .inputs = body,
                      .timeline = body + h.inputs,
                      .inputs_bytes = h.inputs,
                      .timeline_bytes = h.timeline,
                      .blob = body + h.inputs + h.timeline,
                      .blob_bytes = h.blob};
    (void)utimensat(AT_FDCWD, path, NULL, 0); /* who cannot say so has it pruned earlier */
    return IG_OK;
}

void ig_entry_close(ig_entry *entry) {
    ig_file_map_close(&entry->map);
    *entry = (ig_entry){0};
}

/* ---- writing ---- */

static uint64_t checksum_of(const ig_entry *e) {
    XXH3_state_t *state = XXH3_createState();
    if (!state) return 0; /* which no reader takes for right */
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, e->inputs, e->inputs_bytes);
    XXH3_64bits_update(state, e->timeline, e->timeline_bytes);
    XXH3_64bits_update(state, e->blob, e->blob_bytes);
    const uint64_t sum = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return sum;
}

ig_status ig_entry_write(const ig_allocator *a, const char *folder, const char *name,
                         const ig_entry *e) {
    char path[PATH_MAX];
    header h = {.format = FORMAT,
                .inputs = e->inputs_bytes,
                .timeline = e->timeline_bytes,
                .blob = e->blob_bytes,
                .checksum = checksum_of(e)};
    const struct {
        const void *bytes;
        uint64_t count;
    } pieces[] = {{&h, sizeof h},
                  {e->inputs, e->inputs_bytes},
                  {e->timeline, e->timeline_bytes},
                  {e->blob, e->blob_bytes}};
    uint64_t size = 0, at = 0;
    if (strlen(name) != sizeof h.name || !path_of(folder, name, path))
        return IG_FAIL(IG_ERR_IO, "%s/%s: cannot be", folder, name);
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.name, name, sizeof h.name);
    for (size_t i = 0; i < 4; i++) size += pieces[i].count;
    ig_file_writer *writer = NULL;
    IG_TRY(ig_file_writer_create(a, path, size, &writer));
    ig_status status = IG_OK;
    for (size_t i = 0; i < 4 && status == IG_OK; at += pieces[i++].count)
        status = ig_file_writer_write(writer, at, pieces[i].bytes, pieces[i].count);
    if (status == IG_OK) status = ig_file_writer_commit(writer);
    ig_file_writer_destroy(writer);
    return status;
}

/* ---- the folder ---- */

static int older_first(const void *x, const void *y) {
    const ig_entry_info *a = x, *b = y;
    if (a->used_ns != b->used_ns) return a->used_ns < b->used_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Whether a file's name is that of an entry. */
static bool is_entry(const char *file) {
    return strlen(file) == 32 + sizeof suffix - 1 && strcmp(file + 32, suffix) == 0 &&
           strspn(file, "0123456789abcdef") == 32;
}

ig_status ig_entries_list(const ig_allocator *a, const char *folder, ig_entry_info **out,
                          size_t *out_count) {
    ig_entry_info *list = NULL;
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
        ig_entry_info *new = &list[count++];
        memcpy(new->name, e->d_name, 32);
        new->name[32] = '\0';
        new->bytes = (uint64_t)info.st_size;
        new->used_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    }
    if (dir) closedir(dir);
    if (count > 1) qsort(list, count, sizeof *list, older_first);
    *out = list;
    *out_count = count;
    return IG_OK;
}

bool ig_entry_remove(const char *folder, const char *name) {
    char path[PATH_MAX];
    return path_of(folder, name, path) && unlink(path) == 0;
}

ig_status ig_entries_prune(const ig_allocator *a, const char *folder, uint64_t most,
                           size_t *out_removed) {
    ig_entry_info *list = NULL;
    size_t count = 0;
    uint64_t total = 0;
    *out_removed = 0;
    IG_TRY(ig_entries_list(a, folder, &list, &count));
    for (size_t i = 0; i < count; i++) total += list[i].bytes;
    for (size_t i = 0; i < count && total > most; i++) {
        total -= list[i].bytes;
        *out_removed += ig_entry_remove(folder, list[i].name);
    }
    ig_free(a, list);
    return IG_OK;
}
