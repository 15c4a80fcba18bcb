/*
 * scheduler.h - the engine's scheduler thread: who runs, and what a step consists of.
 *
 *     submit() -> inbox -> waiting -> admitted: a slot, pages of the prefix cache
 *                             ^          |
 *                             |          v
 *                       preempted <-- running: each step runs its next tokens
 *                                        |
 *                                        v
 *                                    finished: its pages go to the prefix cache
 *
 * A reply's tokens are those of the prompt and those it has generated.  The session holds the first
 * of them, and the others are to be run: one while it decodes, more after it was admitted.  So a
 * prompt, a reply that was preempted and a decoding one are the same.
 */
#ifndef IG_ENGINE_SCHEDULER_H
#define IG_ENGINE_SCHEDULER_H

#include "engine/engine_stats.h"
#include "engine/prefix_cache.h"
#include "engine/reply.h"
#include "engine/step_costs.h"
#include "model/embed.h"

enum { IG_ENGINE_PARTIES = 256 };

/* Work for the scheduler thread: ig_engine_call(). */
typedef struct ig_engine_work {
    struct ig_engine_work *next;
    ig_status (*call)(ig_adapter *adapter, void *user);
    void *user;
    ig_status status;
    char error[512];
    bool is_done;
} ig_engine_work;

/* The text that ran in a slot last: its tokens are still those of the session's sequence. */
typedef struct ig_slot_text {
    int64_t n_tokens; /* 0: none */
    ig_salt_digest salt;
} ig_slot_text;

struct ig_engine {
    ig_adapter *adapter; /* borrowed */
    ig_ctx *ctx;
    ig_allocator allocator;
    ig_engine_options options; /* resolved; no strings */
    ig_session *session;       /* NULL: an encoder */
    ig_session *embedder;      /* created by the first embedding */
    char *cache_file, *cache_type_k, *cache_type_v;
    uint64_t identity; /* of the prefix cache's file */
    ig_reply_rules rules;
    int64_t ubatch, n_slots;

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* of these */
    pthread_cond_t wake;  /* of the scheduler thread */
    pthread_cond_t called;
    ig_job *inbox; /* newest first */
    ig_engine_work *work;
    bool is_stopping;
    uint64_t n_jobs;      /* ids so far */
    atomic_int n_queued;  /* jobs of which no reply has started */
    atomic_int n_started; /* the others that have not ended */

    /* Of the scheduler thread. */
    ig_job *jobs;               /* that have not ended */
    ig_reply *waiting, **slots; /* slots [n_slots] */
    ig_slot_text *texts;        /* [n_slots], of slots that are idle */
    int64_t n_running;
    bool has_queue_changed;        /* since positions were emitted */
    bool is_batch_closed;          /* static batching: the batch has started */
    ig_prefix_cache *prefix_cache; /* NULL: none */
    struct {
        uint64_t party, served;
    } parties[IG_ENGINE_PARTIES];
    uint64_t n_served, n_arrivals;
    ig_session_token *tokens; /* [ubatch] of a step */
    float *logits;            /* [n_outputs, vocabulary] */
    int64_t n_outputs;
    int32_t n_claimed; /* pages that the step will take */
    ig_step_costs costs;
    ig_reply *embedding_reply; /* the embedding that is being computed */
    ig_embedder *embedding;
    ig_engine_counts counts;
};

/* ---- scheduler.c ---- */
void *ig_scheduler_run(void *engine); /* the thread */
void ig_engine_say(const ig_engine *e, ig_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends a job: frees its replies and emits DONE. */
void ig_scheduler_end_job(ig_engine *e, ig_job *job, ig_status status);
/* Takes a finished reply out of its slot; the job ends with its last reply. */
void ig_scheduler_leave(ig_engine *e, ig_reply *r);
/* The state a job is in, for statistics. */
ig_job_state ig_scheduler_state(const ig_engine *e, const ig_job *job);

/* ---- waiting.c: the queue ---- */
void ig_waiting_add(ig_engine *e, ig_reply *r);
void ig_waiting_remove(ig_engine *e, ig_reply *r);
/* The reply that is next: by priority, then parties in turn, then by arrival.  NULL: none. */
ig_reply *ig_waiting_next(const ig_engine *e, bool embedding);
/* Requests ahead of it, if all were of one party. */
int64_t ig_waiting_position(const ig_engine *e, const ig_reply *r);
void ig_waiting_note_served(ig_engine *e, const ig_reply *r);

/* ---- admission.c: admission, preemption, pages ---- */
/* Fills free slots from the queue. */
void ig_slots_admit(ig_engine *e);
/* Takes a reply out of its slot; its pages go to the prefix cache. */
void ig_slots_vacate(ig_engine *e, ig_reply *r);
/* Makes sure that the pages for `count` more tokens of a running reply are free in this step:
 * evicts, then preempts others.  False: the reply itself was preempted, or failed and is gone. */
bool ig_slots_claim(ig_engine *e, ig_reply *r, int64_t count);
void ig_slots_drop_prompt(ig_engine *e, ig_job *job); /* its held pages */

/* ---- step.c ---- */
enum {
    IG_STEP_DRAFT_ROOM =
        8, /* tokens that cost little more than one: drafts fill a step up to these */
    IG_STEP_PROMPT_LOGPROBS = 16, /* prompt tokens with log-probabilities in a step, at most */
};
/* Runs one step; false: there was nothing to run. */
bool ig_step_run(ig_engine *e);

/* ---- embeddings.c ---- */
IG_MUST_CHECK ig_status ig_embeddings_prepare(ig_engine *e); /* creates the session */
/* Computes embeddings for about step_ms; false: there is none to compute. */
bool ig_embeddings_run(ig_engine *e);
void ig_embeddings_drop(ig_engine *e); /* the one that is being computed */

#endif
