/*
 * The HTTP server: keys, hosts and origins, proxies, ids and the log.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http_toy.h"

/* ---- keys ---- */

static const char *write_file(char path[64], const char *text, int mode) {
    if (!path[0]) {
        snprintf(path, 64, "/tmp/ingot_keys_XXXXXX");
        const int fd = mkstemp(path);
        assert_true(fd >= 0);
        close(fd);
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_false(chmod(path, (mode_t)mode));
    return path;
}

#define GET_WITH(path, header) "GET " path " HTTP/1.1\r\nHost: localhost\r\n" header "\r\n\r\n"

static void all_but_public_paths_need_a_key(void **state) {
    (void)state;
    char path[64] = "", admin[64] = "";
    write_file(path, "# keys of our team\nalice:s3cret-a # hers\n\n  plain-key  \nbob:b:ob\n",
               0600);
    write_file(admin, "root:the-admin\n", 0400);
    server *s = open_server((ig_http_options){
        .api_key_file = path, .admin_key_file = admin, .api_keys = "from-env, second:also"});
    static const char *const wrong[] = {
        GET("/"),
        GET_WITH("/", "Authorization: Bearer s3cret-b"),
        GET_WITH("/", "Authorization: Bearer alice:s3cret-a"),
        GET_WITH("/", "Authorization: Bearer "),
        GET_WITH("/", "Authorization: Basic s3cret-a"),
        GET_WITH("/", "X-Api-Key: s3cret"),
        GET_WITH("/", "X-Api-Key: # keys of our team"),
        GET_WITH("/health/x", "X: y"),
        GET("/nothing"),
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        STATUS(ask(s, wrong[i]), 401);
        HAS(&s->answer, "\"type\":\"authentication_error\",\"param\":null,\"code\":401");
        assert_null(strstr(s->answer.text, "s3cret"));
        assert_true(answer_has(&s->answer, "WWW-Authenticate: Bearer"));
    }
    assert_int_equal(stats_of(s).rejected[IG_HTTP_REJECT_KEY], 9);
    HAS(ask(s, GET("/health")), "key=- admin=0 salt=-0");
    HAS(ask(s, GET_WITH("/", "Authorization: Bearer s3cret-a")), "key=alice admin=0");
    HAS(ask(s, GET_WITH("/", "authorization: bearer s3cret-a")), "key=alice admin=0");
    HAS(ask(s, GET_WITH("/", "X-Api-Key: plain-key")), "key=key2 admin=0");
    HAS(ask(s, GET_WITH("/", "X-Api-Key: b:ob")), "key=bob admin=0");
    HAS(ask(s, GET_WITH("/", "X-Api-Key: from-env")), "key=key4 admin=0");
    HAS(ask(s, GET_WITH("/", "X-Api-Key: also")), "key=second admin=0");
    HAS(ask(s, GET_WITH("/", "X-Api-Key: the-admin")), "key=root admin=1");
    /* Without a key the body is not read. */
    STATUS(ask(s, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n"), 401);
    for (int i = 0; i < atomic_load(&s->n_logs); i++) assert_null(strstr(s->log[i], "s3cret"));

    /* Reloading replaces them; a file that others can read does not. */
    write_file(path, "carol:new-key\n", 0600);
    OK(ig_http_reload(s->http));
    STATUS(ask(s, GET_WITH("/", "X-Api-Key: s3cret-a")), 401);
    HAS(ask(s, GET_WITH("/", "X-Api-Key: new-key")), "key=carol");
    write_file(path, "dave:newer-key\n", 0644);
    refused(ig_http_reload(s->http), IG_ERR_IO, "its mode is 0644");
    HAS(ask(s, GET_WITH("/", "X-Api-Key: new-key")), "key=carol");
    write_file(path, "# no key\n", 0600);
    refused(ig_http_reload(s->http), IG_ERR_ARGUMENT, "there is no key in it");
    write_file(path, "has space\n", 0600);
    refused(ig_http_reload(s->http), IG_ERR_ARGUMENT, "without spaces");
    close_server(s);
    unlink(path);
    unlink(admin);
    refused(try_server((ig_http_options){.api_key_file = path}), IG_ERR_IO, "cannot be read");
}

/* What stands after `name` in the body, up to a space. */
static void field(const http_answer *a, const char *name, char out[64]) {
    const char *at = strstr(a->body, name);
    assert_non_null(at);
    at += strlen(name);
    snprintf(out, 64, "%.*s", (int)strcspn(at, " "), at);
}

static void keys_have_salts_and_parties_of_their_own(void **state) {
    (void)state;
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        server *s = open_server(
            (ig_http_options){.api_keys = "a:aaa,b:bbb", .share_prefix_cache = is_shared});
        char salt[3][64], party[3][64];
        static const char *const requests[] = {GET_WITH("/", "X-Api-Key: aaa"),
                                               GET_WITH("/", "X-Api-Key: bbb"),
                                               GET_WITH("/", "X-Api-Key: aaa")};
        for (int i = 0; i < 3; i++) {
            ask(s, requests[i]);
            field(&s->answer, "salt=", salt[i]);
            field(&s->answer, "party=", party[i]);
        }
        assert_string_equal(salt[0], salt[2]);
        assert_string_equal(party[0], party[2]);
        assert_int_equal(!strcmp(salt[0], salt[1]), is_shared);
        assert_string_not_equal(party[0], party[1]); /* scheduling stays fair */
        close_server(s);
    }
}

/* ---- browsers ---- */

static void hosts_that_are_not_ours_are_403(void **state) {
    (void)state;
    const char *const names[] = {"llm.example"};
    server *s = open_server((ig_http_options){.host_names = names, .n_host_names = 1});
    static const struct {
        const char *host;
        int status;
    } cases[] = {
        {"localhost", 200},         {"LOCALHOST:8080", 200}, {"127.0.0.1:1", 200},
        {"127.9.9.9", 200},         {"[::1]:8080", 200},     {"llm.example", 200},
        {"LLM.example:443", 200},   {"evil.example", 403},   {"localhost.evil.example", 403},
        {"127.0.0.1.nip.io", 403},  {"10.0.0.1", 403},       {"", 403},
        {"localhost:80:80", 403},   {"[::1", 403},           {"localhost@evil.example", 403},
        {"user:80@localhost", 403},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char request[200];
        snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", cases[i].host);
        if (ask(s, request)->status != cases[i].status)
            fail_msg("Host %s: %d", cases[i].host, s->answer.status);
        snprintf(request, sizeof request, "GET /health HTTP/1.1\r\nHost: %s\r\n\r\n",
                 cases[i].host);
        STATUS(ask(s, request), 200);
    }
    char own[80] = "", request[200];
    assert_int_equal(gethostname(own, sizeof own - 1), 0);
    snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: %s:8080\r\n\r\n", own);
    STATUS(ask(s, request), 200);
    close_server(s);
    const char *const any[] = {"*"};
    s = open_server((ig_http_options){.host_names = any, .n_host_names = 1});
    STATUS(ask(s, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 200);
    close_server(s);
}

static void only_listed_origins_may_read_replies(void **state) {
    (void)state;
    const char *const origins[] = {"https://app.example"};
    server *s = open_server(
        (ig_http_options){.cors_origins = origins, .n_cors_origins = 1, .api_keys = "k"});
    STATUS(ask(s, GET_WITH("/", "X-Api-Key: k\r\nOrigin: https://app.example")), 200);
    assert_true(answer_has(&s->answer, "Access-Control-Allow-Origin: https://app.example"));
    assert_true(answer_has(&s->answer, "Vary: Origin"));
    STATUS(ask(s, GET_WITH("/", "Origin: https://app.example")), 401); /* which the page can read */
    assert_true(answer_has(&s->answer, "Access-Control-Allow-Origin: https://app.example"));
    static const char *const others[] = {
        GET_WITH("/", "X-Api-Key: k\r\nOrigin: http://evil"),
        GET_WITH("/", "X-Api-Key: k\r\nOrigin: null"),
        GET_WITH("/", "X-Api-Key: k\r\nOrigin: https://app.example.evil"),
        GET_WITH("/", "X-Api-Key: k\r\nOrigin: http://app.example"),
    };
    for (int i = 0; i < 4; i++) {
        STATUS(ask(s, others[i]), 200);
        assert_null(strstr(s->answer.text, "Access-Control"));
    }
#define PREFLIGHT(origin)                                                         \
    "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: " origin \
    "\r\nAccess-Control-Request-Method: POST\r\n\r\n"
    STATUS(ask(s, PREFLIGHT("https://app.example")), 204);
    assert_true(answer_has(&s->answer, "Access-Control-Allow-Methods: GET, HEAD, POST, DELETE"));
    assert_non_null(strstr(s->answer.text, "Authorization, Content-Type"));
    STATUS(ask(s, PREFLIGHT("https://evil.example")), 403);
    assert_null(strstr(s->answer.text, "Access-Control"));
    assert_int_equal(stats_of(s).rejected[IG_HTTP_REJECT_ORIGIN], 1);
    close_server(s);
}

static void bodies_have_to_be_json(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    static const struct {
        const char *type;
        int status;
    } cases[] = {
        {"Content-Type: application/json\r\n", 200},
        {"Content-Type: Application/JSON; charset=utf-8\r\n", 200},
        {"Content-Type: text/plain\r\n", 415},
        {"Content-Type: application/x-www-form-urlencoded\r\n", 415},
        {"Content-Type: multipart/form-data\r\n", 415},
        {"Content-Type: application/jsonp\r\n", 415},
        {"", 415},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char request[200];
        snprintf(request, sizeof request,
                 "POST / HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 2\r\n\r\n{}",
                 cases[i].type);
        if (ask(s, request)->status != cases[i].status)
            fail_msg("%s: %d", cases[i].type, s->answer.status);
    }
    STATUS(ask(s, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"), 200);
    STATUS(ask(s, "POST / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
    STATUS(ask(s, "DELETE /x HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
    close_server(s);
}

/* ---- proxies ---- */

static void forwarded_for_counts_from_trusted_proxies_only(void **state) {
    (void)state;
    const char *const proxies[] = {"127.0.0.1", "10.0.0.0/8", "fd00::/16"};
    server *s = open_server((ig_http_options){0});
    HAS(ask(s, GET_WITH("/", "X-Forwarded-For: 1.2.3.4")), "client=127.0.0.1 ");
    close_server(s);
    s = open_server((ig_http_options){.trusted_proxies = proxies, .n_trusted_proxies = 3});
    static const struct {
        const char *list, *client;
    } cases[] = {
        {"1.2.3.4", "client=1.2.3.4 "},
        {"6.6.6.6, 1.2.3.4", "client=1.2.3.4 "},
        {"6.6.6.6, 1.2.3.4, 10.1.2.3", "client=1.2.3.4 "},
        {"1.2.3.4,10.1.2.3 , fd00::1", "client=1.2.3.4 "},
        {"2001:db8::7", "client=2001:db8::7 "},
        {"10.1.1.1", "client=10.1.1.1 "},
        {"invented", "client=127.0.0.1 "},
        {"1.2.3.4, invented", "client=127.0.0.1 "},
        {"unix", "client=127.0.0.1 "},
        {",", "client=127.0.0.1 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char request[200];
        snprintf(request, sizeof request,
                 "GET / HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: %s\r\n\r\n", cases[i].list);
        if (!strstr(ask(s, request)->body, cases[i].client))
            fail_msg("%s: %s", cases[i].list, s->answer.body);
    }
    close_server(s);
    static const char *const wrong[] = {"10.0.0.0/33",   "::/129", "10.0.0.0/", "10.0.0.0/x",
                                        "proxy.example", "unix/3", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        refused(try_server((ig_http_options){.trusted_proxies = &wrong[i], .n_trusted_proxies = 1}),
                IG_ERR_ARGUMENT, "trusted proxy");
}

static void the_api_prefix_is_taken_from_paths(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){.api_prefix = "/base/llm"});
    HAS(ask(s, GET("/base/llm/v1/models")), "GET /v1/models ");
    HAS(ask(s, GET("/base/llm")), "GET / ");
    HAS(ask(s, GET("/base/llm/health")), "GET /health ");
    STATUS(ask(s, GET("/v1/models")), 404);
    STATUS(ask(s, GET("/base/llmx/v1")), 404);
    HAS(&s->answer, "not_found_error");
    close_server(s);
}

/* ---- ids and the log ---- */

static void request_ids_are_echoed_or_made(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    ask(s, GET_WITH("/", "X-Request-Id: my-id/42"));
    assert_true(answer_has(&s->answer, "X-Request-Id: my-id/42"));
    static const char *const bad[] = {
        GET("/"), GET_WITH("/", "X-Request-Id: two words"), GET_WITH("/", "X-Request-Id: \xc3\xa4"),
        GET_WITH("/", "X-Request-Id: "
                      "0123456789012345678901234567890123456789012345678901234567890123456789012345"
                      "67890123456789012345678901234567890123456789012345678")};
    char seen[4][33];
    for (int i = 0; i < 4; i++) {
        const char *id = strstr(ask(s, bad[i])->text, "X-Request-Id: ");
        assert_non_null(id);
        assert_int_equal(strspn(id + 14, "0123456789abcdef"), 32);
        memcpy(seen[i], id + 14, 32);
        for (int j = 0; j < i; j++) assert_true(memcmp(seen[i], seen[j], 32) != 0);
    }
    close_server(s);
}

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN  "00f067aa0ba902b7"

static void a_trace_goes_on_with_a_new_span(void **state) {
    (void)state;
    server *s = open_server((ig_http_options){0});
    ask(s, GET_WITH("/", "traceparent: 00-" TRACE "-" SPAN "-01"));
    HAS(&s->answer, "trace=00-" TRACE "-");
    HAS(&s->answer, "-01 parent=" SPAN);
    assert_null(strstr(s->answer.body, TRACE "-" SPAN));
    static const char *const bad[] = {
        GET_WITH("/", "traceparent: 00-" TRACE "-" SPAN),
        GET_WITH("/", "traceparent: ff-" TRACE "-" SPAN "-01"),
        GET_WITH("/", "traceparent: 00-" TRACE "-" SPAN "-01-more"),
        GET_WITH("/", "traceparent: 00-" TRACE "-0000000000000000-01"),
        GET_WITH("/", "traceparent: 00-00000000000000000000000000000000-" SPAN "-01"),
        GET_WITH("/", "traceparent: 00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01"),
        GET_WITH("/", "traceparent: "),
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ask(s, bad[i]);
        assert_null(strstr(s->answer.body, TRACE));
        const char *end = strstr(s->answer.body, "parent=");
        assert_string_equal(end, "parent=");
    }
    close_server(s);
}

static void the_log_has_one_line_for_each_exchange(void **state) {
    (void)state;
    for (int is_json = 0; is_json < 2; is_json++) {
        server *s = open_server((ig_http_options){.api_keys = "me:k", .log_json = is_json});
        ask(s, "POST /p HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: k\r\nX-Request-Id: r1\r\n"
               "Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{\"s\":\"p\"}");
        EVENTUALLY(atomic_load(&s->n_logs) == 1);
        ask(s, GET_WITH("/stream?n=2&q=private", "X-Api-Key: k"));
        EVENTUALLY(atomic_load(&s->n_logs) == 2);
        ask(s, GET("/a%22b"));
        EVENTUALLY(atomic_load(&s->n_logs) == 3);
        static const char *const words[2][3] = {
            {"id=r1 key=me client=127.0.0.1 method=POST path=/p status=200 bytes=",
             "path=/stream status=200 bytes=2000 ms=", "path=\"/a\\\"b\" status=401"},
            {"{\"id\":\"r1\",\"key\":\"me\",\"client\":\"127.0.0.1\",\"method\":\"POST\","
             "\"path\":\"/p\",\"status\":200,\"bytes\":",
             "\"path\":\"/stream\",\"status\":200,\"bytes\":2000,\"ms\":",
             "\"path\":\"/a\\\"b\",\"status\":401"}};
        for (int i = 0; i < 3; i++)
            if (!strstr(s->log[i], words[is_json][i]))
                fail_msg("\"%s\" lacks \"%s\"", s->log[i], words[is_json][i]);
        assert_non_null(strstr(s->log[1], is_json
                                              ? "\"piece_tokens\":12,\"pieces\":\"many of them\"}"
                                              : " piece_tokens=12 pieces=\"many of them\""));
        for (int i = 0; i < 3; i++) assert_null(strstr(s->log[i], "private"));
        assert_int_equal(stats_of(s).by_class[2], 2);
        assert_int_equal(stats_of(s).by_class[4], 1);
        close_server(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_but_public_paths_need_a_key),
        cmocka_unit_test(keys_have_salts_and_parties_of_their_own),
        cmocka_unit_test(hosts_that_are_not_ours_are_403),
        cmocka_unit_test(only_listed_origins_may_read_replies),
        cmocka_unit_test(bodies_have_to_be_json),
        cmocka_unit_test(forwarded_for_counts_from_trusted_proxies_only),
        cmocka_unit_test(the_api_prefix_is_taken_from_paths),
        cmocka_unit_test(request_ids_are_echoed_or_made),
        cmocka_unit_test(a_trace_goes_on_with_a_new_span),
        cmocka_unit_test(the_log_has_one_line_for_each_exchange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
