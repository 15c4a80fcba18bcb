/*
 * models.h - the models of a server: loaded, shared by requests, and unloaded.
 *
 *     acquire -> READY     the caller holds the model until it releases it
 *             -> LOADING   notify() is called once when that has changed: acquire again
 *             -> FAILED    status and message of the load
 *             -> UNKNOWN   no model has that name
 *             -> UNLOADED  it exists, and `load` was false
 *
 * A loader thread loads one model at a time, first come, first served.  If a byte limit is set, it
 * first unloads the least recently used models that are neither held nor pinned.  Concurrent
 * requests for a model share one load; a load that has lost all its waiters before it began is
 * dropped.  All functions may be called from any thread.
 */
#ifndef IG_SERVER_MODELS_H
#define IG_SERVER_MODELS_H

#include "ingot/chat.h"
#include "ingot/engine.h"

typedef struct ig_models ig_models;

/* A loaded model; constant while it is held. */
typedef struct ig_served {
    const char *id, *path, *device;
    ig_engine *engine;
    const ig_adapter *adapter; /* properties alone: calls that compute go through the engine */
    const ig_ctx *ctx;         /* for the functions of ig_engine_call() alone */
    const ig_tokenizer *tokenizer;
    const ig_chat_template *chat; /* NULL: the model's cannot be used */
    const char *chat_error;       /* why not */
    const char *chat_text;        /* its Jinja text, or the name of a built-in one; "": none */
    ig_sampling sampling;         /* defaults of the file; 0 where it has none */
    int64_t created;              /* seconds since 1970: of the file */
    int64_t ctx_len, ctx_train, n_params, n_vocab, d_model;
    uint64_t file_bytes;
    const char *quantization; /* as in "Q4_K_M"; "" if unknown */
    bool can_generate, can_rerank;
    double load_ms;
} ig_served;

typedef enum ig_served_state {
    IG_SERVED_UNKNOWN,
    IG_SERVED_UNLOADED,
    IG_SERVED_LOADING,
    IG_SERVED_READY,
    IG_SERVED_FAILED,
} ig_served_state;

/* ---- the list ---- */

/* Strings are borrowed for the lifetime of the models.  0 and NULL: the default. */
typedef struct ig_models_options {
    ig_ctx_options ctx;     /* of each model's context.  The loader thread and the engines call its
                               callbacks; it creates and destroys the contexts */
    ig_model_options model; /* of GGUF files */
    ig_engine_options engine;                      /* its log() and user are the context's */
    ig_status (*prepare)(void *user, ig_ctx *ctx); /* called before a model is loaded with the
                                                      context's user, to register architectures.
                                                      NULL: no callback */
    const char *chat_template; /* a built-in one's name, or a file: the models' own */
    const char *arch;          /* any */
    uint64_t bytes;            /* memory limit for loaded models: no limit */
    const char *pin;           /* names of models that are never unloaded, comma-separated, or
                                  "all": none */
    double room_timeout_s;     /* a load waits this long for models in use: 60 */
    double idle_unload_s;      /* unload models that were not held for this long: never */
    bool is_strict;            /* unknown names do not match the only model */
    bool no_warmup;            /* skip the warm-up run of a loaded model */
    const ig_allocator *allocator;
} ig_models_options;

/* The list is empty, and its loader thread runs.  The caller owns it. */
IG_MUST_CHECK ig_status ig_models_create(const ig_models_options *options, ig_models **out);
/* Ends the current load and all jobs of all engines with IG_ERR_CANCELLED, and allows no more
 * loads.
 */
void ig_models_cancel(ig_models *models);
/* Cancels and unloads all; no model may be held.  NULL is a no-op. */
void ig_models_destroy(ig_models *models);

typedef struct ig_models_entry {
    const char *path;
    const char *names; /* the id, and aliases after it, separated by commas; NULL: the file's name
                          without its extension */
    bool is_pinned;
} ig_models_entry;
/* Adds a model without loading it.  IG_ERR_ARGUMENT: the name is taken; IG_ERR_IO, IG_ERR_FORMAT:
 * the file is not a model. */
IG_MUST_CHECK ig_status ig_models_add(ig_models *models, const ig_models_entry *entry);
/* Adds the .gguf and .oam files of a directory and its subdirectories (as "directory/name") that
 * are not in the list.  Call it again to refresh: deleted files leave the list once they are
 * unloaded.
 */
IG_MUST_CHECK ig_status ig_models_add_folder(ig_models *models, const char *path);

/* IG_ERR_ARGUMENT: the `pin` of the options has a name that no model has. */
IG_MUST_CHECK ig_status ig_models_check_pin(const ig_models *models);

/* ---- requests ---- */

/* A caller that waits for a model; the caller's memory, which must stay until notify() was called
 * or the wait was dropped. */
typedef struct ig_models_waiter {
    struct ig_models_waiter *next; /* of the list that it is in */
    void (*notify)(void *user);    /* by the loader thread; must not call ig_models_*() */
    void *user;
    bool is_listed;
} ig_models_waiter;

/* `name` is an id or an alias; NULL or "" is the only model, or the first.  Where the server has
 * one model and --strict-model was not given, every name is it.  `waiter` may be NULL: no notice.
 * FAILED: the thread's error is that of the load. */
ig_served_state ig_models_acquire(ig_models *models, const char *name, bool load,
                                  ig_models_waiter *waiter, ig_served **out);
void ig_models_release(ig_models *models, ig_served *served); /* NULL is a no-op */
/* Holds a model if it is loaded, which does not count as use.  NULL: it is not. */
ig_served *ig_models_peek(ig_models *models, const char *name);
void ig_models_end_peek(ig_models *models, ig_served *served); /* NULL is a no-op */
void ig_models_drop_waiter(ig_models *models, ig_models_waiter *waiter);

/* ---- operations ---- */

/* Queues a load, also of a model that failed before.  IG_ERR_ARGUMENT: unknown. */
IG_MUST_CHECK ig_status ig_models_load(ig_models *models, const char *name);
/* Unloads once the model is no longer held.  IG_ERR_ARGUMENT: unknown, or pinned. */
IG_MUST_CHECK ig_status ig_models_unload(ig_models *models, const char *name);
/* Waits until no load is running or queued; false: the timeout has passed. */
bool ig_models_settle(ig_models *models, double timeout_ms);

/* What lists show; strings are valid while the server runs. */
typedef struct ig_models_row {
    const char *id, *path, *device;
    const char *const *aliases; /* ends with NULL */
    ig_served_state state;
    ig_status status; /* FAILED */
    char error[256];  /* FAILED */
    bool is_pinned;
    bool is_condemned; /* is unloaded once it is no longer held */
    double progress;   /* LOADING: 0 to 1 */
    int64_t n_held, created;
    uint64_t bytes; /* of memory while loaded, of the file otherwise */
    uint64_t file_bytes;
    const char *quantization; /* "" until it was loaded once */
    /* 0 until it was loaded once. */
    int64_t ctx_len, ctx_train, n_params, n_vocab;
    uint64_t kv_bytes;
    double load_ms, idle_ms;
} ig_models_row;
/* Row i, false: there are no more.  Never waits for a load. */
bool ig_models_list(ig_models *models, size_t i, ig_models_row *out);
/* The same of a name that ig_models_acquire() takes. */
bool ig_models_find(ig_models *models, const char *name, ig_models_row *out);
/* Statistics of row i: counters include previous engines of the model and exclude warm-up runs;
 * gauges are those of the current engine, 0 without one. */
bool ig_models_stats(ig_models *models, size_t i, ig_engine_stats *out);

#endif
