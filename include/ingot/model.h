/*
 * model.h - models by name: create, train, generate, save, load.
 *
 * The interface for applications: the same calls serve every architecture.  `ingot train`, `chat`
 * and `generate` are written against this header alone.
 */
#ifndef INGOT_MODEL_H
#define INGOT_MODEL_H

#include "ingot/context.h"
#include "ingot/grad.h"
#include "ingot/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_adapter ig_adapter;
typedef struct ig_session ig_session;       /* session.h */
typedef struct ig_production ig_production; /* arch.h */

/* Size of a model.  0: the architecture's default. */
typedef struct ig_model_config {
    int64_t d_model, n_layers, n_heads, n_kv_heads, d_ff;
    int64_t ctx_len;       /* maximum context length, in tokens */
    const char *tokenizer; /* "byte" (NULL), "char", or "bpe:8192" with the number of merges */
    const void *sample;    /* training text of char and bpe; used by create only */
    size_t sample_bytes;
} ig_model_config;

/* The built-in architectures, "llm" first; NULL after the last.  Trainable ones come first; the
 * others are loaded from GGUF files.  Static strings. */
IG_API const char *ig_arch_name(size_t i);
IG_API const char *ig_arch_description(size_t i);
IG_API bool ig_arch_is_trainable(size_t i);
/* The canonical name for any spelling ("OaLlm" is "llm"), borrowed; NULL: the error lists the known
 * names.  `ctx` adds the architectures that are registered with it (arch.h); NULL: none. */
IG_API const char *ig_arch_resolve(const ig_ctx *ctx, const char *name);

/* Creates a model with weights initialized from the context's seed.  The name is resolved as by
 * ig_arch_resolve().  The caller owns the adapter; the context must outlive it.  NULL config: all
 * defaults. */
IG_API IG_MUST_CHECK ig_status ig_adapter_create(ig_ctx *ctx, const char *arch,
                                                 const ig_model_config *config, ig_adapter **out);
/* Loads a model from a file.  Training can resume from a .oam file, with the optimizer's state if
 * the file has it; a .gguf file is for inference only. */
IG_API IG_MUST_CHECK ig_status ig_adapter_load(ig_ctx *ctx, const char *path, ig_adapter **out);
IG_API void ig_adapter_destroy(ig_adapter *adapter);

/* Properties of the model; strings are borrowed from the adapter. */
IG_API const char *ig_adapter_architecture(const ig_adapter *adapter);
IG_API ig_model_config ig_adapter_config(const ig_adapter *adapter); /* resolved */
IG_API int64_t ig_adapter_param_count(const ig_adapter *adapter);    /* elements, not tensors */
IG_API int64_t ig_adapter_vocab_size(const ig_adapter *adapter);
IG_API bool
ig_adapter_can_generate(const ig_adapter *adapter); /* false: embeddings only, as bert */
IG_API const char *ig_adapter_progress(const ig_adapter *adapter); /* as saved; "{}": new */

/* Makes the weights constant: training fails, and devices may pack them. */
IG_API IG_MUST_CHECK ig_status ig_adapter_freeze(ig_adapter *adapter);

/* Saves weights, optimizer and progress, a JSON object of the application (NULL: "{}").  Replaces
 * the file atomically. */
IG_API IG_MUST_CHECK ig_status ig_adapter_save(ig_adapter *adapter, const char *path,
                                               const char *progress);

/* Saves the weights alone, a third of the size: for inference, not for further training. */
IG_API IG_MUST_CHECK ig_status ig_adapter_export(ig_adapter *adapter, const char *path);

/* What a path is, by the bytes that it begins with. */
typedef enum ig_file_kind {
    IG_FILE_OTHER,  /* also one that cannot be read */
    IG_FILE_GGUF,   /* a model, for inference only */
    IG_FILE_OAM,    /* a checkpoint of ours */
    IG_FILE_FOLDER, /* a directory: maybe of a model hub, which ig_convert() reads */
} ig_file_kind;
IG_API ig_file_kind ig_file_kind_of(const char *path);

/* ---- models of GGUF files, and in memory ---- */

/*
 * A loaded model without a context: immutable and thread-safe.  Adapters in several
 * contexts share its weights.  Reference-counted; an adapter holds a reference.
 */
typedef struct ig_model ig_model;

typedef struct ig_model_options {
    bool no_mmap;              /* read the file into memory instead of mapping it */
    bool mlock;                /* lock the weights in memory */
    const char *pre_tokenizer; /* the rule that splits text before it is tokenized; NULL: what the
                                  file says */
    bool no_pack;              /* use weights in the layout of the file, without packing */
    ig_allocator allocator;    /* both functions or neither; outlives the model */
    /* As in ig_ctx_options, with IG_PROGRESS_LOAD if the file is not mapped.  NULL: no callback. */
    void (*progress)(void *user, ig_progress_event event, uint64_t done, uint64_t total);
    bool (*cancel)(void *user);
    void *user; /* of these two */
} ig_model_options;

/* NULL options: defaults.  The caller owns the reference.  Errors name an invalid GGUF file, an
 * unknown architecture, and a tensor that is missing or has the wrong shape. */
IG_API IG_MUST_CHECK ig_status ig_model_load(const char *path, const ig_model_options *options,
                                             ig_model **out);

/* A tensor in the caller's memory: row-major, without gaps. */
typedef struct ig_named_tensor {
    const char *name; /* as in Hugging Face: "model.layers.0.self_attn.q_proj.weight" */
    ig_desc desc;     /* F32, F16 or BF16 */
    const void *data;
} ig_named_tensor;

/* A model in memory: what a Hugging Face folder holds, without the folder.  Texts are borrowed
 * during the call. */
typedef struct ig_model_source {
    const char *name;      /* for messages; NULL: "model" */
    const char *config;    /* config.json */
    const char *tokenizer; /* tokenizer.json; NULL: token ids only, the model has no tokenizer */
    const char *tokenizer_config, *generation_config; /* *.json; NULL: none */
    const ig_named_tensor *tensors;                   /* the array is borrowed during the call */
    size_t n_tensors;
    /* Called once no tensor is read any more, by the last release of the model, from any thread;
     * not if ig_model_create() fails.  NULL: no callback. */
    void (*release)(void *user);
    void *user;
} ig_model_source;

/*
 * Makes a model of tensors in memory, with the checks of ig_convert() and the results of its file.
 * Weights are used in place, where they must neither change nor move before release().
 * Those that Ingot keeps in another order (q and k of llama and mistral, the matrices of gpt2,
 * the norms of gemma, experts) and vectors of 16-bit floats are copied.  NULL options: defaults;
 * no_mmap and mlock are IG_ERR_ARGUMENT, progress and cancel are not called.  The
 * caller owns the reference.  IG_ERR_FORMAT names the key of the config, or the tensor and the
 * shape it must have.
 */
IG_API IG_MUST_CHECK ig_status ig_model_create(const ig_model_source *source,
                                               const ig_model_options *options, ig_model **out);
/* Bytes of the weights that ig_model_create() copied; 0 for models of files. */
IG_API uint64_t ig_model_copied_bytes(const ig_model *model);

/* Adds a reference, which the caller owns and releases. */
IG_API ig_model *ig_model_retain(ig_model *model);
IG_API void ig_model_release(ig_model *model); /* NULL is a no-op */

/* Attaches the model to a context, which must outlive the adapter.  The caller owns the adapter. */
IG_API IG_MUST_CHECK ig_status ig_adapter_from_model(ig_ctx *ctx, ig_model *model,
                                                     ig_adapter **out);

/* Opens a model file of either kind for inference: its weights are constant.  Without progress and
 * cancel of their own, the options use the context's.  NULL options: all defaults; those that
 * concern GGUF files alone are IG_ERR_ARGUMENT for another file.  The caller owns the adapter; the
 * context must outlive it. */
IG_API IG_MUST_CHECK ig_status ig_adapter_open(ig_ctx *ctx, const char *path,
                                               const ig_model_options *options, ig_adapter **out);

/* The model's tokenizer, borrowed from the adapter: see tokenizer.h.  NULL: it was created without
 * one (ig_model_create()), and takes and returns token ids only. */
IG_API const ig_tokenizer *ig_adapter_tokenizer(const ig_adapter *adapter);

/* ---- training ---- */

typedef struct ig_train_options {
    double lr;           /* learning rate of this step; 3e-4 */
    double weight_decay; /* 0.01; below 0: none.  Fixed by the first step */
    double clip_norm;    /* maximum global gradient norm; 0: no clipping */
    bool accumulate;     /* adds to the gradient without an update */
    int n_accumulated;   /* calls summed by this update, this one included; 0: 1 */
} ig_train_options;

/* Compute dtype of matmuls and attention: IG_F32, or IG_BF16, which rounds their inputs and
 * weights. Master weights, gradients, moments, accumulation, norms and the loss stay F32. */
IG_API IG_MUST_CHECK ig_status ig_adapter_set_compute_dtype(ig_adapter *adapter, ig_dtype dtype);

/*
 * One training step on tokens [batch, ctx + 1]: predicts each token from those before
 * it.  `out_loss` is the mean cross entropy, in nats.  If the loss or the gradient norm
 * is NaN or Inf, nothing is updated and the call fails with IG_ERR_NOT_FINITE, naming
 * the first such op.
 */
IG_API IG_MUST_CHECK ig_status ig_adapter_train(ig_adapter *adapter, const int32_t *tokens,
                                                int64_t batch, int64_t ctx,
                                                const ig_train_options *options, double *out_loss);

/*
 * Trains by the production route from now on: dispatches written by hand (arch.h)
 * instead of modules and autograd.  NULL: the architecture's own table.  Init for batches
 * of `batch` sequences of `ctx` tokens happens here, so no ig_adapter_train() of these
 * sizes and this clip_norm allocates memory; other sizes repeat Init.  Files are the same
 * by every route.  Refused: a model without the route, a compute dtype other than F32,
 * and accumulation.  NULL options: defaults.
 */
IG_API IG_MUST_CHECK ig_status ig_adapter_use_production(ig_adapter *adapter,
                                                         const ig_production *production,
                                                         int64_t batch, int64_t ctx,
                                                         const ig_train_options *options);
/* Whether it is made of modules, and so trains by the easy and the replay route, too. */
IG_API bool ig_adapter_has_modules(const ig_adapter *adapter);

/* The same loss, without training. */
IG_API IG_MUST_CHECK ig_status ig_adapter_evaluate(ig_adapter *adapter, const int32_t *tokens,
                                                   int64_t batch, int64_t ctx, double *out_loss);
IG_API int64_t ig_adapter_steps(const ig_adapter *adapter); /* updates so far */

/* ---- generation ---- */

/* Added to a token's logit; minus infinity bans the token. */
typedef struct ig_logit_bias {
    int32_t token;
    float bias;
} ig_logit_bias;

/* 0: the default, as in llama.cpp. */
typedef struct ig_sampling {
    double temperature;    /* 0.8; below 0: greedy */
    int top_k;             /* 40; below 0: all */
    double top_p, min_p;   /* 0.95, 0.05; below 0: off */
    double repeat_penalty; /* 1: off */
    int repeat_last_n;     /* 64: tokens that penalties look back at */
    uint64_t seed;
    uint64_t stream;          /* 0; equal seeds give other random numbers in another stream */
    double typical_p;         /* 1: off; locally typical sampling */
    double frequency_penalty; /* 0; subtracted per occurrence of the token */
    double presence_penalty;  /* 0; subtracted once if the token occurred */
    int mirostat;             /* 0: off; 2: version 2, replaces top-k, top-p, min-p and typical */
    double mirostat_tau;      /* 5: target surprise, in bits */
    double mirostat_eta;      /* 0.1: step size */
    const ig_logit_bias *biases; /* borrowed while a sampler is created */
    size_t n_biases;
} ig_sampling;

/* Checks every option, as generating with a vocabulary of that size would: IG_ERR_ARGUMENT names
 * the option and its range.  NULL: all defaults. */
IG_API IG_MUST_CHECK ig_status ig_sampling_check(const ig_sampling *sampling, int64_t vocabulary);

enum { IG_DRAFT_MAX = 63 }; /* draft tokens per step, at most */

typedef struct ig_generate_options {
    const char *prompt;
    size_t prompt_bytes;
    const int32_t *prompt_tokens; /* the prompt as tokens instead of text */
    size_t n_prompt_tokens;
    bool no_parse_special; /* special tokens in the prompt are plain text */
    bool ignore_eos;       /* continue past EOS */
    int64_t max_tokens;    /* 0: until the context is full */
    ig_sampling sampling;
    const char *const *stop; /* stop strings: generation ends before the first match */
    size_t n_stop;
    /* The prompt is appended to a sequence of this session.  NULL: a session of the adapter,
     * cleared before each prompt. */
    ig_session *session;
    int32_t sequence;
    /* N-gram speculative decoding: where the last `draft_ngram` tokens occurred before, the tokens
     * that followed, at most `draft_max` (0: 7), are the draft that is verified together with the
     * current token.  Bit-identical output, faster where it repeats itself.  0: off. */
    int64_t draft_ngram, draft_max;
    /* Called for every piece of text, complete UTF-8 sequences only; false: stop. */
    bool (*emit)(void *user, const char *text, size_t bytes);
    /* Called before every token is sampled, with the tokens of the sequence and the logits that
     * follow them, which it may change.  NULL: no callback. */
    void (*edit)(void *user, const int32_t *tokens, int64_t n_tokens, float *logits);
    /* Called for every token, before its text, with the logits it was sampled from; may be NULL. */
    void (*token)(void *user, int32_t id, const float *logits);
    void *user;
} ig_generate_options;

typedef enum ig_finish { IG_FINISH_LENGTH, IG_FINISH_STOP, IG_FINISH_CANCELLED } ig_finish;

/* Result and timings of a generation.  Prefill yields the first token; the other n_generated - 1
 * take decode_ms - (first_token_ms - prefill_ms).  The times include planning and packing, which
 * happen on first use. */
typedef struct ig_generated {
    int64_t n_prompt_tokens, n_generated;
    int64_t n_drafted, n_accepted;
    ig_finish finish;
    double prefill_ms, decode_ms;           /* consecutive */
    double first_token_ms;                  /* prefill_ms and sampling the first token */
    double tokenize_ms, detokenize_ms;      /* included: of the prompt and of the output */
    double prefill_plan_ms, decode_plan_ms; /* included: planning and packing */
} ig_generated;

/* Generates a continuation of the prompt.  A prompt longer than the context is an error. */
IG_API IG_MUST_CHECK ig_status ig_adapter_generate(ig_adapter *adapter,
                                                   const ig_generate_options *options,
                                                   ig_generated *out);

/* Log-probabilities of the model, before sampling options.  NaN logits count as minus infinity. */
typedef struct ig_logprob {
    int32_t token;
    double logprob; /* natural logarithm */
} ig_logprob;
IG_API double ig_logits_logprob(const float *logits, int64_t vocabulary, int32_t token);
/* The `room` most likely tokens, in descending order; returns their number. */
IG_API size_t ig_logits_top(const float *logits, int64_t vocabulary, ig_logprob *out, size_t room);

/* ---- embeddings ---- */

typedef enum ig_pooling {
    IG_POOL_DEFAULT, /* as the file says; else the mean, or last for generative models */
    IG_POOL_MEAN,
    IG_POOL_CLS, /* first token */
    IG_POOL_LAST,
} ig_pooling;

/* Embeds a text as a unit vector [d_model]: ig_session_embed() in a session of the adapter with
 * default options. */
IG_API IG_MUST_CHECK ig_status ig_adapter_embed(ig_adapter *adapter, const char *text, size_t bytes,
                                                ig_pooling pooling, float *out,
                                                int64_t *out_tokens);

/* ---- application loop ---- */

/* Calls init once, tick until `done` or an error, and always shutdown. */
typedef struct ig_app {
    ig_status (*init)(void *self);
    ig_status (*tick)(void *self, bool *done);
    void (*shutdown)(void *self);
    void *self;
} ig_app;

/* Runs the application; returns the first error of the three functions. */
IG_API IG_MUST_CHECK ig_status ig_app_run(const ig_app *app);

#ifdef __cplusplus
}
#endif
#endif
