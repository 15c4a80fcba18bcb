/*
 * summed_file.h - writes a file of a header and a body whose checksum the header has.
 */
#ifndef IG_BASE_SUMMED_FILE_H
#define IG_BASE_SUMMED_FILE_H

#define XXH_STATIC_LINKING_ONLY /* defines XXH3_state_t */
#include <xxhash.h>

#include "base/file.h"

typedef struct ig_summed_file {
    ig_file_writer *writer; /* the caller's */
    uint64_t at;            /* where the next bytes go */
    XXH3_state_t sum;       /* of the body so far */
} ig_summed_file;

/* The body follows the header, which is written when the checksum is known. */
void ig_summed_file_begin(ig_summed_file *file, uint64_t header_bytes);
/* Appends to the body of `file`, an ig_summed_file: for visitors of pages. */
IG_MUST_CHECK ig_status ig_summed_file_append(void *file, char *bytes, uint64_t n_bytes);
uint64_t ig_summed_file_digest(const ig_summed_file *file);

#endif
