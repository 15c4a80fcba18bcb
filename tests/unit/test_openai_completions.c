/* OpenAI's completions and embeddings, without HTTP: prompts in every form, echo, vectors. */
#include <math.h>

#include "unit/serve_fake.h"

#define TEXT   "/v1/completions"
#define EMBED  "/v1/embeddings"
#define ONLY_A "\"logit_bias\":{\"97\":100},\"temperature\":0"

static void prompts_come_in_every_form(void **state) {
    ig_server *s = *state;
    static const struct {
        const char *prompt;
        size_t n;
        long long n_tokens;
    } rows[] = {{"\"Hi\"", 1, 2},        {"[\"Hi\",\"Ho!\"]", 2, 5},
                {"[72,105]", 1, 2},      {"[[72,105],[72,111,33]]", 2, 5},
                {"[\"Hi\",[72]]", 2, 3}, {"[72,\"i!\"]", 1, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char body[200];
        snprintf(body, sizeof body, "{\"prompt\":%s,\"max_tokens\":2,\"n\":2," ONLY_A "}",
                 rows[i].prompt);
        json_t *r = fake_post(s, TEXT, body, 200);
        assert_int_equal(json_array_size(part(r, "choices")), 2 * rows[i].n);
        for (size_t k = 0; k < 2 * rows[i].n; k++) {
            json_t *choice = json_array_get(part(r, "choices"), k);
            assert_int_equal(int_at(choice, "index"), k);
            assert_string_equal(text_at(choice, "text"), "aa");
        }
        assert_int_equal(int_at(r, "usage.prompt_tokens"), rows[i].n_tokens);
        assert_int_equal(int_at(r, "usage.completion_tokens"), 4 * rows[i].n);
        assert_string_equal(text_at(r, "object"), "text_completion");
        json_decref(r);
    }
}

static void more_prompts_than_are_in_flight_are_all_answered(void **state) {
    ig_server *s = *state;
    char body[4000] = "{\"max_tokens\":1," ONLY_A ",\"prompt\":[";
    for (int i = 0; i < 100; i++) {
        const size_t used = strlen(body);
        snprintf(body + used, sizeof body - used, "%s\"prompt %d\"", i ? "," : "", i);
    }
    strcat(body, "]}");
    json_t *r = fake_post(s, TEXT, body, 200);
    assert_int_equal(json_array_size(part(r, "choices")), 100);
    json_decref(r);
}

static void legacy_logprobs_cover_the_prompt_with_echo(void **state) {
    ig_server *s = *state;
    json_t *r = fake_post(s, TEXT,
                          "{\"prompt\":\"H\xc3\xa4!\",\"max_tokens\":2,\"echo\":true,"
                          "\"logprobs\":2,\"n\":2," ONLY_A "}",
                          200);
    static const long long offsets[] = {0, 1, 1, 2, 3, 4};
    for (size_t c = 0; c < 2; c++) {
        json_t *choice = json_array_get(part(r, "choices"), c);
        assert_string_equal(text_at(choice, "text"), "H\xc3\xa4!aa");
        json_t *l = part(choice, "logprobs");
        assert_int_equal(json_array_size(part(l, "tokens")), 6);
        assert_int_equal(json_array_size(part(l, "top_logprobs")), 6);
        assert_true(json_is_null(part(l, "token_logprobs.0")));
        char joined[32] = "";
        for (size_t i = 0; i < 6; i++) {
            strcat(joined, json_string_value(json_array_get(part(l, "tokens"), i)));
            if (i > 0) assert_true(json_is_real(json_array_get(part(l, "token_logprobs"), i)));
            assert_int_equal(json_integer_value(json_array_get(part(l, "text_offset"), i)),
                             offsets[i]);
        }
        assert_string_equal(joined, "H\xc3\xa4!aa");
        assert_int_equal(json_object_size(part(l, "top_logprobs.5")), 2);
    }
    json_decref(r);
}

static void a_stream_adds_up_to_the_whole_reply(void **state) {
    ig_server *s = *state;
    const char *body = "{\"prompt\":[\"One\",\"Two\"],\"max_tokens\":20,\"echo\":true,\"n\":2,"
                       "\"seed\":4,\"ignore_eos\":true,\"logprobs\":1,\"stream\":%s}";
    char text[300], *texts[4], *tokens[4];
    snprintf(text, sizeof text, body, "false");
    json_t *whole = fake_post(s, TEXT, text, 200);
    snprintf(text, sizeof text, body, "true");
    fake_events e = fake_stream(s, TEXT, text);
    for (int i = 0; i < 4; i++) texts[i] = calloc(1, 1000), tokens[i] = calloc(1, 1000);
    for (int i = 0; i < e.n; i++) {
        const long long index = int_at(e.at[i], "choices.0.index");
        strcat(texts[index], text_at(e.at[i], "choices.0.text"));
        json_t *list = part(e.at[i], "choices.0.logprobs.tokens");
        for (size_t k = 0; k < json_array_size(list); k++)
            strcat(tokens[index], json_string_value(json_array_get(list, k)));
    }
    for (size_t i = 0; i < 4; i++) {
        json_t *choice = json_array_get(part(whole, "choices"), i);
        assert_string_equal(texts[i], text_at(choice, "text"));
        json_t *list = part(choice, "logprobs.tokens");
        assert_true(json_array_size(list) >= 20);
        assert_memory_equal(texts[i], i < 2 ? "One" : "Two", 3);
        assert_memory_equal(tokens[i], texts[i], strlen(tokens[i]));
        free(texts[i]);
        free(tokens[i]);
    }
    assert_true(e.is_done);
    free_events(&e);
    json_decref(whole);
}

static void token_ids_are_returned_if_asked_for(void **state) {
    ig_server *s = *state;
    json_t *r = fake_post(
        s, TEXT, "{\"prompt\":\"Hi\",\"max_tokens\":2,\"return_token_ids\":true," ONLY_A "}", 200);
    assert_int_equal(int_at(r, "choices.0.prompt_token_ids.1"), 'i');
    assert_int_equal(int_at(r, "choices.0.token_ids.1"), 'a');
    json_decref(r);
}

static void refused_with(ig_server *s, const char *path, const char *body, const char *param,
                         const char *words) {
    json_t *r = fake_post(s, path, body, 400);
    if (param) assert_string_equal(text_at(r, "error.param"), param);
    if (!strstr(text_at(r, "error.message"), words))
        fail_msg("'%s' lacks '%s'", text_at(r, "error.message"), words);
    json_decref(r);
}

static void prompts_that_are_none_are_refused(void **state) {
    ig_server *s = *state;
    refused_with(s, TEXT, "{}", "prompt", "missing");
    refused_with(s, TEXT, "{\"prompt\":[]}", "prompt", "0 prompts");
    refused_with(s, TEXT, "{\"prompt\":[{}]}", "prompt[0]", "token ids");
    refused_with(s, TEXT, "{\"prompt\":[\"a\",true]}", "prompt[1]", "token ids");
    refused_with(s, TEXT, "{\"prompt\":[72,-1]}", "prompt[0]", "token ids below");
    refused_with(s, TEXT, "{\"prompt\":[72,100000]}", "prompt[0]", "token ids below");
    refused_with(s, TEXT, "{\"prompt\":\"\"}", "prompt", "has no tokens");
    refused_with(s, TEXT, "{\"prompt\":[\"a\",\"b\",\"c\"],\"n\":100}", "n", "256 choices");
    refused_with(s, TEXT, "{\"prompt\":\"a\",\"best_of\":2}", "best_of", "equal n");
    refused_with(s, TEXT, "{\"prompt\":\"a\",\"suffix\":\"b\"}", "suffix", "fill-in-the-middle");
    refused_with(s, TEXT, "{\"prompt\":\"a\",\"logprobs\":21}", "logprobs", "from 0 to 20");
}

/* ---- embeddings ---- */

static double value(json_t *r, size_t row, size_t column) {
    json_t *vector = part(json_array_get(part(r, "data"), row), "embedding");
    return json_number_value(json_array_get(vector, column));
}

static void a_vector_is_the_same_alone_and_among_others(void **state) {
    ig_server *s = *state;
    char body[2000] = "{\"input\":[";
    for (int i = 0; i < 40; i++) {
        const size_t used = strlen(body);
        snprintf(body + used, sizeof body - used, "%s\"text %d\"", i ? "," : "", i);
    }
    strcat(body, "]}");
    json_t *many = fake_post(s, EMBED, body, 200);
    json_t *one = fake_post(s, EMBED, "{\"input\":\"text 17\"}", 200);
    assert_string_equal(text_at(one, "object"), "list");
    assert_string_equal(text_at(one, "data.0.object"), "embedding");
    assert_int_equal(int_at(one, "usage.prompt_tokens"), 7);
    assert_int_equal(json_array_size(part(one, "data.0.embedding")), 64);
    double sum = 0;
    for (size_t i = 0; i < 64; i++) {
        assert_true(value(one, 0, i) == value(many, 17, i));
        sum += value(one, 0, i) * value(one, 0, i);
    }
    assert_true(fabs(sum - 1) < 1e-5);
    json_decref(many);
    json_decref(one);
}

/* Of a text of base64 with a length divisible by 4. */
static size_t decode(const char *text, unsigned char *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;
    for (; *text; text += 4) {
        unsigned bits = 0;
        for (int i = 0; i < 4; i++)
            bits = bits << 6 | (text[i] == '=' ? 0 : (unsigned)(strchr(digits, text[i]) - digits));
        for (int i = 0; i < 3 && text[i + 1] != '='; i++)
            out[n++] = (unsigned char)(bits >> (16 - 8 * i));
    }
    return n;
}

static void base64_has_the_floats_and_dimensions_are_normalized(void **state) {
    ig_server *s = *state;
    float floats[64];
    unsigned char bytes[300];
    json_t *plain = fake_post(s, EMBED, "{\"input\":[72,105],\"dimensions\":5}", 200);
    json_t *coded = fake_post(
        s, EMBED, "{\"input\":\"Hi\",\"dimensions\":5,\"encoding_format\":\"base64\"}", 200);
    assert_int_equal(decode(text_at(coded, "data.0.embedding"), bytes), 20);
    memcpy(floats, bytes, 20);
    double sum = 0;
    for (size_t i = 0; i < 5; i++) {
        assert_true((float)value(plain, 0, i) == floats[i]);
        sum += (double)floats[i] * (double)floats[i];
    }
    assert_true(fabs(sum - 1) < 1e-5);
    json_decref(plain);
    json_decref(coded);
}

static void inputs_that_cannot_be_embedded_are_refused(void **state) {
    ig_server *s = *state;
    char body[800] = "{\"input\":[\"a\",\"";
    memset(body + strlen(body), 'x', 600);
    strcat(body, "\"]}");
    json_t *r = fake_post(s, EMBED, body, 400);
    assert_string_equal(text_at(r, "error.type"), "exceed_context_size_error");
    assert_int_equal(int_at(r, "error.n_prompt_tokens"), 600);
    assert_int_equal(int_at(r, "error.n_ctx"), FAKE_CONTEXT);
    json_decref(r);
    refused_with(s, EMBED, "{}", "input", "missing");
    refused_with(s, EMBED, "{\"input\":[]}", "input", "0 inputs");
    refused_with(s, EMBED, "{\"input\":\"a\",\"dimensions\":65}", "dimensions", "model has 64");
    refused_with(s, EMBED, "{\"input\":\"a\",\"encoding_format\":\"hex\"}", "encoding_format",
                 "base64");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_SERVER(prompts_come_in_every_form),
        TEST_WITH_SERVER(more_prompts_than_are_in_flight_are_all_answered),
        TEST_WITH_SERVER(legacy_logprobs_cover_the_prompt_with_echo),
        TEST_WITH_SERVER(a_stream_adds_up_to_the_whole_reply),
        TEST_WITH_SERVER(token_ids_are_returned_if_asked_for),
        TEST_WITH_SERVER(prompts_that_are_none_are_refused),
        TEST_WITH_SERVER(a_vector_is_the_same_alone_and_among_others),
        TEST_WITH_SERVER(base64_has_the_floats_and_dimensions_are_normalized),
        TEST_WITH_SERVER(inputs_that_cannot_be_embedded_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
