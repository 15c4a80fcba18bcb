/*
 * Padded batches: the tokens that are no padding run as they would alone, so the padding costs
 * nothing and changes nothing.  An encoder takes all rows at once.
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

/* The tokens of all rows without their padding. */
typedef struct texts {
    int64_t n, *lengths; /* tokens in all, and of each row */
    int64_t *places;     /* [n]: where each is in the batch */
    int32_t *ids, *positions, *token_types;
    float *out; /* [n, width] */
} texts;

static int64_t n_token_types(const ig_session *s) {
    const ig_gguf *file = s->adapter->source ? s->adapter->source->file : NULL;
    const ig_gguf_tensor *t = file ? ig_gguf_find_tensor(file, "token_types.weight") : NULL;
    return t ? t->desc.shape.dim[0] : 1;
}

/* Ids, positions and token types are those of the model's tables. */
static ig_status check_token(const ig_session *s, const texts *t, int64_t i, int64_t n_types) {
    const struct {
        const char *what;
        int64_t value, limit;
    } rules[] = {{"token", t->ids[i], s->config.vocabulary},
                 {"position", t->positions[i], s->adapter->config.ctx_len},
                 {"token type", t->token_types[i], n_types}};
    for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++)
        if (rules[k].value < 0 || rules[k].value >= rules[k].limit)
            return IG_FAIL(IG_ERR_ARGUMENT, "%s %lld is not below %lld", rules[k].what,
                           (long long)rules[k].value, (long long)rules[k].limit);
    return IG_OK;
}

static ig_status take_tokens(const ig_session *s, const ig_padded_batch *b, texts *t) {
    const int64_t n_types = n_token_types(s);
    for (int64_t i = 0; i < b->n_rows * b->length; i++) {
        if (!is_token(b, i)) continue;
        t->places[t->n] = i;
        t->ids[t->n] = b->ids[i];
        t->positions[t->n] = b->positions ? b->positions[i] : (int32_t)(i % b->length);
        t->token_types[t->n] = b->token_types ? b->token_types[i] : 0;
        IG_TRY(check_token(s, t, t->n, n_types));
        t->lengths[i / b->length]++;
        t->n++;
    }
    return IG_OK;
}

static void hand_out(const ig_session *s, const ig_padded_batch *b, const texts *t, float *out) {
    const size_t width = (size_t)s->width;
    for (int64_t i = 0; i < t->n; i++) {
        const int64_t row = t->places[i] / b->length;
        const bool is_last = i + 1 == t->n || t->places[i + 1] / b->length != row;
        const int64_t to = b->last_only ? row : t->places[i];
        if (!b->last_only || is_last)
            memcpy(out + (size_t)to * width, t->out + (size_t)i * width, width * sizeof *out);
    }
}

static ig_status encode(const ig_session *s, const ig_padded_batch *b, texts *t, float *out) {
    IG_TRY(take_tokens(s, b, t));
    const ig_encoder_texts all = {.lengths = t->lengths,
                                  .n = b->n_rows,
                                  .count = t->n,
                                  .ids = t->ids,
                                  .positions = t->positions,
                                  .token_types = b->token_types ? t->token_types : NULL};
    IG_TRY(ig_session_encode(s, &all, t->out));
    if (out) hand_out(s, b, t, out);
    return IG_OK;
}

static ig_status run_encoder(ig_session *s, const ig_padded_batch *b, float *out) {
    const ig_allocator *memory = ig_ctx_allocator(s->ctx);
    const size_t n = (size_t)(b->n_rows * b->length);
    texts t = {.lengths = ig_alloc(memory, (size_t)b->n_rows, sizeof *t.lengths),
               .places = ig_alloc(memory, n, sizeof *t.places),
               .ids = ig_alloc(memory, n, sizeof *t.ids),
               .positions = ig_alloc(memory, n, sizeof *t.positions),
               .token_types = ig_alloc(memory, n, sizeof *t.token_types),
               .out = ig_alloc(memory, n * (size_t)s->width, sizeof *t.out)};
    const bool has_room = t.lengths && t.places && t.ids && t.positions && t.token_types && t.out;
    const ig_status status =
        has_room ? encode(s, b, &t, out) : IG_FAIL(IG_ERR_MEMORY, "padded batch: %zu tokens", n);
    ig_free(memory, t.out);
    ig_free(memory, t.token_types);
    ig_free(memory, t.positions);
    ig_free(memory, t.ids);
    ig_free(memory, t.places);
    ig_free(memory, t.lengths);
    return status;
}

ig_status ig_session_run_padded(ig_session *s, const ig_padded_batch *b, float *out) {
    if (!s || !b) return IG_FAIL(IG_ERR_ARGUMENT, "session_run_padded: NULL");
    IG_TRY(check(s, b));
    const size_t all = (size_t)(b->n_rows * b->length);
    if (out && !b->last_only && b->mask) memset(out, 0, all * (size_t)s->width * sizeof *out);
    return is_encoder(s) ? run_encoder(s, b, out) : run_decoder(s, b, out);
}
