/*
 * oam.h - .oam files: bytes <-> texts and named tensors.
 *
 * Works on bytes in memory, usually a mapped file; knows neither contexts nor modules. Reading
 * trusts nothing: every number is checked against the bytes before use. nn/checkpoint.c builds on
 * it.
 */
#ifndef IG_FORMAT_OAM_OAM_H
#define IG_FORMAT_OAM_OAM_H

#include "base/alloc.h"
#include "ingot/checkpoint.h"

/* ---- Reading ---- */

typedef struct ig_oam ig_oam;

/*
 * Checks everything except tensor data. `name` is for messages; it and the bytes are lent until the
 * close. Accessors return pointers into the bytes.
 */
IG_MUST_CHECK ig_status ig_oam_open(const ig_allocator *a, const char *name, const void *bytes,
                                    uint64_t size, ig_oam **out);
void ig_oam_close(ig_oam *oam);

/* Reads and checksums every byte, tensor data included. */
IG_MUST_CHECK ig_status ig_oam_verify(const ig_oam *oam);
IG_MUST_CHECK ig_status ig_oam_verify_tensor(const ig_oam *oam, size_t i);

uint32_t ig_oam_version(const ig_oam *oam);
uint64_t ig_oam_file_bytes(const ig_oam *oam);
const char *ig_oam_config(const ig_oam *oam); /* the JSON texts; NULL: absent */
const char *ig_oam_progress(const ig_oam *oam);
const char *ig_oam_optimizer(const ig_oam *oam);
uint64_t ig_oam_seed(const ig_oam *oam);
uint64_t ig_oam_step(const ig_oam *oam);
size_t ig_oam_count(const ig_oam *oam);
ig_checkpoint_tensor ig_oam_get(const ig_oam *oam, size_t i); /* in file order */
bool ig_oam_find(const ig_oam *oam, const char *name, size_t *out);

/* ---- Writing ---- */

typedef struct ig_oam_entry {
    const char *name;
    ig_checkpoint_role role;
    ig_desc desc;
} ig_oam_entry;

typedef struct ig_oam_content {
    const char *config, *progress, *optimizer; /* JSON objects, or NULL */
    uint64_t seed, step;
    const ig_oam_entry *entries;
    size_t count;
} ig_oam_content;

/*
 * Lays a file out. Tensor data passes through ig_oam_writer_add() and is not kept; the header
 * before it is complete after the last tensor.
 */
typedef struct ig_oam_writer ig_oam_writer;

/* `name` is for messages. The content is not used after this returns. */
IG_MUST_CHECK ig_status ig_oam_writer_create(const ig_allocator *a, const char *name,
                                             const ig_oam_content *content, ig_oam_writer **out);
void ig_oam_writer_destroy(ig_oam_writer *writer);
uint64_t ig_oam_writer_file_bytes(const ig_oam_writer *writer);

/* Checksums the bytes of the next tensor and returns their offset in the file. */
uint64_t ig_oam_writer_add(ig_oam_writer *writer, const void *bytes);

/* After the last tensor: header and tables, for offset 0; lent. The rest up to the data is zeros.
 */
const void *ig_oam_writer_head(ig_oam_writer *writer, uint64_t *out_bytes);

#endif
