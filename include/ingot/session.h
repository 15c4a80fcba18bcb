/*
 * session.h - texts going through a model, row by row.
 *
 * A session keeps the keys and values of several texts, called sequences, in
 * pages, and takes in tokens of any of them together.  The work is captured once
 * for some numbers of rows (one, a few, a chunk of a prompt) and replayed from then
 * on.  What comes out for a row depends on its own text alone: the bits are the same
 * however its tokens were cut into calls, whatever rows of other texts went beside
 * it, and for any number of threads.
 */
#ifndef INGOT_SESSION_H
#define INGOT_SESSION_H

#include "ingot/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_session ig_session;

/* Zero is the default. */
typedef struct ig_session_options {
    int64_t ctx_len;   /* tokens that a text may have: the model's own, but at most 4096 */
    int64_t sequences; /* texts side by side: 1 */
    int64_t chunk;     /* rows that go through the model at once: 128, on a GPU 512, on an NPU the
                          largest of compile.batch_sizes, and those alone, where they are said */
    const char *cache_k, *cache_v; /* what keys and values are kept as: "f16", "f32", "q8_0" */
    bool hidden; /* rows are handed their final hidden states; no logits are computed */
} ig_session_options;

/* NULL options are all defaults.  The caller owns the session; the adapter must outlive it. */
IG_API IG_MUST_CHECK ig_status ig_session_create(ig_adapter *adapter,
                                                 const ig_session_options *options,
                                                 ig_session **out);
IG_API void ig_session_destroy(ig_session *session);

/* As it was made: what options left open is resolved. */
IG_API int64_t ig_session_ctx_len(const ig_session *session);
IG_API int64_t ig_session_sequences(const ig_session *session);
IG_API uint64_t ig_session_cache_bytes(const ig_session *session); /* of all pages */

/* One token: it becomes the next of its sequence. */
typedef struct ig_session_row {
    int32_t sequence, token;
    union {            /* room for what the session hands out; NULL: not wanted */
        float *logits; /* those behind this token, [vocabulary] */
        float *hidden; /* where the session was made for it: its final hidden state, [d_model] */
    };
} ig_session_row;

/*
 * Takes in rows, in order.  A token that is none, a sequence that is none or more
 * tokens than the context has room for is an error that says the numbers.  Results
 * that are not finite are IG_ERR_NUMBER, and the words name the weight that is to
 * blame, if one is.  The context's cancel is asked before every chunk.  Whatever
 * fails, the sequences are as they were before.
 */
IG_API IG_MUST_CHECK ig_status ig_session_run(ig_session *session, const ig_session_row *rows,
                                              int64_t count);

/* The same with the tokens of one sequence; `out` (or NULL) is what the last is handed. */
IG_API IG_MUST_CHECK ig_status ig_session_feed(ig_session *session, int32_t sequence,
                                               const int32_t *tokens, int64_t count, float *out);

/* The final hidden state of the row that was handed something last, which logits are made of:
 * [d_model], lent until the next run.  NULL: none was, or the memory is not the host's. */
IG_API const float *ig_session_hidden(const ig_session *session);

/* A text as a vector [d_model] of length 1, in a session that hands out hidden states; its first
 * sequence begins anew.  A model that sees a text whole, as bert, has such sessions for this alone.
 * A text that does not fit into the context is an error with both numbers.  `out_tokens` (or NULL):
 * how many it has. */
IG_API IG_MUST_CHECK ig_status ig_session_embed(ig_session *session, const char *text, size_t bytes,
                                                ig_pooling pooling, float *out,
                                                int64_t *out_tokens);

/* Tokens of a sequence so far, and which; lent until the next call.  0 and NULL: no such one. */
IG_API int64_t ig_session_length(const ig_session *session, int32_t sequence);
IG_API const int32_t *ig_session_tokens(const ig_session *session, int32_t sequence);

/* Forgets all but the first `length` tokens. */
IG_API IG_MUST_CHECK ig_status ig_session_truncate(ig_session *session, int32_t sequence,
                                                   int64_t length);
/* Makes `to` go on from where `from` is.  Whole pages are shared, not copied. */
IG_API IG_MUST_CHECK ig_status ig_session_fork(ig_session *session, int32_t from, int32_t to);

/* A sequence as a file with checksums, replaced whole or not at all; and back, into a session of
 * the same model, whose caches have the same types.  A file that does not fit is an error. */
IG_API IG_MUST_CHECK ig_status ig_session_save(ig_session *session, int32_t sequence,
                                               const char *path);
IG_API IG_MUST_CHECK ig_status ig_session_load(ig_session *session, int32_t sequence,
                                               const char *path);

/* ---- prompts from a stream ---- */

/* A prompt is read and answered, then the next, each as if it were the first. */
typedef struct ig_input_session {
    /* The next prompt, lent until the next call; false: there are no more. */
    bool (*next)(void *user, const char **text, size_t *bytes);
    /* Behind each answer, may be NULL; false: enough. */
    bool (*answered)(void *user, const ig_generated *made);
    void *user;
    ig_generate_options generate; /* but for the prompt; at most 1024 tokens if it does not say */
} ig_input_session;

/* Until there are no more prompts, or somebody has enough, or something fails. */
IG_API IG_MUST_CHECK ig_status ig_input_session_run(ig_adapter *adapter,
                                                    const ig_input_session *input);

#ifdef __cplusplus
}
#endif
#endif
