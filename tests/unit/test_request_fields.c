/*
 * Every field of a request, by its row: values at and beyond its limits, and of other types; and
 * bodies that are no requests.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/fields.h"
#include "unit/check.h"

/* A body with one field. */
static bool read_value(const ig_field *f, unsigned body, json_t *value, ig_http_error *error) {
    ig_fields fields;
    json_t *object = json_object();
    assert_int_equal(json_object_set_new(object, f->name, value), 0);
    const bool good = ig_fields_read(object, body, NULL, NULL, &fields, error);
    json_decref(object);
    return good;
}

static unsigned body_of(const ig_field *f) { return f->bodies & (~f->bodies + 1); }

static void assert_taken(const ig_field *f, json_t *value) {
    ig_http_error error;
    if (!read_value(f, body_of(f), value, &error)) fail_msg("%s", error.message);
}

/* The error names the field, and what it must be. */
static void assert_refused(const ig_field *f, json_t *value) {
    ig_http_error error;
    char words[160];
    if (read_value(f, body_of(f), value, &error)) fail_msg("%s: a bad value is taken", f->name);
    assert_int_equal(error.code, 400);
    assert_string_equal(error.param, f->name);
    assert_memory_equal(error.message, f->name, strlen(f->name));
    ig_field_describe(f, words, sizeof words);
    if (!f->refusal && !strstr(error.message, words))
        fail_msg("'%s' lacks '%s'", error.message, words);
}

static bool is_number(const ig_field *f) {
    return (f->types & (IG_JSON_INTEGER | IG_JSON_NUMBER)) != 0;
}

static void numbers_have_the_limits_of_their_rows(void **state) {
    int n = 0;
    (void)state;
    for (int i = 0; i < IG_FIELD_COUNT; i++) {
        const ig_field *f = ig_field_row(i);
        if (!is_number(f) || f->refusal) continue;
        assert_true(f->min < f->max);
        n++;
        if (f->types & IG_JSON_INTEGER && f->max < 0x1p62) {
            assert_taken(f, json_integer((json_int_t)f->min));
            assert_taken(f, json_integer((json_int_t)f->max));
            assert_refused(f, json_integer((json_int_t)f->min - 1));
            assert_refused(f, json_integer((json_int_t)f->max + 1));
            assert_refused(f, json_real(f->min + 0.5));
            assert_taken(f, json_real(f->max)); /* JSON has one kind of number */
        } else if (f->types & IG_JSON_NUMBER) {
            assert_taken(f, json_real(f->min));
            assert_taken(f, json_real(f->max));
            assert_taken(f, json_integer((json_int_t)f->max));
            assert_refused(f, json_real(f->min - 0.001));
            assert_refused(f, json_real(f->max + 0.001));
        }
        assert_refused(f, json_real(1e300));
        assert_refused(f, json_string("1"));
        assert_refused(f, json_true());
        if (!isnan(f->standard)) assert_taken(f, json_real(f->standard));
    }
    assert_true(n > 20);
}

static json_t *value_of(unsigned type) {
    switch (type) {
    case IG_JSON_BOOLEAN: return json_true();
    case IG_JSON_INTEGER: return json_integer(1);
    case IG_JSON_NUMBER: return json_real(0.5);
    case IG_JSON_STRING: return json_string("text");
    case IG_JSON_ARRAY: return json_pack("[i]", 1);
    default: return json_pack("{s:i}", "a", 1);
    }
}

static void other_types_are_refused_and_null_is_not_given(void **state) {
    (void)state;
    for (int i = 0; i < IG_FIELD_COUNT; i++) {
        const ig_field *f = ig_field_row(i);
        assert_taken(f, json_null());
        for (unsigned type = 1; type <= IG_JSON_OBJECT && !f->refusal; type <<= 1) {
            const unsigned fits = type == IG_JSON_INTEGER ? type | IG_JSON_NUMBER : type;
            if (f->types & fits) {
                if (!is_number(f)) assert_taken(f, value_of(type));
            } else {
                assert_refused(f, value_of(type));
            }
        }
    }
}

static void long_strings_and_lists_are_refused(void **state) {
    int n = 0;
    (void)state;
    for (int i = 0; i < IG_FIELD_COUNT; i++) {
        const ig_field *f = ig_field_row(i);
        if (is_number(f) || f->refusal || f->max == 0 || f->max > 1e6) continue;
        const size_t most = (size_t)f->max;
        for (size_t count = most; count <= most + 1; count++) {
            json_t *value = NULL;
            if (f->types == IG_JSON_STRING) {
                char *text = malloc(count + 1);
                memset(text, 'a', count);
                value = json_stringn(text, count);
                free(text);
            } else if (f->types & IG_JSON_ARRAY) {
                value = json_array();
                for (size_t k = 0; k < count; k++) json_array_append_new(value, json_integer(1));
            } else {
                continue;
            }
            n++;
            if (count <= most)
                assert_taken(f, value);
            else
                assert_refused(f, value);
        }
    }
    assert_true(n >= 16);
}

static void refused_fields_say_why_unless_they_are_empty(void **state) {
    ig_http_error error;
    (void)state;
    for (int i = 0; i < IG_FIELD_COUNT; i++) {
        const ig_field *f = ig_field_row(i);
        if (!f->refusal) continue;
        assert_taken(f, json_false());
        assert_taken(f, json_string(""));
        assert_taken(f, json_array());
        assert_taken(f, json_object());
        assert_false(read_value(f, body_of(f), json_string("x"), &error));
        assert_string_equal(error.type, "not_supported_error");
        assert_non_null(strstr(error.message, f->refusal));
    }
}

static void rows_are_complete_and_names_unique_in_a_body(void **state) {
    (void)state;
    for (int i = 0; i < IG_FIELD_COUNT; i++) {
        const ig_field *f = ig_field_row(i);
        assert_non_null(f->name);
        assert_true(f->types != 0 && f->bodies != 0);
        assert_true(f->refusal || f->summary[0]);
        for (int k = 0; k < i; k++)
            if (ig_field_row(k)->bodies & f->bodies)
                assert_string_not_equal(ig_field_row(k)->name, f->name);
    }
}

/* ---- defaults and unknown fields ---- */

static void count_name(void *user, const char *name) {
    assert_string_equal(name, "foo");
    ++*(int *)user;
}

static void values_and_defaults_are_read(void **state) {
    ig_http_error error;
    ig_fields f;
    int n = 0;
    (void)state;
    json_t *body = json_pack("{s:f,s:b,s:i,s:s,s:n}", "temperature", 0.25, "echo", 1, "foo", 1,
                             "model", "m", "n");
    assert_true(ig_fields_read(body, IG_BODY_COMPLETION, count_name, &n, &f, &error));
    assert_int_equal(n, 1);
    assert_true(ig_fields_number(&f, IG_FIELD_TEMPERATURE) == 0.25);
    assert_true(ig_fields_bool(&f, IG_FIELD_ECHO));
    assert_true(ig_fields_bool(&f, IG_FIELD_CACHE_PROMPT));
    assert_false(ig_fields_bool(&f, IG_FIELD_STREAM));
    assert_int_equal(ig_fields_int(&f, IG_FIELD_N), 1);
    assert_false(ig_fields_given(&f, IG_FIELD_N));
    assert_true(isnan(ig_fields_number(&f, IG_FIELD_TOP_P)));
    assert_string_equal(ig_fields_text(&f, IG_FIELD_MODEL), "m");
    assert_null(ig_fields_text(&f, IG_FIELD_CACHE_SALT));
    json_decref(body);
}

/* ---- bodies ---- */

static void assert_no_body(const char *text, const char *words) {
    ig_http_error error = {0};
    json_t *value = NULL;
    if (ig_body_parse(text, strlen(text), &value, &error)) fail_msg("%s is taken", text);
    assert_int_equal(error.code, 400);
    if (!strstr(error.message, words)) fail_msg("'%s' lacks '%s'", error.message, words);
}

static char *nested(int depth) {
    char *text = malloc((size_t)depth * 6 + 2), *at = text;
    for (int i = 0; i < depth; i++) at += sprintf(at, "{\"a\":");
    *at++ = '1';
    for (int i = 0; i < depth; i++) *at++ = '}';
    *at = '\0';
    return text;
}

static void bodies_that_are_no_objects_are_refused(void **state) {
    ig_http_error error;
    json_t *value;
    (void)state;
    assert_no_body("", "empty");
    assert_no_body("[]", "array");
    assert_no_body("1", "not JSON");
    assert_no_body("{\"a\":1", "not JSON");
    assert_no_body("{\"a\":NaN}", "not JSON");
    assert_no_body("{\"a\":1e309}", "not JSON");
    assert_no_body("{\"a\":1,\"a\":2}", "not JSON");
    assert_no_body("{\"a\":\"\xff\"}", "not JSON");
    assert_no_body("{\"a\":\"\\ud800\"}", "not JSON");
    assert_no_body("{} {}", "not JSON");
    char *deep = nested(65);
    assert_no_body(deep, "65 deep");
    free(deep);
    deep = nested(64);
    assert_true(ig_body_parse(deep, strlen(deep), &value, &error));
    json_decref(value);
    free(deep);
    const char *brackets =
        "{\"a\":\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
        "[[[\\\"[[\"}";
    assert_true(ig_body_parse(brackets, strlen(brackets), &value, &error));
    json_decref(value);
}

static void messages_lose_their_source_lines(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"", ""},
        {"matmul: [4,3] x [2,5] (matmul.c:41)", "matmul: [4,3] x [2,5]"},
        {"m.gguf: cut off (gguf_read.c:7): not loaded (models.c:12)",
         "m.gguf: cut off: not loaded"},
        {"2 of 3 (a.c:x) (b.c:) (c.c:1", "2 of 3 (a.c:x) (b.c:) (c.c:1"},
    };
    char words[80];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ig_error_words_of(rows[i].text, words, sizeof words);
        assert_string_equal(words, rows[i].words);
    }
    ig_error_words_of(rows[1].text, words, 7);
    assert_string_equal(words, "matmul");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_the_limits_of_their_rows),
        cmocka_unit_test(other_types_are_refused_and_null_is_not_given),
        cmocka_unit_test(long_strings_and_lists_are_refused),
        cmocka_unit_test(refused_fields_say_why_unless_they_are_empty),
        cmocka_unit_test(rows_are_complete_and_names_unique_in_a_body),
        cmocka_unit_test(values_and_defaults_are_read),
        cmocka_unit_test(bodies_that_are_no_objects_are_refused),
        cmocka_unit_test(messages_lose_their_source_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
