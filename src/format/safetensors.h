/*
 * safetensors.h - .safetensors files and folders of them: bytes -> named tensors.
 *
 * A file is a length (u64), a JSON object of that length that says where each
 * tensor lies, and the tensors, which must tile the rest exactly.  Reading trusts
 * nothing; memory goes with the bytes of the JSON.  Files are only read.
 */
#ifndef IG_FORMAT_SAFETENSORS_H
#define IG_FORMAT_SAFETENSORS_H

#include "base/alloc.h"
#include "ingot/tensor.h"

typedef struct ig_safetensor {
    const char *name;  /* ends with 0 */
    const char *type;  /* as the file writes it: "BF16" */
    bool readable;     /* desc.dtype says the same; else it is no type of ours */
    ig_desc desc;      /* its shape is right in any case */
    const void *bytes; /* at any address: writers do not align them all */
    uint64_t n_bytes;
} ig_safetensor;

typedef struct ig_safetensors ig_safetensors;

/* One file.  `name` is for messages; it and the bytes are lent until the close. */
IG_MUST_CHECK ig_status ig_safetensors_open(const ig_allocator *a, const char *name,
                                            const void *bytes, uint64_t size, ig_safetensors **out);

/*
 * The model of a folder: model.safetensors, or the shards that
 * model.safetensors.index.json names, mapped.  A shard's name is the name of a
 * file in that folder and nothing else; links there are followed, as they were
 * put by whoever made the folder.
 */
IG_MUST_CHECK ig_status ig_safetensors_open_dir(const ig_allocator *a, const char *dir,
                                                ig_safetensors **out);
void ig_safetensors_close(ig_safetensors *safetensors);

size_t ig_safetensors_count(const ig_safetensors *safetensors);
const ig_safetensor *ig_safetensors_at(const ig_safetensors *safetensors, size_t i);
const ig_safetensor *ig_safetensors_find(const ig_safetensors *safetensors, const char *name);

#endif
