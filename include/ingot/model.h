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

/* What a model is.  Zero means the architecture's own default. */
typedef struct ig_model_config {
    int64_t d_model, n_layers, n_heads, n_kv_heads, d_ff;
    int64_t ctx_len;       /* the longest text it is made for, in tokens */
    const char *tokenizer; /* "byte" (NULL), "char", or "bpe:8192" for so many merges */
    const void *sample;    /* what char and bpe learn from; only looked at in create */
    size_t sample_bytes;
} ig_model_config;

/* The architectures there are, "llm" first; NULL behind the last. */
IG_API const char *ig_arch_name(size_t i);
IG_API const char *ig_arch_description(size_t i);
/* That name, of one as people write it ("OaLlm" is "llm"); NULL: the error lists the known. */
IG_API const char *ig_arch_resolve(const char *name);

/* Makes a model with weights drawn from the context's seed.  The name is taken as
 * ig_arch_resolve() takes it.  The caller owns the adapter; the context must outlive it.  NULL
 * config: all defaults. */
IG_API IG_MUST_CHECK ig_status ig_adapter_create(ig_ctx *ctx, const char *arch,
                                                 const ig_model_config *config, ig_adapter **out);
/* Makes the model that a .oam file holds.  Its weights lie in the mapped file until they are
 * written to; the optimiser's state, if the file has it, is read with the first step of training,
 * which then goes on, in a context of the file's seed. */
IG_API IG_MUST_CHECK ig_status ig_adapter_load(ig_ctx *ctx, const char *path, ig_adapter **out);
IG_API void ig_adapter_destroy(ig_adapter *adapter);

IG_API const char *ig_adapter_architecture(const ig_adapter *adapter);
IG_API ig_model_config ig_adapter_config(const ig_adapter *adapter); /* resolved; texts are lent */
IG_API int64_t ig_adapter_param_count(const ig_adapter *adapter);    /* numbers, not tensors */
IG_API int64_t ig_adapter_vocabulary(const ig_adapter *adapter);
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

/* Text to tokens and back.  encode writes at most `room` ids and returns through `out` how many
 * there are in all; decode likewise with bytes. */
IG_API IG_MUST_CHECK ig_status ig_adapter_encode(const ig_adapter *adapter, const char *text,
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

/*
 * One step on rows of tokens, [batch, ctx + 1]: each is predicted from those
 * before it in its row.  `out_loss` is the mean cross entropy, in nats.
 */
IG_API IG_MUST_CHECK ig_status ig_adapter_train(ig_adapter *adapter, const int32_t *tokens,
                                                int64_t batch, int64_t ctx,
                                                const ig_train_options *options, double *out_loss);

/* The same loss, without learning from it. */
IG_API IG_MUST_CHECK ig_status ig_adapter_evaluate(ig_adapter *adapter, const int32_t *tokens,
                                                   int64_t batch, int64_t ctx, double *out_loss);
IG_API int64_t ig_adapter_steps(const ig_adapter *adapter); /* updates so far */

/* ---- generation ---- */

/* Zero is the default, as llama.cpp has them. */
typedef struct ig_sampling {
    double temperature;    /* 0.8; below 0: always the likeliest token */
    int top_k;             /* 40; below 0: all */
    double top_p, min_p;   /* 0.95, 0.05; below 0: off */
    double repeat_penalty; /* 1: none */
    int repeat_last;       /* 64 tokens are looked back at */
    uint64_t seed;
} ig_sampling;

typedef struct ig_generate_options {
    const char *prompt;
    size_t prompt_bytes;
    int64_t max_tokens; /* as many as fit into the context */
    ig_sampling sampling;
    const char *const *stop; /* ends before the first of these */
    size_t n_stop;
    /* Called for every piece of text, whole UTF-8 sequences only; false: enough. */
    bool (*emit)(void *user, const char *text, size_t bytes);
    /* Called for every token, before its text; may be NULL. */
    void (*token)(void *user, int32_t id);
    void *user;
} ig_generate_options;

typedef enum ig_finish { IG_FINISH_LENGTH, IG_FINISH_STOP, IG_FINISH_CALLER } ig_finish;

typedef struct ig_generated {
    int64_t n_prompt, n_tokens; /* read and made */
    ig_finish finish;
    double prefill_ms, decode_ms, first_token_ms;
} ig_generated;

/* Continues the prompt.  One that does not fit into the context is an error with both numbers. */
IG_API IG_MUST_CHECK ig_status ig_adapter_generate(ig_adapter *adapter,
                                                   const ig_generate_options *options,
                                                   ig_generated *out);

/* ---- an application's skeleton ---- */

/* init once, tick until it says that it is done or fails, shutdown always. */
typedef struct ig_app {
    ig_status (*init)(void *self);
    ig_status (*tick)(void *self, bool *done);
    void (*shutdown)(void *self);
    void *self;
} ig_app;

IG_API IG_MUST_CHECK ig_status ig_app_run(const ig_app *app);

#ifdef __cplusplus
}
#endif
#endif
