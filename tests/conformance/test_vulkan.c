/*
 * Every case of every op on the first Vulkan device, against the reference; with
 * the validation layer, where it is installed.  Skipped without a driver.
 */
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/standalone_host.h"
#include "conformance/cases.h"
#include "conformance/harness.h"

extern const ig_backend ig_vulkan_backend;

/* A GPU may take subnormal numbers for 0, and so be wrong by less than this. */
static double least_of(const ig_test_host *host) {
    ig_backend_device *device;
    ig_device_info info = {.struct_size = sizeof info};
    assert_int_equal(ig_vulkan_backend.open(&host->base, 0, &device), IG_OK);
    ig_vulkan_backend.info(device, &info);
    ig_vulkan_backend.close(device);
    return info.device_class == IG_DEVICE_CPU ? 0 : (double)FLT_MIN;
}

static void every_case_agrees_with_the_reference(void **state) {
    (void)state;
    ig_test_host host;
    conformance c;
    ig_test_host_init(&host, 1);
    if (!ig_vulkan_backend.is_available(&host.base)) {
        printf("vulkan: skipped: %s\n", ig_error_text());
        ig_test_host_deinit(&host);
        skip();
    }
    const char *most = getenv("CONFORMANCE_MOST"); /* elements of a case */
    /* Making pipelines takes half the time: once is enough, as threads do nothing else. */
    const conformance_options loudly = {.out = stdout,
                                        .op = getenv("CONFORMANCE_OP"),
                                        .least = least_of(&host),
                                        .one_device = true,
                                        .once = getenv("CONFORMANCE_ONCE") != NULL,
                                        .most_elements = most ? atoll(most) : 0};
    ig_test_host_deinit(&host);
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
