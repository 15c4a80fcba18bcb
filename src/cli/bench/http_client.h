/*
 * http_client.h - many HTTP/1.1 connections to one server of this machine, in one thread.
 *
 * All sockets are non-blocking and in one epoll set.  A connection carries one request at a time
 * and is kept for the next; if the server has closed it meanwhile, the request is sent once more on
 * a new one.  Callbacks run in ig_http_client_poll() and may send the next request.
 */
#ifndef IG_CLI_BENCH_HTTP_CLIENT_H
#define IG_CLI_BENCH_HTTP_CLIENT_H

#include "cli/bench/http_reply.h"
#include "cli/bench/local_url.h"

typedef struct ig_http_client ig_http_client;

typedef enum ig_http_outcome {
    IG_HTTP_REPLIED,     /* with any code */
    IG_HTTP_NO_CONNECT,  /* no server, or it does not accept */
    IG_HTTP_CUT,         /* the connection ended before the reply did */
    IG_HTTP_NO_REPLY,    /* not within the time */
    IG_HTTP_NOT_A_REPLY, /* not HTTP, or above a limit */
    IG_HTTP_OUTCOMES,
} ig_http_outcome;
extern const char *const ig_http_outcome_names[IG_HTTP_OUTCOMES]; /* "connect", "closed", ... */

typedef struct ig_http_result {
    ig_http_outcome outcome;
    int code;         /* 0: no reply */
    const char *body; /* of a reply that is no event stream; borrowed during the callback */
    size_t body_bytes;
} ig_http_result;

typedef struct ig_http_request {
    const char *method, *path;                                    /* path after the URL's base */
    const char *body;                                             /* JSON, copied; NULL: none */
    double timeout_s;                                             /* for the whole exchange */
    void (*on_event)(void *user, const char *data, size_t bytes); /* NULL: no event streams */
    void (*on_done)(void *user, const ig_http_result *result);    /* once */
    void *user;
} ig_http_request;

/* `key` is sent as a bearer token; NULL: none.  Opens no connection yet. */
IG_MUST_CHECK ig_status ig_http_client_create(const ig_allocator *a, const ig_local_url *url,
                                              const char *key, int n_connections,
                                              ig_http_client **out);
/* Drops what is under way without a callback.  NULL is fine. */
void ig_http_client_destroy(ig_http_client *client);

/* Begins a request on a connection that has none. */
IG_MUST_CHECK ig_status ig_http_client_send(ig_http_client *client, int connection,
                                            const ig_http_request *request);

/* Waits up to `ms` for sockets, and does what they allow. */
IG_MUST_CHECK ig_status ig_http_client_poll(ig_http_client *client, int ms);

/* Sends one request on connection 0 and waits for its end.  `on_done` is replaced; the result's
 * body is valid until the next request.  Other connections go on. */
IG_MUST_CHECK ig_status ig_http_client_ask(ig_http_client *client, const ig_http_request *request,
                                           bool (*cancelled)(void *user), void *user,
                                           ig_http_result *out);

int ig_http_client_busy(const ig_http_client *client); /* requests under way */
int ig_http_client_open(const ig_http_client *client); /* sockets, used or idle */

#endif
