/* A program whose only case is skipped: unit.skipped expects it to end with 77. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_case_that_is_skipped(void **state) {
    (void)state;
    skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_case_that_is_skipped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
