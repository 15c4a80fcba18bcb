/*
 * engine.h - serves many requests with one model: continuous batching.
 *
 *     ig_engine_create(adapter, NULL, &engine)
 *     ig_engine_submit(engine, &(ig_request){.tokens = ids, .n_tokens = n, .max_tokens = 64}, &job)
 *     do {
 *         ig_job_wait(job, -1);
 *         while (ig_job_poll(job, &event)) use(&event);       (TOKEN: event.text)
 *     } while (event.type != IG_JOB_EVENT_DONE);
 *     ig_job_release(job)
 *     ig_engine_destroy(engine)
 *
 * A scheduler thread runs one session.  A step is one forward pass: the next token of each running
 * sequence, its draft tokens if there is room, and prompt tokens up to a time target (chunked
 * prefill).  Sequences join and leave between steps.
 *
 * Replies are bit-identical to those of an idle engine: batching, chunk sizes, prefix cache hits,
 * preemption, speculative decoding and cancelled requests do not change them.  A request never
 * fails because of another one.
 *
 * Any thread may submit requests and use its jobs.  While the engine exists, the adapter and its
 * context belong to the scheduler thread: use ig_engine_call().
 */
#ifndef INGOT_ENGINE_H
#define INGOT_ENGINE_H

#include "ingot/session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_engine ig_engine;
typedef struct ig_job ig_job; /* a submitted request */

#define IG_PREFIX_CACHE_FILE_BYTES (UINT64_C(4) << 30)

/* 0 or NULL: the default. */
typedef struct ig_engine_options {
    int64_t ctx_len;     /* context length of a sequence: as in ig_session_options */
    int64_t n_sequences; /* maximum number of running sequences: 32 */
    uint64_t kv_bytes;   /* KV cache pool, shared by all sequences and the prefix cache: n_sequences
                            full contexts, at most half of the available memory, at least one full
                            context */
    int64_t ubatch;      /* tokens per forward pass: as in ig_session_options */
    const char *cache_type_k, *cache_type_v; /* as in ig_session_options */
    double step_ms;                          /* time target of a step while sequences decode: 50 */
    int64_t max_queue;                       /* maximum number of waiting requests: 128 */
    double queue_timeout_ms;                 /* fail requests that wait longer: never */
    bool static_batching; /* for comparison: start a batch when the previous one has ended */
    bool no_prefix_cache;
    const char *prefix_cache_file; /* keeps the prefix cache on disk: loaded by create, replaced by
                                      destroy.  A file of another model or device, a corrupt one,
                                      and a full disk are warnings */
    uint64_t prefix_cache_file_bytes; /* its size, at most: IG_PREFIX_CACHE_FILE_BYTES */
    /* Called by the scheduler thread, create and destroy; NULL: no log. */
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

/* Copied by ig_engine_submit().  0 and NULL: the default. */
typedef struct ig_request {
    const int32_t *tokens; /* the prompt: at least one token */
    size_t n_tokens;
    int64_t max_tokens;      /* per choice: until the context is full */
    int64_t min_tokens;      /* up to here EOS and stop tokens are not sampled and stop strings are
                                ignored: 0 */
    int n_choices;           /* number of replies: 1.  They share one prefill */
    ig_sampling sampling;    /* choice i uses the random stream sampling.stream + i */
    const char *const *stop; /* stop strings */
    size_t n_stop;
    const int32_t *stop_tokens; /* in addition to the model's EOS tokens */
    size_t n_stop_tokens;
    bool ignore_eos;
    bool prefill_only;    /* add the prompt to the prefix cache, generate nothing */
    bool logprobs;        /* token events have log-probabilities */
    int top_logprobs;     /* and those of the N most likely tokens: N <= IG_TOP_LOGPROBS_MAX */
    bool prompt_logprobs; /* the same for prompt tokens: IG_JOB_EVENT_PROMPT */
    bool no_prefix_cache; /* do not use cached prefixes */
    const void *salt;     /* requests share cached prefixes only if their salts are equal */
    size_t salt_bytes;
    uint64_t party;    /* client or key, for fairness: parties are served round robin */
    int32_t priority;  /* higher first; it rises while the request waits */
    double timeout_ms; /* from the submit; then the job ends with IG_FINISH_CANCELLED: never */
    int64_t draft_ngram, draft_max; /* speculative decoding: as in ig_generate_options */
    bool embed;                     /* the embedding of the prompt instead of a reply */
    ig_pooling pooling;             /* with embed */
    /* Called by the scheduler thread, and no other, when the job has new events.  It must not block
     * or call the engine.  NULL: no callback. */
    void (*notify)(void *user);
    void *user;
} ig_request;

enum { IG_TOP_LOGPROBS_MAX = 20 };

/* Checks and queues a request.  IG_ERR_ARGUMENT: the prompt fills the context, or an option is out
 * of range.  IG_ERR_BUSY: the queue is full, or the engine is being destroyed.  The caller releases
 * the job, which may outlive the engine. */
IG_API IG_MUST_CHECK ig_status ig_engine_submit(ig_engine *engine, const ig_request *request,
                                                ig_job **out);

typedef enum ig_job_event_type {
    IG_JOB_EVENT_PROGRESS,  /* prefill progress after each step; while the job waits, when its
                                position changes */
    IG_JOB_EVENT_PROMPT,    /* a token of the prompt, with its log-probability */
    IG_JOB_EVENT_TOKEN,     /* a generated token, once its text cannot be part of a stop string */
    IG_JOB_EVENT_FINISH,    /* a choice has ended */
    IG_JOB_EVENT_EMBEDDING, /* the embedding */
    IG_JOB_EVENT_DONE,      /* the last event of a job, with its status */
} ig_job_event_type;

/* Pointers are borrowed until the next call for the job. */
typedef struct ig_job_event {
    ig_job_event_type type;
    int choice;
    int32_t token;         /* PROMPT, TOKEN */
    ig_string_view text;   /* TOKEN: the UTF-8 characters that it completes, may be empty; FINISH:
                              the rest of the text */
    double logprob;        /* of the token; NaN for the first token of a prompt */
    const ig_logprob *top; /* the most likely tokens, in descending order */
    size_t n_top;
    ig_finish finish; /* FINISH */
    const char *stop; /* FINISH: the stop string that ended it; NULL: EOS or a stop token */
    int64_t processed, total, cached; /* PROGRESS: prompt tokens */
    int64_t position;                 /* PROGRESS: requests ahead in the queue */
    const float *embedding;           /* EMBEDDING: [d_model] */
    int64_t d_model;
    ig_status status;  /* DONE */
    const char *error; /* DONE: the error message; "": success */
} ig_job_event;

/* Takes the next event; false: no event is queued. */
IG_API bool ig_job_poll(ig_job *job, ig_job_event *out);
/* Waits for an event; timeout below 0: forever.  False: the timeout has passed. */
IG_API bool ig_job_wait(ig_job *job, double timeout_ms);
/* Ends the job at the next step; DONE follows.  A no-op on a job that has ended. */
IG_API void ig_job_cancel(ig_job *job);
/* Cancels the job if it has not ended.  After this returns, notify() is not called again.  NULL is
 * a no-op. */
IG_API void ig_job_release(ig_job *job);

/* Statistics of a job so far.  Durations that have not begun are 0. */
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

/* Runs a function on the scheduler thread between two steps, and returns its status.  While the
 * engine exists, this is the only way to use the adapter and its context, as for a report.  The
 * statistics are current when it returns. */
IG_API IG_MUST_CHECK ig_status ig_engine_call(ig_engine *engine,
                                              ig_status (*call)(ig_adapter *adapter, void *user),
                                              void *user);

/* ---- statistics ---- */

/* Buckets with an upper bound; one more has no bound. */
enum { IG_HISTOGRAM_BUCKETS = 20 };
typedef struct ig_histogram {
    uint64_t count[IG_HISTOGRAM_BUCKETS + 1]; /* per bucket, not cumulative */
    double sum;                               /* of the values, in seconds or tokens */
} ig_histogram;
/* The upper bound of bucket i: of seconds (1 ms to 600 s), and of tokens (1 to 524288). */
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
    double tick_age_ms; /* since the scheduler thread's last iteration; an idle one iterates at
                           least once per second */
    uint64_t n_submitted, n_rejected_queue, n_queue_timeouts;
    uint64_t n_finished[3];              /* by ig_finish, of choices */
    uint64_t n_failed;                   /* jobs */
    uint64_t n_cancelled[IG_JOB_STATES]; /* jobs, by the state they were in */
    uint64_t n_prompt_tokens, n_cached_tokens, n_generated;
    uint64_t n_cache_queries, n_cache_hits; /* prompts looked up, with at least one page found */
    uint64_t n_evicted_pages, n_preempted;
    uint64_t n_restored_pages; /* loaded from the prefix cache's file */
    uint64_t n_drafted, n_accepted;
    uint64_t n_steps[IG_STEP_KINDS];
    uint64_t n_decode_sequences;     /* sum over steps; divided by steps that decode: mean batch */
    uint64_t scheduling_ns, step_ns; /* step_ns: whole steps; scheduling_ns: without forward */
    ig_histogram first_token, inter_token, queue, prefill, decode, request; /* seconds */
    ig_histogram step[IG_STEP_KINDS];                                       /* seconds */
    ig_histogram prompt_tokens, generated_tokens, step_tokens[IG_STEP_KINDS];
} ig_engine_stats;

/* Lock-free, from any thread. */
IG_API void ig_engine_get_stats(const ig_engine *engine, ig_engine_stats *out);

/* A running sequence. */
typedef struct ig_engine_slot {
    uint64_t job; /* its id; 0: the slot is idle */
    int choice;
    ig_job_state state;
    int64_t n_prompt_tokens, n_processed, n_generated;
    double running_ms;
} ig_engine_slot;
/* Slot i, 0 <= i < ig_engine_sequences().  Lock-free, from any thread. */
IG_API ig_engine_slot ig_engine_get_slot(const ig_engine *engine, int64_t i);

/*
 * The text of a slot, with its KV cache, as a file of ig_session_save(): that which runs in it, or
 * ran in it last, as far as the prefix cache still has it.  Restoring puts it into the prefix cache
 * for requests with this salt (NULL: none), and into a slot that is idle, else it is IG_ERR_BUSY.
 * Erasing drops the pages that no other text uses from the prefix cache.  The scheduler thread does
 * it between two steps.  A slot without a text is IG_ERR_STATE.  `out_tokens` (or NULL): the length
 * of the text; of erase, the tokens of the pages dropped.
 */
IG_API IG_MUST_CHECK ig_status ig_engine_save_slot(ig_engine *engine, int64_t i, const char *path,
                                                   int64_t *out_tokens);
IG_API IG_MUST_CHECK ig_status ig_engine_restore_slot(ig_engine *engine, int64_t i,
                                                      const char *path, const void *salt,
                                                      size_t salt_bytes, int64_t *out_tokens);
IG_API IG_MUST_CHECK ig_status ig_engine_erase_slot(ig_engine *engine, int64_t i,
                                                    int64_t *out_tokens);

#ifdef __cplusplus
}
#endif
#endif
