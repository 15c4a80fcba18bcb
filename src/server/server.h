/*
 * server.h - `ingot serve`: HTTP, routes, models and metrics.
 *
 *     http.c      connections, limits, keys: calls ig_route_dispatch() for each complete request
 *     route.c     the table of routes, path to handler; 404, 405
 *     fields.c    the table of request fields: types, ranges and defaults, and the 400 texts
 *     work.c      a request that needs a model: waits for the model, then advances
 *     openai_*.c  dialects: JSON to ig_generation and back; each a file
 *     serve_generation.c  jobs of the engine to replies, whole or as server-sent events
 *     models.c    loaded models      metrics.c  GET /metrics      server.c  start, drain, reload
 */
#ifndef IG_SERVER_SERVER_H
#define IG_SERVER_SERVER_H

#include "server/http.h"
#include "server/models.h"

typedef struct ig_server ig_server;
typedef struct ig_metrics ig_metrics; /* metrics.h */
typedef struct ig_routes ig_routes;   /* route.h */

/* What routes may use of the server. */
ig_models *ig_server_models(ig_server *server);
ig_metrics *ig_server_metrics(ig_server *server);
ig_routes *ig_server_routes(ig_server *server);
const ig_allocator *ig_server_allocator(const ig_server *server);

/* How the server was configured; constant, strings are the server's. */
typedef struct ig_server_options {
    const char *system_fingerprint; /* of version and instruction set */
    const char *reasoning_format;   /* "none", "deepseek" or "both" */
    bool has_slots;                 /* GET /slots */
    const char *slot_save_path;     /* a folder; NULL: slots are not saved */
    double sse_ping_s;              /* 15: comment lines while nothing else is sent */
    int64_t default_max_tokens;     /* 0: until the context is full */
    int64_t draft_ngram, draft_max; /* of requests that give none */
    double request_timeout_s;       /* 0: none */
    bool is_metrics_public;
    bool strict_model;
    int64_t max_queue; /* requests that wait for a model, at most */
    const char *build; /* the commit; "": unknown */
} ig_server_options;
const ig_server_options *ig_server_get_options(const ig_server *server);

typedef enum ig_phase {
    IG_SERVER_LOADING,
    IG_SERVER_READY,
    IG_SERVER_DRAINING, /* asks to be left alone: /ready says 503; still serves */
    IG_SERVER_STOPPING, /* takes no new requests */
} ig_phase;
ig_phase ig_server_phase(const ig_server *server);

/* Handler of every request: looks up the route, checks the key's rights, and calls it. */
void ig_route_dispatch(ig_server *server, ig_exchange *x);
/* A path without --api-prefix that needs no key, as /health; http.c asks before it checks keys. */
bool ig_route_is_public(const char *method, const char *path);

#endif
