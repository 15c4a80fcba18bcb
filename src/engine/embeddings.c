/*
 * Embeddings: one at a time in a session of their own, beside the replies that are generated.
 *
 * A text of a causal model is run in pieces, so that no reply waits longer than a step for it; an
 * encoder runs a text at once.  A vector depends on its text alone.
 */
#include "base/clock.h"
#include "engine/scheduler.h"
#include "model/adapter.h"

ig_status ig_embeddings_prepare(ig_engine *e) {
    if (e->embedder) return IG_OK;
    const ig_engine_options *o = &e->options;
    const ig_session_options options = {.ctx_len = e->session ? e->rules.ctx_len : o->ctx_len,
                                        .ubatch = o->ubatch,
                                        .cache_type_k = o->cache_type_k,
                                        .cache_type_v = o->cache_type_v,
                                        .hidden = true};
    IG_TRY(ig_session_create(e->adapter, &options, &e->embedder));
    if (e->session) return IG_OK;
    e->rules.ctx_len = ig_session_ctx_len(e->embedder);
    e->ubatch = ig_session_ubatch(e->embedder);
    return IG_OK;
}

void ig_embeddings_drop(ig_engine *e) {
    ig_embedder_destroy(e->embedding);
    e->embedding = NULL;
    e->embedding_reply = NULL;
}

static void note_started(ig_engine *e, ig_job *job) {
    const double waited = ig_clock_ms() - job->submitted_ms;
    job->is_started = true;
    atomic_fetch_sub(&e->n_queued, 1);
    atomic_fetch_add(&e->n_started, 1);
    pthread_mutex_lock(&job->lock);
    job->stats.queue_ms = waited;
    pthread_mutex_unlock(&job->lock);
    ig_histogram_add_seconds(&e->counts.stats.queue, waited);
    e->counts.stats.n_prompt_tokens += job->request.n_tokens;
    ig_histogram_add_tokens(&e->counts.stats.prompt_tokens, (int64_t)job->request.n_tokens);
}

static ig_status start(ig_engine *e, ig_reply *r) {
    const ig_request *q = &r->job->request;
    ig_waiting_remove(e, r);
    ig_waiting_note_served(e, r);
    note_started(e, r->job);
    e->embedding_reply = r;
    IG_TRY(ig_embeddings_prepare(e));
    return ig_embedder_create(e->embedder, q->tokens, q->n_tokens, q->pooling, &e->embedding);
}

static ig_status finish(ig_engine *e, ig_reply *r) {
    ig_job *job = r->job;
    const int64_t d = e->embedder->config.d_model;
    float *vector = ig_alloc(&e->allocator, (size_t)d, sizeof *vector);
    if (!vector) return IG_FAIL(IG_ERR_MEMORY, "engine: an embedding");
    ig_embedder_read(e->embedding, vector);
    ig_job_emit(job, &(ig_job_event){.type = IG_JOB_EVENT_EMBEDDING,
                                     .choice = r->choice,
                                     .embedding = vector,
                                     .d_model = d});
    ig_free(&e->allocator, vector);
    job->is_prefilled = true;
    r->finish = IG_FINISH_STOP;
    return job->failure;
}

/* Runs pieces until the text is through or the time is over. */
static ig_status advance(ig_engine *e, double until_ms, bool *out_done) {
    const int64_t piece = e->n_running > 0 ? 32 : e->ubatch;
    do IG_TRY(ig_embedder_advance(e->embedding, piece, out_done));
    while (!*out_done && ig_clock_ms() < until_ms);
    return IG_OK;
}

/* One text, or a part of it. */
static void run_text(ig_engine *e, double until_ms) {
    bool done = false;
    ig_status status = IG_OK;
    if (!e->embedding_reply) status = start(e, ig_waiting_next(e, true));
    ig_reply *r = e->embedding_reply;
    if (status == IG_OK) status = advance(e, until_ms, &done);
    if (status == IG_OK && done) status = finish(e, r);
    if (status != IG_OK)
        ig_scheduler_end_job(e, r->job, status);
    else if (done)
        ig_scheduler_leave(e, r);
}

bool ig_embeddings_run(ig_engine *e) {
    const double share = e->n_running > 0 ? 0.5 : 1; /* of a step: the replies take the rest */
    const double until_ms = ig_clock_ms() + e->options.step_ms * share;
    bool any = false;
    while ((e->embedding_reply || ig_waiting_next(e, true)) && (!any || ig_clock_ms() < until_ms)) {
        run_text(e, until_ms);
        any = true;
    }
    return any;
}
