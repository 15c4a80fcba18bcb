/*
 * The HTTP server: limits, times, and requests that two readers would read in two ways.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "http_toy.h"

#define POST_HEADER "POST /p HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

/* An error has the shape that clients know, and ends the connection. */
static void is_error(const http_answer *a, int status, const char *words) {
    STATUS(a, status);
    HAS(a, "{\"error\":{\"message\":\"");
    HAS(a, ",\"type\":\"");
    HAS(a, "\"param\":null,\"code\":");
    HAS(a, words);
    assert_true(answer_has(a, "Content-Type: application/json"));
    assert_true(answer_has(a, "X-Content-Type-Options: nosniff"));
}

/* ---- sizes ---- */

static char *many(size_t n) {
    char *text = malloc(n + 1);
    memset(text, 'x', n);
    text[n] = 0;
    return text;
}

static const http_answer *ask_format(server *s, const char *format, const char *text) {
    char *request = NULL;
    assert_true(asprintf(&request, format, text) > 0);
    const http_answer *a = ask(s, request);
    free(request);
    return a;
}

static void long_headers_are_431(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    char *fits = many(15 << 10), *over = many(17 << 10), *far = many(100 << 10);
    STATUS(ask_format(s, "GET / HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", fits), 200);
    is_error(ask_format(s, "GET / HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", over), 431,
             "16384 are the most");
    STATUS(ask_format(s, "GET / HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", far), 431);
    EVENTUALLY(stats_of(s).rejected[IG_HTTP_REJECT_HEADER] == 2);
    free(fits);
    free(over);
    free(far);
    close_server(s);
}

static void long_urls_are_414(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    char *fits = many(8000), *over = many(8300), *far = many(100 << 10);
    STATUS(ask_format(s, "GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n", fits), 200);
    STATUS(ask_format(s, "GET /?n=%s HTTP/1.1\r\nHost: localhost\r\n\r\n", fits), 200);
    is_error(ask_format(s, "GET /?n=%s HTTP/1.1\r\nHost: localhost\r\n\r\n", over), 414, "8192");
    STATUS(ask_format(s, "GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n", far), 414);
    EVENTUALLY(stats_of(s).rejected[IG_HTTP_REJECT_URL] == 2);
    free(fits);
    free(over);
    free(far);
    close_server(s);
}

static void long_bodies_are_413_before_they_are_read(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){.max_body_bytes = 1000});
    char *fits = many(1000), *over = many(1001);
    is_error(ask(s, POST_HEADER "Content-Length: 1001\r\n\r\n"), 413, "1000 are the most");
    is_error(ask(s, POST_HEADER "Content-Length: 9999999999999999999\r\n\r\n"), 413, "99999");
    HAS(ask_format(s, POST_HEADER "Content-Length: 1000\r\n\r\n%s", fits), "body=1000");
    is_error(ask_format(s, POST_HEADER "Content-Length: 1001\r\n\r\n%s", over), 413, "1000");
    HAS(ask_format(s, POST_HEADER "Transfer-Encoding: chunked\r\n\r\n3e8\r\n%s\r\n0\r\n\r\n", fits),
        "body=1000");
    is_error(
        ask_format(s, POST_HEADER "Transfer-Encoding: chunked\r\n\r\n3e9\r\n%s\r\n0\r\n\r\n", over),
        413, "1000");
    EVENTUALLY(stats_of(s).rejected[IG_HTTP_REJECT_BODY] == 4);
    free(fits);
    free(over);
    close_server(s);
    s = open_server((ig_http_options){0}); /* 8 MiB */
    is_error(ask(s, POST_HEADER "Content-Length: 8388609\r\n\r\n"), 413, "8388608");
    close_server(s);
}

/* ---- connections ---- */

static void connections_have_a_limit(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){.max_connections = 4});
    int fds[4];
    for (int i = 0; i < 4; i++) fds[i] = peer_connect(ig_http_port(s->http));
    EVENTUALLY(stats_of(s).n_connections == 4);
    is_error(ask(s, ""), 503, "too many connections");
    assert_int_equal(stats_of(s).rejected[IG_HTTP_REJECT_CONNECTIONS], 1);
    close(fds[0]);
    EVENTUALLY(stats_of(s).n_connections == 3);
    STATUS(ask(s, GET("/")), 200);
    for (int i = 1; i < 4; i++) { /* those that were open work */
        peer_send(fds[i], GET("/"));
        STATUS(receive(s, fds[i]), 200);
        close(fds[i]);
    }
    close_server(s);
}

static void an_address_has_a_limit_unless_it_is_a_trusted_proxy(void **state) {
    (void)state;
    const char *const proxies[] = {"127.0.0.0/8"};
    server *s = open_server((ig_http_options){.max_per_address = 2});
    int fds[3];
    for (int i = 0; i < 2; i++) fds[i] = peer_connect(ig_http_port(s->http));
    EVENTUALLY(stats_of(s).n_connections == 2);
    is_error(ask(s, ""), 503, "too many connections");
    assert_int_equal(stats_of(s).rejected[IG_HTTP_REJECT_ADDRESS], 1);
    close(fds[0]);
    close(fds[1]);
    EVENTUALLY(stats_of(s).n_connections == 0);
    STATUS(ask(s, GET("/")), 200);
    close_server(s);
    s = open_server((ig_http_options){
        .max_per_address = 2, .trusted_proxies = proxies, .n_trusted_proxies = 1});
    for (int i = 0; i < 3; i++) {
        fds[i] = peer_connect(ig_http_port(s->http));
        peer_send(fds[i], GET("/"));
        STATUS(receive(s, fds[i]), 200);
    }
    for (int i = 0; i < 3; i++) close(fds[i]);
    close_server(s);
}

/* ---- times ---- */

static void slow_requests_are_408(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){.header_s = 0.2, .body_s = 0.3});
    const char *const begins[] = {"GET / HT", "GET / HTTP/1.1\r\nHost: local",
                                  POST_HEADER "Content-Length: 10\r\n\r\n12345"};
    for (int i = 0; i < 3; i++) {
        const int fd = peer_connect(ig_http_port(s->http));
        peer_send(fd, "%s", begins[i]);
        is_error(receive(s, fd), 408, i < 2 ? "header" : "body");
        assert_true(peer_is_closed(fd));
        close(fd);
    }
    const int silent = peer_connect(ig_http_port(s->http));
    assert_true(peer_is_closed(silent));
    close(silent);
    /* Bytes that come one by one do not begin the time again. */
    const int slow = peer_connect(ig_http_port(s->http));
    for (int i = 0; i < 400 && stats_of(s).rejected[IG_HTTP_REJECT_TIMEOUT] == 3; i++) {
        peer_send(slow, "%s", i ? "a" : "GET /");
        sleep_ms(20);
    }
    STATUS(receive(s, slow), 408);
    close(slow);
    EVENTUALLY(stats_of(s).n_connections == 0);
    assert_int_equal(stats_of(s).rejected[IG_HTTP_REJECT_TIMEOUT], 4);
    close_server(s);
}

static void idle_connections_end(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){.idle_s = 0.2});
    const int fd = peer_connect(ig_http_port(s->http));
    peer_send(fd, GET("/"));
    STATUS(receive(s, fd), 200);
    assert_true(peer_is_closed(fd));
    close(fd);
    EVENTUALLY(stats_of(s).n_connections == 0);
    assert_int_equal(stats_of(s).left, 0);
    close_server(s);
}

/* ---- attacks ---- */

static void requests_that_can_be_read_in_two_ways_are_400(void **state) {
    (void)state;
    static const char *const requests[] = {
        POST_HEADER "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST_HEADER "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        POST_HEADER "Content-Length: 2\r\nContent-Length: 3\r\n\r\n[]",
        POST_HEADER "Content-Length: 2\r\nContent-Length: 2\r\n\r\n[]",
        POST_HEADER "Content-Length: 2, 2\r\n\r\n[]",
        POST_HEADER "Content-Length: +2\r\n\r\n[]",
        POST_HEADER "Content-Length: -2\r\n\r\n[]",
        POST_HEADER "Content-Length: 0x2\r\n\r\n[]",
        POST_HEADER "Content-Length: 2 2\r\n\r\n[]",
        POST_HEADER "Content-Length:\r\n\r\n[]",
        POST_HEADER "Content-Length : 2\r\n\r\n[]",
        POST_HEADER "Content-Length\t: 2\r\n\r\n[]",
        POST_HEADER "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        POST_HEADER "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST_HEADER "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        POST_HEADER "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        POST_HEADER "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST_HEADER "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        POST_HEADER "Transfer-Encoding: \x0b"
                    "chunked\r\n\r\n0\r\n\r\n",
        POST_HEADER "Transfer-Encoding: chunked\r\n\r\nzz\r\n[]\r\n0\r\n\r\n",
        POST_HEADER "Transfer-Encoding: chunked\r\n\r\n2\r\n[]xx0\r\n\r\n",
        POST_HEADER "Transfer-Encoding: chunked\r\n\r\n-2\r\n[]\r\n0\r\n\r\n",
        POST_HEADER "Transfer-Encoding: chunked\r\n\r\n0x2\r\n[]\r\n0\r\n\r\n",
        POST_HEADER "Transfer-Encoding: chunked\r\n\r\n 2\r\n[]\r\n0\r\n\r\n",
        POST_HEADER "Transfer-Encoding: chunked\r\n\r\n\r\n[]\r\n0\r\n\r\n",
        "POST /p HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: a\rY: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: a\rContent-Length: 5\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX\rY: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: a\nY: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\n: nameless\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/x.y\r\nHost: localhost\r\n\r\n",
        "GET /\r\nHost: localhost\r\n\r\n",
        "G(T / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "\x16\x03\x01 hello\r\n\r\n",
    };
    server *s = open_server((ig_http_options){0});
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        const int fd = peer_connect(ig_http_port(s->http));
        peer_send(fd, "%s" GET("/smuggled"), requests[i]);
        receive(s, fd);
        if (s->answer.status != 400 && s->answer.status != 0)
            fail_msg("%d for %s", s->answer.status, requests[i]);
        /* Nothing else is answered on this connection. */
        char rest[4096];
        size_t n = 0;
        ssize_t got;
        while (n < sizeof rest - 1 && (got = recv(fd, rest + n, sizeof rest - 1 - n, 0)) > 0)
            n += (size_t)got;
        rest[n] = 0;
        if (strstr(rest, "HTTP/1.1")) fail_msg("a second reply after %s: %s", requests[i], rest);
        close(fd);
    }
    STATUS(ask(s, GET("/")), 200);
    EVENTUALLY(stats_of(s).n_connections == 0);
    close_server(s);
}

/* Whatever is cut anywhere, the server answers the next client. */
static void requests_that_are_cut_do_no_harm(void **state) {
    (void)state;
    static const char request[] = POST_HEADER
        "Transfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n2\r\n2]\r\n0\r\nTrailer: x\r\n\r\n";
    server *s = open_server((ig_http_options){0});
    for (size_t n = 0; n < sizeof request - 1; n += 3) {
        const int fd = peer_connect(ig_http_port(s->http));
        peer_send(fd, "%.*s", (int)n, request);
        if (n % 2) shutdown(fd, SHUT_WR);
        close(fd);
    }
    HAS(ask(s, request), "body=5:[1,2]");
    EVENTUALLY(stats_of(s).n_connections == 0);
    close_server(s);
}

/* ---- memory ---- */

typedef struct failing {
    atomic_int left; /* allocations that succeed; negative: all */
} failing;

static void *fail_alloc(void *user, size_t bytes, size_t alignment) {
    failing *f = user;
    const int left = atomic_load(&f->left);
    if (!left) return NULL;
    if (left > 0) atomic_fetch_sub(&f->left, 1);
    return ig_heap.alloc(ig_heap.user, bytes, alignment);
}

static void fail_free(void *user, void *p) {
    (void)user;
    ig_heap.free(ig_heap.user, p);
}

static void without_memory_requests_fail_and_the_server_goes_on(void **state) {
    (void)state;
    failing f = {.left = -1};
    const ig_allocator allocator = {fail_alloc, fail_free, &f};
    for (int n = 0; n < 6; n++) { /* the server itself */
        atomic_store(&f.left, n);
        ig_http_options options = {.allocator = &allocator, .api_keys = "a,b"};
        if (try_server(options) == IG_OK) break;
        refused(try_server(options), IG_ERR_MEMORY, "no memory");
    }
    atomic_store(&f.left, -1);
    server *s = open_server((ig_http_options){.allocator = &allocator});
    static const char *const requests[] = {GET("/"), GET("/stream?n=100&bytes=8000"), GET("/later"),
                                           GET("/big"), POST_HEADER "Content-Length: 2\r\n\r\n[]"};
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        for (int n = 0; n < 12; n++) {
            atomic_store(&f.left, n);
            const http_answer *a = ask(s, requests[i]);
            if (a->status && a->status != 200) STATUS(a, 503);
            atomic_store(&f.left, -1);
            assert_true(ig_http_wait_idle(s->http, 10)); /* the toy has one job at a time */
        }
    EVENTUALLY(stats_of(s).n_connections == 0);
    STATUS(ask(s, GET("/")), 200);
    assert_true(stats_of(s).rejected[IG_HTTP_REJECT_MEMORY] > 0);
    close_server(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_headers_are_431),
        cmocka_unit_test(long_urls_are_414),
        cmocka_unit_test(long_bodies_are_413_before_they_are_read),
        cmocka_unit_test(connections_have_a_limit),
        cmocka_unit_test(an_address_has_a_limit_unless_it_is_a_trusted_proxy),
        cmocka_unit_test(slow_requests_are_408),
        cmocka_unit_test(idle_connections_end),
        cmocka_unit_test(requests_that_can_be_read_in_two_ways_are_400),
        cmocka_unit_test(requests_that_are_cut_do_no_harm),
        cmocka_unit_test(without_memory_requests_fail_and_the_server_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
