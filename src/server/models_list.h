/*
 * models_list.h - what models.c, models_loader.c and models_folder.c share: the list of models and
 * its lock.
 */
#ifndef IG_SERVER_MODELS_LIST_H
#define IG_SERVER_MODELS_LIST_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/served_model.h"

enum { IG_MODELS_ALIASES = 8 }; /* names of a model, at most */

/* A model of the list; it stays as long as the list does. */
typedef struct ig_model_entry {
    ig_models *models;
    const char *names[IG_MODELS_ALIASES + 1]; /* the id, then aliases; ends with NULL */
    char *path, *text;                        /* of the names */
    bool is_pinned, is_of_folder, is_gone;
    ig_served_state state;
    uint64_t queued;   /* its turn among the requested loads; 0: not requested */
    double queued_ms;  /* when it was */
    bool is_demanded;  /* by ig_models_load(): loaded even without waiters */
    bool is_condemned; /* to be unloaded when it is released */
    bool is_leaving;   /* being unloaded */
    int64_t n_held;
    ig_models_waiter *waiters;
    ig_served_model *model; /* READY */
    ig_status status;       /* FAILED */
    char error[256];
    double failed_ms, used_ms;
    uint64_t file_bytes, bytes; /* bytes: of memory when it was loaded last; 0: it never was */
    int64_t created;
    char device[64], quantization[24];
    ig_models_row sizes;       /* of the last load */
    ig_engine_stats counted;   /* by its earlier engines, less warm-ups */
    atomic_bool is_closing;    /* its jobs have ended, and its prefix cache is stored */
    atomic_uint progress;      /* of the load, per mille */
    _Atomic uint64_t alive_ns; /* ig_clock_ns() of the last progress callback */
} ig_model_entry;

struct ig_models {
    ig_models_options options;
    pthread_mutex_t lock; /* of all that follows; never held while a model is loaded or unloaded */
    pthread_cond_t wake;  /* the loader thread has work */
    pthread_cond_t settled; /* a load has ended */
    pthread_t thread;
    bool has_thread;
    atomic_bool is_cancelled, is_stopping;
    ig_model_entry **entries;
    size_t n_entries, room;
    uint64_t n_queued; /* turns given so far */
    ig_model_entry *loading;
};

/* Adds a model of --model, or of a folder. */
IG_MUST_CHECK ig_status ig_models_put(ig_models *models, const ig_models_entry *entry,
                                      bool of_folder);

void ig_models_lock(const ig_models *models);
void ig_models_unlock(const ig_models *models);

/* All of these with the lock held. */
ig_model_entry *ig_models_look_up(ig_models *models, const char *name);
void ig_models_enqueue(ig_model_entry *entry);
bool ig_models_is_shown(const ig_model_entry *entry);

/* The loader thread; `user` is the list. */
void *ig_models_run(void *user);

#endif
