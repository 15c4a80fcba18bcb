/*
 * Embeddings: runs a text through the model and pools its hidden states into one vector.
 *
 * A causal model prefills the text through the session, ubatch by ubatch, and pools the hidden
 * states as they come, so memory does not grow with the text. An encoder (bidirectional attention)
 * needs the whole text at once.
 */
#include "model/embed.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "model/adapter.h"
#include "model/gguf/gguf_model.h"

struct ig_embedder {
    ig_session *session;
    ig_tokens ids;
    int64_t begin, end;      /* tokens that are pooled */
    int64_t at;              /* tokens that have been run */
    int64_t at_once;         /* tokens per ubatch */
    float *hidden;           /* [at_once, d_model] */
    double *sum;             /* [d_model], over the pooled tokens */
    ig_session_token *piece; /* [at_once] */
    int32_t *positions;      /* [tokens], of an encoder */
};

/* ---- which tokens count ---- */

/* The default is the file's pooling_type; without one, the last token for a causal model (only it
 * attends to all others), and the mean for an encoder. */
static ig_status resolve(const ig_adapter *a, ig_pooling *pooling) {
    static const ig_pooling of_file[] = {[IG_POOLING_MEAN] = IG_POOL_MEAN,
                                         [IG_POOLING_CLS] = IG_POOL_CLS,
                                         [IG_POOLING_LAST] = IG_POOL_LAST};
    const int64_t said = a->source ? a->source->hyper.pooling : IG_POOLING_NONE;
    if (*pooling != IG_POOL_DEFAULT) return IG_OK;
    if (said > IG_POOLING_LAST)
        return IG_FAIL(IG_ERR_FORMAT,
                       "embed: the file's %s.pooling_type is %lld, expected mean, cls or "
                       "last; request one of them",
                       a->arch->name, (long long)said);
    *pooling = of_file[said];
    if (said == IG_POOLING_NONE) *pooling = a->arch->head ? IG_POOL_LAST : IG_POOL_MEAN;
    return IG_OK;
}

static ig_status choose(ig_embedder *e, ig_pooling pooling) {
    const int64_t count = (int64_t)e->ids.count, limit = ig_session_ctx_len(e->session);
    IG_TRY(resolve(e->session->adapter, &pooling));
    if (count < 1) return IG_FAIL(IG_ERR_ARGUMENT, "embed: the text has no tokens");
    if (count > limit)
        return IG_FAIL(IG_ERR_ARGUMENT, "embed: the text has %lld tokens, but the context is %lld",
                       (long long)count, (long long)limit);
    e->begin = pooling == IG_POOL_LAST ? count - 1 : 0;
    e->end = pooling == IG_POOL_CLS ? 1 : count;
    return IG_OK;
}

/* Adds the hidden states of the tokens from `first` on. */
static void add_up(ig_embedder *e, int64_t first, int64_t count) {
    const int64_t d = e->session->config.d_model;
    for (int64_t i = 0; i < count; i++) {
        if (first + i < e->begin || first + i >= e->end) continue;
        for (int64_t c = 0; c < d; c++) e->sum[c] += (double)e->hidden[i * d + c];
    }
}

/* ---- through the model ---- */

static ig_status make_room(ig_embedder *e) {
    const ig_session *s = e->session;
    const ig_allocator *memory = ig_ctx_allocator(s->ctx);
    const int64_t count = (int64_t)e->ids.count, chunk = ig_session_ubatch(s);
    const size_t d = (size_t)s->config.d_model;
    e->at_once = s->arch->head && chunk < count ? chunk : count;
    e->hidden = ig_alloc(memory, (size_t)e->at_once * d, sizeof *e->hidden);
    e->sum = ig_alloc(memory, d, sizeof *e->sum);
    e->piece = ig_alloc(memory, (size_t)e->at_once, sizeof *e->piece);
    e->positions = ig_alloc(memory, (size_t)count, sizeof *e->positions);
    if (e->hidden && e->sum && e->piece && e->positions) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "embed: %lld tokens", (long long)count);
}

/* Tokens after the last pooled one have no effect and are skipped. */
static ig_status run_piece(ig_embedder *e, int64_t n) {
    const int64_t d = e->session->config.d_model, at = e->at;
    if (at == 0) IG_TRY(ig_session_truncate(e->session, 0, 0));
    if (n > e->at_once) n = e->at_once;
    if (n > e->end - at) n = e->end - at;
    for (int64_t i = 0; i < n; i++)
        e->piece[i] = (ig_session_token){.id = e->ids.at[at + i],
                                         .hidden = at + i >= e->begin ? e->hidden + i * d : NULL};
    IG_TRY(ig_session_run(e->session, e->piece, n));
    add_up(e, at, n);
    e->at += n;
    return IG_OK;
}

static ig_status run_whole(ig_embedder *e) {
    const int64_t n = (int64_t)e->ids.count;
    for (int64_t i = 0; i < n; i++) e->positions[i] = (int32_t)i;
    const ig_encoder_texts text = {
        .lengths = &n, .n = 1, .count = n, .ids = e->ids.at, .positions = e->positions};
    IG_TRY(ig_session_encode(e->session, &text, e->hidden));
    add_up(e, 0, n);
    return IG_OK;
}

/* ---- piece by piece ---- */

ig_status ig_embedder_create(ig_session *s, const int32_t *tokens, size_t n_tokens,
                             ig_pooling pooling, ig_embedder **out) {
    const ig_allocator *memory = ig_ctx_allocator(s->ctx);
    ig_embedder *e = ig_alloc(memory, 1, sizeof *e);
    if (!e) return IG_FAIL(IG_ERR_MEMORY, "embed: no memory");
    e->session = s;
    e->ids.allocator = memory;
    ig_status status = IG_OK;
    for (size_t i = 0; i < n_tokens && status == IG_OK; i++)
        status = ig_tokens_add(&e->ids, tokens[i]);
    if (status == IG_OK) status = choose(e, pooling);
    if (status == IG_OK) status = make_room(e);
    if (status == IG_OK)
        *out = e;
    else
        ig_embedder_destroy(e);
    return status;
}

void ig_embedder_destroy(ig_embedder *e) {
    if (!e) return;
    const ig_allocator *memory = ig_ctx_allocator(e->session->ctx);
    ig_free(memory, e->positions);
    ig_free(memory, e->piece);
    ig_free(memory, e->sum);
    ig_free(memory, e->hidden);
    ig_tokens_deinit(&e->ids);
    ig_free(memory, e);
}

ig_status ig_embedder_advance(ig_embedder *e, int64_t n_tokens, bool *out_done) {
    if (e->session->arch->head)
        IG_TRY(run_piece(e, n_tokens));
    else
        IG_TRY(run_whole(e));
    *out_done = !e->session->arch->head || e->at >= e->end;
    return IG_OK;
}

/* The mean, normalized to length 1. */
void ig_embedder_read(const ig_embedder *e, float *out) {
    const int64_t d = e->session->config.d_model;
    double squares = 0;
    for (int64_t c = 0; c < d; c++) {
        const double mean = e->sum[c] / (double)(e->end - e->begin);
        squares += mean * mean;
        out[c] = (float)mean;
    }
    const double scale = squares > 0 ? 1 / sqrt(squares) : 0;
    for (int64_t c = 0; c < d; c++) out[c] = (float)((double)out[c] * scale);
}

/* ---- at once ---- */

ig_status ig_session_embed(ig_session *s, const char *text, size_t bytes, ig_pooling pooling,
                           float *out, int64_t *out_tokens) {
    if (!s || !out || (!text && bytes > 0) || (unsigned)pooling > IG_POOL_LAST)
        return IG_FAIL(IG_ERR_ARGUMENT, "embed: NULL, or no such pooling");
    if (!s->hidden || s->states)
        return IG_FAIL(IG_ERR_ARGUMENT, "embed: the session returns %s, not final hidden states",
                       s->hidden ? "those of all layers" : "logits");
    if (!s->adapter->tokenizer)
        return IG_FAIL(IG_ERR_ARGUMENT, "embed: the model has no tokenizer");
    ig_tokens ids = {.allocator = ig_ctx_allocator(s->ctx)};
    ig_embedder *e = NULL;
    bool done = false;
    ig_status status =
        ig_tokenize(s->adapter->tokenizer, text, bytes, IG_TOKENIZE_ADD_SPECIAL, &ids);
    if (status == IG_OK) status = ig_embedder_create(s, ids.at, ids.count, pooling, &e);
    while (status == IG_OK && !done) status = ig_embedder_advance(e, ig_session_ubatch(s), &done);
    if (status == IG_OK) {
        ig_embedder_read(e, out);
        if (out_tokens) *out_tokens = (int64_t)ids.count;
    }
    ig_embedder_destroy(e);
    ig_tokens_deinit(&ids);
    return status;
}

ig_status ig_adapter_embed(ig_adapter *a, const char *text, size_t bytes, ig_pooling pooling,
                           float *out, int64_t *out_tokens) {
    if (!a) return IG_FAIL(IG_ERR_ARGUMENT, "embed: NULL");
    if (!a->embedder)
        IG_TRY(ig_session_create(a, &(ig_session_options){.hidden = true}, &a->embedder));
    return ig_session_embed(a->embedder, text, bytes, pooling, out, out_tokens);
}
