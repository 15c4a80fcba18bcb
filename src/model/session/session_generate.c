/*
 * The token loop over several sequences of a session.
 *
 * A step samples one token of each running sequence from its row of logits, then runs these tokens
 * in one batch.  A sequence that has ended leaves the batch; its row of logits stays where it was.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "model/session/session.h"
#include "text/sampler.h"

typedef struct loop {
    ig_session *session;
    const ig_session_generate_options *o;
    int64_t n, vocabulary;
    int32_t *out;
    int64_t *lengths;
    ig_finish *finish; /* [n] */
    float *logits;     /* [n, vocabulary] */
    int32_t *tokens;   /* [n]: of the step */
    bool *running;     /* [n] */
    bool *ended;       /* [n]: the same for callbacks, which may set it */
    ig_session_token *rows;
    ig_sampler **samplers; /* [n] */
} loop;

/* ---- making ---- */

static ig_status check_prompt(const loop *l, int64_t i) {
    const int64_t count = l->o->prompt_lengths[i], limit = ig_session_ctx_len(l->session);
    const int64_t held = ig_session_length(l->session, (int32_t)i);
    if (count < 1 || !l->o->prompts[i])
        return IG_FAIL(IG_ERR_ARGUMENT, "generate: the prompt of sequence %lld has no tokens",
                       (long long)i);
    if (count >= limit - held)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "generate: the prompt of sequence %lld has %lld tokens, but the context is "
                       "%lld, of which %lld are taken: no room for more",
                       (long long)i, (long long)count, (long long)limit, (long long)held);
    return IG_OK;
}

static ig_status check(const loop *l) {
    const ig_session_generate_options *o = l->o;
    const int64_t vocabulary = l->vocabulary;
    if (!ig_session_returns_logits(l->session))
        return IG_FAIL(IG_ERR_ARGUMENT, "generate: the session returns hidden states, not logits");
    if (l->n < 1 || l->n > ig_session_sequences(l->session))
        return IG_FAIL(IG_ERR_ARGUMENT, "generate: %lld sequences; there are %lld", (long long)l->n,
                       (long long)ig_session_sequences(l->session));
    if (o->max_tokens < 1 || o->min_tokens < 0 || o->n_stop_tokens < 0)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "generate: max_tokens %lld, min_tokens %lld, %lld stop tokens: at least 1, "
                       "0 and 0",
                       (long long)o->max_tokens, (long long)o->min_tokens,
                       (long long)o->n_stop_tokens);
    for (int64_t i = 0; i < o->n_stop_tokens; i++)
        if (o->stop_tokens[i] < 0 || o->stop_tokens[i] >= vocabulary)
            return IG_FAIL(IG_ERR_ARGUMENT, "generate: stop token %d is not below %lld",
                           o->stop_tokens[i], (long long)vocabulary);
    for (int64_t i = 0; i < l->n; i++) IG_TRY(check_prompt(l, i));
    return IG_OK;
}

static ig_status make_room(loop *l) {
    const ig_allocator *memory = ig_ctx_allocator(l->session->ctx);
    const size_t n = (size_t)l->n;
    size_t n_rows = 0;
    for (size_t i = 0; i < n; i++) n_rows += (size_t)l->o->prompt_lengths[i];
    l->logits = ig_alloc(memory, n * (size_t)l->vocabulary, sizeof *l->logits);
    l->tokens = ig_alloc(memory, n, sizeof *l->tokens);
    l->running = ig_alloc(memory, n, sizeof *l->running);
    l->ended = ig_alloc(memory, n, sizeof *l->ended);
    l->finish = ig_alloc(memory, n, sizeof *l->finish);
    l->rows = ig_alloc(memory, n_rows, sizeof *l->rows);
    l->samplers = ig_alloc(memory, n, sizeof(*l->samplers));
    if (l->logits && l->tokens && l->running && l->ended && l->finish && l->rows && l->samplers)
        return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "generate: %lld sequences", (long long)l->n);
}

static void deinit(loop *l) {
    const ig_allocator *memory = ig_ctx_allocator(l->session->ctx);
    for (int64_t i = 0; l->samplers && i < l->n; i++) ig_sampler_destroy(l->samplers[i]);
    ig_free(memory, (void *)l->samplers);
    ig_free(memory, l->rows);
    ig_free(memory, l->finish);
    ig_free(memory, l->ended);
    ig_free(memory, l->running);
    ig_free(memory, l->tokens);
    ig_free(memory, l->logits);
}

/* Samplers look back at the sequence and its prompt. */
static ig_status make_sampler(loop *l, int64_t i) {
    const int32_t *before = ig_session_tokens(l->session, (int32_t)i);
    ig_sampling sampling = l->o->sampling;
    sampling.stream += (uint64_t)i;
    IG_TRY(ig_sampler_create(ig_ctx_allocator(l->session->ctx), &sampling, l->vocabulary,
                             &l->samplers[i]));
    for (int64_t k = 0; k < ig_session_length(l->session, (int32_t)i); k++)
        ig_sampler_accept(l->samplers[i], before[k]);
    return IG_OK;
}

static ig_status prefill(loop *l) {
    int64_t count = 0;
    for (int64_t i = 0; i < l->n; i++) {
        for (int64_t k = 0; k < l->o->prompt_lengths[i]; k++)
            l->rows[count++] =
                (ig_session_token){.sequence = (int32_t)i, .id = l->o->prompts[i][k]};
        l->rows[count - 1].logits = l->logits + i * l->vocabulary;
    }
    IG_TRY(ig_session_run(l->session, l->rows, count));
    for (int64_t i = 0; i < l->n; i++) IG_TRY(make_sampler(l, i));
    return IG_OK;
}

/* ---- a step ---- */

static bool is_stop(const loop *l, int32_t token) {
    for (int64_t i = 0; i < l->o->n_stop_tokens; i++)
        if (l->o->stop_tokens[i] == token) return true;
    return false;
}

static bool call(loop *l, int64_t at, bool (*callback)(void *user, ig_generate_step *step)) {
    ig_generate_step step = {.n_generated = at,
                             .n_sequences = l->n,
                             .vocabulary = l->vocabulary,
                             .logits = l->logits,
                             .tokens = l->tokens,
                             .ended = l->ended};
    return !callback || callback(l->o->user, &step);
}

static void end(loop *l, int64_t i, ig_finish why) {
    l->running[i] = false;
    l->ended[i] = true;
    l->finish[i] = why;
}

static ig_status choose(loop *l, int64_t i, int64_t at) {
    float *logits = l->logits + i * l->vocabulary;
    for (int64_t k = 0; at < l->o->min_tokens && k < l->o->n_stop_tokens; k++)
        logits[l->o->stop_tokens[k]] = -INFINITY;
    if (l->tokens[i] < 0) l->tokens[i] = ig_sampler_next(l->samplers[i], logits);
    if (l->tokens[i] >= l->vocabulary)
        return IG_FAIL(IG_ERR_ARGUMENT, "generate: the callback chose token %d; below %lld are",
                       l->tokens[i], (long long)l->vocabulary);
    ig_sampler_accept(l->samplers[i], l->tokens[i]);
    l->out[i * l->o->max_tokens + at] = l->tokens[i];
    l->lengths[i] = at + 1;
    return IG_OK;
}

/* Samples a token of each sequence that edit() has not ended. */
static ig_status choose_all(loop *l, int64_t at) {
    for (int64_t i = 0; i < l->n; i++) l->tokens[i] = -1;
    const bool goes_on = call(l, at, l->o->edit);
    for (int64_t i = 0; i < l->n; i++) {
        if (!l->running[i]) continue;
        if (l->ended[i] || !goes_on)
            end(l, i, l->ended[i] ? IG_FINISH_STOP : IG_FINISH_CANCELLED);
        else
            IG_TRY(choose(l, i, at));
    }
    return IG_OK;
}

/* Ends sequences after their token of the step. */
static void end_some(loop *l, int64_t at) {
    const bool goes_on = call(l, at, l->o->chosen);
    for (int64_t i = 0; i < l->n; i++) {
        if (!l->running[i]) continue;
        const int64_t length = ig_session_length(l->session, (int32_t)i);
        if (l->ended[i] || (at >= l->o->min_tokens && is_stop(l, l->tokens[i])))
            end(l, i, IG_FINISH_STOP);
        else if (!goes_on)
            end(l, i, IG_FINISH_CANCELLED);
        else if (at + 1 >= l->o->max_tokens || length >= ig_session_ctx_len(l->session))
            end(l, i, IG_FINISH_LENGTH);
    }
}

static bool any_runs(const loop *l) {
    bool any = false;
    for (int64_t i = 0; i < l->n; i++) any = any || l->running[i];
    return any;
}

static ig_status step(loop *l, int64_t at) {
    int64_t count = 0;
    IG_TRY(choose_all(l, at));
    if (any_runs(l)) end_some(l, at);
    for (int64_t i = 0; i < l->n; i++)
        if (l->running[i])
            l->rows[count++] = (ig_session_token){.sequence = (int32_t)i,
                                                  .id = l->tokens[i],
                                                  .logits = l->logits + i * l->vocabulary};
    return count > 0 ? ig_session_run(l->session, l->rows, count) : IG_OK;
}

static ig_status run(loop *l, ig_finish *out_finish) {
    IG_TRY(check(l));
    IG_TRY(make_room(l));
    IG_TRY(prefill(l));
    for (int64_t i = 0; i < l->n; i++) l->running[i] = true;
    for (int64_t at = 0; any_runs(l); at++) IG_TRY(step(l, at));
    if (out_finish) memcpy(out_finish, l->finish, (size_t)l->n * sizeof *out_finish);
    return IG_OK;
}

ig_status ig_session_generate(ig_session *s, const ig_session_generate_options *options,
                              int32_t *out_tokens, int64_t *out_lengths, ig_finish *out_finish) {
    if (!s || !options || !options->prompts || !options->prompt_lengths || !out_tokens ||
        !out_lengths || (options->n_stop_tokens > 0 && !options->stop_tokens))
        return IG_FAIL(IG_ERR_ARGUMENT, "session_generate: NULL");
    loop l = {.session = s,
              .o = options,
              .n = options->n_sequences ? options->n_sequences : 1,
              .vocabulary = s->config.vocabulary,
              .out = out_tokens,
              .lengths = out_lengths};
    for (int64_t i = 0; i < l.n && l.n <= s->pages.n_sequences; i++) out_lengths[i] = 0;
    const ig_status status = run(&l, out_finish);
    deinit(&l);
    return status;
}
