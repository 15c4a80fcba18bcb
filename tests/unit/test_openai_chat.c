/*
 * OpenAI's chat completions, without HTTP: whole replies, chunks and their order, errors, and
 * clients that leave.
 */
#include "unit/serve_fake.h"

#define CHAT "/v1/chat/completions"
#define HI   "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
/* The byte 'a' and nothing else. */
#define ONLY_A "\"logit_bias\":{\"a\":100},\"temperature\":0"

static void a_reply_has_the_shape_of_openai(void **state) {
    ig_server *s = *state;
    json_t *r = fake_post(s, CHAT, "{" HI ",\"max_tokens\":5," ONLY_A "}", 200);
    assert_memory_equal(text_at(r, "id"), "chatcmpl-", 9);
    assert_string_equal(text_at(r, "object"), "chat.completion");
    assert_string_equal(text_at(r, "model"), "org/tiny");
    assert_string_equal(text_at(r, "system_fingerprint"), "fp");
    assert_int_equal(json_array_size(part(r, "choices")), 1);
    assert_string_equal(text_at(r, "choices.0.message.role"), "assistant");
    assert_string_equal(text_at(r, "choices.0.message.content"), "aaaaa");
    assert_true(json_is_null(part(r, "choices.0.logprobs")));
    assert_string_equal(text_at(r, "choices.0.finish_reason"), "length");
    assert_int_equal(int_at(r, "usage.completion_tokens"), 5);
    assert_int_equal(int_at(r, "usage.total_tokens"), int_at(r, "usage.prompt_tokens") + 5);
    assert_int_equal(int_at(r, "usage.prompt_tokens_details.cached_tokens"), 0);
    assert_int_equal(int_at(r, "timings.predicted_n"), 5);
    assert_int_equal(int_at(r, "timings.prompt_n"), int_at(r, "usage.prompt_tokens"));
    json_decref(r);
}

/* ---- streams ---- */

enum { MAX_EVENTS = 64 };
typedef struct events {
    json_t *at[MAX_EVENTS];
    int n;
    bool is_done; /* [DONE] is the last */
    int n_pings;
} events;

/* Splits a stream into its events. */
static events read_events(const char *body) {
    events e = {0};
    while (*body) {
        const char *end = strstr(body, "\n\n");
        assert_non_null(end);
        assert_false(e.is_done);
        if (strncmp(body, ": ping", 6) == 0) {
            e.n_pings++;
        } else if (strncmp(body, "data: [DONE]", 12) == 0) {
            e.is_done = true;
        } else {
            assert_memory_equal(body, "data: ", 6);
            assert_true(e.n < MAX_EVENTS);
            json_error_t error;
            e.at[e.n] = json_loadb(body + 6, (size_t)(end - body) - 6, 0, &error);
            if (!e.at[e.n++]) fail_msg("%s: %s", error.text, body);
        }
        body = end + 2;
    }
    return e;
}

static void free_events(events *e) {
    for (int i = 0; i < e->n; i++) json_decref(e->at[i]);
}

static void a_stream_has_role_text_end_usage_and_done(void **state) {
    ig_server *s = *state;
    ig_exchange *x = fake_send(s, "POST", CHAT,
                               "{" HI ",\"max_tokens\":3,\"stream\":true,\"stream_options\":"
                               "{\"include_usage\":true}," ONLY_A "}");
    assert_int_equal(x->code, 200);
    assert_string_equal(x->type, "text/event-stream");
    assert_string_equal(x->header[0][0], "Cache-Control");
    assert_string_equal(x->header[1][0], "X-Accel-Buffering");
    events e = read_events(x->body);
    assert_true(e.is_done);
    assert_int_equal(e.n, 1 + 3 + 1 + 1);
    for (int i = 0; i < e.n; i++) {
        assert_string_equal(text_at(e.at[i], "id"), text_at(e.at[0], "id"));
        assert_string_equal(text_at(e.at[i], "object"), "chat.completion.chunk");
        assert_string_equal(text_at(e.at[i], "model"), "org/tiny");
    }
    assert_string_equal(text_at(e.at[0], "choices.0.delta.role"), "assistant");
    assert_true(json_is_null(part(e.at[0], "choices.0.delta.content")));
    for (int i = 1; i <= 3; i++) {
        assert_string_equal(text_at(e.at[i], "choices.0.delta.content"), "a");
        assert_int_equal(json_object_size(part(e.at[i], "choices.0.delta")), 1);
        assert_true(json_is_null(part(e.at[i], "choices.0.finish_reason")));
        assert_true(json_is_null(part(e.at[i], "usage")));
    }
    assert_int_equal(json_object_size(part(e.at[4], "choices.0.delta")), 0);
    assert_string_equal(text_at(e.at[4], "choices.0.finish_reason"), "length");
    assert_int_equal(json_array_size(part(e.at[5], "choices")), 0);
    assert_int_equal(int_at(e.at[5], "usage.completion_tokens"), 3);
    assert_int_equal(int_at(e.at[5], "timings.predicted_n"), 3);
    free_events(&e);
    fake_free(x);
}

static int open_server(void **state) {
    *state = fake_open(NULL, NULL);
    return 0;
}
static int close_server(void **state) {
    fake_close(*state);
    return 0;
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_server, close_server)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_reply_has_the_shape_of_openai),
        TEST(a_stream_has_role_text_end_usage_and_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
