/*
 * server_run.h - the life cycle of a server: load, listen, serve, drain, exit.
 *
 *     SIGTERM            /ready returns 503; requests are accepted for drain_delay_s more seconds,
 *                        since load balancers react late, and then have drain_s to finish; the rest
 *                        ends with an error
 *     SIGINT, or again   requests end with an error immediately
 *     SIGHUP             reloads keys, certificates and directories of models
 */
#ifndef IG_SERVER_SERVER_RUN_H
#define IG_SERVER_SERVER_RUN_H

#include "server/server.h"

/* All is borrowed while the server runs. */
typedef struct ig_server_settings {
    ig_server_options options;
    ig_models_options models;
    const ig_models_entry *entries; /* loaded at startup, in this order */
    size_t n_entries;
    const char *const *folders; /* directories of models that are loaded on demand */
    size_t n_folders;
    ig_http_options http;   /* its handler and user are the server's */
    const char *trace_file; /* NULL: none */
    double drain_delay_s, drain_s;
    const ig_allocator *allocator;
    /* Messages of the server; NULL: no log. */
    void (*log)(void *user, ig_log_level level, const char *text);
    /* Called once when it listens, and once when it is ready; NULL: no call. */
    void (*on_listening)(void *user, ig_server *server);
    void (*on_ready)(void *user, ig_server *server);
    void *user;
} ig_server_settings;

/* Serves until a signal ends it; IG_OK: it was shut down by a signal.  Model files are checked, and
 * small models loaded, before it accepts connections. */
IG_MUST_CHECK ig_status ig_server_run(const ig_server_settings *settings);

/* Reloads keys, certificates and directories.  On failure the old ones stay. */
IG_MUST_CHECK ig_status ig_server_reload(ig_server *server);
/* Cancels the party's request with this id (admins: of any party); false: not found. */
bool ig_server_cancel(ig_server *server, const char *id, uint64_t party, bool admin);
ig_http *ig_server_http(ig_server *server);
struct ig_tasks *ig_server_tasks(ig_server *server);
/* The maximum over all engines, 0 without one. */
double ig_server_tick_age_ms(ig_server *server);

#endif
