/*
 * Loads tokenizers and chat templates from GGUF files, checkpoints and folders with tokenizer.json.
 * A folder is first converted to GGUF keys in memory, so that there is one loader.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json_parse.h"
#include "ingot/chat.h"
#include "ingot/checkpoint.h"
#include "model/adapter.h"
#include "model/convert/convert_parts.h"
#include "model/gguf/gguf_model.h"
#include "model/gguf/gguf_vocab.h"

static ig_status open_gguf(const ig_allocator *a, const char *path, const char *pre,
                           ig_tokenizer **out) {
    ig_gguf *gguf = NULL;
    IG_TRY(ig_gguf_open(path, &(ig_gguf_options){.allocator = a}, &gguf));
    const ig_status status = ig_vocab_from_gguf(a, path, gguf, pre, out);
    ig_gguf_close(gguf);
    return status;
}

/* The tokenizer description in a checkpoint's config. */
static ig_status open_oam(const ig_allocator *a, const char *path, ig_tokenizer **out) {
    ig_checkpoint *file = NULL;
    IG_TRY(ig_checkpoint_open(path, &file));
    const char *own = ig_checkpoint_config(file);
    const unsigned long before = ig_json_failures();
    json_t *config = NULL;
    char *text = NULL;
    ig_status status =
        ig_json_decode(IG_ERR_FORMAT, path, "its config", own, strlen(own), 0, &config);
    if (status == IG_OK) text = json_dumps(json_object_get(config, "tokenizer"), JSON_COMPACT);
    if (ig_json_failures() != before)
        status = IG_FAIL(IG_ERR_MEMORY, "%s: no memory to read its tokenizer", path);
    else if (status == IG_OK && !text)
        status = IG_FAIL(IG_ERR_FORMAT, "%s: its config has no tokenizer", path);
    if (status == IG_OK) status = ig_tokenizer_parse(a, path, text, strlen(text), out);
    free(text);
    json_decref(config);
    ig_checkpoint_close(file);
    return status;
}

/* Called with the keys of a folder; they are freed afterwards. */
typedef ig_status folder_fn(const ig_conversion *c, const ig_gguf *keys, void *user);

static ig_status read_keys(const ig_conversion *c, ig_gguf_writer *w, folder_fn *fn, void *user) {
    IG_TRY(convert_put_tokenizer(c, w));
    IG_TRY(ig_gguf_writer_finish(w));
    uint64_t n_bytes;
    const void *bytes = ig_gguf_writer_head(w, &n_bytes);
    ig_gguf *keys = NULL;
    IG_TRY(ig_gguf_open_head(c->allocator, c->dir, bytes, n_bytes, &keys));
    const ig_status status = fn(c, keys, user);
    ig_gguf_close(keys);
    return status;
}

/* config.json is optional; it has the ids of special tokens. */
static ig_status read_folder(const ig_allocator *a, const char *dir, const char *pre, folder_fn *fn,
                             void *user) {
    ig_conversion c = {.allocator = a, .dir = dir, .options = {.pre = pre}};
    ig_gguf_writer *w = NULL;
    if (ig_json_exists(dir, "config.json")) IG_TRY(ig_json_load(a, dir, "config.json", &c.config));
    const json_t *text = json_object_get(c.config, "text_config");
    c.text = json_is_object(text) ? text : c.config;
    ig_status status = ig_gguf_writer_create(a, dir, &w);
    if (status == IG_OK) status = read_keys(&c, w, fn, user);
    ig_gguf_writer_destroy(w);
    json_decref(c.config);
    return status;
}

static ig_status take_tokenizer(const ig_conversion *c, const ig_gguf *keys, void *user) {
    return ig_vocab_from_gguf(c->allocator, c->dir, keys, NULL, user);
}

/* Whether the path is a folder, or tokenizer.json in one; `dir` has space for PATH_MAX. */
static bool find_folder(const char *path, char dir[PATH_MAX]) {
    static const char name[] = "tokenizer.json";
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    struct stat file;
    if (stat(path, &file) != 0 || strlen(path) >= PATH_MAX) return false;
    if (S_ISDIR(file.st_mode)) return snprintf(dir, PATH_MAX, "%s", path) > 0;
    if (strcmp(base, name) != 0) return false;
    return snprintf(dir, PATH_MAX, "%.*s", slash ? (int)(slash - path) + 1 : 1,
                    slash ? path : ".") > 0;
}

ig_status ig_tokenizer_open(const char *path, const ig_tokenizer_options *options,
                            ig_tokenizer **out) {
    static const ig_tokenizer_options defaults;
    char dir[PATH_MAX];
    if (!path || !out) return IG_FAIL(IG_ERR_ARGUMENT, "tokenizer_open: NULL");
    if (!options) options = &defaults;
    const ig_allocator *a = options->allocator ? options->allocator : &ig_heap;
    const char *pre = options->pre_tokenizer;
    if (find_folder(path, dir)) return read_folder(a, dir, pre, take_tokenizer, out);
    if (ig_file_kind_of(path) == IG_FILE_GGUF) return open_gguf(a, path, pre, out);
    if (pre)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--pre: %s is not a GGUF file: its tokenizer has no pattern", path);
    return open_oam(a, path, out);
}

/* ---- Chat templates ---- */

static bool find_template(const ig_gguf *keys, ig_string_view *out) {
    return ig_gguf_string(keys, "tokenizer.chat_template", out) && out->n_bytes > 0;
}

bool ig_adapter_chat_template(const ig_adapter *a, ig_string_view *out) {
    ig_string_view text;
    if (!a->source || !find_template(a->source->file, &text)) return false;
    *out = text;
    return true;
}

static ig_status parse_template(const ig_allocator *a, const char *path, const ig_gguf *keys,
                                ig_chat_template **out) {
    ig_string_view text;
    if (find_template(keys, &text)) return ig_chat_template_parse(text.bytes, text.n_bytes, a, out);
    return IG_FAIL(IG_ERR_FORMAT, "%s: has no chat template", path);
}

static ig_status take_template(const ig_conversion *c, const ig_gguf *keys, void *user) {
    return parse_template(c->allocator, c->dir, keys, user);
}

static ig_status open_gguf_template(const ig_allocator *a, const char *path,
                                    ig_chat_template **out) {
    ig_gguf *gguf = NULL;
    IG_TRY(ig_gguf_open(path, &(ig_gguf_options){.allocator = a}, &gguf));
    const ig_status status = parse_template(a, path, gguf, out);
    ig_gguf_close(gguf);
    return status;
}

static ig_status open_jinja(const ig_allocator *a, const char *path, ig_chat_template **out) {
    ig_file_map map;
    IG_TRY(ig_file_map_open(path, &map));
    const ig_status status = map.size > 0
                                 ? ig_chat_template_parse(map.bytes, (size_t)map.size, a, out)
                                 : IG_FAIL(IG_ERR_FORMAT, "%s: is empty", path);
    ig_file_map_close(&map);
    return status;
}

ig_status ig_chat_template_open(const char *path, const ig_allocator *allocator,
                                ig_chat_template **out) {
    if (!path || !out) return IG_FAIL(IG_ERR_ARGUMENT, "chat_template_open: NULL");
    const ig_allocator *a = allocator ? allocator : &ig_heap;
    switch (ig_file_kind_of(path)) {
    case IG_FILE_FOLDER: return read_folder(a, path, NULL, take_template, out);
    case IG_FILE_GGUF: return open_gguf_template(a, path, out);
    case IG_FILE_OAM: return IG_FAIL(IG_ERR_FORMAT, "%s: has no chat template", path);
    default: return open_jinja(a, path, out);
    }
}
