/*
 * http_request.c - libmicrohttpd's callbacks, from the request line to the end of the reply:
 *
 *     on_uri -> on_request (header) -> on_request (body)... -> on_request (complete)
 *            -> read_stream()... -> on_completed
 */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "server/http_internal.h"

enum {
    BLOCK_BYTES = 16 << 10,
    WHOLE_BYTES = 32 << 10, /* of replies that are given at once; others show their progress */
};

static http_connection *connection_of(struct MHD_Connection *mhd) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info->socket_context;
}

/* ---- connections ---- */

static void set_time_limit(struct MHD_Connection *mhd, unsigned seconds) {
    MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}

/* Bytes that were read from the socket; false: only TCP counts them.  Bytes that arrive between the
 * two calls make it less. */
static bool count_read(int fd, uint64_t *out) {
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    int n_unread = 0;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n)) return false;
    if (n < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received ||
        ioctl(fd, FIONREAD, &n_unread))
        return false;
    *out = info.tcpi_bytes_received - (uint64_t)n_unread;
    return true;
}

/* libmicrohttpd has read nothing of a next request. */
static bool has_read_no_more(const http_connection *c) {
    uint64_t n_read;
    return !c->is_unknown && count_read(c->fd, &n_read) && n_read == c->n_read;
}

/* Whether the reply announces no end of the connection: libmicrohttpd ends it after HTTP/1.0, where
 * either side asks for it, and where the reply began before the whole request was there. */
static bool stays_open(const ig_exchange *x) {
    const char *option = ig_exchange_header(x, "Connection");
    if (!x->is_called || x->is_old || x->is_chunked) return false;
    if (option && strcasecmp(option, "keep-alive") != 0) return false;
    for (size_t i = 0; i < x->n_headers;) {
        const char *name = x->headers + i, *value = name + strlen(name) + 1;
        if (!strcasecmp(name, "Connection")) return false;
        i += strlen(name) + strlen(value) + 2;
    }
    return true;
}

/* The socket comes back from libmicrohttpd; false: the connection has to end. */
static bool park(http_connection *c) {
    if (!c->may_park || c->is_over || c->has_hung_up || atomic_load(&c->http->is_quiet) ||
        !has_read_no_more(c))
        return false;
    c->pool = NULL;
    c->may_park = false;
    http_connection_enter(c, HTTP_IDLE); /* a request that has just come begins at once */
    return true;
}

static void begin_connection(http_connection *c) {
    pthread_mutex_lock(&c->lock);
    const uint64_t number = c->number;
    c->number = 0;
    atomic_store(&c->pool->last_started[c->thread], number);
    pthread_mutex_unlock(&c->lock);
}

void http_on_connection(void *user, struct MHD_Connection *mhd, void **context,
                        enum MHD_ConnectionNotificationCode code) {
    ig_http *http = user;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) { /* see http_pool_add() */
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        memcpy(context, (const char *)info->client_addr + sizeof(struct sockaddr), sizeof *context);
        set_time_limit(mhd, 0);
        begin_connection(*context);
        return;
    }
    http_connection *c = *context;
    pthread_mutex_lock(&c->lock);
    http_pool *pool = c->pool;
    if (!park(c)) {
        http_connection_enter(c, HTTP_CLOSED);
        c->pool = NULL;
        pthread_mutex_lock(&http->lock);
        c->next_closed = http->closed;
        http->closed = c;
        pthread_mutex_unlock(&http->lock);
        http_watch_wake(http);
    }
    pthread_mutex_unlock(&c->lock);
    atomic_fetch_sub(&pool->n_connections, 1);
}

/* ---- replies ---- */

static ssize_t take(ig_exchange *x, char *out, size_t most) {
    const size_t waiting = x->n_bytes - x->taken, n = waiting < most ? waiting : most;
    memcpy(out, x->bytes + x->taken, n);
    x->taken += n;
    x->n_sent += n;
    pthread_mutex_lock(&x->connection->lock);
    http_connection_enter(x->connection, HTTP_SENDING); /* begins its time again */
    pthread_mutex_unlock(&x->connection->lock);
    return (ssize_t)n;
}

static ssize_t read_reply(void *user, uint64_t at, char *out, size_t most) {
    (void)at;
    return take(user, out, most);
}

/* libmicrohttpd 0.9.75 closes a connection here without looking at it again.  It looks at all that
 * have a time limit which is not the daemon's. */
static ssize_t close_after(ig_exchange *x, ssize_t result) {
    set_time_limit(x->mhd, 2 * PARK_S);
    return result;
}

static ssize_t read_stream(void *user, uint64_t at, char *out, size_t most) {
    ig_exchange *x = user;
    (void)at;
    if (!http_exchange_advance(x)) return 0; /* suspended */
    if (ig_exchange_left(x)) {
        shutdown(x->connection->fd, SHUT_RDWR);
        return close_after(x, MHD_CONTENT_READER_END_WITH_ERROR);
    }
    if (x->taken < x->n_bytes) return take(x, out, most);
    return x->is_old ? close_after(x, MHD_CONTENT_READER_END_OF_STREAM)
                     : MHD_CONTENT_READER_END_OF_STREAM;
}

static struct MHD_Response *create_response(ig_exchange *x) {
    static const char no_memory[] = "{\"error\":{\"message\":\"out of memory; try again later\","
                                    "\"type\":\"unavailable_error\",\"param\":null,\"code\":503}}";
    if (x->is_memory_out && !x->n_sent) {
        http_reject(x->http, IG_HTTP_REJECT_MEMORY);
        x->code = 503;
        x->is_ended = true;
        snprintf(x->content_type, sizeof x->content_type, "application/json");
        return MHD_create_response_from_buffer(sizeof no_memory - 1, (void *)(uintptr_t)no_memory,
                                               MHD_RESPMEM_PERSISTENT);
    }
    if (x->output == HTTP_STREAM)
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, x,
                                                 NULL);
    if (x->n_bytes <= WHOLE_BYTES)
        return MHD_create_response_from_buffer(x->n_bytes, x->bytes, MHD_RESPMEM_PERSISTENT);
    return MHD_create_response_from_callback(x->n_bytes, BLOCK_BYTES, read_reply, x, NULL);
}

static bool add_headers(const ig_exchange *x, struct MHD_Response *response) {
    bool ok = MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") &&
              MHD_add_response_header(response, "X-Request-Id", x->id);
    if (x->content_type[0])
        ok = ok && MHD_add_response_header(response, "Content-Type", x->content_type);
    if (x->output == HTTP_STREAM)
        ok = ok && MHD_add_response_header(response, "Cache-Control", "no-cache") &&
             MHD_add_response_header(response, "X-Accel-Buffering", "no");
    for (size_t i = 0; i < x->n_headers;) {
        const char *name = x->headers + i, *value = name + strlen(name) + 1;
        MHD_add_response_header(response, name, value); /* refuses line ends */
        i += strlen(name) + strlen(value) + 2;
    }
    return ok;
}

static enum MHD_Result send_reply(ig_exchange *x) {
    http_connection *c = x->connection;
    if (atomic_load(&x->http->is_quiet)) ig_exchange_add_header(x, "Connection", "close");
    struct MHD_Response *response = create_response(x);
    if (!response || !add_headers(x, response)) {
        http_reject(x->http, IG_HTTP_REJECT_MEMORY);
        if (response) MHD_destroy_response(response);
        return MHD_NO;
    }
    pthread_mutex_lock(&c->lock);
    const bool is_over = c->is_over;
    if (!is_over) http_connection_enter(c, HTTP_SENDING);
    pthread_mutex_unlock(&c->lock);
    x->is_queued = true;
    const enum MHD_Result result =
        is_over ? MHD_NO : MHD_queue_response(x->mhd, (unsigned)x->code, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- requests ---- */

/* For an exchange that could not be created. */
static enum MHD_Result refuse_without_memory(ig_http *http, struct MHD_Connection *mhd) {
    static const char text[] = "{\"error\":{\"message\":\"out of memory; try again later\","
                               "\"type\":\"unavailable_error\",\"param\":null,\"code\":503}}";
    http_reject(http, IG_HTTP_REJECT_MEMORY);
    struct MHD_Response *response = MHD_create_response_from_buffer(
        sizeof text - 1, (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", "application/json");
    const enum MHD_Result result = MHD_queue_response(mhd, 503, response);
    MHD_destroy_response(response);
    return result;
}

void *http_on_uri(void *user, const char *uri, struct MHD_Connection *mhd) {
    http_connection *c = connection_of(mhd);
    ig_http *http = user;
    ig_exchange *x = http_exchange_create(c, mhd);
    if (!x) return NULL;
    http_address_print(&c->address, x->client);
    x->is_url_long = uri && strlen(uri) > http->options.max_url_bytes;
    set_time_limit(mhd, 0);
    pthread_mutex_lock(&c->lock);
    c->exchange = x;
    c->may_park = false;
    if (c->phase == HTTP_IDLE) http_connection_enter(c, HTTP_HEADER); /* it came with another */
    pthread_mutex_unlock(&c->lock);
    return x;
}

static enum MHD_Result begin_body(ig_exchange *x, const char *version) {
    const union MHD_ConnectionInfo *header =
        MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    x->n_header = header ? header->header_size : 0;
    x->is_old = !strcmp(version, "HTTP/1.0");
    x->is_chunked = ig_exchange_header(x, "Transfer-Encoding") != NULL;
    pthread_mutex_lock(&x->connection->lock);
    http_connection_enter(x->connection, HTTP_BODY);
    pthread_mutex_unlock(&x->connection->lock);
    return http_check(x) ? MHD_YES : send_reply(x);
}

/* libmicrohttpd takes no reply in the middle of a body. */
static enum MHD_Result refuse_body(ig_exchange *x, ig_http_rejection reason, int code,
                                   const char *message) {
    http_connection *c = x->connection;
    http_reject(x->http, reason);
    x->code = code;
    pthread_mutex_lock(&c->lock);
    if (!c->is_over) http_connection_send_error(c, code, message);
    pthread_mutex_unlock(&c->lock);
    return MHD_NO;
}

static enum MHD_Result take_body(ig_exchange *x, const char *bytes, size_t n_bytes) {
    const size_t most = x->http->options.max_body_bytes;
    if (n_bytes > most || x->n_body > most - n_bytes) {
        char message[96];
        snprintf(message, sizeof message, "the body has more than %zu bytes", most);
        return refuse_body(x, IG_HTTP_REJECT_BODY, 413, message);
    }
    if (!http_exchange_take_body(x, bytes, n_bytes))
        return refuse_body(x, IG_HTTP_REJECT_MEMORY, 503, "out of memory; try again later");
    return MHD_YES;
}

static void call_handler(ig_exchange *x) {
    http_connection *c = x->connection;
    x->is_called = true;
    if (x->body) x->request.body = x->body;
    x->request.body_bytes = x->n_body;
    pthread_mutex_lock(&c->lock);
    http_connection_enter(c, HTTP_BUSY);
    pthread_mutex_unlock(&c->lock);
    x->http->options.handler(x->http->options.user, x);
    if (x->output == HTTP_NO_OUTPUT && !x->is_deferred)
        http_exchange_fail(x, 500, "the request was not answered");
}

/* NOLINTNEXTLINE(readability-function-size): libmicrohttpd's parameters */
enum MHD_Result http_on_request(void *user, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *upload,
                                size_t *n_upload, void **context) {
    ig_exchange *x = *context;
    if (!x) return refuse_without_memory(user, mhd);
    if (!x->has_header) {
        x->has_header = true;
        x->request.method = method;
        x->request.path = url;
        return begin_body(x, version);
    }
    if (*n_upload) {
        const size_t n = *n_upload;
        *n_upload = 0;
        return take_body(x, upload, n);
    }
    if (!x->is_called) call_handler(x);
    if (x->output == HTTP_NO_OUTPUT && !http_exchange_advance(x)) return MHD_YES;
    return x->output == HTTP_NO_OUTPUT ? MHD_NO : send_reply(x);
}

/* Of a reply that libmicrohttpd gave by itself; see on_message() of http_pool.c. */
static int code_of(struct MHD_Connection *mhd) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
    return info ? (int)info->http_status : 0;
}

void http_on_completed(void *user, struct MHD_Connection *mhd, void **context,
                       enum MHD_RequestTerminationCode code) {
    ig_http *http = user;
    http_connection *c = connection_of(mhd);
    ig_exchange *x = *context;
    *context = NULL;
    const bool is_complete = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    pthread_mutex_lock(&c->lock);
    const bool is_over = c->is_over;
    c->exchange = NULL;
    if (is_complete && !is_over) http_connection_enter(c, HTTP_IDLE);
    c->is_unknown |= !x || x->is_chunked;
    c->n_read += x ? x->n_header + x->n_body : 0;
    c->may_park = is_complete && !c->is_tls && x && stays_open(x) && has_read_no_more(c);
    if (c->may_park) set_time_limit(mhd, PARK_S);
    pthread_mutex_unlock(&c->lock);
    if (!x) return;
    if (x->is_deferred) x->source.close(x->source.user);
    if (!x->code) x->code = is_over ? 408 : code_of(mhd);
    if (x->output == HTTP_REPLY && is_complete && strcmp(x->request.method, "HEAD") != 0)
        x->n_sent = x->n_bytes;
    x->has_left = false; /* it may have left after the whole reply */
    if (!is_complete && (x->is_called || !x->code)) {
        x->has_left = true;
        atomic_fetch_add(&http->left, 1);
    }
    if (!x->is_queued && x->is_called) x->code = 0;
    atomic_fetch_add(&http->requests, 1);
    atomic_fetch_add(&http->by_class[x->code / 100 % 6], 1);
    http_log(x);
    if (http->options.ended) http->options.ended(http->options.user, x, x->code);
    http_exchange_destroy(x);
}
