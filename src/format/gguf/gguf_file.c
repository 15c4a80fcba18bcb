/*
 * Opens GGUF files by path. A split model is opened by its first part. The names of the other parts
 * derive from the given path, never from the file, and the keys of each part must agree:
 *
 *     NAME-00001-of-00003.gguf, NAME-00002-of-00003.gguf, ...
 *     split.no 0, 1, ...   split.count 3   split.tensors.count of all parts together
 */
#include <inttypes.h>
#include <stdio.h>

#include "format/gguf/gguf_part.h"

enum { MAX_PARTS = 99999, SPLIT_TAIL_BYTES = sizeof "-00001-of-00003.gguf" };

/* A key of one part as an integer; `absent` if it is missing. */
static int64_t part_int(const gguf_part *part, const char *key, int64_t absent) {
    const ig_gguf_value *value = gguf_part_find(part, key);
    if (!value || !value->packed || value->count != 1) return absent;
    return ig_gguf_int_at(value, 0);
}

static ig_status get_bytes(const char *path, const ig_gguf_options *options, ig_file_map *out) {
    const ig_file_watch watch = {options->progress, options->user};
    IG_TRY(options->no_mmap ? ig_file_map_read(path, watch, out) : ig_file_map_open(path, out));
    const ig_status locked = options->mlock ? ig_file_map_lock(out, path, watch) : IG_OK;
    if (locked != IG_OK) ig_file_map_close(out);
    return locked;
}

/* Takes ownership of `path`, also on failure. */
static ig_status add_file(ig_gguf *gguf, const ig_gguf_options *options, char *path) {
    gguf_part part = {.path = path, .name = path};
    ig_status status = get_bytes(path, options, &part.map);
    if (status == IG_OK) {
        part.bytes = part.map.bytes;
        part.size = part.map.size;
        const size_t before = gguf->n_parts;
        status = gguf_add_part(gguf, &part);
        if (gguf->n_parts > before) return status;
        ig_file_map_close(&part.map);
    }
    ig_free(gguf->allocator, path);
    return status;
}

/* ---- Parts ---- */

static void split_tail(char out[SPLIT_TAIL_BYTES], uint32_t number, uint32_t count) {
    snprintf(out, SPLIT_TAIL_BYTES, "-%05u-of-%05u.gguf", number % 100000, count % 100000);
}

/* The path of part `number`, from 1; NULL: out of memory. */
static char *part_path(const ig_gguf *gguf, uint32_t number, uint32_t count) {
    char *path = ig_copy_text(gguf->allocator, gguf->parts[0].path);
    if (!path) return NULL;
    char *tail = path + strlen(path) - (SPLIT_TAIL_BYTES - 1);
    split_tail(tail, number, count); /* has the same length as the old tail */
    return path;
}

static ig_status check_first(const ig_gguf *gguf, int64_t count) {
    const gguf_part *first = &gguf->parts[0];
    const int64_t number = part_int(first, "split.no", 0);
    if (count < 0 || count > MAX_PARTS)
        return IG_FAIL(IG_ERR_FORMAT, "%s: split.count is %" PRId64 ", not 1 to %d", first->name,
                       count, MAX_PARTS);
    if (number != 0)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: is part %" PRId64 " of %" PRId64 " of a split model; give the first",
                       first->name, number + 1, count);
    char tail[SPLIT_TAIL_BYTES];
    split_tail(tail, 1, (uint32_t)count);
    const size_t length = strlen(first->name), tail_length = strlen(tail);
    if (length < tail_length || strcmp(first->name + length - tail_length, tail) != 0)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: is the first of %" PRId64 " parts of a split model, but is not named "
                       "NAME%s, so the others cannot be found",
                       first->name, count, tail);
    return IG_OK;
}

static ig_status add_rest(ig_gguf *gguf, const ig_gguf_options *options, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        char *path = part_path(gguf, i + 1, count);
        if (!path)
            return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its parts", gguf->parts[0].name);
        IG_TRY(add_file(gguf, options, path));
        const gguf_part *part = &gguf->parts[i];
        if (part_int(part, "split.no", -1) != i || part_int(part, "split.count", -1) != count)
            return IG_FAIL(IG_ERR_FORMAT,
                           "%s: says it is part %" PRId64 " of %" PRId64 ", not %u of %u",
                           part->name, part_int(part, "split.no", -1) + 1,
                           part_int(part, "split.count", -1), i + 1, count);
    }
    const int64_t tensors = part_int(&gguf->parts[0], "split.tensors.count", -1);
    if (tensors != -1 && tensors != (int64_t)gguf->n_tensors)
        return IG_FAIL(IG_ERR_FORMAT, "%s: its %u parts have %zu tensors, not %" PRId64,
                       gguf->parts[0].name, count, gguf->n_tensors, tensors);
    return IG_OK;
}

static ig_status open_all(ig_gguf *gguf, const ig_gguf_options *options, const char *path) {
    char *copy = ig_copy_text(gguf->allocator, path);
    if (!copy) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its name", path);
    IG_TRY(add_file(gguf, options, copy));
    const int64_t count = part_int(&gguf->parts[0], "split.count", 0);
    if (count != 0 && count != 1) {
        IG_TRY(check_first(gguf, count));
        IG_TRY(add_rest(gguf, options, (uint32_t)count));
    }
    return gguf_index_tensors(gguf);
}

ig_status ig_gguf_open(const char *path, const ig_gguf_options *options, ig_gguf **out) {
    static const ig_gguf_options defaults;
    if (!path || !out) return IG_FAIL(IG_ERR_ARGUMENT, "gguf_open: NULL");
    if (!options) options = &defaults;
    const ig_allocator *a = options->allocator ? options->allocator : &ig_heap;
    ig_gguf *gguf = ig_alloc(a, 1, sizeof *gguf);
    if (!gguf) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to open it", path);
    gguf->allocator = a;
    const ig_status status = open_all(gguf, options, path);
    if (status == IG_OK)
        *out = gguf;
    else
        ig_gguf_close(gguf);
    return status;
}
