/* `ingot stories`: the requested amount, reproducible, as text and as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "program.h"

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)

static void a_megabyte_comes_without_asking(void **state) {
    (void)state;
    program_result result = RUN("stories");
    assert_int_equal(result.code, 0);
    assert_true(strlen(result.out) >= 1 << 20);
    assert_non_null(strstr(result.err, "stories: "));
    program_free(&result);
}

static void equal_seeds_print_equal_stories(void **state) {
    (void)state;
    program_result a = RUN("stories", "-q", "--bytes", "4K", "--seed", "7");
    program_result b = RUN("stories", "-q", "--bytes", "4K", "-s", "7");
    program_result c = RUN("stories", "-q", "--bytes", "4K", "--seed", "8");
    assert_int_equal(a.code, 0);
    assert_string_equal(a.err, "");
    assert_string_equal(a.out, b.out);
    assert_string_not_equal(a.out, c.out);
    program_free(&a);
    program_free(&b);
    program_free(&c);
}

static void json_has_the_stories_one_by_one(void **state) {
    (void)state;
    program_result text = RUN("stories", "--bytes", "2K"),
                   json = RUN("stories", "--json", "--bytes", "2K");
    json_t *root = json_loads(json.out, 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "schema")), "ingot.stories.v1");
    assert_int_equal(json_integer_value(json_object_get(root, "bytes")), strlen(text.out));
    const json_t *stories = json_object_get(root, "stories");
    assert_int_equal(json_integer_value(json_object_get(root, "count")), json_array_size(stories));
    const char *first = json_string_value(json_array_get(stories, 0));
    assert_memory_equal(text.out, first, strlen(first));
    assert_memory_equal(text.out + strlen(first), "\n\n", 2);
    json_decref(root);
    program_free(&text);
    program_free(&json);
}

static void invalid_sizes_are_refused(void **state) {
    (void)state;
    static const char *const sizes[] = {"0", "300M", "much"};
    for (int i = 0; i < 3; i++) {
        program_result result = RUN("stories", "--bytes", sizes[i]);
        assert_int_equal(result.code, 2);
        assert_string_equal(result.out, "");
        assert_non_null(strstr(result.err, "--bytes"));
        program_free(&result);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_megabyte_comes_without_asking),
        cmocka_unit_test(equal_seeds_print_equal_stories),
        cmocka_unit_test(json_has_the_stories_one_by_one),
        cmocka_unit_test(invalid_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
