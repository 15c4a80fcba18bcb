/*
 * Sessions of models that are defined by production dispatches only.
 *
 * Their forward pass processes a complete sequence without a KV cache, so each token whose logits
 * are requested costs a forward pass over its sequence so far, padded to the context length. The
 * session's pages count tokens and hold no keys or values. A causal model does not attend to the
 * padding, and every position runs the same dispatches, so logits do not depend on how a text was
 * split into calls.
 */
#include <string.h>

#include "base/alloc.h"
#include "model/adapter.h"

ig_status ig_session_recompute_init(ig_session *s) {
    const ig_adapter *a = s->adapter;
    return ig_production_run_create(&(ig_production_parts){.ctx = s->ctx,
                                                           .table = s->arch->production,
                                                           .config = &a->config,
                                                           .root = a->root,
                                                           .batch = 1,
                                                           .rows = s->config.ctx_len},
                                    &s->recompute);
}

static ig_status forward(ig_session *s, int32_t sequence, float *out) {
    ig_production_run *run = s->recompute;
    const int64_t length = ig_session_length(s, sequence), rows = run->args.rows;
    const int64_t width = s->config.vocabulary;
    int32_t *ids = ig_tensor_map(run->args.ids);
    double loss; /* without targets: only the logits are used */
    memset(ids, 0, (size_t)rows * sizeof *ids);
    memcpy(ids, ig_session_tokens(s, sequence), (size_t)length * sizeof *ids);
    IG_TRY(ig_production_run_forward(run, &loss));
    const float *logits = ig_tensor_map(run->made.logits);
    if (!logits)
        return IG_FAIL(IG_ERR_UNSUPPORTED, "session: the device's memory is not the host's");
    if (ig_session_copy_finite(out, logits + (length - 1) * width, (size_t)width)) return IG_OK;
    return ig_adapter_explain_rows(s->adapter, "the logits");
}

ig_status ig_session_recompute(ig_session *s, const ig_session_token *rows, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int32_t unused;
        IG_TRY(ig_session_append(s, rows[i].sequence, rows[i].id, &unused));
        if (rows[i].logits) IG_TRY(forward(s, rows[i].sequence, rows[i].logits));
    }
    return IG_OK;
}
