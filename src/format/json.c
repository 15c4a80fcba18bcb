#include "format/json.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { MAX_BYTES = 256 << 20 }; /* the largest tokenizer.json has some 40 MB */

ig_status ig_json_parse(const char *file, const char *what, const void *bytes, size_t n_bytes,
                        json_t **out) {
    json_error_t error;
    json_t *json = json_loadb(bytes, n_bytes, JSON_REJECT_DUPLICATES, &error);
    if (!json && json_error_code(&error) == json_error_out_of_memory)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to read %s", file, what);
    if (!json)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s is not JSON: %s (line %d, column %d)", file, what,
                       error.text, error.line, error.column);
    if (json_is_object(json)) {
        *out = json;
        return IG_OK;
    }
    json_decref(json);
    return IG_FAIL(IG_ERR_FORMAT, "%s: %s is not a JSON object", file, what);
}

char *ig_json_path(const ig_allocator *a, const char *dir, const char *name) {
    const size_t bytes = strlen(dir) + 1 + strlen(name) + 1;
    char *path = ig_alloc(a, bytes, 1);
    if (path) snprintf(path, bytes, "%s/%s", dir, name);
    return path;
}

ig_status ig_json_load(const ig_allocator *a, const char *dir, const char *name, json_t **out) {
    char *path = ig_json_path(a, dir, name);
    if (!path) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its name", name);
    ig_file_map map;
    ig_status status = ig_file_map_open(path, &map);
    if (status == IG_OK) {
        status = map.size <= MAX_BYTES
                     ? ig_json_parse(path, "it", map.bytes, (size_t)map.size, out)
                     : IG_FAIL(IG_ERR_FORMAT, "%s: has %llu bytes, at most %d are allowed", path,
                               (unsigned long long)map.size, MAX_BYTES);
        ig_file_map_close(&map);
    }
    ig_free(a, path);
    return status;
}

bool ig_json_exists(const ig_allocator *a, const char *dir, const char *name) {
    char *path = ig_json_path(a, dir, name);
    const bool exists = path && access(path, F_OK) == 0;
    ig_free(a, path);
    return exists;
}
