#include "http_toy.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

static void close_own_job(void *user) {
    job *j = user;
    close_job(j);
    free(j);
}

static void begin_job(server *s, job *j, ig_exchange *x, int n_pieces, bool is_whole) {
    const char *size = ig_exchange_query(x, "bytes");
    memset(j, 0, sizeof *j);
    j->x = x;
    j->n_pieces = n_pieces;
    j->is_whole = is_whole;
    j->piece_bytes = size ? (size_t)atoi(size) : PIECE;
    memset(j->piece, 'p', sizeof j->piece);
    ig_exchange_defer(
        x, &(ig_exchange_source){advance_job, j == &s->job ? close_job : close_own_job, j});
    ig_exchange_note(x, "piece_tokens", "12");
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
        begin_job(s, &s->job, x, count ? atoi(count) : 50, false);
    } else if (!strcmp(r->path, "/many")) {
        begin_job(s, calloc(1, sizeof(job)), x, 40, false);
    } else if (!strcmp(r->path, "/later")) {
        begin_job(s, &s->job, x, 3, true);
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
                     "%s %.200s body=%zu:%.20s key=%s admin=%d salt=%.8s%zu client=%s party=%llu "
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

server *open_server(ig_http_options options) {
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

void close_server(server *s) {
    ig_http_destroy(s->http);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

const http_answer *receive(server *s, int fd) {
    peer_receive(fd, &s->answer);
    return &s->answer;
}

const http_answer *ask(server *s, const char *request) {
    const int fd = peer_connect(ig_http_port(s->http));
    peer_send(fd, "%s", request);
    receive(s, fd);
    close(fd);
    return &s->answer;
}

ig_http_stats stats_of(server *s) {
    ig_http_stats stats;
    ig_http_get_stats(s->http, &stats);
    return stats;
}

ig_status try_server(ig_http_options options) {
    ig_http *http = NULL;
    options.handler = handle;
    const ig_status status = ig_http_create(&options, &http);
    ig_http_destroy(http);
    return status;
}
