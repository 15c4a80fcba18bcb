#include "cli/bench/http_client.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

enum { READ_BYTES = 64 << 10, EVENTS = 256, HEAD_BYTES = 1024, SPARE_FILES = 64 };
static const double timeout_check_s = 0.05;

const char *const ig_http_outcome_names[IG_HTTP_OUTCOMES] = {"ok", "connect", "closed", "timeout",
                                                             "malformed"};

typedef enum connection_state {
    UNUSED, /* no request; the socket may be open */
    PENDING,
    CONNECTING,
    SENDING,
    RECEIVING,
} connection_state;

typedef struct connection {
    connection_state state;
    int fd; /* -1: none */
    bool is_reused;
    ig_http_request request;
    ig_http_bytes out;
    size_t n_sent;
    double deadline;
    ig_http_reply reply;
} connection;

struct ig_http_client {
    const ig_allocator *allocator;
    ig_local_url url;
    char *key;
    int epoll, n_connections, n_busy, n_open;
    connection *connections;
    int *pending, n_pending; /* connections whose request has not been started */
    double checked_s;
    char *buffer;
};

/* ---- Sockets ---- */

static int number_of(const ig_http_client *c, const connection *at) {
    return (int)(at - c->connections);
}

static void close_socket(ig_http_client *c, connection *at) {
    if (at->fd < 0) return;
    close(at->fd); /* leaves the epoll set, too */
    at->fd = -1;
    c->n_open--;
}

static bool watch(ig_http_client *c, connection *at, int how, uint32_t events) {
    struct epoll_event event = {.events = events, .data.u32 = (uint32_t)number_of(c, at)};
    return epoll_ctl(c->epoll, how, at->fd, &event) == 0;
}

/* Begins to connect; false: refused at once. */
static bool open_socket(ig_http_client *c, connection *at) {
    const struct sockaddr *to = (const struct sockaddr *)&c->url.address;
    at->fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (at->fd < 0) return false;
    c->n_open++;
    at->is_reused = false;
    if (to->sa_family != AF_UNIX) /* a request is one packet: do not wait for more */
        (void)setsockopt(at->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    const bool begun = connect(at->fd, to, c->url.address_bytes) == 0 || errno == EINPROGRESS;
    if (begun && watch(c, at, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT)) return true;
    close_socket(c, at);
    return false;
}

/* ---- A request ---- */

static void finish(ig_http_client *c, connection *at, ig_http_outcome outcome) {
    const ig_http_reply *r = &at->reply;
    const bool keeps = outcome == IG_HTTP_REPLIED && r->keep_alive;
    if (!keeps) close_socket(c, at);
    at->state = UNUSED;
    at->is_reused = keeps;
    c->n_busy--;
    const ig_http_result result = {.outcome = outcome,
                                   .code = outcome == IG_HTTP_REPLIED ? r->code : 0,
                                   .body = r->body.at ? r->body.at : "",
                                   .body_bytes = r->body.used};
    at->request.on_done(at->request.user, &result);
}

static void start(ig_http_client *c, connection *at) {
    at->n_sent = 0;
    if (at->fd >= 0) {
        at->state = SENDING;
        if (watch(c, at, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT)) return;
        close_socket(c, at);
    }
    at->state = CONNECTING;
    if (!open_socket(c, at)) finish(c, at, IG_HTTP_NO_CONNECT);
}

/* The connection ended.  A kept one may have been closed while the request was on its way. */
static void lose(ig_http_client *c, connection *at) {
    const bool again = at->is_reused && at->reply.n_received == 0;
    if (again) {
        close_socket(c, at);
        start(c, at);
        return;
    }
    if (at->state == CONNECTING) {
        finish(c, at, IG_HTTP_NO_CONNECT);
        return;
    }
    const bool complete = ig_http_reply_close(&at->reply) == IG_OK;
    finish(c, at, complete ? IG_HTTP_REPLIED : IG_HTTP_CUT);
}

static void send_more(ig_http_client *c, connection *at) {
    at->state = SENDING;
    const ssize_t sent =
        send(at->fd, at->out.at + at->n_sent, at->out.used - at->n_sent, MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno != EAGAIN && errno != EINTR) lose(c, at);
        return;
    }
    at->n_sent += (size_t)sent;
    if (at->n_sent < at->out.used) return;
    at->state = RECEIVING;
    if (!watch(c, at, EPOLL_CTL_MOD, EPOLLIN)) lose(c, at);
}

static ig_status receive(ig_http_client *c, connection *at) {
    const ssize_t got = recv(at->fd, c->buffer, READ_BYTES, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return IG_OK;
    if (got <= 0) {
        lose(c, at);
        return IG_OK;
    }
    size_t used = 0;
    const ig_status status = ig_http_reply_feed(&at->reply, c->buffer, (size_t)got, &used);
    if (status == IG_ERR_MEMORY) return status;
    if (status != IG_OK) {
        finish(c, at, IG_HTTP_NOT_A_REPLY);
    } else if (at->reply.phase == IG_HTTP_COMPLETE) {
        /* A reply before the request was sent, or more bytes than a reply has: do not reuse it. */
        if (at->state != RECEIVING || used < (size_t)got) at->reply.keep_alive = false;
        finish(c, at, IG_HTTP_REPLIED);
    }
    return IG_OK;
}

static ig_status serve_socket(ig_http_client *c, connection *at, uint32_t events) {
    if (at->fd < 0) return IG_OK;
    if (at->state == UNUSED || at->state == PENDING) { /* the server closed a kept connection */
        close_socket(c, at);
        return IG_OK;
    }
    if (at->state == CONNECTING && events & (EPOLLERR | EPOLLHUP)) {
        lose(c, at);
        return IG_OK;
    }
    if (events & EPOLLOUT && at->state <= SENDING) send_more(c, at);
    const bool readable = events & (EPOLLIN | EPOLLERR | EPOLLHUP);
    return readable && at->fd >= 0 && at->state >= SENDING ? receive(c, at) : IG_OK;
}

static void end_late(ig_http_client *c) {
    const double now = ig_clock_seconds();
    if (now - c->checked_s < timeout_check_s) return;
    c->checked_s = now;
    for (int i = 0; i < c->n_connections && c->n_busy > 0; i++) {
        connection *at = &c->connections[i];
        if (at->state > PENDING && now > at->deadline) finish(c, at, IG_HTTP_NO_REPLY);
    }
}

/* ---- Public ---- */

static ig_status format_request(ig_http_client *c, connection *at, const ig_http_request *request) {
    const size_t body_bytes = request->body ? strlen(request->body) : 0;
    char head[HEAD_BYTES];
    const int n = snprintf(head, sizeof head,
                           "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: ingot-bench\r\n"
                           "%s%s%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                           request->method, c->url.base, request->path, c->url.host,
                           c->key ? "Authorization: Bearer " : "", c->key ? c->key : "",
                           c->key ? "\r\n" : "", body_bytes);
    if (n < 0 || (size_t)n >= sizeof head)
        return IG_FAIL(IG_ERR_ARGUMENT, "http: path and key have more than %d bytes", HEAD_BYTES);
    at->out.used = 0;
    if (!ig_http_bytes_add(c->allocator, &at->out, head, (size_t)n) ||
        !ig_http_bytes_add(c->allocator, &at->out, request->body ? request->body : "", body_bytes))
        return IG_FAIL(IG_ERR_MEMORY, "http: no memory for a request of %zu bytes", body_bytes);
    return IG_OK;
}

ig_status ig_http_client_send(ig_http_client *c, int connection_number,
                              const ig_http_request *request) {
    connection *at = &c->connections[connection_number];
    assert(at->state == UNUSED);
    IG_TRY(format_request(c, at, request));
    at->request = *request;
    at->request.body = NULL;
    at->reply.allocator = c->allocator;
    at->reply.on_event = request->on_event;
    at->reply.user = request->user;
    ig_http_reply_reset(&at->reply);
    at->deadline = ig_clock_seconds() + request->timeout_s;
    at->state = PENDING;
    c->pending[c->n_pending++] = connection_number;
    c->n_busy++;
    return IG_OK;
}

ig_status ig_http_client_poll(ig_http_client *c, int ms) {
    /* A request that cannot connect may send the next one: that waits for the next call. */
    const int n_pending = c->n_pending;
    int *started = c->pending + c->n_connections;
    memcpy(started, c->pending, (size_t)n_pending * sizeof *started);
    c->n_pending = 0;
    for (int i = 0; i < n_pending; i++) start(c, &c->connections[started[i]]);

    struct epoll_event events[EVENTS];
    const int n = epoll_wait(c->epoll, events, EVENTS, c->n_pending > 0 ? 0 : ms);
    if (n < 0 && errno != EINTR) return IG_FAIL(IG_ERR_IO, "http: epoll_wait: %s", strerror(errno));
    for (int i = 0; i < n; i++)
        IG_TRY(serve_socket(c, &c->connections[events[i].data.u32], events[i].events));
    end_late(c);
    return IG_OK;
}

/* Keeps the result of ig_http_client_ask(). */
typedef struct answer {
    ig_http_result result;
    bool is_done;
} answer;

static void keep_answer(void *user, const ig_http_result *result) {
    answer *a = user;
    a->result = *result;
    a->is_done = true;
}

ig_status ig_http_client_ask(ig_http_client *c, const ig_http_request *request,
                             bool (*cancelled)(void *user), void *user, ig_http_result *out) {
    enum { WAIT_MS = 50 };
    answer a = {.is_done = false};
    ig_http_request asked = *request;
    asked.on_event = NULL;
    asked.on_done = keep_answer;
    asked.user = &a;
    IG_TRY(ig_http_client_send(c, 0, &asked));
    while (!a.is_done) {
        if (cancelled(user)) return IG_FAIL(IG_ERR_CANCELLED, "http: stopped during a request");
        IG_TRY(ig_http_client_poll(c, WAIT_MS));
    }
    *out = a.result;
    return IG_OK;
}

int ig_http_client_busy(const ig_http_client *c) { return c->n_busy; }
int ig_http_client_open(const ig_http_client *c) { return c->n_open; }

/* Raises the limit of open files if it is too low for the connections. */
static ig_status allow_files(int n_connections) {
    struct rlimit limit;
    const rlim_t wanted = (rlim_t)n_connections + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return IG_OK;
    if (limit.rlim_max < wanted)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "%d connections: the limit of open files is %llu (ulimit -n)", n_connections,
                       (unsigned long long)limit.rlim_max);
    limit.rlim_cur = wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return IG_OK;
    return IG_FAIL(IG_ERR_IO, "%d connections: cannot raise the limit of open files: %s",
                   n_connections, strerror(errno));
}

static ig_status fill_in(ig_http_client *c, const char *key) {
    const ig_allocator *a = c->allocator;
    c->connections = ig_alloc(a, (size_t)c->n_connections, sizeof *c->connections);
    c->pending = ig_alloc(a, (size_t)c->n_connections, 2 * sizeof *c->pending);
    c->buffer = ig_alloc(a, READ_BYTES, 1);
    if (key) c->key = ig_copy_text(a, key);
    if (!c->connections || !c->pending || !c->buffer || (key && !c->key))
        return IG_FAIL(IG_ERR_MEMORY, "http: no memory for %d connections", c->n_connections);
    for (int i = 0; i < c->n_connections; i++) c->connections[i].fd = -1;
    IG_TRY(allow_files(c->n_connections));
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (c->epoll < 0) return IG_FAIL(IG_ERR_IO, "http: epoll_create1: %s", strerror(errno));
    return IG_OK;
}

ig_status ig_http_client_create(const ig_allocator *a, const ig_local_url *url, const char *key,
                                int n_connections, ig_http_client **out) {
    ig_http_client *c = ig_alloc(a, 1, sizeof *c);
    if (!c) return IG_FAIL(IG_ERR_MEMORY, "http: no memory for a client");
    *c = (ig_http_client){.allocator = a, .url = *url, .epoll = -1, .n_connections = n_connections};
    const ig_status status = fill_in(c, key);
    if (status == IG_OK)
        *out = c;
    else
        ig_http_client_destroy(c);
    return status;
}

void ig_http_client_destroy(ig_http_client *c) {
    if (!c) return;
    for (int i = 0; c->connections && i < c->n_connections; i++) {
        close_socket(c, &c->connections[i]);
        ig_http_reply_deinit(&c->connections[i].reply);
        ig_free(c->allocator, c->connections[i].out.at);
    }
    if (c->epoll >= 0) close(c->epoll);
    ig_free(c->allocator, c->buffer);
    ig_free(c->allocator, c->pending);
    ig_free(c->allocator, c->connections);
    ig_free(c->allocator, c->key);
    ig_free(c->allocator, c);
}
