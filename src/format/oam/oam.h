/*
 * oam.h - .oam files: bytes <-> texts and named tensors.
 *
 * Works on bytes in memory, a mapped file's most often; knows neither contexts
 * nor modules.  Reading trusts nothing: every number is compared with the bytes
 * that are there before it is used.  nn/checkpoint.c puts it to work.
 */
#ifndef IG_FORMAT_OAM_H
#define IG_FORMAT_OAM_H

#include "base/alloc.h"
#include "ingot/checkpoint.h"

/* ---- Reading ---- */

typedef struct ig_oam ig_oam;

/*
 * Checks all but the bytes of tensors.  `name` is for messages; it and the bytes
 * are lent and must stay until the close.  What the accessors return points into
 * the bytes.
 */
IG_MUST_CHECK ig_status ig_oam_open(const ig_allocator *a, const char *name, const void *bytes,
                                    uint64_t size, ig_oam **out);
void ig_oam_close(ig_oam *oam);

/* Reads every byte, those of tensors too. */
IG_MUST_CHECK ig_status ig_oam_verify(const ig_oam *oam);
IG_MUST_CHECK ig_status ig_oam_verify_tensor(const ig_oam *oam, size_t i);

uint32_t ig_oam_version(const ig_oam *oam);
uint64_t ig_oam_file_bytes(const ig_oam *oam);
const char *ig_oam_config(const ig_oam *oam); /* the texts: NULL if there is none */
const char *ig_oam_progress(const ig_oam *oam);
const char *ig_oam_optimizer(const ig_oam *oam);
uint64_t ig_oam_seed(const ig_oam *oam);
uint64_t ig_oam_step(const ig_oam *oam);
size_t ig_oam_count(const ig_oam *oam);
ig_checkpoint_tensor ig_oam_get(const ig_oam *oam, size_t i); /* in the order of the file */
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
 * Lays a file out.  Its bytes come in two kinds: those of tensors, which pass
 * through ig_oam_writer_add() one after the other and are not kept, and the head
 * before them, which is whole once the last has passed.
 */
typedef struct ig_oam_writer ig_oam_writer;

/* `name` is for messages.  The content is not needed any more when this returns. */
IG_MUST_CHECK ig_status ig_oam_writer_create(const ig_allocator *a, const char *name,
                                             const ig_oam_content *content, ig_oam_writer **out);
void ig_oam_writer_destroy(ig_oam_writer *writer);
uint64_t ig_oam_writer_file_bytes(const ig_oam_writer *writer);

/* Takes the sums of the next tensor's bytes, all of them, and says where in the file they go. */
uint64_t ig_oam_writer_add(ig_oam_writer *writer, const void *bytes);

/* After the last tensor: what goes to the begin of the file; lent.  All else is zeros. */
const void *ig_oam_writer_head(ig_oam_writer *writer, uint64_t *out_bytes);

#endif
