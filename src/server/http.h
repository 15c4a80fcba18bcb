/*
 * http.h - HTTP over libmicrohttpd: connections, limits, keys and streams.  Knows no models.
 *
 *     handler(x)                      on an HTTP thread, once the body is complete
 *       -> ig_exchange_reply()        a complete reply
 *       -> ig_exchange_defer()        advance() is called now, after each ig_exchange_wake(), and
 *                                     when the client has taken what was written, until it has
 *                                     ended the reply; close() is called once after that, or when
 *                                     the client has left
 *
 * Between two calls of advance() the connection is suspended and takes no thread.
 */
#ifndef IG_SERVER_HTTP_H
#define IG_SERVER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ingot/context.h"

typedef struct ig_exchange ig_exchange; /* one request and its reply */

/* The request; all is borrowed until the exchange ends. */
typedef struct ig_exchange_request {
    const char *method, *path; /* without --api-prefix and without the query */
    const char *body;          /* complete; "" if there is none */
    size_t body_bytes;
    const char *id;       /* X-Request-Id: the client's, or a new one */
    const char *key_name; /* of the key that was given; NULL: none is needed */
    bool admin;           /* the key may load models, reload and drain */
    uint64_t party;       /* of the key, or of the client's address */
    const void *salt;     /* of the key: separates prefix caches */
    size_t salt_bytes;
    double arrived_ms; /* ig_clock_ms() */
} ig_exchange_request;
const ig_exchange_request *ig_exchange_get_request(const ig_exchange *x);
const char *ig_exchange_header(const ig_exchange *x, const char *name); /* NULL: none; borrowed */
const char *ig_exchange_query(const ig_exchange *x, const char *name);  /* NULL: none; borrowed */

/* Adds a header to the reply; before it begins. */
void ig_exchange_add_header(ig_exchange *x, const char *name, const char *value);
/* A complete reply.  The bytes are copied. */
void ig_exchange_reply(ig_exchange *x, int code, const char *content_type, const void *bytes,
                       size_t n_bytes);

/* Computes a reply bit by bit. */
typedef struct ig_exchange_source {
    void (*advance)(void *user, ig_exchange *x);
    void (*close)(void *user);
    void *user;
} ig_exchange_source;
void ig_exchange_defer(ig_exchange *x, const ig_exchange_source *source);
/* Schedules a call of advance(); any thread, also after the reply has ended, until close(). */
void ig_exchange_wake(ig_exchange *x);

/* Begins a streamed reply, in advance() alone. */
void ig_exchange_stream(ig_exchange *x, int code, const char *content_type);
/* Appends to it.  False: the client has not taken what was written before (256 KiB wait), nothing
 * is appended, and advance() is called again when there is room; or the client has left. */
bool ig_exchange_write(ig_exchange *x, const void *bytes, size_t n_bytes);
void ig_exchange_end(ig_exchange *x); /* of a streamed reply */
/* The client has left: nothing that is written will be read. */
bool ig_exchange_left(const ig_exchange *x);
/* What the log line and the trace of this exchange say besides, such as tokens and finish reason:
 * "name", value pairs, copied. */
void ig_exchange_note(ig_exchange *x, const char *name, const char *value);

#endif
