#include "runtime/config.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/dirs.h"

enum { MOST_BYTES = 1 << 16 }; /* of the file */

/* The file as it is read, for messages that say where. */
typedef struct source {
    const char *path, *text;
    size_t n_bytes;
} source;

/* The line in which a key stands: the first quoted text like it. */
static int line_of(const source *s, const char *key) {
    const size_t length = strlen(key);
    int line = 1;
    for (size_t i = 0; i + length + 1 < s->n_bytes; i++) {
        if (s->text[i] == '\n') line++;
        if (s->text[i] == '"' && memcmp(s->text + i + 1, key, length) == 0 &&
            s->text[i + 1 + length] == '"')
            return line;
    }
    return 1; /* it is written with escapes */
}

static ig_status copy(const ig_allocator *a, const char *text, char **out) {
    *out = ig_copy_text(a, text);
    return *out ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "config: %s", text);
}

/* ["/a", "/b.so"] becomes "/a:/b.so". */
static ig_status take_plugins(const ig_allocator *a, const source *s, const json_t *list,
                              char **out) {
    size_t bytes = 1, i;
    const json_t *item;
    json_array_foreach(list, i, item) {
        if (!json_is_string(item) || json_string_value(item)[0] != '/')
            return IG_FAIL(IG_ERR_FORMAT, "%s:%d: plugins: number %zu is no absolute path", s->path,
                           line_of(s, "plugins"), i + 1);
        bytes += json_string_length(item) + 1;
    }
    char *joint = ig_alloc(a, bytes, 1);
    if (!joint) return IG_FAIL(IG_ERR_MEMORY, "%s: %zu plugins", s->path, json_array_size(list));
    size_t used = 0;
    json_array_foreach(list, i, item) used +=
        (size_t)snprintf(joint + used, bytes - used, "%s%s", i ? ":" : "", json_string_value(item));
    *out = joint;
    return IG_OK;
}

static ig_status take(const ig_allocator *a, const source *s, json_t *root, ig_config *out) {
    const char *key;
    json_t *value;
    if (!json_is_object(root)) return IG_FAIL(IG_ERR_FORMAT, "%s:1: is no JSON object", s->path);
    json_object_foreach(root, key, value) {
        const bool text = json_is_string(value) && json_string_length(value) > 0;
        if (strcmp(key, "device") == 0 && text)
            IG_TRY(copy(a, json_string_value(value), &out->device));
        else if (strcmp(key, "plugins") == 0 && json_is_array(value))
            IG_TRY(take_plugins(a, s, value, &out->plugins));
        else
            return IG_FAIL(IG_ERR_FORMAT,
                           "%s:%d: %.64s: there are \"device\" (a text) and \"plugins\" (a list)",
                           s->path, line_of(s, key), key);
    }
    return IG_OK;
}

ig_status ig_config_read(const ig_allocator *allocator, ig_config *out) {
    char path[PATH_MAX];
    *out = (ig_config){0};
    if (!ig_dir_config("config.json", path) || access(path, F_OK) != 0) return IG_OK;
    FILE *file = fopen(path, "re");
    char *text = ig_alloc(allocator, MOST_BYTES, 1);
    ig_status status = IG_OK;
    size_t bytes = 0;
    json_error_t error;
    if (!text) status = IG_FAIL(IG_ERR_MEMORY, "%s", path);
    if (status == IG_OK && !file) status = IG_FAIL(IG_ERR_IO, "%s: cannot open it", path);
    if (status == IG_OK) bytes = fread(text, 1, MOST_BYTES, file);
    if (status == IG_OK && bytes == MOST_BYTES)
        status = IG_FAIL(IG_ERR_FORMAT, "%s: is longer than %d bytes", path, MOST_BYTES);
    json_t *root = status == IG_OK ? json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (status == IG_OK && !root)
        status = IG_FAIL(IG_ERR_FORMAT, "%s:%d: %s", path, error.line, error.text);
    if (root) status = take(allocator, &(source){path, text, bytes}, root, out);
    if (status != IG_OK) ig_config_deinit(allocator, out);
    json_decref(root);
    ig_free(allocator, text);
    if (file) fclose(file);
    return status;
}

void ig_config_deinit(const ig_allocator *allocator, ig_config *config) {
    ig_free(allocator, config->device);
    ig_free(allocator, config->plugins);
    *config = (ig_config){0};
}
