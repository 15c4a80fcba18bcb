/*
 * gguf_part.h - what an open GGUF file is made of: for gguf.c and gguf_file.c.
 */
#ifndef IG_FORMAT_GGUF_PART_H
#define IG_FORMAT_GGUF_PART_H

#include "base/file.h"
#include "format/gguf/gguf_layout.h"
#include "format/name_table.h"

/* A file of a split model, or the only one. */
typedef struct gguf_part {
    const char *name; /* for messages; lent */
    const uint8_t *bytes;
    uint64_t size;
    bool head_only; /* the bytes end before the tensors' */
    uint32_t version;
    ig_gguf_value *values; /* each owns its texts */
    size_t n_values;
    ig_names keys;

    /* Of those that were opened by their path. */
    ig_file_map map;
    char *path; /* NULL: lent by the caller of ig_gguf_open() */
} gguf_part;

struct ig_gguf {
    const ig_allocator *allocator;
    gguf_part *parts; /* the values of the first are the model's */
    size_t n_parts, part_capacity;
    ig_gguf_tensor *tensors; /* of all parts; each owns its name */
    size_t n_tensors, tensor_capacity;
    ig_names names; /* of the tensors; empty until all parts are read */
};

/* Reads a part and appends its tensors.  The part is in `parts` whether it succeeds or not. */
IG_MUST_CHECK ig_status gguf_add_part(ig_gguf *gguf, const gguf_part *opened);

/* After the last part: makes tensors known by name, and refuses names that are there twice. */
IG_MUST_CHECK ig_status gguf_index_tensors(ig_gguf *gguf);

/* The value of a key of one part; NULL: none. */
const ig_gguf_value *gguf_part_find(const gguf_part *part, const char *key);

#endif
