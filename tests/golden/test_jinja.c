/* Templates of our own and what jinja2 makes of them: tests/golden/record templates. */
#include <stdio.h>

#include "../unit/check.h"
#include "text/jinja/jinja.h"

static ig_string_view view_of(const json_t *variables, const char *name) {
    const json_t *text = json_object_get(variables, name);
    return (ig_string_view){json_string_value(text), json_string_length(text)};
}

/* A case is [template, variables, text]: a number, a name, and null where jinja2 refuses. */
static void check_case(const json_t *root, const json_t *one) {
    const size_t number = (size_t)json_integer_value(json_array_get(one, 0));
    const char *name = json_string_value(json_array_get(one, 1));
    const json_t *want = json_array_get(one, 2);
    const json_t *template = json_array_get(json_object_get(root, "templates"), number);
    const json_t *given = json_object_get(json_object_get(root, "variables"), name);
    const ig_jinja_variables variables = {.given = given,
                                          .bos = view_of(given, "bos_token"),
                                          .eos = view_of(given, "eos_token"),
                                          .now = 1783168200};
    ig_jinja_text text = {.allocator = &ig_heap};
    ig_jinja *jinja = NULL;
    const char *source = json_string_value(template);
    assert_non_null(given);
    ig_status status = ig_jinja_parse(&ig_heap, source, json_string_length(template), &jinja);
    if (status == IG_OK) status = ig_jinja_render(jinja, &variables, &text);
    if (status == IG_OK && !json_is_string(want))
        fail_msg("%s\nrenders, which jinja2 refuses", source);
    if (status != IG_OK && json_is_string(want)) fail_msg("%s\n%s", source, ig_error_text());
    if (status == IG_OK && (text.n_bytes != json_string_length(want) ||
                            memcmp(text.bytes, json_string_value(want), text.n_bytes) != 0))
        fail_msg("%s\nrenders\n%.*s\njinja2 renders\n%s", source, (int)text.n_bytes, text.bytes,
                 json_string_value(want));
    ig_jinja_text_deinit(&text);
    ig_jinja_destroy(jinja);
}

static void templates_render_as_jinja2_renders_them(void **state) {
    (void)state;
    json_error_t error;
    json_t *root = json_load_file(TEST_DATA_DIR "/templates/rendered.json", JSON_ALLOW_NUL, &error);
    if (!root) fail_msg("rendered.json: line %d: %s", error.line, error.text);
    const json_t *cases = json_object_get(root, "cases");
    setenv("TZ", "UTC", 1);
    for (size_t i = 0; i < json_array_size(cases); i++) check_case(root, json_array_get(cases, i));
    print_message("%zu templates\n", json_array_size(cases));
    assert_true(json_array_size(cases) > 300);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_render_as_jinja2_renders_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
