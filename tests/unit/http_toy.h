/*
 * http_toy.h - an HTTP server whose handlers know nothing, for tests:
 *
 *     /stream?n=&bytes=   n pieces, each after a wake from another thread
 *     /many               40 pieces; many such at once
 *     /later              one reply, after three wakes      /never   none: the client has to leave
 *     /big?n=             n bytes                           /silent  a handler without a reply
 *     others              the request as the handler sees it
 */
#ifndef IG_TESTS_UNIT_HTTP_TOY_H
#define IG_TESTS_UNIT_HTTP_TOY_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "http_peer.h"
#include "server/http.h"
#include "unit/check.h"

enum { PIECE = 1000, LOGS = 64 };

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

static inline void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* Waits for what another thread does. */
#define EVENTUALLY(condition)                                     \
    do {                                                          \
        int tries = 0;                                            \
        while (!(condition) && tries++ < 2000) sleep_ms(5);       \
        if (!(condition)) fail_msg("never came: %s", #condition); \
    } while (0)

/* Options of a test; handlers, log and public path are the toy's. */
server *open_server(ig_http_options options);
/* A server that is not started, to see it fail. */
ig_status try_server(ig_http_options options);
void close_server(server *s);
const http_answer *receive(server *s, int fd);
/* One request on a connection of its own. */
const http_answer *ask(server *s, const char *request);
ig_http_stats stats_of(server *s);

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != IG_OK) fail_msg("%s: %s", #call, ig_error_text()); \
    } while (0)

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

#endif
