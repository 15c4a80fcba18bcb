/* Starts the server, reloads it on SIGHUP, and drains it: see server.h. */
#include "server/server_run.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "server/http_error.h"
#include "server/metrics.h"
#include "server/operations.h"
#include "server/route.h"
#include "server/sd_notify.h"
#include "server/tasks.h"
#include "server/trace_file.h"

enum { EARLY_MS = 250, TICK_MS = 100, STATUS_MS = 5000 };

struct ig_server {
    const ig_server_settings *settings;
    ig_models *models;
    ig_metrics *metrics;
    ig_routes *routes;
    ig_http *http;
    ig_tasks *tasks;
    ig_trace_file *trace; /* NULL: none */
    atomic_bool has_lost_spans;
    _Atomic ig_phase phase;
    pthread_mutex_t lock; /* of the list of active requests */
    ig_active *active;
    sigset_t signals, before;
    double watchdog_ms, notified_ms, status_ms;
};

/* ---- what routes use ---- */

ig_models *ig_server_models(ig_server *server) { return server->models; }
ig_metrics *ig_server_metrics(ig_server *server) { return server->metrics; }
ig_routes *ig_server_routes(ig_server *server) { return server->routes; }
const ig_allocator *ig_server_allocator(const ig_server *server) {
    return server->settings->allocator;
}
const ig_server_options *ig_server_get_options(const ig_server *server) {
    return &server->settings->options;
}
ig_phase ig_server_phase(const ig_server *server) { return atomic_load(&server->phase); }

ig_http *ig_server_http(ig_server *server) { return server->http; }
struct ig_tasks *ig_server_tasks(ig_server *server) {
    return server->tasks;
}

/* ---- active requests ---- */

void ig_server_add_active(ig_server *server, ig_active *active) {
    pthread_mutex_lock(&server->lock);
    active->next = server->active;
    server->active = active;
    pthread_mutex_unlock(&server->lock);
}

void ig_server_remove_active(ig_server *server, ig_active *active) {
    pthread_mutex_lock(&server->lock);
    for (ig_active **at = &server->active; *at; at = &(*at)->next)
        if (*at == active) {
            *at = active->next;
            break;
        }
    pthread_mutex_unlock(&server->lock);
}

bool ig_server_cancel(ig_server *server, const char *id, uint64_t party, bool admin) {
    bool found = false;
    pthread_mutex_lock(&server->lock);
    for (ig_active *at = server->active; at; at = at->next)
        if (strcmp(at->id, id) == 0 && (admin || at->party == party)) {
            at->cancel(at->user);
            found = true;
        }
    pthread_mutex_unlock(&server->lock);
    return found;
}

/* ---- log ---- */

static void say(const ig_server *server, ig_log_level level, const char *fmt, ...) IG_PRINTF(3, 4);
static void say(const ig_server *server, ig_log_level level, const char *fmt, ...) {
    char text[1024];
    va_list args;
    if (!server->settings->log) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    server->settings->log(server->settings->user, level, text);
}

/* ---- signals ---- */

/* Blocks the signals in all threads, which inherit the mask; sigtimedwait() receives them. */
static void block_signals(ig_server *server) {
    sigemptyset(&server->signals);
    sigaddset(&server->signals, SIGTERM);
    sigaddset(&server->signals, SIGINT);
    sigaddset(&server->signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &server->signals, &server->before);
}

/* The next signal, 0: none came within the time. */
static int take_signal(const ig_server *server, double timeout_ms) {
    const struct timespec most = {.tv_sec = (time_t)(timeout_ms / 1e3),
                                  .tv_nsec = (long)(fmod(timeout_ms, 1e3) * 1e6)};
    const int number = sigtimedwait(&server->signals, NULL, &most);
    return number > 0 ? number : 0;
}

ig_status ig_server_reload(ig_server *server) {
    ig_status status = ig_http_reload(server->http);
    if (server->trace && status == IG_OK) status = ig_trace_file_reopen(server->trace);
    for (size_t i = 0; i < server->settings->n_folders && status == IG_OK; i++)
        status = ig_models_add_folder(server->models, server->settings->folders[i]);
    if (status == IG_OK) {
        say(server, IG_LOG_INFO, "reloaded keys, certificates and model directories");
    } else {
        char words[512];
        ig_error_words(words, sizeof words);
        say(server, IG_LOG_WARNING, "reload: %s", words);
    }
    return status;
}

/* ---- systemd ---- */

typedef struct totals {
    size_t n_loaded, n_loading;
    long long n_running, n_waiting;
} totals;

static totals count_all(const ig_server *server) {
    totals t = {0};
    ig_models_row row;
    ig_engine_stats stats;
    for (size_t i = 0; ig_models_list(server->models, i, &row); i++) {
        t.n_loaded += row.state == IG_SERVED_READY;
        t.n_loading += row.state == IG_SERVED_LOADING;
        if (row.state != IG_SERVED_READY || !ig_models_stats(server->models, i, &stats)) continue;
        t.n_running += stats.n_running;
        t.n_waiting += stats.n_waiting;
    }
    return t;
}

static void notify_status(ig_server *server) {
    char text[160];
    const totals t = count_all(server);
    snprintf(text, sizeof text,
             "STATUS=%s: %zu models loaded, %zu loading; %lld requests running, %lld waiting",
             atomic_load(&server->phase) >= IG_SERVER_DRAINING ? "Draining" : "Serving", t.n_loaded,
             t.n_loading, t.n_running, t.n_waiting);
    ig_sd_notify(text);
    server->status_ms = ig_clock_ms();
}

/* WATCHDOG=1 is sent only while all schedulers iterate. */
static void notify(ig_server *server) {
    const double now = ig_clock_ms();
    if (now - server->status_ms > STATUS_MS) notify_status(server);
    if (server->watchdog_ms <= 0 || now - server->notified_ms < server->watchdog_ms / 3) return;
    server->notified_ms = now;
    if (ig_server_tick_age_ms(server) < server->watchdog_ms) ig_sd_notify("WATCHDOG=1");
}

/* ---- start ---- */

static ig_status add_models(const ig_server *server) {
    const ig_server_settings *s = server->settings;
    for (size_t i = 0; i < s->n_entries; i++) IG_TRY(ig_models_add(server->models, &s->entries[i]));
    for (size_t i = 0; i < s->n_folders; i++)
        IG_TRY(ig_models_add_folder(server->models, s->folders[i]));
    IG_TRY(ig_models_check_pin(server->models));
    ig_models_row row;
    for (size_t i = 0; i < s->n_entries && ig_models_list(server->models, i, &row); i++)
        IG_TRY(ig_models_load(server->models, row.id));
    return IG_OK;
}

/* The failure of a model that was to be loaded at the start. */
static ig_status check_loads(const ig_server *server) {
    ig_models_row row;
    for (size_t i = 0; i < server->settings->n_entries; i++)
        if (ig_models_list(server->models, i, &row) && row.state == IG_SERVED_FAILED)
            return IG_FAIL(row.status, "%s", row.error);
    return IG_OK;
}

/* Waits for the loads; a signal ends the wait, with its number. */
static ig_status wait_for_loads(ig_server *server, int *out_signal) {
    ig_sd_notify("STATUS=Loading models");
    while (!ig_models_settle(server->models, TICK_MS)) {
        const int number = take_signal(server, 0);
        if (number == SIGHUP) continue;
        *out_signal = number;
        if (number) return IG_OK;
        IG_TRY(check_loads(server));
        notify(server);
    }
    return check_loads(server);
}

static void handle(void *user, ig_exchange *x) { ig_route_dispatch(user, x); }

/* A request without a reply, because the client has left, counts as 499 (as in nginx). */
static void count(void *user, const ig_exchange *x, int code) {
    ig_server *server = user;
    if (code == 0) code = 499;
    ig_metrics_count_exchange(server->metrics, ig_exchange_get_route(x), code);
    if (!server->trace || ig_trace_file_add(server->trace, x, code)) return;
    if (!atomic_exchange(&server->has_lost_spans, true))
        say(server, IG_LOG_WARNING, "--trace-file: spans could not be written");
}

static bool is_public_or_metrics(const char *method, const char *path) {
    return strcmp(path, "/metrics") == 0 || ig_route_is_public(method, path);
}

/* Binds before models are loaded, to fail early if the port is taken; accepts nothing yet. */
static ig_status make_http(ig_server *server, const int *sockets) {
    ig_http_options options = server->settings->http;
    options.handler = handle;
    options.ended = count;
    options.user = server;
    options.is_public =
        server->settings->options.is_metrics_public ? is_public_or_metrics : ig_route_is_public;
    options.sockets = sockets;
    options.n_sockets = (size_t)ig_sd_listen_fds();
    return ig_http_create(&options, &server->http);
}

static ig_status make_parts(ig_server *server) {
    enum { FIRST_SOCKET = 3, SOCKETS = 64 }; /* of systemd */
    int sockets[SOCKETS];
    const ig_server_settings *s = server->settings;
    const ig_routes_options routes = {.allocator = s->allocator, .log = s->log, .user = s->user};
    for (int i = 0; i < SOCKETS; i++) sockets[i] = FIRST_SOCKET + i;
    IG_TRY(make_http(server, sockets));
    if (s->trace_file) IG_TRY(ig_trace_file_open(s->allocator, s->trace_file, &server->trace));
    IG_TRY(ig_metrics_create(s->allocator, s->options.build, &server->metrics));
    IG_TRY(ig_tasks_create(s->allocator, &server->tasks));
    IG_TRY(ig_routes_create(&routes, &server->routes));
    return ig_models_create(&s->models, &server->models);
}

static ig_status start(ig_server *server, int *out_signal) {
    const ig_server_settings *s = server->settings;
    IG_TRY(make_parts(server));
    IG_TRY(add_models(server));
    if (ig_models_settle(server->models, EARLY_MS)) IG_TRY(check_loads(server));
    IG_TRY(ig_http_start(server->http));
    if (s->on_listening) s->on_listening(s->user, server);
    IG_TRY(wait_for_loads(server, out_signal));
    if (*out_signal) return IG_OK;
    atomic_store(&server->phase, IG_SERVER_READY);
    server->watchdog_ms = ig_sd_watchdog_ms();
    ig_sd_notify("READY=1");
    if (s->on_ready) s->on_ready(s->user, server);
    return IG_OK;
}

/* ---- serving, and its end ---- */

/* Returns the signal that ends the server. */
static int serve(ig_server *server) {
    for (;;) {
        const int number = take_signal(server, TICK_MS);
        if (number == SIGHUP) {
            const ig_status ignored = ig_server_reload(server); /* it was logged */
            (void)ignored;
        } else if (number) {
            return number;
        }
        notify(server);
    }
}

/* Waits until the time is over or, with until_idle, no exchange is left; false: a signal came. */
static bool wait_to_drain(ig_server *server, double seconds, bool until_idle) {
    const double end = ig_clock_ms() + seconds * 1e3;
    for (double left; (left = end - ig_clock_ms()) > 0;) {
        const double step = left < TICK_MS ? left : TICK_MS;
        if (until_idle && ig_http_wait_idle(server->http, step * 1e-3)) return true;
        const int number = take_signal(server, until_idle ? 0 : step);
        if (number && number != SIGHUP) return false;
        notify(server);
    }
    return true;
}

static void drain(ig_server *server, int number) {
    enum { ERROR_EVENTS_S = 5 };
    const ig_server_settings *s = server->settings;
    atomic_store(&server->phase, IG_SERVER_DRAINING);
    ig_sd_notify("STOPPING=1");
    say(server, IG_LOG_INFO, number == SIGINT ? "SIGINT: stopping" : "SIGTERM: draining");
    const bool is_patient = number == SIGTERM && wait_to_drain(server, s->drain_delay_s, false);
    atomic_store(&server->phase, IG_SERVER_STOPPING);
    ig_http_stop_accepting(server->http);
    if (is_patient) wait_to_drain(server, s->drain_s, true);
    if (ig_http_wait_idle(server->http, 0)) return;
    say(server, IG_LOG_WARNING, "drain timeout: ending the remaining requests with an error");
    ig_models_cancel(server->models);
    wait_to_drain(server, ERROR_EVENTS_S, true);
}

static void destroy(ig_server *server) {
    ig_http_destroy(server->http);
    if (server->models) ig_models_cancel(server->models); /* a task may wait for a step */
    ig_tasks_destroy(server->tasks);
    ig_routes_destroy(server->routes);
    ig_models_destroy(server->models);
    ig_metrics_destroy(server->metrics);
    ig_trace_file_close(server->trace);
    pthread_sigmask(SIG_SETMASK, &server->before, NULL);
    pthread_mutex_destroy(&server->lock);
}

ig_status ig_server_run(const ig_server_settings *settings) {
    ig_server server = {.settings = settings};
    int number = 0;
    atomic_init(&server.phase, IG_SERVER_LOADING);
    pthread_mutex_init(&server.lock, NULL);
    block_signals(&server);
    const ig_status status = start(&server, &number);
    if (status == IG_OK && number == 0) number = serve(&server);
    if (status == IG_OK) drain(&server, number);
    destroy(&server);
    return status;
}
