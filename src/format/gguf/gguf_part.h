/*
 * gguf_part.h - the internals of an open GGUF file, for gguf.c and gguf_file.c.
 */
#ifndef IG_FORMAT_GGUF_GGUF_PART_H
#define IG_FORMAT_GGUF_GGUF_PART_H

#include "base/file.h"
#include "format/gguf/gguf_layout.h"
#include "format/name_table.h"

/* A file of a split model, or the only one. */
typedef struct gguf_part {
    const char *name; /* for messages; lent */
    const uint8_t *bytes;
    uint64_t size;
    bool head_only; /* the bytes end before the tensor data */
    uint32_t version;
    ig_gguf_value *values; /* each owns its texts */
    size_t n_values;
    ig_names keys;

    /* Only of files opened by path. */
    ig_file_map map;
    char *path; /* NULL: opened by ig_gguf_parse() */
} gguf_part;

struct ig_gguf {
    const ig_allocator *allocator;
    gguf_part *parts; /* the values of the first part are the model's */
    size_t n_parts, part_capacity;
    ig_gguf_tensor *tensors; /* of all parts; each owns its name */
    size_t n_tensors, tensor_capacity;
    ig_names names; /* of the tensors; empty until all parts are read */
};

/* Reads a part and appends its tensors. The part is added to `parts` even on failure. */
IG_MUST_CHECK ig_status gguf_add_part(ig_gguf *gguf, const gguf_part *opened);

/* After the last part: indexes the tensors by name and refuses duplicates. */
IG_MUST_CHECK ig_status gguf_index_tensors(ig_gguf *gguf);

/* The value of a key of one part; NULL: missing. */
const ig_gguf_value *gguf_part_find(const gguf_part *part, const char *key);

#endif
