#include "engine/scheduler.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { TICK_MS = 500 }; /* an idle scheduler looks around as often */

void ig_engine_say(const ig_engine *e, ig_log_level level, const char *format, ...) {
    char text[512];
    va_list args;
    if (!e->options.log) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    e->options.log(e->options.user, level, text);
}

/* ---- jobs ---- */

static void link_job(ig_engine *e, ig_job *job) {
    job->next = e->jobs;
    job->previous = NULL;
    if (job->next) job->next->previous = job;
    e->jobs = job;
}

static void unlink_job(ig_engine *e, ig_job *job) {
    if (job->next) job->next->previous = job->previous;
    *(job->previous ? &job->previous->next : &e->jobs) = job->next;
}

ig_job_state ig_scheduler_state(const ig_engine *e, const ig_job *job) {
    (void)e;
    if (!job->is_started) return IG_JOB_WAITING;
    return job->is_prefilled ? IG_JOB_DECODE : IG_JOB_PREFILL;
}

static void free_reply(ig_engine *e, ig_reply *r) {
    if (r->is_waiting) ig_waiting_remove(e, r);
    ig_slots_vacate(e, r);
    if (e->embedding_reply == r) ig_embeddings_drop(e);
    r->job->replies[r->choice] = NULL;
    ig_reply_destroy(r);
}

static void count_end(ig_engine *e, const ig_job *job, ig_status status) {
    ig_engine_stats *stats = &e->counts.stats;
    const double now = ig_clock_ms();
    if (status != IG_OK) stats->n_failed++;
    if (job->is_started && job->first_token_ms > 0) {
        ig_histogram_add_seconds(&stats->prefill, job->stats.prefill_ms);
        ig_histogram_add_seconds(&stats->decode, job->stats.decode_ms);
    }
    ig_histogram_add_seconds(&stats->request, now - job->submitted_ms);
    ig_histogram_add_tokens(&stats->generated_tokens, job->stats.n_generated);
}

void ig_scheduler_end_job(ig_engine *e, ig_job *job, ig_status status) {
    for (int i = 0; i < job->request.n_choices; i++)
        if (job->replies[i]) free_reply(e, job->replies[i]);
    if (e->session) ig_slots_drop_prompt(e, job);
    atomic_fetch_sub(job->is_started ? &e->n_started : &e->n_queued, 1);
    unlink_job(e, job);
    count_end(e, job, status);
    if (status != IG_OK)
        ig_engine_say(e, IG_LOG_WARNING, "request %llu: failed: %s",
                      (unsigned long long)job->stats.id, ig_error_text());
    ig_job_emit_done(job, status);
    ig_job_notify(job);
    ig_job_unref(job);
}

void ig_scheduler_leave(ig_engine *e, ig_reply *r) {
    ig_job *job = r->job;
    e->counts.stats.n_finished[r->finish]++;
    free_reply(e, r);
    if (--job->n_open == 0) ig_scheduler_end_job(e, job, IG_OK);
}

/* Ends a job that its caller has given up, or whose time is over: each reply with what it has. */
static void cancel_job(ig_engine *e, ig_job *job) {
    e->counts.stats.n_cancelled[ig_scheduler_state(e, job)]++;
    for (int i = 0; i < job->request.n_choices; i++) {
        if (!job->replies[i]) continue;
        ig_reply_finish(job->replies[i], IG_FINISH_CANCELLED);
        e->counts.stats.n_finished[IG_FINISH_CANCELLED]++;
    }
    ig_scheduler_end_job(e, job, job->failure);
}

static bool is_over(double since_ms, double limit_ms, double now) {
    return limit_ms > 0 && now - since_ms > limit_ms;
}

static void end_cancelled(ig_engine *e) {
    const double now = ig_clock_ms();
    for (ig_job *job = e->jobs, *next; job; job = next) {
        next = job->next;
        if (atomic_load(&job->cancelled) ||
            is_over(job->submitted_ms, job->request.timeout_ms, now))
            cancel_job(e, job);
    }
}

/* After admission: what could start does not time out. */
static void end_queue_timeouts(ig_engine *e) {
    const double now = ig_clock_ms();
    for (ig_job *job = e->jobs, *next; job; job = next) {
        next = job->next;
        if (job->is_started || !is_over(job->submitted_ms, e->options.queue_timeout_ms, now))
            continue;
        e->counts.stats.n_queue_timeouts++;
        ig_scheduler_end_job(e, job,
                             IG_FAIL(IG_ERR_BUSY, "engine: the request has waited %.1f s",
                                     (now - job->submitted_ms) * 1e-3));
    }
}

/* ---- the inbox ---- */

static ig_status make_replies(ig_engine *e, ig_job *job) {
    for (int i = 0; i < job->request.n_choices; i++) {
        IG_TRY(ig_reply_create(job, i, &job->replies[i]));
        job->replies[i]->arrival = ++e->n_arrivals;
    }
    return IG_OK;
}

static void take_job(ig_engine *e, ig_job *job) {
    link_job(e, job);
    job->n_open = job->request.n_choices;
    const ig_status status = make_replies(e, job);
    if (status != IG_OK) {
        ig_scheduler_end_job(e, job, status);
        return;
    }
    for (int i = 0; i < job->request.n_choices; i++) ig_waiting_add(e, job->replies[i]);
}

static void take_inbox(ig_engine *e) {
    pthread_mutex_lock(&e->lock);
    ig_job *job = e->inbox, *oldest = NULL;
    e->inbox = NULL;
    pthread_mutex_unlock(&e->lock);
    while (job) { /* newest first: reverse */
        ig_job *next = job->next;
        job->next = oldest;
        oldest = job;
        job = next;
    }
    while (oldest) {
        ig_job *next = oldest->next;
        take_job(e, oldest);
        oldest = next;
    }
}

/* ---- statistics ---- */

static void note_slots(ig_engine *e) {
    const double now = ig_clock_ms();
    for (int64_t i = 0; i < e->n_slots; i++) {
        const ig_reply *r = e->slots[i];
        if (!r) continue;
        e->counts.slots[i] = (ig_engine_slot){
            .job = r->job->stats.id,
            .choice = r->choice,
            .state = ig_scheduler_state(e, r->job),
            .n_prompt_tokens = r->n_prompt,
            .n_processed = ig_session_length(e->session, r->slot),
            .n_generated = r->n_generated,
            .running_ms = now - r->admitted_ms,
        };
    }
}

static void publish(ig_engine *e) {
    ig_engine_stats *stats = &e->counts.stats;
    stats->n_waiting = stats->n_waiting_preempted = 0;
    for (const ig_reply *r = e->waiting; r; r = r->next_waiting) {
        stats->n_waiting++;
        stats->n_waiting_preempted += r->n_preempted > 0;
    }
    stats->n_running = e->n_running + (e->embedding_reply != NULL);
    if (e->session) {
        stats->n_pages = e->session->pages.n_pages;
        stats->n_free_pages = e->session->pages.n_free;
        note_slots(e);
    }
    if (e->prefix_cache) {
        stats->n_cached_pages = ig_prefix_cache_idle_pages(e->prefix_cache);
        stats->n_evicted_pages = ig_prefix_cache_evicted(e->prefix_cache);
    }
    ig_counts_publish(&e->counts);
}

/* ---- calls ---- */

static void do_work(ig_engine *e) {
    for (;;) {
        pthread_mutex_lock(&e->lock);
        ig_engine_work *work = e->work;
        if (work) e->work = work->next;
        pthread_mutex_unlock(&e->lock);
        if (!work) return;
        work->status = work->call(e->adapter, work->user);
        publish(e);
        snprintf(work->error, sizeof work->error, "%s",
                 work->status == IG_OK ? "" : ig_error_text());
        pthread_mutex_lock(&e->lock);
        work->is_done = true;
        pthread_cond_broadcast(&e->called);
        pthread_mutex_unlock(&e->lock);
    }
}

/* ---- the thread ---- */

static bool is_stopping(ig_engine *e) {
    pthread_mutex_lock(&e->lock);
    const bool stopping = e->is_stopping;
    pthread_mutex_unlock(&e->lock);
    return stopping;
}

static void wait_for_news(ig_engine *e) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t ns = until.tv_nsec + TICK_MS * 1000000LL;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&e->lock);
    if (!e->inbox && !e->work && !e->is_stopping)
        pthread_cond_timedwait(&e->wake, &e->lock, &until);
    pthread_mutex_unlock(&e->lock);
}

/* Tells those that wait how many are ahead. */
static void emit_positions(ig_engine *e) {
    if (!e->has_queue_changed) return;
    e->has_queue_changed = false;
    for (const ig_reply *r = e->waiting; r; r = r->next_waiting) {
        ig_job *job = r->job;
        const int64_t position = ig_waiting_position(e, r);
        if (job->is_started || r->choice > 0 || position == job->position) continue;
        job->position = position;
        ig_job_emit(job, &(ig_job_event){.type = IG_JOB_EVENT_PROGRESS,
                                         .total = r->n_prompt,
                                         .position = position});
    }
}

static void notify_jobs(ig_engine *e) {
    for (ig_job *job = e->jobs; job; job = job->next) ig_job_notify(job);
}

void *ig_scheduler_run(void *engine) {
    ig_engine *e = engine;
    while (!is_stopping(e)) {
        take_inbox(e);
        do_work(e);
        end_cancelled(e);
        ig_slots_admit(e);
        end_queue_timeouts(e);
        emit_positions(e);
        const bool embedded = ig_embeddings_run(e);
        const bool ran = ig_step_run(e);
        publish(e); /* first, so that who is notified finds its tokens counted */
        notify_jobs(e);
        if (!embedded && !ran) wait_for_news(e);
    }
    take_inbox(e);
    while (e->jobs) cancel_job(e, e->jobs);
    do_work(e);
    publish(e);
    return NULL;
}
