/*
 * gguf.h - GGUF files: bytes <-> keys with values, and named tensors.
 *
 * Works on bytes in memory, a mapped file's most often; knows neither contexts
 * nor models.  Reading trusts nothing: every length, count, offset and product
 * is compared with the bytes that are there before it is used, and memory is taken
 * for what has been found, never for what a count claims.
 */
#ifndef IG_FORMAT_GGUF_H
#define IG_FORMAT_GGUF_H

#include "base/file.h"
#include "ingot/tensor.h"

/* As the file numbers them. */
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

typedef struct ig_gguf_text {
    const char *bytes; /* lent by the file; no 0 at the end */
    uint64_t n_bytes;
} ig_gguf_text;

/* A value; of an array, `elements` says of what and `count` how many. */
typedef struct ig_gguf_value {
    ig_gguf_text key;
    ig_gguf_type type, elements;
    uint64_t count;            /* 1 unless an array */
    const void *packed;        /* numbers as they lie in the file, unaligned; NULL for texts */
    const ig_gguf_text *texts; /* of a string or an array of them; else NULL */
} ig_gguf_value;

typedef struct ig_gguf_tensor {
    const char *name; /* ends with 0 */
    ig_desc desc;     /* outermost dimension first: the other way round than in the file */
    const void *bytes;
    uint64_t n_bytes;
    uint32_t part; /* of a split file: which */
} ig_gguf_tensor;

typedef struct ig_gguf ig_gguf;

/* Reads one part.  `name` is for messages; it and the bytes are lent until the close. */
IG_MUST_CHECK ig_status ig_gguf_open(const ig_allocator *a, const char *name, const void *bytes,
                                     uint64_t size, ig_gguf **out);

/* The same of a head alone, as a writer has it: tensors have all but their bytes, which are NULL.
 */
IG_MUST_CHECK ig_status ig_gguf_open_head(const ig_allocator *a, const char *name,
                                          const void *bytes, uint64_t size, ig_gguf **out);

/* Maps a file, and if it is the first of a split model all its parts, which then read as one. */
IG_MUST_CHECK ig_status ig_gguf_open_file(const ig_allocator *a, const char *path, ig_gguf **out);

/* The same, with a say in how; zero is as above. */
typedef struct ig_gguf_options {
    bool copy;           /* read into memory instead of mapped: for files that others may change */
    bool lock;           /* kept in memory, or it is an error */
    ig_file_watch watch; /* told how far either is, part by part */
} ig_gguf_options;
IG_MUST_CHECK ig_status ig_gguf_open_file_with(const ig_allocator *a, const char *path,
                                               const ig_gguf_options *options, ig_gguf **out);
void ig_gguf_close(ig_gguf *gguf);

uint32_t ig_gguf_version(const ig_gguf *gguf);
uint64_t ig_gguf_file_bytes(const ig_gguf *gguf); /* of all parts */
size_t ig_gguf_n_parts(const ig_gguf *gguf);
const char *ig_gguf_part_name(const ig_gguf *gguf, size_t i); /* of its file */
size_t ig_gguf_n_values(const ig_gguf *gguf);
const ig_gguf_value *ig_gguf_value_at(const ig_gguf *gguf, size_t i); /* in the order of the file */
const ig_gguf_value *ig_gguf_find(const ig_gguf *gguf, const char *key); /* NULL: none */

/* A number of any type that fits without loss (a bool is 0 or 1); false: not there, or other. */
bool ig_gguf_int(const ig_gguf *gguf, const char *key, int64_t *out);
bool ig_gguf_real(const ig_gguf *gguf, const char *key, double *out);
bool ig_gguf_bool(const ig_gguf *gguf, const char *key, bool *out);
bool ig_gguf_text_of(const ig_gguf *gguf, const char *key, ig_gguf_text *out);
/* Element i of an array of numbers, or the number itself; i below count. */
int64_t ig_gguf_int_at(const ig_gguf_value *value, uint64_t i);
double ig_gguf_real_at(const ig_gguf_value *value, uint64_t i);

size_t ig_gguf_n_tensors(const ig_gguf *gguf);
const ig_gguf_tensor *ig_gguf_tensor_at(const ig_gguf *gguf, size_t i);
const ig_gguf_tensor *ig_gguf_find_tensor(const ig_gguf *gguf, const char *name); /* NULL: none */

/* ---- Writing ---- */

/*
 * Gathers keys and tensors, then lays the file out.  The first failure sticks and
 * ig_gguf_writer_finish() tells it, so that calls can follow each other unchecked.
 * What is given is copied.
 */
typedef struct ig_gguf_writer ig_gguf_writer;

/* `name` is for messages and lent. */
IG_MUST_CHECK ig_status ig_gguf_writer_create(const ig_allocator *a, const char *name,
                                              ig_gguf_writer **out);
void ig_gguf_writer_destroy(ig_gguf_writer *writer);

/* A key that is there already keeps its place and gets the new value. */
void ig_gguf_writer_u32(ig_gguf_writer *writer, const char *key, uint32_t x);
void ig_gguf_writer_f32(ig_gguf_writer *writer, const char *key, float x);
void ig_gguf_writer_bool(ig_gguf_writer *writer, const char *key, bool x);
void ig_gguf_writer_text(ig_gguf_writer *writer, const char *key, const char *text);
void ig_gguf_writer_array(ig_gguf_writer *writer, const char *key, ig_gguf_type elements,
                          const void *packed, uint64_t count); /* of numbers */
void ig_gguf_writer_texts(ig_gguf_writer *writer, const char *key, const ig_gguf_text *texts,
                          uint64_t count);
/* Any value, of a file that is read most often; its key and bytes are in it. */
void ig_gguf_writer_value(ig_gguf_writer *writer, const ig_gguf_value *given);

void ig_gguf_writer_tensor(ig_gguf_writer *writer, const char *name, ig_desc desc);

/* No key and no tensor can follow.  What a reader would refuse is refused here. */
IG_MUST_CHECK ig_status ig_gguf_writer_finish(ig_gguf_writer *writer);

/* Once finished: all before the first tensor, padded; lent. */
const void *ig_gguf_writer_head(const ig_gguf_writer *writer, uint64_t *out_bytes);
uint64_t ig_gguf_writer_file_bytes(const ig_gguf_writer *writer); /* zeros where nothing is put */
uint64_t ig_gguf_writer_place(const ig_gguf_writer *writer, size_t i); /* of tensor i's bytes */

#endif
