/*
 * serve_generation.h - a request for generated text, whatever the dialect it came in.
 *
 *     fields -> generation_options.c -> ig_request        sampling, stops, limits
 *     fields -> dialect.prepare()    -> g->prompts        one job of the engine for each
 *     events of the jobs -> serve_generation.c -> choices       text, thoughts, how it ended
 *                        -> dialect.whole(), or .delta() and so on for a stream
 *
 * Choice i of prompt p has the index p * g->n + i.  Before the first token of a stream an error is
 * a plain reply; after that it is an event.
 */
#ifndef IG_SERVER_SERVE_GENERATION_H
#define IG_SERVER_SERVE_GENERATION_H

#include "server/reasoning.h"
#include "server/work.h"

typedef struct ig_generation ig_generation;

enum { IG_MAX_PROMPTS = 256, IG_MAX_CHOICES = 256 }; /* in a request */

typedef struct ig_prompt {
    ig_tokens tokens;
    ig_out text;                 /* with echo */
    ig_detokenizer *detokenizer; /* with echo and logprobs */
    ig_job *job;                 /* NULL: not submitted yet */
    bool is_done;
    ig_job_stats stats; /* once it is done */
} ig_prompt;

/* A reply as far as it has come.  A stream keeps counters alone. */
typedef struct ig_choice {
    ig_out content, thoughts;
    ig_out lists[5]; /* JSON arrays without their brackets that the dialect collects */
    ig_reasoning split;
    int64_t n_tokens, n_thinking; /* tokens; those of thoughts */
    int64_t offset;               /* characters so far, of legacy logprobs */
    bool has_begun;               /* of a stream: its first chunk was written */
    bool is_finished;
    ig_finish finish;
} ig_choice;

/* What a token adds to a choice. */
typedef struct ig_delta {
    const ig_out *content, *thoughts;
    const ig_job_event *event; /* TOKEN; FINISH: text that was held back */
} ig_delta;

typedef struct ig_dialect {
    const char *id_prefix;
    const char *stream_type; /* Content-Type */
    /* Fills in the prompts and what is special about the dialect.  False: g->work.error. */
    bool (*prepare)(ig_generation *g);
    /* Remembers what whole() needs besides the text; may be NULL. */
    void (*collect)(ig_generation *g, size_t index, const ig_job_event *event);
    void (*whole)(ig_generation *g, ig_out *out);
    /* Of a stream: any may write nothing. */
    void (*begin)(ig_generation *g, size_t index, ig_out *out);
    void (*delta)(ig_generation *g, size_t index, const ig_delta *delta, ig_out *out);
    void (*progress)(ig_generation *g, size_t index, const ig_job_event *event, ig_out *out);
    void (*finish)(ig_generation *g, size_t index, ig_out *out);
    void (*end)(ig_generation *g, ig_out *out);
    void (*error)(ig_generation *g, const ig_http_error *error, ig_out *out);
} ig_dialect;

struct ig_generation {
    ig_work work;
    const ig_dialect *dialect;
    char id[48];
    int64_t created; /* seconds since 1970 */

    ig_prompt *prompts;
    size_t n_prompts, n_submitted, n_done;
    int n;              /* choices of each prompt */
    ig_choice *choices; /* [n_prompts * n] */
    ig_request request; /* without a prompt */
    const char **stops; /* of the request; strings are the body's, or static */
    int32_t *stop_tokens;
    ig_logit_bias *biases;
    char *salt;

    bool stream, include_usage, logprobs, echo, return_progress, timings_per_token;
    bool return_token_ids, report;
    int top_logprobs;
    bool splits_reasoning;             /* the dialect knows thoughts */
    bool reasoning_content, reasoning; /* the fields for them */

    ig_out out, thoughts, content; /* what is being written; scratch */
    bool has_begun, is_ending;     /* the stream; `out` is the last that is written */
    ig_timer ping;
    atomic_bool is_ping_set;
    double written_ms; /* of the stream: when something was written last */
};

/* The functions of a dialect's ig_work_type. */
bool ig_generation_check(ig_work *w, const ig_dialect *dialect);
void ig_generation_advance(ig_work *w);
void ig_generation_fail(ig_work *w);
void ig_generation_close(ig_work *w);

/* Creates n empty prompts.  False: g->work.error. */
bool ig_generation_set_prompts(ig_generation *g, size_t n);

/* Fields to g->request, and the flags of the reply.  The second half needs the model. */
bool ig_generation_read_options(ig_generation *g);
bool ig_generation_read_model_options(ig_generation *g);

/* Sums of all prompts. */
typedef struct ig_usage {
    int64_t n_prompt, n_cached, n_generated, n_thinking;
} ig_usage;
ig_usage ig_generation_usage(const ig_generation *g);
/* What the job of a choice has taken so far. */
ig_job_stats ig_generation_stats(const ig_generation *g, size_t index);
/* With the field `report`: the run report as the member "report" of an open object. */
void ig_generation_report(const ig_generation *g, ig_out *out);

#endif
