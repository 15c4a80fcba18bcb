/* Routes: paths, methods and keys; models, tokens and templates; messages as the template has them.
 */
#include "unit/serve_fake.h"

/* ---- paths ---- */

static void paths_have_the_alias_with_and_without_v1(void **state) {
    ig_server *s = *state;
    static const char *const paths[] = {"/tokenize", "/v1/tokenize"};
    for (size_t i = 0; i < 2; i++) json_decref(fake_post(s, paths[i], "{\"content\":\"a\"}", 200));
    json_decref(fake_json(s, "GET", "/models", "", 200));
    json_decref(fake_json(s, "HEAD", "/v1/models", "", 200));
    json_decref(fake_json(s, "GET", "/v2/models", "", 404));
    json_decref(fake_json(s, "GET", "/v1/v1/models", "", 404));
    json_decref(fake_json(s, "GET", "", "", 404));
}

static void another_method_is_405_with_those_allowed(void **state) {
    ig_server *s = *state;
    ig_exchange *x = fake_send(s, "GET", "/v1/completions", "");
    assert_int_equal(x->code, 405);
    assert_string_equal(x->header[0][0], "Allow");
    assert_string_equal(x->header[0][1], "POST");
    fake_free(x);
}

static void other_dialects_are_501_with_words(void **state) {
    ig_server *s = *state;
    static const char *const paths[] = {"/v1/responses", "/v1/messages",          "/api/chat",
                                        "/api/generate", "/v1/load_lora_adapter", "/completion",
                                        "/embedding"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        ig_exchange *x = fake_exchange("POST", paths[i], "{}");
        x->request.admin = true;
        ig_route_dispatch(s, x);
        assert_int_equal(x->code, 501);
        assert_non_null(strstr(x->body, "not_supported_error"));
        assert_non_null(strstr(x->body, "not supported yet"));
        fake_free(x);
    }
    json_decref(fake_json(s, "GET", "/api/tags", "", 501));
    json_decref(fake_json(s, "GET", "/models/sse", "", 501));
    json_decref(fake_json(s, "GET", "/", "", 501));
}

static void admin_routes_need_an_admin_key(void **state) {
    ig_server *s = *state;
    json_t *r = fake_post(s, "/v1/load_lora_adapter", "{}", 403);
    assert_string_equal(text_at(r, "error.type"), "permission_error");
    json_decref(r);
    for (size_t i = 0; ig_route_row(i); i++) {
        const ig_http_route *row = ig_route_row(i);
        assert_true(row->path[0] == '/' && row->summary[0]);
        assert_true((row->handler != NULL) != (row->missing != NULL));
        assert_int_equal(ig_route_is_public(row->method, row->path), row->key == IG_KEY_PUBLIC);
    }
    assert_false(ig_route_is_public("GET", "/nowhere"));
}

/* ---- models ---- */

static void models_are_listed_and_found_by_ids_with_slashes(void **state) {
    ig_server *s = *state;
    json_t *r = fake_json(s, "GET", "/v1/models", "", 200);
    assert_string_equal(text_at(r, "object"), "list");
    assert_string_equal(text_at(r, "data.0.id"), "org/tiny");
    assert_string_equal(text_at(r, "data.0.object"), "model");
    assert_int_equal(int_at(r, "data.0.created"), 1700000000);
    assert_int_equal(int_at(r, "data.0.max_model_len"), FAKE_CONTEXT);
    assert_int_equal(int_at(r, "data.0.meta.n_ctx_train"), FAKE_CONTEXT);
    assert_string_equal(text_at(r, "data.0.status.value"), "loaded");
    json_decref(r);
    r = fake_json(s, "GET", "/v1/models/org/tiny", "", 200);
    assert_string_equal(text_at(r, "id"), "org/tiny");
    json_decref(r);
    json_decref(fake_json(s, "GET", "/models/org/tiny", "", 200));
    r = fake_json(s, "GET", "/v1/models/org", "", 404);
    assert_string_equal(text_at(r, "error.code"), "model_not_found");
    json_decref(r);
}

static void a_model_without_the_head_does_not_rank(void **state) {
    ig_server *s = *state;
    static const char *const paths[] = {"/rerank", "/v1/rerank", "/reranking", "/v2/rerank"};
    for (size_t i = 0; i < 4; i++)
        json_decref(fake_post(s, paths[i], "{\"query\":\"a\",\"documents\":[\"b\"]}", 501));
    json_decref(fake_post(s, "/rerank", "{\"query\":\"a\"}", 400));
    json_decref(fake_post(s, "/rerank", "{\"query\":\"a\",\"documents\":[1]}", 400));
}

/* ---- tokens ---- */

static void text_becomes_tokens_and_text_again(void **state) {
    ig_server *s = *state;
    json_t *r = fake_post(s, "/tokenize", "{\"content\":\"H\xc3\xa4\"}", 200);
    assert_int_equal(int_at(r, "count"), 3);
    assert_int_equal(int_at(r, "tokens.0"), 'H');
    assert_int_equal(int_at(r, "tokens.1"), 0xc3);
    assert_int_equal(int_at(r, "max_model_len"), FAKE_CONTEXT);
    json_decref(r);
    r = fake_post(s, "/tokenize", "{\"content\":\"H\xc3\xa4\",\"with_pieces\":true}", 200);
    assert_string_equal(text_at(r, "tokens.0.piece"), "H");
    assert_int_equal(int_at(r, "tokens.1.id"), 0xc3);
    assert_int_equal(int_at(r, "tokens.1.piece.0"), 0xc3);
    json_decref(r);
    r = fake_post(s, "/tokenize",
                  "{\"prompt\":\"Hi\",\"add_special_tokens\":false,\"return_token_strs\":true}",
                  200);
    assert_int_equal(int_at(r, "count"), 2);
    assert_string_equal(text_at(r, "token_strs.0"), "H");
    assert_string_equal(text_at(r, "token_strs.1"), "i");
    json_decref(r);
    r = fake_post(s, "/detokenize", "{\"tokens\":[72,195,164]}", 200);
    assert_string_equal(text_at(r, "content"), "H\xc3\xa4");
    assert_string_equal(text_at(r, "prompt"), "H\xc3\xa4");
    json_decref(r);
    json_decref(fake_post(s, "/tokenize", "{}", 400));
    json_decref(fake_post(s, "/tokenize", "{\"content\":\"a\",\"prompt\":\"b\"}", 400));
    json_decref(fake_post(s, "/detokenize", "{\"tokens\":[\"a\"]}", 400));
    json_decref(fake_post(s, "/detokenize", "{\"tokens\":[-1]}", 400));
}

static void rendered_ids_are_those_of_the_reply(void **state) {
    ig_server *s = *state;
    const char *chat = "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]";
    char body[200];
    snprintf(body, sizeof body, "{%s}", chat);
    json_t *ids = fake_post(s, "/v1/chat/completions/render", body, 200);
    json_t *tokens = fake_post(s, "/tokenize", body, 200);
    assert_true(json_equal(part(ids, "token_ids"), part(tokens, "tokens")));
    snprintf(body, sizeof body, "{%s,\"max_tokens\":1,\"return_token_ids\":true}", chat);
    json_t *reply = fake_post(s, "/v1/chat/completions", body, 200);
    assert_true(json_equal(part(ids, "token_ids"), part(reply, "prompt_token_ids")));
    json_decref(reply);
    json_decref(tokens);
    json_decref(ids);
    ids = fake_post(s, "/v1/completions/render", "{\"prompt\":\"Hi\"}", 200);
    assert_int_equal(json_array_size(part(ids, "token_ids")), 2);
    json_decref(ids);
}

/* ---- messages ---- */

static void assert_prompt(ig_server *s, const char *body, const char *want) {
    json_t *r = fake_post(s, "/apply-template", body, 200);
    assert_string_equal(text_at(r, "prompt"), want);
    json_decref(r);
}

static void messages_are_rendered_by_the_template(void **state) {
    ig_server *s = *state;
    assert_prompt(s,
                  "{\"messages\":[{\"role\":\"developer\",\"content\":\"S\"},{\"role\":\"user\","
                  "\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":"
                  "\"b\"}],\"name\":\"Al\"}]}",
                  "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na\n\nb<|im_end|>\n"
                  "<|im_start|>assistant\n");
    assert_prompt(s,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                  "\"add_generation_prompt\":false}",
                  "<|im_start|>user\na<|im_end|>\n");
    assert_prompt(s,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
                  "\"content\":\"be\"}],\"continue_final_message\":true}",
                  "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nbe");
}

static ig_server *open_jinja(const char *text) { return fake_open(text, NULL); }

static void several_system_messages_are_joined_where_the_template_refuses(void **state) {
    (void)state;
    ig_server *s =
        open_jinja("{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
                   "{{ raise_exception('System message must be at the beginning') }}{% endif %}"
                   "[{{ m.role }}:{{ m.content }}]{% endfor %}");
    assert_prompt(s,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"system\","
                  "\"content\":\"S\"},{\"role\":\"user\",\"content\":\"b\"},{\"role\":"
                  "\"developer\",\"content\":\"T\"}]}",
                  "[system:S\n\nT][user:a][user:b]");
    fake_close(s);
    s = open_jinja("{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}");
    assert_prompt(s,
                  "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"system\","
                  "\"content\":\"T\"}]}",
                  "[system:S][system:T]");
    fake_close(s);
}

static void errors_of_a_template_are_400_with_its_words(void **state) {
    (void)state;
    ig_server *s = open_jinja("{% for m in messages %}{{ m.content }}{% endfor %}"
                              "{{ raise_exception('roles must alternate') }}");
    json_t *r = fake_post(s, "/v1/chat/completions",
                          "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", 400);
    assert_non_null(strstr(text_at(r, "error.message"), "roles must alternate"));
    assert_null(strstr(text_at(r, "error.message"), ".c:"));
    json_decref(r);
    fake_close(s);
}

static void tools_and_calls_reach_the_template(void **state) {
    (void)state;
    ig_server *s =
        open_jinja("{% if tools %}T{{ tools[0].function.name }}{% endif %}{{ effort }}"
                   "{% for m in messages %}[{{ m.role }}:{{ m.content }}"
                   "{% if m.reasoning_content %}~{{ m.reasoning_content }}{% endif %}"
                   "{% if m.tool_call_id %}#{{ m.tool_call_id }}{% endif %}"
                   "{% for c in m.tool_calls %}{{ c.function.name }}="
                   "{% if c.function.arguments is string %}'{{ c.function.arguments }}'{% else %}"
                   "{{ c.function.arguments.x }}{% endif %}{% endfor %}]{% endfor %}");
    const char *body =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
        "null,\"reasoning\":\"hm\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\","
        "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":3}\"}},{\"function\":{\"name\":"
        "\"g\",\"arguments\":\"not JSON\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"1\","
        "\"content\":\"4\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
        "\"chat_template_kwargs\":{\"effort\":\"E\"},\"tool_choice\":\"%s\"}";
    char text[800];
    snprintf(text, sizeof text, body, "auto");
    assert_prompt(s, text, "TfE[user:a][assistant:~hmf=3g='not JSON'][tool:4#1]");
    snprintf(text, sizeof text, body, "none");
    assert_prompt(s, text, "E[user:a][assistant:~hmf=3g='not JSON'][tool:4#1]");
    fake_close(s);
}

static void thoughts_never_reach_the_content(void **state) {
    (void)state;
    ig_server *s = open_jinja("{{ messages[0].content }}<think>\n");
    const char *body = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":4,"
                       "\"temperature\":0,\"logit_bias\":{\"b\":100},\"reasoning_format\":\"%s\","
                       "\"stream\":%s}";
    static const struct {
        const char *format, *content, *reasoning_content, *reasoning;
    } rows[] = {
        {"both", "", "bbbb", "bbbb"}, {"deepseek", "", "bbbb", NULL}, {"none", "bbbb", NULL, NULL}};
    for (size_t i = 0; i < 3; i++) {
        char text[300];
        snprintf(text, sizeof text, body, rows[i].format, "false");
        json_t *r = fake_post(s, "/v1/chat/completions", text, 200);
        json_t *m = part(r, "choices.0.message");
        assert_string_equal(text_at(m, "content"), rows[i].content);
        for (int k = 0; k < 2; k++) {
            const char *want = k ? rows[i].reasoning : rows[i].reasoning_content;
            const char *got =
                json_string_value(json_object_get(m, k ? "reasoning" : "reasoning_content"));
            assert_true(want ? got && strcmp(got, want) == 0 : !got);
        }
        if (rows[i].reasoning_content)
            assert_int_equal(int_at(r, "usage.completion_tokens_details.reasoning_tokens"), 4);
        json_decref(r);
        snprintf(text, sizeof text, body, rows[i].format, "true");
        fake_events e = fake_stream(s, "/v1/chat/completions", text);
        const char *name = rows[i].reasoning_content ? "reasoning_content" : "content";
        for (int k = 1; k <= 4; k++) {
            assert_string_equal(text_at(part(e.at[k], "choices.0.delta"), name), "b");
            if (rows[i].reasoning_content)
                assert_null(json_object_get(part(e.at[k], "choices.0.delta"), "content"));
        }
        free_events(&e);
    }
    fake_close(s);
}

/* ---- pages ---- */

static const char page[] = PROJECT_DIR "/docs/server.md", api[] = PROJECT_DIR "/docs/openapi.json";

static char *read_text(const char *path) {
    char *text = calloc(1, 1 << 20);
    FILE *file = fopen(path, "r");
    assert_non_null(text);
    if (!file) fail_msg("%s cannot be read: run test_routes --write", path);
    text[fread(text, 1, (1 << 20) - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void the_page_has_the_tables(void **state) {
    ig_out out = {0};
    (void)state;
    char *text = read_text(page), *tables = strstr(text, "## Routes\n");
    ig_routes_markdown(&out);
    assert_false(out.failed);
    if (!tables || strlen(tables) != out.n_bytes || memcmp(tables, out.bytes, out.n_bytes) != 0)
        fail_msg("%s has not the tables of now: run test_routes --write", page);
    ig_out_deinit(&out);
    free(text);
}

static json_t *openapi(void) {
    ig_out out = {0};
    json_error_t error;
    ig_routes_openapi(&out);
    json_t *json = json_loadb(out.bytes, out.n_bytes, JSON_REJECT_DUPLICATES, &error);
    if (!json) fail_msg("%s at %d", error.text, error.position);
    ig_out_deinit(&out);
    return json;
}

static void the_description_has_every_route_and_field(void **state) {
    char *text = read_text(api);
    json_t *now = openapi(), *kept = json_loads(text, 0, NULL);
    (void)state;
    for (size_t i = 0; ig_route_row(i); i++) {
        const ig_http_route *r = ig_route_row(i);
        if (strchr(r->path, '*')) continue;
        assert_non_null(json_object_get(part(now, "paths"), r->path));
    }
    assert_true(json_number_value(part(now, "components.schemas.ChatCompletionRequest.properties."
                                            "temperature.maximum")) == 10);
    if (!json_equal(now, kept)) fail_msg("%s is not of now: run test_routes --write", api);
    json_decref(now);
    json_decref(kept);
    free(text);
}

/* What precedes the tables is kept. */
static int write_pages(void) {
    ig_out out = {0};
    char *text = read_text(page), *tables = strstr(text, "## Routes\n");
    json_t *json = openapi();
    if (tables) *tables = '\0';
    ig_routes_markdown(&out);
    FILE *file = fopen(page, "w");
    const bool good = file && !out.failed && fputs(text, file) >= 0 &&
                      fwrite(out.bytes, 1, out.n_bytes, file) == out.n_bytes && fclose(file) == 0 &&
                      json_dump_file(json, api, JSON_INDENT(1)) == 0;
    json_decref(json);
    ig_out_deinit(&out);
    free(text);
    return !good;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--write") == 0) return write_pages();
    const struct CMUnitTest tests[] = {
        TEST_WITH_SERVER(paths_have_the_alias_with_and_without_v1),
        TEST_WITH_SERVER(another_method_is_405_with_those_allowed),
        TEST_WITH_SERVER(other_dialects_are_501_with_words),
        TEST_WITH_SERVER(admin_routes_need_an_admin_key),
        TEST_WITH_SERVER(models_are_listed_and_found_by_ids_with_slashes),
        TEST_WITH_SERVER(a_model_without_the_head_does_not_rank),
        TEST_WITH_SERVER(text_becomes_tokens_and_text_again),
        TEST_WITH_SERVER(rendered_ids_are_those_of_the_reply),
        TEST_WITH_SERVER(messages_are_rendered_by_the_template),
        cmocka_unit_test(several_system_messages_are_joined_where_the_template_refuses),
        cmocka_unit_test(errors_of_a_template_are_400_with_its_words),
        cmocka_unit_test(tools_and_calls_reach_the_template),
        cmocka_unit_test(thoughts_never_reach_the_content),
        cmocka_unit_test(the_page_has_the_tables),
        cmocka_unit_test(the_description_has_every_route_and_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
