/*
 * Every case of every op on the first Vulkan device, against the reference; with
 * the validation layer, where it is installed.  Skipped without a driver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cases.h"
#include "harness.h"
#include "host.h"
#include "trial.h"

extern const ig_backend ig_vulkan_backend;

static void skip_without_a_device(void) {
    test_host host;
    host_init(&host, 1);
    const bool available = ig_vulkan_backend.is_available(&host.base);
    host_deinit(&host);
    if (available) return;
    printf("vulkan: skipped: %s\n", ig_error_text());
    skip();
}

static void every_case_agrees_with_the_reference(void **state) {
    (void)state;
    skip_without_a_device();
    const conformance_options loudly = {.out = stdout, .op = getenv("CONFORMANCE_OP")};
    conformance c;
    assert_int_equal(conformance_run(&ig_vulkan_backend, loudly, &c), IG_OK);
    assert_int_equal(c.all.failed, 0);
    assert_int_equal(c.leaked, 0);
    assert_int_equal(c.warnings, 0); /* of the validation layer */
    if (loudly.op) return;
    for (int op = 0; op < IG_OP_COUNT; op++) {
        if (op == IG_OP_CUSTOM || ig_op_find((uint32_t)op)->traits & IG_VIEWS) continue;
        if (c.at[op][op == IG_OP_GROUP_ROWS ? IG_I32 : IG_F32].passed == 0)
            fail_msg("%s does not run", ig_op_name((uint32_t)op));
    }
    assert_int_equal(c.claimed & ~c.shown, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_agrees_with_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
