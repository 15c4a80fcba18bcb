/*
 * Padded batches: the tokens that are no padding run as they would alone, so the padding costs
 * nothing and changes nothing.
 */
#include <string.h>

#include "base/alloc.h"
#include "model/session/session.h"

static bool is_token(const ig_padded_batch *b, int64_t i) { return !b->mask || b->mask[i]; }

static ig_status check(const ig_session *s, const ig_padded_batch *b) {
    if (!b->ids || b->n_rows < 1 || b->length < 1)
        return IG_FAIL(IG_ERR_ARGUMENT, "padded batch: %lld rows of %lld tokens",
                       (long long)b->n_rows, (long long)b->length);
    if (b->n_rows > s->pages.n_sequences)
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

ig_status ig_session_run_padded(ig_session *s, const ig_padded_batch *b, float *out) {
    if (!s || !b) return IG_FAIL(IG_ERR_ARGUMENT, "session_run_padded: NULL");
    IG_TRY(check(s, b));
    const ig_allocator *memory = ig_ctx_allocator(s->ctx);
    const size_t all = (size_t)(b->n_rows * b->length);
    ig_session_token *tokens = ig_alloc(memory, all, sizeof *tokens);
    if (!tokens) return IG_FAIL(IG_ERR_MEMORY, "padded batch: %zu tokens", all);
    if (out && !b->last_only && b->mask) memset(out, 0, all * (size_t)s->width * sizeof *out);
    const int64_t n = gather(s, b, out, tokens);
    const ig_status status = ig_session_run(s, tokens, n);
    ig_free(memory, tokens);
    return status;
}
