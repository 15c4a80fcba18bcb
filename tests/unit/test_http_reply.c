/* HTTP replies of a server under load: what they mean does not depend on where they are cut, and
 * nothing that a server sends is trusted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "check.h"
#include "cli/bench/http_reply.h"
#include "cli/bench/local_url.h"

enum { EVENTS_BYTES = 256, LONG_BYTES = 10000 };

typedef struct events {
    char text[EVENTS_BYTES]; /* each in brackets */
} events;

static void on_event(void *user, const char *data, size_t bytes) {
    events *e = user;
    const size_t used = strlen(e->text);
    assert_int_equal(strlen(data), bytes);
    snprintf(e->text + used, sizeof e->text - used, "[%s]", data);
}

/* Feeds pieces of `step` bytes; the whole input must be used. */
static ig_status feed(ig_http_reply *r, const char *bytes, size_t step) {
    const size_t n_bytes = strlen(bytes);
    for (size_t at = 0; at < n_bytes;) {
        const size_t piece = n_bytes - at < step ? n_bytes - at : step;
        size_t used = 0;
        IG_TRY(ig_http_reply_feed(r, bytes + at, piece, &used));
        if (used < piece) return IG_FAIL(IG_ERR_STATE, "%zu bytes are left", piece - used);
        at += used;
    }
    return IG_OK;
}

static void check_body(const char *bytes, int code, const char *body, bool keep_alive) {
    for (size_t step = 1; step <= strlen(bytes); step++) {
        ig_http_reply r = {.allocator = &ig_heap};
        ig_http_reply_reset(&r);
        must(feed(&r, bytes, step));
        must(ig_http_reply_close(&r));
        assert_int_equal(r.code, code);
        assert_int_equal(r.keep_alive, keep_alive);
        assert_string_equal(r.body.at ? r.body.at : "", body);
        ig_http_reply_deinit(&r);
    }
}

static void a_body_ends_by_length_chunks_or_close(void **state) {
    (void)state;
    check_body("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true);
    check_body("HTTP/1.1 429 \r\ncontent-length:0\r\nConnection: close\r\n\r\n", 429, "", false);
    check_body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
               "3\r\nabc\r\n0A;x=y\r\n0123456789\r\n0\r\nTrailer: z\r\n\r\n",
               200, "abc0123456789", true);
    check_body("HTTP/1.0 200 OK\n\nuntil the end", 200, "until the end", false);
    check_body("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 204, "", true);
}

static void check_events(const char *bytes, const char *expected) {
    for (size_t step = 1; step <= strlen(bytes); step++) {
        events e = {""};
        ig_http_reply r = {.allocator = &ig_heap, .on_event = on_event, .user = &e};
        ig_http_reply_reset(&r);
        must(feed(&r, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", 100));
        must(feed(&r, bytes, step));
        must(ig_http_reply_close(&r));
        assert_string_equal(e.text, expected);
        ig_http_reply_deinit(&r);
    }
}

static void events_are_read_line_by_line(void **state) {
    (void)state;
    check_events("data: one\n\ndata:two\n\n", "[one][two]");
    check_events("data: a\r\ndata: b\r\n\r\n: ping\r\n\r\nid: 4\r\ndata: c\r\n\r\n", "[a\nb][c]");
    check_events("data: a\r\rdata: b\r\r", "[a][b]");
    check_events("event: x\ndatax: no\n\n: data: no\n\ndata: cut", "");
}

static ig_status feed_bad(const char *bytes) {
    ig_http_reply r = {.allocator = &ig_heap};
    ig_http_reply_reset(&r);
    ig_status status = feed(&r, bytes, 7);
    if (status == IG_OK) status = ig_http_reply_close(&r);
    ig_http_reply_deinit(&r);
    return status;
}

static void what_is_no_reply_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "SSH-2.0-server\r\n",
        "HTTP/2 200\r\n",
        "HTTP/1.1 20\r\n",
        "HTTP/1.1 2000 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\n",
        "",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(feed_bad(bad[i]), IG_ERR_FORMAT, "http: ");
}

static void lines_and_headers_have_a_limit(void **state) {
    (void)state;
    static char bytes[4 * LONG_BYTES];
    memset(bytes, 'x', LONG_BYTES);
    memcpy(bytes, "HTTP/1.1 200 ", 13);
    refused(feed_bad(bytes), IG_ERR_FORMAT, "has more than 8192 bytes");
    strcpy(bytes, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i <= IG_HTTP_HEADERS; i++) strcat(bytes, "X: y\r\n");
    refused(feed_bad(bytes), IG_ERR_FORMAT, "more than 256 headers");
}

static void bytes_behind_a_reply_are_left(void **state) {
    (void)state;
    ig_http_reply r = {.allocator = &ig_heap};
    ig_http_reply_reset(&r);
    static const char two[] = "HTTP/1.1 204 A\r\n\r\nHTTP/1.1 204 B\r\n\r\n";
    size_t used;
    must(ig_http_reply_feed(&r, two, strlen(two), &used));
    assert_int_equal(used, strlen(two) / 2);
    ig_http_reply_deinit(&r);
}

static void only_this_machine_has_an_address(void **state) {
    (void)state;
    static const struct {
        const char *url, *host, *base;
        int family;
    } good[] = {
        {"http://127.0.0.1:8080", "127.0.0.1:8080", "", AF_INET},
        {"HTTP://LocalHost", "LocalHost", "", AF_INET},
        {"http://127.8.9.1:1/api/", "127.8.9.1:1", "/api", AF_INET},
        {"http://[::1]:65535/a/b", "[::1]:65535", "/a/b", AF_INET6},
        {"unix:/run/x.sock", "localhost", "", AF_UNIX},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ig_local_url url;
        must(ig_local_url_parse(good[i].url, &url));
        assert_string_equal(url.host, good[i].host);
        assert_string_equal(url.base, good[i].base);
        assert_int_equal(url.address.ss_family, good[i].family);
    }
    static const char *const others[] = {"http://10.0.0.1",
                                         "http://[::]",
                                         "http://[::ffff:1.2.3.4]",
                                         "http://localhost.example.com",
                                         "http://",
                                         "http://2130706433"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        ig_local_url url;
        refused(ig_local_url_parse(others[i], &url), IG_ERR_ARGUMENT, "this machine only");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_ends_by_length_chunks_or_close),
        cmocka_unit_test(events_are_read_line_by_line),
        cmocka_unit_test(what_is_no_reply_is_refused),
        cmocka_unit_test(lines_and_headers_have_a_limit),
        cmocka_unit_test(bytes_behind_a_reply_are_left),
        cmocka_unit_test(only_this_machine_has_an_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
