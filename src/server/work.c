#include "server/work.h"

#include <math.h>

enum { RETRY_LOADING_S = 5, RETRY_MAX_S = 60 };

void ig_work_refuse(ig_work *w) {
    ig_http_error_reply(&w->error, w->x);
    w->has_replied = true;
}

void ig_work_reply(ig_work *w, ig_out *out) {
    if (out->failed) {
        ig_refuse(&w->error, 503, NULL, "out of memory");
        ig_work_refuse(w);
    } else {
        ig_exchange_reply(w->x, 200, "application/json", out->bytes, out->n_bytes);
        w->has_replied = true;
    }
    ig_out_deinit(out);
}

/* ---- the queue ---- */

/* From the mean time of a request. */
int ig_work_retry_after(const ig_work *w) {
    ig_engine_stats stats;
    ig_engine_get_stats(w->served->engine, &stats);
    uint64_t n = 0;
    for (int i = 0; i <= IG_HISTOGRAM_BUCKETS; i++) n += stats.request.count[i];
    if (n == 0) return 1;
    const double each = stats.request.sum / (double)n;
    const double seconds = ceil(each / (double)ig_engine_sequences(w->served->engine));
    return seconds < 1 ? 1 : seconds > RETRY_MAX_S ? RETRY_MAX_S : (int)seconds;
}

bool ig_work_refuse_submit(ig_work *w, ig_status status) {
    ig_refuse_failure(&w->error, status);
    if (status != IG_ERR_BUSY) return false;
    if (ig_server_phase(w->server) != IG_SERVER_STOPPING) w->error.code = 429;
    w->error.retry_after_s = ig_work_retry_after(w);
    return false;
}

bool ig_work_refuse_job(ig_work *w, const ig_job_event *event) {
    const bool is_busy = event->status == IG_ERR_BUSY;
    const bool is_temporary = is_busy || event->status == IG_ERR_MEMORY;
    char words[sizeof w->error.message];
    if (event->status == IG_ERR_CANCELLED) /* at the end of the drain, in the middle of a step */
        return ig_refuse(&w->error, 503, NULL, "the server is shutting down");
    ig_error_words_of(event->error, words, sizeof words);
    ig_refuse(&w->error, is_temporary ? 503 : 500, NULL, "%s", words);
    if (is_busy) w->error.retry_after_s = ig_work_retry_after(w);
    return false;
}

/* ---- the model ---- */

static void wake(void *user) {
    ig_work *w = user;
    atomic_store(&w->is_loading, false);
    ig_exchange_wake(w->x);
}

static void refuse_unknown(ig_work *w, const char *name) {
    ig_refuse(&w->error, 404, "model", "the model '%.200s' does not exist", name ? name : "");
    w->error.reason = "model_not_found";
}

static void refuse_failed(ig_work *w, const char *name) {
    char words[sizeof w->error.message / 2];
    ig_error_words(words, sizeof words);
    ig_refuse(&w->error, 503, "model", "the model '%.100s' cannot be loaded: %s", name ? name : "",
              words);
}

/* True: the model is held. */
static bool acquire(ig_work *w) {
    const char *name = ig_fields_text(&w->fields, IG_FIELD_MODEL);
    ig_models *models = ig_server_models(w->server);
    if (atomic_load(&w->is_loading)) return false; /* woken for another reason */
    w->waiter = (ig_models_waiter){.notify = wake, .user = w};
    atomic_store(&w->is_loading, true);
    switch (ig_models_acquire(models, name, true, &w->waiter, &w->served)) {
    case IG_SERVED_READY: return true;
    case IG_SERVED_LOADING:
    case IG_SERVED_UNLOADED: return false;
    case IG_SERVED_UNKNOWN: refuse_unknown(w, name); break;
    case IG_SERVED_FAILED: refuse_failed(w, name); break;
    }
    ig_work_refuse(w);
    return false;
}

/* ---- the exchange's calls ---- */

static void cancel(void *user) {
    ig_work *w = user;
    atomic_store(&w->is_cancelled, true);
    ig_exchange_wake(w->x);
}

static void end_cancelled(ig_work *w) {
    ig_refuse(&w->error, 499, NULL, "the request was cancelled");
    if (w->type->fail)
        w->type->fail(w);
    else
        ig_work_refuse(w);
}

static void advance(void *user, ig_exchange *x) {
    ig_work *w = user;
    (void)x;
    if (w->has_replied) return;
    if (atomic_exchange(&w->is_cancelled, false)) {
        end_cancelled(w);
        return;
    }
    if (!w->served && !acquire(w)) return;
    w->type->advance(w);
}

static void close_work(void *user) {
    ig_work *w = user;
    ig_server_remove_active(w->server, &w->active);
    if (w->type->close) w->type->close(w);
    ig_models_drop_waiter(ig_server_models(w->server), &w->waiter);
    ig_models_release(ig_server_models(w->server), w->served);
    json_decref(w->body);
    ig_free(w->allocator, w);
}

/* ---- beginning ---- */

static void unknown_field(void *user, const char *name) {
    ig_routes_unknown_field(ig_server_routes(user), name);
}

/* Whether requests are taken at all. */
static bool check_phase(const ig_server *server, ig_http_error *error) {
    switch (ig_server_phase(server)) {
    case IG_SERVER_READY:
    case IG_SERVER_DRAINING: return true;
    case IG_SERVER_LOADING: ig_refuse(error, 503, NULL, "Loading model"); break;
    case IG_SERVER_STOPPING: ig_refuse(error, 503, NULL, "the server is shutting down"); break;
    }
    error->retry_after_s = RETRY_LOADING_S;
    return false;
}

static bool read_body(ig_work *w) {
    const ig_exchange_request *request = ig_exchange_get_request(w->x);
    return check_phase(w->server, &w->error) &&
           ig_body_parse(request->body, request->body_bytes, &w->body, &w->error) &&
           ig_fields_read(w->body, w->type->body, unknown_field, w->server, &w->fields,
                          &w->error) &&
           (!w->type->check || w->type->check(w));
}

void ig_work_begin(ig_server *server, ig_exchange *x, const ig_work_type *type) {
    const ig_allocator *a = ig_server_allocator(server);
    ig_work *w = ig_alloc(a, 1, type->bytes);
    if (!w) {
        ig_http_error error;
        ig_refuse(&error, 503, NULL, "out of memory");
        ig_http_error_reply(&error, x);
        return;
    }
    w->type = type;
    w->server = server;
    w->x = x;
    w->allocator = a;
    if (!read_body(w)) {
        ig_work_refuse(w);
        close_work(w);
        return;
    }
    const ig_exchange_request *request = ig_exchange_get_request(x);
    w->active =
        (ig_active){.id = request->id, .party = request->party, .cancel = cancel, .user = w};
    ig_server_add_active(server, &w->active);
    ig_exchange_defer(x, &(ig_exchange_source){advance, close_work, w});
}
