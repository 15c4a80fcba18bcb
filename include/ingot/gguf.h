/*
 * gguf.h - reading GGUF files: keys with values, and named tensors.
 *
 *     ig_gguf *file;
 *     ig_gguf_open("model.gguf", NULL, &file)
 *     ig_gguf_int(file, "llama.block_count", &n_layers)
 *     const ig_gguf_tensor *t = ig_gguf_find_tensor(file, "output.weight");
 *     ig_gguf_close(file)
 *
 * A file is mapped, so opening reads its keys alone.  Nothing in it is trusted: every
 * length, count and offset is checked against the bytes that are there.  An open file
 * is immutable: any number of threads may read it.
 */
#ifndef INGOT_GGUF_H
#define INGOT_GGUF_H

#include "ingot/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Types of values, numbered as in the file. */
typedef enum ig_gguf_type {
    IG_GGUF_U8,
    IG_GGUF_I8,
    IG_GGUF_U16,
    IG_GGUF_I16,
    IG_GGUF_U32,
    IG_GGUF_I32,
    IG_GGUF_F32,
    IG_GGUF_BOOL,
    IG_GGUF_STRING,
    IG_GGUF_ARRAY,
    IG_GGUF_U64,
    IG_GGUF_I64,
    IG_GGUF_F64,
} ig_gguf_type;

IG_API const char *ig_gguf_type_name(ig_gguf_type type); /* "u8", "string", ...; static */

/* A key and its value.  Of an array, `elements` is the type of its elements and `count` their
 * number. */
typedef struct ig_gguf_value {
    ig_string_view key;
    ig_gguf_type type, elements;
    uint64_t count;              /* 1 unless an array */
    const void *packed;          /* numbers as in the file, unaligned; NULL for strings */
    const ig_string_view *texts; /* of a string or an array of them; else NULL */
} ig_gguf_value;

typedef struct ig_gguf_tensor {
    const char *name;
    ig_desc desc;      /* outermost dimension first: the reverse of the file's order */
    const void *bytes; /* [n_bytes] */
    uint64_t n_bytes;
    uint32_t part; /* index of its file, if the model is split */
} ig_gguf_tensor;

typedef struct ig_gguf ig_gguf;

typedef struct ig_gguf_options {
    bool no_mmap; /* read into memory: for files that other processes may change */
    bool mlock;   /* lock the bytes in memory; a failure is an error */
    /* Called with the bytes read or locked so far, file by file; false ends it with
     * IG_ERR_CANCELLED.  NULL: no callback. */
    bool (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    const ig_allocator *allocator; /* borrowed, outlives the file; NULL: malloc's */
} ig_gguf_options;

/* Opens a file, and if it is the first of a split model all its parts, which then read as one.
 * NULL options: all defaults.  The caller owns the file.  IG_ERR_IO: it cannot be read;
 * IG_ERR_FORMAT: it is not valid GGUF, and the message says where. */
IG_API IG_MUST_CHECK ig_status ig_gguf_open(const char *path, const ig_gguf_options *options,
                                            ig_gguf **out);
/* Ends the life of all that was borrowed from the file.  NULL is a no-op. */
IG_API void ig_gguf_close(ig_gguf *gguf);

/* The version of the format, and the files; names are borrowed, NULL beyond the last. */
IG_API uint32_t ig_gguf_version(const ig_gguf *gguf);
IG_API uint64_t ig_gguf_file_bytes(const ig_gguf *gguf); /* of all parts */
IG_API size_t ig_gguf_n_parts(const ig_gguf *gguf);
IG_API const char *ig_gguf_part_name(const ig_gguf *gguf, size_t i);

/* ---- keys ---- */

/* Values in the order of the file, and by key; borrowed.  NULL: no such value. */
IG_API size_t ig_gguf_n_values(const ig_gguf *gguf);
IG_API const ig_gguf_value *ig_gguf_value_at(const ig_gguf *gguf, size_t i);
IG_API const ig_gguf_value *ig_gguf_find(const ig_gguf *gguf, const char *key);

/* A number of any type that converts without loss (a bool is 0 or 1), or a string, borrowed from
 * the file.  False: there is no such key, or its value is of another type; `out` is untouched. */
IG_API bool ig_gguf_int(const ig_gguf *gguf, const char *key, int64_t *out);
IG_API bool ig_gguf_real(const ig_gguf *gguf, const char *key, double *out);
IG_API bool ig_gguf_bool(const ig_gguf *gguf, const char *key, bool *out);
IG_API bool ig_gguf_string(const ig_gguf *gguf, const char *key, ig_string_view *out);

/* Element i of an array of numbers, or the number itself.  0: not a number, or i is not below
 * count. */
IG_API int64_t ig_gguf_int_at(const ig_gguf_value *value, uint64_t i);
IG_API double ig_gguf_real_at(const ig_gguf_value *value, uint64_t i);

/* ---- tensors ---- */

/* Tensors in the order of the file, and by name; borrowed.  NULL: no such tensor. */
IG_API size_t ig_gguf_n_tensors(const ig_gguf *gguf);
IG_API const ig_gguf_tensor *ig_gguf_tensor_at(const ig_gguf *gguf, size_t i);
IG_API const ig_gguf_tensor *ig_gguf_find_tensor(const ig_gguf *gguf, const char *name);

#ifdef __cplusplus
}
#endif
#endif
