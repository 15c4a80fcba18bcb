/* Health, readiness, metrics, and the commands of operators. */
#include "server/operations.h"

#include <jansson.h>
#include <string.h>

#include "base/json_parse.h"
#include "ingot/report.h"
#include "server/metrics.h"
#include "server/operations_reply.h"
#include "server/server_run.h"

/* An idle scheduler iterates once per second; a step is much shorter than this. */
enum { HEALTH_TICK_MS = 30000 };

static const char *state_name(ig_served_state state) {
    static const char *const names[] = {"unknown", "unloaded", "loading", "loaded", "failed"};
    return names[state];
}

/* ---- health ---- */

/* 503 with an error object and the progress of loads. */
static void reply_unavailable(ig_server *server, ig_exchange *x, const char *words) {
    ig_out out = ig_operation_out(server);
    ig_models_row row;
    ig_out_open(&out, NULL, '{');
    ig_out_open(&out, "error", '{');
    ig_out_int(&out, "code", 503);
    ig_out_string(&out, "message", words);
    ig_out_string(&out, "type", "unavailable_error");
    ig_out_close(&out, '}');
    ig_out_open(&out, "loading", '[');
    for (size_t i = 0; ig_models_list(ig_server_models(server), i, &row); i++) {
        if (row.state != IG_SERVED_LOADING) continue;
        ig_out_open(&out, NULL, '{');
        ig_out_string(&out, "id", row.id);
        ig_out_number(&out, "progress", row.progress);
        ig_out_close(&out, '}');
    }
    ig_out_close(&out, ']');
    ig_out_close(&out, '}');
    ig_exchange_add_header(x, "Retry-After", "1");
    ig_operation_reply(x, 503, &out);
}

static void reply_status(ig_server *server, ig_exchange *x, const char *status) {
    ig_out out = ig_operation_out(server);
    ig_out_open(&out, NULL, '{');
    ig_out_string(&out, "status", status);
    ig_out_close(&out, '}');
    ig_operation_reply(x, 200, &out);
}

double ig_server_tick_age_ms(ig_server *server) {
    double oldest = 0;
    ig_models_row row;
    ig_engine_stats stats;
    for (size_t i = 0; ig_models_list(ig_server_models(server), i, &row); i++) {
        if (row.state != IG_SERVED_READY) continue;
        ig_models_stats(ig_server_models(server), i, &stats);
        if (stats.tick_age_ms > oldest) oldest = stats.tick_age_ms;
    }
    return oldest;
}

/* A draining server is healthy; one with a stalled scheduler is not. */
void ig_operation_health(ig_server *server, ig_exchange *x) {
    if (ig_server_phase(server) == IG_SERVER_LOADING) {
        reply_unavailable(server, x, "Loading model");
    } else if (ig_server_tick_age_ms(server) > HEALTH_TICK_MS) {
        reply_unavailable(server, x, "The scheduler has not responded for 30 s");
    } else {
        reply_status(server, x, "ok");
    }
}

/* Whether the queues of all loaded models are full; false if none is loaded. */
static bool is_full(ig_server *server) {
    const int64_t limit = ig_server_get_options(server)->max_queue;
    size_t n_loaded = 0, n_full = 0;
    ig_models_row row;
    ig_engine_stats stats;
    for (size_t i = 0; ig_models_list(ig_server_models(server), i, &row); i++) {
        if (row.state != IG_SERVED_READY) continue;
        ig_models_stats(ig_server_models(server), i, &stats);
        n_loaded++;
        n_full += stats.n_waiting >= limit;
    }
    return n_loaded > 0 && n_full == n_loaded;
}

void ig_operation_ready(ig_server *server, ig_exchange *x) {
    switch (ig_server_phase(server)) {
    case IG_SERVER_LOADING: reply_unavailable(server, x, "Loading model"); return;
    case IG_SERVER_DRAINING:
    case IG_SERVER_STOPPING: reply_unavailable(server, x, "The server is shutting down"); return;
    case IG_SERVER_READY: break;
    }
    if (ig_server_tick_age_ms(server) > HEALTH_TICK_MS)
        reply_unavailable(server, x, "The scheduler has not responded for 30 s");
    else if (is_full(server))
        reply_unavailable(server, x, "The queue is full");
    else
        reply_status(server, x, "ready");
}

void ig_operation_version(ig_server *server, ig_exchange *x) {
    const ig_server_options *o = ig_server_get_options(server);
    ig_out out = ig_operation_out(server);
    ig_out_open(&out, NULL, '{');
    ig_out_string(&out, "version", ig_version());
    ig_out_string(&out, "commit", o->build);
    ig_out_string(&out, "system_fingerprint", o->system_fingerprint);
    ig_out_close(&out, '}');
    ig_operation_reply(x, 200, &out);
}

/* ---- metrics ---- */

void ig_operation_metrics(ig_server *server, ig_exchange *x) {
    ig_out out = ig_operation_out(server);
    const ig_metrics_form form = ig_metrics_form_of(ig_exchange_header(x, "Accept"));
    ig_http_stats http;
    ig_http_get_stats(ig_server_http(server), &http);
    ig_metrics_write(ig_server_metrics(server), ig_server_models(server), &http, form, &out);
    if (out.failed)
        ig_operation_refuse(x, 503, NULL, "out of memory");
    else
        ig_exchange_reply(x, 200, ig_metrics_content_types[form], out.bytes, out.n_bytes);
    ig_out_deinit(&out);
}

/* ---- models ---- */

/* The "model" of the body; the caller drops `*out`.  NULL: the request was refused. */
static const char *named_model(ig_exchange *x, json_t **out) {
    const ig_exchange_request *q = ig_exchange_get_request(x);
    const ig_status status = ig_json_decode(IG_ERR_ARGUMENT, "body", "the request", q->body,
                                            q->body_bytes, JSON_REJECT_DUPLICATES, out);
    if (status != IG_OK) {
        ig_operation_fail(x, status);
        return NULL;
    }
    const char *name = json_string_value(json_object_get(*out, "model"));
    if (!name) ig_operation_refuse(x, 400, "model", "model: a model's id is required");
    return name;
}

static void operate(ig_server *server, ig_exchange *x,
                    ig_status (*call)(ig_models *models, const char *name)) {
    json_t *body = NULL;
    ig_models_row row;
    const char *name = named_model(x, &body);
    if (name && ig_operation_find(server, x, name, &row)) {
        const ig_status status = call(ig_server_models(server), name);
        ig_out out = ig_operation_out(server);
        if (status != IG_OK) {
            ig_operation_fail(x, status);
        } else {
            ig_models_find(ig_server_models(server), name, &row);
            ig_out_open(&out, NULL, '{');
            ig_out_bool(&out, "success", true);
            ig_out_string(&out, "model", row.id);
            ig_out_string(&out, "status", row.is_condemned ? "unloading" : state_name(row.state));
            ig_out_close(&out, '}');
            ig_operation_reply(x, 200, &out);
        }
    }
    json_decref(body);
}

void ig_operation_load(ig_server *server, ig_exchange *x) { operate(server, x, ig_models_load); }

void ig_operation_unload(ig_server *server, ig_exchange *x) {
    operate(server, x, ig_models_unload);
}

void ig_operation_reload(ig_server *server, ig_exchange *x) {
    const ig_status status = ig_server_reload(server);
    if (status == IG_OK)
        reply_status(server, x, "reloaded");
    else
        ig_operation_fail(x, status);
}

/* ---- requests ---- */

void ig_operation_cancel(ig_server *server, ig_exchange *x) {
    const ig_exchange_request *q = ig_exchange_get_request(x);
    const char *slash = strrchr(q->path, '/');
    const char *id = slash ? slash + 1 : q->path;
    if (ig_server_cancel(server, id, q->party, q->admin))
        reply_status(server, x, "cancelled");
    else
        ig_operation_refuse(x, 404, "id", "there is no active request with this id");
}
