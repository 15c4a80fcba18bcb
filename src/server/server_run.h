/*
 * server_run.h - the life of a server: load, listen, serve, drain, end.
 *
 *     SIGTERM            /ready says 503; for drain_delay_s all goes on, since load balancers learn
 *                        of it late; then nothing new is accepted, and streams may finish for
 *                        drain_s; then they end with an error
 *     SIGINT, or again   streams end with an error at once
 *     SIGHUP             keys, certificates and folders of models are read again
 */
#ifndef IG_SERVER_SERVER_RUN_H
#define IG_SERVER_SERVER_RUN_H

#include "server/server.h"

/* All is borrowed while the server runs. */
typedef struct ig_server_settings {
    ig_server_options options;
    ig_models_options models;
    const ig_models_entry *entries; /* loaded before the server is ready, in this order */
    size_t n_entries;
    const char *const *folders; /* of models that are loaded on demand */
    size_t n_folders;
    ig_http_options http; /* its handler and user are the server's */
    double drain_delay_s, drain_s;
    const ig_allocator *allocator;
    /* Lines about the server; NULL: no log. */
    void (*log)(void *user, ig_log_level level, const char *text);
    /* Called once when it listens, and once when it is ready; NULL: no call. */
    void (*on_listening)(void *user, ig_server *server);
    void (*on_ready)(void *user, ig_server *server);
    void *user;
} ig_server_settings;

/* Serves until a signal ends it, with the thread's signals blocked; IG_OK: as it was asked to.
 * Before it listens, models are checked and given a moment to load, so that most failures of a load
 * come before. */
IG_MUST_CHECK ig_status ig_server_run(const ig_server_settings *settings);

/* Reads keys, certificates and folders again.  What fails stays as it was. */
IG_MUST_CHECK ig_status ig_server_reload(ig_server *server);
/* Cancels the request of this id and party, of any party for admins; false: there is none. */
bool ig_server_cancel(ig_server *server, const char *id, uint64_t party, bool admin);
ig_http *ig_server_http(ig_server *server);
/* The oldest last round of a scheduler. */
double ig_server_tick_age_ms(ig_server *server);

#endif
