#include "format/gguf/gguf_stream.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/file.h"
#include "base/quant_blocks.h"
#include "format/quantize/quantize.h"

enum {
    CHUNK = 1 << 14, /* elements per thread and task: a multiple of every block size */
    SLICE = 1 << 22, /* elements between two writes */
    MAX_CHUNKS = SLICE / CHUNK,
};

typedef struct slice {
    const ig_gguf_output *output;
    int64_t first, n; /* in elements */
    uint8_t *blocks;  /* of the slice */
    float *scratch;   /* CHUNK elements per thread */
    atomic_llong next;
    /* Per chunk, so that the sums do not depend on which thread computed which. */
    double square[MAX_CHUNKS], error[MAX_CHUNKS];
    bool finite[MAX_CHUNKS];
} slice;

typedef struct producer {
    const ig_allocator *allocator;
    const ig_produce_options *options;
    const ig_gguf_writer *writer;
    ig_file_writer *file;
    ig_team *team;
    slice *slice;
    uint64_t done, total; /* bytes */
} producer;

/* ---- A slice of a tensor ---- */

static void work_chunk(slice *s, int64_t chunk, float *x) {
    const ig_dtype dtype = s->output->desc.dtype;
    const int64_t at = chunk * CHUNK, n = s->n - at < CHUNK ? s->n - at : CHUNK;
    s->output->read(s->output, s->first + at, n, x);
    double square = 0;
    for (int64_t i = 0; i < n; i++) square += (double)x[i] * (double)x[i];
    s->square[chunk] = square;
    s->error[chunk] = 0;
    s->finite[chunk] = isfinite(square) || ig_dtype_block(dtype) == 1;
    if (!s->finite[chunk]) return;

    uint8_t *out = s->blocks + ig_bytes_of(dtype, at);
    ig_quantize(dtype, x, out, n);
    s->error[chunk] = ig_quantize_error(dtype, x, out, n);
}

static void work(void *task, uint32_t thread, uint32_t threads) {
    (void)threads;
    slice *s = task;
    const int64_t chunks = (s->n + CHUNK - 1) / CHUNK;
    for (int64_t chunk; (chunk = atomic_fetch_add(&s->next, 1)) < chunks;)
        work_chunk(s, chunk, s->scratch + (size_t)thread * CHUNK);
}

static ig_status put_slice(producer *p, uint64_t at, const void *bytes, uint64_t n_bytes,
                           const ig_gguf_output *output) {
    IG_TRY(ig_file_writer_write(p->file, at, bytes, n_bytes));
    p->done += n_bytes;
    if (p->options->stop && p->options->stop(p->options->user, output, p->done, p->total))
        return IG_FAIL(IG_ERR_CANCELLED, "stopped before %s was complete", output->name);
    return IG_OK;
}

/* ---- A tensor ---- */

static ig_status copy_tensor(producer *p, const ig_gguf_output *output, uint64_t at,
                             ig_produced *out) {
    const uint64_t piece = UINT64_C(64) << 20;
    const uint8_t *bytes = output->source;
    for (uint64_t i = 0; i < out->n_bytes; i += piece) {
        const uint64_t n = out->n_bytes - i < piece ? out->n_bytes - i : piece;
        IG_TRY(put_slice(p, at + i, bytes + i, n, output));
    }
    return IG_OK;
}

static ig_status make_tensor(producer *p, const ig_gguf_output *output, uint64_t at,
                             ig_produced *out) {
    slice *s = p->slice;
    const ig_dtype dtype = output->desc.dtype;
    const int64_t count = ig_shape_count(output->desc.shape);
    s->output = output;
    for (s->first = 0; s->first < count; s->first += s->n) {
        s->n = count - s->first < SLICE ? count - s->first : SLICE;
        atomic_store(&s->next, 0);
        ig_team_run(p->team, work, s);
        for (int64_t c = 0; c < (s->n + CHUNK - 1) / CHUNK; c++) {
            if (!s->finite[c])
                return IG_FAIL(IG_ERR_FORMAT, "%s: has NaN or Inf, which %s cannot store",
                               output->name, ig_dtype_name(dtype));
            out->square += s->square[c];
            out->error += s->error[c];
        }
        const uint64_t bytes = (uint64_t)ig_bytes_of(dtype, s->n);
        IG_TRY(put_slice(p, at, s->blocks, bytes, output));
        at += bytes;
    }
    return IG_OK;
}

static ig_status produce_all(producer *p, const ig_gguf_output *outputs, size_t count,
                             ig_produced *out) {
    uint64_t head_bytes;
    const void *head = ig_gguf_writer_head(p->writer, &head_bytes);
    IG_TRY(ig_file_writer_write(p->file, 0, head, head_bytes));
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = ig_gguf_writer_place(p->writer, i);
        out[i] = (ig_produced){0};
        (void)!ig_desc_bytes(outputs[i].desc,
                             &out[i].n_bytes); /* cannot fail: the writer has checked it */
        IG_TRY(outputs[i].read ? make_tensor(p, &outputs[i], at, &out[i])
                               : copy_tensor(p, &outputs[i], at, &out[i]));
    }
    return ig_file_writer_commit(p->file);
}

/* ---- A file ---- */

static ig_status allocate(producer *p) {
    const uint32_t threads = ig_team_threads(p->team);
    slice *s = p->slice = ig_alloc(p->allocator, 1, sizeof *s);
    if (!s) return IG_FAIL(IG_ERR_MEMORY, "gguf: no memory to convert tensors");
    s->blocks = ig_alloc(p->allocator, SLICE, sizeof(float));
    s->scratch = ig_alloc(p->allocator, (size_t)threads * CHUNK, sizeof(float));
    if (!s->blocks || !s->scratch)
        return IG_FAIL(IG_ERR_MEMORY, "gguf: no memory for a buffer of %zu bytes",
                       ((size_t)threads * CHUNK + SLICE) * sizeof(float));
    return IG_OK;
}

ig_status ig_gguf_announce(ig_gguf_writer *writer, const ig_gguf_output *outputs, size_t count) {
    for (size_t i = 0; i < count; i++)
        ig_gguf_writer_tensor(writer, outputs[i].name, outputs[i].desc);
    return ig_gguf_writer_finish(writer);
}

ig_status ig_gguf_produce(const ig_allocator *a, const char *path, const ig_gguf_writer *writer,
                          const ig_gguf_output *outputs, size_t count,
                          const ig_produce_options *options, ig_produced *out) {
    producer p = {.allocator = a, .options = options, .writer = writer};
    p.total = ig_gguf_writer_file_bytes(writer);
    const uint32_t threads = options->threads ? options->threads : ig_team_default_threads();
    ig_status status = ig_team_create(a, threads, &p.team);
    if (status == IG_OK) status = allocate(&p);
    if (status == IG_OK) status = ig_file_writer_create(a, path, p.total, &p.file);
    const bool tells = status == IG_OK && options->writing;
    if (tells) options->writing(ig_file_writer_temporary(p.file));
    if (status == IG_OK) status = produce_all(&p, outputs, count, out);
    if (tells) options->writing(NULL);
    ig_file_writer_destroy(p.file);
    if (p.slice) {
        ig_free(a, p.slice->scratch);
        ig_free(a, p.slice->blocks);
    }
    ig_free(a, p.slice);
    ig_team_destroy(p.team);
    return status;
}
