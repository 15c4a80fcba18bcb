/*
 * job.h - a request, its events on their way to the caller, and what it has taken so far.
 *
 * Shared by the scheduler thread, which emits events, and the caller, who takes them.
 */
#ifndef IG_ENGINE_JOB_H
#define IG_ENGINE_JOB_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "engine/prefix_cache.h"
#include "ingot/engine.h"

typedef struct ig_job_node ig_job_node; /* an event in the queue */
typedef struct ig_reply ig_reply;

struct ig_job {
    atomic_int refs;        /* the engine's and the caller's */
    ig_allocator allocator; /* a copy: a job may outlive the context */
    ig_request request;     /* with copies of all it points to, but no salt: */
    ig_salt_digest salt;
    double submitted_ms;
    atomic_bool cancelled;

    pthread_mutex_t lock; /* of these */
    pthread_cond_t arrived;
    ig_job_node *first, *last, *current; /* `current` is lent to the caller */
    ig_job_stats stats;
    bool is_done; /* DONE was emitted */

    pthread_mutex_t notify_lock; /* of request.notify, which release() clears */

    /* Of the scheduler thread alone. */
    ig_job *next, *previous; /* jobs that have not ended */
    ig_reply **replies;      /* [n_choices] */
    int n_open;              /* replies that have not finished */
    int64_t position;        /* in the queue, as last emitted; -1: not yet */
    bool is_started, is_prefilled, has_news, has_embedding;
    ig_status failure; /* an event was lost */
    int32_t *pages;    /* of the prompt, held for choices that have not started */
    int64_t n_pages;
    float *prompt_logits; /* [vocabulary], for the same */
    double first_token_ms, last_token_ms;
    ig_job_node *done; /* DONE, made in advance */
    char error[512];
};

/* Copies the request. */
IG_MUST_CHECK ig_status ig_job_create(const ig_allocator *a, const ig_request *request,
                                      ig_job **out);
void ig_job_retain(ig_job *job);
void ig_job_unref(ig_job *job);

/* Adds an event with copies of its text, top and embedding.  Out of memory: sets job->failure. */
void ig_job_emit(ig_job *job, const ig_job_event *event);
/* The last event: the message is ig_error_text()'s. */
void ig_job_emit_done(ig_job *job, ig_status status);
/* Calls notify() if there are new events. */
void ig_job_notify(ig_job *job);

#endif
