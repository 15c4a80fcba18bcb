/*
 * gguf.h - the inside of ingot/gguf.h: GGUF files in memory, and writing them.
 *
 * Works on bytes in memory, usually a mapped file; knows neither contexts nor models. Reading
 * trusts nothing: every length, count, offset and size is checked against the bytes before use, and
 * memory is allocated for what was found, never for what a count claims.
 */
#ifndef IG_FORMAT_GGUF_GGUF_H
#define IG_FORMAT_GGUF_GGUF_H

#include "base/file.h"
#include "ingot/gguf.h"

/* Reads one part.  `name` is for messages; it and the bytes are borrowed until the close. */
IG_MUST_CHECK ig_status ig_gguf_parse(const ig_allocator *a, const char *name, const void *bytes,
                                      uint64_t size, ig_gguf **out);

/* The same of a header alone, as a writer has it: tensors have all but their bytes, which are
 * NULL. */
IG_MUST_CHECK ig_status ig_gguf_open_head(const ig_allocator *a, const char *name,
                                          const void *bytes, uint64_t size, ig_gguf **out);

/* Sets the bytes of tensor i of such a header; borrowed until the close. */
void ig_gguf_set_bytes(ig_gguf *gguf, size_t i, const void *bytes);

/* ---- Writing ---- */

/*
 * Collects keys and tensors, then lays the file out. The first failure sticks and is returned by
 * ig_gguf_writer_finish(), so calls need no checks in between. Arguments are copied.
 */
typedef struct ig_gguf_writer ig_gguf_writer;

/* `name` is for messages and lent. */
IG_MUST_CHECK ig_status ig_gguf_writer_create(const ig_allocator *a, const char *name,
                                              ig_gguf_writer **out);
void ig_gguf_writer_destroy(ig_gguf_writer *writer);

/* Setting an existing key replaces its value in place. */
void ig_gguf_writer_u32(ig_gguf_writer *writer, const char *key, uint32_t x);
void ig_gguf_writer_f32(ig_gguf_writer *writer, const char *key, float x);
void ig_gguf_writer_bool(ig_gguf_writer *writer, const char *key, bool x);
void ig_gguf_writer_text(ig_gguf_writer *writer, const char *key, const char *text);
void ig_gguf_writer_array(ig_gguf_writer *writer, const char *key, ig_gguf_type elements,
                          const void *packed, uint64_t count); /* array of numbers */
void ig_gguf_writer_texts(ig_gguf_writer *writer, const char *key, const ig_string_view *texts,
                          uint64_t count);
/* Any value, usually of another file, with its key. */
void ig_gguf_writer_value(ig_gguf_writer *writer, const ig_gguf_value *given);

void ig_gguf_writer_tensor(ig_gguf_writer *writer, const char *name, ig_desc desc);

/* Ends the header. Fails on anything that a reader would refuse. */
IG_MUST_CHECK ig_status ig_gguf_writer_finish(ig_gguf_writer *writer);

/* After finish: the bytes before the first tensor, padded; lent. */
const void *ig_gguf_writer_head(const ig_gguf_writer *writer, uint64_t *out_bytes);
uint64_t
ig_gguf_writer_file_bytes(const ig_gguf_writer *writer); /* bytes that are not written are zeros */
uint64_t ig_gguf_writer_place(const ig_gguf_writer *writer,
                              size_t i); /* offset of tensor i's bytes */

#endif
