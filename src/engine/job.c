#include "engine/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

struct ig_job_node {
    ig_job_node *next;
    ig_job_event event;
    max_align_t room[]; /* embedding or top, then text */
};

/* ---- copies of a request ---- */

static bool copy(const ig_allocator *a, const void *from, size_t count, size_t each, void *out) {
    void *to = NULL;
    if (count > 0 && !(to = ig_alloc(a, count, each))) return false;
    if (to) memcpy(to, from, count * each);
    memcpy(out, &to, sizeof to);
    return true;
}

static bool copy_stops(const ig_allocator *a, const ig_request *from, ig_request *to) {
    char **stops = ig_alloc(a, from->n_stop ? from->n_stop : 1, sizeof *stops);
    to->stop = (const char *const *)stops;
    for (size_t i = 0; stops && i < from->n_stop; i++) {
        if (!(stops[i] = ig_copy_text(a, from->stop[i]))) return false;
        to->n_stop = i + 1;
    }
    return stops != NULL;
}

/* What the copy does not own yet is NULL, so free_request() takes it at any time. */
static bool copy_request(const ig_allocator *a, const ig_request *from, ig_request *to) {
    *to = *from;
    to->tokens = to->stop_tokens = NULL;
    to->sampling.biases = NULL;
    to->salt = NULL;
    to->stop = NULL;
    to->n_stop = 0;
    if (to->n_choices == 0) to->n_choices = 1;
    return copy(a, from->tokens, from->n_tokens, sizeof *from->tokens, (void *)&to->tokens) &&
           copy(a, from->stop_tokens, from->n_stop_tokens, sizeof *from->stop_tokens,
                (void *)&to->stop_tokens) &&
           copy(a, from->sampling.biases, from->sampling.n_biases, sizeof *from->sampling.biases,
                (void *)&to->sampling.biases) &&
           copy_stops(a, from, to);
}

static void free_request(const ig_allocator *a, ig_request *r) {
    for (size_t i = 0; r->stop && i < r->n_stop; i++) ig_free(a, (void *)r->stop[i]);
    ig_free(a, (void *)r->stop);
    ig_free(a, (void *)r->sampling.biases);
    ig_free(a, (void *)r->stop_tokens);
    ig_free(a, (void *)r->tokens);
}

/* ---- life ---- */

static void init_locks(ig_job *job) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&job->lock, NULL);
    pthread_mutex_init(&job->notify_lock, NULL);
    pthread_cond_init(&job->arrived, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void free_job(ig_job *job) {
    const ig_allocator a = job->allocator;
    for (ig_job_node *n = job->first, *next; n; n = next) {
        next = n->next;
        if (n != job->done) ig_free(&a, n);
    }
    if (job->current != job->done) ig_free(&a, job->current);
    ig_free(&a, job->done);
    ig_free(&a, job->replies);
    ig_free(&a, job->pages);
    ig_free(&a, job->prompt_logits);
    free_request(&a, &job->request);
    pthread_mutex_destroy(&job->lock);
    pthread_mutex_destroy(&job->notify_lock);
    pthread_cond_destroy(&job->arrived);
    ig_free(&a, job);
}

ig_status ig_job_create(const ig_allocator *a, const ig_request *request, ig_job **out) {
    ig_job *job = ig_alloc(a, 1, sizeof *job);
    if (!job) return IG_FAIL(IG_ERR_MEMORY, "engine: a job");
    job->allocator = *a;
    job->stats.n_prompt_tokens = (int64_t)request->n_tokens;
    job->submitted_ms = ig_clock_ms();
    job->position = -1;
    job->salt = ig_salt_digest_of(request->salt, request->salt_bytes);
    atomic_init(&job->refs, 1);
    init_locks(job);
    const bool copied = copy_request(a, request, &job->request);
    job->done = ig_alloc(a, 1, sizeof *job->done);
    if (copied) job->replies = ig_alloc(a, (size_t)job->request.n_choices, sizeof *job->replies);
    if (!copied || !job->done || !job->replies) {
        free_job(job);
        return IG_FAIL(IG_ERR_MEMORY, "engine: a job of %zu tokens", request->n_tokens);
    }
    *out = job;
    return IG_OK;
}

void ig_job_retain(ig_job *job) { atomic_fetch_add(&job->refs, 1); }

void ig_job_unref(ig_job *job) {
    if (job && atomic_fetch_sub(&job->refs, 1) == 1) free_job(job);
}

/* ---- emitting ---- */

static void append(ig_job *job, ig_job_node *node) {
    pthread_mutex_lock(&job->lock);
    if (job->last)
        job->last->next = node;
    else
        job->first = node;
    job->last = node;
    pthread_cond_broadcast(&job->arrived);
    pthread_mutex_unlock(&job->lock);
    job->has_news = true;
}

/* Progress that was not taken yet is replaced, so a slow reader does not collect it. */
static bool replace_progress(ig_job *job, const ig_job_event *event) {
    pthread_mutex_lock(&job->lock);
    const bool replaces = event->type == IG_JOB_EVENT_PROGRESS && job->last &&
                          job->last->event.type == IG_JOB_EVENT_PROGRESS;
    if (replaces) job->last->event = *event;
    pthread_mutex_unlock(&job->lock);
    return replaces;
}

/* Copies bytes to the end of a node's room. */
static const void *put(char **at, const void *bytes, size_t n_bytes) {
    char *to = *at;
    if (n_bytes > 0) memcpy(to, bytes, n_bytes);
    *at += n_bytes;
    return to;
}

void ig_job_emit(ig_job *job, const ig_job_event *event) {
    if (replace_progress(job, event)) return;
    const size_t top = event->n_top * sizeof *event->top;
    const size_t embedding = (size_t)event->d_model * sizeof *event->embedding;
    ig_job_node *node =
        ig_alloc(&job->allocator, 1, sizeof *node + top + embedding + event->text.n_bytes);
    if (!node) {
        job->failure = IG_FAIL(IG_ERR_MEMORY, "engine: no memory for an event");
        return;
    }
    char *at = (char *)node->room;
    node->event = *event;
    node->event.top = put(&at, event->top, top);
    node->event.embedding = put(&at, event->embedding, embedding);
    node->event.text.bytes = put(&at, event->text.bytes, event->text.n_bytes);
    append(job, node);
}

void ig_job_emit_done(ig_job *job, ig_status status) {
    snprintf(job->error, sizeof job->error, "%s", status == IG_OK ? "" : ig_error_text());
    job->done->event =
        (ig_job_event){.type = IG_JOB_EVENT_DONE, .status = status, .error = job->error};
    append(job, job->done);
    pthread_mutex_lock(&job->lock);
    job->is_done = true;
    pthread_mutex_unlock(&job->lock);
}

void ig_job_notify(ig_job *job) {
    if (!job->has_news) return;
    job->has_news = false;
    pthread_mutex_lock(&job->notify_lock);
    if (job->request.notify) job->request.notify(job->request.user);
    pthread_mutex_unlock(&job->notify_lock);
}

/* ---- the caller's side ---- */

bool ig_job_poll(ig_job *job, ig_job_event *out) {
    pthread_mutex_lock(&job->lock);
    ig_job_node *node = job->first, *before = job->current;
    if (node) {
        job->first = node->next;
        if (!job->first) job->last = NULL;
        job->current = node;
        *out = node->event;
    }
    pthread_mutex_unlock(&job->lock);
    if (node && before != job->done) ig_free(&job->allocator, before);
    return node != NULL;
}

static struct timespec deadline_of(double timeout_ms) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    const double most_ms = 1e12; /* 30 years */
    const double ms = timeout_ms < most_ms ? timeout_ms : most_ms;
    const int64_t ns = at.tv_nsec + (int64_t)(ms * 1e6) % 1000000000;
    at.tv_sec += (time_t)(ms / 1e3) + ns / 1000000000;
    at.tv_nsec = ns % 1000000000;
    return at;
}

bool ig_job_wait(ig_job *job, double timeout_ms) {
    const struct timespec deadline = deadline_of(timeout_ms > 0 ? timeout_ms : 0);
    int error = 0;
    pthread_mutex_lock(&job->lock);
    while (!job->first && error != ETIMEDOUT && !(job->is_done && timeout_ms < 0))
        error = timeout_ms < 0 ? pthread_cond_wait(&job->arrived, &job->lock)
                               : pthread_cond_timedwait(&job->arrived, &job->lock, &deadline);
    const bool has = job->first != NULL;
    pthread_mutex_unlock(&job->lock);
    return has;
}

ig_job_stats ig_job_get_stats(const ig_job *job) {
    ig_job *locked = (ig_job *)job;
    pthread_mutex_lock(&locked->lock);
    const ig_job_stats stats = job->stats;
    pthread_mutex_unlock(&locked->lock);
    return stats;
}

/* The scheduler looks at the flag before its next step. */
void ig_job_cancel(ig_job *job) { atomic_store(&job->cancelled, true); }

void ig_job_release(ig_job *job) {
    if (!job) return;
    ig_job_cancel(job);
    pthread_mutex_lock(&job->notify_lock);
    job->request.notify = NULL;
    pthread_mutex_unlock(&job->notify_lock);
    ig_job_unref(job);
}
