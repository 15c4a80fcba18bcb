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

static void a_stream_has_role_text_end_usage_and_done(void **state) {
    ig_server *s = *state;
    ig_exchange *x = fake_send(s, "POST", CHAT,
                               "{" HI ",\"max_tokens\":3,\"stream\":true,\"stream_options\":"
                               "{\"include_usage\":true}," ONLY_A "}");
    assert_int_equal(x->code, 200);
    assert_string_equal(x->type, "text/event-stream");
    assert_string_equal(x->header[0][0], "Cache-Control");
    assert_string_equal(x->header[1][0], "X-Accel-Buffering");
    fake_events e = read_events(x->body);
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

static void logprobs_of_a_stream_join_to_its_text(void **state) {
    ig_server *s = *state;
    fake_events e = fake_stream(s, CHAT,
                                "{" HI ",\"max_tokens\":12,\"stream\":true,\"logprobs\":true,"
                                "\"top_logprobs\":3,\"seed\":5,\"ignore_eos\":true}");
    char text[400] = "", tokens[400] = "";
    for (int i = 1; i < e.n - 1; i++) {
        json_t *choice = part(e.at[i], "choices.0");
        const char *piece = json_string_value(json_object_get(part(choice, "delta"), "content"));
        strcat(text, piece ? piece : "");
        json_t *list = json_object_get(choice, "logprobs");
        if (!list) continue; /* characters that were held back to the end */
        assert_int_equal(json_array_size(part(list, "content")), 1);
        strcat(tokens, text_at(list, "content.0.token"));
        assert_int_equal(json_array_size(part(list, "content.0.top_logprobs")), 3);
        assert_int_equal(json_array_size(part(list, "content.0.bytes")), 1);
        assert_true(json_number_value(part(list, "content.0.logprob")) <= 0);
    }
    assert_memory_equal(text, tokens, strlen(tokens));
    free_events(&e);
}

static void choices_have_indices_roles_and_ends_of_their_own(void **state) {
    ig_server *s = *state;
    int roles[3] = {0}, ends[3] = {0};
    char *texts[3] = {calloc(1, 400), calloc(1, 400), calloc(1, 400)};
    fake_events e = fake_stream(s, CHAT,
                                "{" HI ",\"max_tokens\":6,\"stream\":true,\"n\":3,\"seed\":9,"
                                "\"ignore_eos\":true}");
    for (int i = 0; i < e.n; i++) {
        const long long index = int_at(e.at[i], "choices.0.index");
        json_t *delta = part(e.at[i], "choices.0.delta");
        assert_in_range(index, 0, 2);
        assert_int_equal(ends[index], 0);
        roles[index] += json_object_get(delta, "role") != NULL;
        ends[index] += json_is_string(part(e.at[i], "choices.0.finish_reason"));
        const char *piece = json_string_value(json_object_get(delta, "content"));
        strcat(texts[index], piece ? piece : "");
    }
    json_t *whole =
        fake_post(s, CHAT, "{" HI ",\"max_tokens\":6,\"n\":3,\"seed\":9,\"ignore_eos\":true}", 200);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(roles[i], 1);
        assert_int_equal(ends[i], 1);
        json_t *choice = json_array_get(part(whole, "choices"), (size_t)i);
        assert_int_equal(int_at(choice, "index"), i);
        assert_string_equal(texts[i], text_at(choice, "message.content"));
        free(texts[i]);
    }
    assert_int_equal(int_at(whole, "usage.completion_tokens"), 18);
    json_decref(whole);
    free_events(&e);
}

static void progress_rises_to_the_length_of_the_prompt(void **state) {
    ig_server *s = *state;
    char body[1200], text[400];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],\"max_tokens\":2,"
             "\"stream\":true,\"return_progress\":true,\"timings_per_token\":true}",
             text);
    fake_events e = fake_stream(s, CHAT, body);
    long long processed = -1, total = 0;
    for (int i = 0; i < e.n; i++) {
        json_t *p = json_object_get(e.at[i], "prompt_progress");
        if (!p) continue;
        assert_true(int_at(p, "processed") >= processed);
        processed = int_at(p, "processed");
        total = int_at(p, "total");
    }
    assert_true(total > 400);
    assert_int_equal(processed, total);
    free_events(&e);
}

static void a_slow_reader_gets_the_same_stream(void **state) {
    ig_server *s = *state;
    const char *body = "{" HI ",\"max_tokens\":9,\"stream\":true," ONLY_A "}";
    ig_exchange *x = fake_exchange("POST", CHAT, body);
    x->refusals = 5;
    ig_route_dispatch(s, x);
    ig_exchange_wake(x);
    fake_finish(x);
    fake_events e = read_events(x->body);
    assert_true(e.is_done);
    assert_int_equal(e.n, 1 + 9 + 1);
    free_events(&e);
    fake_free(x);
}

static void a_silent_stream_gets_comments(void **state) {
    ig_server *s = *state;
    s->options.sse_ping_s = 1e-4;
    char body[1200], text[450];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],\"max_tokens\":2,"
             "\"stream\":true,\"cache_prompt\":false}",
             text);
    int n_pings = 0;
    for (int i = 0; i < 50 && n_pings == 0; i++) {
        fake_events e = fake_stream(s, CHAT, body);
        assert_true(e.is_done);
        n_pings += e.n_pings;
        free_events(&e);
    }
    assert_true(n_pings > 0);
}

/* ---- clients that leave, and other ends ---- */

static ig_exchange *begin_long_stream(ig_server *s) {
    ig_exchange *x =
        fake_exchange("POST", CHAT, "{" HI ",\"max_tokens\":400,\"stream\":true," ONLY_A "}");
    ig_route_dispatch(s, x);
    fake_advance(x);
    while (!x->is_streaming) {
        fake_wait(x);
        fake_advance(x);
    }
    return x;
}

static void wait_until_idle(ig_server *s, ig_engine_stats *stats) {
    for (int i = 0; i < 6000; i++) {
        ig_engine_get_stats(s->served.engine, stats);
        if (stats->n_running == 0) return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail_msg("the engine runs on");
}

static void a_client_that_leaves_cancels_its_job(void **state) {
    ig_server *s = *state;
    ig_engine_stats stats;
    ig_exchange *x = begin_long_stream(s);
    x->has_left = true;
    x->source.close(x->source.user);
    wait_until_idle(s, &stats);
    assert_int_equal(stats.n_cancelled[IG_JOB_DECODE], 1);
    assert_int_equal(s->n_held, 0);
    fake_free(x);
}

static void a_cancelled_request_ends_with_an_error(void **state) {
    ig_server *s = *state;
    ig_engine_stats stats;
    ig_exchange *x = begin_long_stream(s);
    assert_string_equal(s->active->id, "id");
    s->active->cancel(s->active->user);
    fake_finish(x);
    fake_events e = read_events(x->body);
    assert_false(e.is_done);
    assert_int_equal(int_at(e.at[e.n - 1], "error.code"), 499);
    wait_until_idle(s, &stats);
    assert_null(s->active);
    free_events(&e);
    fake_free(x);

    x = fake_exchange("POST", CHAT, "{" HI "}"); /* one that waits for its model */
    s->state = IG_SERVED_LOADING;
    ig_route_dispatch(s, x);
    fake_advance(x);
    s->active->cancel(s->active->user);
    fake_finish(x);
    assert_int_equal(x->code, 499);
    fake_free(x);
}

static void an_error_in_a_stream_is_its_last_event(void **state) {
    ig_server *s = *state;
    s->options.request_timeout_s = 1e-3;
    int n = 0;
    for (int i = 0; i < 200 && n == 0; i++) { /* until it comes after the first token */
        ig_exchange *x =
            fake_send(s, "POST", CHAT,
                      "{" HI ",\"max_tokens\":400,\"stream\":true,\"ignore_eos\":true," ONLY_A "}");
        s->options.request_timeout_s *= 1.2;
        if (x->is_streaming) {
            fake_events e = read_events(x->body);
            if (!e.is_done) {
                n++;
                assert_int_equal(int_at(e.at[e.n - 1], "error.code"), 503);
                assert_non_null(strstr(text_at(e.at[e.n - 1], "error.message"), "longer"));
            }
            free_events(&e);
        } else {
            assert_int_equal(x->code, 503);
        }
        fake_free(x);
    }
    assert_true(n > 0);
}

static void a_full_queue_is_429_with_a_time_to_wait(void **state) {
    ig_server *s = fake_open(NULL, &(ig_engine_options){.n_sequences = 1, .max_queue = 1});
    ig_exchange *waiting[3] = {0}, *refused_one = NULL;
    (void)state;
    ig_exchange *running = begin_long_stream(s);
    for (int i = 0; i < 3 && !refused_one; i++) {
        waiting[i] = fake_exchange("POST", CHAT, "{" HI "}");
        ig_route_dispatch(s, waiting[i]);
        fake_advance(waiting[i]);
        if (waiting[i]->has_ended) refused_one = waiting[i];
    }
    assert_non_null(refused_one);
    assert_int_equal(refused_one->code, 429);
    assert_string_equal(refused_one->header[0][0], "Retry-After");
    assert_in_range(atoi(refused_one->header[0][1]), 1, 60);
    assert_non_null(strstr(refused_one->body, "rate_limit_error"));
    for (int i = 0; i < 3 && waiting[i]; i++) {
        waiting[i]->source.close(waiting[i]->source.user);
        fake_free(waiting[i]);
    }
    running->source.close(running->source.user);
    fake_free(running);
    fake_close(s);
}

/* ---- models ---- */

static void a_request_waits_for_its_model(void **state) {
    ig_server *s = *state;
    s->state = IG_SERVED_LOADING;
    ig_exchange *x = fake_exchange("POST", CHAT, "{" HI ",\"max_tokens\":1," ONLY_A "}");
    ig_route_dispatch(s, x);
    fake_advance(x);
    fake_advance(x); /* woken for another reason */
    assert_false(x->has_ended);
    assert_non_null(s->waiter);
    s->state = IG_SERVED_READY;
    ig_models_waiter *waiter = s->waiter;
    s->waiter = NULL;
    waiter->notify(waiter->user);
    fake_finish(x);
    assert_int_equal(x->code, 200);
    fake_free(x);
}

static void refused_with(ig_server *s, const char *body, int code, const char *type,
                         const char *param, const char *words) {
    json_t *r = fake_post(s, CHAT, body, code);
    assert_string_equal(text_at(r, "error.type"), type);
    if (param)
        assert_string_equal(text_at(r, "error.param"), param);
    else
        assert_true(json_is_null(part(r, "error.param")));
    if (!strstr(text_at(r, "error.message"), words))
        fail_msg("'%s' lacks '%s'", text_at(r, "error.message"), words);
    json_decref(r);
}

static void models_that_cannot_answer_say_why(void **state) {
    ig_server *s = *state;
    json_t *r = fake_post(s, CHAT, "{\"model\":\"unknown\"," HI "}", 404);
    assert_string_equal(text_at(r, "error.code"), "model_not_found");
    json_decref(r);
    s->state = IG_SERVED_FAILED;
    refused_with(s, "{" HI "}", 503, "unavailable_error", "model", "the file is cut off");
    s->state = IG_SERVED_READY;
    s->phase = IG_SERVER_LOADING;
    refused_with(s, "{" HI "}", 503, "unavailable_error", NULL, "Loading model");
    s->phase = IG_SERVER_STOPPING;
    refused_with(s, "{" HI "}", 503, "unavailable_error", NULL, "shutting down");
    s->phase = IG_SERVER_READY;
    s->served.can_generate = false;
    refused_with(s, "{" HI "}", 400, "invalid_request_error", "model", "embeddings, not text");
}

/* ---- what is refused ---- */

static void a_long_prompt_is_refused_with_both_numbers(void **state) {
    ig_server *s = *state;
    char body[1200], text[600];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],\"stream\":true}", text);
    json_t *r = fake_post(s, CHAT, body, 400);
    assert_string_equal(text_at(r, "error.type"), "exceed_context_size_error");
    assert_true(int_at(r, "error.n_prompt_tokens") > 599);
    assert_int_equal(int_at(r, "error.n_ctx"), FAKE_CONTEXT);
    json_decref(r);
}

static void bad_requests_are_400_and_name_the_field(void **state) {
    ig_server *s = *state;
    static const struct {
        const char *body, *param, *words;
    } rows[] = {
        {"{}", "messages", "missing"},
        {"{\"messages\":[]}", "messages", "at least one"},
        {"{\"messages\":[1]}", "messages[0]", "object"},
        {"{\"messages\":[{\"content\":\"a\"}]}", "messages[0].role", "must be system"},
        {"{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content", "text parts"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
         "messages[0].content", "image_url"},
        {"{\"messages\":[{\"role\":\"wizard\",\"content\":\"a\"}]}", "messages", "wizard"},
        {"{" HI ",\"temperature\":11}", "temperature",
         "temperature is 11, but must be a number "
         "from 0 to 10"},
        {"{" HI ",\"stop\":[\"a\",1]}", "stop", "256 bytes"},
        {"{" HI ",\"stop\":\"a\\u0000b\"}", "stop", "256 bytes"},
        {"{" HI ",\"logit_bias\":{\"a\":101}}", "logit_bias", "-100 to 100"},
        {"{" HI ",\"logit_bias\":{\"99999\":1}}", "logit_bias", "99999 is not a token"},
        {"{" HI ",\"logit_bias\":[[1]]}", "logit_bias", "pair"},
        {"{" HI ",\"stop_token_ids\":[-1]}", "stop_token_ids", "stop_token_ids[0]"},
        {"{" HI ",\"top_logprobs\":2}", "top_logprobs", "logprobs is not true"},
        {"{" HI ",\"stream_options\":{\"include_usage\":1}}", "stream_options.include_usage",
         "true or false"},
        {"{" HI ",\"reasoning_format\":\"x\"}", "reasoning_format", "deepseek"},
        {"{" HI ",\"stream\":true,\"report\":true}", "report", "stream"},
        {"{" HI ",\"continue_final_message\":true}", "continue_final_message", "assistant"},
        {"{" HI ",\"mirostat\":1}", "mirostat", "mirostat is 1"},
        {"{" HI ",\"modalities\":[\"audio\"]}", "modalities", "text"},
        {"{" HI ",\"tools\":[1]}", "tools", "tools[0]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refused_with(s, rows[i].body, 400, "invalid_request_error", rows[i].param, rows[i].words);
}

static void what_is_not_supported_yet_says_so(void **state) {
    ig_server *s = *state;
    refused_with(s, "{" HI ",\"response_format\":{\"type\":\"json_object\"}}", 400,
                 "not_supported_error", "response_format", "not supported yet");
    refused_with(s, "{" HI ",\"grammar\":\"root ::= a\"}", 400, "not_supported_error", "grammar",
                 "not supported yet");
    refused_with(s, "{" HI ",\"tool_choice\":\"required\"}", 400, "not_supported_error",
                 "tool_choice", "not supported yet");
    json_t *r = fake_post(s, CHAT,
                          "{" HI ",\"max_tokens\":1,\"response_format\":{\"type\":\"text\"},"
                          "\"grammar\":\"\",\"tool_choice\":\"none\"}",
                          200);
    json_decref(r);
}

static void unknown_fields_are_logged_once(void **state) {
    ig_server *s = *state;
    for (int i = 0; i < 2; i++)
        json_decref(fake_post(s, CHAT, "{" HI ",\"max_tokens\":1,\"fo\\no\":1}", 200));
    assert_string_equal(s->log, "requests have the unknown field 'fo?o', which is ignored\n");
}

/* ---- what ends a reply ---- */

static void stops_end_a_reply_and_are_not_part_of_it(void **state) {
    ig_server *s = *state;
    json_t *r =
        fake_post(s, CHAT, "{" HI ",\"max_tokens\":9,\"stop\":[\"x\",\"aaa\"]," ONLY_A "}", 200);
    assert_string_equal(text_at(r, "choices.0.message.content"), "");
    assert_string_equal(text_at(r, "choices.0.finish_reason"), "stop");
    json_decref(r);
    r = fake_post(s, CHAT, "{" HI ",\"max_tokens\":9,\"stop\":\"aaa\",\"min_tokens\":5," ONLY_A "}",
                  200);
    assert_true(int_at(r, "usage.completion_tokens") >= 5);
    json_decref(r);
    r = fake_post(s, CHAT, "{" HI ",\"max_tokens\":9,\"stop_token_ids\":[97]," ONLY_A "}", 200);
    assert_string_equal(text_at(r, "choices.0.finish_reason"), "stop");
    json_decref(r);
}

static void never_is_a_bias_of_false(void **state) {
    ig_server *s = *state;
    json_t *r = fake_post(s, CHAT,
                          "{" HI ",\"max_tokens\":4,\"temperature\":0,\"logit_bias\":"
                          "[[\"a\",false],[\"b\",90],[97,100],[\"c\",50]]}",
                          200);
    assert_string_equal(text_at(r, "choices.0.message.content"), "bbbb");
    json_decref(r);
}

static void equal_seeds_give_equal_replies(void **state) {
    ig_server *s = *state;
    const char *body = "{" HI ",\"max_tokens\":30,\"temperature\":1.5,\"top_k\":0,\"top_p\":1,"
                       "\"min_p\":0,\"ignore_eos\":true,\"seed\":42}";
    json_t *one = fake_post(s, CHAT, body, 200), *two = fake_post(s, CHAT, body, 200);
    assert_string_equal(text_at(one, "choices.0.message.content"),
                        text_at(two, "choices.0.message.content"));
    assert_int_equal(int_at(two, "usage.prompt_tokens_details.cached_tokens"),
                     int_at(two, "usage.prompt_tokens") - 1);
    json_decref(two);
    two = fake_post(s, CHAT,
                    "{" HI ",\"max_tokens\":30,\"temperature\":1.5,\"top_k\":0,\"top_p\":1,"
                    "\"min_p\":0,\"ignore_eos\":true,\"seed\":43,\"cache_salt\":\"mine\"}",
                    200);
    assert_string_not_equal(text_at(one, "choices.0.message.content"),
                            text_at(two, "choices.0.message.content"));
    assert_int_equal(int_at(two, "usage.prompt_tokens_details.cached_tokens"), 0);
    json_decref(one);
    json_decref(two);
}

static void max_tokens_0_only_computes_the_prompt(void **state) {
    ig_server *s = *state;
    json_t *r = fake_post(s, CHAT, "{" HI ",\"max_completion_tokens\":0}", 200);
    assert_string_equal(text_at(r, "choices.0.message.content"), "");
    assert_int_equal(int_at(r, "usage.completion_tokens"), 0);
    json_decref(r);
    fake_events e = fake_stream(s, CHAT, "{" HI ",\"max_tokens\":0,\"stream\":true}");
    assert_true(e.is_done);
    assert_int_equal(e.n, 2); /* role, end */
    free_events(&e);
}

/* ---- the report and notes ---- */

static void a_report_is_part_of_a_whole_reply(void **state) {
    ig_server *s = *state;
    json_t *r = fake_post(s, CHAT, "{" HI ",\"max_tokens\":2,\"report\":true}", 200);
    assert_true(json_object_size(part(r, "report")) > 3);
    assert_true(json_array_size(part(r, "report.backend_timeline")) > 0);
    json_decref(r);
}

static void the_log_line_gets_counts(void **state) {
    ig_server *s = *state;
    ig_exchange *x = fake_send(s, "POST", CHAT, "{" HI ",\"max_tokens\":3," ONLY_A "}");
    int found = 0;
    for (int i = 0; i < x->n_notes; i++) {
        if (strcmp(x->note[i][0], "generated_tokens") == 0)
            assert_string_equal(x->note[i][1], "3"), found++;
        if (strcmp(x->note[i][0], "finish") == 0)
            assert_string_equal(x->note[i][1], "length"), found++;
    }
    assert_int_equal(found, 2);
    fake_free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_SERVER(a_reply_has_the_shape_of_openai),
        TEST_WITH_SERVER(a_stream_has_role_text_end_usage_and_done),
        TEST_WITH_SERVER(logprobs_of_a_stream_join_to_its_text),
        TEST_WITH_SERVER(choices_have_indices_roles_and_ends_of_their_own),
        TEST_WITH_SERVER(progress_rises_to_the_length_of_the_prompt),
        TEST_WITH_SERVER(a_slow_reader_gets_the_same_stream),
        TEST_WITH_SERVER(a_silent_stream_gets_comments),
        TEST_WITH_SERVER(a_client_that_leaves_cancels_its_job),
        TEST_WITH_SERVER(a_cancelled_request_ends_with_an_error),
        TEST_WITH_SERVER(a_report_is_part_of_a_whole_reply),
        TEST_WITH_SERVER(an_error_in_a_stream_is_its_last_event),
        cmocka_unit_test(a_full_queue_is_429_with_a_time_to_wait),
        TEST_WITH_SERVER(a_request_waits_for_its_model),
        TEST_WITH_SERVER(models_that_cannot_answer_say_why),
        TEST_WITH_SERVER(a_long_prompt_is_refused_with_both_numbers),
        TEST_WITH_SERVER(bad_requests_are_400_and_name_the_field),
        TEST_WITH_SERVER(what_is_not_supported_yet_says_so),
        TEST_WITH_SERVER(unknown_fields_are_logged_once),
        TEST_WITH_SERVER(stops_end_a_reply_and_are_not_part_of_it),
        TEST_WITH_SERVER(never_is_a_bias_of_false),
        TEST_WITH_SERVER(equal_seeds_give_equal_replies),
        TEST_WITH_SERVER(max_tokens_0_only_computes_the_prompt),
        TEST_WITH_SERVER(the_log_line_gets_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
