/*
 * The loader thread of a list of models: loads in the order of the requests, and unloads what is
 * condemned, what was idle for too long, and what has to make room.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "server/http_error.h"
#include "server/models_list.h"

/* ---- callbacks of a context, for its whole life ---- */

static void on_log(void *user, ig_log_level level, const char *text) {
    const ig_ctx_options *ctx = &((const ig_model_entry *)user)->models->options.ctx;
    ctx->log(ctx->user, level, text);
}

static void on_progress(void *user, ig_progress_event event, uint64_t done, uint64_t total) {
    ig_model_entry *e = user;
    const ig_ctx_options *ctx = &e->models->options.ctx;
    atomic_store(&e->alive_ns, ig_clock_ns());
    if (event == IG_PROGRESS_LOAD && total > 0)
        atomic_store(&e->progress, (unsigned)(1000.0 * (double)done / (double)total));
    if (ctx->progress) ctx->progress(ctx->user, event, done, total);
}

static bool is_cancelled(void *user) {
    const ig_model_entry *e = user;
    const ig_models *models = e->models;
    const ig_ctx_options *ctx = &models->options.ctx;
    if (atomic_load(&e->is_closing)) return false;
    return atomic_load(&models->is_cancelled) || (ctx->cancel && ctx->cancel(ctx->user));
}

static bool on_plugin(void *user, const char *path) {
    const ig_ctx_options *ctx = &((const ig_model_entry *)user)->models->options.ctx;
    return ctx->accept_plugin(ctx->user, path);
}

static void on_destroy(void *user, const ig_ctx *ctx) {
    const ig_ctx_options *options = &((const ig_model_entry *)user)->models->options.ctx;
    options->on_destroy(options->user, ctx);
}

static ig_status on_prepare(void *user, ig_ctx *ctx) {
    const ig_models_options *o = &((const ig_model_entry *)user)->models->options;
    return o->prepare(o->ctx.user, ctx);
}

static ig_models_options options_of(ig_model_entry *e) {
    ig_models_options o = e->models->options;
    if (o.ctx.log) o.ctx.log = on_log;
    if (o.ctx.accept_plugin) o.ctx.accept_plugin = on_plugin;
    if (o.ctx.on_destroy) o.ctx.on_destroy = on_destroy;
    if (o.prepare) o.prepare = on_prepare;
    o.ctx.progress = on_progress;
    o.ctx.cancel = is_cancelled;
    o.ctx.user = e;
    return o;
}

/* ---- unloading; each with the lock held, which they leave in between ---- */

static ig_status nothing(ig_adapter *adapter, void *user) {
    (void)adapter;
    (void)user;
    return IG_OK;
}

static void unload(ig_model_entry *e) {
    ig_models *models = e->models;
    ig_served_model *model = e->model;
    ig_engine_stats stats;
    e->is_leaving = true; /* not held again */
    ig_models_unlock(models);
    const ig_status went_round = ig_engine_call(model->served.engine, nothing, NULL);
    (void)went_round; /* all of the last step is counted now */
    ig_models_lock(models);
    ig_served_model_stats(model, &stats);
    ig_engine_stats_add(&e->counted, &stats);
    e->model = NULL;
    ig_models_unlock(models);
    atomic_store(&e->is_closing, true);
    ig_served_model_close(model);
    atomic_store(&e->is_closing, false);
    ig_models_lock(models);
    e->is_leaving = e->is_condemned = false;
    e->state = e->queued > 0 ? IG_SERVED_LOADING : IG_SERVED_UNLOADED;
}

static bool is_idle(const ig_model_entry *e) {
    return e->state == IG_SERVED_READY && !e->is_leaving && e->n_held == 0;
}

/* The unpinned model that was idle longest; NULL: all are in use. */
static ig_model_entry *oldest_idle(const ig_models *models, const ig_model_entry *except) {
    ig_model_entry *oldest = NULL;
    for (size_t i = 0; i < models->n_entries; i++) {
        ig_model_entry *e = models->entries[i];
        if (e == except || e->is_pinned || !is_idle(e)) continue;
        if (!oldest || e->used_ms < oldest->used_ms) oldest = e;
    }
    return oldest;
}

/* When a model has been idle for too long, on ig_clock_ms(). */
static double expiry(const ig_model_entry *e) {
    const double idle_ms = e->models->options.idle_unload_s * 1e3;
    return idle_ms > 0 && !e->is_pinned && is_idle(e) ? e->used_ms + idle_ms : INFINITY;
}

static ig_model_entry *next_to_unload(const ig_models *models) {
    const double now = ig_clock_ms();
    for (size_t i = 0; i < models->n_entries; i++) {
        ig_model_entry *e = models->entries[i];
        if (is_idle(e) && (e->is_condemned || expiry(e) <= now)) return e;
    }
    return NULL;
}

/* ---- making room ---- */

static uint64_t used_bytes(const ig_models *models, bool pinned_alone) {
    uint64_t sum = 0;
    for (size_t i = 0; i < models->n_entries; i++) {
        const ig_model_entry *e = models->entries[i];
        if (e->model && (e->is_pinned || !pinned_alone)) sum += e->bytes;
    }
    return sum;
}

static uint64_t needed_bytes(const ig_model_entry *e) {
    return e->bytes > 0 ? e->bytes : e->file_bytes;
}

static ig_status check_room(const ig_model_entry *e, uint64_t needed) {
    const ig_models *models = e->models;
    const uint64_t limit = models->options.bytes, pinned = used_bytes(models, true);
    if (needed > limit || pinned > limit - needed)
        return IG_FAIL(IG_ERR_MEMORY,
                       "models: %s needs %llu bytes; of the limit of %llu pinned models have %llu",
                       e->names[0], (unsigned long long)needed, (unsigned long long)limit,
                       (unsigned long long)pinned);
    if (ig_clock_ms() - e->queued_ms > models->options.room_timeout_s * 1e3)
        return IG_FAIL(IG_ERR_BUSY, "models: %s needs %llu bytes, but other models are in use",
                       e->names[0], (unsigned long long)needed);
    return IG_OK;
}

/* Unloads until the model fits.  False: not yet, or `status` says why it never will. */
static bool make_room(ig_model_entry *e, ig_status *status) {
    ig_models *models = e->models;
    const uint64_t limit = models->options.bytes, needed = needed_bytes(e);
    while (limit > 0 && used_bytes(models, false) + needed > limit) {
        ig_model_entry *victim = oldest_idle(models, e);
        *status = check_room(e, needed);
        if (*status != IG_OK || !victim) return false;
        unload(victim);
    }
    return true;
}

/* The KV cache pool where the options leave it open: half of what the limit leaves, so that one
 * model does not take what the next one needs. */
static void share_room(const ig_model_entry *e, ig_models_options *o) {
    const uint64_t taken = used_bytes(e->models, false) + e->file_bytes;
    if (o->bytes > 0 && o->engine.kv_bytes == 0 && o->bytes > taken)
        o->engine.kv_bytes = (o->bytes - taken) / 2;
}

/* ---- loading ---- */

static void tell(ig_model_entry *e) {
    ig_models_waiter *at = e->waiters;
    e->waiters = NULL;
    while (at) {
        ig_models_waiter *next = at->next; /* the memory may be gone after the call */
        at->is_listed = false;
        at->notify(at->user);
        at = next;
    }
}

/* The load has ended; the thread's error is that of a failure. */
static void end_load(ig_model_entry *e, ig_status status) {
    e->queued = 0;
    e->is_demanded = false;
    e->status = status;
    e->used_ms = e->failed_ms = ig_clock_ms();
    e->state = status == IG_OK ? IG_SERVED_READY : IG_SERVED_FAILED;
    if (status != IG_OK) {
        ig_error_words(e->error, sizeof e->error);
        e->is_condemned = false;
    }
    tell(e);
    pthread_cond_broadcast(&e->models->settled);
}

static void take_sizes(ig_model_entry *e, const ig_served_model *m) {
    const ig_served *s = &m->served;
    e->bytes = m->bytes;
    e->created = s->created;
    snprintf(e->device, sizeof e->device, "%s", s->device);
    snprintf(e->quantization, sizeof e->quantization, "%s", s->quantization);
    e->file_bytes = s->file_bytes;
    e->sizes.ctx_len = s->ctx_len;
    e->sizes.ctx_train = s->ctx_train;
    e->sizes.n_params = s->n_params;
    e->sizes.n_vocab = s->n_vocab;
    e->sizes.kv_bytes = ig_engine_cache_bytes(s->engine);
    e->sizes.load_ms = s->load_ms;
}

/* Its real size is known only now. */
static ig_status fit(ig_model_entry *e) {
    ig_status status = IG_OK;
    if (make_room(e, &status)) return IG_OK;
    return status != IG_OK
               ? status
               : IG_FAIL(IG_ERR_BUSY, "models: %s needs %llu bytes, but other models are in use",
                         e->names[0], (unsigned long long)e->bytes);
}

static void load(ig_model_entry *e) {
    ig_models *models = e->models;
    ig_models_options o = options_of(e);
    ig_served_model *model = NULL;
    share_room(e, &o);
    models->loading = e;
    e->state = IG_SERVED_LOADING;
    ig_models_unlock(models);
    ig_status status = ig_served_model_open(&o, e->names[0], e->path, &model);
    ig_models_lock(models);
    if (status == IG_OK) {
        take_sizes(e, model);
        status = fit(e);
        if (status == IG_OK) e->model = model;
    }
    models->loading = NULL;
    end_load(e, status);
    if (status == IG_OK || !model) return;
    ig_models_unlock(models);
    ig_served_model_close(model);
    ig_models_lock(models);
}

/* The request that came first, of models that are not about to be unloaded. */
static ig_model_entry *next_to_load(const ig_models *models) {
    ig_model_entry *first = NULL;
    for (size_t i = 0; i < models->n_entries; i++) {
        ig_model_entry *e = models->entries[i];
        if (e->queued == 0 || e->state == IG_SERVED_READY) continue;
        if (!first || e->queued < first->queued) first = e;
    }
    return first;
}

/* ---- the thread ---- */

static void wait_for_work(ig_models *models, const ig_model_entry *waiting) {
    double until = INFINITY;
    for (size_t i = 0; i < models->n_entries; i++) until = fmin(until, expiry(models->entries[i]));
    if (waiting) until = fmin(until, ig_clock_ms() + 100);
    if (isinf(until)) {
        pthread_cond_wait(&models->wake, &models->lock);
        return;
    }
    const uint64_t ns = until > 0 ? (uint64_t)(until * 1e6) + 1000000 : 0;
    const struct timespec at = {.tv_sec = (time_t)(ns / 1000000000),
                                .tv_nsec = (long)(ns % 1000000000)};
    pthread_cond_timedwait(&models->wake, &models->lock, &at);
}

static void work(ig_models *models) {
    ig_status status = IG_OK;
    ig_model_entry *e = next_to_unload(models);
    if (e) {
        unload(e);
        return;
    }
    e = next_to_load(models);
    if (!e) {
        wait_for_work(models, NULL);
    } else if (atomic_load(&models->is_cancelled)) {
        end_load(e, IG_FAIL(IG_ERR_CANCELLED, "models: the server is being stopped"));
    } else if (make_room(e, &status)) {
        if (e->queued > 0) load(e); /* its waiters may have left meanwhile */
    } else if (status != IG_OK) {
        end_load(e, status);
    } else {
        wait_for_work(models, e);
    }
}

void *ig_models_run(void *user) {
    ig_models *models = user;
    ig_models_lock(models);
    while (!atomic_load(&models->is_stopping)) work(models);
    for (size_t i = 0; i < models->n_entries; i++) {
        if (models->entries[i]->model) unload(models->entries[i]);
        models->entries[i]->queued = 0;
        tell(models->entries[i]);
    }
    ig_models_unlock(models);
    return NULL;
}
