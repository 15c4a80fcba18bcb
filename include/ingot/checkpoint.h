/*
 * checkpoint.h - .oam files: config, weights, optimizer state, progress.
 *
 * Saving replaces the file atomically.  Loading matches tensors by name and changes
 * nothing unless everything fits.  docs/oam.md describes the format.
 */
#ifndef INGOT_CHECKPOINT_H
#define INGOT_CHECKPOINT_H

#include "ingot/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All may be NULL.  The strings are JSON objects, returned verbatim. */
typedef struct ig_checkpoint_options {
    ig_optimizer *optimizer; /* saves its state, so that training can resume */
    const char *config;      /* of the model */
    const char *progress;    /* of training */
} ig_checkpoint_options;

/* Writes all parameters of a module, replacing the file atomically.  NULL options: weights only. */
IG_API IG_MUST_CHECK ig_status ig_checkpoint_save(const char *path, ig_module *module,
                                                  const ig_checkpoint_options *options);

/*
 * Loads the parameters of `module`, which must match the file's by name, dtype and
 * shape, none missing and none left over.  With an optimizer, also loads its state,
 * hyperparameters and step count and the context's step count, so that training
 * resumes as if it had not stopped: the file must then hold them for the same type of
 * optimizer, and the context must have the file's seed (ig_checkpoint_seed).  The
 * optimizer must be one of `module`.
 */
IG_API IG_MUST_CHECK ig_status ig_checkpoint_load(const char *path, ig_module *module,
                                                  ig_optimizer *optimizer /* NULL: weights */);

/* A mapped .oam file, checked except for the tensors' bytes; accessors return borrowed memory. */
typedef struct ig_checkpoint ig_checkpoint;

typedef enum ig_checkpoint_role { IG_ROLE_WEIGHT, IG_ROLE_OPTIMIZER } ig_checkpoint_role;

typedef struct ig_checkpoint_tensor {
    const char *name; /* of optimizer state: the parameter's, then "#mean" or "#variance" */
    ig_checkpoint_role role;
    ig_desc desc;
    const void *bytes; /* in the mapped file, 64-byte aligned; ig_checkpoint_verify() checks them */
    uint64_t n_bytes;
    uint64_t offset, checksum; /* from the beginning of the file; XXH3-64 */
} ig_checkpoint_tensor;

/* The caller owns it until it is closed. */
IG_API IG_MUST_CHECK ig_status ig_checkpoint_open(const char *path, ig_checkpoint **out);
IG_API void ig_checkpoint_close(ig_checkpoint *checkpoint);

/*
 * Like ig_checkpoint_load() for weights alone, without copying: parameters refer to
 * the mapped file, which stays open as long as they do.  Writing to a parameter
 * copies its OS pages; the file does not change.
 */
IG_API IG_MUST_CHECK ig_status ig_checkpoint_adopt(ig_checkpoint *checkpoint, ig_module *module);

/* Loads the rest: the optimizer's state and the step counts. */
IG_API IG_MUST_CHECK ig_status ig_checkpoint_load_optimizer(const ig_checkpoint *checkpoint,
                                                            ig_optimizer *optimizer);

/* Reads every byte and compares the checksums; the error names the first corrupt tensor. */
IG_API IG_MUST_CHECK ig_status ig_checkpoint_verify(const ig_checkpoint *checkpoint);

/* Contents of the file; strings and bytes are borrowed until it is closed. */
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
