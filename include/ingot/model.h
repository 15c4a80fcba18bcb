/*
 * model.h - models by name: create, train, generate, save, load.
 *
 * All that an application needs: it never sees a model's insides, and the same
 * calls serve every architecture.  `ingot train`, `chat` and `generate` are
 * written against this header alone.
 */
#ifndef INGOT_MODEL_H
#define INGOT_MODEL_H

#include "ingot/context.h"
#include "ingot/grad.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_adapter ig_adapter;
typedef struct ig_session ig_session; /* session.h */

/* What a model is.  Zero means the architecture's own default. */
typedef struct ig_model_config {
    int64_t d_model, n_layers, n_heads, n_kv_heads, d_ff;
    int64_t ctx_len;       /* the longest text it is made for, in tokens */
    const char *tokenizer; /* "byte" (NULL), "char", or "bpe:8192" for so many merges */
    const void *sample;    /* what char and bpe learn from; only looked at in create */
    size_t sample_bytes;
} ig_model_config;

/* The architectures there are, "llm" first; NULL behind the last.  Those that are trained here come
 * first; the others are read from GGUF files.  Texts belong to the library and stay. */
IG_API const char *ig_arch_name(size_t i);
IG_API const char *ig_arch_description(size_t i);
IG_API bool ig_arch_is_trained(size_t i);
/* That name, of one as people write it ("OaLlm" is "llm"), lent; NULL: the error lists the known.
 */
IG_API const char *ig_arch_resolve(const char *name);

/* Makes a model with weights drawn from the context's seed.  The name is taken as
 * ig_arch_resolve() takes it.  The caller owns the adapter; the context must outlive it.  NULL
 * config: all defaults. */
IG_API IG_MUST_CHECK ig_status ig_adapter_create(ig_ctx *ctx, const char *arch,
                                                 const ig_model_config *config, ig_adapter **out);
/* Makes the model that a file holds.  A .oam file has been trained here, and training goes on with
 * the optimiser's state if the file has it; a .gguf file is read only. */
IG_API IG_MUST_CHECK ig_status ig_adapter_load(ig_ctx *ctx, const char *path, ig_adapter **out);
IG_API void ig_adapter_destroy(ig_adapter *adapter);

/* What the model is; texts are lent as long as the adapter is there. */
IG_API const char *ig_adapter_architecture(const ig_adapter *adapter);
IG_API ig_model_config ig_adapter_config(const ig_adapter *adapter); /* resolved; texts are lent */
IG_API int64_t ig_adapter_param_count(const ig_adapter *adapter);    /* numbers, not tensors */
IG_API int64_t ig_adapter_vocabulary(const ig_adapter *adapter);
IG_API bool ig_adapter_makes_text(const ig_adapter *adapter); /* or embeddings alone, as bert */
IG_API const char *ig_adapter_progress(const ig_adapter *adapter); /* as it was saved; "{}": new */

/* The weights do not change any more: training fails, and devices that compile may keep them in a
 * form of their own. */
IG_API IG_MUST_CHECK ig_status ig_adapter_freeze(ig_adapter *adapter);

/* Saves weights, optimiser and progress, a JSON object of the application's (NULL: "{}").  The file
 * is replaced whole or not at all. */
IG_API IG_MUST_CHECK ig_status ig_adapter_save(ig_adapter *adapter, const char *path,
                                               const char *progress);

/* Saves the weights alone, a third of the bytes: a model to talk to, not to train on. */
IG_API IG_MUST_CHECK ig_status ig_adapter_export(ig_adapter *adapter, const char *path);

/* ---- models of GGUF files ---- */

/*
 * What a file holds, without a context: it does not change once it is loaded, may
 * be used by any number of threads, and adapters in several contexts share its one
 * set of weights.  References are counted; an adapter holds one.
 */
typedef struct ig_model ig_model;

typedef struct ig_model_options {
    bool no_map; /* read the file into memory instead of mapping it */
    bool lock;   /* keep the weights in memory: the system may not page them out */
    const char
        *pre;     /* the rule that splits text before it is tokenised; NULL: what the file says */
    bool no_pack; /* read weights as they lie in the file, whatever layout a device would like */
    ig_allocator allocator; /* both functions or neither; outlives the model */
    /* As a context's: "load" is how many bytes have been read, where the file is not mapped only.
     * Either may be NULL. */
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);
    bool (*cancel)(void *user);
    void *user; /* of these two */
} ig_model_options;

/* NULL options: defaults.  The caller owns the reference.  A file that is no GGUF file, an unknown
 * architecture, a missing tensor or one of a wrong shape is an error that names it. */
IG_API IG_MUST_CHECK ig_status ig_model_load(const char *path, const ig_model_options *options,
                                             ig_model **out);
/* One more reference, to be released by whoever took it. */
IG_API ig_model *ig_model_retain(ig_model *model);
IG_API void ig_model_release(ig_model *model); /* NULL is fine */

/* The model in a context, which must outlive the adapter.  The caller owns the adapter. */
IG_API IG_MUST_CHECK ig_status ig_adapter_from_model(ig_ctx *ctx, ig_model *model,
                                                     ig_adapter **out);

/* Text to tokens and back.  encode writes at most `room` ids and returns through `out` how many
 * there are in all; decode likewise with bytes. */
IG_API IG_MUST_CHECK ig_status ig_adapter_encode(const ig_adapter *adapter, const char *text,
                                                 size_t bytes, int32_t *ids, size_t room,
                                                 size_t *out);
/* The same as a prompt is encoded: with the token that the model's file wants before a text,
 * without the one behind it, as the model shall go on, and with names of control tokens taken for
 * these. */
IG_API IG_MUST_CHECK ig_status ig_adapter_encode_prompt(const ig_adapter *adapter, const char *text,
                                                        size_t bytes, int32_t *ids, size_t room,
                                                        size_t *out);
IG_API IG_MUST_CHECK ig_status ig_adapter_decode(const ig_adapter *adapter, const int32_t *ids,
                                                 size_t count, char *text, size_t room,
                                                 size_t *out);

/* ---- training ---- */

typedef struct ig_train_options {
    double rate;         /* of this step; 3e-4 */
    double weight_decay; /* 0.01; below 0: none.  Taken from the first step on */
    double clip;         /* joint norm of the gradients; 0: not limited */
    bool accumulate;     /* keeps the gradient for the next call: no update yet */
    int accumulated;     /* calls that the update at hand sums up, itself included; 0 is 1 */
} ig_train_options;

/* What matmuls and attention are given: IG_F32, or IG_BF16, to which inputs and weights are
 * rounded. Weights as they are kept, gradients, moments, sums, norms and the loss are F32 in any
 * case. */
IG_API IG_MUST_CHECK ig_status ig_adapter_set_compute(ig_adapter *adapter, ig_dtype dtype);

/*
 * One step on rows of tokens, [batch, ctx + 1]: each is predicted from those
 * before it in its row.  `out_loss` is the mean cross entropy, in nats.  Where it
 * or the gradients' norm is no finite number, nothing is updated: the call fails
 * with IG_ERR_NUMBER, and the words name the op at which that began.
 */
IG_API IG_MUST_CHECK ig_status ig_adapter_train(ig_adapter *adapter, const int32_t *tokens,
                                                int64_t batch, int64_t ctx,
                                                const ig_train_options *options, double *out_loss);

/* The same loss, without learning from it. */
IG_API IG_MUST_CHECK ig_status ig_adapter_evaluate(ig_adapter *adapter, const int32_t *tokens,
                                                   int64_t batch, int64_t ctx, double *out_loss);
IG_API int64_t ig_adapter_steps(const ig_adapter *adapter); /* updates so far */

/* ---- generation ---- */

/* What is added to a token's logit; minus infinity: it never comes. */
typedef struct ig_logit_bias {
    int32_t token;
    float bias;
} ig_logit_bias;

/* Zero is the default, as llama.cpp has them. */
typedef struct ig_sampling {
    double temperature;    /* 0.8; below 0: always the likeliest token */
    int top_k;             /* 40; below 0: all */
    double top_p, min_p;   /* 0.95, 0.05; below 0: off */
    double repeat_penalty; /* 1: none */
    int repeat_last;       /* 64 tokens are looked back at */
    uint64_t seed;
    double typical_p;            /* 1: off; the share of those whose surprise is nearest the mean */
    double frequency_penalty;    /* 0; taken off for each time that a token was looked back at */
    double presence_penalty;     /* 0; taken off once, if it was */
    int mirostat;                /* 0: off; 2: version 2, in place of all cut-offs */
    double mirostat_tau;         /* 5: the surprise to aim at, in bits */
    double mirostat_eta;         /* 0.1: how fast it is steered */
    const ig_logit_bias *biases; /* lent while a sampler is made */
    size_t n_biases;
} ig_sampling;

typedef struct ig_generate_options {
    const char *prompt;
    size_t prompt_bytes;
    const int32_t *tokens; /* the prompt as tokens instead, if there are any */
    size_t n_tokens;
    bool plain;         /* names of control tokens in the prompt are nothing but text */
    bool ignore_end;    /* go on although the model says that its text ends */
    int64_t max_tokens; /* as many as fit into the context */
    ig_sampling sampling;
    const char *const *stop; /* ends before the first of these */
    size_t n_stop;
    /* Where the text goes on: behind what a sequence of this session holds.  NULL: in a session of
     * the adapter's own, which begins anew with each prompt. */
    ig_session *session;
    int32_t sequence;
    /* Guessing ahead: where the last `guess_ngram` tokens stood before, what followed there is
     * taken for what comes next, `guess_most` tokens at most (0: 7), and read together with the
     * token at hand.  The text is the same, to the bit; where it repeats itself, it comes faster.
     * 0: off. */
    int64_t guess_ngram, guess_most;
    /* Called for every piece of text, whole UTF-8 sequences only; false: enough. */
    bool (*emit)(void *user, const char *text, size_t bytes);
    /* Called for every token, before its text, with the logits it was drawn from; may be NULL. */
    void (*token)(void *user, int32_t id, const float *logits);
    void *user;
} ig_generate_options;

typedef enum ig_finish { IG_FINISH_LENGTH, IG_FINISH_STOP, IG_FINISH_CALLER } ig_finish;

/* What was made, and how long that took.  The first token comes out of the prompt: the time of the
 * others, n_tokens - 1, is that from first_token_ms on, decode_ms - (first_token_ms - prefill_ms).
 * Plans are made, and weights packed, when they are first needed, which the times have in them. */
typedef struct ig_generated {
    int64_t n_prompt, n_tokens; /* read and made */
    int64_t n_guessed, n_guessed_right;
    ig_finish finish;
    double prefill_ms, decode_ms;      /* one behind the other */
    double first_token_ms;             /* prefill_ms, and drawing the token */
    double tokenize_ms, detokenize_ms; /* parts of these: of the prompt, and of what was made */
    double prefill_plan_ms, decode_plan_ms; /* parts of these, too: for plans and packing */
} ig_generated;

/* Continues the prompt.  One that does not fit into the context is an error with both numbers. */
IG_API IG_MUST_CHECK ig_status ig_adapter_generate(ig_adapter *adapter,
                                                   const ig_generate_options *options,
                                                   ig_generated *out);

/* How likely tokens were to the model, whatever the sampling makes of it.  Logits that are no
 * numbers count as impossible. */
typedef struct ig_logprob {
    int32_t token;
    double logprob; /* natural; 0 is certain */
} ig_logprob;
IG_API double ig_logits_logprob(const float *logits, int64_t vocabulary, int32_t token);
/* The likeliest, at most `room` of them, the likeliest first; returns how many. */
IG_API size_t ig_logits_top(const float *logits, int64_t vocabulary, ig_logprob *out, size_t room);

/* ---- embeddings ---- */

typedef enum ig_pooling {
    IG_POOL_AS_FILE, /* what the file says; else the mean, of models that make text the last */
    IG_POOL_MEAN,
    IG_POOL_CLS, /* the first token's */
    IG_POOL_LAST,
} ig_pooling;

/* A text as a vector [d_model] of length 1: ig_session_embed() in a session of the adapter's own,
 * with default options. */
IG_API IG_MUST_CHECK ig_status ig_adapter_embed(ig_adapter *adapter, const char *text, size_t bytes,
                                                ig_pooling pooling, float *out,
                                                int64_t *out_tokens);

/* ---- an application's skeleton ---- */

/* init once, tick until it says that it is done or fails, shutdown always. */
typedef struct ig_app {
    ig_status (*init)(void *self);
    ig_status (*tick)(void *self, bool *done);
    void (*shutdown)(void *self);
    void *self;
} ig_app;

/* Runs it to its end; the first failure of any of the three. */
IG_API IG_MUST_CHECK ig_status ig_app_run(const ig_app *app);

#ifdef __cplusplus
}
#endif
#endif
