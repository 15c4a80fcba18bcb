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
    bool admin;           /* may load models, reload and drain: an admin key, or no keys exist */
    uint64_t party;       /* of the key, or of the client's address */
    const void *salt;     /* of the key: separates prefix caches */
    size_t salt_bytes;
    double arrived_ms;  /* ig_clock_ms() */
    const char *client; /* its address, or what a trusted proxy says; "unix" */
    /* W3C trace context: trace and span of this exchange; the client's span, or "". */
    const char *traceparent, *parent_span;
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
 * is appended, and advance() is called again when there is room; or the client has left.  A longer
 * piece is taken when nothing waits. */
bool ig_exchange_write(ig_exchange *x, const void *bytes, size_t n_bytes);
void ig_exchange_end(ig_exchange *x); /* of a streamed reply */
/* The client has left: nothing that is written will be read. */
bool ig_exchange_left(const ig_exchange *x);
/* What the log line and the trace of this exchange say besides, such as tokens and finish reason:
 * "name", value pairs, copied. */
void ig_exchange_note(ig_exchange *x, const char *name, const char *value);
/* The notes in order: `at` is 0 before the first.  False: there are no more. */
bool ig_exchange_next_note(const ig_exchange *x, size_t *at, const char **name, const char **value);
/* The route that handles it: a static string, NULL: none. */
void ig_exchange_set_route(ig_exchange *x, const char *route);
const char *ig_exchange_get_route(const ig_exchange *x);

/* ---- the server ---- */

typedef struct ig_http ig_http;

/* Zero means the default.  Strings and lists are borrowed until the server is destroyed. */
typedef struct ig_http_options {
    const ig_allocator *allocator; /* NULL: malloc's */

    const char *host;   /* address or name; a path that ends in ".sock"; NULL: "127.0.0.1" */
    int port;           /* 0: any free one, see ig_http_port() */
    const int *sockets; /* listening sockets, as systemd's, in place of host and port; the server
                           closes them, also when it cannot be created */
    size_t n_sockets;
    bool insecure; /* serves other addresses than loopback without a key */
    int threads;   /* 0: 2 */

    const char *cert_file, *cert_key_file; /* PEM; both or neither: TLS 1.2 and 1.3 */

    /* Keys, one a line or separated by commas, each "key" or "name:key"; NULL: none.  Files need
     * mode 0600, and may have '#' comments. */
    const char *api_key_file, *admin_key_file;
    const char *api_keys;    /* the keys themselves: INGOT_API_KEY */
    bool share_prefix_cache; /* one salt for all keys */
    /* Whether a path needs no key and no known Host.  NULL: none is public. */
    bool (*is_public)(const char *method, const char *path);

    const char *api_prefix;        /* "/base": taken from paths; other paths are 404 */
    const char *const *host_names; /* further values of Host; "*": any */
    size_t n_host_names;
    const char *const *cors_origins; /* "https://app.example" */
    size_t n_cors_origins;
    const char *const *trusted_proxies; /* addresses or CIDR; "unix": clients of a Unix socket */
    size_t n_trusted_proxies;

    size_t max_header_bytes, max_url_bytes, max_body_bytes; /* 16 KiB, 8 KiB, 8 MiB */
    int max_connections;                                    /* 1024 */
    int max_per_address; /* 64; -1: no limit.  Trusted proxies have none */
    double header_s, body_s, idle_s, write_stall_s; /* 30, 60, 60, 60 */

    /* Called for each complete request that has passed the checks. */
    void (*handler)(void *user, ig_exchange *x);
    /* Called when an exchange has ended, on any thread; code 0: without a reply.  NULL: no
     * callback.
     */
    void (*ended)(void *user, const ig_exchange *x, int code);
    void *user; /* of these two */
    /* One line for each exchange, without a line feed; any thread.  NULL: no log. */
    void (*log)(void *user, const char *line);
    void *log_user;
    bool log_json;
} ig_http_options;

/* Reads keys and certificates, and binds.  IG_ERR_ARGUMENT: options that do not fit, such as an
 * open address without a key, or a taken port; IG_ERR_IO: a file that cannot be used. */
IG_MUST_CHECK ig_status ig_http_create(const ig_http_options *options, ig_http **out);
/* Begins to accept; raises the process's limit of open files to two for each connection. */
IG_MUST_CHECK ig_status ig_http_start(ig_http *http);
/* Reads keys and certificates again; on failure the old ones stay.  Any thread. */
IG_MUST_CHECK ig_status ig_http_reload(ig_http *http);
/* Closes the listening sockets and idle connections; others end with their exchange. */
void ig_http_stop_accepting(ig_http *http);
/* Waits until no exchange is left, at most for `seconds`; true: none is. */
bool ig_http_wait_idle(ig_http *http, double seconds);
/* Ends all exchanges as if their clients had left.  NULL is a no-op. */
void ig_http_destroy(ig_http *http);

int ig_http_port(const ig_http *http); /* of the first socket; 0: it is a Unix socket */
/* Where the server listens, as "http://127.0.0.1:8080" or "unix:/run/ingot.sock"; lent. */
const char *ig_http_url(const ig_http *http);

#define IG_HTTP_REJECTIONS(X)                            \
    X(CONNECTIONS, "connections")   /* too many */       \
    X(ADDRESS, "per_address")       /* of one address */ \
    X(MALFORMED, "malformed")       /* 400 */            \
    X(KEY, "key")                   /* 401 */            \
    X(HOST, "host")                 /* 403 */            \
    X(ORIGIN, "origin")             /* 403 */            \
    X(TIMEOUT, "timeout")           /* 408 */            \
    X(BODY, "body_size")            /* 413 */            \
    X(URL, "url_size")              /* 414 */            \
    X(CONTENT_TYPE, "content_type") /* 415 */            \
    X(EXPECT, "expect")             /* 417 */            \
    X(HEADER, "header_size")        /* 431 */            \
    X(STALLED, "stalled")           /* a reader */       \
    X(MEMORY, "memory")             /* 503 */

typedef enum ig_http_rejection {
#define X(name, text) IG_HTTP_REJECT_##name,
    IG_HTTP_REJECTIONS(X) IG_HTTP_REJECTION_COUNT
#undef X
} ig_http_rejection;
const char *ig_http_rejection_name(ig_http_rejection reason); /* static */

typedef struct ig_http_stats {
    uint64_t accepted;    /* connections */
    uint64_t requests;    /* exchanges that have ended */
    uint64_t by_class[6]; /* of status codes: [2] counts 2xx; [0]: no reply was sent */
    uint64_t left;        /* exchanges whose client left before the reply had ended */
    uint64_t rejected[IG_HTTP_REJECTION_COUNT];
    /* Connections now: without a request, reading one, computing, sending; and all of them. */
    int n_idle, n_reading, n_busy, n_sending, n_connections;
} ig_http_stats;
void ig_http_get_stats(const ig_http *http, ig_http_stats *out); /* takes no lock */

#endif
