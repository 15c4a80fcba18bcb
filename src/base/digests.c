#include "base/digests.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/user_dirs.h"

/* The identity of a file. */
typedef struct identity {
    uint64_t device, inode, size;
    int64_t mtime_ns, ctime_ns;
} identity;

typedef struct part {
    uint64_t offset, bytes;
    ig_digest digest;
} part;

/* A mapped file and its known digests. */
typedef struct source {
    char *path;
    identity id;
    part *parts;
    size_t n_parts, room;
    size_t last;  /* the last hit; the next query is usually for its successor */
    bool renamed; /* replaced atomically */
    bool changed;
} source;

typedef struct mapping {
    uintptr_t begin, end;
    uint64_t offset;
    size_t source;
} mapping;

struct ig_digests {
    const ig_allocator *allocator;
    char folder[PATH_MAX];
    source *sources; /* of all looks; files no longer mapped stay, to be written */
    size_t n_sources, sources_room;
    mapping *mappings; /* of the last look, ascending */
    size_t n_mappings, mappings_room;
    uint64_t read;
};

typedef struct file_head {
    char magic[8];
    uint64_t checksum; /* of everything after it */
    identity id;
    uint64_t path_bytes, n_parts;
} file_head;

static const char magic[8] = {'I', 'G', 'D', 'I', 'G', 'S', '1', '\n'};
static const char suffix[] = ".digests";
/* The coarsest timestamps of a file system. A file that is only replaced by rename needs just one
 * tick of the kernel's clock. */
static const int64_t settled_ns = 2000000000, settled_renamed_ns = 20000000;

/* ---- files ---- */

static int64_t nanoseconds(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }

static bool identify(const char *path, identity *out) {
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISREG(s.st_mode)) return false;
    memset(out, 0, sizeof *out);
    *out = (identity){s.st_dev, s.st_ino, (uint64_t)s.st_size, nanoseconds(s.st_mtim),
                      nanoseconds(s.st_ctim)};
    return true;
}

static bool same(const identity *a, const identity *b) { return memcmp(a, b, sizeof *a) == 0; }

static ig_digest digest_of(const void *bytes, size_t count) {
    const XXH128_hash_t hash = XXH3_128bits(bytes, count);
    return (ig_digest){hash.high64, hash.low64};
}

static bool file_of(const char *folder, const identity *id, char out[PATH_MAX]) {
    const ig_digest name = digest_of(id, sizeof *id);
    const int length = snprintf(out, PATH_MAX, "%s/%016" PRIx64 "%016" PRIx64 "%s", folder,
                                name.high, name.low, suffix);
    return length > 0 && length < PATH_MAX;
}

/* The header of a digest file, if the file is valid. */
static bool read_head(const ig_file_map *map, file_head *h) {
    if (map->size < sizeof *h) return false;
    memcpy(h, map->bytes, sizeof *h);
    const uint64_t left = map->size - sizeof *h, from = offsetof(file_head, id);
    return memcmp(h->magic, magic, sizeof magic) == 0 && h->path_bytes <= left &&
           h->path_bytes < PATH_MAX && h->n_parts == (left - h->path_bytes) / sizeof(part) &&
           (left - h->path_bytes) % sizeof(part) == 0 &&
           XXH3_64bits((const char *)map->bytes + from, map->size - from) == h->checksum;
}

static part part_at(const ig_file_map *map, const file_head *h, uint64_t i) {
    part p;
    memcpy(&p, (const char *)map->bytes + sizeof *h + h->path_bytes + i * sizeof p, sizeof p);
    return p;
}

/* Loads the remembered digests; none, if the file is damaged. */
static void recall(ig_digests *d, source *s) {
    char path[PATH_MAX];
    ig_file_map map;
    file_head h;
    if (!d->folder[0] || !file_of(d->folder, &s->id, path) || access(path, R_OK) != 0 ||
        ig_file_map_open(path, &map) != IG_OK)
        return;
    if (read_head(&map, &h) && same(&h.id, &s->id) &&
        IG_GROW(d->allocator, s->parts, &s->room, h.n_parts + 1))
        for (uint64_t i = 0; i < h.n_parts; i++) s->parts[s->n_parts++] = part_at(&map, &h, i);
    ig_file_map_close(&map);
}

static ig_status write_source(const ig_digests *d, const source *s, const char *path) {
    const uint64_t path_bytes = strlen(s->path), parts_bytes = s->n_parts * sizeof(part);
    const uint64_t all = sizeof(file_head) + path_bytes + parts_bytes;
    char *bytes = ig_alloc(d->allocator, all, 1);
    if (!bytes) return IG_FAIL(IG_ERR_MEMORY, "%s: digests", s->path);
    file_head h = {.id = s->id, .path_bytes = path_bytes, .n_parts = s->n_parts};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(bytes, &h, sizeof h);
    memcpy(bytes + sizeof h, s->path, path_bytes);
    memcpy(bytes + sizeof h + path_bytes, s->parts, parts_bytes);
    h.checksum = XXH3_64bits(bytes + offsetof(file_head, id), all - offsetof(file_head, id));
    memcpy(bytes, &h, sizeof h);
    ig_file_writer *writer = NULL;
    ig_status status = ig_file_writer_create(d->allocator, path, all, &writer);
    if (status == IG_OK) status = ig_file_writer_write(writer, 0, bytes, all);
    if (status == IG_OK) status = ig_file_writer_commit(writer);
    ig_file_writer_destroy(writer);
    ig_free(d->allocator, bytes);
    return status;
}

/* Only if the file has not changed for a while: two changes within one clock tick look like none.
 */
static void keep(const ig_digests *d, const source *s) {
    char path[PATH_MAX];
    identity now;
    struct timespec clock;
    clock_gettime(CLOCK_REALTIME, &clock);
    if (!s->changed || !d->folder[0] || !identify(s->path, &now) || !same(&now, &s->id) ||
        nanoseconds(clock) - s->id.ctime_ns < (s->renamed ? settled_renamed_ns : settled_ns) ||
        !file_of(d->folder, &s->id, path))
        return;
    if (ig_dir_make_private(d->folder) == IG_OK) (void)!write_source(d, s, path);
}

/* ---- what is mapped ---- */

static bool find_source(ig_digests *d, const char *path, const identity *id, size_t *out) {
    for (*out = 0; *out < d->n_sources; ++*out)
        if (same(&d->sources[*out].id, id)) return true;
    if (!IG_GROW(d->allocator, d->sources, &d->sources_room, d->n_sources + 1)) return false;
    source *s = &d->sources[d->n_sources];
    *s = (source){.path = ig_copy_text(d->allocator, path), .id = *id};
    if (!s->path) return false;
    recall(d, s);
    d->n_sources++;
    return true;
}

/* "7f..-7f.. r--p 00001000 fe:01 1234  /a/model.gguf": read-only, and still the file of that name.
 */
static void take_line(ig_digests *d, const char *line) {
    uintptr_t begin, end;
    uint64_t offset, inode;
    unsigned major, minor;
    char rights[5], path[PATH_MAX];
    identity id;
    mapping m;
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 " %4095[^\n]",
               &begin, &end, rights, &offset, &major, &minor, &inode, path) != 8)
        return;
    if (rights[0] != 'r' || rights[1] != '-' || rights[2] != '-' || path[0] != '/' || inode == 0 ||
        !identify(path, &id) || id.inode != inode || !find_source(d, path, &id, &m.source) ||
        !IG_GROW(d->allocator, d->mappings, &d->mappings_room, d->n_mappings + 1))
        return;
    m.begin = begin;
    m.end = end;
    m.offset = offset;
    d->mappings[d->n_mappings++] = m;
}

void ig_digests_look(ig_digests *d) {
    char line[PATH_MAX + 128];
    FILE *maps = fopen("/proc/self/maps", "re");
    d->n_mappings = 0;
    while (maps && fgets(line, sizeof line, maps)) take_line(d, line);
    if (maps) fclose(maps);
}

static const mapping *find_mapping(const ig_digests *d, const void *bytes, size_t count) {
    const uintptr_t at = (uintptr_t)bytes;
    for (size_t i = 0; i < d->n_mappings; i++)
        if (at >= d->mappings[i].begin && at < d->mappings[i].end)
            return count <= d->mappings[i].end - at ? &d->mappings[i] : NULL;
    return NULL;
}

/* ---- digests ---- */

static const part *find_part(source *s, uint64_t offset, uint64_t bytes) {
    for (size_t i = 0; i < s->n_parts; i++) {
        const size_t at = (s->last + 1 + i) % s->n_parts;
        if (s->parts[at].offset != offset || s->parts[at].bytes != bytes) continue;
        s->last = at;
        return &s->parts[at];
    }
    return NULL;
}

ig_digest ig_digests_of(ig_digests *d, const void *bytes, size_t count) {
    const mapping *m = find_mapping(d, bytes, count);
    source *s = m ? &d->sources[m->source] : NULL;
    const uint64_t offset = m ? m->offset + ((uintptr_t)bytes - m->begin) : 0;
    const part *known = s ? find_part(s, offset, count) : NULL;
    if (known) return known->digest;
    const ig_digest digest = digest_of(bytes, count);
    d->read += count;
    if (s && IG_GROW(d->allocator, s->parts, &s->room, s->n_parts + 1)) {
        s->parts[s->n_parts++] = (part){offset, count, digest};
        s->last = s->n_parts - 1;
        s->changed = true;
    }
    return digest;
}

bool ig_digests_knows(ig_digests *d, const char *path) {
    identity id;
    size_t at;
    return identify(path, &id) && find_source(d, path, &id, &at) &&
           find_part(&d->sources[at], 0, id.size);
}

void ig_digests_learn(ig_digests *d, const char *path, uint64_t bytes, ig_digest digest) {
    identity id;
    size_t at;
    if (!identify(path, &id) || id.size != bytes || !find_source(d, path, &id, &at)) return;
    source *s = &d->sources[at];
    if (!IG_GROW(d->allocator, s->parts, &s->room, s->n_parts + 1)) return;
    s->parts[s->n_parts++] = (part){0, bytes, digest};
    s->renamed = s->changed = true;
}

uint64_t ig_digests_read(const ig_digests *d) { return d->read; }

/* ---- beginning and end ---- */

ig_status ig_digests_create(const ig_allocator *a, const char *folder, ig_digests **out) {
    ig_digests *d = ig_alloc(a, 1, sizeof *d);
    if (!d) return IG_FAIL(IG_ERR_MEMORY, "digests");
    d->allocator = a;
    snprintf(d->folder, sizeof d->folder, "%s", strlen(folder) < PATH_MAX ? folder : "");
    *out = d;
    return IG_OK;
}

void ig_digests_destroy(ig_digests *d) {
    if (!d) return;
    for (size_t i = 0; i < d->n_sources; i++) {
        keep(d, &d->sources[i]);
        ig_free(d->allocator, d->sources[i].path);
        ig_free(d->allocator, d->sources[i].parts);
    }
    ig_free(d->allocator, d->sources);
    ig_free(d->allocator, d->mappings);
    ig_free(d->allocator, d);
}

/* ---- checking ---- */

static bool parts_are_true(const ig_file_map *hints, const file_head *h, const char *path) {
    ig_file_map map;
    bool right = true;
    if (ig_file_map_open(path, &map) != IG_OK) return false;
    for (uint64_t i = 0; i < h->n_parts && right; i++) {
        const part p = part_at(hints, h, i);
        right = p.offset <= map.size && p.bytes <= map.size - p.offset;
        if (!right) break;
        const ig_digest now = digest_of((const char *)map.bytes + p.offset, p.bytes);
        right = now.high == p.digest.high && now.low == p.digest.low;
    }
    ig_file_map_close(&map);
    return right;
}

static void verify_file(const char *file, bool reads, ig_digests_state *state) {
    ig_file_map map;
    file_head h;
    identity now;
    char path[PATH_MAX];
    if (ig_file_map_open(file, &map) != IG_OK) return;
    size_t *verdict = &state->wrong;
    if (read_head(&map, &h)) {
        snprintf(path, sizeof path, "%.*s", (int)h.path_bytes, (const char *)map.bytes + sizeof h);
        if (!identify(path, &now) || !same(&now, &h.id))
            verdict = &state->stale;
        else if (!reads || parts_are_true(&map, &h, path))
            verdict = &state->sound;
    }
    ++*verdict;
    ig_file_map_close(&map);
    if (verdict != &state->sound) (void)unlink(file);
}

static ig_digests_state verify_all(const char *folder, bool reads) {
    ig_digests_state state = {0};
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        char path[PATH_MAX];
        const size_t length = strlen(e->d_name), tail = sizeof suffix - 1;
        if (length <= tail || strcmp(e->d_name + length - tail, suffix) != 0) continue;
        const int bytes = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (bytes > 0 && (size_t)bytes < sizeof path) verify_file(path, reads, &state);
    }
    if (dir) closedir(dir);
    return state;
}

ig_digests_state ig_digests_verify(const char *folder) { return verify_all(folder, true); }

void ig_digests_prune(const char *folder) { (void)verify_all(folder, false); }
