#include "server/models.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "server/models_list.h"

void ig_models_lock(const ig_models *models) {
    pthread_mutex_lock((pthread_mutex_t *)&models->lock);
}
void ig_models_unlock(const ig_models *models) {
    pthread_mutex_unlock((pthread_mutex_t *)&models->lock);
}

/* ---- looking up ---- */

bool ig_models_is_shown(const ig_model_entry *e) {
    return !e->is_gone || e->model || e->queued > 0;
}

/* Whether it can be held. */
static bool is_open(const ig_model_entry *e) {
    return e->state == IG_SERVED_READY && !e->is_leaving;
}

static bool has_name(const ig_model_entry *e, const char *name) {
    for (size_t i = 0; e->names[i]; i++)
        if (strcmp(e->names[i], name) == 0) return true;
    return false;
}

ig_model_entry *ig_models_look_up(ig_models *models, const char *name) {
    ig_model_entry *first = NULL;
    size_t n_shown = 0;
    const bool any = !name || !*name;
    for (size_t i = 0; i < models->n_entries; i++) {
        ig_model_entry *e = models->entries[i];
        if (!ig_models_is_shown(e)) continue;
        if (!first) first = e;
        if (any || has_name(e, name)) return e;
        n_shown++;
    }
    return n_shown == 1 && !models->options.is_strict ? first : NULL;
}

static ig_model_entry *entry_of(const ig_models *models, const ig_served *served) {
    for (size_t i = 0; i < models->n_entries; i++)
        if (models->entries[i]->model == (const ig_served_model *)served) return models->entries[i];
    return NULL;
}

/* Row i of those that are shown. */
static ig_model_entry *row_at(const ig_models *models, size_t i) {
    for (size_t at = 0; at < models->n_entries; at++)
        if (ig_models_is_shown(models->entries[at]) && i-- == 0) return models->entries[at];
    return NULL;
}

/* ---- adding ---- */

/* Splits "id,alias,alias"; without names, the file's name without its extension is the id. */
static ig_status set_names(ig_model_entry *e, const ig_allocator *a, const char *names) {
    const char *slash = strrchr(e->path, '/');
    e->text = ig_copy_text(a, names && *names ? names : slash ? slash + 1 : e->path);
    if (!e->text) return IG_FAIL(IG_ERR_MEMORY, "models: %s", e->path);
    char *dot = strrchr(e->text, '.');
    if ((!names || !*names) && dot && dot > e->text) *dot = 0;
    size_t n = 0;
    char *rest = NULL;
    if (!names || !*names) {
        e->names[n++] = e->text;
        return IG_OK;
    }
    for (char *at = strtok_r(e->text, ",", &rest); at; at = strtok_r(NULL, ",", &rest)) {
        if (n == IG_MODELS_ALIASES)
            return IG_FAIL(IG_ERR_ARGUMENT, "models: %s has more than %d names", names,
                           IG_MODELS_ALIASES);
        e->names[n++] = at;
    }
    return n > 0 ? IG_OK : IG_FAIL(IG_ERR_ARGUMENT, "models: '%s' is no name", names);
}

static void entry_free(const ig_allocator *a, ig_model_entry *e) {
    if (!e) return;
    ig_free(a, e->text);
    ig_free(a, e->path);
    ig_free(a, e);
}

/* Models of folders stand after the others, in the order of their ids. */
static size_t place_of(const ig_models *models, const ig_model_entry *e) {
    size_t at = models->n_entries;
    while (e->is_of_folder && at > 0 && models->entries[at - 1]->is_of_folder &&
           strcmp(models->entries[at - 1]->names[0], e->names[0]) > 0)
        at--;
    return at;
}

/* With the lock held. */
static ig_status insert(ig_models *models, ig_model_entry *e) {
    for (size_t i = 0; i < models->n_entries; i++)
        for (size_t j = 0; e->names[j]; j++)
            if (has_name(models->entries[i], e->names[j]))
                return IG_FAIL(IG_ERR_ARGUMENT, "models: %s and %s have the same name '%s'",
                               models->entries[i]->path, e->path, e->names[j]);
    if (!IG_GROW(models->options.allocator, models->entries, &models->room, models->n_entries + 1))
        return IG_FAIL(IG_ERR_MEMORY, "models: %s", e->path);
    const size_t at = place_of(models, e);
    memmove(models->entries + at + 1, models->entries + at,
            (models->n_entries++ - at) * sizeof(ig_model_entry *));
    models->entries[at] = e;
    return IG_OK;
}

/* The next of comma-separated words, and its bytes; NULL: there is none. */
static const char *next_word(const char *at, size_t *n_bytes) {
    at += strspn(at, ", ");
    *n_bytes = strcspn(at, ", ");
    return *n_bytes > 0 ? at : NULL;
}

static bool is_called(const ig_model_entry *e, const char *word, size_t n_bytes) {
    for (size_t i = 0; e->names[i]; i++)
        if (strlen(e->names[i]) == n_bytes && memcmp(e->names[i], word, n_bytes) == 0) return true;
    return false;
}

static bool is_listed_in(const char *pin, const ig_model_entry *e) {
    size_t n = 0;
    if (pin && strcmp(pin, "all") == 0) return true;
    for (const char *at = pin ? next_word(pin, &n) : NULL; at; at = next_word(at + n, &n))
        if (is_called(e, at, n)) return true;
    return false;
}

ig_status ig_models_check_pin(const ig_models *models) {
    const char *pin = models->options.pin;
    size_t n = 0;
    if (!pin || strcmp(pin, "all") == 0) return IG_OK;
    for (const char *at = next_word(pin, &n); at; at = next_word(at + n, &n)) {
        size_t i = 0;
        while (i < models->n_entries && !is_called(models->entries[i], at, n)) i++;
        if (i == models->n_entries)
            return IG_FAIL(IG_ERR_ARGUMENT, "--pin: no model is named '%.*s'", (int)n, at);
    }
    return IG_OK;
}

static ig_status fill(ig_model_entry *e, const ig_allocator *a, const ig_models_entry *from) {
    e->path = ig_copy_text(a, from->path);
    if (!e->path) return IG_FAIL(IG_ERR_MEMORY, "models: %s", from->path);
    IG_TRY(set_names(e, a, from->names));
    e->is_pinned = from->is_pinned || is_listed_in(e->models->options.pin, e);
    return ig_served_model_check(e->path, &e->file_bytes, &e->created);
}

ig_status ig_models_put(ig_models *models, const ig_models_entry *from, bool of_folder) {
    const ig_allocator *a = models->options.allocator;
    ig_model_entry *e = ig_alloc(a, 1, sizeof *e);
    if (!e) return IG_FAIL(IG_ERR_MEMORY, "models: %s", from->path);
    e->models = models;
    e->is_of_folder = of_folder;
    e->state = IG_SERVED_UNLOADED;
    ig_status status = fill(e, a, from);
    if (status == IG_OK) {
        ig_models_lock(models);
        status = insert(models, e);
        ig_models_unlock(models);
    }
    if (status != IG_OK) entry_free(a, e);
    return status;
}

ig_status ig_models_add(ig_models *models, const ig_models_entry *entry) {
    return ig_models_put(models, entry, false);
}

/* ---- requests ---- */

void ig_models_enqueue(ig_model_entry *e) {
    if (e->queued > 0) return;
    e->queued = ++e->models->n_queued;
    e->queued_ms = ig_clock_ms();
    atomic_store(&e->progress, 0);
    if (e->state != IG_SERVED_READY) e->state = IG_SERVED_LOADING;
    pthread_cond_broadcast(&e->models->wake);
}

/* Out of memory and I/O errors may be temporary, so new requests retry the load after a while. */
static bool may_retry(const ig_model_entry *e) {
    enum { AGAIN_MS = 5000 };
    const bool passing =
        e->status == IG_ERR_MEMORY || e->status == IG_ERR_BUSY || e->status == IG_ERR_IO;
    return passing && ig_clock_ms() - e->failed_ms > AGAIN_MS;
}

static void add_waiter(ig_model_entry *e, ig_models_waiter *waiter) {
    if (!waiter || waiter->is_listed) return;
    waiter->next = e->waiters;
    waiter->is_listed = true;
    e->waiters = waiter;
}

static ig_served_state acquire(ig_model_entry *e, bool load, ig_models_waiter *waiter,
                               ig_served **out) {
    if (is_open(e) && !e->is_condemned) {
        e->n_held++;
        e->used_ms = ig_clock_ms();
        *out = &e->model->served;
        return IG_SERVED_READY;
    }
    const bool may_load = e->state != IG_SERVED_FAILED || may_retry(e);
    if (load && may_load) ig_models_enqueue(e);
    if (e->queued > 0 || e->models->loading == e) {
        add_waiter(e, waiter);
        return IG_SERVED_LOADING;
    }
    if (e->state == IG_SERVED_FAILED) (void)IG_FAIL(e->status, "%s", e->error);
    return e->state == IG_SERVED_READY ? IG_SERVED_UNLOADED : e->state;
}

ig_served_state ig_models_acquire(ig_models *models, const char *name, bool load,
                                  ig_models_waiter *waiter, ig_served **out) {
    ig_models_lock(models);
    ig_model_entry *e = ig_models_look_up(models, name);
    const ig_served_state state = e ? acquire(e, load, waiter, out) : IG_SERVED_UNKNOWN;
    ig_models_unlock(models);
    return state;
}

ig_served *ig_models_peek(ig_models *models, const char *name) {
    ig_served *served = NULL;
    ig_models_lock(models);
    ig_model_entry *e = ig_models_look_up(models, name);
    if (e && is_open(e)) {
        e->n_held++;
        served = &e->model->served;
    }
    ig_models_unlock(models);
    return served;
}

static void release(ig_models *models, const ig_served *served, bool was_used) {
    if (!served) return;
    ig_models_lock(models);
    ig_model_entry *e = entry_of(models, served);
    if (e && was_used) e->used_ms = ig_clock_ms();
    if (e && --e->n_held == 0) pthread_cond_broadcast(&models->wake);
    ig_models_unlock(models);
}

void ig_models_release(ig_models *models, ig_served *served) { release(models, served, true); }
void ig_models_end_peek(ig_models *models, ig_served *served) { release(models, served, false); }

static bool remove_waiter(ig_model_entry *e, ig_models_waiter *waiter) {
    for (ig_models_waiter **at = &e->waiters; *at; at = &(*at)->next)
        if (*at == waiter) {
            *at = waiter->next;
            return true;
        }
    return false;
}

/* Removes a load that has not begun and has no waiters from the queue. */
static void dequeue(ig_model_entry *e) {
    if (e->waiters || e->is_demanded || e->queued == 0 || e->models->loading == e) return;
    e->queued = 0;
    if (e->state == IG_SERVED_LOADING) e->state = IG_SERVED_UNLOADED;
    pthread_cond_broadcast(&e->models->settled);
}

void ig_models_drop_waiter(ig_models *models, ig_models_waiter *waiter) {
    ig_models_lock(models);
    for (size_t i = 0; waiter->is_listed && i < models->n_entries; i++)
        if (remove_waiter(models->entries[i], waiter)) {
            waiter->is_listed = false;
            dequeue(models->entries[i]);
        }
    ig_models_unlock(models);
}

/* ---- operations ---- */

static ig_status unknown(const char *name) {
    return IG_FAIL(IG_ERR_ARGUMENT, "models: no model is named '%.200s'", name ? name : "");
}

ig_status ig_models_load(ig_models *models, const char *name) {
    ig_status status = IG_OK;
    ig_models_lock(models);
    ig_model_entry *e = ig_models_look_up(models, name);
    if (!e) {
        status = unknown(name);
    } else if (!is_open(e) || e->is_condemned) {
        e->is_demanded = true;
        ig_models_enqueue(e);
    }
    ig_models_unlock(models);
    return status;
}

ig_status ig_models_unload(ig_models *models, const char *name) {
    ig_status status = IG_OK;
    ig_models_lock(models);
    ig_model_entry *e = ig_models_look_up(models, name);
    if (!e) {
        status = unknown(name);
    } else if (e->is_pinned) {
        status = IG_FAIL(IG_ERR_ARGUMENT, "models: %s is pinned", e->names[0]);
    } else if (e->state == IG_SERVED_READY || e->state == IG_SERVED_LOADING) {
        e->is_condemned = true;
        e->is_demanded = false;
        dequeue(e);
        if (e->state == IG_SERVED_UNLOADED) e->is_condemned = false;
        pthread_cond_broadcast(&models->wake);
    } else {
        e->state = IG_SERVED_UNLOADED; /* a failure is forgotten */
    }
    ig_models_unlock(models);
    return status;
}

static bool is_settled(const ig_models *models) {
    for (size_t i = 0; i < models->n_entries; i++)
        if (models->entries[i]->queued > 0) return false;
    return !models->loading;
}

bool ig_models_settle(ig_models *models, double timeout_ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t ns = until.tv_nsec + (int64_t)(timeout_ms * 1e6);
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    ig_models_lock(models);
    while (!is_settled(models) &&
           pthread_cond_timedwait(&models->settled, &models->lock, &until) != ETIMEDOUT) {
    }
    const bool settled = is_settled(models);
    ig_models_unlock(models);
    return settled;
}

/* ---- lists ---- */

static void describe(const ig_model_entry *e, ig_models_row *out) {
    *out = e->sizes;
    out->id = e->names[0];
    out->aliases = e->names + 1;
    out->path = e->path;
    out->state = e->queued > 0 || e->models->loading == e ? IG_SERVED_LOADING : e->state;
    out->device = e->device;
    out->quantization = e->quantization;
    out->status = e->state == IG_SERVED_FAILED ? e->status : IG_OK;
    snprintf(out->error, sizeof out->error, "%s", e->state == IG_SERVED_FAILED ? e->error : "");
    out->is_pinned = e->is_pinned;
    out->is_condemned = (e->is_condemned || e->is_leaving) && e->queued == 0;
    out->progress = atomic_load(&e->progress) / 1000.0;
    out->n_held = e->n_held;
    out->created = e->created;
    out->bytes = e->model ? e->bytes : e->file_bytes;
    out->file_bytes = e->file_bytes;
    out->idle_ms = e->model && e->n_held == 0 ? ig_clock_ms() - e->used_ms : 0;
}

bool ig_models_list(ig_models *models, size_t i, ig_models_row *out) {
    ig_models_lock(models);
    const ig_model_entry *e = row_at(models, i);
    if (e) describe(e, out);
    ig_models_unlock(models);
    return e;
}

bool ig_models_find(ig_models *models, const char *name, ig_models_row *out) {
    ig_models_lock(models);
    const ig_model_entry *e = ig_models_look_up(models, name);
    if (e) describe(e, out);
    ig_models_unlock(models);
    return e;
}

bool ig_models_stats(ig_models *models, size_t i, ig_engine_stats *out) {
    ig_models_lock(models);
    const ig_model_entry *e = row_at(models, i);
    *out = (ig_engine_stats){0};
    if (e && e->model) {
        ig_served_model_stats(e->model, out);
        const double alive_ms = ig_clock_ms() - (double)atomic_load(&e->alive_ns) * 1e-6;
        if (alive_ms < out->tick_age_ms) out->tick_age_ms = alive_ms; /* a step that compiles */
    }
    if (e) ig_engine_stats_add(out, &e->counted);
    ig_models_unlock(models);
    return e;
}

/* ---- create and destroy ---- */

static void init_locks(ig_models *models) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&models->lock, NULL);
    pthread_cond_init(&models->wake, &monotonic);
    pthread_cond_init(&models->settled, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

ig_status ig_models_create(const ig_models_options *options, ig_models **out) {
    const ig_allocator *a = options->allocator ? options->allocator : &ig_heap;
    ig_models *models = ig_alloc(a, 1, sizeof *models);
    if (!models) return IG_FAIL(IG_ERR_MEMORY, "models");
    models->options = *options;
    models->options.allocator = a;
    if (options->room_timeout_s == 0) models->options.room_timeout_s = 60;
    init_locks(models);
    if (pthread_create(&models->thread, NULL, ig_models_run, models) != 0) {
        ig_models_destroy(models);
        return IG_FAIL(IG_ERR_MEMORY, "models: cannot create a thread");
    }
    models->has_thread = true;
    *out = models;
    return IG_OK;
}

void ig_models_cancel(ig_models *models) {
    ig_models_lock(models);
    atomic_store(&models->is_cancelled, true);
    pthread_cond_broadcast(&models->wake);
    ig_models_unlock(models);
}

void ig_models_destroy(ig_models *models) {
    if (!models) return;
    const ig_allocator *a = models->options.allocator;
    atomic_store(&models->is_cancelled, true);
    atomic_store(&models->is_stopping, true);
    ig_models_lock(models);
    pthread_cond_broadcast(&models->wake);
    ig_models_unlock(models);
    if (models->has_thread) pthread_join(models->thread, NULL);
    for (size_t i = 0; i < models->n_entries; i++) entry_free(a, models->entries[i]);
    ig_free(a, models->entries);
    pthread_cond_destroy(&models->settled);
    pthread_cond_destroy(&models->wake);
    pthread_mutex_destroy(&models->lock);
    ig_free(a, models);
}
