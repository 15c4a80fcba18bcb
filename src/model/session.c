#include "model/session.h"

#include "base/alloc.h"
#include "ingot/grad.h"

enum { CHUNK = IG_PAGE_ROWS, CLASSES = 3 };

/* A token, a short prompt, a chunk of a long one. */
static const int64_t class_rows[CLASSES] = {1, 8, CHUNK};

/* The inputs of one number of rows, and the work on them. */
typedef struct row_class {
    ig_session *session;
    int64_t rows;
    ig_tensor *ids, *positions, *row_seq, *store_at; /* [1, rows], then [rows] */
    ig_tensor *pick;                                 /* [1]: the row whose logits are wanted */
    ig_tensor *logits;                               /* [1, vocabulary], of the newest replay */
    ig_captured *work;
} row_class;

struct ig_session {
    ig_ctx *ctx;
    const ig_arch *arch;
    ig_lm_config config;
    void *model;
    int64_t length, n_pages;
    ig_kv_layer *layers; /* n_layers, or none */
    ig_tensor *page_table;
    row_class classes[CLASSES];
};

/* ---- making ---- */

static ig_status make(ig_ctx *ctx, ig_dtype dtype, ig_shape shape, ig_tensor **out) {
    return ig_tensor_create(ctx, (ig_desc){dtype, shape}, out);
}

/* One sequence, whose pages lie in order. */
static ig_status make_cache(ig_session *s) {
    const ig_lm_config *c = &s->config;
    const int64_t width = c->d_model / c->n_heads;
    s->n_pages = (c->ctx_len + IG_PAGE_ROWS - 1) / IG_PAGE_ROWS;
    IG_TRY(make(s->ctx, IG_I32, IG_SHAPE(1, s->n_pages), &s->page_table));
    int32_t *table = ig_tensor_map(s->page_table);
    if (!table)
        return IG_FAIL(IG_ERR_UNSUPPORTED, "session: the device's memory is not the host's");
    for (int64_t i = 0; i < s->n_pages; i++) table[i] = (int32_t)i;
    if (!s->arch->has_cache) return IG_OK;
    s->layers = ig_alloc(ig_ctx_allocator(s->ctx), (size_t)c->n_layers, sizeof *s->layers);
    if (!s->layers) return IG_FAIL(IG_ERR_MEMORY, "session: %lld layers", (long long)c->n_layers);
    const ig_shape pages = IG_SHAPE(s->n_pages * IG_PAGE_ROWS, c->n_kv_heads, width);
    for (int64_t i = 0; i < c->n_layers; i++) {
        IG_TRY(make(s->ctx, IG_F32, pages, &s->layers[i].k));
        IG_TRY(make(s->ctx, IG_F32, pages, &s->layers[i].v));
    }
    return IG_OK;
}

static ig_status make_class(ig_session *s, row_class *c, int64_t rows) {
    c->session = s;
    c->rows = rows;
    IG_TRY(make(s->ctx, IG_I32, IG_SHAPE(1, rows), &c->ids));
    IG_TRY(make(s->ctx, IG_I32, IG_SHAPE(rows), &c->positions));
    IG_TRY(make(s->ctx, IG_I32, IG_SHAPE(rows), &c->row_seq));
    IG_TRY(make(s->ctx, IG_I32, IG_SHAPE(rows), &c->store_at));
    return make(s->ctx, IG_I32, IG_SHAPE(1), &c->pick);
}

ig_status ig_session_create(ig_ctx *ctx, const ig_arch *arch, const ig_lm_config *config,
                            void *model, ig_session **out) {
    ig_session *s = ig_alloc(ig_ctx_allocator(ctx), 1, sizeof *s);
    if (!s) return IG_FAIL(IG_ERR_MEMORY, "session");
    s->ctx = ctx;
    s->arch = arch;
    s->config = *config;
    s->model = model;
    ig_status status = make_cache(s);
    for (int i = 0; i < CLASSES && status == IG_OK; i++)
        status = make_class(s, &s->classes[i], class_rows[i]);
    if (status == IG_OK)
        *out = s;
    else
        ig_session_destroy(s);
    return status;
}

void ig_session_destroy(ig_session *s) {
    if (!s) return;
    for (int i = 0; i < CLASSES; i++) {
        row_class *c = &s->classes[i];
        ig_tensor *const all[] = {c->ids,      c->positions, c->row_seq,
                                  c->store_at, c->pick,      c->logits};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) ig_tensor_release(all[k]);
        ig_captured_destroy(c->work);
    }
    for (int64_t i = 0; s->layers && i < s->config.n_layers; i++) {
        ig_tensor_release(s->layers[i].k);
        ig_tensor_release(s->layers[i].v);
    }
    ig_tensor_release(s->page_table);
    ig_free(ig_ctx_allocator(s->ctx), s->layers);
    ig_free(ig_ctx_allocator(s->ctx), s);
}

/* ---- running ---- */

/* What is captured: rows in, the logits of one of them out. */
static ig_status forward(void *arg) {
    row_class *c = arg;
    ig_session *s = c->session;
    ig_status stored = IG_OK;
    const ig_rows rows = {.ids = c->ids,
                          .positions = c->positions,
                          .layers = s->layers,
                          .page_table = s->page_table,
                          .row_seq = c->row_seq,
                          .row_pos = c->positions,
                          .store_at = c->store_at,
                          .status = &stored};
    ig_no_grad_begin(s->ctx);
    ig_tensor *h = ig_reshape(s->arch->hidden(s->model, &rows), IG_SHAPE(c->rows, -1));
    ig_tensor *logits = s->arch->head(s->model, ig_embedding(h, c->pick)); /* that row of h */
    ig_no_grad_end(s->ctx);
    IG_TRY(ig_eval(&logits, 1)); /* the first failure, in its own words */
    IG_TRY(stored);
    ig_tensor_release(c->logits);
    c->logits = ig_tensor_retain(logits);
    return IG_OK;
}

/* Fills in the rows of tokens [0, n); those behind belong to nobody. */
static void fill(const ig_session *s, const row_class *c, const int32_t *tokens, int64_t n) {
    int32_t *ids = ig_tensor_map(c->ids), *positions = ig_tensor_map(c->positions);
    int32_t *row_seq = ig_tensor_map(c->row_seq), *store_at = ig_tensor_map(c->store_at);
    for (int64_t i = 0; i < c->rows; i++) {
        const bool used = i < n;
        const int32_t at = (int32_t)(s->length + (used ? i : 0));
        ids[i] = used ? tokens[i] : 0;
        positions[i] = at;
        row_seq[i] = used ? 0 : -1;
        store_at[i] = used ? at : -1; /* page p of the sequence is page p of the cache */
    }
    *(int32_t *)ig_tensor_map(c->pick) = (int32_t)n - 1;
}

/* The smallest that takes all the rows, or the largest. */
static row_class *class_for(ig_session *s, int64_t rows) {
    int i = 0;
    while (i < CLASSES - 1 && class_rows[i] < rows) i++;
    return &s->classes[i];
}

static ig_status run(row_class *c) {
    if (c->work) return ig_captured_replay(c->work);
    return ig_capture(c->session->ctx, forward, c, &c->work);
}

ig_status ig_session_feed(ig_session *s, const int32_t *tokens, int64_t count, float *logits) {
    if (count < 1) return IG_FAIL(IG_ERR_ARGUMENT, "session: no tokens");
    if (count > s->config.ctx_len - s->length)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "%lld tokens do not fit: the context has %lld, of which %lld are taken",
                       (long long)count, (long long)s->config.ctx_len, (long long)s->length);
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= s->config.vocabulary)
            return IG_FAIL(IG_ERR_ARGUMENT, "token %d is not below %lld", tokens[i],
                           (long long)s->config.vocabulary);
    row_class *last = NULL;
    while (count > 0) {
        row_class *c = class_for(s, count);
        const int64_t n = count < c->rows ? count : c->rows;
        fill(s, c, tokens, n);
        IG_TRY(run(c));
        s->length += n;
        tokens += n;
        count -= n;
        last = c;
    }
    return ig_tensor_read(last->logits, logits, (size_t)s->config.vocabulary * sizeof *logits);
}

void ig_session_reset(ig_session *s) { s->length = 0; }
int64_t ig_session_length(const ig_session *s) { return s->length; }
