/*
 * engine.h - serves many requests with one model: continuous batching.
 *
 *     ig_engine_create(adapter, NULL, &engine)
 *     ig_engine_submit(engine, &(ig_request){.tokens = ids, .n_tokens = n, .max_tokens = 64}, &job)
 *     while (ig_job_wait(job, -1), ig_job_poll(job, &event)) ... event.text ... until
 * IG_JOB_EVENT_DONE ig_job_release(job) ig_engine_destroy(engine)
 *
 * A scheduler thread runs one session.  Every step runs the next token of each running sequence,
 * with drafts where there is room, and as many prompt tokens as fit the time that a step may take.
 * Sequences join and leave between two steps.
 *
 * A reply has the bits that an idle engine would give: batches, chunk sizes, cache hits,
 * preemption, speculation and cancelled neighbors change nothing.  A request never fails because of
 * another one.
 *
 * Any thread may submit, and use a job that it holds.  While the engine exists, its adapter and the
 * adapter's context belong to the scheduler thread: see ig_engine_call().
 */
#ifndef INGOT_ENGINE_H
#define INGOT_ENGINE_H

#include "ingot/session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_engine ig_engine;
typedef struct ig_job ig_job; /* a request that was submitted */

/* 0 or NULL: the default. */
typedef struct ig_engine_options {
    int64_t ctx_len;     /* context length of a sequence: as in ig_session_options */
    int64_t n_sequences; /* sequences that run at the same time, at most: 32 */
    uint64_t kv_bytes;   /* KV cache pool, shared by all sequences and the prefix cache: what all
                            sequences can fill, but at most half of the available memory, and never
                            less than one context */
    int64_t ubatch;      /* tokens per forward pass: as in ig_session_options */
    const char *cache_type_k, *cache_type_v; /* as in ig_session_options */
    double step_ms;          /* time that a step may take while sequences decode: 50 */
    int64_t max_queue;       /* requests that wait, at most: 128 */
    double queue_timeout_ms; /* a request that waits longer fails: never */
    bool static_batching;    /* start a batch only when the one before has ended, for comparison */
    bool no_prefix_cache;
    const char *prefix_cache_file; /* keeps the prefix cache on disk: loaded by create, stored by
                                      destroy; a file of another model is ignored with a warning */
    /* Called by the scheduler thread; NULL: no log. */
    void (*log)(void *user, ig_log_level level, const char *text);
    void *user;
} ig_engine_options;

/* NULL options: all defaults.  The caller owns the engine; the adapter must outlive it. */
IG_API IG_MUST_CHECK ig_status ig_engine_create(ig_adapter *adapter,
                                                const ig_engine_options *options, ig_engine **out);
/* Cancels all jobs, waits for the scheduler thread and stores the prefix cache.  Jobs remain valid
 * until they are released.  NULL is a no-op. */
IG_API void ig_engine_destroy(ig_engine *engine);

/* The resolved options. */
IG_API int64_t ig_engine_ctx_len(const ig_engine *engine);
IG_API int64_t ig_engine_sequences(const ig_engine *engine);
IG_API uint64_t ig_engine_cache_bytes(const ig_engine *engine); /* KV cache pool */
IG_API const ig_tokenizer *ig_engine_tokenizer(const ig_engine *engine);

/* ---- requests ---- */

/* All of it is copied.  0 and NULL: the default. */
typedef struct ig_request {
    const int32_t *tokens; /* the prompt: at least one token */
    size_t n_tokens;
    int64_t max_tokens;   /* of each choice: until the context is full */
    int64_t min_tokens;   /* before these, EOS and stop tokens are not sampled, and stop strings do
                             not end the text */
    int n_choices;        /* replies: 1.  The prompt is computed once */
    ig_sampling sampling; /* choice i has random numbers of its own: sampling.stream + i */
    const char *const *stop; /* stop strings */
    size_t n_stop;
    const int32_t *stop_tokens; /* in addition to the model's EOS tokens */
    size_t n_stop_tokens;
    bool ignore_eos;
    bool prefill_only;    /* only put the prompt into the prefix cache */
    bool logprobs;        /* events carry log-probabilities, with the ... */
    int top_logprobs;     /* ... most likely tokens: at most IG_TOP_LOGPROBS_MAX */
    bool prompt_logprobs; /* also of the prompt's tokens: IG_JOB_EVENT_PROMPT */
    bool no_prefix_cache; /* compute the whole prompt */
    const void *salt;     /* requests share cached prefixes only if their salts are equal */
    size_t salt_bytes;
    uint64_t party;    /* whom the request is for: parties are served round robin */
    int32_t priority;  /* higher first; waiting raises it */
    double timeout_ms; /* ends the job with IG_FINISH_CANCELLED, wherever it is: never */
    int64_t draft_ngram, draft_max; /* speculative decoding: as in ig_generate_options */
    bool embed;                     /* the embedding of the prompt instead of a reply */
    ig_pooling pooling;             /* with embed */
    /* Called by the scheduler thread when the job has new events, and by no other thread.  It must
     * not call the engine and must not wait; NULL: no call. */
    void (*notify)(void *user);
    void *user;
} ig_request;

enum { IG_TOP_LOGPROBS_MAX = 20 };

/* Checks and queues a request.  A prompt that leaves no room in the context, and options out of
 * range, are IG_ERR_ARGUMENT; a full queue, and an engine that is being destroyed, are IG_ERR_BUSY.
 * The caller releases the job, which keeps nothing of the engine alive. */
IG_API IG_MUST_CHECK ig_status ig_engine_submit(ig_engine *engine, const ig_request *request,
                                                ig_job **out);

typedef enum ig_job_event_type {
    IG_JOB_EVENT_PROGRESS,  /* a part of the prompt was computed; sent again after each step */
    IG_JOB_EVENT_PROMPT,    /* a token of the prompt */
    IG_JOB_EVENT_TOKEN,     /* a token of the reply whose text can no longer become a stop string */
    IG_JOB_EVENT_FINISH,    /* a choice has ended */
    IG_JOB_EVENT_EMBEDDING, /* the embedding */
    IG_JOB_EVENT_DONE,      /* the last event of a job; IG_OK, or why it failed */
} ig_job_event_type;

/* Pointers are borrowed until the next call for the job. */
typedef struct ig_job_event {
    ig_job_event_type type;
    int choice;
    int32_t token;         /* PROMPT, TOKEN */
    ig_string_view text;   /* TOKEN: complete characters that this token completes, maybe none;
                              FINISH: characters that follow the last token's */
    double logprob;        /* of the token, NaN where there is none: of the first of a prompt */
    const ig_logprob *top; /* the most likely tokens, in descending order */
    size_t n_top;
    ig_finish finish; /* FINISH */
    const char *stop; /* FINISH: the stop string that ended it; NULL: EOS or a stop token */
    int64_t processed, total, cached; /* PROGRESS: tokens of the prompt */
    int64_t position;                 /* PROGRESS: requests ahead in the queue */
    const float *embedding;           /* EMBEDDING: [d_model] */
    int64_t d_model;
    ig_status status;  /* DONE */
    const char *error; /* DONE: the message; "" without a failure */
} ig_job_event;

/* Takes the next event; false: there is none now. */
IG_API bool ig_job_poll(ig_job *job, ig_job_event *out);
/* Waits until there is an event, or for so long; below 0: without limit.  False: there is none. */
IG_API bool ig_job_wait(ig_job *job, double timeout_ms);
/* Ends the job at the next step; DONE follows.  Any thread; again, or after the end: a no-op. */
IG_API void ig_job_cancel(ig_job *job);
/* Cancels the job if it has not ended.  notify() is not called any more once this returns.  NULL is
 * a no-op. */
IG_API void ig_job_release(ig_job *job);

/* What a job has taken so far.  Times that have not come yet are 0. */
typedef struct ig_job_stats {
    uint64_t id;                                           /* unique in the engine, from 1 */
    int64_t n_prompt_tokens, n_cached_tokens, n_generated; /* generated by all choices */
    int64_t n_drafted, n_accepted;
    int64_t n_preempted;
    double queue_ms;       /* from submit to the first step */
    double prefill_ms;     /* from there to the first token */
    double first_token_ms; /* from submit to the first token */
    double decode_ms;      /* from the first token to the last */
} ig_job_stats;
IG_API ig_job_stats ig_job_get_stats(const ig_job *job);

/* Runs a function on the scheduler thread between two steps and waits for its return: the only way
 * to the adapter and its context while the engine exists, as for a report. */
IG_API IG_MUST_CHECK ig_status ig_engine_call(ig_engine *engine,
                                              ig_status (*call)(ig_adapter *adapter, void *user),
                                              void *user);

/* ---- statistics ---- */

/* Upper bounds of the buckets of a histogram; the last bucket has none. */
enum { IG_HISTOGRAM_BUCKETS = 20 };
typedef struct ig_histogram {
    uint64_t count[IG_HISTOGRAM_BUCKETS + 1]; /* of each bucket alone */
    double sum;                               /* of the values: seconds, or tokens */
} ig_histogram;
/* Bucket i of histograms in seconds, 1 ms to 600 s, and of histograms of tokens, 1 to 524288. */
IG_API double ig_histogram_seconds(int i);
IG_API double ig_histogram_tokens(int i);

typedef enum ig_step_kind {
    IG_STEP_DECODE,
    IG_STEP_PREFILL,
    IG_STEP_MIXED,
    IG_STEP_KINDS
} ig_step_kind;
typedef enum ig_job_state {
    IG_JOB_WAITING,
    IG_JOB_PREFILL,
    IG_JOB_DECODE,
    IG_JOB_STATES
} ig_job_state;

/* Counted since the engine was created. */
typedef struct ig_engine_stats {
    int64_t n_waiting, n_running; /* sequences now: waiting ones include those preempted */
    int64_t n_waiting_preempted;
    int64_t n_pages, n_free_pages, n_cached_pages; /* cached: held by the prefix cache alone */
    double tick_age_ms; /* since the scheduler thread last went round; it does so once a second or
                           more often even if idle */
    uint64_t n_submitted, n_rejected_queue, n_queue_timeouts;
    uint64_t n_finished[3];              /* by ig_finish, of choices */
    uint64_t n_failed;                   /* jobs */
    uint64_t n_cancelled[IG_JOB_STATES]; /* jobs, by the state they were in */
    uint64_t n_prompt_tokens, n_cached_tokens, n_generated;
    uint64_t n_cache_queries, n_cache_hits; /* prompts looked up, with at least one page found */
    uint64_t n_evicted_pages, n_preempted;
    uint64_t n_drafted, n_accepted;
    uint64_t n_steps[IG_STEP_KINDS];
    uint64_t n_decode_sequences;     /* summed over steps: by steps that decode, the mean batch */
    uint64_t scheduling_ns, step_ns; /* steps, and the part of it that is not the forward pass */
    ig_histogram first_token, inter_token, queue, prefill, decode, request; /* seconds */
    ig_histogram step[IG_STEP_KINDS];                                       /* seconds */
    ig_histogram prompt_tokens, generated_tokens, step_tokens[IG_STEP_KINDS];
} ig_engine_stats;

/* Takes no lock: any thread, at any time. */
IG_API void ig_engine_get_stats(const ig_engine *engine, ig_engine_stats *out);

/* A running sequence. */
typedef struct ig_engine_slot {
    uint64_t job; /* its id; 0: the slot is idle */
    int choice;
    ig_job_state state;
    int64_t n_prompt_tokens, n_processed, n_generated;
    double running_ms;
} ig_engine_slot;
/* Slot i, below ig_engine_sequences(); takes no lock. */
IG_API ig_engine_slot ig_engine_get_slot(const ig_engine *engine, int64_t i);

#ifdef __cplusplus
}
#endif
#endif
