#include "base/cache_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <xxhash.h>

#include "ingot/backend.h"

enum { FORMAT = 2, PIECES = 6 + 4 * IG_ENTRY_MOST_PARTS }; /* each put() adds two */

typedef struct header {
    char magic[8];
    uint32_t format, abi;
    char name[32];             /* the key, in hex */
    uint64_t inputs, timeline; /* bytes */
    uint64_t n_parts, bytes;   /* everything after the header */
    uint64_t checksum;         /* of those bytes */
} header;

/* As stored in the file; offsets count from the end of the header. */
typedef struct record {
    char name[32];
    uint64_t inputs_at, inputs_bytes, blob_at, blob_bytes;
} record;

static const int64_t mark_every = 3600; /* seconds */

static const char magic[8] = {'I', 'G', 'P', 'R', 'O', 'G', '\r', '\n'};

/* ---- names ---- */

void ig_cache_entry_name(const char *inputs, size_t bytes, char out[IG_ENTRY_NAME_BYTES]) {
    const XXH128_hash_t hash = XXH3_128bits(inputs, bytes);
    snprintf(out, IG_ENTRY_NAME_BYTES, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

static bool is_extension(const char *s) {
    const size_t length = strlen(s);
    return length > 0 && length < 16 &&
           strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789") == length && strcmp(s, "saving") != 0;
}

void ig_cache_entry_file(const char *name, const char *extension, char out[IG_ENTRY_FILE_BYTES]) {
    snprintf(out, IG_ENTRY_FILE_BYTES, "%.32s.%s", name,
             extension && is_extension(extension) ? extension : "program");
}

/* "NAME.EXTENSION" without path separators. */
static bool is_file(const char *file) {
    return strspn(file, "0123456789abcdef") == 32 && file[32] == '.' && is_extension(file + 33);
}

static bool path_of(const char *folder, const char *file, char out[PATH_MAX]) {
    const int length = snprintf(out, PATH_MAX, "%s/%s", folder, file);
    return is_file(file) && length > 0 && length < PATH_MAX;
}

/* ---- reading ---- */

static const char *body_of(const ig_file_map *map) {
    return (const char *)map->bytes + sizeof(header);
}

static record record_at(const ig_cache_entry *e, uint32_t i) {
    record r;
    const char *first = body_of(&e->map) + e->inputs_bytes + e->timeline_bytes;
    memcpy(&r, first + i * sizeof r, sizeof r);
    return r;
}

static bool is_within(uint64_t at, uint64_t bytes, uint64_t all) {
    return at <= all && bytes <= all - at;
}

/* Sums lengths with overflow checks; the inputs must hash to the name. */
static bool check(const ig_file_map *map, const char *name, header *h) {
    char key[IG_ENTRY_NAME_BYTES];
    if (map->size < sizeof *h) return false;
    memcpy(h, map->bytes, sizeof *h);
    const uint64_t left = map->size - sizeof *h;
    if (memcmp(h->magic, magic, sizeof magic) != 0 || h->format != FORMAT ||
        h->abi != IG_BACKEND_ABI || memcmp(h->name, name, sizeof h->name) != 0 ||
        h->bytes != left || h->inputs > left || h->timeline > left - h->inputs ||
        h->n_parts > IG_ENTRY_MOST_PARTS ||
        h->n_parts * sizeof(record) > left - h->inputs - h->timeline)
        return false;
    ig_cache_entry_name(body_of(map), h->inputs, key);
    return memcmp(key, name, sizeof h->name) == 0;
}

static ig_digest digest_of(XXH128_hash_t hash) { return (ig_digest){hash.high64, hash.low64}; }

/* Verifies the checksum, unless it was verified before and the file has not changed since. */
static bool check_sum(const ig_file_map *map, const header *h, const char *path, ig_digests *d) {
    if (d && ig_digests_knows(d, path)) return true;
    if (XXH3_64bits(body_of(map), map->size - sizeof *h) != h->checksum) return false;
    if (d) ig_digests_learn(d, path, map->size, digest_of(XXH3_128bits(map->bytes, map->size)));
    return true;
}

static bool check_parts(const ig_cache_entry *e) {
    const uint64_t all = e->map.size - sizeof(header);
    for (uint32_t i = 0; i < e->n_parts; i++) {
        const record r = record_at(e, i);
        if (!is_within(r.inputs_at, r.inputs_bytes, all) ||
            !is_within(r.blob_at, r.blob_bytes, all))
            return false;
    }
    return true;
}

static ig_status open_entry(const char *folder, const char *file, ig_digests *digests,
                            ig_cache_entry *out) {
    char path[PATH_MAX];
    header h;
    ig_cache_entry e = {0};
    if (!path_of(folder, file, path)) return IG_FAIL(IG_ERR_IO, "%s: there is no such entry", file);
    IG_TRY(ig_file_map_open(path, &e.map));
    bool sound = check(&e.map, file, &h) && check_sum(&e.map, &h, path, digests);
    if (sound) {
        e.inputs = body_of(&e.map);
        e.inputs_bytes = h.inputs;
        e.timeline = e.inputs + h.inputs;
        e.timeline_bytes = h.timeline;
        e.n_parts = (uint32_t)h.n_parts;
        sound = check_parts(&e);
    }
    if (!sound) {
        ig_file_map_close(&e.map);
        return IG_FAIL(IG_ERR_FORMAT, "%s: is damaged, or no entry", path);
    }
    *out = e;
    return IG_OK;
}

ig_status ig_cache_entry_look(const char *folder, const char *file, ig_cache_entry *out) {
    return open_entry(folder, file, NULL, out);
}

/* At most once an hour: touching a file changes its times, and digests are remembered by them. */
static void mark_used(const char *path) {
    struct stat s;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (stat(path, &s) == 0 && now.tv_sec - s.st_mtim.tv_sec > mark_every)
        (void)utimensat(AT_FDCWD, path, NULL,
                        0); /* without permission, the entry is pruned earlier */
}

ig_status ig_cache_entry_open(const char *folder, const char *file, ig_digests *digests,
                              ig_cache_entry *out) {
    char path[PATH_MAX];
    IG_TRY(open_entry(folder, file, digests, out));
    if (path_of(folder, file, path)) mark_used(path);
    return IG_OK;
}

void ig_cache_entry_close(ig_cache_entry *entry) {
    ig_file_map_close(&entry->map);
    *entry = (ig_cache_entry){0};
}

bool ig_cache_entry_is_sound(const ig_cache_entry *e) {
    header h;
    memcpy(&h, e->map.bytes, sizeof h);
    return XXH3_64bits(body_of(&e->map), e->map.size - sizeof h) == h.checksum;
}

ig_cache_entry_part ig_cache_entry_part_at(const ig_cache_entry *e, uint32_t i) {
    const record r = record_at(e, i);
    ig_cache_entry_part part = {.inputs = body_of(&e->map) + r.inputs_at,
                                .inputs_bytes = r.inputs_bytes,
                                .blob = body_of(&e->map) + r.blob_at,
                                .blob_bytes = r.blob_bytes};
    memcpy(part.name, r.name, sizeof r.name);
    return part;
}

bool ig_cache_entry_find(const ig_cache_entry *e, const char *part, ig_cache_entry_part *out) {
    for (uint32_t i = 0; i < e->n_parts; i++) {
        *out = ig_cache_entry_part_at(e, i);
        if (strcmp(out->name, part) == 0) return true;
    }
    return false;
}

/* ---- writing ---- */

/* A file to be written, as pieces. */
typedef struct draft {
    header header;
    record records[IG_ENTRY_MOST_PARTS];
    struct {
        const void *bytes;
        uint64_t count;
    } pieces[PIECES];
    size_t n_pieces;
} draft;

/* Appends a piece and returns its offset. Blobs are aligned to 8 bytes. */
static uint64_t put(draft *d, const void *bytes, uint64_t count, bool aligned) {
    static const char zeros[64];
    const uint64_t gap = aligned ? -(sizeof(header) + d->header.bytes) & 63u : 0;
    d->pieces[d->n_pieces].bytes = zeros;
    d->pieces[d->n_pieces++].count = gap;
    const uint64_t at = d->header.bytes + gap;
    d->pieces[d->n_pieces].bytes = bytes;
    d->pieces[d->n_pieces++].count = count;
    d->header.bytes = at + count;
    return at;
}

/* An identical blob is stored once. */
static bool share_blob(const draft *d, const ig_cache_entry_part *parts, uint32_t i, record *r) {
    for (uint32_t j = 0; j < i; j++)
        if (parts[j].blob_bytes == parts[i].blob_bytes &&
            memcmp(parts[j].blob, parts[i].blob, parts[i].blob_bytes) == 0) {
            r->blob_at = d->records[j].blob_at;
            return true;
        }
    return false;
}

static void arrange(draft *d, const ig_cache_entry *e, const ig_cache_entry_part *parts,
                    uint32_t n_parts) {
    d->header.inputs = e->inputs_bytes;
    d->header.timeline = e->timeline_bytes;
    d->header.n_parts = n_parts;
    (void)put(d, e->inputs, e->inputs_bytes, false);
    (void)put(d, e->timeline, e->timeline_bytes, false);
    (void)put(d, d->records, n_parts * sizeof(record), false);
    for (uint32_t i = 0; i < n_parts; i++) {
        record *r = &d->records[i];
        memcpy(r->name, parts[i].name, sizeof r->name);
        r->inputs_bytes = parts[i].inputs_bytes;
        r->inputs_at = put(d, parts[i].inputs, parts[i].inputs_bytes, false);
        r->blob_bytes = parts[i].blob_bytes;
        if (!share_blob(d, parts, i, r))
            r->blob_at = put(d, parts[i].blob, parts[i].blob_bytes, true);
    }
}

static void read_pieces(XXH3_state_t *state, const draft *d,
                        XXH_errorcode (*update)(XXH3_state_t *, const void *, size_t)) {
    for (size_t i = 0; i < d->n_pieces; i++)
        if (d->pieces[i].count > 0) (void)update(state, d->pieces[i].bytes, d->pieces[i].count);
}

static void sum_up(draft *d, XXH3_state_t *state) {
    XXH3_64bits_reset(state);
    read_pieces(state, d, XXH3_64bits_update);
    d->header.checksum = XXH3_64bits_digest(state);
}

/* Of the complete file: header and pieces. */
static ig_digest digest_draft(const draft *d, XXH3_state_t *state) {
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, &d->header, sizeof d->header);
    read_pieces(state, d, XXH3_128bits_update);
    return digest_of(XXH3_128bits_digest(state));
}

static ig_status write_draft(const ig_allocator *a, const char *path, const draft *d) {
    ig_file_writer *writer = NULL;
    uint64_t at = sizeof d->header;
    IG_TRY(ig_file_writer_create(a, path, at + d->header.bytes, &writer));
    ig_status status = ig_file_writer_write(writer, 0, &d->header, sizeof d->header);
    for (size_t i = 0; i < d->n_pieces && status == IG_OK; at += d->pieces[i++].count)
        status = ig_file_writer_write(writer, at, d->pieces[i].bytes, d->pieces[i].count);
    if (status == IG_OK) status = ig_file_writer_commit(writer);
    ig_file_writer_destroy(writer);
    return status;
}

/* The parts that stay, then the new one. */
static uint32_t gather_parts(const ig_cache_entry *old, const ig_cache_entry_part *new,
                             ig_cache_entry_part out[IG_ENTRY_MOST_PARTS]) {
    uint32_t count = 0;
    for (uint32_t i = old->n_parts == IG_ENTRY_MOST_PARTS; i < old->n_parts; i++) {
        out[count] = ig_cache_entry_part_at(old, i);
        count += strcmp(out[count].name, new->name) != 0;
    }
    out[count++] = *new;
    return count;
}

ig_status ig_cache_entry_add(const ig_allocator *a, const char *folder, const char *file,
                             const ig_cache_entry *entry, const ig_cache_entry_part *part,
                             ig_digests *digests) {
    char path[PATH_MAX];
    if (!path_of(folder, file, path))
        return IG_FAIL(IG_ERR_IO, "%s/%s: the path is too long", folder, file);
    draft *d = ig_alloc(a, 1, sizeof *d);
    ig_cache_entry_part *parts = ig_alloc(a, IG_ENTRY_MOST_PARTS, sizeof *parts);
    XXH3_state_t *state = XXH3_createState();
    ig_cache_entry old = {0};
    ig_status status = d && parts && state ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "%s: an entry", file);
    if (status == IG_OK) {
        if (ig_cache_entry_look(folder, file, &old) != IG_OK) old = (ig_cache_entry){0};
        d->header.format = FORMAT;
        d->header.abi = IG_BACKEND_ABI;
        memcpy(d->header.magic, magic, sizeof magic);
        memcpy(d->header.name, file, sizeof d->header.name);
        arrange(d, entry, parts, gather_parts(&old, part, parts));
        sum_up(d, state);
        status = write_draft(a, path, d);
    }
    if (status == IG_OK && digests)
        ig_digests_learn(digests, path, sizeof d->header + d->header.bytes, digest_draft(d, state));
    ig_cache_entry_close(&old);
    XXH3_freeState(state);
    ig_free(a, parts);
    ig_free(a, d);
    return status;
}
