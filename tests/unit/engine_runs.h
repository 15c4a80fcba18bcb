/*
 * engine_runs.h - a small model with random weights, an engine for it, and replies as they come.
 */
#ifndef TEST_ENGINE_RUNS_H
#define TEST_ENGINE_RUNS_H

#include <stdio.h>

#include "ingot/engine.h"
#include "unit/check.h"

enum { CONTEXT = 512, VOCABULARY = 256, TEXT = 4096 };

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != IG_OK) fail_msg("%s: %s", #call, ig_error_text()); \
    } while (0)

/* ---- a small model with random weights ---- */

typedef struct fixture {
    ig_ctx *ctx;
    ig_adapter *adapter;
    ig_engine *engine;
} fixture;

static inline ig_status try_open_model(fixture *f, const ig_ctx_options *options) {
    const ig_model_config config = {
        .d_model = 64, .n_layers = 2, .n_heads = 4, .d_ff = 128, .ctx_len = CONTEXT};
    IG_TRY(ig_ctx_create(options, &f->ctx));
    IG_TRY(ig_adapter_create(f->ctx, "gpt", &config, &f->adapter));
    return ig_adapter_freeze(f->adapter);
}

static inline void open_model(fixture *f, int threads) {
    OK(try_open_model(f, &(ig_ctx_options){.device = "cpu", .threads = threads, .seed = 7}));
}

static inline fixture open_engine(const ig_engine_options *options) {
    fixture f = {0};
    open_model(&f, 2);
    OK(ig_engine_create(f.adapter, options, &f.engine));
    return f;
}

static inline void close_engine(fixture *f) {
    ig_engine_destroy(f->engine);
    ig_adapter_destroy(f->adapter);
    ig_ctx_destroy(f->ctx);
}

/* A prompt of n tokens, of which the first `shared` are equal for all seeds. */
static inline void make_prompt(int32_t *out, size_t n, size_t shared, unsigned seed) {
    for (size_t i = 0; i < n; i++) {
        const unsigned own = i < shared ? 1 : seed + 2;
        out[i] = (int32_t)((i * 31 + own * 17 + i * i * own) % 96 + 32);
    }
}

/* ---- a reply ---- */

typedef struct reply {
    char text[TEXT];
    size_t n_text;
    int64_t n_tokens; /* of TOKEN events */
    int32_t tokens[CONTEXT];
    double logprobs[CONTEXT];
    ig_finish finish;
    const char *stop;
    bool is_finished;
} reply;

typedef struct result {
    reply choice[4];
    int64_t n_prompt; /* of PROMPT events */
    double prompt_logprobs[CONTEXT];
    float embedding[64];
    int64_t n_embedding, processed, total;
    ig_status status;
    char error[256];
    ig_job_stats stats;
} result;

static inline void append(reply *r, ig_string_view text) {
    assert_true(r->n_text + text.n_bytes < TEXT);
    if (text.n_bytes > 0) memcpy(r->text + r->n_text, text.bytes, text.n_bytes);
    r->n_text += text.n_bytes;
}

static inline void take(result *all, const ig_job_event *event) {
    reply *r = &all->choice[event->choice];
    switch (event->type) {
    case IG_JOB_EVENT_TOKEN:
        assert_false(r->is_finished);
        r->tokens[r->n_tokens] = event->token;
        r->logprobs[r->n_tokens++] = event->logprob;
        append(r, event->text);
        break;
    case IG_JOB_EVENT_FINISH:
        append(r, event->text);
        r->finish = event->finish;
        r->is_finished = true;
        break;
    case IG_JOB_EVENT_PROMPT: all->prompt_logprobs[all->n_prompt++] = event->logprob; break;
    case IG_JOB_EVENT_PROGRESS:
        all->processed = event->processed;
        all->total = event->total;
        break;
    case IG_JOB_EVENT_EMBEDDING:
        all->n_embedding = event->d_model;
        memcpy(all->embedding, event->embedding, (size_t)event->d_model * sizeof(float));
        break;
    case IG_JOB_EVENT_DONE:
        all->status = event->status;
        snprintf(all->error, sizeof all->error, "%s", event->error);
    }
}

/* Waits for the end of a job and releases it. */
static inline result collect(ig_job *job) {
    result all = {0};
    ig_job_event event = {.type = IG_JOB_EVENT_PROGRESS};
    while (event.type != IG_JOB_EVENT_DONE) {
        assert_true(ig_job_wait(job, -1));
        while (ig_job_poll(job, &event)) take(&all, &event);
    }
    all.stats = ig_job_get_stats(job);
    ig_job_release(job);
    return all;
}

static inline ig_job *submit(const fixture *f, const ig_request *request) {
    ig_job *job = NULL;
    OK(ig_engine_submit(f->engine, request, &job));
    return job;
}

static inline result ask(const fixture *f, const ig_request *request) {
    return collect(submit(f, request));
}

static inline ig_status do_nothing(ig_adapter *adapter, void *user) {
    (void)adapter, (void)user;
    return IG_OK;
}

/* Published after all that has ended. */
static inline ig_engine_stats stats_of(const fixture *f) {
    ig_engine_stats stats;
    OK(ig_engine_call(f->engine, do_nothing, NULL));
    ig_engine_get_stats(f->engine, &stats);
    return stats;
}

static inline void assert_same(const reply *got, const reply *want) {
    assert_int_equal(got->n_text, want->n_text);
    assert_memory_equal(got->text, want->text, want->n_text);
    assert_int_equal(got->n_tokens, want->n_tokens);
    assert_memory_equal(got->tokens, want->tokens, (size_t)want->n_tokens * sizeof(int32_t));
    assert_int_equal(got->finish, want->finish);
}

/* ---- what generate() makes of the same request ---- */

static inline bool append_text(void *user, const char *text, size_t bytes) {
    append(user, (ig_string_view){text, bytes});
    return true;
}

static inline reply generate(const fixture *f, const ig_request *q) {
    reply r = {0};
    ig_generated made;
    const ig_generate_options options = {.prompt_tokens = q->tokens,
                                         .n_prompt_tokens = q->n_tokens,
                                         .max_tokens = q->max_tokens,
                                         .sampling = q->sampling,
                                         .stop = q->stop,
                                         .n_stop = q->n_stop,
                                         .ignore_eos = q->ignore_eos,
                                         .draft_ngram = q->draft_ngram,
                                         .draft_max = q->draft_max,
                                         .emit = append_text,
                                         .user = &r};
    OK(ig_adapter_generate(f->adapter, &options, &made));
    r.finish = made.finish;
    return r;
}

#endif
