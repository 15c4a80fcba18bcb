/* Numbers of `ingot bench`: what was not measured is not told. */
#include <math.h>

#include "cli/bench/cmd_bench.h"
#include "unit/check.h"

static void a_cost_that_is_not_above_zero_is_not_known(void **state) {
    (void)state;
    static const double unknown[] = {0, -0.04, -7.6, NAN};
    char text[BENCH_COST_BYTES];
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_true(json_is_null(bench_cost_json(unknown[i])));
        assert_string_equal(bench_cost_text(unknown[i], text), "-");
    }
    json_t *cost = bench_cost_json(14.96);
    assert_true(json_real_value(cost) == 14.96);
    assert_string_equal(bench_cost_text(14.96, text), "15.0");
    json_decref(cost);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cost_that_is_not_above_zero_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
