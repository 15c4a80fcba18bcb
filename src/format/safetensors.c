#include "format/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/file.h"
#include "format/json.h"
#include "format/name_table.h"

enum {
    LENGTH_BYTES = 8,
    MAX_HEADER_BYTES = 100 << 20, /* the reference reader's limit */
    MAX_TENSORS = 200000,         /* the largest MoE models have about 50,000 */
    MAX_NAME_BYTES = 1024,
    MAX_SHARDS = 10000,
};

typedef struct shard {
    char *path; /* NULL: bytes are lent */
    ig_file_map map;
    json_t *header; /* names are lent from it */
} shard;

struct ig_safetensors {
    const ig_allocator *allocator;
    shard *shards;
    size_t n_shards, shard_capacity;
    ig_safetensor *tensors;
    size_t count, capacity;
    ig_names names;
};

/* ---- Types ---- */

enum { FOREIGN = -1 };

static const struct {
    const char *name;
    int dtype; /* an ig_dtype, or FOREIGN */
    uint64_t bytes;
} types[] = {
    {"F32", IG_F32, 4},   {"F16", IG_F16, 2},      {"BF16", IG_BF16, 2},    {"F64", IG_F64, 8},
    {"I32", IG_I32, 4},   {"I64", FOREIGN, 8},     {"I16", FOREIGN, 2},     {"I8", FOREIGN, 1},
    {"U64", FOREIGN, 8},  {"U32", FOREIGN, 4},     {"U16", FOREIGN, 2},     {"U8", FOREIGN, 1},
    {"BOOL", FOREIGN, 1}, {"F8_E4M3", FOREIGN, 1}, {"F8_E5M2", FOREIGN, 1},
};

/* ---- One tensor ---- */

static bool whole_number(const json_t *json, uint64_t *out) {
    if (!json_is_integer(json) || json_integer_value(json) < 0) return false;
    *out = (uint64_t)json_integer_value(json);
    return true;
}

static ig_status read_type(const char *file, const char *name, const json_t *entry,
                           ig_safetensor *t, uint64_t *bytes_each) {
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].name, type) != 0) continue;
        t->type = types[i].name;
        t->readable = types[i].dtype != FOREIGN;
        t->desc.dtype = t->readable ? (ig_dtype)types[i].dtype : IG_F32;
        *bytes_each = types[i].bytes;
        return IG_OK;
    }
    return IG_FAIL(IG_ERR_FORMAT, "%s: %s is of type %.32s, which is not known", file, name,
                   type ? type : "none");
}

static ig_status read_shape(const char *file, const char *name, const json_t *entry,
                            ig_shape *out) {
    const json_t *shape = json_object_get(entry, "shape");
    const size_t rank = json_array_size(shape);
    bool fits = json_is_array(shape) && rank <= IG_MAX_RANK;
    out->rank = fits ? (int32_t)rank : 0;
    for (size_t d = 0; fits && d < rank; d++) {
        uint64_t extent = 0;
        fits = whole_number(json_array_get(shape, d), &extent);
        out->dim[d] = (int64_t)extent;
    }
    return fits && ig_shape_valid(*out)
               ? IG_OK
               : IG_FAIL(IG_ERR_FORMAT, "%s: %s: its shape is none", file, name);
}

/* `data` is what follows the header. */
static ig_status read_tensor(const char *file, const char *name, const json_t *entry,
                             const uint8_t *data, uint64_t data_bytes, ig_safetensor *t) {
    uint64_t bytes_each = 0, begin = 0, end = 0, n_bytes;
    const size_t length = strlen(name);
    if (length == 0 || length > MAX_NAME_BYTES)
        return IG_FAIL(IG_ERR_FORMAT, "%s: a tensor's name has %zu bytes, not 1 to %d", file,
                       length, MAX_NAME_BYTES);
    t->name = name;
    IG_TRY(read_type(file, name, entry, t, &bytes_each));
    IG_TRY(read_shape(file, name, entry, &t->desc.shape));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (json_array_size(offsets) != 2 || !whole_number(json_array_get(offsets, 0), &begin) ||
        !whole_number(json_array_get(offsets, 1), &end) || begin > end || end > data_bytes)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: %s: data_offsets are no two numbers that ascend up to %" PRIu64, file,
                       name, data_bytes);
    if (__builtin_mul_overflow((uint64_t)ig_shape_count(t->desc.shape), bytes_each, &n_bytes) ||
        n_bytes != end - begin)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: %" PRIu64 " bytes are not its shape of %s", file,
                       name, end - begin, t->type);
    t->bytes = data + begin;
    t->n_bytes = n_bytes;
    return IG_OK;
}

/* ---- One file ---- */

static int by_place(const void *a, const void *b) {
    const ig_safetensor *x = a, *y = b;
    if (x->bytes != y->bytes) return (const char *)x->bytes < (const char *)y->bytes ? -1 : 1;
    return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes;
}

/* The tensors must tile the data without holes or overlap. Sorts them by offset. */
static ig_status check_tiling(const char *file, ig_safetensor *tensors, size_t count,
                              const uint8_t *data, uint64_t data_bytes) {
    if (count > 1) qsort(tensors, count, sizeof *tensors, by_place);
    const uint8_t *at = data;
    for (size_t i = 0; i < count; i++) {
        if (tensors[i].bytes != at)
            return IG_FAIL(IG_ERR_FORMAT, "%s: %s begins at %td, the tensors before it end at %td",
                           file, tensors[i].name, (const uint8_t *)tensors[i].bytes - data,
                           at - data);
        at += tensors[i].n_bytes;
    }
    if (at != data + data_bytes)
        return IG_FAIL(IG_ERR_FORMAT, "%s: the last %td of its bytes belong to no tensor", file,
                       data + data_bytes - at);
    return IG_OK;
}

static ig_status check_metadata(const char *file, const json_t *metadata) {
    const char *key;
    json_t *value;
    bool texts = json_is_object(metadata);
    json_object_foreach((json_t *)metadata, key, value) texts = texts && json_is_string(value);
    return texts ? IG_OK : IG_FAIL(IG_ERR_FORMAT, "%s: __metadata__ is not texts alone", file);
}

static ig_status read_header(const char *file, const uint8_t *bytes, uint64_t size,
                             uint64_t *out_bytes, json_t **out) {
    uint64_t n = 0;
    if (size < LENGTH_BYTES)
        return IG_FAIL(IG_ERR_FORMAT, "%s: has %" PRIu64 " bytes, fewer than a length", file, size);
    memcpy(&n, bytes, sizeof n);
    if (n > MAX_HEADER_BYTES || n > size - LENGTH_BYTES)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: its header of %" PRIu64 " bytes is longer than the file (%" PRIu64
                       ") or than is allowed (%d)",
                       file, n, size, MAX_HEADER_BYTES);
    if (n == 0 || bytes[LENGTH_BYTES] != '{')
        return IG_FAIL(IG_ERR_FORMAT, "%s: is not a safetensors file", file);
    *out_bytes = n;
    return ig_json_parse(file, "the header", bytes + LENGTH_BYTES, (size_t)n, out);
}

/* Appends the tensors of a file; the newest shard owns the header. */
static ig_status add_tensors(ig_safetensors *s, const char *file, const uint8_t *bytes,
                             uint64_t size) {
    json_t **header = &s->shards[s->n_shards - 1].header, *entry;
    const size_t first = s->count;
    const char *name;
    uint64_t header_bytes = 0;
    IG_TRY(read_header(file, bytes, size, &header_bytes, header));
    const uint8_t *data = bytes + LENGTH_BYTES + header_bytes;
    const uint64_t data_bytes = size - LENGTH_BYTES - header_bytes;
    if (json_object_size(*header) > MAX_TENSORS)
        return IG_FAIL(IG_ERR_FORMAT, "%s: has %zu tensors, at most %d are allowed", file,
                       json_object_size(*header), MAX_TENSORS);
    json_object_foreach(*header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) {
            IG_TRY(check_metadata(file, entry));
            continue;
        }
        if (!IG_GROW(s->allocator, s->tensors, &s->capacity, s->count + 1))
            return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %s", file, name);
        IG_TRY(read_tensor(file, name, entry, data, data_bytes, &s->tensors[s->count++]));
    }
    ig_safetensor *added =
        s->tensors ? s->tensors + first : NULL; /* the file may have no tensors */
    return check_tiling(file, added, s->count - first, data, data_bytes);
}

static ig_status index_names(ig_safetensors *s, const char *file) {
    if (!ig_names_init(&s->names, s->allocator, s->count))
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu tensors", file, s->count);
    for (size_t i = 0; i < s->count; i++)
        if (!ig_names_add(&s->names, s->tensors[i].name, strlen(s->tensors[i].name), i))
            return IG_FAIL(IG_ERR_FORMAT, "%s: has the tensor %s twice", file, s->tensors[i].name);
    return IG_OK;
}

static ig_status add_shard(ig_safetensors *s, const char *file) {
    if (!IG_GROW(s->allocator, s->shards, &s->shard_capacity, s->n_shards + 1))
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to open it", file);
    s->n_shards++;
    return IG_OK;
}

ig_status ig_safetensors_open(const ig_allocator *a, const char *name, const void *bytes,
                              uint64_t size, ig_safetensors **out) {
    ig_safetensors *s = ig_alloc(a, 1, sizeof *s);
    if (!s) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to open it", name);
    s->allocator = a;
    ig_status status = add_shard(s, name);
    if (status == IG_OK) status = add_tensors(s, name, bytes, size);
    if (status == IG_OK) status = index_names(s, name);
    if (status == IG_OK)
        *out = s;
    else
        ig_safetensors_close(s);
    return status;
}

/* ---- A folder ---- */

/* A plain file name within the folder: no separators, no "..". */
static bool is_shard_name(const char *name) {
    static const char tail[] = ".safetensors";
    const size_t length = strlen(name), tail_length = sizeof tail - 1;
    return length > tail_length && length < 256 && name[0] != '.' && !strchr(name, '/') &&
           strcmp(name + length - tail_length, tail) == 0;
}

static ig_status add_file(ig_safetensors *s, const char *dir, const char *name) {
    IG_TRY(add_shard(s, name));
    shard *last = &s->shards[s->n_shards - 1];
    last->path = ig_json_path(s->allocator, dir, name);
    if (!last->path) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its name", name);
    IG_TRY(ig_file_map_open(last->path, &last->map));
    return add_tensors(s, last->path, last->map.bytes, last->map.size);
}

/* Whether a shard of that name is already open. */
static bool is_open(const ig_safetensors *s, const char *name) {
    for (size_t i = 0; i < s->n_shards; i++) {
        const char *slash = strrchr(s->shards[i].path, '/');
        if (slash && strcmp(slash + 1, name) == 0) return true;
    }
    return false;
}

static ig_status add_shards(ig_safetensors *s, const char *dir, const json_t *map) {
    const char *tensor;
    json_t *value;
    if (!json_is_object(map))
        return IG_FAIL(IG_ERR_FORMAT, "%s/model.safetensors.index.json: has no weight_map", dir);
    json_object_foreach((json_t *)map, tensor, value) {
        const char *name = json_string_value(value);
        if (!name || !is_shard_name(name))
            return IG_FAIL(IG_ERR_FORMAT,
                           "%s/model.safetensors.index.json: %.64s: \"%.64s\" is no name of a "
                           ".safetensors file in this folder",
                           dir, tensor, name ? name : "");
        if (is_open(s, name)) continue;
        if (s->n_shards == MAX_SHARDS)
            return IG_FAIL(IG_ERR_FORMAT, "%s: more than %d shards", dir, MAX_SHARDS);
        IG_TRY(add_file(s, dir, name));
    }
    return IG_OK;
}

/* Every tensor of the index must exist. */
static ig_status check_promises(const ig_safetensors *s, const char *dir, const json_t *map) {
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)map, tensor, value) {
        if (!ig_safetensors_find(s, tensor))
            return IG_FAIL(IG_ERR_FORMAT, "%s: the index says %s has %.64s, which it has not", dir,
                           json_string_value(value), tensor);
    }
    return IG_OK;
}

static ig_status open_index(ig_safetensors *s, const char *dir) {
    json_t *index = NULL;
    IG_TRY(ig_json_load(s->allocator, dir, "model.safetensors.index.json", &index));
    const json_t *map = json_object_get(index, "weight_map");
    ig_status status = add_shards(s, dir, map);
    if (status == IG_OK) status = index_names(s, dir);
    if (status == IG_OK) status = check_promises(s, dir, map);
    json_decref(index);
    return status;
}

static ig_status open_single(ig_safetensors *s, const char *dir) {
    IG_TRY(add_file(s, dir, "model.safetensors"));
    return index_names(s, dir);
}

ig_status ig_safetensors_open_dir(const ig_allocator *a, const char *dir, ig_safetensors **out) {
    ig_safetensors *s = ig_alloc(a, 1, sizeof *s);
    if (!s) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to open it", dir);
    s->allocator = a;
    const ig_status status = ig_json_exists(dir, "model.safetensors.index.json")
                                 ? open_index(s, dir)
                                 : open_single(s, dir);
    if (status == IG_OK)
        *out = s;
    else
        ig_safetensors_close(s);
    return status;
}

/* ---- The rest ---- */

void ig_safetensors_close(ig_safetensors *s) {
    if (!s) return;
    for (size_t i = 0; i < s->n_shards; i++) {
        json_decref(s->shards[i].header);
        ig_file_map_close(&s->shards[i].map);
        ig_free(s->allocator, s->shards[i].path);
    }
    ig_names_deinit(&s->names, s->allocator);
    ig_free(s->allocator, s->tensors);
    ig_free(s->allocator, s->shards);
    ig_free(s->allocator, s);
}

size_t ig_safetensors_count(const ig_safetensors *s) { return s->count; }
const ig_safetensor *ig_safetensors_at(const ig_safetensors *s, size_t i) { return &s->tensors[i]; }

const ig_safetensor *ig_safetensors_find(const ig_safetensors *s, const char *name) {
    size_t i;
    return ig_names_find(&s->names, name, strlen(name), &i) ? &s->tensors[i] : NULL;
}
