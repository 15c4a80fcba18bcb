/*
 * Encoders: bidirectional attention sees a text whole, so it runs at once and no KV cache keeps it.
 * Several texts run as the rows of one batch; each attends to itself alone.
 */
#include <math.h>

#include "model/adapter.h"

ig_tensor *ig_session_output(const ig_session *s, ig_tensor *hidden, ig_tensor *logits) {
    const int64_t n = s->config.n_layers;
    s->states[n] = hidden;
    s->states[n + 1] = logits;
    return ig_concat(s->states, (int)(n + (s->hidden ? 1 : 2)), -1);
}

static ig_status make(ig_ctx *ctx, ig_shape shape, const int32_t *values, ig_tensor **out) {
    return values ? ig_tensor_create_from(ctx, (ig_desc){IG_I32, shape}, values, out) : IG_OK;
}

static ig_status forward(const ig_session *s, const ig_ubatch *rows, int64_t count, float *out) {
    ig_tensor *hidden = ig_reshape(s->arch->hidden(s->model, rows), IG_SHAPE(count, -1));
    for (int64_t i = 0; s->states && i < s->config.n_layers; i++)
        s->states[i] = ig_reshape(s->states[i], IG_SHAPE(count, -1));
    if (s->states) hidden = ig_session_output(s, hidden, NULL);
    return ig_tensor_read(hidden, out, (size_t)(count * s->width) * sizeof *out);
}

ig_status ig_session_encode(const ig_session *s, const ig_encoder_texts *texts, float *out) {
    const int64_t n = texts->count;
    ig_tensor *ids = NULL, *positions = NULL, *types = NULL;
    ig_scope_begin(s->ctx);
    ig_no_grad_begin(s->ctx);
    ig_status status = make(s->ctx, IG_SHAPE(1, n), texts->ids, &ids);
    if (status == IG_OK) status = make(s->ctx, IG_SHAPE(n), texts->positions, &positions);
    if (status == IG_OK) status = make(s->ctx, IG_SHAPE(1, n), texts->token_types, &types);
    const ig_ubatch rows = {.ids = ids,
                            .positions = positions,
                            .token_types = types,
                            .text_lengths = texts->lengths,
                            .n_texts = texts->n,
                            .states = s->states};
    if (status == IG_OK) status = forward(s, &rows, n, out);
    ig_no_grad_end(s->ctx);
    ig_scope_end(s->ctx);
    ig_tensor_release(types);
    ig_tensor_release(positions);
    ig_tensor_release(ids);
    IG_TRY(status);
    for (int64_t i = 0; i < n * s->width; i++)
        if (!isfinite(out[i])) return ig_adapter_explain_rows(s->adapter, "the hidden states");
    return IG_OK;
}
