/*
 * Any bytes as the body of a request: its fields by the rows of every body, its messages by a
 * template, and its text as a reply with thoughts.
 *
 * What must hold: what is refused is refused with 400 and words; errors and replies are JSON again;
 * thoughts and answer are the same in one piece and byte by byte.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "server/chat_prompt.h"
#include "server/reasoning.h"

/* Nothing is sent here. */
void ig_exchange_add_header(ig_exchange *x, const char *name, const char *value) {
    (void)x, (void)name, (void)value;
    abort();
}
void ig_exchange_reply(ig_exchange *x, int code, const char *content_type, const void *bytes,
                       size_t n_bytes) {
    (void)x, (void)code, (void)content_type, (void)bytes, (void)n_bytes;
    abort();
}

static void require_json(ig_out *out) {
    json_t *json = json_loadb(out->bytes, out->n_bytes, JSON_ALLOW_NUL, NULL);
    REQUIRE(json);
    json_decref(json);
    ig_out_deinit(out);
}

static void check_error(const ig_http_error *error) {
    ig_out out = {0};
    REQUIRE(error->code == 400 && error->message[0]);
    ig_http_error_write(error, &out);
    require_json(&out);
}

static void render(const ig_fields *fields) {
    static ig_chat_template *templates[2];
    static const char jinja[] =
        "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
        "{{ raise_exception('no') }}{% endif %}{{ m.role }}{{ m.content }}"
        "{{ m.tool_calls | tojson }}{% endfor %}{{ tools | tojson }}";
    if (!templates[0]) {
        REQUIRE(ig_chat_template_builtin("chatml", NULL, &templates[0]) == IG_OK);
        REQUIRE(ig_chat_template_parse(jinja, strlen(jinja), NULL, &templates[1]) == IG_OK);
    }
    for (int i = 0; i < 2; i++) {
        const ig_served served = {.id = "m", .chat = templates[i]};
        ig_http_error error = {0};
        ig_out text = {0}, out = {0};
        if (ig_chat_prompt(&served, fields, NULL, &text, &error)) {
            ig_out_open(&out, NULL, '{');
            ig_out_bytes(&out, "prompt", text.bytes, text.n_bytes);
            ig_out_close(&out, '}');
            require_json(&out);
        } else {
            check_error(&error);
        }
        ig_out_deinit(&text);
    }
}

static bool is_same(const ig_out *a, const ig_out *b) {
    return a->n_bytes == b->n_bytes &&
           (a->n_bytes == 0 || memcmp(a->bytes, b->bytes, a->n_bytes) == 0);
}

static void split(const char *text, size_t n) {
    ig_out thoughts[2] = {{0}}, answer[2] = {{0}};
    ig_reasoning whole = {0}, pieces = {0};
    ig_reasoning_feed(&whole, text, n, &thoughts[0], &answer[0]);
    ig_reasoning_end(&whole, &thoughts[0], &answer[0]);
    for (size_t i = 0; i < n; i++)
        ig_reasoning_feed(&pieces, text + i, 1, &thoughts[1], &answer[1]);
    ig_reasoning_end(&pieces, &thoughts[1], &answer[1]);
    REQUIRE(is_same(&thoughts[0], &thoughts[1]) && is_same(&answer[0], &answer[1]));
    for (int i = 0; i < 2; i++) {
        ig_out_deinit(&thoughts[i]);
        ig_out_deinit(&answer[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ig_http_error error = {0};
    ig_fields fields;
    json_t *body = NULL;
    split((const char *)data, size);
    if (!ig_body_parse((const char *)data, size, &body, &error)) {
        check_error(&error);
        return 0;
    }
    for (int bit = 0; bit < IG_BODIES; bit++) {
        if (!ig_fields_read(body, 1u << bit, NULL, NULL, &fields, &error))
            check_error(&error);
        else if (1u << bit == IG_BODY_TEMPLATE)
            render(&fields);
    }
    json_decref(body);
    return 0;
}
