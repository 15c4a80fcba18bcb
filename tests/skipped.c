/*
 * A program in which every case was skipped ends with 77, which CTest counts as skipped.
 *
 * Linked to every test program with --wrap: cmocka counts skipped cases for its report alone, and
 * returns how many failed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SKIPPED = 77 };

static size_t n_skipped;

/* NOLINTBEGIN(readability-identifier-naming): the linker's names for --wrap. */
void __real__skip(const char *file, int line);
void __wrap__skip(const char *file, int line);
int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);

void __wrap__skip(const char *file, int line) {
    n_skipped++;
    __real__skip(file, line);
}

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n,
                                   CMFixtureFunction setup, CMFixtureFunction teardown) {
    n_skipped = 0;
    const int failed = __real__cmocka_run_group_tests(name, tests, n, setup, teardown);
    return failed == 0 && n_skipped == n ? SKIPPED : failed;
}
/* NOLINTEND(readability-identifier-naming) */
