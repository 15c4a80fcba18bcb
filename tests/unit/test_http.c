/*
 * The HTTP server: replies, streams, clients that leave, sockets, and its end.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http_toy.h"

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

static int n_open_files(void) {
    int n = 0;
    for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* An idle connection is parked: libmicrohttpd no longer has its duplicate. */
static void a_parked_connection_is_served_again(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    const int before = n_open_files(), fd = peer_connect(ig_http_port(s->http));
    for (int i = 0; i < 2; i++) {
        peer_send(fd, GET("/one") GET("/two"));
        HAS(receive(s, fd), "GET /one ");
        HAS(receive(s, fd), "GET /two ");
        assert_int_equal(n_open_files(), before + 3);
        EVENTUALLY(n_open_files() == before + 2);
        assert_int_equal(stats_of(s).n_idle, 1);
    }
    /* Not while the start of another request is there: that would be lost. */
    peer_send(fd, GET("/three") "GET /fo");
    HAS(receive(s, fd), "GET /three ");
    sleep_ms(1500);
    peer_send(fd, "ur HTTP/1.1\r\nHost: localhost\r\n\r\n");
    HAS(receive(s, fd), "GET /four ");
    close(fd);
    EVENTUALLY(stats_of(s).n_connections == 0 && n_open_files() == before);
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

/* ---- clients that leave or do not read ---- */

static void a_client_that_leaves_is_seen_while_its_connection_is_suspended(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    for (int i = 0; i < 3; i++) {
        const int fd = peer_connect(ig_http_port(s->http));
        peer_send(fd, GET("/never"));
        EVENTUALLY(atomic_load(&s->n_jobs) == i + 1 && stats_of(s).n_busy == 1);
        assert_false(s->job.is_closed);
        close(fd);
        EVENTUALLY(s->job.is_closed);
        assert_int_equal(s->job.n_closed, 1);
        EVENTUALLY(stats_of(s).n_connections == 0);
    }
    assert_int_equal(stats_of(s).left, 3);
    STATUS(ask(s, GET("/")), 200);
    close_server(s);
}

static void a_client_that_leaves_in_a_stream_ends_it(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    const int fd = peer_connect(ig_http_port(s->http));
    peer_send(fd, GET("/stream?n=1000000&bytes=8000"));
    char some[100];
    assert_true(recv(fd, some, sizeof some, MSG_WAITALL) == sizeof some);
    close(fd);
    EVENTUALLY(s->job.is_closed);
    assert_int_equal(s->job.n_closed, 1);
    assert_true(s->job.n_sent < 1000000);
    EVENTUALLY(stats_of(s).left == 1 && stats_of(s).n_connections == 0);
    close_server(s);
}

static void a_reader_that_does_not_read_is_dropped(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){.write_stall_s = 0.3});
    const int fd = peer_connect(ig_http_port(s->http));
    const int few = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
    peer_send(fd, GET("/stream?n=100000&bytes=8000"));
    EVENTUALLY(s->job.is_closed);
    /* What the server took for it is bounded: the sockets' buffers and 256 KiB. */
    assert_true((size_t)s->job.n_sent * s->job.piece_bytes < 100000u * 8000u);
    assert_int_equal(s->job.n_closed, 1);
    EVENTUALLY(stats_of(s).rejected[IG_HTTP_REJECT_STALLED] == 1);
    close(fd);
    /* A whole reply, too. */
    const int other = peer_connect(ig_http_port(s->http));
    setsockopt(other, SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
    peer_send(other, GET("/big?n=50000000"));
    EVENTUALLY(stats_of(s).rejected[IG_HTTP_REJECT_STALLED] == 2);
    close(other);
    EVENTUALLY(stats_of(s).n_connections == 0);
    close_server(s);
}

static void a_stream_that_waits_for_its_handler_is_not_stalled(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){.write_stall_s = 0.05, .idle_s = 0.05});
    const int fd = peer_connect(ig_http_port(s->http));
    peer_send(fd, GET("/never"));
    EVENTUALLY(atomic_load(&s->n_jobs) == 1 && stats_of(s).n_busy == 1);
    sleep_ms(300);
    assert_false(s->job.is_closed);
    atomic_store(&s->job.n_ready, 1);
    ig_exchange_wake(s->job.x);
    HAS(receive(s, fd), "whole");
    close(fd);
    close_server(s);
}

static void a_slow_reader_gets_all(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    const int fd = peer_connect(ig_http_port(s->http));
    const int few = 65536;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
    peer_send(fd, GET("/stream?n=120&bytes=8000"));
    EVENTUALLY(s->n_jobs == 1);
    sleep_ms(200);
    assert_int_equal(receive(s, fd)->n_body, 120 * 8000);
    EVENTUALLY(s->job.is_closed);
    close(fd);
    close_server(s);
}

typedef struct client {
    server *s;
    int number, n_good;
    pthread_t thread;
} client;

/* Every third request is left in the middle. */
static void *ask_often(void *user) {
    client *me = user;
    http_answer *a = calloc(1, sizeof *a);
    int fd = -1;
    for (int i = 0; i < 24; i++) {
        if (fd < 0) fd = peer_connect(ig_http_port(me->s->http));
        peer_send(fd, i % 2 ? GET("/many") : GET("/plain"));
        if ((i + me->number) % 3) {
            peer_receive(fd, a);
            me->n_good += a->status == 200 && a->is_complete;
            continue;
        }
        if (i % 2) (void)!recv(fd, a->text, 5000, 0);
        close(fd);
        fd = -1;
    }
    if (fd >= 0) close(fd);
    free(a);
    return NULL;
}

static void many_clients_are_served_at_once(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){.threads = 3});
    client clients[8] = {0};
    for (int i = 0; i < 8; i++) {
        clients[i] = (client){.s = s, .number = i};
        assert_false(pthread_create(&clients[i].thread, NULL, ask_often, &clients[i]));
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(clients[i].thread, NULL);
        assert_int_equal(clients[i].n_good, 16);
    }
    EVENTUALLY(stats_of(s).n_connections == 0);
    close_server(s);
}

/* ---- methods ---- */

static void head_has_the_length_and_no_body(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    const int fd = peer_connect(ig_http_port(s->http));
    peer_send(fd, "HEAD /big?n=77777 HTTP/1.1\r\nHost: localhost\r\n\r\n"
                  "HEAD /stream HTTP/1.1\r\nHost: localhost\r\n\r\n" GET("/next"));
    char text[4096] = "";
    size_t n = 0;
    while (!strstr(text, "GET /next")) {
        const ssize_t got = recv(fd, text + n, sizeof text - n - 1, 0);
        assert_true(got > 0);
        n += (size_t)got;
        text[n] = 0;
    }
    assert_non_null(strstr(text, "Content-Length: 77777\r\n"));
    assert_null(strstr(text, "bbbb"));
    assert_null(strstr(text, "pppp"));
    close(fd);
    const http_answer *a = ask(s, "OPTIONS /v1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    STATUS(a, 204);
    assert_true(answer_has(a, "Allow: GET, HEAD, POST, DELETE, OPTIONS"));
    close_server(s);
}

static void expect_continue_is_answered_before_the_body(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){.max_body_bytes = 100});
    int fd = peer_connect(ig_http_port(s->http));
    peer_send(fd, "POST /p HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    STATUS(receive(s, fd), 100);
    peer_send(fd, "[]");
    HAS(receive(s, fd), "body=2:[]");
    close(fd);
    fd = peer_connect(ig_http_port(s->http)); /* a body that is too long is not asked for */
    peer_send(fd, "POST /p HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  "Content-Length: 101\r\nExpect: 100-continue\r\n\r\n");
    STATUS(receive(s, fd), 413);
    assert_true(peer_is_closed(fd));
    close(fd);
    STATUS(ask(s, "POST /p HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  "Content-Length: 2\r\nExpect: a miracle\r\n\r\n"),
           417);
    close_server(s);
}

static void http_1_0_is_served(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    const http_answer *a = ask(s, "GET /old HTTP/1.0\r\n\r\n");
    STATUS(a, 200);
    HAS(a, "GET /old");
    a = ask(s, "GET /stream?n=4 HTTP/1.0\r\n\r\n");
    assert_int_equal(a->n_body, 4 * PIECE);
    assert_true(a->is_closed);
    close_server(s);
}

/* ---- sockets ---- */

static void a_unix_socket_is_private_and_removed_at_the_end(void **state) {
    (void)state;
    char folder[] = "/tmp/ingot_http_XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.sock", folder);
    server *s = open_server((ig_http_options){.host = path});
    struct stat info;
    assert_false(lstat(path, &info));
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(ig_http_port(s->http), 0);
    const int fd = peer_connect_unix(path);
    peer_send(fd, "GET / HTTP/1.1\r\nHost: anything.example\r\n\r\n");
    HAS(receive(s, fd), "client=unix");
    close(fd);
    refused(try_server((ig_http_options){.host = path}), IG_ERR_IO, "taken");
    close_server(s);
    assert_true(lstat(path, &info) && errno == ENOENT);

    /* One that a killed server left is replaced; a file is not. */
    server *left = open_server((ig_http_options){.host = path});
    char copy[80];
    snprintf(copy, sizeof copy, "%s.2", path);
    assert_false(rename(path, copy)); /* so that the end of the server does not remove it */
    close_server(left);
    assert_false(rename(copy, path));
    s = open_server((ig_http_options){.host = path});
    close_server(s);
    const int file = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(file >= 0);
    close(file);
    refused(try_server((ig_http_options){.host = path}), IG_ERR_IO, "not a socket");
    unlink(path);
    rmdir(folder);
}

static void a_taken_port_is_an_error_that_names_it(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    char words[64];
    snprintf(words, sizeof words, "127.0.0.1 port %d is taken", ig_http_port(s->http));
    refused(try_server((ig_http_options){.port = ig_http_port(s->http)}), IG_ERR_ARGUMENT, words);
    snprintf(words, sizeof words, "http://127.0.0.1:%d", ig_http_port(s->http));
    assert_string_equal(ig_http_url(s->http), words);
    close_server(s);
}

static void sockets_that_were_passed_are_served(void **state) {
    (void)state;
    int fds[2];
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_false(bind(fds[i], (const struct sockaddr *)&address, sizeof address));
        assert_false(listen(fds[i], 8));
    }
    struct sockaddr_in second;
    socklen_t n = sizeof second;
    assert_false(getsockname(fds[1], (struct sockaddr *)&second, &n));
    server *s = open_server((ig_http_options){.sockets = fds, .n_sockets = 2});
    STATUS(ask(s, GET("/")), 200);
    const int fd = peer_connect(ntohs(second.sin_port));
    peer_send(fd, GET("/second"));
    HAS(receive(s, fd), "GET /second");
    close(fd);
    close_server(s);
    int file = open("/dev/null", O_RDONLY);
    refused(try_server((ig_http_options){.sockets = &file, .n_sockets = 1}), IG_ERR_IO,
            "not a listening socket");
}

static void an_open_address_needs_a_key(void **state) {
    (void)state;
    refused(try_server((ig_http_options){.host = "0.0.0.0"}), IG_ERR_ARGUMENT, "--insecure");
    refused(try_server((ig_http_options){.host = "::"}), IG_ERR_ARGUMENT, "--api-key-file");
    OK(try_server((ig_http_options){.host = "0.0.0.0", .insecure = true}));
    OK(try_server((ig_http_options){.host = "0.0.0.0", .api_keys = "secret"}));
    OK(try_server((ig_http_options){.host = "localhost"}));
    OK(try_server((ig_http_options){.host = "127.0.0.2"}));
    refused(try_server((ig_http_options){.host = "no such name"}), IG_ERR_IO, "no address");
    refused(try_server((ig_http_options){.cert_file = "x"}), IG_ERR_ARGUMENT, "only x");
    refused(try_server((ig_http_options){.api_prefix = "base"}), IG_ERR_ARGUMENT, "\"base\"");
}

/* ---- the end ---- */

static void streams_end_after_accepting_has_stopped(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    const int idle = peer_connect(ig_http_port(s->http));
    peer_send(idle, GET("/"));
    STATUS(receive(s, idle), 200);
    const int fd = peer_connect(ig_http_port(s->http));
    peer_send(fd, GET("/never"));
    EVENTUALLY(atomic_load(&s->n_jobs) == 1 && stats_of(s).n_busy == 1);
    ig_http_stop_accepting(s->http);
    assert_true(peer_is_closed(idle));
    close(idle);
    assert_false(ig_http_wait_idle(s->http, 0.05));
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)ig_http_port(s->http)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int late = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(late, (const struct sockaddr *)&address, sizeof address), -1);
    close(late);
    atomic_store(&s->job.n_ready, 1);
    ig_exchange_wake(s->job.x);
    HAS(receive(s, fd), "whole");
    assert_true(answer_has(&s->answer, "Connection: close"));
    assert_true(ig_http_wait_idle(s->http, 10));
    close(fd);
    close_server(s);
}

static void the_end_closes_what_is_open(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    const int waiting = peer_connect(ig_http_port(s->http));
    const int silent = peer_connect(ig_http_port(s->http));
    const int idle = peer_connect(ig_http_port(s->http));
    peer_send(idle, GET("/"));
    STATUS(receive(s, idle), 200);
    peer_send(waiting, GET("/never"));
    EVENTUALLY(atomic_load(&s->n_jobs) == 1 && stats_of(s).n_connections == 3);
    job *j = &s->job;
    ig_http_destroy(s->http);
    assert_true(j->is_closed);
    assert_int_equal(j->n_closed, 1);
    assert_true(peer_is_closed(waiting) && peer_is_closed(silent) && peer_is_closed(idle));
    close(waiting);
    close(silent);
    close(idle);
    s->http = NULL;
    close_server(s);
    ig_http_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_has_its_bytes_and_headers),
        cmocka_unit_test(a_connection_serves_many_requests),
        cmocka_unit_test(a_parked_connection_is_served_again),
        cmocka_unit_test(a_stream_arrives_complete),
        cmocka_unit_test(a_client_that_leaves_is_seen_while_its_connection_is_suspended),
        cmocka_unit_test(a_client_that_leaves_in_a_stream_ends_it),
        cmocka_unit_test(a_reader_that_does_not_read_is_dropped),
        cmocka_unit_test(a_stream_that_waits_for_its_handler_is_not_stalled),
        cmocka_unit_test(a_slow_reader_gets_all),
        cmocka_unit_test(many_clients_are_served_at_once),
        cmocka_unit_test(head_has_the_length_and_no_body),
        cmocka_unit_test(expect_continue_is_answered_before_the_body),
        cmocka_unit_test(http_1_0_is_served),
        cmocka_unit_test(a_unix_socket_is_private_and_removed_at_the_end),
        cmocka_unit_test(a_taken_port_is_an_error_that_names_it),
        cmocka_unit_test(sockets_that_were_passed_are_served),
        cmocka_unit_test(an_open_address_needs_a_key),
        cmocka_unit_test(streams_end_after_accepting_has_stopped),
        cmocka_unit_test(the_end_closes_what_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
