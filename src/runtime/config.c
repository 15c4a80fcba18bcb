#include "runtime/config.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json_parse.h"
#include "base/user_dirs.h"

enum { MOST_BYTES = 1 << 16 }; /* of the config file */

/* The file's text, with what error messages need for its location. */
typedef struct source {
    const ig_allocator *allocator;
    const char *path, *text;
    size_t n_bytes;
} source;

/* The line of a key: the first quoted text equal to it. */
static int line_of(const source *s, const char *key) {
    const size_t length = strlen(key);
    int line = 1;
    for (size_t i = 0; i + length + 1 < s->n_bytes; i++) {
        if (s->text[i] == '\n') line++;
        if (s->text[i] == '"' && memcmp(s->text + i + 1, key, length) == 0 &&
            s->text[i + 1 + length] == '"')
            return line;
    }
    return 1; /* the key is written with escapes */
}

/* ---- the settings ---- */

static ig_status wrong(const source *s, const char *key, const char *what) {
    return IG_FAIL(IG_ERR_FORMAT, "%s:%d: %.64s: %s", s->path, line_of(s, key), key, what);
}

static ig_status take_text(const source *s, const char *key, const json_t *value, void *out) {
    char **text = out;
    if (json_string_length(value) == 0) return wrong(s, key, "is not a string");
    *text = ig_copy_text(s->allocator, json_string_value(value));
    return *text ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "%s: %s", s->path, key);
}

static ig_status take_path(const source *s, const char *key, const json_t *value, void *out) {
    const char *path = json_string_value(value);
    if (!path || path[0] != '/') return wrong(s, key, "is not an absolute path");
    return take_text(s, key, value, out);
}

static ig_status take_bool(const source *s, const char *key, const json_t *value, void *out) {
    if (!json_is_boolean(value)) return wrong(s, key, "is not true or false");
    *(bool *)out = json_is_true(value);
    return IG_OK;
}

static ig_status take_level(const source *s, const char *key, const json_t *value, void *out) {
    const json_int_t level = json_integer_value(value);
    if (level < 1 || level > 3) return wrong(s, key, "is not a number from 1 to 3");
    *(int *)out = (int)level;
    return IG_OK;
}

/* Joins items with a separator: ["/a", "/b.so"] becomes "/a:/b.so", and [1, 8] "1,8". */
static ig_status join(const source *s, const json_t *list, char between, char **out) {
    enum { NUMBER_BYTES = 24 };
    size_t bytes = 1, used = 0, i;
    const json_t *item;
    json_array_foreach(list, i, item) bytes += json_string_length(item) + NUMBER_BYTES;
    char *joint = ig_alloc(s->allocator, bytes, 1);
    if (!joint) return IG_FAIL(IG_ERR_MEMORY, "%s: %zu items", s->path, json_array_size(list));
    json_array_foreach(list, i, item) {
        if (i > 0) joint[used++] = between;
        used += (size_t)(json_is_string(item)
                             ? snprintf(joint + used, bytes - used, "%s", json_string_value(item))
                             : snprintf(joint + used, bytes - used, "%lld",
                                        (long long)json_integer_value(item)));
    }
    *out = joint;
    return IG_OK;
}

static ig_status take_plugins(const source *s, const char *key, const json_t *list, void *out) {
    size_t i;
    const json_t *item;
    if (!json_is_array(list)) return wrong(s, key, "is not a list");
    json_array_foreach(list, i, item) {
        if (!json_is_string(item) || json_string_value(item)[0] != '/')
            return IG_FAIL(IG_ERR_FORMAT, "%s:%d: plugins: entry %zu is not an absolute path",
                           s->path, line_of(s, key), i + 1);
    }
    return join(s, list, ':', out);
}

static ig_status take_batches(const source *s, const char *key, const json_t *list, void *out) {
    size_t i;
    const json_t *item;
    if (json_is_string(list)) return take_text(s, key, list, out);
    if (!json_is_array(list)) return wrong(s, key, "is not a list");
    json_array_foreach(list, i, item) if (json_integer_value(item) < 1) return wrong(
        s, key, "is not a list of positive integers");
    return join(s, list, ',', out);
}

typedef struct setting {
    const char *key;
    ig_status (*take)(const source *s, const char *key, const json_t *value, void *out);
    size_t offset; /* in ig_config */
} setting;

static ig_status take_all(const source *s, const json_t *object, const setting *all, ig_config *out,
                          const char *there_are) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        const setting *one = all;
        while (one->key && strcmp(one->key, key) != 0) one++;
        if (!one->key) return wrong(s, key, there_are);
        IG_TRY(one->take(s, key, value, (char *)out + one->offset));
    }
    return IG_OK;
}

static ig_status take_compile_options(const source *s, const char *key, const json_t *value,
                                      void *out) {
    static const setting all[] = {
        {"optimization_level", take_level, offsetof(ig_config, optimization_level)},
        {"precision", take_text, offsetof(ig_config, precision)},
        {"batch_sizes", take_batches, offsetof(ig_config, batch_sizes)},
        {0}};
    if (!json_is_object(value)) return wrong(s, key, "is not an object");
    return take_all(s, value, all, out,
                    "known keys: \"optimization_level\", \"precision\" and \"batch_sizes\"");
}

static ig_status take(const source *s, const json_t *root, ig_config *out) {
    static const setting all[] = {{"device", take_text, offsetof(ig_config, device)},
                                  {"plugins", take_plugins, offsetof(ig_config, plugins)},
                                  {"cache_dir", take_path, offsetof(ig_config, cache_dir)},
                                  {"compile_options", take_compile_options, 0},
                                  {"verbose", take_bool, offsetof(ig_config, verbose)},
                                  {"strict", take_bool, offsetof(ig_config, strict)},
                                  {0}};
    if (!json_is_object(root)) return IG_FAIL(IG_ERR_FORMAT, "%s:1: is not a JSON object", s->path);
    return take_all(s, root, all, out,
                    "known keys: \"device\", \"plugins\", \"cache_dir\", \"compile_options\", "
                    "\"verbose\" and \"strict\"");
}

/* ---- the file ---- */

ig_status ig_config_read(const ig_allocator *allocator, ig_config *out) {
    char path[PATH_MAX];
    *out = (ig_config){0};
    if (!ig_dir_config("config.json", path) || access(path, F_OK) != 0) return IG_OK;
    FILE *file = fopen(path, "re");
    char *text = ig_alloc(allocator, MOST_BYTES, 1);
    ig_status status = IG_OK;
    size_t bytes = 0;
    if (!text) status = IG_FAIL(IG_ERR_MEMORY, "%s", path);
    if (status == IG_OK && !file) status = IG_FAIL(IG_ERR_IO, "%s: cannot open it", path);
    if (status == IG_OK) bytes = fread(text, 1, MOST_BYTES, file);
    if (status == IG_OK && bytes == MOST_BYTES)
        status = IG_FAIL(IG_ERR_FORMAT, "%s: is longer than %d bytes", path, MOST_BYTES);
    json_t *root = NULL;
    if (status == IG_OK)
        status =
            ig_json_decode(IG_ERR_FORMAT, path, "it", text, bytes, JSON_REJECT_DUPLICATES, &root);
    if (status == IG_OK) status = take(&(source){allocator, path, text, bytes}, root, out);
    if (status != IG_OK) ig_config_deinit(allocator, out);
    json_decref(root);
    ig_free(allocator, text);
    if (file) fclose(file);
    return status;
}

void ig_config_deinit(const ig_allocator *allocator, ig_config *config) {
    ig_free(allocator, config->device);
    ig_free(allocator, config->plugins);
    ig_free(allocator, config->cache_dir);
    ig_free(allocator, config->precision);
    ig_free(allocator, config->batch_sizes);
    *config = (ig_config){0};
}

/* ---- precedence ---- */

static const char *first_set(const char *a, const char *b, const char *c, const char *d) {
    return a && *a ? a : b && *b ? b : c && *c ? c : d;
}

ig_ctx_options ig_config_settle(const ig_config *config, const ig_ctx_options *options) {
    ig_ctx_options o = *options;
    ig_compile_options *compile = &o.compile;
    o.device = first_set(o.device, getenv("INGOT_DEVICE"), getenv("RM_DEVICE"),
                         first_set(config->device, NULL, NULL, "auto"));
    o.cache_dir = first_set(o.cache_dir, getenv("INGOT_CACHE_DIR"), getenv("RM_CACHE_DIR"),
                            config->cache_dir);
    o.plugins = first_set(o.plugins, config->plugins, NULL, NULL);
    compile->precision = first_set(compile->precision, config->precision, NULL, NULL);
    compile->batch_sizes = first_set(compile->batch_sizes, config->batch_sizes, NULL, NULL);
    if (!compile->optimization_level) compile->optimization_level = config->optimization_level;
    o.verbose |= config->verbose;
    o.strict |= config->strict;
    return o;
}

ig_status ig_cache_dir(const ig_ctx_options *options, char *out, size_t out_bytes) {
    static const ig_ctx_options defaults;
    char folder[PATH_MAX];
    ig_config config;
    if (!out) return IG_FAIL(IG_ERR_ARGUMENT, "cache_dir: NULL");
    if (!options) options = &defaults;
    const ig_allocator *a = options->allocator.alloc ? &options->allocator : &ig_heap;
    IG_TRY(ig_config_read(a, &config));
    const bool there = ig_dir_cache(ig_config_settle(&config, options).cache_dir, folder);
    ig_config_deinit(a, &config);
    if (!there)
        return IG_FAIL(IG_ERR_IO, "there is no place for a cache; INGOT_CACHE_DIR names one");
    const int length = snprintf(out, out_bytes, "%s", folder);
    if (length >= 0 && (size_t)length < out_bytes) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "cache_dir: %s is longer than %zu bytes", folder, out_bytes);
}
