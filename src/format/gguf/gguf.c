/*
 * Reading GGUF: a cursor passes once over the header, value by value and tensor by tensor, and
 * never reads past the end. Counts are compared with the remaining bytes first, and memory is
 * allocated as elements are found, so a short file cannot request much. Tensor offsets are
 * redundant: each must be exactly the padded end of the previous tensor, so tensors cannot overlap
 * and no bytes are hidden.
 */
#include "format/gguf/gguf.h"

#include <inttypes.h>

#include "format/gguf/gguf_part.h"

typedef struct cursor {
    const char *file; /* for messages */
    const uint8_t *bytes;
    uint64_t size, at; /* at <= size */
} cursor;

/* How many bytes of a text from the file a message shows, with "%.*s". */
enum { SHOWN_BYTES = 80 };
#define SHOWN(text) (int)((text).n_bytes < SHOWN_BYTES ? (text).n_bytes : SHOWN_BYTES), (text).bytes

static uint64_t left(const cursor *c) { return c->size - c->at; }

/* The next bytes; NULL: the file is too short, and the error is IG_ERR_FORMAT. */
static const uint8_t *take(cursor *c, const char *what, uint64_t n_bytes) {
    if (n_bytes > left(c)) {
        (void)IG_FAIL(IG_ERR_FORMAT,
                      "%s: is cut off: %s takes %" PRIu64 " bytes at %" PRIu64 ", %" PRIu64
                      " are left",
                      c->file, what, n_bytes, c->at, left(c));
        return NULL;
    }
    const uint8_t *p = c->bytes + c->at;
    c->at += n_bytes;
    return p;
}

static ig_status take32(cursor *c, const char *what, uint32_t *out) {
    const uint8_t *p = take(c, what, sizeof *out);
    if (!p) return IG_ERR_FORMAT;
    *out = gguf_get32(p);
    return IG_OK;
}

static ig_status take64(cursor *c, const char *what, uint64_t *out) {
    const uint8_t *p = take(c, what, sizeof *out);
    if (!p) return IG_ERR_FORMAT;
    *out = gguf_get64(p);
    return IG_OK;
}

static ig_status take_text(cursor *c, const char *what, ig_string_view *out) {
    uint64_t n_bytes;
    IG_TRY(take64(c, what, &n_bytes));
    if (n_bytes > GGUF_MAX_LENGTH)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s has %" PRIu64 " bytes, no text has more than %d",
                       c->file, what, n_bytes, GGUF_MAX_LENGTH);
    const uint8_t *p = take(c, what, n_bytes);
    if (!p) return IG_ERR_FORMAT;
    *out = (ig_string_view){(const char *)p, n_bytes};
    return IG_OK;
}

/* ---- Values ---- */

/* Walks over the strings to check that they exist, before memory for them is allocated. */
static ig_status take_texts(const ig_allocator *a, cursor *c, ig_gguf_value *value) {
    const char what[] = "a text";
    cursor ahead = *c;
    ig_string_view text = {0};
    for (uint64_t i = 0; i < value->count; i++) IG_TRY(take_text(&ahead, what, &text));

    ig_string_view *texts = ig_alloc(a, (size_t)value->count, sizeof *texts);
    if (!texts)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for the %" PRIu64 " texts of %.*s", c->file,
                       value->count, SHOWN(value->key));
    value->texts = texts;
    for (uint64_t i = 0; i < value->count; i++) IG_TRY(take_text(c, what, &texts[i]));
    return IG_OK;
}

static ig_status take_numbers(cursor *c, ig_gguf_value *value, uint32_t type) {
    const size_t bytes_each = gguf_type_bytes(type);
    if (value->count > left(c) / bytes_each)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: is cut off: %.*s has %" PRIu64 " numbers at %" PRIu64 ", %" PRIu64
                       " bytes are left",
                       c->file, SHOWN(value->key), value->count, c->at, left(c));
    value->packed = take(c, "a number", value->count * bytes_each);
    return value->packed ? IG_OK : IG_ERR_FORMAT;
}

static ig_status take_array_head(cursor *c, ig_gguf_value *value, uint32_t *elements) {
    IG_TRY(take32(c, "the type of an array", elements));
    IG_TRY(take64(c, "the length of an array", &value->count));
    if (*elements >= GGUF_N_TYPES || *elements == IG_GGUF_ARRAY)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %.*s is an array of %s (type %u)", c->file,
                       SHOWN(value->key),
                       *elements == IG_GGUF_ARRAY ? "arrays" : "nothing that is known", *elements);
    if (value->count > GGUF_MAX_LENGTH)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: %.*s has %" PRIu64 " elements, no array has more than %d", c->file,
                       SHOWN(value->key), value->count, GGUF_MAX_LENGTH);
    value->elements = (ig_gguf_type)*elements;
    return IG_OK;
}

/* `value` is zeroed; it may own texts even after a failure. */
static ig_status take_value(const ig_allocator *a, cursor *c, ig_gguf_value *value) {
    uint32_t type;
    IG_TRY(take_text(c, "a key", &value->key));
    if (value->key.n_bytes == 0)
        return IG_FAIL(IG_ERR_FORMAT, "%s: has an empty key at %" PRIu64, c->file, c->at);
    IG_TRY(take32(c, "the type of a value", &type));
    if (type >= GGUF_N_TYPES)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %.*s is of type %u, which is not known", c->file,
                       SHOWN(value->key), type);
    value->type = (ig_gguf_type)type;
    value->count = 1;
    if (type == IG_GGUF_ARRAY) IG_TRY(take_array_head(c, value, &type));
    return type == IG_GGUF_STRING ? take_texts(a, c, value) : take_numbers(c, value, type);
}

static ig_status take_values(const ig_allocator *a, cursor *c, gguf_part *part, uint64_t count) {
    if (count > left(c) / GGUF_MIN_VALUE_BYTES)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %" PRIu64 " keys do not fit in %" PRIu64 " bytes",
                       c->file, count, left(c));
    size_t capacity = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!IG_GROW(a, part->values, &capacity, part->n_values + 1))
            return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for key %" PRIu64, c->file, i);
        IG_TRY(take_value(a, c, &part->values[part->n_values++]));
    }
    if (!ig_names_init(&part->keys, a, part->n_values))
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %" PRIu64 " keys", c->file, count);
    for (size_t i = 0; i < part->n_values; i++) {
        const ig_string_view key = part->values[i].key;
        if (!ig_names_add(&part->keys, key.bytes, (size_t)key.n_bytes, i))
            return IG_FAIL(IG_ERR_FORMAT, "%s: has the key %.*s twice", c->file, SHOWN(key));
    }
    return IG_OK;
}

/* ---- Tensors ---- */

static ig_status take_name(const ig_allocator *a, cursor *c, const char **out) {
    ig_string_view text = {0};
    IG_TRY(take_text(c, "the name of a tensor", &text));
    const size_t n_bytes = (size_t)text.n_bytes;
    if (n_bytes == 0 || n_bytes > GGUF_MAX_NAME_BYTES || memchr(text.bytes, '\0', n_bytes))
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: a tensor's name \"%.*s\" has %zu bytes, not 1 to %d without a 0",
                       c->file, SHOWN(text), n_bytes, GGUF_MAX_NAME_BYTES);
    char *name = ig_alloc(a, n_bytes + 1, 1);
    if (!name) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for a name", c->file);
    *out = memcpy(name, text.bytes, n_bytes);
    return IG_OK;
}

static ig_status take_shape(cursor *c, const char *name, ig_shape *out) {
    uint32_t rank;
    IG_TRY(take32(c, "the dims of a tensor", &rank));
    if (rank > GGUF_MAX_DIMS)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s has %u dimensions, at most %d are allowed", c->file,
                       name, rank, GGUF_MAX_DIMS);
    out->rank = (int32_t)rank;
    for (uint32_t d = 0; d < rank; d++) {
        uint64_t extent;
        IG_TRY(take64(c, "the extents of a tensor", &extent));
        out->dim[rank - 1 - d] = (int64_t)extent;
    }
    if (!ig_shape_valid(*out)) {
        char shape[IG_SHAPE_TEXT_BYTES];
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: %s is no shape of a tensor", c->file, name,
                       ig_shape_text(*out, shape));
    }
    return IG_OK;
}

static ig_status take_dtype(cursor *c, const char *name, ig_dtype *out) {
    uint32_t number;
    const char *known;
    IG_TRY(take32(c, "the type of a tensor", &number));
    if (gguf_dtype(number, out, &known)) return IG_OK;
    if (known)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s is of type %s, which this program does not read",
                       c->file, name, known);
    return IG_FAIL(IG_ERR_FORMAT, "%s: %s is of type %u, which is not known", c->file, name,
                   number);
}

/* In: `*end` is the padded end of the previous tensor. Out: the end of this one. Both are offsets
 * into the data. */
static ig_status take_tensor(const ig_allocator *a, cursor *c, uint64_t alignment,
                             ig_gguf_tensor *t, uint64_t *end) {
    uint64_t offset;
    char shape[IG_SHAPE_TEXT_BYTES];
    IG_TRY(take_name(a, c, &t->name));
    IG_TRY(take_shape(c, t->name, &t->desc.shape));
    IG_TRY(take_dtype(c, t->name, &t->desc.dtype));
    IG_TRY(take64(c, "the offset of a tensor", &offset));
    if (!ig_desc_bytes(t->desc, &t->n_bytes))
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: %s cannot be made of %s", c->file, t->name,
                       ig_shape_text(t->desc.shape, shape), ig_dtype_name(t->desc.dtype));
    if (offset != *end)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: %s is at offset %" PRIu64 ", the tensors before it end at %" PRIu64,
                       c->file, t->name, offset, *end);
    if (__builtin_add_overflow(*end, t->n_bytes, end) || !gguf_align_up(*end, alignment, end))
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: %" PRIu64 " bytes at %" PRIu64 " are too many",
                       c->file, t->name, t->n_bytes, offset);
    return IG_OK;
}

/* After the header: sets the addresses of the part's tensors, from `first` on. */
static ig_status place_tensors(ig_gguf *gguf, const cursor *c, uint64_t alignment, size_t first) {
    uint64_t at;
    if (!gguf_align_up(c->at, alignment, &at)) at = UINT64_MAX;
    for (size_t i = first; i < gguf->n_tensors; i++) {
        ig_gguf_tensor *t = &gguf->tensors[i];
        if (at > c->size || t->n_bytes > c->size - at)
            return IG_FAIL(IG_ERR_FORMAT,
                           "%s: is cut off: %s has %" PRIu64 " bytes at %" PRIu64
                           ", the file ends at %" PRIu64,
                           c->file, t->name, t->n_bytes, at, c->size);
        t->bytes = c->bytes + at;
        at += t->n_bytes;
        if (!gguf_align_up(at, alignment, &at)) at = UINT64_MAX;
    }
    return IG_OK;
}

static ig_status alignment_of(const gguf_part *part, uint64_t *out) {
    *out = GGUF_DEFAULT_ALIGNMENT;
    const ig_gguf_value *value = gguf_part_find(part, GGUF_KEY_ALIGNMENT);
    if (!value) return IG_OK;
    if (value->type != IG_GGUF_U32)
        return IG_FAIL(IG_ERR_FORMAT, "%s: " GGUF_KEY_ALIGNMENT " is of type %d, not u32 (%d)",
                       part->name, (int)value->type, IG_GGUF_U32);
    const uint64_t alignment = (uint64_t)ig_gguf_int_at(value, 0);
    if (alignment < GGUF_MIN_ALIGNMENT || (alignment & (alignment - 1)) != 0)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: " GGUF_KEY_ALIGNMENT " is %" PRIu64 ", not a power of two from %d on",
                       part->name, alignment, GGUF_MIN_ALIGNMENT);
    *out = alignment;
    return IG_OK;
}

static ig_status take_tensors(ig_gguf *gguf, cursor *c, uint64_t count) {
    const uint32_t part = (uint32_t)(gguf->n_parts - 1);
    const size_t first = gguf->n_tensors;
    uint64_t alignment, end = 0;
    IG_TRY(alignment_of(&gguf->parts[part], &alignment));
    if (count > left(c) / GGUF_MIN_TENSOR_BYTES)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %" PRIu64 " tensors do not fit in %" PRIu64 " bytes",
                       c->file, count, left(c));
    for (uint64_t i = 0; i < count; i++) {
        if (!IG_GROW(gguf->allocator, gguf->tensors, &gguf->tensor_capacity, gguf->n_tensors + 1))
            return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for tensor %" PRIu64, c->file, i);
        ig_gguf_tensor *t = &gguf->tensors[gguf->n_tensors++];
        t->part = part;
        IG_TRY(take_tensor(gguf->allocator, c, alignment, t, &end));
    }
    return gguf->parts[part].head_only ? IG_OK : place_tensors(gguf, c, alignment, first);
}

/* ---- The whole ---- */

static ig_status take_header(cursor *c, uint32_t *version, uint64_t *n_values,
                             uint64_t *n_tensors) {
    if (c->size < GGUF_HEADER_BYTES)
        return IG_FAIL(IG_ERR_FORMAT, "%s: has %" PRIu64 " bytes, fewer than a GGUF header (%d)",
                       c->file, c->size, GGUF_HEADER_BYTES);
    const uint8_t *magic = take(c, "the header", 4);
    if (!magic || memcmp(magic, GGUF_MAGIC, 4) != 0)
        return IG_FAIL(IG_ERR_FORMAT, "%s: is not a GGUF file", c->file);
    IG_TRY(take32(c, "the header", version));
    if (*version > UINT16_MAX && (*version & UINT16_MAX) == 0)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: was written for a machine of the other byte order; convert it "
                       "again for a little-endian one",
                       c->file);
    if (*version < GGUF_VERSION_OLDEST || *version > GGUF_VERSION)
        return IG_FAIL(IG_ERR_FORMAT, "%s: is of GGUF version %u, this program reads %d and %d",
                       c->file, *version, GGUF_VERSION_OLDEST, GGUF_VERSION);
    IG_TRY(take64(c, "the header", n_tensors));
    return take64(c, "the header", n_values);
}

ig_status gguf_add_part(ig_gguf *gguf, const gguf_part *opened) {
    if (!IG_GROW(gguf->allocator, gguf->parts, &gguf->part_capacity, gguf->n_parts + 1))
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to open it", opened->name);
    gguf_part *part = &gguf->parts[gguf->n_parts++];
    *part = *opened;

    cursor c = {part->name, part->bytes, part->size, 0};
    uint64_t n_values = 0, n_tensors = 0;
    IG_TRY(take_header(&c, &part->version, &n_values, &n_tensors));
    IG_TRY(take_values(gguf->allocator, &c, part, n_values));
    return take_tensors(gguf, &c, n_tensors);
}

ig_status gguf_index_tensors(ig_gguf *gguf) {
    const char *file = gguf->parts[0].name;
    if (!ig_names_init(&gguf->names, gguf->allocator, gguf->n_tensors))
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu tensors", file, gguf->n_tensors);
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        const char *name = gguf->tensors[i].name;
        if (!ig_names_add(&gguf->names, name, strlen(name), i))
            return IG_FAIL(IG_ERR_FORMAT, "%s: has the tensor %s twice", file, name);
    }
    return IG_OK;
}

static ig_status open_part(const ig_allocator *a, const gguf_part *part, ig_gguf **out) {
    ig_gguf *gguf = ig_alloc(a, 1, sizeof *gguf);
    if (!gguf) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to open it", part->name);
    gguf->allocator = a;

    ig_status status = gguf_add_part(gguf, part);
    if (status == IG_OK) status = gguf_index_tensors(gguf);
    if (status == IG_OK)
        *out = gguf;
    else
        ig_gguf_close(gguf);
    return status;
}

ig_status ig_gguf_parse(const ig_allocator *a, const char *name, const void *bytes, uint64_t size,
                        ig_gguf **out) {
    const gguf_part part = {.name = name, .bytes = bytes, .size = size};
    return open_part(a, &part, out);
}

ig_status ig_gguf_open_head(const ig_allocator *a, const char *name, const void *bytes,
                            uint64_t size, ig_gguf **out) {
    const gguf_part part = {.name = name, .bytes = bytes, .size = size, .head_only = true};
    return open_part(a, &part, out);
}

void ig_gguf_set_bytes(ig_gguf *gguf, size_t i, const void *bytes) {
    assert(i < gguf->n_tensors && gguf->parts[0].head_only);
    gguf->tensors[i].bytes = bytes;
}

static void close_part(const ig_allocator *a, gguf_part *part) {
    for (size_t i = 0; i < part->n_values; i++) ig_free(a, (void *)part->values[i].texts);
    ig_free(a, part->values);
    ig_names_deinit(&part->keys, a);
    ig_file_map_close(&part->map);
    ig_free(a, part->path);
}

void ig_gguf_close(ig_gguf *gguf) {
    if (!gguf) return;
    const ig_allocator *a = gguf->allocator;
    for (size_t i = 0; i < gguf->n_tensors; i++) ig_free(a, (void *)gguf->tensors[i].name);
    for (size_t i = 0; i < gguf->n_parts; i++) close_part(a, &gguf->parts[i]);
    ig_names_deinit(&gguf->names, a);
    ig_free(a, gguf->tensors);
    ig_free(a, gguf->parts);
    ig_free(a, gguf);
}

/* ---- What is in it ---- */

uint32_t ig_gguf_version(const ig_gguf *gguf) { return gguf->parts[0].version; }
size_t ig_gguf_n_parts(const ig_gguf *gguf) { return gguf->n_parts; }
const char *ig_gguf_part_name(const ig_gguf *gguf, size_t i) {
    return i < gguf->n_parts ? gguf->parts[i].name : NULL;
}
size_t ig_gguf_n_values(const ig_gguf *gguf) { return gguf->parts[0].n_values; }
size_t ig_gguf_n_tensors(const ig_gguf *gguf) { return gguf->n_tensors; }

uint64_t ig_gguf_file_bytes(const ig_gguf *gguf) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < gguf->n_parts; i++) bytes += gguf->parts[i].size;
    return bytes;
}

const ig_gguf_value *gguf_part_find(const gguf_part *part, const char *key) {
    size_t i;
    return ig_names_find(&part->keys, key, strlen(key), &i) ? &part->values[i] : NULL;
}

const ig_gguf_value *ig_gguf_find(const ig_gguf *gguf, const char *key) {
    return gguf_part_find(&gguf->parts[0], key);
}

const ig_gguf_value *ig_gguf_value_at(const ig_gguf *gguf, size_t i) {
    return i < gguf->parts[0].n_values ? &gguf->parts[0].values[i] : NULL;
}

const ig_gguf_tensor *ig_gguf_tensor_at(const ig_gguf *gguf, size_t i) {
    return i < gguf->n_tensors ? &gguf->tensors[i] : NULL;
}

const ig_gguf_tensor *ig_gguf_find_tensor(const ig_gguf *gguf, const char *name) {
    size_t i;
    return ig_names_find(&gguf->names, name, strlen(name), &i) ? &gguf->tensors[i] : NULL;
}
