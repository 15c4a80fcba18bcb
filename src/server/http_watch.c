/*
 * http_watch.c - the thread that accepts connections, and watches those that are open: clients that
 * leave, and times that are over.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/http_internal.h"

enum {
    EVENTS = 128,
    ACCEPTS = 64,
    LINGER_MS = 2000,
    HUNG_UP_MS = 1000, /* for a request whose client sends no more */
};

/* ---- phases ---- */

/* libmicrohttpd does not always see the end of a request that ends too early: epoll has reported it
 * together with the last bytes. */
static double time_limit_ms(const http_connection *c, http_phase phase) {
    const ig_http_options *o = &c->http->options;
    const double limits[HTTP_PHASE_COUNT] = {
        [HTTP_IDLE] = o->idle_s * 1e3, [HTTP_HEADER] = o->header_s * 1e3,
        [HTTP_BODY] = o->body_s * 1e3, [HTTP_SENDING] = o->write_stall_s * 1e3,
        [HTTP_LINGER] = LINGER_MS,
    };
    const bool is_reading = phase == HTTP_HEADER || phase == HTTP_BODY;
    return c->has_hung_up && is_reading && limits[phase] > HUNG_UP_MS ? HUNG_UP_MS : limits[phase];
}

/* One event is reported, then none until the next call: bytes that arrive concern this thread only
 * as the start of a request. */
static void watch(http_connection *c) {
    uint32_t events = EPOLLRDHUP | EPOLLONESHOT;
    if (c->phase == HTTP_IDLE) events |= EPOLLIN;
    if (c->phase == HTTP_LINGER) events = EPOLLIN | EPOLLRDHUP;
    epoll_ctl(c->http->epoll_fd, EPOLL_CTL_MOD, c->fd,
              &(struct epoll_event){.events = events, .data.ptr = c});
}

void http_connection_enter(http_connection *c, http_phase phase) {
    const double limit = time_limit_ms(c, phase);
    atomic_fetch_sub(&c->http->n_phase[c->phase], 1);
    atomic_fetch_add(&c->http->n_phase[phase], 1);
    c->phase = phase;
    c->deadline_ms = limit > 0 ? ig_clock_ms() + limit : 0;
    if (phase == HTTP_IDLE || phase == HTTP_LINGER) watch(c);
}

void http_watch_wake(ig_http *http) {
    const uint64_t one = 1;
    if (http->event_fd >= 0 && write(http->event_fd, &one, sizeof one) < 0) return;
}

/* ---- replies without libmicrohttpd ---- */

static void send_error(int fd, int code, const char *message) {
    char body[512], text[1024];
    const size_t n_body = http_error_text(body, sizeof body, code, message);
    const int n = snprintf(text, sizeof text,
                           "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n"
                           "X-Content-Type-Options: nosniff\r\nContent-Length: %zu\r\n"
                           "Connection: close\r\n\r\n%s",
                           code, MHD_get_reason_phrase_for((unsigned)code), n_body, body);
    if (n > 0 && (size_t)n < sizeof text)
        (void)!send(fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void http_connection_send_error(http_connection *c, int code, const char *message) {
    if (!c->is_tls) send_error(c->fd, code, message);
}

/* ---- opening and closing ---- */

static unsigned bucket_of(const http_address *address) {
    unsigned hash = 2166136261u; /* FNV-1a */
    for (int i = 0; i < 16; i++) hash = (hash ^ address->bytes[i]) * 16777619u;
    return hash % ADDRESS_BUCKETS;
}

static void list(ig_http *http, http_connection *c) {
    c->next = http->connections;
    if (c->next) c->next->prev = c;
    http->connections = c;
    http->n_connections++;
    http_connection **bucket = &http->by_address[bucket_of(&c->address)];
    c->next_in_bucket = *bucket;
    *bucket = c;
}

static void unlist(ig_http *http, http_connection *c) {
    if (c->prev)
        c->prev->next = c->next;
    else
        http->connections = c->next;
    if (c->next) c->next->prev = c->prev;
    http->n_connections--;
    http_connection **at = &http->by_address[bucket_of(&c->address)];
    while (*at != c) at = &(*at)->next_in_bucket;
    *at = c->next_in_bucket;
}

/* libmicrohttpd does not have it. */
static void end_connection(http_connection *c) {
    ig_http *http = c->http;
    unlist(http, c);
    atomic_fetch_sub(&http->n_phase[c->phase], 1);
    epoll_ctl(http->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL); /* the duplicate may still be open */
    close(c->fd);
    pthread_mutex_destroy(&c->lock);
    ig_free(http->allocator, c);
}

static bool has_room_for(ig_http *http, const http_address *address) {
    const ig_http_options *o = &http->options;
    if (http->n_connections >= o->max_connections) {
        http_reject(http, IG_HTTP_REJECT_CONNECTIONS);
        return false;
    }
    if (o->max_per_address < 0 || address->is_unix || http_is_trusted(http, address)) return true;
    int n = 0;
    for (http_connection *c = http->by_address[bucket_of(address)]; c; c = c->next_in_bucket)
        n += http_address_is_equal(&c->address, address);
    if (n < o->max_per_address) return true;
    http_reject(http, IG_HTTP_REJECT_ADDRESS);
    return false;
}

static void refuse_socket(const ig_http *http, int fd, const char *message) {
    char drop[4096];
    if (!http->options.cert_file) send_error(fd, 503, message);
    shutdown(fd, SHUT_WR);
    (void)!recv(fd, drop, sizeof drop, MSG_DONTWAIT); /* bytes left unread would reset it */
    close(fd);
}

static void open_connection(ig_http *http, int fd, const http_address *address) {
    http_connection *c = ig_alloc(http->allocator, 1, sizeof *c);
    if (!c) {
        http_reject(http, IG_HTTP_REJECT_MEMORY);
        refuse_socket(http, fd, "out of memory; try again later");
        return;
    }
    *c = (http_connection){
        .http = http, .fd = fd, .address = *address, .is_tls = http->options.cert_file != NULL};
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, .data.ptr = c};
    if (epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
        ig_free(http->allocator, c);
        refuse_socket(http, fd, "out of memory; try again later");
        return;
    }
    pthread_mutex_init(&c->lock, NULL);
    list(http, c);
    atomic_fetch_add(&http->n_phase[HTTP_IDLE], 1);
    atomic_fetch_add(&http->accepted, 1);
    c->deadline_ms = ig_clock_ms() + http->options.header_s * 1e3;
}

/* Adds the listening sockets to epoll's set, or takes them out. */
static void listen_or_not(ig_http *http, bool is_listening) {
    if (http->is_listening == is_listening) return;
    for (int i = 0; i < http->n_listeners; i++)
        epoll_ctl(http->epoll_fd, is_listening ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
                  http->listener[i].fd,
                  &(struct epoll_event){.events = EPOLLIN, .data.ptr = &http->listener[i]});
    http->is_listening = is_listening;
}

static void accept_some(ig_http *http, const http_listener *listener) {
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage from = {0};
        socklen_t n = sizeof from;
        const int fd =
            accept4(listener->fd, (struct sockaddr *)&from, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                http_reject(http, IG_HTTP_REJECT_CONNECTIONS);
                listen_or_not(http, false); /* until the next tick */
            }
            return;
        }
        if (listener->is_unix) from.ss_family = AF_UNIX;
        http_address address;
        http_address_from_socket(&from, &address);
        if (has_room_for(http, &address))
            open_connection(http, fd, &address);
        else
            refuse_socket(http, fd, "too many connections; try again later");
    }
}

/* ---- what happens to a connection ---- */

/* Ends a connection that libmicrohttpd has: it sees the end, and says so. */
static void cut(http_connection *c) {
    c->is_over = true;
    c->deadline_ms = 0;
    if (c->exchange) http_exchange_leave(c->exchange);
    shutdown(c->fd, SHUT_RDWR);
}

/* The first bytes of a request are there.  False: the connection must end. */
static bool begin_request(http_connection *c) {
    http_connection_enter(c, HTTP_HEADER);
    if (c->pool) return true;
    pthread_mutex_lock(&c->http->lock);
    c->pool = c->http->pools;
    const bool added = http_pool_add(c->pool, c);
    if (!added) c->pool = NULL;
    pthread_mutex_unlock(&c->http->lock);
    if (!added) {
        http_reject(c->http, IG_HTTP_REJECT_MEMORY);
        http_connection_send_error(c, 503, "out of memory; try again later");
    }
    return added;
}

/* False: the client has sent all, or too much. */
static bool drop_input(http_connection *c) {
    char drop[16384];
    for (int i = 0; i < 64; i++) {
        const ssize_t n = recv(c->fd, drop, sizeof drop, MSG_DONTWAIT);
        if (n <= 0) return n < 0 && errno == EAGAIN;
    }
    return true;
}

/* True: the connection has to end. */
static bool handle_event(http_connection *c, uint32_t events) {
    if (c->phase == HTTP_LINGER) return !drop_input(c);
    if (c->phase == HTTP_CLOSED) return false;
    const bool has_left = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
    if (has_left) {
        c->has_hung_up = true;
        if (c->exchange) http_exchange_leave(c->exchange);
        if (c->phase == HTTP_HEADER || c->phase == HTTP_BODY) http_connection_enter(c, c->phase);
    }
    if (c->phase == HTTP_IDLE) {
        if (!c->pool && (events & (EPOLLHUP | EPOLLERR))) return true;
        if ((events & EPOLLIN) && !begin_request(c)) return true;
        if (!c->pool && has_left) return true;
    }
    if (!has_left) watch(c);
    return false;
}

/* Its time is over.  True: the connection has to end here. */
static bool expire(http_connection *c) {
    ig_http *http = c->http;
    if (c->phase == HTTP_LINGER) return true;
    if (c->phase == HTTP_SENDING) {
        http_reject(http, IG_HTTP_REJECT_STALLED);
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1},
                   sizeof(struct linger)); /* what was not read is dropped */
    } else if (!c->has_hung_up && (c->phase == HTTP_HEADER || c->phase == HTTP_BODY)) {
        http_reject(http, IG_HTTP_REJECT_TIMEOUT);
        http_connection_send_error(c, 408,
                                   c->phase == HTTP_HEADER ? "the header took too long"
                                                           : "the body took too long");
    }
    if (!c->pool) return true;
    cut(c);
    return false;
}

/* Whether libmicrohttpd had no memory for a connection: it closes such a one without a word.  It
 * begins with connections in their order, and here with a later one. */
static bool is_lost(const http_connection *c) {
    return c->pool && c->number && c->number < atomic_load(&c->pool->last_started[c->thread]);
}

static void end_lost(http_connection *c) {
    http_reject(c->http, IG_HTTP_REJECT_MEMORY);
    if (!c->is_over) http_connection_send_error(c, 503, "out of memory; try again later");
    atomic_fetch_sub(&c->pool->n_connections, 1);
    c->pool = NULL;
    c->number = 0;
    shutdown(c->fd, SHUT_WR);
    http_connection_enter(c, HTTP_LINGER);
}

/* Connections that libmicrohttpd has closed. */
static void reap(ig_http *http) {
    pthread_mutex_lock(&http->lock);
    http_connection *c = http->closed;
    http->closed = NULL;
    pthread_mutex_unlock(&http->lock);
    while (c) {
        http_connection *next = c->next_closed;
        pthread_mutex_lock(&c->lock);
        shutdown(c->fd, SHUT_WR);
        http_connection_enter(c, HTTP_LINGER);
        const bool is_done = !drop_input(c);
        pthread_mutex_unlock(&c->lock);
        if (is_done) end_connection(c);
        c = next;
    }
}

/* Pools of old certificates whose connections are gone. */
static void retire_pools(ig_http *http) {
    http_pool *gone = NULL;
    pthread_mutex_lock(&http->lock);
    for (http_pool **at = http->pools ? &http->pools->next : &http->pools; *at;) {
        http_pool *pool = *at;
        if (atomic_load(&pool->n_connections)) {
            at = &pool->next;
            continue;
        }
        *at = pool->next;
        pool->next = gone;
        gone = pool;
    }
    pthread_mutex_unlock(&http->lock);
    while (gone) {
        http_pool *next = gone->next;
        http_pool_destroy(http, gone);
        gone = next;
    }
}

static void tick(ig_http *http) {
    const double now = ig_clock_ms();
    const bool is_quiet = atomic_load(&http->is_quiet);
    for (http_connection *c = http->connections, *next; c; c = next) {
        next = c->next;
        pthread_mutex_lock(&c->lock);
        bool has_ended = false;
        if (is_lost(c))
            end_lost(c);
        else if (c->deadline_ms && (now >= c->deadline_ms || (is_quiet && c->phase == HTTP_IDLE)))
            has_ended = expire(c);
        pthread_mutex_unlock(&c->lock);
        if (has_ended) end_connection(c);
    }
    retire_pools(http);
    if (!is_quiet) listen_or_not(http, true);
}

/* ---- the thread ---- */

static bool is_listener(const ig_http *http, const void *p) {
    return p >= (const void *)http->listener && p < (const void *)(http->listener + LISTENERS_MOST);
}

static void handle_events(ig_http *http, const struct epoll_event *events, int n) {
    for (int i = 0; i < n; i++) {
        void *p = events[i].data.ptr;
        if (!p) {
            uint64_t count;
            (void)!read(http->event_fd, &count, sizeof count);
        } else if (is_listener(http, p)) {
            if (!atomic_load(&http->is_quiet)) accept_some(http, p);
        } else {
            http_connection *c = p;
            pthread_mutex_lock(&c->lock);
            const bool has_ended = handle_event(c, events[i].events);
            pthread_mutex_unlock(&c->lock);
            if (has_ended) end_connection(c);
        }
    }
}

static void *watch_all(void *user) {
    ig_http *http = user;
    double next_tick = 0;
    bool was_quiet = false;
    while (!atomic_load(&http->is_stopping)) {
        struct epoll_event events[EVENTS];
        const double wait = next_tick - ig_clock_ms();
        const int n = epoll_wait(http->epoll_fd, events, EVENTS, wait > 0 ? (int)wait + 1 : 0);
        handle_events(http, events, n);
        reap(http);
        const bool is_quiet = atomic_load(&http->is_quiet);
        if (is_quiet && !was_quiet) {
            listen_or_not(http, false);
            http_unlisten(http);
        }
        if (ig_clock_ms() >= next_tick || is_quiet != was_quiet) {
            tick(http);
            next_tick = ig_clock_ms() + http->tick_ms;
        }
        was_quiet = is_quiet;
    }
    return NULL;
}

ig_status http_watch_start(ig_http *http) {
    http->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    http->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (http->epoll_fd < 0 || http->event_fd < 0 ||
        epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, http->event_fd,
                  &(struct epoll_event){.events = EPOLLIN}))
        return IG_FAIL(IG_ERR_IO, "http: cannot watch connections: %s", strerror(errno));
    const int code = pthread_create(&http->watcher, NULL, watch_all, http);
    if (code) return IG_FAIL(IG_ERR_IO, "http: cannot start a thread: %s", strerror(code));
    http->has_watcher = true;
    return IG_OK;
}

void http_watch_stop(ig_http *http) {
    if (!http->has_watcher) return;
    http_watch_wake(http);
    pthread_join(http->watcher, NULL);
    http->has_watcher = false;
    for (http_connection *c = http->connections; c; c = c->next) {
        pthread_mutex_lock(&c->lock);
        if (c->exchange) http_exchange_leave(c->exchange);
        pthread_mutex_unlock(&c->lock);
    }
}
