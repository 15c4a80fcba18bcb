#include "engine/reply.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "model/logprob.h"
#include "text/stop_strings.h"

ig_status ig_reply_create(ig_job *job, int choice, ig_reply **out) {
    const ig_allocator *a = &job->allocator;
    ig_reply *r = ig_alloc(a, 1, sizeof *r);
    if (!r) return IG_FAIL(IG_ERR_MEMORY, "engine: a reply");
    r->job = job;
    r->choice = choice;
    r->slot = -1;
    r->n_prompt = (int64_t)job->request.n_tokens;
    r->tokens.allocator = a;
    if (!IG_GROW(a, r->tokens.at, &r->tokens.room, job->request.n_tokens)) {
        ig_free(a, r);
        return IG_FAIL(IG_ERR_MEMORY, "engine: a reply to %zu tokens", job->request.n_tokens);
    }
    memcpy(r->tokens.at, job->request.tokens, job->request.n_tokens * sizeof *r->tokens.at);
    r->tokens.count = job->request.n_tokens;
    *out = r;
    return IG_OK;
}

void ig_reply_destroy(ig_reply *r) {
    if (!r) return;
    const ig_allocator *a = &r->job->allocator;
    ig_sampler_destroy(r->sampler);
    ig_detokenizer_destroy(r->detokenizer);
    ig_tokens_deinit(&r->tokens);
    ig_free(a, r->text);
    ig_free(a, r->held);
    ig_free(a, r);
}

ig_status ig_reply_prepare(ig_reply *r, const ig_tokenizer *tokenizer, int64_t vocabulary) {
    if (!r->detokenizer) IG_TRY(ig_detokenizer_create(tokenizer, 0, &r->detokenizer));
    if (r->sampler) return IG_OK;
    ig_sampling sampling = r->job->request.sampling;
    sampling.stream += (uint64_t)r->choice;
    IG_TRY(ig_sampler_create(&r->job->allocator, &sampling, vocabulary, &r->sampler));
    for (size_t i = 0; i < r->tokens.count; i++) ig_sampler_accept(r->sampler, r->tokens.at[i]);
    return IG_OK;
}

/* ---- text ---- */

static void emit_token(ig_reply *r, const ig_held_token *t, const char *text, size_t bytes) {
    ig_job_emit(r->job, &(ig_job_event){.type = IG_JOB_EVENT_TOKEN,
                                        .choice = r->choice,
                                        .token = t->id,
                                        .text = {text, bytes},
                                        .logprob = t->logprob,
                                        .top = t->top,
                                        .n_top = t->n_top});
}

/* Emits the held tokens whose text ends within the first `bytes`, and with `also_part` the one
 * that has only begun there. */
static void release(ig_reply *r, size_t bytes, bool also_part) {
    size_t at = 0, n = 0;
    while (n < r->n_held && r->held[n].end <= bytes) {
        emit_token(r, &r->held[n], r->text + at, r->held[n].end - at);
        at = r->held[n++].end;
    }
    if (also_part && n < r->n_held && at < bytes) {
        emit_token(r, &r->held[n++], r->text + at, bytes - at);
        at = bytes;
    }
    memmove(r->text, r->text + at, r->n_text - at);
    memmove(r->held, r->held + n, (r->n_held - n) * sizeof *r->held);
    r->n_text -= at;
    r->n_held -= n;
    for (size_t i = 0; i < r->n_held; i++) r->held[i].end -= at;
}

static ig_status hold(ig_reply *r, const ig_held_token *token, ig_string_view text) {
    const ig_allocator *a = &r->job->allocator;
    if (!IG_GROW(a, r->text, &r->text_room, r->n_text + text.n_bytes + 1) ||
        !IG_GROW(a, r->held, &r->held_room, r->n_held + 1))
        return IG_FAIL(IG_ERR_MEMORY, "engine: %zu bytes of text", text.n_bytes);
    if (text.n_bytes > 0) memcpy(r->text + r->n_text, text.bytes, text.n_bytes);
    r->n_text += text.n_bytes;
    r->held[r->n_held] = *token;
    r->held[r->n_held++].end = r->n_text;
    return IG_OK;
}

static void emit_finish(ig_reply *r, ig_finish finish, const char *stop, ig_string_view text) {
    r->is_finished = true;
    r->finish = finish;
    ig_job_emit(r->job, &(ig_job_event){.type = IG_JOB_EVENT_FINISH,
                                        .choice = r->choice,
                                        .finish = finish,
                                        .stop = stop,
                                        .text = text});
}

void ig_reply_finish(ig_reply *r, ig_finish finish) {
    ig_string_view rest = {"", 0};
    if (r->n_held > 0) release(r, r->n_text, true);
    if (r->detokenizer && finish != IG_FINISH_STOP) rest = ig_detokenizer_end(r->detokenizer);
    emit_finish(r, finish, NULL, rest);
}

/* Adds a token's text.  True: a stop string ended the reply. */
static ig_status take_text(ig_reply *r, const ig_held_token *token, bool *out_stopped) {
    const ig_request *q = &r->job->request;
    IG_TRY(hold(r, token, ig_detokenizer_next(r->detokenizer, token->id)));
    ig_stop_match match = {.keep = 0, .stop = -1};
    if (r->n_generated > q->min_tokens)
        match = ig_stop_find(r->text, r->n_text, q->stop, q->n_stop);
    *out_stopped = match.stop >= 0;
    release(r, *out_stopped ? match.at : r->n_text - match.keep, *out_stopped);
    if (*out_stopped) emit_finish(r, IG_FINISH_STOP, q->stop[match.stop], (ig_string_view){"", 0});
    return IG_OK;
}

/* ---- the next token ---- */

static bool is_stop_token(const ig_reply *r, const ig_reply_rules *rules, int32_t id) {
    const ig_request *q = &r->job->request;
    for (size_t i = 0; i < q->n_stop_tokens; i++)
        if (q->stop_tokens[i] == id) return true;
    return !q->ignore_eos && ig_tokenizer_is_eog(rules->tokenizer, id);
}

/* Before min_tokens nothing that would end the text is sampled. */
static void ban_ends(const ig_reply *r, const ig_reply_rules *rules, float *logits) {
    const ig_request *q = &r->job->request;
    if (r->n_generated >= q->min_tokens) return;
    for (size_t i = 0; i < q->n_stop_tokens; i++) logits[q->stop_tokens[i]] = -INFINITY;
    for (size_t i = 0; !q->ignore_eos && i < rules->n_eog; i++) logits[rules->eog[i]] = -INFINITY;
}

static void note_time(ig_reply *r) {
    ig_job *job = r->job;
    const double now = ig_clock_ms();
    if (job->first_token_ms == 0) job->first_token_ms = now;
    job->last_token_ms = now;
    pthread_mutex_lock(&job->lock);
    job->stats.n_generated++;
    job->stats.first_token_ms = job->first_token_ms - job->submitted_ms;
    job->stats.prefill_ms = job->stats.first_token_ms - job->stats.queue_ms;
    job->stats.decode_ms = now - job->first_token_ms;
    pthread_mutex_unlock(&job->lock);
}

/* The number of tokens that a reply may have. */
static int64_t limit_of(const ig_reply *r, int64_t ctx_len) {
    const int64_t room = ctx_len - r->n_prompt, most = r->job->request.max_tokens;
    return most > 0 && most < room ? most : room;
}

ig_status ig_reply_next(ig_reply *r, const ig_reply_rules *rules, float *logits,
                        bool *out_finished) {
    const ig_request *q = &r->job->request;
    ig_held_token token = {.logprob = NAN};
    /* Before tokens are banned. */
    const double log_sum = q->logprobs ? ig_logits_log_sum(logits, rules->vocabulary) : 0;
    if (q->logprobs)
        token.n_top = ig_logits_top_of(logits, rules->vocabulary, log_sum, token.top,
                                       (size_t)q->top_logprobs);
    ban_ends(r, rules, logits);
    token.id = ig_sampler_next(r->sampler, logits);
    if (q->logprobs) token.logprob = (double)logits[token.id] - log_sum;
    ig_sampler_accept(r->sampler, token.id);
    IG_TRY(ig_tokens_add(&r->tokens, token.id));
    r->n_generated++;
    note_time(r);

    *out_finished = false;
    if (r->n_generated > q->min_tokens && is_stop_token(r, rules, token.id)) {
        ig_reply_finish(r, IG_FINISH_STOP);
        *out_finished = true;
        return r->job->failure;
    }
    IG_TRY(take_text(r, &token, out_finished));
    if (!*out_finished && r->n_generated >= limit_of(r, rules->ctx_len)) {
        ig_reply_finish(r, IG_FINISH_LENGTH);
        *out_finished = true;
    }
    return r->job->failure;
}
