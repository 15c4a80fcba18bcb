/*
 * gguf_stream.h - writes a GGUF file tensor by tensor, each in its target type.
 *
 * An output's `read` supplies floats. A team of threads quantizes one slice at a time and slices
 * are written in order, so memory stays small for any model size. The file is replaced atomically.
 */
#ifndef IG_FORMAT_GGUF_GGUF_STREAM_H
#define IG_FORMAT_GGUF_GGUF_STREAM_H

#include "base/team.h"
#include "format/gguf/gguf.h"

typedef struct ig_gguf_output ig_gguf_output;
struct ig_gguf_output {
    const char *name;
    ig_desc desc; /* dtype and shape in the file */

    /* Reads elements [first, first + n), in file order, as floats. Called from several threads. */
    void (*read)(const ig_gguf_output *output, int64_t first, int64_t n, float *out);
    const void *source; /* for `read`; if `read` is NULL, the tensor's bytes, copied unchanged */
    int64_t extra[4];   /* for `read` */
};

/* Statistics of a written tensor. */
typedef struct ig_produced {
    uint64_t n_bytes;
    double square; /* sum of the squares of its elements */
    double error;  /* sum of squared quantization errors; both are 0 for copied bytes */
} ig_produced;

typedef struct ig_produce_options {
    uint32_t threads; /* 0: one per processor */
    /* Called after every slice with the bytes written so far; true: stop with IG_ERR_CANCELLED. */
    bool (*stop)(void *user, const ig_gguf_output *output, uint64_t done, uint64_t total);
    void *user;
    /* Called with the name of the temporary file once this process owns it, and with NULL when it
     * is gone. NULL: no callback. */
    void (*writing)(const char *temporary);
} ig_produce_options;

/* Adds the outputs to the writer, whose keys are complete, and finishes the header. */
IG_MUST_CHECK ig_status ig_gguf_announce(ig_gguf_writer *writer, const ig_gguf_output *outputs,
                                         size_t count);

/* Writes the file of the announced outputs; `out` has room for `count`. NaN or Inf in a tensor to
 * be quantized is IG_ERR_FORMAT, and the message names the tensor. */
IG_MUST_CHECK ig_status ig_gguf_produce(const ig_allocator *a, const char *path,
                                        const ig_gguf_writer *writer, const ig_gguf_output *outputs,
                                        size_t count, const ig_produce_options *options,
                                        ig_produced *out);

#endif
