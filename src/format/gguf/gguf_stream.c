#include "format/gguf/gguf_stream.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/quant_blocks.h"
#include "base/file.h"
#include "format/quantize/quantize.h"

enum {
    CHUNK = 1 << 14,   /* elements that a thread takes at a time: whole blocks of every type */
    STRETCH = 1 << 22, /* elements between two writes */
    MAX_CHUNKS = STRETCH / CHUNK,
};

typedef struct stretch {
    const ig_product *product;
    int64_t first, n; /* elements */
    uint8_t *blocks;  /* of the stretch */
    float *scratch;   /* CHUNK for each thread */
    atomic_llong next;
    /* By chunk, so that sums do not depend on who did what. */
    double square[MAX_CHUNKS], error[MAX_CHUNKS];
    bool finite[MAX_CHUNKS];
} stretch;

typedef struct producer {
    const ig_allocator *allocator;
    const ig_produce_options *options;
    const ig_gguf_writer *writer;
    ig_file_writer *file;
    ig_team *team;
    stretch *stretch;
    uint64_t done, total; /* bytes */
} producer;

/* ---- A stretch of a tensor ---- */

static void work_chunk(stretch *s, int64_t chunk, float *x) {
    const ig_dtype dtype = s->product->desc.dtype;
    const int64_t at = chunk * CHUNK, n = s->n - at < CHUNK ? s->n - at : CHUNK;
    s->product->read(s->product, s->first + at, n, x);
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
    stretch *s = task;
    const int64_t chunks = (s->n + CHUNK - 1) / CHUNK;
    for (int64_t chunk; (chunk = atomic_fetch_add(&s->next, 1)) < chunks;)
        work_chunk(s, chunk, s->scratch + (size_t)thread * CHUNK);
}

static ig_status put_stretch(producer *p, uint64_t at, const void *bytes, uint64_t n_bytes,
                             const ig_product *product) {
    IG_TRY(ig_file_writer_write(p->file, at, bytes, n_bytes));
    p->done += n_bytes;
    if (p->options->stop && p->options->stop(p->options->user, product, p->done, p->total))
        return IG_FAIL(IG_ERR_CANCELLED, "stopped before %s was whole", product->name);
    return IG_OK;
}

/* ---- A tensor ---- */

static ig_status copy_tensor(producer *p, const ig_product *product, uint64_t at,
                             ig_produced *out) {
    const uint64_t piece = UINT64_C(64) << 20;
    const uint8_t *bytes = product->source;
    for (uint64_t i = 0; i < out->n_bytes; i += piece) {
        const uint64_t n = out->n_bytes - i < piece ? out->n_bytes - i : piece;
        IG_TRY(put_stretch(p, at + i, bytes + i, n, product));
    }
    return IG_OK;
}

static ig_status make_tensor(producer *p, const ig_product *product, uint64_t at,
                             ig_produced *out) {
    stretch *s = p->stretch;
    const ig_dtype dtype = product->desc.dtype;
    const int64_t count = ig_shape_count(product->desc.shape);
    s->product = product;
    for (s->first = 0; s->first < count; s->first += s->n) {
        s->n = count - s->first < STRETCH ? count - s->first : STRETCH;
        atomic_store(&s->next, 0);
        ig_team_run(p->team, work, s);
        for (int64_t c = 0; c < (s->n + CHUNK - 1) / CHUNK; c++) {
            if (!s->finite[c])
                return IG_FAIL(IG_ERR_FORMAT,
                               "%s: has numbers that are not finite; %s has no place "
                               "for them",
                               product->name, ig_dtype_name(dtype));
            out->square += s->square[c];
            out->error += s->error[c];
        }
        const uint64_t bytes = (uint64_t)ig_bytes_of(dtype, s->n);
        IG_TRY(put_stretch(p, at, s->blocks, bytes, product));
        at += bytes;
    }
    return IG_OK;
}

static ig_status produce_all(producer *p, const ig_product *products, size_t count,
                             ig_produced *out) {
    uint64_t head_bytes;
    const void *head = ig_gguf_writer_head(p->writer, &head_bytes);
    IG_TRY(ig_file_writer_write(p->file, 0, head, head_bytes));
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = ig_gguf_writer_place(p->writer, i);
        out[i] = (ig_produced){0};
        (void)!ig_desc_bytes(products[i].desc, &out[i].n_bytes); /* the writer has looked already */
        IG_TRY(products[i].read ? make_tensor(p, &products[i], at, &out[i])
                                : copy_tensor(p, &products[i], at, &out[i]));
    }
    return ig_file_writer_commit(p->file);
}

/* ---- The whole ---- */

static ig_status allocate(producer *p) {
    const uint32_t threads = ig_team_threads(p->team);
    stretch *s = p->stretch = ig_alloc(p->allocator, 1, sizeof *s);
    if (!s) return IG_FAIL(IG_ERR_MEMORY, "no memory to work with");
    s->blocks = ig_alloc(p->allocator, STRETCH, sizeof(float));
    s->scratch = ig_alloc(p->allocator, (size_t)threads * CHUNK, sizeof(float));
    if (!s->blocks || !s->scratch)
        return IG_FAIL(IG_ERR_MEMORY, "no memory to work with: %zu bytes",
                       ((size_t)threads * CHUNK + STRETCH) * sizeof(float));
    return IG_OK;
}

ig_status ig_gguf_announce(ig_gguf_writer *writer, const ig_product *products, size_t count) {
    for (size_t i = 0; i < count; i++)
        ig_gguf_writer_tensor(writer, products[i].name, products[i].desc);
    return ig_gguf_writer_finish(writer);
}

ig_status ig_gguf_produce(const ig_allocator *a, const char *path, const ig_gguf_writer *writer,
                          const ig_product *products, size_t count,
                          const ig_produce_options *options, ig_produced *out) {
    producer p = {.allocator = a, .options = options, .writer = writer};
    p.total = ig_gguf_writer_file_bytes(writer);
    const uint32_t threads = options->threads ? options->threads : ig_team_default_threads();
    ig_status status = ig_team_create(a, threads, &p.team);
    if (status == IG_OK) status = allocate(&p);
    if (status == IG_OK) status = ig_file_writer_create(a, path, p.total, &p.file);
    const bool tells = status == IG_OK && options->writing;
    if (tells) options->writing(ig_file_writer_temporary(p.file));
    if (status == IG_OK) status = produce_all(&p, products, count, out);
    if (tells) options->writing(NULL);
    ig_file_writer_destroy(p.file);
    if (p.stretch) {
        ig_free(a, p.stretch->scratch);
        ig_free(a, p.stretch->blocks);
    }
    ig_free(a, p.stretch);
    ig_team_destroy(p.team);
    return status;
}
