/* results.h - parses the output of --json. Include it after cmocka.h. */
#ifndef IG_TESTS_RESULTS_H
#define IG_TESTS_RESULTS_H

#include <jansson.h>

#include "program.h"

/* The JSON of a successful run; frees the result. */
static inline json_t *json_of(program_result result, const char *schema) {
    if (result.code != 0) fail_msg("exit %d: %s", result.code, result.err);
    json_error_t error;
    json_t *root = json_loads(result.out, 0, &error);
    if (!root) fail_msg("%s in '%s'", error.text, result.out);
    assert_string_equal(json_string_value(json_object_get(root, "schema")), schema);
    program_free(&result);
    return root;
}

static inline double real_at(const json_t *root, const char *object, const char *key) {
    const json_t *value = json_object_get(json_object_get(root, object), key);
    if (!json_is_number(value)) fail_msg("%s.%s is not a number", object, key);
    return json_number_value(value);
}

#endif
