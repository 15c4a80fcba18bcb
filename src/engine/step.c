/*
 * One step: the next token of each decoding reply, with drafts where there is room, and as many
 * prompt tokens as fit the time.
 *
 * First the tokens of each reply are counted, and its pages are claimed, which may preempt others.
 * Then the tokens are written, run and their outputs sampled.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "engine/scheduler.h"
#include "model/logprob.h"

static int64_t left_of(const ig_engine *e, const ig_reply *r) {
    return (int64_t)r->tokens.count - ig_session_length(e->session, r->slot);
}

/* Decodes: one token is left.  A prompt's last token alone counts as one. */
static bool is_decoding(const ig_engine *e, const ig_reply *r) { return left_of(e, r) == 1; }

/* ---- drafts ---- */

/* Draft tokens that follow the reply's last token; at most `room`. */
static void draft(const ig_engine *e, ig_reply *r, int64_t room) {
    const ig_request *q = &r->job->request;
    const int64_t length = (int64_t)r->tokens.count - 1;
    int64_t most = q->draft_max > 0 ? q->draft_max : IG_DRAFT_DEFAULT;
    const int64_t left = e->rules.ctx_len - length - 1;
    const int64_t wanted = q->max_tokens > 0 ? q->max_tokens - r->n_generated - 1 : left;
    if (most > wanted) most = wanted;
    if (most > left) most = left;
    if (most > room) most = room;
    if (q->draft_ngram <= 0 || most <= 0 || r->n_generated == 0) return;
    if (ig_draft_ngram(r->tokens.at, length, r->tokens.at[length], q->draft_ngram, r->draft, most))
        r->n_draft = most;
}

/* ---- the tokens of a step ---- */

typedef struct step {
    int64_t n_tokens, n_outputs;
    int64_t n_decode, n_prompt; /* tokens */
    int64_t n_decoding;         /* replies */
    int64_t n_logprobs;         /* prompt tokens with outputs */
} step;

static bool has_all_outputs(const ig_reply *r) {
    return r->job->request.prompt_logprobs && r->choice == 0;
}

/* Prompt tokens whose log-probabilities are wanted need outputs, of which there are few. */
static int64_t prompt_tokens_of(const ig_engine *e, step *s, const ig_reply *r, int64_t budget) {
    int64_t n_tokens = left_of(e, r);
    if (n_tokens > budget) n_tokens = budget;
    if (!has_all_outputs(r)) return n_tokens;
    if (n_tokens > IG_STEP_PROMPT_LOGPROBS - s->n_logprobs)
        n_tokens = IG_STEP_PROMPT_LOGPROBS - s->n_logprobs;
    s->n_logprobs += n_tokens;
    return n_tokens;
}

/* Replies share the room for drafts; what one does not use is left to those after it. */
static void plan_decode(ig_engine *e, step *s) {
    int64_t n = 0; /* replies to come */
    for (int64_t i = 0; i < e->n_slots; i++) n += e->slots[i] && is_decoding(e, e->slots[i]);
    int64_t room = IG_STEP_DRAFT_ROOM - n;
    for (int64_t i = 0; i < e->n_slots; i++) {
        ig_reply *r = e->slots[i];
        if (!r || !is_decoding(e, r) || s->n_decode >= e->ubatch) continue;
        if (room > 0) draft(e, r, (room + n - 1) / (n > 0 ? n : 1));
        n--;
        room -= r->n_draft;
        const int64_t n_tokens = 1 + r->n_draft;
        if (!ig_slots_claim(e, r, n_tokens)) continue;
        r->n_step_tokens = n_tokens;
        s->n_decode += n_tokens;
    }
}

/* The prompt with the fewest tokens left, less those that it has waited for. */
static ig_reply *next_prompt(const ig_engine *e, double now) {
    enum { TOKENS_PER_SECOND = 256 }; /* aging */
    ig_reply *best = NULL;
    double least = 0;
    for (int64_t i = 0; i < e->n_slots; i++) {
        ig_reply *r = e->slots[i];
        if (!r || r->n_step_tokens > 0 || left_of(e, r) < 2) continue;
        const double cost =
            (double)left_of(e, r) - (now - r->admitted_ms) * 1e-3 * TOKENS_PER_SECOND;
        if (best && cost >= least) continue;
        best = r;
        least = cost;
    }
    return best;
}

static void plan_prompts(ig_engine *e, step *s) {
    const double now = ig_clock_ms();
    int64_t budget =
        ig_step_costs_prompt_tokens(&e->costs, e->options.step_ms, s->n_decode, e->ubatch);
    ig_reply *r;
    while (budget > 0 && (r = next_prompt(e, now)) != NULL) {
        const int64_t n_tokens = prompt_tokens_of(e, s, r, budget);
        if (n_tokens == 0) break;
        if (!ig_slots_claim(e, r, n_tokens)) continue;
        r->n_step_tokens = n_tokens;
        budget -= n_tokens;
    }
}

/* Writes the tokens of a reply. */
static void add_tokens(ig_engine *e, step *s, ig_reply *r) {
    const int64_t length = ig_session_length(e->session, r->slot);
    const int64_t count = (int64_t)r->tokens.count;
    r->first_output = s->n_outputs;
    for (int64_t i = 0; i < r->n_step_tokens; i++) {
        const int64_t at = length + i;
        const bool wanted = at + 1 >= count || has_all_outputs(r);
        float *out = wanted ? e->logits + s->n_outputs++ * e->rules.vocabulary : NULL;
        const int32_t id = at < count ? r->tokens.at[at] : r->draft[at - count];
        e->tokens[s->n_tokens++] = (ig_session_token){.sequence = r->slot, .id = id, .logits = out};
    }
}

static void write_tokens(ig_engine *e, step *s) {
    s->n_tokens = s->n_outputs = s->n_decode = s->n_prompt = 0;
    for (int64_t i = 0; i < e->n_slots; i++) {
        ig_reply *r = e->slots[i];
        if (!r || r->n_step_tokens == 0) continue;
        *(is_decoding(e, r) ? &s->n_decode : &s->n_prompt) += r->n_step_tokens;
        s->n_decoding += is_decoding(e, r);
        add_tokens(e, s, r);
    }
}

/* ---- what comes of it ---- */

/* Log-probabilities of the prompt's tokens; output i is that of the token before. */
static void emit_prompt(ig_engine *e, ig_reply *r, int64_t before) {
    const ig_request *q = &r->job->request;
    if (!q->prompt_logprobs || r->choice > 0 || r->n_logprobs >= r->n_prompt) return;
    if (r->n_logprobs == 0) {
        r->n_logprobs = 1;
        ig_job_emit(
            r->job,
            &(ig_job_event){.type = IG_JOB_EVENT_PROMPT, .token = r->tokens.at[0], .logprob = NAN});
    }
    for (int64_t i = 0; i < r->n_step_tokens && r->n_logprobs < r->n_prompt; i++) {
        const float *logits = e->logits + (r->first_output + i) * e->rules.vocabulary;
        if (before + i + 1 != r->n_logprobs) continue; /* emitted before a preemption */
        ig_logprob top[IG_TOP_LOGPROBS_MAX];
        const int32_t id = r->tokens.at[r->n_logprobs++];
        const double log_sum = ig_logits_log_sum(logits, e->rules.vocabulary);
        ig_job_emit(r->job,
                    &(ig_job_event){.type = IG_JOB_EVENT_PROMPT,
                                    .token = id,
                                    .logprob = (double)logits[id] - log_sum,
                                    .top = top,
                                    .n_top = ig_logits_top_of(logits, e->rules.vocabulary, log_sum,
                                                              top, (size_t)q->top_logprobs)});
    }
}

static void emit_progress(ig_engine *e, const ig_reply *r) {
    const int64_t length = ig_session_length(e->session, r->slot);
    if (r->choice > 0 || r->n_generated > 0) return;
    ig_job_emit(r->job, &(ig_job_event){.type = IG_JOB_EVENT_PROGRESS,
                                        .processed = length,
                                        .total = r->n_prompt,
                                        .cached = r->n_shared});
}

/* Keeps what further choices need. */
static ig_status keep_prompt(ig_engine *e, const ig_reply *r, const float *logits) {
    ig_job *job = r->job;
    const int64_t n_pages = (r->n_prompt + IG_PAGE_TOKENS - 1) / IG_PAGE_TOKENS;
    const size_t vocabulary = (size_t)e->rules.vocabulary;
    job->pages = ig_alloc(&job->allocator, (size_t)n_pages, sizeof *job->pages);
    job->prompt_logits = ig_alloc(&job->allocator, vocabulary, sizeof *logits);
    if (!job->pages || !job->prompt_logits)
        return IG_FAIL(IG_ERR_MEMORY, "engine: the prompt of %d choices", job->request.n_choices);
    memcpy(job->prompt_logits, logits, vocabulary * sizeof *logits);
    for (int64_t i = 0; i < n_pages; i++) {
        job->pages[i] = ig_session_page(e->session, r->slot, i);
        ig_pages_hold(&e->session->pages, job->pages[i]);
    }
    job->n_pages = n_pages;
    return IG_OK;
}

/* The prompt is computed: others may share it from now on. */
static ig_status finish_prompt(ig_engine *e, ig_reply *r, const float *logits) {
    ig_job *job = r->job;
    if (job->is_prefilled) return IG_OK;
    job->is_prefilled = true;
    const ig_prefix prefix = {&job->salt, r->tokens.at, r->n_prompt};
    if (e->prefix_cache) ig_prefix_cache_add(e->prefix_cache, prefix, r->slot, false);
    return job->request.n_choices > 1 ? keep_prompt(e, r, logits) : IG_OK;
}

static void note_token(ig_engine *e, ig_reply *r, double before_ms) {
    ig_engine_stats *stats = &e->counts.stats;
    const ig_job *job = r->job;
    stats->n_generated++;
    if (before_ms > 0)
        ig_histogram_add_seconds(&stats->inter_token, job->last_token_ms - before_ms);
    else
        ig_histogram_add_seconds(&stats->first_token, job->stats.first_token_ms);
}

/* Samples from the outputs of a reply: one token, and one more for each draft token that was
 * right. */
static ig_status sample(ig_engine *e, ig_reply *r, float *logits) {
    bool finished = false;
    int64_t accepted = 0;
    for (int64_t i = 0;; i++) {
        const double before = r->n_generated > 0 ? r->job->last_token_ms : 0;
        IG_TRY(ig_reply_next(r, &e->rules, logits + i * e->rules.vocabulary, &finished));
        note_token(e, r, before);
        const int32_t id = r->tokens.at[r->tokens.count - 1];
        if (finished || i >= r->n_draft || r->draft[i] != id) break;
        accepted++;
    }
    ig_job *job = r->job;
    pthread_mutex_lock(&job->lock);
    job->stats.n_drafted += r->n_draft;
    job->stats.n_accepted += accepted;
    pthread_mutex_unlock(&job->lock);
    e->counts.stats.n_drafted += (uint64_t)r->n_draft;
    e->counts.stats.n_accepted += (uint64_t)accepted;
    const int64_t length = ig_session_length(e->session, r->slot);
    if (accepted < r->n_draft)
        IG_TRY(ig_session_truncate(e->session, r->slot, length - (r->n_draft - accepted)));
    return IG_OK;
}

/* What a reply gets from the step. */
static ig_status take_outputs(ig_engine *e, ig_reply *r) {
    const int64_t before = ig_session_length(e->session, r->slot) - r->n_step_tokens;
    float *logits = e->logits + r->first_output * e->rules.vocabulary;
    emit_prompt(e, r, before);
    emit_progress(e, r);
    if (left_of(e, r) > 0) return r->job->failure;
    if (has_all_outputs(r)) logits += ((int64_t)r->tokens.count - 1 - before) * e->rules.vocabulary;
    IG_TRY(finish_prompt(e, r, logits));
    if (r->job->request.prefill_only) {
        ig_reply_finish(r, IG_FINISH_LENGTH);
        return r->job->failure;
    }
    return sample(e, r, logits);
}

static void settle(ig_engine *e, ig_reply *r, ig_status status) {
    r->n_step_tokens = r->n_draft = 0;
    e->n_claimed -= r->claimed_pages;
    r->claimed_pages = 0;
    if (status != IG_OK)
        ig_scheduler_end_job(e, r->job, status);
    else if (r->is_finished)
        ig_scheduler_leave(e, r);
}

/* A run that failed is repeated reply by reply, so that only those fail that must. */
static void run_one_by_one(ig_engine *e) {
    for (int64_t i = 0; i < e->n_slots; i++) {
        ig_reply *r = e->slots[i];
        step alone = {0};
        if (!r || r->n_step_tokens == 0) continue;
        add_tokens(e, &alone, r);
        ig_status status = ig_session_run(e->session, e->tokens, alone.n_tokens);
        if (status == IG_OK) status = take_outputs(e, r);
        settle(e, r, status);
    }
}

static void run_together(ig_engine *e) {
    for (int64_t i = 0; i < e->n_slots; i++) {
        ig_reply *r = e->slots[i];
        if (r && r->n_step_tokens > 0) settle(e, r, take_outputs(e, r));
    }
}

/* Choices that share the prompt of the first: their first token needs no run. */
static void start_choices(ig_engine *e) {
    for (int64_t i = 0; i < e->n_slots; i++) {
        ig_reply *r = e->slots[i];
        if (!r || left_of(e, r) > 0) continue;
        memcpy(e->logits, r->job->prompt_logits, (size_t)e->rules.vocabulary * sizeof *e->logits);
        r->n_draft = 0;
        settle(e, r, sample(e, r, e->logits));
    }
}

static void count_step(ig_engine *e, const step *s, double ms) {
    ig_engine_stats *stats = &e->counts.stats;
    const ig_step_kind kind = s->n_prompt == 0   ? IG_STEP_DECODE
                              : s->n_decode == 0 ? IG_STEP_PREFILL
                                                 : IG_STEP_MIXED;
    stats->n_steps[kind]++;
    stats->n_decode_sequences += (uint64_t)s->n_decoding;
    ig_histogram_add_seconds(&stats->step[kind], ms);
    ig_histogram_add_tokens(&stats->step_tokens[kind], s->n_tokens);
}

bool ig_step_run(ig_engine *e) {
    const uint64_t began = ig_clock_ns();
    step s = {0};
    if (e->n_running == 0) return false;
    start_choices(e);
    plan_decode(e, &s);
    plan_prompts(e, &s);
    write_tokens(e, &s);
    if (s.n_tokens == 0) return e->n_running > 0;
    const uint64_t running = ig_clock_ns();
    const ig_status status = ig_session_run(e->session, e->tokens, s.n_tokens);
    const uint64_t ran = ig_clock_ns();
    if (status == IG_OK)
        run_together(e);
    else
        run_one_by_one(e);
    if (status == IG_OK)
        ig_step_costs_learn(&e->costs, s.n_decode, s.n_prompt, (double)(ran - running) * 1e-6);
    const uint64_t ended = ig_clock_ns();
    count_step(e, &s, (double)(ended - began) * 1e-6);
    e->counts.stats.step_ns += ended - began;
    e->counts.stats.scheduling_ns += (ended - began) - (ran - running);
    return true;
}
