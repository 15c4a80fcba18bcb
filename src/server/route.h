/*
 * route.h - the table of routes: method and path to handler.
 *
 * The table is also printed in docs/server.md and docs/openapi.json.
 */
#ifndef IG_SERVER_ROUTE_H
#define IG_SERVER_ROUTE_H

#include "server/json_out.h"
#include "server/server.h"
#include "server/timers.h"

typedef enum ig_key_level { IG_KEY_PUBLIC, IG_KEY_USER, IG_KEY_ADMIN } ig_key_level;

typedef struct ig_http_route {
    const char *method; /* a route for GET takes HEAD, too */
    const char *path;   /* one that ends with a star takes any rest, also with slashes */
    ig_key_level key;
    bool v1;       /* also without /v1 or, where the path has none, with it */
    unsigned body; /* IG_BODY_*; 0: none */
    void (*handler)(ig_server *server, ig_exchange *x);
    const char *summary;
    const char *missing; /* why it is answered with 501, instead of a handler */
} ig_http_route;
const ig_http_route *ig_route_row(size_t i); /* NULL: there are no more */

/* What follows the star's place in the path of a request: "a/b" of /v1/models/a/b; borrowed. */
const char *ig_route_rest(const ig_exchange *x, const char *pattern);

/* docs/openapi.json, and the tables of docs/server.md, appended to `out`. */
void ig_routes_openapi(ig_out *out);
void ig_routes_markdown(ig_out *out);

/* ---- what all requests of a server share ---- */

typedef struct ig_routes_options {
    const ig_allocator *allocator; /* borrowed; NULL: malloc's */
    /* Called by any thread; NULL: no log. */
    void (*log)(void *user, ig_log_level level, const char *text);
    void *user;
} ig_routes_options;

/* The server owns it, and destroys it when no exchange is left. */
IG_MUST_CHECK ig_status ig_routes_create(const ig_routes_options *options, ig_routes **out);
void ig_routes_destroy(ig_routes *routes); /* NULL is a no-op */
ig_timers *ig_routes_timers(ig_routes *routes);
/* Logs that a field of a request is unknown, once for each name. */
void ig_routes_unknown_field(ig_routes *routes, const char *name);

#endif
