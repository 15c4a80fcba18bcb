/*
 * models.h - the models of a server: loaded, shared by requests, and unloaded.
 *
 *     acquire -> READY     the caller holds the model until it releases it
 *             -> LOADING   notify() is called once when that has changed: acquire again
 *             -> FAILED    status and message of the load
 *             -> UNKNOWN   no model has that name
 *             -> UNLOADED  it exists, and `load` was false
 *
 * One loader thread loads one model at a time.  It first unloads the models that were idle longest,
 * until the new one fits the byte limit; pinned models, and those that are held, stay.  Requests
 * for a model that is being loaded share the load.  All calls are for any thread.
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
    const ig_tokenizer *tokenizer;
    const ig_chat_template *chat; /* NULL: the model has none */
    const char *chat_error;       /* why it has none */
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
void ig_models_drop_waiter(ig_models *models, ig_models_waiter *waiter);

/* Unloads once the model is no longer held.  IG_ERR_ARGUMENT: unknown, or pinned. */
IG_MUST_CHECK ig_status ig_models_unload(ig_models *models, const char *name);

/* What lists show; strings are valid while the server runs. */
typedef struct ig_models_row {
    const char *id, *path, *device;
    ig_served_state state;
    char error[256]; /* FAILED */
    bool is_pinned;
    double progress; /* LOADING: 0 to 1 */
    int64_t n_held, created;
    uint64_t bytes; /* of memory while loaded, of the file otherwise */
    /* 0 until it was loaded once. */
    int64_t ctx_len, ctx_train, n_params, n_vocab;
    double load_ms, idle_ms;
} ig_models_row;
/* Row i, false: there are no more.  Never waits for a load. */
bool ig_models_list(ig_models *models, size_t i, ig_models_row *out);

#endif
