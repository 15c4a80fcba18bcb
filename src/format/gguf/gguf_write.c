/*
 * Writing GGUF: values are encoded as they come, one buffer each, so that a key can be set again;
 * tensors are laid out in the order they are added. The header is assembled from both at the end.
 */
#include <inttypes.h>
#include <stdio.h>

#include "format/gguf/gguf_layout.h"
#include "format/name_table.h"

/* A growing buffer. */
typedef struct buffer {
    uint8_t *bytes;
    size_t used, capacity;
} buffer;

typedef struct value {
    buffer packed; /* with its key, which begins at TEXT_BEGIN */
    size_t key_bytes;
} value;

enum { TEXT_BEGIN = 8 }; /* after the key's length */

typedef struct tensor {
    char *name;
    ig_desc desc;
    uint64_t n_bytes, at; /* `at`: offset in the data */
} tensor;

struct ig_gguf_writer {
    const ig_allocator *allocator;
    const char *name;
    value *values;
    size_t n_values, value_capacity;
    tensor *tensors;
    size_t n_tensors, tensor_capacity;
    uint64_t alignment, data_bytes;
    buffer head;
    ig_status status; /* the first failure */
    char why[256];    /* its message */
};

/* ---- Packing ---- */

static void stick(ig_gguf_writer *w, ig_status status) {
    if (w->status != IG_OK) return;
    w->status = status;
    snprintf(w->why, sizeof w->why, "%s", ig_error_text());
}

static void put(ig_gguf_writer *w, buffer *b, const void *bytes, uint64_t n_bytes) {
    if (w->status != IG_OK || n_bytes == 0) return;
    if (n_bytes > SIZE_MAX / 4 - b->used ||
        !IG_GROW(w->allocator, b->bytes, &b->capacity, b->used + (size_t)n_bytes)) {
        stick(w, IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %" PRIu64 " bytes of its head", w->name,
                         n_bytes));
        return;
    }
    memcpy(b->bytes + b->used, bytes, (size_t)n_bytes);
    b->used += (size_t)n_bytes;
}

static void put32(ig_gguf_writer *w, buffer *b, uint32_t x) { put(w, b, &x, sizeof x); }
static void put64(ig_gguf_writer *w, buffer *b, uint64_t x) { put(w, b, &x, sizeof x); }

static void put_text(ig_gguf_writer *w, buffer *b, ig_string_view text) {
    put64(w, b, text.n_bytes);
    put(w, b, text.bytes, text.n_bytes);
}

static void put_padding(ig_gguf_writer *w, buffer *b) {
    static const uint8_t zeros[64];
    while (w->status == IG_OK && b->used % w->alignment != 0) {
        const uint64_t missing = w->alignment - b->used % w->alignment;
        put(w, b, zeros, missing < sizeof zeros ? missing : sizeof zeros);
    }
}

/* ---- Values ---- */

/* The value of an existing key, to be replaced, or a new one; NULL: out of memory. There are few
 * keys, so the search is linear. */
static value *value_of(ig_gguf_writer *w, ig_string_view key) {
    for (size_t i = 0; i < w->n_values; i++) {
        value *v = &w->values[i];
        if (v->key_bytes == key.n_bytes &&
            memcmp(v->packed.bytes + TEXT_BEGIN, key.bytes, v->key_bytes) == 0)
            return v;
    }
    if (!IG_GROW(w->allocator, w->values, &w->value_capacity, w->n_values + 1)) return NULL;
    value *v = &w->values[w->n_values++];
    v->key_bytes = (size_t)key.n_bytes;
    return v;
}

void ig_gguf_writer_value(ig_gguf_writer *w, const ig_gguf_value *given) {
    if (w->status != IG_OK) return;
    const bool is_array = given->type == IG_GGUF_ARRAY;
    const ig_gguf_type type = is_array ? given->elements : given->type;
    value *v = given->key.n_bytes ? value_of(w, given->key) : NULL;
    if (!v) {
        stick(w, given->key.n_bytes ? IG_FAIL(IG_ERR_MEMORY, "%s: no memory for a key", w->name)
                                    : IG_FAIL(IG_ERR_ARGUMENT, "%s: a key is empty", w->name));
        return;
    }
    v->packed.used = 0;
    put_text(w, &v->packed, given->key);
    put32(w, &v->packed, given->type);
    if (is_array) {
        put32(w, &v->packed, given->elements);
        put64(w, &v->packed, given->count);
    }
    if (type == IG_GGUF_STRING)
        for (uint64_t i = 0; i < given->count; i++) put_text(w, &v->packed, given->texts[i]);
    else
        put(w, &v->packed, given->packed, given->count * gguf_type_bytes(type));
}

static ig_string_view text_of(const char *text) { return (ig_string_view){text, strlen(text)}; }

static void put_one(ig_gguf_writer *w, const char *key, ig_gguf_type type, const void *packed) {
    const ig_gguf_value v = {.key = text_of(key), .type = type, .count = 1, .packed = packed};
    ig_gguf_writer_value(w, &v);
}

void ig_gguf_writer_u32(ig_gguf_writer *w, const char *key, uint32_t x) {
    put_one(w, key, IG_GGUF_U32, &x);
}

void ig_gguf_writer_f32(ig_gguf_writer *w, const char *key, float x) {
    put_one(w, key, IG_GGUF_F32, &x);
}

void ig_gguf_writer_bool(ig_gguf_writer *w, const char *key, bool x) {
    const uint8_t byte = x;
    put_one(w, key, IG_GGUF_BOOL, &byte);
}

void ig_gguf_writer_text(ig_gguf_writer *w, const char *key, const char *text) {
    const ig_string_view t = text_of(text);
    const ig_gguf_value v = {.key = text_of(key), .type = IG_GGUF_STRING, .count = 1, .texts = &t};
    ig_gguf_writer_value(w, &v);
}

void ig_gguf_writer_array(ig_gguf_writer *w, const char *key, ig_gguf_type elements,
                          const void *packed, uint64_t count) {
    const ig_gguf_value v = {text_of(key), IG_GGUF_ARRAY, elements, count, packed, NULL};
    ig_gguf_writer_value(w, &v);
}

void ig_gguf_writer_texts(ig_gguf_writer *w, const char *key, const ig_string_view *texts,
                          uint64_t count) {
    const ig_gguf_value v = {text_of(key), IG_GGUF_ARRAY, IG_GGUF_STRING, count, NULL, texts};
    ig_gguf_writer_value(w, &v);
}

/* ---- Tensors ---- */

static ig_status check_tensor(const ig_gguf_writer *w, const char *name, ig_desc desc,
                              uint64_t *n_bytes) {
    char shape[IG_SHAPE_TEXT_BYTES];
    const size_t length = strlen(name);
    if (length == 0 || length > GGUF_MAX_NAME_BYTES)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: \"%.80s\": a tensor's name has 1 to %d bytes", w->name,
                       name, GGUF_MAX_NAME_BYTES);
    if (desc.shape.rank > GGUF_MAX_DIMS || !ig_desc_bytes(desc, n_bytes))
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: %s: %s of %s cannot be stored", w->name, name,
                       ig_shape_valid(desc.shape) ? ig_shape_text(desc.shape, shape) : "a tensor",
                       ig_dtype_name(desc.dtype));
    return IG_OK;
}

void ig_gguf_writer_tensor(ig_gguf_writer *w, const char *name, ig_desc desc) {
    uint64_t n_bytes;
    if (w->status != IG_OK) return;
    const ig_status status = check_tensor(w, name, desc, &n_bytes);
    if (status != IG_OK) {
        stick(w, status);
        return;
    }
    char *copy = ig_copy_text(w->allocator, name);
    if (!copy || !IG_GROW(w->allocator, w->tensors, &w->tensor_capacity, w->n_tensors + 1)) {
        stick(w, IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %s", w->name, name));
        ig_free(w->allocator, copy);
        return;
    }
    w->tensors[w->n_tensors++] = (tensor){copy, desc, n_bytes, 0};
}

static ig_status lay_out(ig_gguf_writer *w) {
    ig_names names;
    uint64_t at = 0;
    if (!ig_names_init(&names, w->allocator, w->n_tensors))
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu names", w->name, w->n_tensors);
    const char *twice = NULL;
    bool fits = true;
    for (size_t i = 0; i < w->n_tensors && !twice && fits; i++) {
        tensor *t = &w->tensors[i];
        if (!ig_names_add(&names, t->name, strlen(t->name), i)) twice = t->name;
        t->at = at;
        fits = !__builtin_add_overflow(at, t->n_bytes, &at) &&
               gguf_align_up(at, w->alignment, &at) && at <= INT64_MAX / 2;
    }
    ig_names_deinit(&names, w->allocator);
    w->data_bytes = at;
    if (twice) return IG_FAIL(IG_ERR_ARGUMENT, "%s: two tensors are called %s", w->name, twice);
    if (!fits) return IG_FAIL(IG_ERR_ARGUMENT, "%s: its tensors are too large for a file", w->name);
    return IG_OK;
}

/* ---- The whole ---- */

ig_status ig_gguf_writer_create(const ig_allocator *a, const char *name, ig_gguf_writer **out) {
    ig_gguf_writer *w = ig_alloc(a, 1, sizeof *w);
    if (!w) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to write it", name);
    w->allocator = a;
    w->name = name;
    w->alignment = GGUF_DEFAULT_ALIGNMENT;
    *out = w;
    return IG_OK;
}

void ig_gguf_writer_destroy(ig_gguf_writer *w) {
    if (!w) return;
    const ig_allocator *a = w->allocator;
    for (size_t i = 0; i < w->n_values; i++) ig_free(a, w->values[i].packed.bytes);
    for (size_t i = 0; i < w->n_tensors; i++) ig_free(a, w->tensors[i].name);
    ig_free(a, w->values);
    ig_free(a, w->tensors);
    ig_free(a, w->head.bytes);
    ig_free(a, w);
}

static void put_tensor(ig_gguf_writer *w, const tensor *t) {
    const ig_shape *shape = &t->desc.shape;
    put_text(w, &w->head, text_of(t->name));
    put32(w, &w->head, (uint32_t)shape->rank);
    for (int d = shape->rank - 1; d >= 0; d--) put64(w, &w->head, (uint64_t)shape->dim[d]);
    put32(w, &w->head, gguf_dtype_number(t->desc.dtype));
    put64(w, &w->head, t->at);
}

/* general.alignment may have been copied from another file with the values. */
static ig_status take_alignment(ig_gguf_writer *w) {
    const ig_string_view key = text_of(GGUF_KEY_ALIGNMENT);
    for (size_t i = 0; i < w->n_values; i++) {
        const value *v = &w->values[i];
        if (v->key_bytes != key.n_bytes ||
            memcmp(v->packed.bytes + TEXT_BEGIN, key.bytes, v->key_bytes) != 0)
            continue;
        const uint8_t *p = v->packed.bytes + TEXT_BEGIN + v->key_bytes;
        const uint64_t alignment = gguf_get32(p) == IG_GGUF_U32 ? gguf_get32(p + 4) : 0;
        if (alignment < GGUF_MIN_ALIGNMENT || (alignment & (alignment - 1)) != 0)
            return IG_FAIL(IG_ERR_ARGUMENT, "%s: " GGUF_KEY_ALIGNMENT " is no power of two from %d",
                           w->name, GGUF_MIN_ALIGNMENT);
        w->alignment = alignment;
    }
    return IG_OK;
}

ig_status ig_gguf_writer_finish(ig_gguf_writer *w) {
    if (w->status == IG_OK) {
        const ig_status aligned = take_alignment(w);
        if (aligned != IG_OK) stick(w, aligned);
    }
    if (w->status == IG_OK) {
        const ig_status laid_out = lay_out(w);
        if (laid_out != IG_OK) stick(w, laid_out);
    }
    put(w, &w->head, GGUF_MAGIC, 4);
    put32(w, &w->head, GGUF_VERSION);
    put64(w, &w->head, w->n_tensors);
    put64(w, &w->head, w->n_values);
    for (size_t i = 0; i < w->n_values; i++)
        put(w, &w->head, w->values[i].packed.bytes, w->values[i].packed.used);
    for (size_t i = 0; i < w->n_tensors; i++) put_tensor(w, &w->tensors[i]);
    put_padding(w, &w->head);
    return w->status == IG_OK ? IG_OK : ig_fail(w->status, NULL, 0, "%s", w->why);
}

const void *ig_gguf_writer_head(const ig_gguf_writer *w, uint64_t *out_bytes) {
    *out_bytes = w->head.used;
    return w->head.bytes;
}

uint64_t ig_gguf_writer_file_bytes(const ig_gguf_writer *w) { return w->head.used + w->data_bytes; }

uint64_t ig_gguf_writer_place(const ig_gguf_writer *w, size_t i) {
    assert(i < w->n_tensors);
    return w->head.used + w->tensors[i].at;
}
