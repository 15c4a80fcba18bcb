/*
 * session.h - inference over a paged KV cache.
 *
 * A session holds the KV cache of several sequences in pages and runs tokens of any
 * of them in one batch.  It captures the forward pass once per bucket of batch sizes
 * (one token, a few, a micro-batch of a prompt) and replays it.  Results are
 * bit-identical however a sequence is split into calls, whatever other sequences are
 * in the batch, and for any number of threads.
 */
#ifndef INGOT_SESSION_H
#define INGOT_SESSION_H

#include "ingot/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_session ig_session;

/* Default tokens per forward pass. */
enum { IG_SESSION_UBATCH_DEFAULT = 128 };

/* 0: the default. */
typedef struct ig_session_options {
    int64_t ctx_len;     /* context length: the model's, or less where its KV cache would
                            take more than 3/4 of the available memory */
    int64_t n_sequences; /* sequences: 1 */
    uint64_t kv_bytes;   /* KV cache pool: what all sequences can fill, and never less than what
                            one can; a pool that is full fails a run with IG_ERR_MEMORY */
    int64_t ubatch;      /* tokens per forward pass: 128, on a GPU 512, on an NPU with
                            compile.batch_sizes the largest of these, which are the only buckets */
    const char *cache_type_k,
        *cache_type_v;  /* KV cache dtype: "f16" (NULL), "bf16", "f32", "q8_0" */
    bool hidden;        /* output final hidden states instead of logits */
    bool hidden_layers; /* output the hidden states of all layers before them: those of the
                            embedding, of each layer, and after the final norm [n_layers + 1,
                            d_model], then the logits, unless `hidden`; models of files and
                            ig_model_create() */
} ig_session_options;

/* NULL options: all defaults.  The caller owns the session; the adapter must outlive it. */
IG_API IG_MUST_CHECK ig_status ig_session_create(ig_adapter *adapter,
                                                 const ig_session_options *options,
                                                 ig_session **out);
IG_API void ig_session_destroy(ig_session *session);

/* The resolved options. */
IG_API int64_t ig_session_ctx_len(const ig_session *session);
IG_API int64_t ig_session_sequences(const ig_session *session);
IG_API int64_t ig_session_ubatch(const ig_session *session);
IG_API int64_t ig_session_width(const ig_session *session); /* floats of the output of a token */
IG_API uint64_t ig_session_cache_bytes(const ig_session *session); /* KV cache, all pages */

/* One token, appended to its sequence. */
typedef struct ig_session_token {
    int32_t sequence, id;
    union {            /* output buffer; NULL: no output for this token */
        float *logits; /* [vocabulary] */
        float *hidden; /* with options.hidden: [d_model] */
        float *output; /* [ig_session_width()] */
    };
    /* Of RoPE and learned positions; without it one more than the token before it in the sequence
     * has, from 0.  Causality, windows and lengths count tokens, whatever their positions. */
    bool has_position;
    int32_t position; /* below the model's context length */
} ig_session_token;

/*
 * Runs tokens in order.  An invalid token or sequence, or more tokens than the context
 * holds, is an error that names the values.  NaN or Inf in the output is
 * IG_ERR_NOT_FINITE and names the device, or IG_ERR_FORMAT and names the tensor of the file that
 * causes it (IG_ERR_NOT_FINITE if the weights are not of a GGUF file).  Calls cancel()
 * of the context before every micro-batch.  On failure the sequences are unchanged.
 */
IG_API IG_MUST_CHECK ig_status ig_session_run(ig_session *session, const ig_session_token *tokens,
                                              int64_t count);

/* The same for tokens of one sequence; `out` (or NULL) receives the output of the last token. */
IG_API IG_MUST_CHECK ig_status ig_session_feed(ig_session *session, int32_t sequence,
                                               const int32_t *tokens, int64_t count, float *out);

/* Rows of one length, as other runtimes batch them: shorter ones have padding anywhere. */
typedef struct ig_padded_batch {
    int64_t n_rows, length;     /* row i is appended to sequence i; of an encoder it is a text */
    const int32_t *ids;         /* [n_rows, length] */
    const uint8_t *mask;        /* [n_rows, length], 0: padding, whose id is ignored; NULL: none */
    const int32_t *positions;   /* [n_rows, length]; NULL: they count the tokens, without padding;
                                   of an encoder the columns, as in BERT */
    const int32_t *token_types; /* [n_rows, length], of encoders: 0 or 1; NULL: all 0 */
    bool last_only;             /* output of the last token of each row only */
} ig_padded_batch;

/* Runs a padded batch.  Padding is not run, so a row has the bits that it has alone.  `out`
 * [n_rows, length, width], zeros at padding, or with last_only [n_rows, width]; NULL: no
 * output.  A row of padding alone is an error. */
IG_API IG_MUST_CHECK ig_status ig_session_run_padded(ig_session *session,
                                                     const ig_padded_batch *batch, float *out);

/* The final hidden state [d_model] of the last token with output; borrowed until the next run.
 * NULL: none, or it is not in host memory. */
IG_API const float *ig_session_hidden(const ig_session *session);

/* Embeds a text as a unit vector [d_model] in a session with options.hidden alone; clears sequence
 * 0. Of sessions of encoders such as bert, this and ig_session_run_padded() alone.  A text longer
 * than the context is an error.  `out_tokens` (or NULL): its number of tokens. */
IG_API IG_MUST_CHECK ig_status ig_session_embed(ig_session *session, const char *text, size_t bytes,
                                                ig_pooling pooling, float *out,
                                                int64_t *out_tokens);

/* Length and tokens of a sequence; borrowed until the next call.  0 and NULL: no such sequence. */
IG_API int64_t ig_session_length(const ig_session *session, int32_t sequence);
IG_API const int32_t *ig_session_tokens(const ig_session *session, int32_t sequence);

/* Removes all but the first `length` tokens. */
IG_API IG_MUST_CHECK ig_status ig_session_truncate(ig_session *session, int32_t sequence,
                                                   int64_t length);
/* Makes `to` a copy of `from`.  Full pages are shared, not copied. */
IG_API IG_MUST_CHECK ig_status ig_session_fork(ig_session *session, int32_t from, int32_t to);

/* Saves a sequence to a file with checksums, replacing it atomically, and loads it into a session
 * of the same model with the same KV cache dtypes. */
IG_API IG_MUST_CHECK ig_status ig_session_save(ig_session *session, int32_t sequence,
                                               const char *path);
IG_API IG_MUST_CHECK ig_status ig_session_load(ig_session *session, int32_t sequence,
                                               const char *path);

/* ---- the token loop ---- */

/* A step of ig_session_generate(), for its callbacks; everything is borrowed during the call. */
typedef struct ig_generate_step {
    int64_t n_generated; /* tokens of each sequence so far, without this step's */
    int64_t n_sequences, vocabulary;
    float *logits;   /* [n_sequences, vocabulary]: edit() may change them; stale where `ended` */
    int32_t *tokens; /* [n_sequences]: this step's; -1 where `ended` */
    bool *ended;     /* [n_sequences]: set it to end a sequence */
} ig_generate_step;

/* 0 and NULL: the default. */
typedef struct ig_session_generate_options {
    int64_t n_sequences;           /* runs sequences 0 to n_sequences - 1 of the session: 1 */
    const int32_t *const *prompts; /* the tokens appended to each, at least one */
    const int64_t *prompt_lengths;
    int64_t max_tokens;         /* of each; required */
    int64_t min_tokens;         /* up to here no stop token is sampled: 0 */
    const int32_t *stop_tokens; /* they end a sequence, and are its last token */
    int64_t n_stop_tokens;      /* the model's EOS is not among them by itself */
    ig_sampling sampling;       /* sequence i uses the random stream sampling.stream + i */
    /* Called before sampling: it may change logits, choose tokens itself by setting tokens[i], and
     * end sequences, which then get no token of this step.  False: end all with
     * IG_FINISH_CANCELLED. */
    bool (*edit)(void *user, ig_generate_step *step);
    /* Called after sampling: it sees the tokens, and may end sequences after them. */
    bool (*chosen)(void *user, ig_generate_step *step);
    void *user; /* of these two */
} ig_session_generate_options;

/*
 * Generates tokens of several sequences at once, each as if it were alone.  `out_tokens`
 * [n_sequences, max_tokens] and `out_lengths` [n_sequences] receive the tokens, and `out_finish`
 * [n_sequences] (or NULL) why each ended: IG_FINISH_STOP by a stop token or a callback.  A sequence
 * ends with IG_FINISH_LENGTH where the context is full.  The last token of a sequence is not run,
 * unless edit() ends it, so the session lacks that one.  On failure the lengths count the tokens of
 * all complete steps.
 */
IG_API IG_MUST_CHECK ig_status ig_session_generate(ig_session *session,
                                                   const ig_session_generate_options *options,
                                                   int32_t *out_tokens, int64_t *out_lengths,
                                                   ig_finish *out_finish);

/* ---- measuring ---- */

/* What one token costs: bytes that are read, and multiply-adds (MACs).  The output head is counted
 * apart, since of a prompt only the last token needs it, and so is the last layer, which computes
 * only keys and values for tokens without output.  Of an embedding a token reads one row, which is
 * left out; of experts the selected ones count. */
typedef struct ig_token_cost {
    uint64_t body_bytes, head_bytes;           /* weights, as stored */
    uint64_t body_macs, head_macs;             /* with weights */
    uint64_t body_float_macs, head_float_macs; /* of these, with weights that are not quantized */
    uint64_t last_layer_macs;     /* of the body's: in the last layer, for tokens with output */
    uint64_t attention_macs;      /* per position that a token sees, in all layers but the last */
    uint64_t last_attention_macs; /* the same in the last layer, for tokens with output */
    uint64_t kv_bytes;            /* of the KV cache, per position, in all layers */
} ig_token_cost;
IG_API ig_token_cost ig_session_cost(const ig_session *session);

/* Makes a sequence `length` tokens long without computing them: the following pages repeat its
 * first one.  To measure what a long context costs; the output has no meaning.  Its length must be
 * a multiple of IG_PAGE_TOKENS, and at least that. */
IG_API IG_MUST_CHECK ig_status ig_session_fake_length(ig_session *session, int32_t sequence,
                                                      int64_t length);

/* ---- prompts from a stream ---- */

/* Answers one prompt after the other, each in an empty context. */
typedef struct ig_input_session {
    /* The next prompt, borrowed until the next call; false: no more prompts. */
    bool (*next)(void *user, const char **text, size_t *bytes);
    /* Called after each answer; may be NULL; false: stop. */
    bool (*on_answer)(void *user, const ig_generated *made);
    void *user;
    ig_generate_options generate; /* except the prompt; max_tokens 0: 1024 */
} ig_input_session;

/* Runs until there are no more prompts, a callback stops it, or an error occurs. */
IG_API IG_MUST_CHECK ig_status ig_input_session_run(ig_adapter *adapter,
                                                    const ig_input_session *input);

#ifdef __cplusplus
}
#endif
#endif
