/*
 * http_internal.h - what the files of http.c share.
 *
 *     http_listen.c    sockets          http_keys.c      keys and their digests
 *     http_watch.c     one thread: accepts, sees clients leave, enforces times
 *     http_request.c   libmicrohttpd's callbacks: a request's checks, body and reply
 *     http_exchange.c  what handlers call           http_check.c   what a request may be
 *
 * The server accepts connections itself, and gives libmicrohttpd a duplicate of the socket once the
 * first bytes are there.  It has the memory of a request until a second after the reply, when it
 * closes the duplicate, and the connection waits for its next request here ("parked").  With the
 * original the watching thread sees a client leave in every state,
 * also while libmicrohttpd has suspended the connection and looks away; ends connections whose time
 * is over; and closes in an order that lets the client read the last reply.
 *
 *     IDLE -> HEADER -> BODY -> BUSY <-> SENDING -> IDLE | CLOSED -> LINGER
 */
#ifndef IG_SERVER_HTTP_INTERNAL_H
#define IG_SERVER_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "server/http.h"

enum {
    STREAM_BYTES = 256 << 10, /* that wait for a slow reader */
    ID_BYTES = 129,           /* of X-Request-Id, with the 0 */
    ADDRESS_BYTES = 64,
    DIGEST_BYTES = 65, /* SHA-256 as hex digits, with the 0 */
    TRACE_BYTES = 56,  /* "00-<32>-<16>-<2>" with the 0 */
    ADDRESS_BUCKETS = 1024,
    PARK_S = 1, /* libmicrohttpd's time limit for idle connections; it counts seconds */
};

/* ---- addresses (http_listen.c) ---- */

/* An address as 16 bytes: IPv4 as in "::ffff:1.2.3.4". */
typedef struct http_address {
    uint8_t bytes[16];
    bool is_unix;
} http_address;

typedef struct http_network { /* of trusted proxies */
    http_address address;
    int n_bits;
} http_network;

bool http_address_parse(const char *text, http_address *out);
void http_address_from_socket(const struct sockaddr_storage *from, http_address *out);
void http_address_print(const http_address *address, char out[ADDRESS_BYTES]);
bool http_address_is_loopback(const http_address *address);
bool http_address_is_equal(const http_address *a, const http_address *b);
IG_MUST_CHECK ig_status http_network_parse(const char *text, http_network *out);
bool http_is_trusted(const struct ig_http *http, const http_address *address); /* a proxy */
bool http_network_has(const http_network *network, const http_address *address);

/* ---- keys (http_keys.c) ---- */

typedef struct http_key {
    char name[64];
    char digest[DIGEST_BYTES], salt[DIGEST_BYTES];
    uint64_t party;
    bool is_admin;
} http_key;

/* Constant once it is loaded, and shared by the exchanges that use it. */
typedef struct http_keys {
    const ig_allocator *allocator;
    atomic_int n_users;
    http_key *at;
    size_t count, room;
} http_keys;

IG_MUST_CHECK ig_status http_keys_load(const ig_http_options *options, http_keys **out);
void http_keys_release(http_keys *keys); /* NULL is a no-op */
/* Compares with all keys in a time that does not depend on them.  NULL: it is none of them. */
const http_key *http_keys_find(const http_keys *keys, const char *key, size_t n_bytes);

/* ---- the server ---- */

typedef struct http_listener {
    int fd;
    bool is_unix, is_loopback, is_file_ours; /* ours: removed at the end */
    int port;
    char path[108]; /* of a Unix socket */
} http_listener;

enum { LISTENERS_MOST = 16, THREADS_MOST = 16 };

/* Threads of libmicrohttpd, with one certificate. */
typedef struct http_pool {
    struct http_pool *next; /* older: its connections end */
    struct MHD_Daemon *daemon[THREADS_MOST];
    int count, turn;
    uint64_t n_added[THREADS_MOST];                  /* connections */
    atomic_uint_fast64_t last_started[THREADS_MOST]; /* number of the one it began with last */
    atomic_int n_connections;
    char *cert, *key;
} http_pool;

typedef enum http_phase {
    HTTP_IDLE,
    HTTP_HEADER,
    HTTP_BODY,
    HTTP_BUSY,
    HTTP_SENDING,
    HTTP_CLOSED, /* libmicrohttpd has closed it */
    HTTP_LINGER, /* what the client still sends is dropped, so that it can read the reply */
    HTTP_PHASE_COUNT,
} http_phase;

typedef struct http_connection {
    struct ig_http *http;
    struct http_connection *next, *prev; /* of all; the watching thread's */
    struct http_connection *next_closed; /* under http->lock */
    struct http_connection *next_in_bucket;
    http_pool *pool; /* NULL: libmicrohttpd does not have it */
    int thread;      /* of the pool */
    uint64_t number; /* among those of its thread; 0: libmicrohttpd has begun with it */
    http_address address;
    int fd;
    bool is_counted_by_address;

    pthread_mutex_t lock;
    http_phase phase;
    double deadline_ms; /* of the phase; 0: none */
    bool is_tls;
    bool is_over;     /* a time limit ended it */
    bool has_hung_up; /* the client sends no more */
    bool may_park;    /* libmicrohttpd gives the socket back when it is idle */
    bool is_unknown;  /* how many bytes its requests have */
    uint64_t n_read;  /* bytes of its requests */
    ig_exchange *exchange;
} http_connection;

struct ig_http {
    ig_http_options options; /* with the defaults */
    const ig_allocator *allocator;
    http_listener listener[LISTENERS_MOST];
    int n_listeners;
    char url[160];
    http_network *proxies;
    bool is_unix_trusted;

    pthread_mutex_t lock; /* of keys, pools and closed */
    http_keys *keys;
    http_pool *pools; /* the newest first */
    http_connection *closed;

    pthread_t watcher;
    bool has_watcher;
    int epoll_fd, event_fd;
    double tick_ms;
    /* The watching thread's. */
    http_connection *connections, *by_address[ADDRESS_BUCKETS];
    int n_connections;
    bool is_listening;

    atomic_bool is_quiet; /* no longer accepts */
    atomic_bool is_stopping;
    atomic_int n_exchanges;
    atomic_int n_phase[HTTP_PHASE_COUNT];
    atomic_uint_fast64_t accepted, requests, by_class[6], left, rejected[IG_HTTP_REJECTION_COUNT];
};

void http_reject(ig_http *http, ig_http_rejection reason); /* counts */

/* http_listen.c */
IG_MUST_CHECK ig_status http_listen(ig_http *http);
void http_unlisten(ig_http *http);

/* http_pool.c: with the certificate as it is now. */
IG_MUST_CHECK ig_status http_pool_create(ig_http *http, http_pool **out);
void http_pool_destroy(ig_http *http, http_pool *pool); /* NULL is a no-op */
bool http_pool_add(http_pool *pool, http_connection *connection);

/* http_watch.c */
IG_MUST_CHECK ig_status http_watch_start(ig_http *http);
void http_watch_stop(ig_http *http);
void http_watch_wake(ig_http *http);
/* Sets phase and deadline; under the connection's lock. */
void http_connection_enter(http_connection *connection, http_phase phase);
/* A reply outside libmicrohttpd, where that can send none; under the connection's lock. */
void http_connection_send_error(http_connection *connection, int code, const char *message);

/* ---- exchanges ---- */

typedef enum http_output { HTTP_NO_OUTPUT, HTTP_REPLY, HTTP_STREAM } http_output;

struct ig_exchange {
    ig_exchange_request request;
    ig_http *http;
    http_connection *connection;
    struct MHD_Connection *mhd;
    http_keys *keys; /* of request.key_name; NULL: none */

    char id[ID_BYTES], client[ADDRESS_BYTES], traceparent[TRACE_BYTES], parent_span[17];
    char *body;
    size_t n_body, body_room;
    bool is_old, is_chunked; /* HTTP/1.0; Transfer-Encoding */
    size_t n_header;         /* bytes; 0: it is not complete */
    bool is_url_long, has_header, is_called, is_queued, is_memory_out;

    char *headers, *notes; /* "name", 0, "value", 0, ... */
    size_t n_headers, headers_room, n_notes, notes_room;

    const char *route;
    http_output output;
    int code;
    char content_type[96];
    char *bytes; /* that wait, from `taken` on */
    size_t n_bytes, bytes_room, taken;
    bool is_ended;
    uint64_t n_sent;

    ig_exchange_source source;
    bool is_deferred;

    /* Under the connection's lock. */
    bool is_woken, is_suspended, has_left;
};

/* http_exchange.c */
ig_exchange *http_exchange_create(http_connection *connection,
                                  struct MHD_Connection *mhd); /* NULL: no memory */
void http_exchange_destroy(ig_exchange *x);
bool http_exchange_take_body(ig_exchange *x, const void *bytes, size_t n_bytes);
void http_exchange_refuse(ig_exchange *x, ig_http_rejection reason, int code, const char *message);
void http_exchange_fail(ig_exchange *x, int code, const char *message);
/* Calls advance() as long as there is cause; true: there is output, or the client has left.
 * False: the connection is suspended. */
bool http_exchange_advance(ig_exchange *x);
void http_exchange_leave(ig_exchange *x); /* under the connection's lock */
/* An error as JSON, of type and code; returns its length, at most room - 1. */
size_t http_error_text(char *out, size_t room, int code, const char *message);

/* http_check.c: looks at a request's header, before the body is read.  False: there is a reply. */
bool http_check(ig_exchange *x);
void http_trace(ig_exchange *x); /* request id and trace context */

/* http_log.c */
void http_log(const ig_exchange *x);

/* http_request.c */
void *http_on_uri(void *user, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_on_request(void *user, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *upload,
                                size_t *n_upload, void **context);
void http_on_completed(void *user, struct MHD_Connection *mhd, void **context,
                       enum MHD_RequestTerminationCode code);
void http_on_connection(void *user, struct MHD_Connection *mhd, void **context,
                        enum MHD_ConnectionNotificationCode code);

#endif
