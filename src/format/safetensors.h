/*
 * safetensors.h - .safetensors files and folders of them: bytes -> named tensors.
 *
 * A file is a length (u64), a JSON object of that length with the location of each tensor, and the
 * tensors, which must tile the rest exactly. Reading trusts nothing; memory is bounded by the size
 * of the JSON. Read-only.
 */
#ifndef IG_FORMAT_SAFETENSORS_H
#define IG_FORMAT_SAFETENSORS_H

#include "base/alloc.h"
#include "ingot/tensor.h"

typedef struct ig_safetensor {
    const char *name;  /* 0-terminated */
    const char *type;  /* as in the file: "BF16" */
    bool readable;     /* desc.dtype is valid; otherwise the type is not supported */
    ig_desc desc;      /* its shape is valid even if `readable` is false */
    const void *bytes; /* not necessarily aligned */
    uint64_t n_bytes;
} ig_safetensor;

typedef struct ig_safetensors ig_safetensors;

/* One file.  `name` is for messages; it and the bytes are lent until the close. */
IG_MUST_CHECK ig_status ig_safetensors_open(const ig_allocator *a, const char *name,
                                            const void *bytes, uint64_t size, ig_safetensors **out);

/*
 * The model of a folder: model.safetensors, or the shards listed in model.safetensors.index.json,
 * mapped. A shard must be a plain file name in that folder; symlinks there are followed, because
 * the author of the folder created them.
 */
IG_MUST_CHECK ig_status ig_safetensors_open_dir(const ig_allocator *a, const char *dir,
                                                ig_safetensors **out);
void ig_safetensors_close(ig_safetensors *safetensors);

size_t ig_safetensors_count(const ig_safetensors *safetensors);
const ig_safetensor *ig_safetensors_at(const ig_safetensors *safetensors, size_t i);
const ig_safetensor *ig_safetensors_find(const ig_safetensors *safetensors, const char *name);

#endif
