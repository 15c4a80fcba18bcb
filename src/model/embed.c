/* Embeddings: a text goes through the model once, whole, and its hidden states become one vector.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "model/adapter.h"
#include "model/model.h"

typedef struct embedding {
    ig_adapter *a;
    ig_ids ids;
    ig_tensor *rows, *positions; /* [1, n] and [n] */
    float *hidden;               /* [n, d_model] */
} embedding;

static ig_status check(const ig_adapter *a, int64_t count) {
    if (count < 1) return IG_FAIL(IG_ERR_ARGUMENT, "embed: the text has no tokens");
    if (count <= a->config.ctx_len) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "embed: the text has %lld tokens, the context %lld",
                   (long long)count, (long long)a->config.ctx_len);
}

static ig_status make_rows(embedding *e) {
    const int64_t n = (int64_t)e->ids.count;
    ig_ctx *ctx = e->a->ctx;
    IG_TRY(ig_tensor_create_from(ctx, (ig_desc){IG_I32, IG_SHAPE(1, n)}, e->ids.at, &e->rows));
    IG_TRY(ig_tensor_create(ctx, (ig_desc){IG_I32, IG_SHAPE(n)}, &e->positions));
    int32_t *positions = ig_tensor_map(e->positions);
    if (!positions)
        return IG_FAIL(IG_ERR_UNSUPPORTED, "embed: the device's memory is not the host's");
    for (int64_t i = 0; i < n; i++) positions[i] = (int32_t)i;
    return IG_OK;
}

static ig_status run(embedding *e) {
    const ig_adapter *a = e->a;
    const size_t numbers = e->ids.count * (size_t)a->config.d_model;
    const ig_rows rows = {.ids = e->rows, .positions = e->positions};
    e->hidden = ig_alloc(ig_ctx_allocator(a->ctx), numbers, sizeof *e->hidden);
    if (!e->hidden) return IG_FAIL(IG_ERR_MEMORY, "embed: %zu tokens", e->ids.count);
    ig_scope_begin(a->ctx);
    ig_no_grad_begin(a->ctx);
    ig_tensor *hidden = a->arch->hidden(a->model, &rows);
    const ig_status status = ig_tensor_read(hidden, e->hidden, numbers * sizeof *e->hidden);
    ig_no_grad_end(a->ctx);
    ig_scope_end(a->ctx);
    IG_TRY(status);
    for (size_t i = 0; i < numbers; i++)
        if (!isfinite(e->hidden[i])) return ig_adapter_explain_rows(a, "the hidden states");
    return IG_OK;
}

static ig_pooling resolve(const ig_adapter *a, ig_pooling pooling) {
    static const ig_pooling of_file[] = {[IG_POOLING_NONE] = IG_POOL_MEAN,
                                         [IG_POOLING_MEAN] = IG_POOL_MEAN,
                                         [IG_POOLING_CLS] = IG_POOL_CLS,
                                         [IG_POOLING_LAST] = IG_POOL_LAST};
    if (pooling != IG_POOL_AS_FILE) return pooling;
    if (a->arch->head) return IG_POOL_LAST; /* only the last row has seen all others */
    return of_file[a->source ? a->source->hyper.pooling : IG_POOLING_NONE];
}

/* The rows that count, added up, and brought to length 1. */
static void pool(const embedding *e, ig_pooling pooling, float *out) {
    const size_t d = (size_t)e->a->config.d_model, n = e->ids.count;
    const size_t begin = pooling == IG_POOL_LAST ? n - 1 : 0, end = pooling == IG_POOL_CLS ? 1 : n;
    double squares = 0;
    for (size_t c = 0; c < d; c++) {
        double sum = 0;
        for (size_t i = begin; i < end; i++) sum += (double)e->hidden[i * d + c];
        sum /= (double)(end - begin);
        squares += sum * sum;
        out[c] = (float)sum;
    }
    const double scale = squares > 0 ? 1 / sqrt(squares) : 0;
    for (size_t c = 0; c < d; c++) out[c] = (float)((double)out[c] * scale);
}

static ig_status embed(embedding *e, const char *text, size_t bytes) {
    const unsigned flags = IG_ENCODE_ADD_SPECIAL;
    IG_TRY(ig_tokenizer_encode(e->a->tokenizer, text, bytes, flags, &e->ids));
    IG_TRY(check(e->a, (int64_t)e->ids.count));
    IG_TRY(make_rows(e));
    return run(e);
}

ig_status ig_adapter_embed(ig_adapter *a, const char *text, size_t bytes, ig_pooling pooling,
                           float *out, int64_t *out_tokens) {
    if (!a || !out || (!text && bytes > 0) || (unsigned)pooling > IG_POOL_LAST)
        return IG_FAIL(IG_ERR_ARGUMENT, "embed: NULL, or no such pooling");
    embedding e = {.a = a, .ids.allocator = ig_ctx_allocator(a->ctx)};
    const ig_status status = embed(&e, text, bytes);
    if (status == IG_OK) {
        pool(&e, resolve(a, pooling), out);
        if (out_tokens) *out_tokens = (int64_t)e.ids.count;
    }
    ig_free(ig_ctx_allocator(a->ctx), e.hidden);
    ig_tensor_release(e.positions);
    ig_tensor_release(e.rows);
    ig_ids_deinit(&e.ids);
    return status;
}
