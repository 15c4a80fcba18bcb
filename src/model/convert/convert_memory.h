/*
 * convert_memory.h - a model in memory as a GGUF file that is never written.
 *
 * The conversion of a folder produces a header and a description of every tensor.  For a model in
 * memory the header stays in memory, too, and a tensor is either the caller's, where the file would
 * have the same bytes, or a copy of it in the order of the file.
 */
#ifndef IG_MODEL_CONVERT_CONVERT_MEMORY_H
#define IG_MODEL_CONVERT_CONVERT_MEMORY_H

#include "ingot/model.h"
#include "model/convert/convert.h"

typedef struct ig_memory_file {
    const ig_allocator *allocator;
    void *head;
    ig_gguf *file;
    void **copies; /* of tensors, NULL: in place */
    size_t n_copies;
    uint64_t copied_bytes;
} ig_memory_file;

/* `source` is borrowed until the conversion is closed, its tensors' bytes as long as the file is
 * used; `name` is for messages, borrowed as long.  Release `*out` even on failure. */
IG_MUST_CHECK ig_status ig_memory_file_make(ig_conversion *conversion, ig_memory_file *out);
void ig_memory_file_deinit(ig_memory_file *file);

/* Like ig_conversion_open(), of a model in memory. */
IG_MUST_CHECK ig_status ig_conversion_open_source(const ig_allocator *a, const char *name,
                                                  const ig_model_source *source,
                                                  const ig_conversion_options *options,
                                                  ig_conversion **out);

/* The name in the source of a tensor of the file, in `out`; `conversion` is an ig_conversion.  The
 * name itself if there is no other. */
const char *ig_conversion_source_name(const void *conversion, const char *name, char *out,
                                      size_t room);

#endif
