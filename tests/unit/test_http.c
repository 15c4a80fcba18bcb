/*
 * The HTTP server with handlers that know nothing: replies, streams, clients that leave, limits,
 * keys, and what is refused.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "http_peer.h"
#include "server/http.h"
#include "unit/check.h"

enum { PIECE = 1000, LOGS = 64 };

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != IG_OK) fail_msg("%s: %s", #call, ig_error_text()); \
    } while (0)

/* ---- a server ---- */

/* A thread that wakes exchanges, as an engine does. */
typedef struct job {
    ig_exchange *x;
    int n_pieces, n_sent, n_closed, n_advanced;
    size_t piece_bytes;
    pthread_t thread;
    atomic_bool has_ended, is_closed;
    atomic_int n_ready; /* pieces that may be sent */
    bool is_whole;      /* one reply rather than a stream */
    char piece[8192];
} job;

typedef struct server {
    ig_http *http;
    ig_http_options options;
    http_answer answer;
    job job;
    atomic_int n_jobs, n_logs;
    pthread_mutex_t lock;
    char log[LOGS][1024];
    char path[64];
} server;

static void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* Waits for what another thread does. */
#define EVENTUALLY(condition)                                     \
    do {                                                          \
        int tries = 0;                                            \
        while (!(condition) && tries++ < 2000) sleep_ms(5);       \
        if (!(condition)) fail_msg("never came: %s", #condition); \
    } while (0)

static void *make_pieces(void *user) {
    job *j = user;
    for (int i = 0; i < j->n_pieces && !atomic_load(&j->has_ended); i++) {
        atomic_fetch_add(&j->n_ready, 1);
        ig_exchange_wake(j->x);
    }
    return NULL;
}

static void advance_job(void *user, ig_exchange *x) {
    job *j = user;
    j->n_advanced++;
    if (j->is_whole) {
        if (atomic_load(&j->n_ready) < j->n_pieces) return;
        ig_exchange_reply(x, 200, "text/plain", "whole", 5);
        return;
    }
    if (!atomic_load(&j->n_ready)) return;
    ig_exchange_stream(x, 200, "text/event-stream");
    while (j->n_sent < atomic_load(&j->n_ready)) {
        if (!ig_exchange_write(x, j->piece, j->piece_bytes)) return;
        j->n_sent++;
    }
    if (j->n_sent == j->n_pieces) ig_exchange_end(x);
}

static void close_job(void *user) {
    job *j = user;
    atomic_store(&j->has_ended, true);
    pthread_join(j->thread, NULL); /* it wakes no more */
    j->n_closed++;
    atomic_store(&j->is_closed, true);
}

static void begin_job(server *s, ig_exchange *x, int n_pieces, bool is_whole) {
    job *j = &s->job;
    const char *size = ig_exchange_query(x, "bytes");
    memset(j, 0, sizeof *j);
    j->x = x;
    j->n_pieces = n_pieces;
    j->is_whole = is_whole;
    j->piece_bytes = size ? (size_t)atoi(size) : PIECE;
    memset(j->piece, 'p', sizeof j->piece);
    ig_exchange_defer(x, &(ig_exchange_source){advance_job, close_job, j});
    ig_exchange_note(x, "pieces", "many of them");
    atomic_fetch_add(&s->n_jobs, 1);
    assert_false(pthread_create(&j->thread, NULL, make_pieces, j));
}

static void *never(void *user) {
    (void)user;
    return NULL;
}

static void handle(void *user, ig_exchange *x) {
    server *s = user;
    const ig_exchange_request *r = ig_exchange_get_request(x);
    const char *count = ig_exchange_query(x, "n");
    if (!strcmp(r->path, "/stream")) {
        begin_job(s, x, count ? atoi(count) : 50, false);
    } else if (!strcmp(r->path, "/later")) {
        begin_job(s, x, 3, true);
    } else if (!strcmp(r->path, "/never")) { /* waits until the client leaves */
        job *j = &s->job;
        memset(j, 0, sizeof *j);
        j->x = x;
        j->n_pieces = 1;
        j->is_whole = true;
        ig_exchange_defer(x, &(ig_exchange_source){advance_job, close_job, j});
        assert_false(pthread_create(&j->thread, NULL, never, j));
        atomic_fetch_add(&s->n_jobs, 1);
    } else if (!strcmp(r->path, "/silent")) {
        return;
    } else if (!strcmp(r->path, "/big")) {
        const size_t n = count ? (size_t)atoi(count) : 500000;
        char *bytes = malloc(n);
        memset(bytes, 'b', n);
        ig_exchange_reply(x, 200, "text/plain", bytes, n);
        free(bytes);
    } else {
        char text[2048];
        const int n =
            snprintf(text, sizeof text,
                     "%s %s body=%zu:%.20s key=%s admin=%d salt=%.8s%zu client=%s party=%llu "
                     "trace=%s parent=%s",
                     r->method, r->path, r->body_bytes, r->body, r->key_name ? r->key_name : "-",
                     r->admin, r->salt ? (const char *)r->salt : "-", r->salt_bytes, r->client,
                     (unsigned long long)r->party, r->traceparent, r->parent_span);
        ig_exchange_add_header(x, "X-Own", "value");
        ig_exchange_reply(x, 200, "text/plain", text, (size_t)n);
    }
}

static void take_log(void *user, const char *line) {
    server *s = user;
    pthread_mutex_lock(&s->lock);
    const int i = atomic_load(&s->n_logs) % LOGS;
    snprintf(s->log[i], sizeof s->log[i], "%s", line);
    atomic_fetch_add(&s->n_logs, 1);
    pthread_mutex_unlock(&s->lock);
}

static bool is_public(const char *method, const char *path) {
    (void)method;
    return !strcmp(path, "/health");
}

/* Options of a test; those that it leaves are such that nothing ends by itself. */
static server *open_server(ig_http_options options) {
    server *s = calloc(1, sizeof *s);
    options.handler = handle;
    options.user = s;
    options.is_public = is_public;
    options.log = take_log;
    options.log_user = s;
    s->options = options;
    pthread_mutex_init(&s->lock, NULL);
    OK(ig_http_create(&s->options, &s->http));
    OK(ig_http_start(s->http));
    return s;
}

static void close_server(server *s) {
    ig_http_destroy(s->http);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static const http_answer *receive(server *s, int fd) {
    peer_receive(fd, &s->answer);
    return &s->answer;
}

/* One request on a connection of its own. */
static const http_answer *ask(server *s, const char *request) {
    const int fd = peer_connect(ig_http_port(s->http));
    peer_send(fd, "%s", request);
    receive(s, fd);
    close(fd);
    return &s->answer;
}

static ig_http_stats stats_of(server *s) {
    ig_http_stats stats;
    ig_http_get_stats(s->http, &stats);
    return stats;
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define HAS(answer, words)                                          \
    do {                                                            \
        if (!strstr((answer)->body, words))                         \
            fail_msg("\"%s\" lacks \"%s\"", (answer)->body, words); \
    } while (0)
#define STATUS(answer, wanted)                                                                   \
    do {                                                                                         \
        const http_answer *got = (answer);                                                       \
        if (got->status != (wanted)) fail_msg("%d, not %d: %s", got->status, wanted, got->text); \
    } while (0)

/* ---- replies ---- */

static void a_reply_has_its_bytes_and_headers(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    const http_answer *a = ask(s, GET("/hello?n=1"));
    STATUS(a, 200);
    HAS(a, "GET /hello body=0: key=- admin=1");
    HAS(a, "client=127.0.0.1");
    assert_true(answer_has(a, "X-Content-Type-Options: nosniff"));
    assert_true(answer_has(a, "X-Own: value"));
    assert_true(answer_has(a, "Content-Type: text/plain"));
    assert_false(strstr(a->text, "Access-Control"));
    a = ask(s, "POST /p HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               "Content-Length: 7\r\n\r\n{\"a\":1}");
    HAS(a, "body=7:{\"a\":1}");
    a = ask(s, "POST /p HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               "Transfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4;x=y\r\n\":1}\r\n0\r\n\r\n");
    HAS(a, "body=7:{\"a\":1}");
    a = ask(s, GET("/big?n=500000"));
    assert_int_equal(a->n_body, 500000);
    STATUS(ask(s, GET("/silent")), 500);
    close_server(s);
}

static void a_connection_serves_many_requests(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    const int fd = peer_connect(ig_http_port(s->http));
    for (int i = 0; i < 20; i++) {
        peer_send(fd, "GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n", i);
        char words[32];
        snprintf(words, sizeof words, "GET /%d ", i);
        HAS(receive(s, fd), words);
        assert_false(s->answer.is_closed);
    }
    /* Several at once are answered in order. */
    peer_send(fd, GET("/one") GET("/stream?n=3") GET("/two") GET("/later") GET("/three"));
    HAS(receive(s, fd), "GET /one ");
    assert_int_equal(receive(s, fd)->n_body, 3 * PIECE);
    HAS(receive(s, fd), "GET /two ");
    HAS(receive(s, fd), "whole");
    HAS(receive(s, fd), "GET /three ");
    peer_send(fd, "GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    HAS(receive(s, fd), "GET /last ");
    assert_true(peer_is_closed(fd));
    close(fd);
    assert_int_equal(stats_of(s).accepted, 1);
    EVENTUALLY(stats_of(s).requests == 26 && stats_of(s).n_connections == 0);
    close_server(s);
}

static void a_stream_arrives_complete(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    const http_answer *a = ask(s, GET("/stream?n=500"));
    STATUS(a, 200);
    assert_true(a->is_complete);
    assert_int_equal(a->n_body, 500 * PIECE);
    assert_true(answer_has(a, "Transfer-Encoding: chunked"));
    assert_true(answer_has(a, "X-Accel-Buffering: no"));
    EVENTUALLY(s->job.is_closed);
    assert_int_equal(s->job.n_closed, 1);
    HAS(ask(s, GET("/later")), "whole");
    EVENTUALLY(s->job.is_closed);
    close_server(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_has_its_bytes_and_headers),
        cmocka_unit_test(a_connection_serves_many_requests),
        cmocka_unit_test(a_stream_arrives_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
