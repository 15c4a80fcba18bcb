/*
 * Padded batches: the tokens that are no padding run as they would alone, so the padding costs
 * nothing and changes nothing.  An encoder runs row by row.
 */
#include <string.h>

#include "model/adapter.h"
#include "model/gguf/gguf_model.h"

static bool is_token(const ig_padded_batch *b, int64_t i) { return !b->mask || b->mask[i]; }

static bool is_encoder(const ig_session *s) { return !s->arch->head && !s->recompute; }

static ig_status check(const ig_session *s, const ig_padded_batch *b) {
    if (!b->ids || b->n_rows < 1 || b->length < 1)
        return IG_FAIL(IG_ERR_ARGUMENT, "padded batch: %lld rows of %lld tokens",
                       (long long)b->n_rows, (long long)b->length);
    if (!is_encoder(s) && b->n_rows > s->pages.n_sequences)
        return IG_FAIL(IG_ERR_ARGUMENT, "padded batch: %lld rows; the session has %d sequences",
                       (long long)b->n_rows, s->pages.n_sequences);
    for (int64_t row = 0; row < b->n_rows; row++) {
        int64_t n = 0;
        for (int64_t i = 0; i < b->length; i++) n += is_token(b, row * b->length + i);
        if (n == 0)
            return IG_FAIL(IG_ERR_ARGUMENT, "padded batch: row %lld is padding alone",
                           (long long)row);
    }
    return IG_OK;
}

/* The tokens of all rows, in order; returns their number. */
static int64_t gather(const ig_session *s, const ig_padded_batch *b, float *out,
                      ig_session_token *tokens) {
    int64_t n = 0;
    for (int64_t row = 0; row < b->n_rows; row++) {
        for (int64_t i = row * b->length; i < (row + 1) * b->length; i++) {
            if (!is_token(b, i)) continue;
            tokens[n++] = (ig_session_token){
                .sequence = (int32_t)row,
                .id = b->ids[i],
                .logits = out && !b->last_only ? out + i * s->width : NULL,
                .has_position = b->positions != NULL,
                .position = b->positions ? b->positions[i] : 0,
            };
        }
        if (out && b->last_only) tokens[n - 1].logits = out + row * s->width;
    }
    return n;
}

static ig_status run_decoder(ig_session *s, const ig_padded_batch *b, float *out) {
    const ig_allocator *memory = ig_ctx_allocator(s->ctx);
    const size_t all = (size_t)(b->n_rows * b->length);
    ig_session_token *tokens = ig_alloc(memory, all, sizeof *tokens);
    if (b->token_types) {
        ig_free(memory, tokens);
        return IG_FAIL(IG_ERR_ARGUMENT, "padded batch: %s has no token types", s->arch->name);
    }
    if (!tokens) return IG_FAIL(IG_ERR_MEMORY, "padded batch: %zu tokens", all);
    const int64_t n = gather(s, b, out, tokens);
    const ig_status status = ig_session_run(s, tokens, n);
    ig_free(memory, tokens);
    return status;
}

/* ---- Encoders ---- */

/* The tokens of a row without its padding. */
typedef struct row {
    int64_t n, *columns;
    int32_t *ids, *positions, *token_types;
    float *out; /* [n, width] */
} row;

static int64_t n_token_types(const ig_session *s) {
    const ig_gguf *file = s->adapter->source ? s->adapter->source->file : NULL;
    const ig_gguf_tensor *t = file ? ig_gguf_find_tensor(file, "token_types.weight") : NULL;
    return t ? t->desc.shape.dim[0] : 1;
}

/* Ids, positions and token types are those of the model's tables. */
static ig_status check_token(const ig_session *s, const row *r) {
    const int64_t i = r->n - 1;
    const struct {
        const char *what;
        int64_t value, limit;
    } rules[] = {{"token", r->ids[i], s->config.vocabulary},
                 {"position", r->positions[i], s->adapter->config.ctx_len},
                 {"token type", r->token_types[i], n_token_types(s)}};
    for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++)
        if (rules[k].value < 0 || rules[k].value >= rules[k].limit)
            return IG_FAIL(IG_ERR_ARGUMENT, "%s %lld is not below %lld", rules[k].what,
                           (long long)rules[k].value, (long long)rules[k].limit);
    return IG_OK;
}

static ig_status take_row(const ig_session *s, const ig_padded_batch *b, int64_t number, row *r) {
    r->n = 0;
    for (int64_t column = 0; column < b->length; column++) {
        const int64_t i = number * b->length + column;
        if (!is_token(b, i)) continue;
        r->columns[r->n] = column;
        r->ids[r->n] = b->ids[i];
        r->positions[r->n] = b->positions ? b->positions[i] : (int32_t)column;
        r->token_types[r->n] = b->token_types ? b->token_types[i] : 0;
        r->n++;
        IG_TRY(check_token(s, r));
    }
    return IG_OK;
}

static ig_status run_row(const ig_session *s, const ig_padded_batch *b, int64_t number, row *r,
                         float *out) {
    const size_t width = (size_t)s->width;
    IG_TRY(take_row(s, b, number, r));
    const ig_encoder_text text = {.count = r->n,
                                  .ids = r->ids,
                                  .positions = r->positions,
                                  .token_types = b->token_types ? r->token_types : NULL};
    IG_TRY(ig_session_encode(s, &text, r->out));
    if (out && b->last_only)
        memcpy(out + (size_t)number * width, r->out + (size_t)(r->n - 1) * width,
               width * sizeof *out);
    for (int64_t i = 0; out && !b->last_only && i < r->n; i++)
        memcpy(out + (size_t)(number * b->length + r->columns[i]) * width,
               r->out + (size_t)i * width, width * sizeof *out);
    return IG_OK;
}

static ig_status run_encoder(ig_session *s, const ig_padded_batch *b, float *out) {
    const ig_allocator *memory = ig_ctx_allocator(s->ctx);
    const size_t n = (size_t)b->length;
    row r = {.columns = ig_alloc(memory, n, sizeof *r.columns),
             .ids = ig_alloc(memory, n, sizeof *r.ids),
             .positions = ig_alloc(memory, n, sizeof *r.positions),
             .token_types = ig_alloc(memory, n, sizeof *r.token_types),
             .out = ig_alloc(memory, n * (size_t)s->width, sizeof *r.out)};
    ig_status status = IG_OK;
    if (!r.columns || !r.ids || !r.positions || !r.token_types || !r.out)
        status = IG_FAIL(IG_ERR_MEMORY, "padded batch: %zu tokens", n);
    for (int64_t i = 0; i < b->n_rows && status == IG_OK; i++) status = run_row(s, b, i, &r, out);
    ig_free(memory, r.out);
    ig_free(memory, r.token_types);
    ig_free(memory, r.positions);
    ig_free(memory, r.ids);
    ig_free(memory, r.columns);
    return status;
}

ig_status ig_session_run_padded(ig_session *s, const ig_padded_batch *b, float *out) {
    if (!s || !b) return IG_FAIL(IG_ERR_ARGUMENT, "session_run_padded: NULL");
    IG_TRY(check(s, b));
    const size_t all = (size_t)(b->n_rows * b->length);
    if (out && !b->last_only && b->mask) memset(out, 0, all * (size_t)s->width * sizeof *out);
    return is_encoder(s) ? run_encoder(s, b, out) : run_decoder(s, b, out);
}
