/*
 * reply.h - a reply that is being generated: tokens to text, and the end of it.
 *
 * Text that may be the beginning of a stop string is held back, with the tokens it came from.
 */
#ifndef IG_ENGINE_REPLY_H
#define IG_ENGINE_REPLY_H

#include "engine/job.h"
#include "model/draft_ngram.h"
#include "text/sampler.h"

/* A token whose text is held back. */
typedef struct ig_held_token {
    int32_t id;
    size_t end; /* of its text, in the held text */
    double logprob;
    size_t n_top;
    ig_logprob top[IG_TOP_LOGPROBS_MAX];
} ig_held_token;

struct ig_reply {
    ig_job *job; /* of which it is a part */
    int choice;
    int32_t slot; /* its sequence in the session; -1: it waits */
    uint64_t arrival;
    ig_reply *next_waiting;
    bool is_waiting, is_finished;
    ig_finish finish;
    ig_tokens tokens; /* the prompt and what was generated */
    int64_t n_prompt, n_generated;
    int64_t n_shared;   /* tokens that came from the prefix cache when it was admitted */
    int64_t n_logprobs; /* prompt tokens whose log-probabilities were emitted */
    int n_preempted;
    double waiting_since_ms, admitted_ms;

    ig_sampler *sampler; /* created when it first runs */
    ig_detokenizer *detokenizer;
    char *text;
    size_t n_text, text_room;
    ig_held_token *held;
    size_t n_held, held_room;

    /* Of the step that is being run. */
    int64_t n_step_tokens, first_output;
    int64_t n_draft;
    int32_t draft[IG_DRAFT_MAX];
    int32_t claimed_pages;
};

IG_MUST_CHECK ig_status ig_reply_create(ig_job *job, int choice, ig_reply **out);
void ig_reply_destroy(ig_reply *reply); /* NULL is a no-op */

/* Creates sampler and detokenizer, unless they exist. */
IG_MUST_CHECK ig_status ig_reply_prepare(ig_reply *reply, const ig_tokenizer *tokenizer,
                                         int64_t vocabulary);

/* What ends a reply, and what samples it. */
typedef struct ig_reply_rules {
    const ig_tokenizer *tokenizer;
    int64_t vocabulary, ctx_len;
    const int32_t *eog; /* tokens that end a text, [n_eog] */
    size_t n_eog;
} ig_reply_rules;

/* Samples the next token from logits [vocabulary], which it may change, and emits what has become
 * certain.  *out_finished: the reply has ended, and FINISH was emitted. */
IG_MUST_CHECK ig_status ig_reply_next(ig_reply *reply, const ig_reply_rules *rules, float *logits,
                                      bool *out_finished);
/* Emits FINISH for a reply that ends before its time, with the text that was held back. */
void ig_reply_finish(ig_reply *reply, ig_finish finish);

#endif
