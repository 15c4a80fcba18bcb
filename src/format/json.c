#include "format/json.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_parse.h"

enum { MAX_BYTES = 256 << 20 }; /* the largest tokenizer.json files have about 40 MB */

static ig_status parse(const char *file, const char *what, const void *bytes, size_t n_bytes,
                       size_t flags, json_t **out) {
    json_t *json = NULL;
    IG_TRY(ig_json_decode(IG_ERR_FORMAT, file, what, bytes, n_bytes, JSON_REJECT_DUPLICATES | flags,
                          &json));
    if (json_is_object(json)) {
        *out = json;
        return IG_OK;
    }
    json_decref(json);
    return IG_FAIL(IG_ERR_FORMAT, "%s: %s is not a JSON object", file, what);
}

ig_status ig_json_parse(const char *file, const char *what, const void *bytes, size_t n_bytes,
                        json_t **out) {
    return parse(file, what, bytes, n_bytes, 0, out);
}

ig_status ig_json_parse_reals(const char *file, const char *what, const void *bytes, size_t n_bytes,
                              json_t **out) {
    return parse(file, what, bytes, n_bytes, JSON_DECODE_INT_AS_REAL, out);
}

char *ig_json_path(const ig_allocator *a, const char *dir, const char *name) {
    const size_t bytes = strlen(dir) + 1 + strlen(name) + 1;
    char *path = ig_alloc(a, bytes, 1);
    if (path) snprintf(path, bytes, "%s/%s", dir, name);
    return path;
}

/* Maps a file of a folder; the caller closes the map and frees the path. */
static ig_status open_file(const ig_allocator *a, const char *dir, const char *name,
                           ig_file_map *map, char **out_path) {
    char *path = ig_json_path(a, dir, name);
    if (!path) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its name", name);
    ig_status status = ig_file_map_open(path, map);
    if (status == IG_OK && map->size > MAX_BYTES) {
        status = IG_FAIL(IG_ERR_FORMAT, "%s: has %llu bytes, at most %d are allowed", path,
                         (unsigned long long)map->size, MAX_BYTES);
        ig_file_map_close(map);
    }
    if (status == IG_OK)
        *out_path = path;
    else
        ig_free(a, path);
    return status;
}

static ig_status load(const ig_allocator *a, const char *dir, const char *name, size_t flags,
                      json_t **out) {
    ig_file_map map = {0};
    char *path = NULL;
    IG_TRY(open_file(a, dir, name, &map, &path));
    const ig_status status = parse(path, "it", map.bytes, (size_t)map.size, flags, out);
    ig_file_map_close(&map);
    ig_free(a, path);
    return status;
}

ig_status ig_json_load(const ig_allocator *a, const char *dir, const char *name, json_t **out) {
    return load(a, dir, name, 0, out);
}

ig_status ig_json_load_reals(const ig_allocator *a, const char *dir, const char *name,
                             json_t **out) {
    return load(a, dir, name, JSON_DECODE_INT_AS_REAL, out);
}

ig_status ig_json_load_text(const ig_allocator *a, const char *dir, const char *name, char **out) {
    ig_file_map map = {0};
    char *path = NULL;
    IG_TRY(open_file(a, dir, name, &map, &path));
    char *text = ig_alloc(a, (size_t)map.size + 1, 1);
    if (text) *out = memcpy(text, map.bytes, (size_t)map.size);
    const ig_status status =
        text ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "%s: no memory to read it", path);
    ig_file_map_close(&map);
    ig_free(a, path);
    return status;
}

bool ig_json_exists(const char *dir, const char *name) {
    const int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const bool exists = fd >= 0 && faccessat(fd, name, F_OK, 0) == 0;
    if (fd >= 0) close(fd);
    return exists;
}
