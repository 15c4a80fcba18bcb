/* checks.h - common checks of a program run. Include it after cmocka.h. */
#ifndef IG_TESTS_CHECKS_H
#define IG_TESTS_CHECKS_H

#include <string.h>

#include "program.h"

/* Checks the exit code and a phrase on stderr, with nothing on stdout. Frees the result. */
static inline void check_error(program_result result, int code, const char *words) {
    if (result.code != code || !strstr(result.err, words))
        fail_msg("exit %d (wanted %d), stderr '%s' (wanted '%s')", result.code, code, result.err,
                 words);
    assert_string_equal(result.out, "");
    program_free(&result);
}

#endif
