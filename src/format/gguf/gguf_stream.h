/*
 * gguf_produce.h - writes a GGUF file tensor by tensor, each in the type it shall have.
 *
 * Numbers come from wherever a product's `read` takes them, are turned into blocks
 * by a team of threads, a stretch at a time, and go to the file in order: memory
 * stays small whatever the model's size.  The file is replaced whole or not at all.
 */
#ifndef IG_FORMAT_GGUF_PRODUCE_H
#define IG_FORMAT_GGUF_PRODUCE_H

#include "base/team.h"
#include "format/gguf/gguf.h"

typedef struct ig_product ig_product;
struct ig_product {
    const char *name;
    ig_desc desc; /* as it shall be in the file */

    /* Elements first to first + n, in the order of the file, as floats.  Called from several
     * threads. */
    void (*read)(const ig_product *product, int64_t first, int64_t n, float *out);
    const void *source; /* for `read`; without one, the tensor's bytes as they shall be */
    int64_t extra[4];   /* for `read` */
};

/* What became of a tensor. */
typedef struct ig_produced {
    uint64_t n_bytes;
    double square; /* the sum of the squares of its numbers, */
    double error;  /* and of what was lost of them; both 0 where bytes were copied */
} ig_produced;

typedef struct ig_produce_options {
    uint32_t threads; /* 0: as many as the process may use */
    /* Asked after every stretch, with the bytes written so far; true: IG_ERR_CANCELLED. */
    bool (*stop)(void *user, const ig_product *product, uint64_t done, uint64_t total);
    void *user;
    /* Told which file is filled, once that is nobody else's, and NULL when it is one no more. */
    void (*writing)(const char *temporary);
} ig_produce_options;

/* Tells the writer, which has all keys, of the products, and finishes it. */
IG_MUST_CHECK ig_status ig_gguf_announce(ig_gguf_writer *writer, const ig_product *products,
                                         size_t count);

/* Writes the file whose products have been announced; `out` has room for `count`.  A number that is
 * not finite cannot be put into blocks: that is IG_ERR_FORMAT, and the tensor is named. */
IG_MUST_CHECK ig_status ig_gguf_produce(const ig_allocator *a, const char *path,
                                        const ig_gguf_writer *writer, const ig_product *products,
                                        size_t count, const ig_produce_options *options,
                                        ig_produced *out);

#endif
