/*
 * checkpoint.h - .oam files: config, weights, optimiser state, progress.
 *
 * Saving replaces the file whole or not at all.  Loading goes by name and
 * changes nothing unless everything fits.  docs/oam.md has the bytes.
 */
#ifndef INGOT_CHECKPOINT_H
#define INGOT_CHECKPOINT_H

#include "ingot/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All may be NULL.  The texts are JSON objects and come back as they were given. */
typedef struct ig_checkpoint_options {
    ig_optimizer *optimizer; /* its state goes along, so that training can go on */
    const char *config;      /* what the model is */
    const char *progress;    /* how far training is */
} ig_checkpoint_options;

/* Writes all parameters of a module; the file is replaced whole or not at all.  NULL options:
 * weights alone. */
IG_API IG_MUST_CHECK ig_status ig_checkpoint_save(const char *path, ig_module *module,
                                                  const ig_checkpoint_options *options);

/*
 * Fills the parameters of `module`, which must be the file's by name, dtype and
 * shape, none missing and none left over.  With an optimiser, its state,
 * hyper-parameters and step count and the context's step count too, so that
 * training goes on as if it had not stopped: the file must have them then, of the
 * same kind of optimiser, and the context the file's seed (ig_checkpoint_seed).
 * The optimiser must be one of `module`.
 */
IG_API IG_MUST_CHECK ig_status ig_checkpoint_load(const char *path, ig_module *module,
                                                  ig_optimizer *optimizer /* NULL: weights */);

/* A .oam file, mapped and checked but for the tensors' bytes; what the accessors return is lent. */
typedef struct ig_checkpoint ig_checkpoint;

typedef enum ig_checkpoint_role { IG_ROLE_WEIGHT, IG_ROLE_OPTIMIZER } ig_checkpoint_role;

typedef struct ig_checkpoint_tensor {
    const char *name; /* of optimiser state: the parameter's, then "#mean" or "#variance" */
    ig_checkpoint_role role;
    ig_desc desc;
    const void *bytes; /* in the mapped file, 64-byte aligned; verify tells if they are whole */
    uint64_t n_bytes;
    uint64_t offset, checksum; /* from the begin of the file; XXH3-64 */
} ig_checkpoint_tensor;

/* The caller owns it until it is closed. */
IG_API IG_MUST_CHECK ig_status ig_checkpoint_open(const char *path, ig_checkpoint **out);
IG_API void ig_checkpoint_close(ig_checkpoint *checkpoint);

/*
 * As ig_checkpoint_load() for weights alone, but they are not copied: parameters
 * lie in the mapped file, which stays open as long as they do.  Where they are
 * written to, pages become the process's own; the file does not change.
 */
IG_API IG_MUST_CHECK ig_status ig_checkpoint_adopt(ig_checkpoint *checkpoint, ig_module *module);

/* The rest of it: the optimiser's state and the step counts. */
IG_API IG_MUST_CHECK ig_status ig_checkpoint_load_optimizer(const ig_checkpoint *checkpoint,
                                                            ig_optimizer *optimizer);

/* Reads every byte and compares the checksums; names what is damaged first. */
IG_API IG_MUST_CHECK ig_status ig_checkpoint_verify(const ig_checkpoint *checkpoint);

/* What the file says; texts and bytes are lent until it is closed. */
IG_API uint32_t ig_checkpoint_version(const ig_checkpoint *checkpoint);
IG_API const char *ig_checkpoint_config(const ig_checkpoint *checkpoint);    /* "{}" if none */
IG_API const char *ig_checkpoint_progress(const ig_checkpoint *checkpoint);  /* "{}" if none */
IG_API const char *ig_checkpoint_optimizer(const ig_checkpoint *checkpoint); /* JSON; "" if none */
IG_API uint64_t ig_checkpoint_seed(const ig_checkpoint *checkpoint);         /* of the context */
IG_API uint64_t ig_checkpoint_step(const ig_checkpoint *checkpoint);         /* of the context */
IG_API uint64_t ig_checkpoint_file_bytes(const ig_checkpoint *checkpoint);
IG_API size_t ig_checkpoint_count(const ig_checkpoint *checkpoint);
IG_API ig_checkpoint_tensor ig_checkpoint_get(const ig_checkpoint *checkpoint, size_t i);

#ifdef __cplusplus
}
#endif
#endif
